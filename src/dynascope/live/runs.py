"""The place of runs: one session of the page, which sends to the browser what is new and nothing else."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial

import numpy as np
from bokeh.document import Document
from bokeh.layouts import row
from bokeh.models import (
    Button,
    ColorBar,
    ColumnDataSource,
    CustomJS,
    DataTable,
    HoverTool,
    LayoutDOM,
    LinearColorMapper,
    NumberFormatter,
    RadioButtonGroup,
    ScientificFormatter,
    Slider,
    StringFormatter,
    TableColumn,
)
from bokeh.plotting import figure

from dynascope.live.chain import Chain
from dynascope.live.judging import NO_BAND, Judgement, judge
from dynascope.live.knobs import Knob
from dynascope.live.panels import (
    GREY,
    GRID,
    PALETTE,
    WIDGET,
    as_text,
    empty_figure,
    name_places,
    over_steps,
    plain_legend,
    read_number,
    smoothing,
)
from dynascope.live.sending import remember, send
from dynascope.live.shelf import Shelf, Standing
from dynascope.live.tailing import SERIES, Course

TICK = 200  # milliseconds between two looks
_HIGHEST = 8  # rows of the table that are seen at once
_FIRST = 3  # pictures that are drawn before the page is seen
_REST = 10  # times as long as a judgement took, none is begun

# title -> (columns, whether a logarithmic axis makes sense)
PANELS: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "loss": (("train_loss", "probe_loss", "test_loss"), True),
    "accuracy": (("train_accuracy", "probe_accuracy", "test_accuracy"), False),
    "bend and straightness of the load curve": (("bend", "straightness"), False),
    "collapse": (("nc1", "nc2_angle", "nc3", "nc4"), True),
    "distance from minimal features": (("minimum_feature_distance",), True),
    "elasticity within and between classes": (("intra", "inter"), False),
}
_ROW = ("run", "state", "step", "loss", "accuracy")
_AXES = ("linear", "log")
_BAND = "80 % band"
_DOWNLOAD = """
const names = Object.keys(source.data);
const lines = Array.from(source.data.step, (_, i) => names.map((name) => source.data[name][i]));
const text = [names, ...lines].map((line) => line.join(",")).join("\\n") + "\\n";
const link = document.createElement("a");
link.href = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
link.download = status.tags[0].replaceAll(/[^\\p{L}\\p{N}._-]+/gu, "_") + ".csv";
link.click();
URL.revokeObjectURL(link.href);
"""
_CELLS = """
.slick-row, .slick-row.odd, .slick-cell { background: transparent; color: inherit; border-color: #7a7a7a33 }
.slick-row .slick-cell.selected { background: #7a7a7a44 }
"""
_Key = tuple[str, ...]


class Runs:
    """What one browser sees of the runs; `doc` gets its parts as roots, which the page lays out by their names."""

    def __init__(self, doc: Document, shelf: Shelf, workers: Executor, given: Mapping[str, str]) -> None:
        self._doc, self._shelf, self._workers = doc, shelf, workers
        wanted = given.get("run")
        self._missed = "" if wanted is None or wanted in shelf.runs else f"there is no run {wanted!r} here; another: "
        self._course: Course | None = None
        self._shown, self._renewed, self._layers = 0, 0, list[str]()
        self._judged: tuple[int, int, bool] | None = None
        self._begun, self._due = 0.0, 0.0
        self._judging: Course | None = None
        self._ready = False
        self._seen: np.ndarray | None = None
        self._waiting: Future[Judgement] | None = None
        self._table = ColumnDataSource({name: [] for name in _ROW})
        self._history = ColumnDataSource({name: [] for name in ("step", *SERIES)})
        self._band = ColumnDataSource(dict(NO_BAND))
        self._knobs: dict[str, Knob] = {}
        self._matrix = ColumnDataSource({"image": [], "size": []})
        self._chain = Chain()
        self._status, self._verdicts, self._laws = as_text("status", bold=True), as_text("verdicts"), as_text("laws")
        smooth = read_number(given.get("smoothing"), 0.0, 0.99, 0.0)
        slider = Slider(title="smoothing", start=0, end=0.99, step=0.01, value=smooth, width=200, stylesheets=[WIDGET])
        slider.js_on_change("value", CustomJS(args={"source": self._history}, code="source.change.emit()"))
        remember("smoothing", slider, "value", "cb_obj.value")
        self._smooth = smoothing(self._history, slider)
        log = int(given.get("axes") == "log")
        self._axes = RadioButtonGroup(labels=list(_AXES), active=log, width=120, stylesheets=[WIDGET])
        self._axes.on_change("active", lambda _attr, _old, _new: self._draw_panels())
        remember("axes", self._axes, "active", "cb_obj.labels[cb_obj.active]")
        self._drawn: dict[_Key, LayoutDOM] = {}
        self._panels = row(sizing_mode="stretch_width", stylesheets=[GRID])
        self._grid = self._draw_table()
        self._fill_table()
        self.select(wanted if wanted in shelf.runs else shelf.first)
        shown = {"run": self._status.tags, "axes": _AXES[log], "smoothing": smooth}
        doc.template_variables["here"] = {"place": "runs", **shown}
        with doc.models.freeze():
            for name, part in self._parts(slider).items():
                part.name = name
                doc.add_root(part)
        doc.on_event("document_ready", lambda _event: self._begin())

    def _begin(self) -> None:
        """Go on once the browser has drawn what is seen first, which nothing else holds up."""
        if not self._ready:
            self._ready = True
            self._doc.add_periodic_callback(self.tick, TICK)

    def _parts(self, slider: Slider) -> dict[str, LayoutDOM]:
        save = Button(label="data (CSV)", width=110, stylesheets=[WIDGET])
        save.js_on_click(CustomJS(args={"source": self._history, "status": self._status}, code=_DOWNLOAD))
        return {
            "table": self._grid,
            "status": self._status,
            "verdicts": self._verdicts,
            "controls": row(self._axes, slider, save, styles={"flex-wrap": "wrap", "gap": "12px"}),
            "panels": self._panels,
            "laws": self._laws,
        }

    def _draw_table(self) -> DataTable:
        number = _number(4)
        columns = [
            TableColumn(field="run", title="run", formatter=StringFormatter(), width=260),
            TableColumn(field="state", title="state", formatter=StringFormatter(), width=80),
            TableColumn(field="step", title="step", formatter=NumberFormatter(nan_format=""), width=80),
            TableColumn(field="loss", title="loss", formatter=number, width=80),
            TableColumn(field="accuracy", title="accuracy", formatter=number, width=80),
        ]
        self._table.selected.on_change("indices", lambda _attr, _old, new: self._choose(new))
        places = "source.selected.indices.map((place) => source.data.run[place])"
        remember("run", self._table.selected, "indices", places, source=self._table)
        return table_of(self._table, columns, len(self._shelf.runs), most=_HIGHEST)

    def _draw_panels(self) -> None:
        """Draw what the run has numbers for, and nothing again that is drawn as it should be."""
        if (course := self._course) is None:
            return
        log = self._axes.active == 1
        wanted: dict[_Key, Callable[[], LayoutDOM]] = {}
        if course.loads.size:
            wanted["chain",] = lambda: self._chain.figure
            wanted["layers", *course.layers] = lambda: _layers(self._chain.blocks, len(course.layers))
        for title, (names, positive) in PANELS.items():
            known = tuple(name for name in names if name in course.known)
            if known:
                wanted[title, *known, "log" * (log and positive)] = partial(self._draw, title, known, log and positive)
        for name in course.turns:
            wanted["knob", name] = partial(lambda knob: knob.figure, self._knobs[name])
        if course.matrix.size:
            wanted["classes", *course.classes] = partial(self._draw_matrix, course.classes)
        chosen = list(wanted) if self._ready else list(wanted)[:_FIRST]
        if chosen != list(self._drawn):
            self._drawn = {key: self._drawn.get(key) or wanted[key]() for key in chosen}
            with self._doc.models.freeze():  # or Bokeh walks through all parts again and again
                self._panels.children = list(self._drawn.values())

    def _draw(self, title: str, names: Sequence[str], log: bool) -> figure:
        plot = over_steps(title, names, self._history, self._smooth, log=log)
        if title == "loss":
            band = {"source": self._band, "color": PALETTE[0]}
            plot.varea("step", "low", "high", alpha=0.18, legend_label=_BAND, **band)
            plot.line("step", "middle", line_dash="dashed", **band)
            plain_legend(plot)
            self._name_band(plot)
        return plot

    def _name_band(self, plot: figure) -> None:
        """Name the band in the legend while there is one."""
        item = next(each for each in plot.legend[0].items if each.label.value == _BAND)
        item.visible = len(self._band.data["step"]) > 0

    def _put_band(self, band: dict[str, np.ndarray]) -> None:
        self._band.data = band
        for key, plot in self._drawn.items():
            if key[0] == "loss":
                self._name_band(plot)

    def _draw_matrix(self, classes: Sequence[str]) -> figure:
        plot = empty_figure("elasticity", "class stepped on", "class that moves")
        colours = LinearColorMapper("Viridis256")
        plot.image("image", x=0, y=0, dw="size", dh="size", source=self._matrix, color_mapper=colours)
        plot.add_layout(ColorBar(color_mapper=colours, major_label_text_color=GREY, background_fill_alpha=0.0), "right")
        plot.add_tools(HoverTool(tooltips=[("elasticity", "@image{0.000}")]))
        plot.grid.visible = False
        name_places(plot.xaxis[0], classes, 0.5, slope=0.5)
        name_places(plot.yaxis[0], classes, 0.5)
        return plot

    def _rows(self) -> dict[str, tuple[object, ...]]:
        return {
            name: (name, each.word, float("nan") if each.step is None else each.step, each.loss, each.accuracy)
            for name, each in self._shelf.runs.items()
        }

    def _fill_table(self) -> None:
        """Send cells that changed; the whole table only where runs came or went."""
        rows = self._rows()
        if list(rows) != list(self._table.data["run"]):
            self._table.data = {key: [each[i] for each in rows.values()] for i, key in enumerate(_ROW)}
            self._grid.height = height_of(len(rows), most=_HIGHEST)
            self._mark()
            return
        changed = {
            key: [
                (place, each[i])
                for place, (each, old) in enumerate(zip(rows.values(), self._table.data[key], strict=True))
                if each[i] != old and (each[i] == each[i] or old == old)  # NaN is NaN
            ]
            for i, key in enumerate(_ROW)
        }
        if any(changed.values()):
            self._table.patch({key: cells for key, cells in changed.items() if cells})

    def _mark(self) -> None:
        """Let the table show which run is looked at."""
        names = list(self._shelf.runs)
        place = next((i for i, name in enumerate(names) if self._standing is self._shelf.runs[name]), None)
        self._table.selected.indices = [] if place is None else [place]

    def _choose(self, places: list[int]) -> None:
        if places and places[0] < len(self._table.data["run"]):  # a number of a row: the browser sends no names
            name = self._table.data["run"][places[0]]
            if self._shelf.runs.get(name) is not self._standing:
                self._missed = ""
            self.select(name)

    @property
    def _standing(self) -> Standing | None:
        if self._course is None:
            return None
        return next((each for each in self._shelf.runs.values() if each.folder == self._course.folder), None)

    def select(self, name: str | None) -> None:
        """Show a run of the shelf; nothing happens where it is shown already."""
        standing = None if name is None else self._shelf.runs.get(name)
        if standing is None or standing is self._standing:
            return
        try:
            self._course = Course(standing.folder)
        except OSError:  # gone since the last look
            return
        self._renewed, self._judged, self._layers, self._due = -1, None, [], 0.0
        self._put_band(dict(NO_BAND))
        self._verdicts.text, self._laws.text, self._status.tags = "verdicts are made …", "", [name]
        self._mark()
        self.tick()

    def tick(self) -> None:
        """Send what is new."""
        self._fill_table()
        if self._course is None:
            self._status.text = "no run yet in the folders that were named; waiting for one"
            self.select(self._shelf.first)
            return
        standing = self._standing
        if standing is None:
            self._status.text = "this run is gone from its folder"
            return
        if self._ready:
            with contextlib.suppress(OSError):  # gone since the last look: the next one says so
                self._course.read_on()
        self._status.text = self._missed + standing.sentence
        self._send_history(self._course)
        self._draw_panels()
        if self._ready:
            self._send_verdicts(self._course, ended=standing.ended)

    def _send_history(self, course: Course) -> None:
        seen = self._renewed, self._shown
        self._renewed, self._shown = send(course, self._history, *seen)
        if seen == (self._renewed, self._shown):
            return
        if course.layers != self._layers:
            self._layers = course.layers
            self._chain.name_layers(self._layers)
        self._chain.show(course.layers, course.loads, [loads for _, loads in course.curves])
        for name, turns in course.turns.items():
            self._knobs.setdefault(name, Knob(name)).show(turns, course.columns["step"][-1] if len(course) else 0.0)
        if course.matrix is not self._seen:
            self._seen = course.matrix
            images = [course.matrix] if course.matrix.size else []  # a browser draws none without cells
            self._matrix.data = {"image": images, "size": [len(each) for each in images]}

    def _send_verdicts(self, course: Course, *, ended: bool) -> None:
        """Judge in another thread, and not all the time."""
        if self._waiting is not None and self._waiting.done():
            failed = self._waiting.exception()
            found = Judgement([f"not judged: {failed}"], [], NO_BAND) if failed else self._waiting.result()
            self._waiting = None
            self._due = time.monotonic() + _REST * (time.monotonic() - self._begun)
            if self._judging is course:
                self._verdicts.text, self._laws.text = "\n".join(found.lines), "\n".join(found.laws)
                self._put_band(found.band)
        state = (len(course), course.renewed, ended)
        if self._waiting is None and state != self._judged and time.monotonic() >= self._due:
            self._judged, self._judging, self._begun = state, course, time.monotonic()
            losses = [np.array(course.columns[name]) for name in ("step", "train_loss")]
            self._waiting = self._workers.submit(judge, course.entries, *losses, ended=ended)


def _number(digits: int) -> ScientificFormatter:
    return ScientificFormatter(precision=digits, power_limit_high=5, power_limit_low=-digits, nan_format="")


def _layers(source: ColumnDataSource, count: int) -> DataTable:
    number = _number(3)
    columns = [
        TableColumn(field="name", title="layer", formatter=StringFormatter()),
        TableColumn(field="y", title="load", formatter=number, width=70),
        TableColumn(field="work", title="work", formatter=number, width=70),
    ]
    return table_of(source, columns, count, most=12)


def height_of(rows: int, *, most: int) -> int:
    """Pixels that a table needs for its rows, of which the rest is scrolled to.

    >>> height_of(3, most=8), height_of(300, most=8)
    (105, 230)
    """
    return 30 + 25 * min(max(rows, 1), most)


def table_of(source: ColumnDataSource, columns: list[TableColumn], rows: int, *, most: int) -> DataTable:
    """A table whose cells are text, as high as its rows need."""
    table = DataTable(
        source=source,
        columns=columns,
        index_position=None,
        reorderable=False,
        height=height_of(rows, most=most),
        sizing_mode="stretch_width",
        stylesheets=[_CELLS],
    )
    for event in ("data", "patching", "streaming"):  # Bokeh draws cells again only where rows came or went
        source.js_on_change(event, CustomJS(args={"table": table}, code="table.view.change.emit()"))
    return table
