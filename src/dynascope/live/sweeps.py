"""A sweep as a phase diagram: one cell for each configuration, and the curve of the cell under the pointer."""

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr
from bokeh.document import Document
from bokeh.layouts import row
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    CustomJS,
    HoverTool,
    LayoutDOM,
    LinearColorMapper,
    PlainText,
    Select,
)
from bokeh.plotting import figure

from dynascope import sweep
from dynascope.live.panels import GREY, GRID, HIGH, PALETTE, WIDGET, as_text, empty_figure, name_places
from dynascope.live.sending import later, remember
from dynascope.live.shelf import TABLE
from dynascope.monitor.tables import short
from dynascope.records import load

_MOST = 1 << 28  # bytes of a table that is shown
_REPEATED, _LAST = ("seed", "trial"), ("time", "step")
_NONE = ("", "—")
_CURVE = """
const place = cb_data.index.indices[0];
if (place === undefined) return;
curve.data = {x: cells.data.xs[place], y: cells.data.ys[place]};
title.text = new title.text.constructor({text: cells.data.said[place]});
"""


@dataclass(frozen=True)
class Diagram:
    """Cells of a phase diagram: their places, values and curves, by column; names and labels of the axes."""

    cells: Mapping[str, list[object]]
    axes: Mapping[str, list[str]]
    across: str
    up: str


def quantities(table: xr.Dataset) -> list[str]:
    """Variables that have one number for each configuration, once repetitions are averaged and the last time is taken.

    >>> table = xr.Dataset({"loss": (("rate", "time"), np.ones((2, 3))), "outcome": ("rate", ["finished"] * 2)})
    >>> quantities(table)
    ['loss']
    """
    plain = {*_axes(table), *_REPEATED, *_LAST}
    return [
        str(name) for name, each in table.items() if _has_numbers(each) and _axes(table) and set(each.dims) <= plain
    ]


def _axes(table: xr.Dataset) -> list[str]:
    """What was varied, but for seeds."""
    dims = table["outcome"].dims if "outcome" in table else ()
    return [str(name) for name in dims if name not in _REPEATED]


def _has_numbers(values: xr.DataArray) -> bool:
    return bool(np.issubdtype(values.dtype, np.number))


def _reduced(values: xr.DataArray, keep: list[str]) -> np.ndarray:
    """The mean at the last time over all that is not kept, in the order of what is kept."""
    last = next((name for name in _LAST if name in values.dims and name not in keep), None)
    chosen = values if last is None else values.isel({last: -1})
    missing = [name for name in keep if name not in chosen.dims]
    mean = chosen.mean([name for name in chosen.dims if name not in keep]).expand_dims(missing)
    return np.asarray(mean.transpose(*keep).values, dtype=float)


def diagram(table: xr.Dataset, quantity: str) -> Diagram:
    """Cells over the first two axes that were varied; a mean over others.

    >>> cells = {"loss": (("rate", "time"), [[1.0, 0.5], [1.0, 0.2]]), "outcome": ("rate", ["finished"] * 2)}
    >>> diagram(xr.Dataset(cells, coords={"rate": [0.1, 0.2], "time": [0, 1]}), "loss").cells["value"]
    [0.5, 0.2]
    """
    varied = [name for name in _axes(table) if table.sizes[name] > 1] or _axes(table)
    keep = varied[:2]
    value = _reduced(table[quantity], keep)
    over, curve = _curve(table, quantity)
    curves = _reduced(table[curve], [*keep, over]).reshape(-1, table.sizes[over])
    places = np.stack(np.meshgrid(*map(np.arange, value.shape), indexing="ij"), -1).reshape(-1, len(keep))
    axes = {name: [_label(each) for each in table[name].values] for name in keep}
    said = [", ".join(f"{name} {axes[name][i]}" for name, i in zip(keep, place, strict=True)) for place in places]
    across = table[over].values
    xs = across.tolist() if np.issubdtype(across.dtype, np.number) else list(range(len(across)))
    cells = {
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist() if len(keep) > 1 else [0] * len(places),
        "value": value.ravel().tolist(),
        "said": said,
        "xs": [xs] * len(places),
        "ys": curves.tolist(),
    }
    return Diagram(cells, axes, over, curve)


def _curve(table: xr.Dataset, quantity: str) -> tuple[str, str]:
    """What a cell's curve runs over, and which variable it shows: layers if there are any, else time."""
    for over in ("layer", *_LAST):
        names = [str(name) for name, each in table.items() if over in each.dims and _has_numbers(each)]
        if names:
            return over, quantity if quantity in names else names[0]
    return _axes(table)[0], quantity


def _label(value: object) -> str:
    return short(float(value)) if isinstance(value, int | float | np.number) else str(value)


def read_table(folder: Path) -> xr.Dataset:
    """The table of a sweep, gathered as far as it goes where none was written; a reason where it cannot be shown."""
    if not (folder / TABLE).is_file():
        return sweep.gather(folder)
    size = (folder / TABLE).stat().st_size
    if size > _MOST:
        raise ValueError(f"its table has {size / 2**20:.0f} MB, more than {_MOST // 2**20}")
    return load(folder / TABLE)


