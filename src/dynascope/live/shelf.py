"""The runs and sweeps below the folders that were named, found as they appear; each run with where it stands."""

import contextlib
import itertools
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynascope.live.tailing import File
from dynascope.monitor import journal
from dynascope.monitor.comparing import run_names

TABLE, PLAN = "table.nc", "sweep.json"  # of a sweep
_ENDS = (1 << 14, 1 << 21)  # bytes at the end of a journal that are read to see where a run stands; lines may be long
_PATIENCE = 3.5  # seconds, and three pauses between measurements: a run that is silent for longer says so


@dataclass
class Standing:
    """Where a run stands, by the end of its journal."""

    folder: Path
    step: int | None = None
    loss: float = float("nan")
    accuracy: float = float("nan")
    ended: bool = False
    _size: int = field(default=-1, repr=False)
    _written: float = field(default=0.0, repr=False)
    _pause: float = field(default=0.0, repr=False)
    _held: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        self._file = File(self.folder)

    def look(self) -> None:
        """See whether a process writes to the journal, and read its end again if it has changed."""
        found = self._file.look()
        changed = (found.st_size, found.st_mtime) != (self._size, self._written)
        if changed or not self.ended:  # before its end is read: a process writes that, and then lets go
            self._held = journal.held(self.folder)
        if not changed:
            return
        self._size, self._written = found.st_size, found.st_mtime
        for size in _ENDS:
            entries, _ = journal.read_on(self.folder, max(0, found.st_size - size), size)
            measured = [each for each in entries if each["kind"] == "measure"]
            if measured or found.st_size <= size:
                break
        times = [each["time"] for each in measured]
        self._pause = statistics.median(b - a for a, b in itertools.pairwise(times)) if times[1:] else 0.0
        self.ended = bool(entries) and entries[-1]["kind"] == "end"
        if measured:
            numbers = measured[-1]["numbers"]
            self.step = measured[-1]["step"]
            self.loss = _first(numbers, "train_loss", "probe_loss")
            self.accuracy = _first(numbers, "probe_accuracy", "train_accuracy")

    @property
    def word(self) -> str:
        """One of "closed", "killed", "silent" and "running"."""
        if self.ended:
            return "closed"
        if not self._held:
            return "killed"
        return "silent" if time.time() - self._written > max(_PATIENCE, 3 * self._pause) else "running"

    @property
    def sentence(self) -> str:
        """The word, since when nothing was written, and how far the run is."""
        ago = f"{max(0, int(time.time() - self._written))} s"
        said = {
            "closed": "closed",
            "killed": f"killed: silent for {ago}, and no process writes to it",
            "silent": f"silent for {ago}, though its process lives",
            "running": "running",
        }[self.word]
        return said if self.step is None else f"{said} · step {self.step}"


def _first(numbers: dict[str, object], *names: str) -> float:
    return next((value for name in names if isinstance(value := numbers.get(name), float)), float("nan"))


def named(folders: Iterable[Path]) -> dict[str, Path]:
    r"""Folders by names that tell them apart; what is no text in a name cannot be shown.

    >>> list(named([Path("a/first"), Path("b/\udcff"), Path("b/\udcfe")]))
    ['first', '�', '�′']
    """
    ordered = sorted(folders)
    names, shown = run_names([*ordered]), dict[str, Path]()
    for folder in ordered:
        name = names[str(folder)].encode(errors="surrogateescape").decode(errors="replace")
        while name in shown:
            name += "′"
        shown[name] = folder
    return shown


class Shelf:
    """All runs in and below some folders, by names that tell them apart.

    >>> Shelf([Path("nowhere")])
    Traceback (most recent call last):
    ValueError: runs must be folders that are there, got 'nowhere'
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise ValueError(f"runs must be folders that are there, got {str(root)!r}")
        self._roots = [root.resolve() for root in roots]
        self.runs: dict[str, Standing] = {}
        self.sweeps: dict[str, Path] = {}
        self.put(self.find())

    def find(self) -> list[Path]:
        """Folders of runs; sweeps are put on the shelf at once. May take long.

        Links are not followed, so that nothing outside the named folders is read.
        """
        runs, sweeps = set(), set()
        for root in self._roots:
            for place, _, files in os.walk(root):
                if journal.NAME in files:
                    runs.add(Path(place))
                if PLAN in files and not any((Path(place) / each).is_symlink() for each in (PLAN, TABLE, "results")):
                    sweeps.add(Path(place))
        self.sweeps = named(sweeps)
        return sorted(runs)

    def put(self, folders: Sequence[Path]) -> None:
        """Have the runs that were found and no others."""
        known = {standing.folder: standing for standing in self.runs.values()}
        self._keep([known.get(folder) or Standing(folder) for folder in folders])

    def look(self) -> None:
        """Look at every run; one that is gone is left out."""
        self._keep(self.runs.values())

    def _keep(self, runs: Iterable[Standing]) -> None:
        kept = {}
        for each in runs:
            with contextlib.suppress(OSError):
                each.look()
                kept[each.folder] = each
        self.runs = {name: kept[folder] for name, folder in named(kept).items()}

    @property
    def first(self) -> str | None:
        """The run to show first: one that goes on, else the one that was written last."""
        newest = sorted(self.runs, key=lambda name: self.runs[name]._written, reverse=True)
        return next((name for name in newest if self.runs[name].word == "running"), newest[0] if newest else None)
