"""A family of models as curves: simulation and closed form over each other, and over a run that was recorded."""

from collections.abc import Mapping

from bokeh.layouts import row
from bokeh.models import ColumnDataSource, HoverTool, LayoutDOM

from dynascope.live.families.description import Columns, Drawn, Family, Fitted, Picture
from dynascope.live.panels import GRID, PALETTE, as_text, empty_figure, plain_legend

_KEY = "thick and faint: simulation; thin: closed form"
_RUN_KEY = "; dots: the recorded run; dashed: its imitation, whose strengths change freely with time"


class Curves:
    """Pictures of a family, and what is put into them."""

    def __init__(self, family: Family) -> None:
        self._pictures = {each.title: _Curve(each) for each in family.pictures}
        self._said = as_text("said")
        self.lay_over(None)

    def parts(self, sliders: LayoutDOM) -> list[LayoutDOM]:
        """What is laid out, the sliders among it."""
        plots = [each.figure for each in self._pictures.values()]
        return [row(sliders, *plots, sizing_mode="stretch_width", stylesheets=[GRID]), self._said]

    def show(self, solved: Mapping[str, Drawn]) -> None:
        """Put what was solved."""
        for title, drawn in solved.items():
            self._pictures[title].show(drawn)

    def lay_over(self, fitted: Fitted | None) -> None:
        """Draw a recorded run over the curves, or none."""
        self._said.text = _KEY + (_RUN_KEY if fitted else "")
        for title, each in self._pictures.items():
            each.lay_over(fitted.drawn.get(title) if fitted else None)


class _Curve:
    """One picture; of its names those are seen that something was put for."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._sources = [ColumnDataSource({name: [] for name in ("x", *picture.names)}) for _ in range(4)]
        axes = {f"{axis}_axis_type": "log" if axis in picture.log else "linear" for axis in "xy"}
        self.figure = empty_figure(picture.title, picture.across, picture.up, **axes)
        simulated, closed, recorded, imitated = self._sources
        for name, colour in zip(picture.names, PALETTE, strict=False):
            look = {"color": colour, "legend_label": name}
            self.figure.line("x", name, source=simulated, line_width=6, alpha=0.35, **look)
            self.figure.line("x", name, source=closed, line_width=1.5, **look)
            self.figure.scatter("x", name, source=recorded, size=5, alpha=0.6, **look)
            self.figure.line("x", name, source=imitated, line_dash="dashed", **look)
        self._hover = HoverTool(renderers=self.figure.renderers[1:2], mode="vline")
        self.figure.add_tools(self._hover)
        plain_legend(self.figure)

    def show(self, drawn: Drawn) -> None:
        names = [name for name in self._picture.names if name in drawn.closed]
        for item in self.figure.legend[0].items:
            item.visible = item.label.value in names
        tips = [(self._picture.across, "@x{0.000}"), *((name, f"@{{{name}}}{{0.0000}}") for name in names)]
        if tips != self._hover.tooltips:
            self._hover.tooltips = tips
        self._put(drawn, self._sources[:2])

    def lay_over(self, drawn: Drawn | None) -> None:
        nothing: Columns = {"x": []}
        self._put(drawn or Drawn(nothing, nothing), self._sources[2:])

    def _put(self, drawn: Drawn, sources: list[ColumnDataSource]) -> None:
        for source, columns in zip(sources, drawn, strict=True):
            absent = [float("nan")] * len(columns["x"])
            source.data = {name: columns.get(name, absent) for name in ("x", *self._picture.names)}
