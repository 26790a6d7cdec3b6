"""A file that grows by one measurement at a time and survives the process that writes it.

Each line is a checksum and a JSON text. A line is handed to the system in one piece and forced to disk before the next
measurement begins; what a killed process leaves unfinished at the end is ignored by readers, and cut off when the run
is continued. A line that was damaged later is left out and counted, and stays where it is. A lock that the system drops
with the process keeps a second writer out.
"""

import json
import os
import stat
import time
import weakref
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from dynascope.files import remove_leftovers
from dynascope.records import Json
from dynascope.schema import Whole, parse_json

try:
    import fcntl
except ImportError:  # Windows has no advisory locks of this kind
    fcntl = None  # type: ignore[assignment]

NAME = "journal.jsonl"
DAMAGED = "damaged"  # the kind of an entry that no journal holds: it counts the lines that could not be read
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # what a link leads to is not cut or written to
_PATIENCE = 1.0  # seconds: of a run that was just killed, a worker that has not begun may still hold the lock


def is_run(path: str | os.PathLike[str]) -> bool:
    """Say whether a folder holds a run.

    >>> is_run("nowhere")
    False
    """
    return (Path(path) / NAME).is_file()


def watched(record: xr.Dataset) -> bool:
    """Whether a record comes from a watched training run.

    >>> watched(xr.Dataset())
    False
    """
    return record.attrs.get("model") == '"watch"'


def _line(entry: dict[str, Json]) -> bytes:
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


@dataclass(frozen=True)
class Settings:
    """What is used of a run's settings, in journals and records."""

    model: str = ""
    task: str = ""
    answers: Whole = 0
    samples: Whole = 0
    width: Whole | None = None
    slow: Whole | None = None
    max_overhead: float | None = None
    loss_of_the_mean: float | None = None


@dataclass(frozen=True)
class _Start:
    """What the first entry of a run holds."""

    layers: list[str]
    classes: list[int]
    settings: Settings
    device: str
    probe: str = ""
    class_names: list[str] | None = None
    weights: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Measure:
    """A measurement."""

    step: Whole
    time: float
    numbers: dict[str, Any]


@dataclass(frozen=True)
class _Turn:
    """A knob that was turned, or left, and where the law of control stands."""

    step: Whole
    knob: str
    value: float
    state: dict[str, Any]
    bend: float | None = None


@dataclass(frozen=True)
class _End:
    """A run that was closed."""

    step: Whole


_KINDS: dict[object, type] = {"start": _Start, "measure": _Measure, "turn": _Turn, "end": _End}


def _entry(line: bytes) -> dict[str, Json] | None:
    """One entry; None where the line is damaged, or holds something else."""
    mark, _, text = line.removesuffix(b"\n").partition(b" ")
    if mark != b"%08x" % zlib.crc32(text):
        return None
    try:
        entry = parse_json(text.decode(), dict[str, Any], NAME)
        parse_json(text.decode(), _KINDS[entry.get("kind")], NAME)
    except (ValueError, KeyError, TypeError):
        return None
    return entry


def _entries(content: bytes) -> tuple[list[dict[str, Json]], int]:
    """All entries that are whole, before them the count of those that are not; bytes up to the last line end."""
    whole = content.rfind(b"\n") + 1
    found = [_entry(line + b"\n") for line in content[:whole].split(b"\n")[:-1]]
    entries = [each for each in found if each is not None]
    lost = len(found) - len(entries)
    return ([{"kind": DAMAGED, "lines": lost}] if lost else []) + entries, whole


def read(folder: str | os.PathLike[str]) -> list[dict[str, Json]]:
    """Read every whole entry, while the run goes on or after it was killed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(folder) as journal:
    ...         journal.append({"kind": "end", "step": 1})
    ...     whole = (Path(folder) / NAME).read_bytes()
    ...     _ = (Path(folder) / NAME).write_bytes(whole + b"0badc0de {cut sho")
    ...     read(folder)
    [{'kind': 'end', 'step': 1}]
    """
    path = Path(folder) / NAME
    if not path.is_file():
        raise FileNotFoundError(f"there is no run in {str(folder)!r}: it holds no {NAME}")
    return _entries(path.read_bytes())[0]


