"""Running one pack, in this process or in a worker's: every task ends as a dataset or as a failure."""

import traceback
from collections.abc import Sequence

import xarray as xr

from dynascope.sweep.folder import Failure
from dynascope.sweep.workload import Configuration, Workload, as_dataset


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
