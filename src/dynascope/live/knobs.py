"""A steered knob over the steps of a run: each turn, and its value until now."""

from collections.abc import Sequence

from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from dynascope.live.panels import NUMBER, PALETTE, empty_figure

_Turns = Sequence[tuple[float, float]]


class Knob:
    """A picture, and what is put into it."""

    def __init__(self, name: str) -> None:
        self._turns, self._held = (ColumnDataSource(_columns([])) for _ in range(2))
        self.figure = self._draw(name)

    def _draw(self, name: str) -> figure:
        plot = empty_figure(f"steered: {name.replace('_', ' ')}", "step")
        look = {"color": PALETTE[2], "line_width": 2}
        plot.step("step", "value", source=self._turns, mode="after", **look)
        plot.line("step", "value", source=self._held, **look)
        turns = plot.scatter("step", "value", source=self._turns, color=PALETTE[2])
        tips, digits = [("step", "@step{0}"), ("value", f"@value{{{NUMBER}}}")], {"@value": "printf"}
        plot.add_tools(HoverTool(tooltips=tips, formatters=digits, renderers=[turns], mode="vline"))
        return plot

    def show(self, turns: _Turns, now: float) -> None:
        """Send turns that are new; all of them only where earlier ones were replaced."""
        sent = list(zip(self._turns.data["step"], self._turns.data["value"], strict=True))
        if list(turns[: len(sent)]) != sent:
            self._turns.data = _columns(turns)
        elif len(turns) > len(sent):
            self._turns.stream(_columns(turns[len(sent) :]))
        self._held.data = _columns([*turns[-1:], *((max(step, now), value) for step, value in turns[-1:])])


def _columns(turns: _Turns) -> dict[str, list[float]]:
    return {"step": [step for step, _ in turns], "value": [value for _, value in turns]}
