"""A sweep on disk: its plan, one record for each finished task, one traceback for each failed one.

    sweep.json            what was asked for
    results/ADDRESS.nc    records
    failures/ADDRESS.json what went wrong
    packs/                packs on their way in
    damaged/ADDRESS.nc    records that could not be read any more, and were computed again

The results of a pack come in together: they are written beside each other, the folder that holds them is renamed, and
only then are they moved to their places. So a program that is killed leaves every pack finished or untouched, and going
on computes neither twice nor in other packs.
"""

import fcntl
import math
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from dynascope.checks import path_of
from dynascope.locks import held_lock
from dynascope.records import check_writable, load, save, write_text
from dynascope.schema import parse_json, read_json, with_sum
from dynascope.sweep.plan import Plan, Task, as_text

PLAN, RESULTS, FAILURES, INCOMING, DAMAGED, LOCK = "sweep.json", "results", "failures", "packs", "damaged", ".lock"
FORMAT = 1
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


@dataclass(frozen=True)
class Failure:
    """Why a task has no result: the error in one line, and where it arose."""

    error: str
    traceback: str


class SweepFolder:
    """The folder of one sweep; tells what is finished and takes in what comes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_of("out", path)

    def record_path(self, key: str) -> Path:
        """Where the result of a task lies once it is finished."""
        return self.path / RESULTS / f"{key}.nc"

    def failure_path(self, key: str) -> Path:
        """Where the traceback of a failed task lies."""
        return self.path / FAILURES / f"{key}.json"

    def keys(self, kind: str) -> set[str]:
        """Addresses of all finished (RESULTS) or failed (FAILURES) tasks, in one look at the disk."""
        place = self.path / kind
        return {name.rpartition(".")[0] for name in os.listdir(place)} if place.is_dir() else set()

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

    def take_in(self, pack: Sequence[Task], outcomes: Sequence[xr.Dataset | Failure], code: str) -> list[str]:
        """Store what became of the tasks of a pack, all together; return the addresses of those that failed."""
        staging = self.path / INCOMING / f"{uuid.uuid4().hex}.part"
        failed = []
        try:
            staging.mkdir(parents=True)
            for task, outcome in zip(pack, outcomes, strict=True):
                if not self._written(staging, task, outcome, code):
                    failed.append(task.key)
            whole = staging.with_suffix("")
            staging.rename(whole)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        self._move(whole)
        return failed

    def _written(self, staging: Path, task: Task, outcome: xr.Dataset | Failure, code: str) -> bool:
        if isinstance(outcome, xr.Dataset):
            address = {"address": task.key, "code": code, "configuration": task.configuration}
            try:
                save(outcome.assign_attrs(sweep=as_text(address)), staging / f"{task.key}.nc")
            except ValueError as error:  # what the experiment returned cannot be held by a record
                outcome = Failure(str(error), "")
            else:
                return True
        content = {"error": outcome.error, "traceback": outcome.traceback, "code": code}
        write_text(staging / f"{task.key}.json", with_sum(as_text(content | {"configuration": task.configuration})))
        return False

    def _finish_moves(self) -> None:
        """Bring in packs that were whole when an earlier program died, and drop those that were not."""
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

    def load(self, key: str) -> xr.Dataset:
        """Read the record of a finished task; ValueError where it is damaged, or belongs to another task."""
        path = self.record_path(key)
        try:
            record = load(path)
        except (OSError, ValueError):  # a signal while a library reads may look like damage, which stays
            record = load(path)
        own = parse_json(str(record.attrs.get("sweep", "")), _Address, str(path))
        if own.address != key:
            raise ValueError(f"{str(path)!r} is the result of another task, {own.address}")
        return record

    def set_aside(self, keys: Sequence[str]) -> None:
        """Move damaged records to where nothing is read, so that their tasks are run again."""
        (self.path / DAMAGED).mkdir(exist_ok=True)
        for key in keys:
            os.replace(self.record_path(key), self.path / DAMAGED / f"{key}.nc")

    def failure(self, key: str) -> Failure:
        """Read why a task failed."""
        try:
            return read_json(self.failure_path(key), Failure)
        except (OSError, ValueError) as error:
            return Failure(f"why it failed cannot be read any more ({error})", "")
