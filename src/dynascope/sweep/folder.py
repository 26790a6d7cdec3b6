"""A sweep on disk: its plan, batches of results, one traceback for each failed task.

    sweep.json              what was asked for
    results/batches.bin     results, in batches that come in whole or not at all: see batches.py
    results/ADDRESS.nc      results in folders of version 0.1.0, one record each
    failures/ADDRESS.json   what went wrong
    damaged/                results that could not be read any more, and were computed again

A batch holds whole packs, with failures among them; the files in failures/ are written after it. So a program that is
killed leaves every pack finished or untouched, the next one makes the files of the last batch, and going on computes
nothing twice nor in other packs.
"""

import fcntl
import math
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from dynascope.checks import path_of
from dynascope.locks import held_lock
from dynascope.records import check_writable, load, write_text
from dynascope.schema import parse_json, read_json, with_sum
from dynascope.sweep.batches import NAME, Batch, Gap, Head, append, last_batch, scan, without
from dynascope.sweep.plan import Plan, Task, as_text
from dynascope.sweep.stacks import Failure, Gathering, Stack

PLAN, RESULTS, FAILURES, INCOMING, DAMAGED, LOCK = "sweep.json", "results", "failures", "packs", "damaged", ".lock"
FORMAT = 2  # 1: a file for each result
_KEY = re.compile("[0-9a-f]{32}")  # addresses become names of files
_PATIENCE = 1.0  # seconds until a lock counts as held by another sweep: who only looks holds it for an instant


@dataclass(frozen=True)
class _Version:
    """What sweep.json holds in any version."""

    format: int


@dataclass(frozen=True)
class _Stored:
    """What sweep.json holds."""

    experiment: str
    reference: dict[str, str] | None
    code: str
    axes: dict[str, list[Any]]
    fixed: dict[str, Any]
    tasks: list[Task]


@dataclass(frozen=True)
class _Address:
    """What a record says of itself."""

    address: str
    code: str
    configuration: dict[str, Any]


