"""Pictures of numbers over steps, in Bokeh."""

import math
import re
from collections.abc import Sequence
from itertools import takewhile

from bokeh.core.property.vectorization import Field
from bokeh.models import (
    Axis,
    CDSView,
    ColumnDataSource,
    CustomJSFilter,
    CustomJSTransform,
    FixedTicker,
    HoverTool,
    PlainText,
    PreText,
    SaveTool,
    Slider,
)
from bokeh.plotting import figure

PALETTE = (  # seen on white and on black
    *("#2b8cc4", "#d9631e", "#12996f", "#b8659a", "#a8891b"),
    *("#7d78c9", "#c94f4f", "#4f9c9c", "#8a8a8a", "#9a6a3c"),
)
NUMBER = "%.4g"  # of whatever size, under the pointer
GREY = "#7a7a7a"  # of text, on white and on black alike
HEIGHT, HIGH = 280, 360  # of a picture, in pixels
GRID = """
:host { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 12px;
  align-content: start }
"""
WIDGET = """
@media (prefers-color-scheme: dark) {
  .bk-input, .bk-btn, .bk-btn:hover { background: #222; color: #ddd; border-color: #555 }
  .bk-btn.bk-active { background: #444 }
  .noUi-target { background: #333; border-color: #555; box-shadow: none }
  .noUi-connects .noUi-connect { background: #777 !important }
  select.bk-input { appearance: auto !important; background-image: none !important }
}
"""
_LONGEST = 22  # letters of a name at an axis or in a legend
_SHORT, _UPRIGHT = 10, 1.2  # letters of names that may lean, and the slope of others
_NAMED = 12  # places of an axis that have room for a name
_LEGEND = 50  # letters of a legend, side by side, on a phone
_TEXT = ":host pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; margin: 0 }"
_TABLE = ":host { overflow-x: auto } :host pre { margin: 0 }"

# a line between numbers that were measured seldom, and their running mean
_SMOOTH = """
const steps = source.data.step, whole = Float64Array.from(xs);
let last = -1;
for (let i = 0; i < xs.length; i++) {
  if (!isFinite(xs[i])) continue;
  for (let j = last + 1; last >= 0 && j < i; j++)
    whole[j] = xs[last] + (xs[i] - xs[last]) * (steps[j] - steps[last]) / (steps[i] - steps[last]);
  last = i;
}
let mean = NaN;
return whole.map((x) => isFinite(x) ? (mean = isFinite(mean) ? slider.value * mean + (1 - slider.value) * x : x) : x);
"""
_FEW = "return source.length <= 200 ? null : []"  # points take a browser long to draw


def smoothing(source: ColumnDataSource, slider: Slider) -> CustomJSTransform:
    """The running mean of a column, computed in the browser: nothing is sent when the slider moves."""
    return CustomJSTransform(args={"source": source, "slider": slider}, v_func=_SMOOTH)


def empty_figure(title: str, across: str = "", up: str = "", **options: object) -> figure:
    """A figure in colours that are read on light and on dark pages; title and names of its axes are text, never markup.

    >>> empty_figure("loss").title.text
    PlainText(...)
    """
    tools = "pan,box_zoom,wheel_zoom,reset"
    plot = figure(height=HEIGHT, sizing_mode="stretch_width", tools=tools, **options)
    plot.add_tools(SaveTool(filename=re.sub(r"\W+", "_", title)))
    plot.title.text = PlainText(text=title)
    for axis, name in zip(plot.axis, (across, up), strict=True):
        axis.axis_label = PlainText(text=name) if name else None
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    plot.background_fill_color = plot.border_fill_color = plot.outline_line_color = None
    plot.title.text_color = GREY
    for axis in plot.axis:
        axis.axis_label_text_color = axis.major_label_text_color = axis.axis_line_color = GREY
        axis.major_tick_line_color = axis.minor_tick_line_color = GREY
        axis.axis_label_text_font_style = "normal"
    plot.grid.grid_line_color = GREY
    plot.grid.grid_line_alpha = 0.2
    return plot


