"""A run as it is read on: what its journal gained since the last look, and no more of it in memory than is shown."""

import math
import os
import stat
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynascope.measure.separation import bends, straightness
from dynascope.monitor import journal
from dynascope.monitor.health import EXAMINED
from dynascope.records import Json

SERIES = (
    *("train_loss", "probe_loss", "test_loss", "train_accuracy", "probe_accuracy", "test_accuracy"),
    *("bend", "straightness", "nc1", "nc2_angle", "nc3", "nc4", "minimum_feature_distance", "intra", "inter"),
)
_MOST = 1 << 20  # bytes of a journal that are read at one look: it may be long
_END = 64  # bytes by which a file is known again; each line has a checksum
_CURVES = 12  # earlier load curves that are kept, if not said otherwise


class File:
    """The journal in a folder; once it, or a folder above it, was replaced by a link, it is as good as gone."""

    def __init__(self, folder: Path) -> None:
        self.path, self._known = folder / journal.NAME, (0, 0)

    def look(self) -> os.stat_result:
        """Its size, and when it was written; an OSError where it is no longer there."""
        found = self.path.lstat()
        if (found.st_dev, found.st_ino) != self._known:
            if not stat.S_ISREG(found.st_mode) or self.path.resolve() != self.path:
                raise FileNotFoundError(f"{str(self.path)!r} is no file in its folder")
            self._known = found.st_dev, found.st_ino
        return found