class SweepFolder:
    """The folder of one sweep; tells what is finished and takes in what comes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_of("out", path)

    @property
    def batches(self) -> Path:
        """Where results lie."""
        return self.path / RESULTS / NAME

    def record_path(self, key: str) -> Path:
        """Where version 0.1.0 put the result of a task."""
        return self.path / RESULTS / f"{key}.nc"

    def failure_path(self, key: str) -> Path:
        """Where the traceback of a failed task lies."""
        return self.path / FAILURES / f"{key}.json"

    def keys(self, kind: str) -> set[str]:
        """Addresses of all finished (RESULTS) or failed (FAILURES) tasks."""
        place, suffix = self.path / kind, {RESULTS: ".nc", FAILURES: ".json"}[kind]
        names = os.listdir(place) if place.is_dir() else []
        found = {name.removesuffix(suffix) for name in names if name.endswith(suffix)}
        return found.union(*(batch.head.keys for batch in self.heads())) if kind == RESULTS else found

    def heads(self) -> list[Batch]:
        """All batches whose head is whole."""
        return [part for part in scan(self.batches) if isinstance(part, Batch)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second program out while this one works; the lock dies with its holder."""
        check_writable(self.path / PLAN)
        self.path.mkdir(parents=True, exist_ok=True)
        with held_lock(self.path / LOCK, _PATIENCE) as held:
            if not held:
                raise ValueError(
                    f"out must be a folder where no sweep is running, got {str(self.path)!r}, where one is; "
                    "wait for it, or choose another folder"
                )
            self._finish_moves()
            last = last_batch(self.batches)
            if last:
                self._settle(last.head)
            yield

    def is_locked(self) -> bool:
        """Whether a program is working on this sweep right now."""
        try:
            lock = os.open(self.path / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)  # a pipe would wait for ever
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(lock)
        return False

    def write_plan(self, plan: Plan, reference: Mapping[str, str] | None) -> None:
        """Store what was asked for; `reference` says how to find the experiment again."""
        content = {
            "format": FORMAT,
            "experiment": plan.name,
            "reference": reference,
            "code": plan.code,
            "axes": plan.axes,
            "fixed": plan.fixed,
            "tasks": [{"key": task.key, "configuration": task.configuration} for task in plan.tasks],
        }
        write_text(self.path / PLAN, with_sum(as_text(content, in_order=True)))

    def read_plan(self) -> tuple[Plan, dict[str, str] | None]:
        """Read what was asked for, and how to find the experiment again."""
        path = self.path / PLAN
        try:
            version = read_json(path, _Version).format
            found = read_json(path, _Stored) if version <= FORMAT else None
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"out must be the folder of a sweep, got {str(self.path)!r}, which has no {PLAN}"
            ) from None
        except ValueError as error:
            raise ValueError(f"{error}; run the sweep again to write it anew") from error
        if found is None:
            raise ValueError(f"{str(path)!r} is of a newer version; update dynascope")
        size = math.prod(map(len, found.axes.values()))
        if not found.axes or size != len(found.tasks):
            raise ValueError(
                f"{str(path)!r} is damaged: its axes have {size} points and it lists {len(found.tasks)} tasks; run the "
                "sweep again to write it anew"
            )
        if unsafe := [task.key for task in found.tasks if not _KEY.fullmatch(task.key)]:
            raise ValueError(f"{str(path)!r} is damaged: {unsafe[0]!r} is no address; run the sweep again")
        return Plan(found.experiment, found.code, found.axes, found.fixed, found.tasks), found.reference

    def take_in(self, head: Head, content: bytes) -> None:
        """Store a batch."""
        append(self.batches, content)
        self._settle(head)

    def _settle(self, head: Head) -> None:
        """Let the files in failures/ say what a batch says."""
        for key in self.keys(FAILURES).intersection(head.keys):
            self.failure_path(key).unlink(missing_ok=True)
        for key, failure in head.failures.items():
            text = with_sum(as_text(vars(failure)))
            if not (self.failure_path(key).is_file() and self.failure_path(key).read_text(errors="replace") == text):
                write_text(self.failure_path(key), text)

    def _finish_moves(self) -> None:
        """Bring in packs that were whole when a program of version 0.1.0 died, and drop those that were not."""
        place = self.path / INCOMING
        for name in sorted(os.listdir(place)) if place.is_dir() else []:
            if (place / name).is_symlink() or place.is_symlink():
                raise ValueError(
                    f"{str(place / name)!r} must not be reached by a link, which sweeps never make: remove it"
                )
            if name.endswith(".part"):
                shutil.rmtree(place / name)
            else:
                self._move(place / name)

    def _move(self, whole: Path) -> None:
        for file in sorted(whole.iterdir()):
            target = self.record_path(file.stem) if file.suffix == ".nc" else self.failure_path(file.stem)
            target.parent.mkdir(exist_ok=True)
            if file.suffix == ".nc":
                self.failure_path(file.stem).unlink(missing_ok=True)  # before: what is moved is not looked at again
            os.replace(file, target)
        whole.rmdir()

    def results(self, keys: Collection[str], damaged: dict[str, str]) -> Iterator[tuple[Stack, list[int]]]:
        """Read the results at some addresses, as stacks and the rows in them.

        damaged: is told what is wrong with results that cannot be used, by address, and with parts of the file that
            cannot even say whose they are, by their place
        """
        wanted, parts = set(keys), list(scan(self.batches))
        batches = [part for part in parts if isinstance(part, Batch)]
        last = {key: number for number, batch in enumerate(batches) for key in batch.head.keys}
        for number, batch in enumerate(batches):
            own = {key for key in batch.head.keys if last[key] == number} & wanted
            try:
                stacks = batch.stacks() if own else []
            except (OSError, ValueError) as error:
                damaged |= dict.fromkeys(own, str(error))
                continue
            for stack in stacks:
                rows = {key: row for row, key in enumerate(stack.keys) if key in own}
                yield stack, list(rows.values())
        for key in sorted(wanted & self.keys(RESULTS) - last.keys()):
            try:
                yield self._record(key), [0]
            except (OSError, ValueError) as error:
                damaged[key] = str(error)
        for part in parts:
            if isinstance(part, Gap) and not (part.cut and self.is_locked()):  # else it is being written
                damaged[part.name] = f"{part} {'was cut short' if part.cut else 'is damaged'}"

    def _record(self, key: str) -> Stack:
        """Read a result of version 0.1.0; ValueError where it is damaged, or belongs to another task."""
        path = self.record_path(key)
        try:
            record = load(path)
        except (OSError, ValueError):  # a signal while a library reads may look like damage, which stays
            record = load(path)
        own = parse_json(str(record.attrs.pop("sweep", "")), _Address, str(path))
        if own.address != key:
            raise ValueError(f"{str(path)!r} is the result of another task, {own.address}")
        found = Gathering(own.code)
        found.add(Task(own.configuration, key), record)
        return found.stacks()[0]

    def records(self) -> Iterator[tuple[str, xr.Dataset]]:
        """All results that can be read, one by one, with their addresses."""
        for stack, rows in self.results(self.keys(RESULTS), {}):
            yield from ((stack.keys[row], stack.record(row)) for row in rows)

    def set_aside(self, keys: Collection[str]) -> None:
        """Move damaged results to where nothing is read, so that their tasks are run again."""
        place = self.path / DAMAGED
        place.mkdir(exist_ok=True)
        for key in keys:
            if self.record_path(key).exists():
                os.replace(self.record_path(key), place / f"{key}.nc")
        spoiled = [part for part in scan(self.batches) if _spoiled(part, keys)]
        if spoiled:
            without(self.batches, spoiled, place)

    def failure(self, key: str) -> Failure:
        """Read why a task failed."""
        try:
            return read_json(self.failure_path(key), Failure)
        except (OSError, ValueError) as error:
            return Failure(f"why it failed cannot be read any more ({error})", "")


def _spoiled(part: Batch | Gap, keys: Collection[str]) -> bool:
    if isinstance(part, Gap):
        return True
    try:
        return bool(set(keys).intersection(part.head.keys) and not part.stacks())
    except (OSError, ValueError):
        return True
