"""Runs side by side in one record."""

import os
from pathlib import Path

import xarray as xr

from dynascope.monitor.reading import RunRecord, of_now, open_run

_Path = str | os.PathLike[str]


def compare(*runs: xr.Dataset | _Path) -> RunRecord:
    """Put runs, as records or folders, into one record with the dimension `run`.

    It covers every step and layer that one of them has; what a run did not measure there is NaN. Folders give the
    names of runs, records are numbered. `compare(a, b).diff("run")` is what b has more than a.

    >>> a = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> compare(a, a + 1).diff("run")["loads"].values.tolist()
    [[[1.0, 1.0]]]
    """
    if len(runs) < 2:
        raise ValueError(f"runs must be two or more to be compared, got {len(runs)}")
    names = run_names([each for each in runs if isinstance(each, str | os.PathLike)])
    records, labels = [], []
    for place, run in enumerate(runs):
        if not isinstance(run, xr.Dataset | str | os.PathLike):
            raise ValueError(f"runs must be records or folders of watched runs, got {type(run).__name__}")
        record = (of_now(run) if isinstance(run, xr.Dataset) else open_run(run)).reset_coords()  # each has its own time
        labels.append(f"run {place + 1}" if isinstance(run, xr.Dataset) else names[os.fspath(run)])
        numbers = [name for name, variable in record.data_vars.items() if variable.dtype.kind in "bf"]
        records.append(record[numbers].astype(float))
    return of_now(xr.concat(records, "run", join="outer", combine_attrs="drop").assign_coords(run=labels))


def run_names(paths: list[_Path]) -> dict[str, str]:
    """Name runs by the last parts of their paths, as few as tell them apart.

    >>> run_names(["runs/a/first", "runs/b/first"])
    {'runs/a/first': 'a/first', 'runs/b/first': 'b/first'}
    """
    parts = {os.fspath(each): Path(each).parts for each in paths}
    longest = max(map(len, parts.values()), default=1)
    for size in range(1, longest + 1):
        names = {path: "/".join(each[-size:]) for path, each in parts.items()}
        if len(set(names.values())) == len(names):
            break
    return names if parts else {}