class Course:
    """What is shown of one run, read from the last byte on.

    `columns` has one number of each series for every measurement, NaN where it was not measured, `known` the names of
    those that ever were, `latest` what each was when it was measured last; `curves` some earlier load curves, evenly
    spaced; `turns` step and value of each knob; `entries` what verdicts are made of. `renewed` counts how often earlier
    measurements were replaced: the run was continued from a step before, or its file is another one.

    >>> import tempfile
    >>> start = {"kind": "start", "layers": ["input", "fc"], "classes": [], "settings": {}, "device": "cpu"}
    >>> with tempfile.TemporaryDirectory() as folder, journal.Journal(folder) as file:
    ...     file.append(start)
    ...     course = Course(Path(folder).resolve())
    ...     file.append({"kind": "measure", "step": 0, "time": 0.0, "numbers": {"load": [2.0, 1.0], "nc1": 0.5}})
    ...     course.read_on()
    ...     course.layers, course.loads.tolist(), list(course.columns["nc1"])
    (['input', 'fc'], [2.0, 1.0], [0.5])
    """

    def __init__(self, folder: Path, *, curves: int = _CURVES) -> None:
        self.folder, self.renewed, self._curves = folder, 0, curves
        self._file = File(folder)
        self._clear()
        self.read_on()

    def _clear(self) -> None:
        self._place, self._end = 0, b""  # up to which byte it was read, and the last ones before it
        self._start: Mapping[str, Json] = {}
        self._seen = (0, 0, 0)
        self.turns: dict[str, list[tuple[int, float]]] = {}
        self.matrix = np.zeros((0, 0))
        self.columns = {name: array("d") for name in ("step", *SERIES)}
        self.known: set[str] = set()
        self.latest: dict[str, float] = {}
        self.curves: list[tuple[int, np.ndarray]] = []
        self.loads = np.zeros(0)
        self._new: dict[int, np.ndarray] = {}  # load curves whose shape is not known yet, by record
        self._kept: list[Mapping[str, Json]] = []
        self._last: Mapping[str, Json] | None = None
        self._stride = {"curves": 1, "entries": 1}

    @property
    def layers(self) -> list[str]:
        """Names of the layers."""
        return list(self._start.get("layers", []))

    @property
    def classes(self) -> list[str]:
        """Names of the classes."""
        return [str(each) for each in self._start.get("class_names") or self._start.get("classes", [])]

    @property
    def entries(self) -> list[Mapping[str, Json]]:
        """Start and measurements, the newest among them, as many as are enough for verdicts."""
        last = [] if self._last is None or self._kept[-1:] == [self._last] else [self._last]
        return [self._start, *self._kept, *last] if self._start else []

    def __len__(self) -> int:
        return len(self.columns["step"])

    def read_on(self) -> None:
        """Take in what the journal gained, about a megabyte of it at most."""
        seen = self._file.look()
        if (state := (seen.st_size, seen.st_mtime_ns, seen.st_ino)) == self._seen:
            return
        if self._bytes_before() != self._end:  # written anew, or another file in its place
            self._clear()
            self.renewed += 1
        found, self._place = journal.read_on(self.folder, self._place, _MOST)
        self._end = self._bytes_before()
        self._seen = state if self._place == seen.st_size else (0, 0, 0)
        for entry in found:
            self._take(entry)
        self._shape()

    def _bytes_before(self) -> bytes:
        with self._file.path.open("rb") as stream:
            stream.seek(max(0, self._place - _END))
            return stream.read(min(_END, self._place))

    def read_all(self) -> None:
        """Take in all that the journal has."""
        before = -1
        while self._place != before:
            before = self._place
            self.read_on()

    def _take(self, entry: Mapping[str, Json]) -> None:
        kind = entry["kind"]
        if kind == "start" and not self._start:
            self._start = entry
        elif kind == "turn":
            own = self.turns.setdefault(entry["knob"], [])
            while own and own[-1][0] >= entry["step"]:  # the run was continued from a step before
                own.pop()
            own.append((entry["step"], entry["value"]))
        elif kind == "measure" and self._start:
            self._measure(entry)

    def _measure(self, entry: Mapping[str, Json]) -> None:
        if len(self) and entry["step"] <= self.columns["step"][-1]:
            self._replace(entry["step"])
        numbers = entry["numbers"]
        loads = _floats(numbers.get("load"), len(self.layers))
        self.columns["step"].append(entry["step"])
        for name in SERIES:
            value = numbers.get(name)
            self.columns[name].append(value if isinstance(value, float) else np.nan)
            if isinstance(value, float):
                self.latest[name] = value
                self.known |= {name} if math.isfinite(value) else set()
        if loads is not None and loads.ndim == 1:
            self.loads = loads
            self._new[len(self) - 1] = loads
            self._keep("curves", self.curves, (entry["step"], loads), self._curves)
        matrix = _floats(numbers.get("elasticity"), len(self.classes))
        if matrix is not None and matrix.ndim == 2:
            self.matrix = matrix
        self._last = entry
        self._keep("entries", self._kept, entry, EXAMINED)

    def _shape(self) -> None:
        """Bend and straightness of the load curves that are new."""
        if self._new and len(self.layers) > 2:
            places, curves = list(self._new), np.array(list(self._new.values()))  # (record, layer)
            with np.errstate(all="ignore"):
                shapes = {"bend": bends(curves), "straightness": straightness(curves)}
            for name, values in shapes.items():
                np.asarray(self.columns[name])[places] = values
                self.latest[name] = float(values[-1])
                self.known |= {name} if np.isfinite(values).any() else set()
        self._new = {}

    def _replace(self, step: int) -> None:
        """Drop what is measured again: a run that was continued, or its final state."""
        count = int(np.searchsorted(self.columns["step"], step))
        self.columns = {name: column[:count] for name, column in self.columns.items()}
        self._new = {place: loads for place, loads in self._new.items() if place < count}
        finite = {name: np.array(self.columns[name])[np.isfinite(self.columns[name])] for name in SERIES}
        self.latest = {name: float(found[-1]) for name, found in finite.items() if len(found)}
        self.curves = [each for each in self.curves if each[0] < step]
        self._kept = [each for each in self._kept if each["step"] < step]
        self.renewed += 1

    def _keep(self, name: str, kept: list[Any], item: object, most: int) -> None:
        """Keep some items, evenly spaced: every one at first, every second when there are too many, …"""
        if (len(self) - 1) % self._stride[name] == 0:
            kept.append(item)
        if len(kept) > most:
            del kept[1::2]
            self._stride[name] *= 2


def _floats(value: object, size: int) -> np.ndarray | None:
    """An array whose first axis is as long as it must be, or None: a journal may hold anything."""
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found.ndim and len(found) == size else None