def over_steps(
    title: str, names: Sequence[str], source: ColumnDataSource, smooth: CustomJSTransform, *, log: bool
) -> figure:
    """Draw columns of a source over steps, on a linear or a logarithmic axis.

    >>> slider, source = Slider(start=0, end=1, value=0), ColumnDataSource({"step": [], "train_loss": []})
    >>> over_steps("loss", ["train_loss"], source, smoothing(source, slider), log=True).y_scale
    LogScale(...)
    """
    plot = empty_figure(title, "step", y_axis_type="log" if log else "linear")
    few = CDSView(filter=CustomJSFilter(code=_FEW))
    for name, colour in zip(names, PALETTE, strict=False):
        plot.line("step", name, source=source, color=colour, alpha=0.3)
        plot.scatter("step", name, source=source, view=few, color=colour, alpha=0.3, size=4)
        plot.line(
            "step", Field(name, smooth), source=source, color=colour, line_width=2, legend_label=name.replace("_", " ")
        )
    tips = [("step", "@step{0}"), *((name.replace("_", " "), f"@{name}{{{NUMBER}}}") for name in names)]
    digits = {f"@{name}": "printf" for name in names}
    plot.add_tools(HoverTool(tooltips=tips, formatters=digits, renderers=plot.renderers[:1], mode="vline"))
    plain_legend(plot)
    return plot


def read_number(text: str | None, least: float, greatest: float, first: float) -> float:
    """A number of an address, held between two others; the first value where it is none.

    >>> [read_number(text, 0.0, 1.0, 0.5) for text in ("0.2", "much", "7", None)]
    [0.2, 0.5, 1.0, 0.5]
    """
    try:
        value = float(first if text is None else text)
    except ValueError:
        value = first
    return min(max(value, least), greatest) if math.isfinite(value) else first


def shortened(name: str) -> str:
    """A name as far as there is room for it, with both its ends.

    >>> shortened("blocks.10.attention.projection")
    'blocks.10.at…rojection'
    """
    return name if len(name) <= _LONGEST else f"{name[:12]}…{name[-9:]}"


def apart(names: Sequence[str]) -> list[str]:
    """Names without the parts that all long ones begin and end with.

    >>> apart(["input", "model.layers.9.attention.out", "model.layers.10.attention.out"])
    ['input', '…9…', '…10…']
    """
    long = [name.split(".") for name in names if len(name) > _LONGEST]
    first = _shared([each[:-1] for each in long])
    last = _shared([each[:first:-1] for each in long])  # one part is left
    if len(long) < 2:
        return list(names)
    begin, end = "…" * bool(first), "…" * bool(last)
    middle = iter([f"{begin}{'.'.join(each[first : len(each) - last])}{end}" for each in long])
    return [next(middle) if len(name) > _LONGEST else name for name in names]


def _shared(parts: Sequence[Sequence[str]]) -> int:
    """How many of their first parts all have in common."""
    return len(list(takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False))))


def name_places(axis: Axis, names: Sequence[str], first: float = 0.0, *, slope: float = 0.0) -> None:
    """Write names at places one apart on an axis, as plain text whatever they hold; some of them where they are many.

    slope: by which they lean, in radians; long ones stand more upright, so that the first of them has room

    >>> plot = empty_figure("load")
    >>> name_places(plot.xaxis[0], ["input", "fc"])
    >>> plot.xaxis[0].major_label_overrides[1.0]
    PlainText(...)
    """
    names = apart(names)
    places = range(0, len(names), -(-len(names) // _NAMED) or 1)
    axis.ticker = FixedTicker(ticks=[first + place for place in places])
    labels = {first + place: shortened(names[place]) for place in places}
    axis.major_label_overrides = {place: PlainText(text=each) for place, each in labels.items()}
    if slope:
        axis.major_label_orientation = slope if max(map(len, labels.values()), default=0) <= _SHORT else _UPRIGHT


def plain_legend(plot: figure) -> None:
    """A legend above its picture, without a box, whose entries hide their lines."""
    if not plot.legend:
        return
    legend = plot.legend[0]
    plot.add_layout(legend, "above")
    sizes = [len(item.label.value) + 5 for item in legend.items]  # with their lines
    legend.orientation = "horizontal"
    legend.ncols = len(sizes) if sum(sizes) <= _LEGEND else max(1, min(len(sizes), _LEGEND // max(sizes)))
    legend.background_fill_alpha = legend.border_line_alpha = 0.0
    legend.label_text_color = GREY
    legend.label_text_font_size = "11px"
    legend.glyph_height = 14
    legend.label_height = 14
    legend.padding, legend.margin, legend.spacing, legend.location = 2, 2, 12, "left"
    legend.click_policy = "hide"


def as_text(name: str, *, bold: bool = False, table: bool = False) -> PreText:
    """Text that is shown as it is: no markup, no formulas; where it is a table, in columns.

    >>> as_text("status").disable_math
    True
    """
    style = [_TEXT, ":host pre { font-weight: 600 }"] if bold else [_TABLE] if table else [_TEXT]
    return PreText(text="", name=name, disable_math=True, sizing_mode="stretch_width", stylesheets=style)
