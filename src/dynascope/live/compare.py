"""The place of comparison: two or more runs over the same axes, and their final values with differences."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np
from bokeh.document import Document
from bokeh.layouts import row
from bokeh.models import ColumnDataSource, HoverTool, RadioButtonGroup, StringFormatter, TableColumn
from bokeh.plotting import figure

from dynascope.live.panels import (
    GRID,
    NUMBER,
    PALETTE,
    WIDGET,
    as_text,
    empty_figure,
    name_places,
    plain_legend,
    shortened,
)
from dynascope.live.runs import TICK, height_of, table_of
from dynascope.live.sending import remember, send
from dynascope.live.shelf import Shelf
from dynascope.live.sweeps import Sweeps
from dynascope.live.tailing import SERIES, Course
from dynascope.monitor.tables import short

MOMENTS = ("newest", "equal step", "equal loss")
_MOST = 10  # runs that are drawn: more have no colours of their own, and take long to read
_CURVES = 1000  # load curves of a run between which the moment is looked for
_LOSSES = ("train_loss", "probe_loss")


@dataclass
class _Shown:
    """A run that was chosen, and what the browser has of it."""

    course: Course
    source: ColumnDataSource = field(default_factory=lambda: ColumnDataSource({each: [] for each in ("step", *SERIES)}))
    loads: ColumnDataSource = field(default_factory=lambda: ColumnDataSource({"x": [], "y": []}))
    sent: tuple[int, int] = (-1, 0)

    @property
    def look(self) -> tuple[str, bool, list[str]]:
        """What pictures are drawn by: which loss it has, whether it has loads, the names of its layers."""
        return loss_name(self.course), bool(self.course.loads.size), self.course.layers


def loss_name(course: Course) -> str:
    """The training loss of a run, or else that on the probe."""
    return next((each for each in _LOSSES if each in course.known), _LOSSES[0])


def loss_of(course: Course) -> np.ndarray:
    """The loss of a run at every measurement."""
    return np.array(course.columns[loss_name(course)])


def curves_at(courses: Sequence[Course], moment: str) -> list[tuple[int, np.ndarray]]:
    """Step and load curve of each run: the newest, at the last step that all have, or at the least loss that all had.

    Runs without measurements, or without a loss, are not waited for.

    >>> curves_at([], "newest")
    []
    """
    begun = [each for each in courses if len(each)]
    if moment == "equal step":
        last = min((each.columns["step"][-1] for each in begun), default=0.0)
        return [_nearest(each, last) for each in courses]
    least = [np.nanmin(loss_of(each), initial=np.inf) for each in begun if loss_name(each) in each.known]
    reached = max(least, default=np.inf) if moment == "equal loss" else -np.inf
    return [_nearest(each, _first_step(each, reached)) for each in courses]


def _first_step(course: Course, loss: float) -> float:
    """The first step at which a run has a loss, or else its last one."""
    found = np.flatnonzero(loss_of(course) <= loss)
    return float(course.columns["step"][found[0] if len(found) else -1]) if len(course) else 0.0


def _nearest(course: Course, step: float) -> tuple[int, np.ndarray]:
    kept = [*course.curves, *([(int(course.columns["step"][-1]), course.loads)] if len(course) else [])]
    return min(kept, key=lambda curve: abs(step - curve[0]), default=(0, course.loads))


def final_table(courses: Mapping[str, Course]) -> str:
    """Newest value of every number by run, and how much each differs from the first run, as text in columns."""
    names = list(courses)
    lines = [["", *names, *(f"{name} − {names[0]}" for name in names[1:])]]
    for series in SERIES:
        if not any(series in each.latest for each in courses.values()):
            continue
        values = [each.latest.get(series, np.nan) for each in courses.values()]
        shown = [short(v) or "nan" * (series in each.latest) for v, each in zip(values, courses.values(), strict=True)]
        with np.errstate(invalid="ignore"):  # infinity less infinity
            apart = (np.array(values) - values[0]).tolist()
        lines.append([series.replace("_", " "), *shown, *map(short, apart[1:])])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


class Compare:
    """What one browser sees of runs side by side."""

    def __init__(
        self, doc: Document, shelf: Shelf, workers: Executor, wanted: Sequence[str], given: Mapping[str, str]
    ) -> None:
        self._shelf, self._chosen = shelf, dict[str, _Shown]()
        self._table = ColumnDataSource(self._rows())
        moment = MOMENTS.index(given["moment"]) if given.get("moment") in MOMENTS else 0
        self._moment = RadioButtonGroup(labels=list(MOMENTS), active=moment, width=300, stylesheets=[WIDGET])
        self._moment.on_change("active", lambda _attr, _old, _new: self._show())
        remember("moment", self._moment, "active", "cb_obj.labels[cb_obj.active]")
        self._said, self._values = as_text("said"), as_text("values", table=True)
        self._panels = row(sizing_mode="stretch_width", stylesheets=[GRID])
        columns = [TableColumn(field=each, title=each, formatter=StringFormatter()) for each in ("run", "state")]
        self._grid = table_of(self._table, columns, len(shelf.runs), most=8)
        self._grid.selectable = "checkbox"
        self._mark(wanted)
        self._choose(self._table.selected.indices)
        self._table.selected.on_change("indices", lambda _attr, _old, new: self._choose(new))
        places = "source.selected.indices.map((place) => source.data.run[place])"
        remember("run", self._table.selected, "indices", places, source=self._table)
        doc.template_variables["here"] = {"place": "compare", "moment": MOMENTS[moment], "run": list(self._chosen)}
        self._sweeps = Sweeps(doc, workers, shelf.sweeps, given)
        with doc.models.freeze():
            for part in (self._grid, self._moment, self._said, self._panels, self._values, *self._sweeps.parts()):
                doc.add_root(part)
        doc.add_periodic_callback(self.tick, TICK)

    def _rows(self) -> dict[str, list[str]]:
        return {"run": list(self._shelf.runs), "state": [each.word for each in self._shelf.runs.values()]}

    def _mark(self, names: Collection[str]) -> None:
        self._table.selected.indices = [i for i, name in enumerate(self._table.data["run"]) if name in names]

    def _choose(self, places: Sequence[int]) -> None:
        runs = self._table.data["run"]
        names = [runs[place] for place in sorted(places) if place < len(runs) and runs[place] in self._shelf.runs]
        self._marked = {self._shelf.runs[name].folder for name in names}
        known, new = {each.course.folder: each for each in self._chosen.values()}, {}
        for name in names[:_MOST]:
            with contextlib.suppress(OSError):  # gone since the last look
                folder = self._shelf.runs[name].folder
                new[name] = known.get(folder) or _Shown(Course(folder, curves=_CURVES))
        self._chosen = new
        self._draw()
        self._show()

    def _draw(self) -> None:
        self._drawn = [each.look for each in self._chosen.values()]
        self._panels.children = [self._over_steps(), self._over_layers()] if self._chosen else []

    def _over_steps(self) -> figure:
        plot = empty_figure("loss", "step", "loss")
        for place, (name, each) in enumerate(self._chosen.items()):
            known = loss_name(each.course)
            line = plot.line("step", known, source=each.source, line_width=2, **_style(place, name))
            tips, digits = [("step", "@step{0}"), ("loss", f"@{known}{{{NUMBER}}}")], {f"@{known}": "printf"}
            plot.add_tools(HoverTool(tooltips=tips, formatters=digits, renderers=[line], visible=False))
        plain_legend(plot)
        return plot

    def _over_layers(self) -> figure:
        plot = empty_figure("load curves", "layer", "load D")
        loaded = [(place, each) for place, each in enumerate(self._chosen.items()) if each[1].course.loads.size]
        for place, (name, each) in loaded:
            plot.line("x", "y", source=each.loads, line_width=2, **_style(place, name))
            plot.scatter("x", "y", source=each.loads, marker="square", size=8, **_style(place, name))
        plot.add_tools(HoverTool(tooltips=[("layer", "@x"), ("load", "@y{0.000}")], renderers=plot.renderers[1::2]))
        layers = [each.course.layers for _, (_, each) in loaded]
        if layers and all(each == layers[0] for each in layers):
            name_places(plot.xaxis[0], layers[0], slope=0.7)
        plain_legend(plot)
        return plot

    def tick(self) -> None:
        """Send what is new."""
        self._sweeps.offer(self._shelf.sweeps)
        if (rows := self._rows()) != self._table.data:
            names = [name for name, each in self._shelf.runs.items() if each.folder in self._marked]
            self._table.data = rows
            self._grid.height = height_of(len(rows["run"]), most=8)
            self._mark(names)
            if names[:_MOST] != list(self._chosen):  # names change where others come
                self._choose(self._table.selected.indices)
        before = [each.sent for each in self._chosen.values()]
        for each in self._chosen.values():
            with contextlib.suppress(OSError):
                each.course.read_on()
            each.sent = send(each.course, each.source, *each.sent)
        if before != [each.sent for each in self._chosen.values()]:
            if self._drawn != [each.look for each in self._chosen.values()]:
                self._draw()
            self._show()

    def _show(self) -> None:
        """Put load curves of the chosen moment, and the table of values."""
        courses = {name: each.course for name, each in self._chosen.items()}
        found = curves_at(list(courses.values()), MOMENTS[self._moment.active])
        for each, (_, loads) in zip(self._chosen.values(), found, strict=True):
            each.loads.data = {"x": np.arange(len(loads)), "y": loads}
        steps = "; ".join(f"{name} at step {step}" for name, (step, _) in zip(courses, found, strict=True))
        left = f"; {_MOST} runs at most, {len(self._marked)} are marked" if len(self._marked) > _MOST else ""
        self._said.text = f"load curves: {steps}{left}" if courses else "choose two or more runs"
        self._values.text = final_table(courses) if courses else ""


def _style(place: int, name: str) -> dict[str, str]:
    return {"color": PALETTE[place % len(PALETTE)], "legend_label": shortened(name)}
