"""The load curve of now as the chain that it stands for, blocks and springs, over faint earlier ones."""

from collections.abc import Sequence

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from dynascope.live.panels import GREY, HIGH, PALETTE, empty_figure, name_places

_TEETH, _SEEN = 6, 40  # of a spring; layers up to which they are seen


def springs(loads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of a zigzag from block to block.

    >>> springs(np.array([1.0, 0.0]))[0][[0, -1]].tolist()
    [0.0, 1.0]
    """
    if len(loads) < 2:
        return np.zeros(0), np.zeros(0)
    teeth = _TEETH if len(loads) <= _SEEN else 1
    share = np.concatenate([[0.0], (np.arange(2 * teeth) + 0.5) / (2 * teeth) * 0.6 + 0.2, [1.0]])
    swing = np.concatenate([[0.0], np.tile([1.0, -1.0], teeth), [0.0]])
    places = np.arange(len(loads) - 1)[:, None] + share  # (spring, point)
    with np.errstate(all="ignore"):  # loads may be anything
        wide = np.ptp(loads[np.isfinite(loads)]) if np.isfinite(loads).any() else 0.0
        height = loads[:-1, None] + np.diff(loads)[:, None] * share + 0.035 * wide * swing
    return places.ravel(), height.ravel()


class Chain:
    """A figure, and what is put into it."""

    def __init__(self) -> None:
        self._earlier = ColumnDataSource({"xs": [], "ys": []})
        self._kept: list[np.ndarray] = []
        self._springs = ColumnDataSource({"x": [], "y": []})
        self.blocks = ColumnDataSource({"x": [], "y": [], "name": [], "work": []})
        self.figure = self._draw()

    def _draw(self) -> figure:
        plot = empty_figure("load curve, as a chain of blocks and springs", up="load D")
        plot.height = HIGH
        plot.multi_line("xs", "ys", source=self._earlier, color=GREY, alpha=0.45)
        plot.line("x", "y", source=self._springs, color=PALETTE[0], line_width=1.5)
        blocks = plot.scatter("x", "y", source=self.blocks, marker="square", size=14, color=PALETTE[1])
        self._block = blocks.glyph
        tips = [("layer", "@name"), ("load", "@y{0.000}"), ("work", "@work{0.000}")]
        plot.add_tools(HoverTool(tooltips=tips, renderers=[blocks]))
        plot.xgrid.visible = False
        return plot

    def name_layers(self, names: Sequence[str]) -> None:
        """Write the names of layers at the axis, and make blocks so small that springs are seen between them."""
        name_places(self.figure.xaxis[0], names, slope=0.7)
        self._block.size = float(np.clip(140 / max(1, len(names)), 3, 14))

    def show(self, names: Sequence[str], loads: np.ndarray, earlier: Sequence[np.ndarray]) -> None:
        """Put the curve of now, and the earlier ones where they changed."""
        if list(map(id, earlier)) != list(map(id, self._kept)):
            self._kept = list(earlier)
            self._earlier.data = {"xs": [list(range(len(each))) for each in earlier], "ys": [*map(list, earlier)]}
        x, y = springs(loads)
        self._springs.data = {"x": x, "y": y}
        work = np.concatenate([[np.nan], -np.diff(loads)])[: len(loads)]
        self.blocks.data = {"x": np.arange(len(loads)), "y": loads, "name": list(names)[: len(loads)], "work": work}
