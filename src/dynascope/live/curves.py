"""A family of models as curves: simulation and closed form over each other."""

from collections.abc import Mapping

from bokeh.layouts import row
from bokeh.models import ColumnDataSource, HoverTool, LayoutDOM
from bokeh.plotting import figure

from dynascope.live.families.description import Drawn, Family, Picture
from dynascope.live.panels import GRID, PALETTE, as_text, empty_figure, plain_legend


class Curves:
    """Pictures of a family, and what is put into them."""

    def __init__(self, family: Family) -> None:
        self._sources = {
            each.title: [ColumnDataSource({name: [] for name in ("x", *each.names)}) for _ in Drawn._fields]
            for each in family.pictures
        }
        self._pictures = [_draw(each, *self._sources[each.title]) for each in family.pictures]
        self._said = as_text("said")
        self._said.text = "thick and faint: simulation; thin: closed form"

    def parts(self, sliders: LayoutDOM) -> list[LayoutDOM]:
        """What is laid out, the sliders among it."""
        return [row(sliders, *self._pictures, sizing_mode="stretch_width", stylesheets=[GRID]), self._said]

    def show(self, solved: Mapping[str, Drawn]) -> None:
        """Put what was solved."""
        for title, drawn in solved.items():
            for source, columns in zip(self._sources[title], drawn, strict=True):
                source.data = dict(columns)


def _draw(picture: Picture, simulated: ColumnDataSource, closed: ColumnDataSource) -> figure:
    axes = {f"{axis}_axis_type": "log" if axis in picture.log else "linear" for axis in "xy"}
    plot = empty_figure(picture.title, x_axis_label=picture.across, y_axis_label=picture.up, **axes)
    for name, colour in zip(picture.names, PALETTE, strict=False):
        look = {"color": colour, "legend_label": name}
        plot.line("x", name, source=simulated, line_width=6, alpha=0.35, **look)
        plot.line("x", name, source=closed, line_width=1.5, **look)
    tips = [(picture.across, "@x{0.000}"), *((name, f"@{{{name}}}{{0.0000}}") for name in picture.names)]
    plot.add_tools(HoverTool(tooltips=tips, renderers=plot.renderers[1:2], mode="vline"))
    plain_legend(plot)
    return plot
