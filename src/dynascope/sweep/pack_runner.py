"""Running packs, in this process or in a worker's: every task ends as a dataset or as a failure."""

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import xarray as xr

from dynascope.sweep.batches import Head, as_batch
from dynascope.sweep.gpus import Room, is_out_of_memory, let_go
from dynascope.sweep.plan import Task
from dynascope.sweep.stacks import Failure, Gathering
from dynascope.sweep.workload import Configuration, Workload, as_dataset

BATCH_SECONDS = 1.0  # of work in a batch: so much is lost at most where a program is killed
BATCH_BYTES = 1 << 26


@dataclass(frozen=True)
class Done:
    """The first of some packs, run: how many, and their batch; `most` configurations at once, if more were too many."""

    packs: int
    head: Head
    batch: bytes
    most: int | None = None


def run_batch(workload: Workload, packs: Sequence[Sequence[Task]], code: str, most: int | None = None) -> Done:
    """Run one pack after another until a batch is full: about a second of work, or 64 MB of results.

    A pack that does not fit into the memory of this process's GPU is run in parts.

    most: configurations that run at once, where more were too many before

    >>> def double(pack):
    ...     return [{"y": 2 * each["x"]} for each in pack]
    >>> done = run_batch(Workload(double, {"x": 1}), [[Task({"x": x}, f"a{x}")] for x in (1, 2)], "code")
    >>> done.packs, done.head.keys
    (2, ['a1', 'a2'])
    """
    begun, found, number, room = time.perf_counter(), Gathering(code), 0, Room.here(workload, most)
    for number, pack in enumerate(packs, 1):  # noqa: B007
        for task, outcome in zip(pack, run_pack([each.configuration for each in pack], room), strict=True):
            found.add(task, outcome)
        if time.perf_counter() - begun > BATCH_SECONDS or found.size > BATCH_BYTES:
            break
    return Done(number, *as_batch(found, time.perf_counter() - begun), room.most)


def run_pack(configurations: Sequence[Configuration], room: Room) -> list[xr.Dataset | Failure]:
    """Run a pack in parts that fit; where one raises, run its halves: a bad configuration does not take others with it.

    >>> def root(pack):
    ...     return [{"root": 1 / each["x"]} for each in pack]
    >>> outcomes = run_pack([{"x": 1.0}, {"x": 0.0}, {"x": 4.0}], Room(Workload(root, {"x": 1.0})))
    >>> [getattr(outcome, "error", "fine") for outcome in outcomes]
    ['fine', 'ZeroDivisionError: float division by zero', 'fine']
    """
    return [outcome for part in room.split(configurations) for outcome in _run_part(part, room)]


def _run_part(configurations: Sequence[Configuration], room: Room) -> list[xr.Dataset | Failure]:
    half = len(configurations) // 2
    try:
        results = list(room.workload.run([dict(each) for each in configurations]))
        if len(results) != len(configurations):
            raise ValueError(
                f"run must return {len(configurations)} datasets, one for each configuration, got {len(results)}"
            )
        return [as_dataset(each) for each in results]
    except Exception as error:
        full = is_out_of_memory(error)
        if not half:
            return [Failure(f"{type(error).__name__}: {error}", traceback.format_exc())]
    if full:  # here the error is gone, and what it held
        let_go()
        room.most = len(configurations) - half
    return run_pack(configurations[:half], room) + run_pack(configurations[half:], room)