def read_on(folder: str | os.PathLike[str], place: int, most: int) -> tuple[list[dict[str, Json]], int]:
    """Read whole entries from a byte on, some `most` bytes of them, and the byte at which to go on.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(folder) as journal:
    ...         journal.append({"kind": "end", "step": 1})
    ...         first, place = read_on(folder, 0, 1000)
    ...         journal.append({"kind": "end", "step": 2})
    ...     read_on(folder, place, 1)[0]
    [{'kind': 'end', 'step': 2}]
    """
    with (Path(folder) / NAME).open("rb") as stream:
        stream.seek(place)
        entries, whole = _entries(stream.read(most) + stream.readline())
    return entries, place + whole


def status(folder: str | os.PathLike[str]) -> str:
    """Say whether a run is "finished", "live" (a process writes to it) or "stopped" before its end.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(folder) as journal:
    ...         journal.append({"kind": "measure", "step": 0, "time": 0.0, "numbers": {}})
    ...         before = status(folder)
    ...     before, status(folder)
    ('live', 'stopped')
    """
    entries = read(folder)
    if entries and entries[-1].get("kind") == "end":
        return "finished"
    return "live" if held(folder) else "stopped"


def held(folder: str | os.PathLike[str]) -> bool:
    """Whether a process writes to a run, or nobody can tell.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Journal(folder):
    ...     held(folder)
    True
    """
    if fcntl is None:
        return True
    with (Path(folder) / NAME).open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # another process has it, or the file system knows no locks
            return True
    return False


class Journal:
    """The writing end: one live process at a time, continuing what earlier ones left.

    folder: made if it is not there. A folder that cannot be written to, or that another live run writes to, is a
    ValueError. `entries` are those that were there before.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(folder) as journal:
    ...         journal.append({"kind": "end", "step": 1})
    ...     with Journal(folder) as journal:
    ...         print(journal.entries)
    [{'kind': 'end', 'step': 1}]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.folder / NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND | _NO_LINK, 0o666)
        except OSError as error:
            raise ValueError(f"out must be a folder that can be written to, got {str(folder)!r}: {error}") from error
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise ValueError(f"out must be a folder whose {NAME} is a file, got {str(folder)!r}")
            self._lock()
            remove_leftovers(self.folder)  # of a run that was killed while it wrote its record
            size = os.fstat(self._file).st_size
            self.entries, whole = _entries(_read_all(self._file, size))
            if whole < size:
                os.ftruncate(self._file, whole)
        except BaseException:
            os.close(self._file)
            raise
        if hasattr(os, "register_at_fork"):  # a data loader's worker must not keep the lock when this process dies
            held = weakref.WeakMethod(self._leave)
            os.register_at_fork(after_in_child=lambda: (leave := held()) and leave())

    def append(self, entry: dict[str, Json]) -> None:
        """Write one entry, and return when it is on disk."""
        line = _line(entry)
        try:
            written = os.write(self._file, line)
            if written != len(line):
                raise OSError(f"only {written} of {len(line)} bytes could be written")
            os.fsync(self._file)
        except OSError as error:
            self._cut()
            place = str(self.folder / NAME)
            raise OSError(error.errno, f"{error.strerror or error}, while writing", place) from error

    def _cut(self) -> None:
        """Drop what a full disk let through of a line, or every later line would lie behind damage."""
        whole = _entries(_read_all(self._file, os.fstat(self._file).st_size))[1]
        os.ftruncate(self._file, whole)

    def _lock(self) -> None:
        if fcntl is None:
            return
        late = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() > late:
                    raise ValueError(
                        f"out must belong to one run at a time, but another live run writes to {str(self.folder)!r}; "
                        "choose another folder or wait for its end"
                    ) from error
                time.sleep(0.01)
            except OSError:  # a file system without locks
                return

    def _leave(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def close(self) -> None:
        """Let the file go; calling it again does nothing."""
        self._leave()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read_all(file: int, size: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    parts = []
    while size > 0 and (part := os.read(file, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
