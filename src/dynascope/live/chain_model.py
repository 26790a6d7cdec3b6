"""The spring–block chain as it moves, over its closed form and over a run that was recorded; its phase diagram."""

from collections.abc import Callable, Mapping

import numpy as np
from bokeh.document import Document
from bokeh.events import Tap
from bokeh.layouts import row
from bokeh.models import ColorBar, ColumnDataSource, HoverTool, LayoutDOM, LinearColorMapper, Slider, Toggle
from bokeh.plotting import figure

from dynascope.live.chain import Chain
from dynascope.live.families.spring_block import DURATION, SLIDERS, TIMES, Solved, at_rest
from dynascope.live.families.spring_block_run import FittedChain
from dynascope.live.panels import GREY, GRID, HIGH, PALETTE, WIDGET, empty_figure, plain_legend, read_number
from dynascope.live.sending import remember

_PAUSE = DURATION / (TIMES - 1)
_RUN = "recorded run"
_FRAME = 100  # milliseconds between two pictures of the chain that moves


class ChainModel:
    """Pictures of the chain; `go` is called with the sliders that a click in the phase diagram moves.

    time: of the chain that is shown, as an address has it
    """

    def __init__(
        self, doc: Document, values: Mapping[str, float], time: str | None, go: Callable[[Mapping[str, float]], None]
    ) -> None:
        self._doc, self._go = doc, go
        self._fitted: FittedChain | None = None
        self._solved = at_rest(values)  # to solve it for the first time takes seconds
        self.time = read_number(time, 0.0, DURATION, DURATION)
        self._time = Slider(
            start=0, end=DURATION, step=_PAUSE, value=self.time, title="time", format="0.0", stylesheets=[WIDGET]
        )
        self._time.on_change("value", lambda _attr, _old, _new: self._draw())
        remember("time", self._time, "value", "cb_obj.value")
        self._playing: object = None
        self._play = Toggle(label="let it move", width=110, stylesheets=[WIDGET])
        self._play.on_change("active", lambda _attr, _old, new: self._run(new))
        self._chain = Chain()
        self._closed = ColumnDataSource({"x": [], "y": [], "low": [], "high": []})
        self._run_source = ColumnDataSource({"x": [], "y": []})
        self._map = ColumnDataSource({"image": []})
        self._here = ColumnDataSource({"x": [], "y": []})
        self._draw()

    def parts(self, sliders: LayoutDOM) -> list[LayoutDOM]:
        """What is laid out, the sliders among it."""
        plot = self._chain.figure
        plot.varea("x", "low", "high", source=self._closed, color=PALETTE[0], alpha=0.15, legend_label="± 1 deviation")
        plot.line("x", "y", source=self._closed, color=PALETTE[2], line_dash="dashed", legend_label="closed form")
        plot.line("x", "y", source=self._run_source, color=PALETTE[3], line_width=2, legend_label=_RUN)
        plot.scatter("x", "y", source=self._run_source, color=PALETTE[3], size=7, legend_label=_RUN)
        plain_legend(plot)
        self._name_run()
        panels = row(sliders, plot, self._draw_map(), sizing_mode="stretch_width", stylesheets=[GRID])
        return [panels, row(self._play, self._time, styles={"flex-wrap": "wrap", "gap": "12px"})]

    def _draw_map(self) -> figure:
        low, high = SLIDERS["noise"][:2], SLIDERS["friction_right"][:2]
        plot = empty_figure(
            "phases: curvature at the end; click to go there",
            "noise",
            "friction to the right",
            x_range=low,
            y_range=high,
        )
        plot.height = HIGH
        colours = LinearColorMapper("Cividis256")
        plot.image("image", x=0, y=0, dw=low[1], dh=high[1], source=self._map, color_mapper=colours)
        for width, colour in ((6, "#000000"), (3, "#ffffff")):  # seen on whatever lies below
            plot.scatter("x", "y", source=self._here, marker="cross", size=18, line_width=width, color=colour)
        plot.add_layout(ColorBar(color_mapper=colours, major_label_text_color=GREY, background_fill_alpha=0.0), "right")
        plot.add_tools(HoverTool(tooltips=[("curvature", "@image{0.0000}")], renderers=plot.renderers[:1]))
        plot.on_event(Tap, lambda event: self._click({"noise": event.x, "friction_right": event.y}))
        return plot

    def _click(self, place: Mapping[str, float]) -> None:
        """Go to the values nearest to a place that sliders offer."""
        self._go({name: round(value / SLIDERS[name].step) * SLIDERS[name].step for name, value in place.items()})

    def mark(self, values: Mapping[str, float]) -> None:
        """Show where in the phase diagram the sliders are."""
        self._here.data = {"x": [values["noise"]], "y": [values["friction_right"]]}

    def show(self, solved: Solved) -> None:
        """Put what was solved."""
        self._solved = solved
        self._draw()

    def show_phases(self, image: np.ndarray) -> None:
        """Put a phase diagram."""
        self._map.data = {"image": [image]}

    def lay_over(self, fitted: FittedChain | None) -> None:
        """Draw a recorded run over the chain, or none."""
        self._fitted = fitted
        self._name_run()
        self._draw()

    def _name_run(self) -> None:
        """Name the run in the legend while there is one."""
        item = next(each for each in self._chain.figure.legend[0].items if each.label.value == _RUN)
        item.visible = self._fitted is not None

    def _draw(self) -> None:
        """Put the chain of the chosen time."""
        now = round(min(max(self._time.value, 0.0), DURATION) / _PAUSE)
        mean, spread, closed = (each[now] for each in self._solved)
        names = [str(layer) for layer in range(len(mean))]
        if names != list(self._chain.blocks.data["name"]):
            self._chain.name_layers(names)
        self._chain.show(names, mean, [])
        self._closed.data = {"x": np.arange(len(mean)), "y": closed, "low": mean - spread, "high": mean + spread}
        loads = np.zeros(0) if self._fitted is None else self._fitted.at(self._time.value)
        self._run_source.data = {"x": np.arange(len(loads)), "y": loads}

    def _run(self, moving: bool) -> None:
        if moving:
            self._playing = self._doc.add_periodic_callback(self._next, _FRAME)
        elif self._playing is not None:
            self._doc.remove_periodic_callback(self._playing)
            self._playing = None

    def _next(self) -> None:
        self._time.value = _PAUSE * ((round(self._time.value / _PAUSE) + 1) % TIMES)
