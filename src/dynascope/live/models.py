"""The place of models: the spring–block chain under sliders, solved as they move."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
from bokeh.document import Document
from bokeh.events import Tap
from bokeh.layouts import column, row
from bokeh.models import ColorBar, ColumnDataSource, CustomJS, HoverTool, LinearColorMapper, Slider, Toggle
from bokeh.plotting import figure

from dynascope.live.chain import Chain
from dynascope.live.panels import GREY, GRID, PALETTE, as_text, empty_figure, plain_legend
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock

DURATION, DT, TRIALS, TIMES = 60.0, 0.05, 200, 31
_CELLS, _CELL_TRIALS = 12, 8  # of the phase diagram, along each side and in each cell
_FORMAT = "0[.][0000]"
_PAUSE = DURATION / (TIMES - 1)
_FRAME = 100  # milliseconds between two pictures of the chain that moves
# name -> (least, greatest, step, at first)
SLIDERS: Mapping[str, tuple[float, float, float, float]] = {
    "friction_right": (0.0, 0.2, 0.005, 0.1),
    "noise": (0.0, 0.03, 0.0005, 0.01),
    "friction_left": (0.0, 0.4, 0.01, 0.2),
    "stiffness": (0.2, 2.0, 0.1, 1.0),
    "target": (0.2, 2.0, 0.1, 1.0),
    "blocks": (2, 20, 1, 7),
}
_ADDRESS = """
const url = new URL(window.location.href);
for (const [name, slider] of Object.entries(sliders)) url.searchParams.set(name, slider.value);
window.history.replaceState(null, "", url);
"""


@dataclass(frozen=True)
class Solved:
    """Loads over (time, layer): their mean and spread in a simulation, and the closed form of the mean."""

    mean: np.ndarray
    spread: np.ndarray
    closed: np.ndarray


def solve(chain: SpringBlock) -> Solved:
    """Simulate a chain of 200 trials, and solve for its mean path.

    >>> found = solve(SpringBlock(blocks=3))
    >>> found.mean.shape, bool(abs(found.mean - found.closed).max() < 0.02)
    ((31, 4), True)
    """
    run = chain.simulate(DURATION, DT, TRIALS, save_points=TIMES, precision="float32", progress=False)
    path = chain.mean_path(np.linspace(0.0, DURATION, TIMES), dt=DT)
    closed = float(chain.target) - np.pad(path, ((0, 0), (1, 0)))  # layer 0 stays where it is
    return Solved(run["load"].mean("trial").values, run["load"].std("trial").values, closed)


def phases(values: Mapping[str, float]) -> np.ndarray:
    """Curvature at the end, over (friction_right, noise), of chains with the other parameters.

    >>> phases({name: each[3] for name, each in SLIDERS.items()}).shape
    (12, 12)
    """
    axes = {name: np.linspace(*SLIDERS[name][:2], _CELLS) for name in ("friction_right", "noise")}
    chains = _chain_of({**values, **grid(**axes)})
    run = chains.simulate(DURATION, DT, _CELL_TRIALS, save_points=2, precision="float32", progress=False)
    return np.asarray(run["curvature"].isel(time=-1).mean("trial").transpose("friction_right", "noise").values)


def read_state(given: Mapping[str, str]) -> dict[str, float]:
    """Values of the sliders from an address: numbers in their range, the first value where there is none.

    >>> read_state({"noise": "0.02", "target": "much", "blocks": "999"})["blocks"]
    20.0
    """
    state = {}
    for name, (least, greatest, _, first) in SLIDERS.items():
        try:
            value = float(given.get(name, first))
        except ValueError:
            value = first
        state[name] = float(np.clip(value, least, greatest)) if np.isfinite(value) else first
    return state


def lines(values: Mapping[str, float]) -> str:
    """The Python lines that give what is shown.

    >>> print(lines({"noise": 0.01, "blocks": 7.0}).splitlines()[2])
    chain = SpringBlock(noise=0.01, blocks=7)
    """
    written = ", ".join(f"{name}={value:g}" for name, value in values.items())
    return (
        "from dynascope import SpringBlock\n\n"
        f"chain = SpringBlock({written})\n"
        f'run = chain.simulate({DURATION:g}, {DT:g}, {TRIALS}, save_points={TIMES}, precision="float32")\n'
        'print(run["load"].mean("trial").isel(time=-1).values)'
    )


def _chain_of(values: Mapping[str, Any]) -> SpringBlock:
    return SpringBlock(**{**values, "blocks": int(values["blocks"])})


class Models:
    """What one browser sees of the models."""

    def __init__(self, doc: Document, given: Mapping[str, str], home: str) -> None:
        self._doc, self._home, self._due, self._others = doc, home, False, dict[str, float]()
        self._solved: Solved | None = None
        state = read_state(given)
        self._sliders = {
            name: Slider(
                start=low, end=high, step=step, value=state[name], title=name.replace("_", " "), format=_FORMAT
            )
            for name, (low, high, step, _) in SLIDERS.items()
        }
        self._time = Slider(start=0, end=DURATION, step=_PAUSE, value=DURATION, title="time", format=_FORMAT)
        self._play = Toggle(label="let it move", width=110)
        self._chain = Chain()
        self._closed = ColumnDataSource({"x": [], "y": [], "low": [], "high": []})
        self._map = ColumnDataSource({"image": []})
        self._here = ColumnDataSource({"x": [], "y": []})
        self._code, self._address = as_text("code"), as_text("address")
        for each in self._sliders.values():
            each.on_change("value", lambda _attr, _old, _new: self._soon())
            each.js_on_change("value", CustomJS(args={"sliders": self._sliders}, code=_ADDRESS))
        self._time.on_change("value", lambda _attr, _old, _new: self._show())
        self._playing: object = None
        self._play.on_change("active", lambda _attr, _old, new: self._run(new))
        self._begin()
        self._lay_out(doc)
        doc.on_event("document_ready", lambda _event: self._soon())

    def _begin(self) -> None:
        """Show where the chain rests without noise until it is solved: the first time takes seconds."""
        chain = _chain_of(self._values)
        rest = float(chain.target) - np.pad(chain.equilibrium(), (1, 0))
        self._solved = Solved(*np.broadcast_to([rest, 0 * rest, rest], (TIMES, 3, len(rest))).swapaxes(0, 1))
        self._show()

    def _lay_out(self, doc: Document) -> None:
        plot = self._chain.figure
        plot.varea("x", "low", "high", source=self._closed, color=PALETTE[0], alpha=0.15, legend_label="± 1 deviation")
        plot.line("x", "y", source=self._closed, color=PALETTE[2], line_dash="dashed", legend_label="closed form")
        plain_legend(plot)
        room = column(*self._sliders.values(), sizing_mode="stretch_width")
        panels = row(room, plot, self._draw_map(), sizing_mode="stretch_width", stylesheets=[GRID])
        controls = row(self._play, self._time, styles={"flex-wrap": "wrap", "gap": "12px"})
        with doc.models.freeze():
            for part in (panels, controls, self._code, self._address):
                doc.add_root(part)

    def _draw_map(self) -> figure:
        low, high = SLIDERS["noise"][:2], SLIDERS["friction_right"][:2]
        plot = empty_figure(
            "phases: curvature at the end; click to go there",
            x_axis_label="noise",
            y_axis_label="friction to the right",
            x_range=low,
            y_range=high,
        )
        plot.height = 340
        colours = LinearColorMapper("Cividis256")
        plot.image("image", x=0, y=0, dw=low[1], dh=high[1], source=self._map, color_mapper=colours)
        plot.scatter("x", "y", source=self._here, marker="cross", size=18, line_width=3, color="#ffffff")
        plot.add_layout(ColorBar(color_mapper=colours, major_label_text_color=GREY, background_fill_alpha=0.0), "right")
        plot.add_tools(HoverTool(tooltips=[("curvature", "@image{0.0000}")], renderers=plot.renderers[:1]))
        plot.on_event(Tap, self._go)
        return plot

    def _go(self, event: Tap) -> None:
        """Move the sliders to a point of the phase diagram."""
        for name, value in (("noise", event.x), ("friction_right", event.y)):
            least, greatest, step, _ = SLIDERS[name]
            self._sliders[name].value = round(float(np.clip(round(value / step) * step, least, greatest)), 6)

    @property
    def _values(self) -> dict[str, float]:
        return {name: each.value for name, each in self._sliders.items()}

    def _soon(self) -> None:
        """Solve after what has come in: many moves of a slider are one."""
        if not self._due:
            self._due = True
            self._doc.add_next_tick_callback(self._solve)

    def _solve(self) -> None:
        self._due = False
        values = self._values
        self._solved = solve(_chain_of(values))
        self._code.text = lines(values)
        state = urlencode({"place": "models", **{name: f"{value:g}" for name, value in values.items()}})
        self._address.text = f"for a colleague, who adds a token of their own: {self._home}?{state}"
        self._here.data = {"x": [values["noise"]], "y": [values["friction_right"]]}
        self._show()
        others = {name: value for name, value in values.items() if name not in ("noise", "friction_right")}
        if others != self._others:
            self._others = others
            self._map.data = {"image": [phases(values)]}

    def _show(self) -> None:
        """Put the chain of the chosen time."""
        if self._solved is None:
            return
        now = round(self._time.value / _PAUSE)
        mean, spread, closed = self._solved.mean[now], self._solved.spread[now], self._solved.closed[now]
        names = [str(layer) for layer in range(len(mean))]
        if names != list(self._chain.blocks.data["name"]):
            self._chain.name_layers(names)
        self._chain.show(names, mean, [])
        self._closed.data = {"x": np.arange(len(mean)), "y": closed, "low": mean - spread, "high": mean + spread}

    def _run(self, moving: bool) -> None:
        if moving:
            self._playing = self._doc.add_periodic_callback(self._next, _FRAME)
        elif self._playing is not None:
            self._doc.remove_periodic_callback(self._playing)
            self._playing = None

    def _next(self) -> None:
        self._time.value = _PAUSE * ((round(self._time.value / _PAUSE) + 1) % TIMES)