class Sweeps:
    """Choice of a sweep and of a quantity, the diagram, and the curve beside it."""

    def __init__(self, doc: Document, workers: Executor, sweeps: Mapping[str, Path], given: Mapping[str, str]) -> None:
        self._doc, self._workers = doc, workers
        self._sweeps, self._table = sweeps, xr.Dataset()
        self._cells = ColumnDataSource({name: [] for name in ("x", "y", "value", "said", "xs", "ys")})
        self._curve = ColumnDataSource({"x": [], "y": []})
        self._said = as_text("sweep")
        self._panels = row(sizing_mode="stretch_width", stylesheets=[GRID])
        self._name, self._quantity = (Select(title=each, stylesheets=[WIDGET]) for each in ("sweep", "quantity"))
        wanted = given.get("sweep", "")
        self._name.options, self._name.value = [_NONE, *sweeps], wanted if wanted in sweeps else ""
        for name, choice in (("sweep", self._name), ("quantity", self._quantity)):
            remember(name, choice, "value", "cb_obj.value")
        self._open(self._name.value, given.get("quantity", ""))
        self._name.on_change("value", lambda _attr, _old, new: self._open(new, ""))
        self._quantity.on_change("value", lambda _attr, _old, _new: self._show())

    def parts(self) -> list[LayoutDOM]:
        """What is laid out."""
        return [row(self._name, self._quantity, styles={"flex-wrap": "wrap", "gap": "12px"}), self._said, self._panels]

    def offer(self, sweeps: Mapping[str, Path]) -> None:
        """Let sweeps be chosen that were found since."""
        self._sweeps = sweeps
        if [_NONE, *sweeps] != self._name.options:
            self._name.options = [_NONE, *sweeps]

    def _open(self, name: str, quantity: str) -> None:
        """Read a sweep in a thread: there may be thousands of results."""
        if name not in self._sweeps:
            self._table, self._quantity.visible = xr.Dataset(), False
            self._show()
            return
        self._said.text = f"{name} is read …"
        later(self._doc, self._workers, partial(read_table, self._sweeps[name]), partial(self._opened, name, quantity))

    def _opened(self, name: str, quantity: str, read: Future[xr.Dataset]) -> None:
        if name != self._name.value:
            return
        error = read.exception()
        self._table = xr.Dataset() if error else read.result()
        known = quantities(self._table)
        first = "curvature" if "curvature" in known else known[0] if known else ""
        before, self._quantity.options = self._quantity.value, known
        self._quantity.value = quantity if quantity in known else first
        self._quantity.visible = bool(known)
        if self._quantity.value == before:  # else it is shown already
            self._show()
        if not known:
            self._said.text = f"{name} is not shown: {error or 'it has no number for each configuration'}"

    def _show(self) -> None:
        if self._quantity.value not in quantities(self._table):
            self._panels.children, self._said.text = [], ""
            return
        found = diagram(self._table, self._quantity.value)
        self._cells.data = {name: list(column) for name, column in found.cells.items()}
        self._curve.data = {"x": found.cells["xs"][0], "y": found.cells["ys"][0]}
        beside = empty_figure("curve of a cell", found.across, found.up)
        beside.title.text = PlainText(text=str(found.cells["said"][0]))
        beside.height = HIGH
        beside.line("x", "y", source=self._curve, color=PALETTE[0], line_width=2)
        beside.scatter("x", "y", source=self._curve, color=PALETTE[1], marker="square", size=7)
        self._panels.children = [self._draw(found, beside), beside]
        others = [name for name in _axes(self._table) if name not in found.axes and self._table.sizes[name] > 1]
        mean = f", mean over {', '.join([*others, 'repetitions'])}"
        self._said.text = f"{self._quantity.value.replace('_', ' ')} at the end{mean}; point at a cell for its curve"

    def _draw(self, found: Diagram, beside: figure) -> figure:
        names = [*found.axes, ""][:2]
        plot = empty_figure(self._quantity.value.replace("_", " "), *names)
        plot.height = HIGH
        colours = LinearColorMapper("Cividis256")
        cells = plot.rect(
            "x", "y", 1, 1, source=self._cells, line_color=None, fill_color={"field": "value", "transform": colours}
        )
        plot.add_layout(ColorBar(color_mapper=colours, major_label_text_color=GREY, background_fill_alpha=0.0), "right")
        code = CustomJS(args={"cells": self._cells, "curve": self._curve, "title": beside.title}, code=_CURVE)
        tips = [("cell", "@said"), ("value", "@value{0.0000}")]
        plot.add_tools(HoverTool(tooltips=tips, renderers=[cells], callback=code))
        plot.grid.visible = False
        for axis, labels in zip(plot.axis, [*found.axes.values(), [""]], strict=False):
            name_places(axis, labels)
        return plot
