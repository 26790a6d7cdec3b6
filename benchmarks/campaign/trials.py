"""One trial: a command is ended once or more, then called again; what it leaves is held against an undisturbed run."""

import io
import json
import os
import random
import re
import shutil
import signal
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from campaign.children import Blow, Ending, Place, import_as, run
from campaign.subjects import Subject, content
from dynascope.monitor import journal
from dynascope.records import load
from dynascope.schema import read_arrays
from dynascope.sweep.batches import Batch, scan

CHAIN = 3  # a command is ended at most so often before it may finish
_DELAY = 0.004  # seconds: at most so long after a change to the disk does a blow fall that was aimed at it
_TRACE = re.compile(r"^(?!Exception ignored).*\nTraceback", re.MULTILINE)  # but of finalizers that a signal met
COUNTERS = ("kills", "signals", "lost", "unreadable", "differing", "leftovers")


@dataclass
class Outcome:
    """What was counted in a trial, and what was seen where something was wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, counter: str, names: object) -> None:
        """Count things that are wrong, by name."""
        found = sorted(map(str, names))
        self.counts[counter] += len(found)
        self.notes += [f"{counter}: {', '.join(found[:5])}"] if found else []


@dataclass(frozen=True)
class Reference:
    """An undisturbed run from some start: what it ends as, how long it takes, how often it changes the disk."""

    status: int
    view: Mapping[str, str]
    files: Mapping[str, str]
    begins: Mapping[str, str]
    seconds: float
    events: int
    bytes: int


class Bench:
    """The folder where commands are run and disturbed."""

    def __init__(self, folder: Path) -> None:
        self.place, self.inputs = Place(folder / "work"), folder / "inputs"

    def set_out(self, subject: Subject, *, older: bool) -> None:
        """Make the folder as it is before the command is called."""
        for path in (self.place.out, self.place.scratch):
            path.mkdir(parents=True, exist_ok=True)
            for each in path.iterdir():  # the folder itself may be a mounted disk
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        for path in (self.place.done, self.place.told, self.place.log):
            path.unlink(missing_ok=True)
        subject.start(self.inputs, self.place.out)
        if older and subject.older:
            run(subject.older, self.place)

    def reference(self, subject: Subject, *, older: bool) -> Reference:
        """Run it undisturbed, twice: the second tells how long it takes where everything is cached."""
        for _ in range(2):
            self.set_out(subject, older=older)
            begins = files(self.place.out)
            ending = run(subject.run, self.place)
            import_as(self.place)
        if ending.status not in (0, 1):
            raise RuntimeError(f"{subject.name} does not work: {self.said()}")
        return Reference(
            ending.status,
            self.view(subject),
            files(self.place.out),
            begins,
            ending.seconds,
            ending.events,
            sum(path.stat().st_size for path in self.place.out.rglob("*") if path.is_file()),
        )

    def view(self, subject: Subject) -> Mapping[str, str]:
        """What is compared."""
        return subject.view(self.place.out) if subject.view else files(self.place.out)

    def said(self) -> str:
        """The end of what the command said."""
        return self.place.log.read_text(errors="replace")[-2000:] if self.place.log.exists() else ""

    def trial(self, subject: Subject, known: Mapping[bool, Reference], draw: random.Random) -> Outcome:
        """End a command some times and let it finish."""
        older = bool(subject.older) and draw.random() < 0.5
        reference, outcome = known[older], Outcome()
        self.set_out(subject, older=older)
        finished: set[str] = set()
        for _ in range(draw.randint(1, CHAIN)):
            ending = run(subject.run, self.place, blow(reference, draw))
            outcome.counts["leftovers"] += ending.orphans
            if not ending.ended_by_blow:
                if ending.status != reference.status:
                    outcome.add("differing", [f"status {ending.status} after a signal: {self.said()}"])
                break
            outcome.counts["kills" if ending.status == -signal.SIGKILL else "signals"] += 1
            if ending.status != -signal.SIGKILL and _TRACE.search("\n" + self.said()):
                outcome.add("differing", [self.said()])
            finished = self.look(subject, reference, outcome, finished)
        self.finish(subject, reference, outcome, finished)
        return outcome

    def look(self, subject: Subject, reference: Reference, outcome: Outcome, before: set[str]) -> set[str]:
        """What must hold right after a blow: files are whole, and finished work is there. Returns that work."""
        known = {name: {reference.files.get(name), reference.begins.get(name)} for name in files(self.place.out)}
        outcome.add(
            "unreadable",
            [name for name, versions in known.items() if not _fine(self.place.out / name, versions)],
        )
        gone = [name for name in reference.begins if name in reference.files and not (self.place.out / name).exists()]
        finished = subject.units(self.place.out)
        told = set(_lines(self.place.told))
        again = before & set(_lines(self.place.done))
        outcome.add("lost", {*gone, *(before - finished), *(told - finished), *again})
        self.place.done.unlink(missing_ok=True)
        return finished

    def finish(self, subject: Subject, reference: Reference, outcome: Outcome, finished: set[str]) -> None:
        """Call the command again, to its end: it must end as if nothing had happened."""
        self.place.log.unlink(missing_ok=True)
        self.place.done.unlink(missing_ok=True)
        self.compare(subject, reference, outcome, run(subject.run, self.place))
        again = finished & set(_lines(self.place.done))
        outcome.add("lost", {*(finished - subject.units(self.place.out)), *again})

    def compare(self, subject: Subject, reference: Reference, outcome: Outcome, ending: Ending) -> None:
        """Hold what a command has left against what an undisturbed one leaves."""
        if ending.status != reference.status:
            outcome.add("differing", [f"status {ending.status}: {self.said()}"])
            return
        outcome.counts["leftovers"] += ending.orphans
        found = self.view(subject)
        outcome.add("differing", [name for name in reference.view if found.get(name) != reference.view[name]])
        stray = set(found) - set(reference.view)
        hidden = [name for name in files(self.place.out) if _temporary(name)]
        outcome.add("leftovers", {*stray, *hidden, *os.listdir(self.place.scratch)})


def blow(reference: Reference, draw: random.Random) -> Blow:
    """A moment: half of them anywhere, half at a change to the disk or just after it; one in six is a polite signal."""
    number = draw.choice([signal.SIGKILL] * 10 + [signal.SIGTERM, signal.SIGINT])
    if draw.random() < 0.5 or not reference.events:
        return Blow(number, after=draw.uniform(0.0, reference.seconds))
    delay = draw.choice([0.0, draw.uniform(0.0, _DELAY)])
    return Blow(number, after=delay, event=draw.randrange(reference.events))


def files(folder: Path) -> dict[str, str]:
    """All files below a folder, and what they hold."""
    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _temporary(name: str) -> bool:
    """Files that are being written begin with a point; so do locks, which stay."""
    return any(part.startswith(".") and part != ".lock" for part in Path(name).parts)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _fine(path: Path, versions: set[str | None]) -> bool:
    """Whether a file holds what it held before, what it will hold, or something whole in between."""
    unfinished = _temporary(path.name) or ".part" in path.name or any(".part" in each for each in path.parts)
    if unfinished or content(path) in versions:
        return True
    try:
        return _READERS.get(path.suffix, _ends)(path) is not None
    except Exception:
        return False


def _ends(path: Path) -> bool | None:
    """Text of which nothing is known but that it must end with a line."""
    return path.read_bytes().endswith(b"\n") or None


def _picture(path: Path) -> object:
    return Image.open(io.BytesIO(path.read_bytes())).load()


def _batches(path: Path) -> list[object]:
    """What a sweep has finished; the last batch may be cut short."""
    return [part.stacks() for part in scan(path) if isinstance(part, Batch) or not part.cut]


_READERS: dict[str, Callable[[Path], object]] = {
    ".nc": load,
    ".json": lambda path: json.loads(path.read_text()),
    ".jsonl": lambda path: journal.read(path.parent),
    ".npz": read_arrays,
    ".png": _picture,
    ".svg": ET.parse,
    ".pt": lambda path: path,
    ".bin": _batches,
}
