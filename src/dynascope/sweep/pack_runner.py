"""Running packs, in this process or in a worker's: every task ends as a dataset or as a failure."""

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import xarray as xr

from dynascope.sweep.batches import Head, as_batch
from dynascope.sweep.plan import Task
from dynascope.sweep.stacks import Failure, Gathering
from dynascope.sweep.workload import Configuration, Workload, as_dataset

BATCH_SECONDS = 1.0  # of work in a batch: so much is lost at most where a program is killed
BATCH_BYTES = 1 << 26


@dataclass(frozen=True)
class Done:
    """The first of some packs, run: how many, and their batch."""

    packs: int
    head: Head
    batch: bytes


def run_batch(workload: Workload, packs: Sequence[Sequence[Task]], code: str) -> Done:
    """Run one pack after another until a batch is full: about a second of work, or 64 MB of results.

    >>> def double(pack):
    ...     return [{"y": 2 * each["x"]} for each in pack]
    >>> done = run_batch(Workload(double, {"x": 1}), [[Task({"x": x}, f"a{x}")] for x in (1, 2)], "code")
    >>> done.packs, done.head.keys
    (2, ['a1', 'a2'])
    """
    begun, found, number = time.perf_counter(), Gathering(code), 0
    for number, pack in enumerate(packs, 1):  # noqa: B007
        for task, outcome in zip(pack, run_pack(workload, [each.configuration for each in pack]), strict=True):
            found.add(task, outcome)
        if time.perf_counter() - begun > BATCH_SECONDS or found.size > BATCH_BYTES:
            break
    return Done(number, *as_batch(found, time.perf_counter() - begun))


def run_pack(workload: Workload, configurations: Sequence[Configuration]) -> list[xr.Dataset | Failure]:
    """Run a pack; where it raises, run its halves, so that a bad configuration does not take others with it.

    >>> def root(pack):
    ...     return [{"root": 1 / each["x"]} for each in pack]
    >>> outcomes = run_pack(Workload(root, {"x": 1.0}), [{"x": 1.0}, {"x": 0.0}, {"x": 4.0}])
    >>> [getattr(outcome, "error", "fine") for outcome in outcomes]
    ['fine', 'ZeroDivisionError: float division by zero', 'fine']
    """
    try:
        results = list(workload.run([dict(each) for each in configurations]))
        if len(results) != len(configurations):
            raise ValueError(
                f"run must return {len(configurations)} datasets, one for each configuration, got {len(results)}"
            )
        return [as_dataset(each) for each in results]
    except Exception as error:
        if len(configurations) == 1:
            return [Failure(f"{type(error).__name__}: {error}", traceback.format_exc())]
    half = len(configurations) // 2
    return run_pack(workload, configurations[:half]) + run_pack(workload, configurations[half:])
