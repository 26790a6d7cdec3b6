"""All results of a sweep as one dataset over its grid."""

import json
import os
import time
import warnings
from collections.abc import Hashable

import numpy as np
import xarray as xr

from dynascope.records import Json, with_provenance
from dynascope.schema import content_of
from dynascope.sweep.folder import FAILURES, RESULTS, SweepFolder
from dynascope.sweep.plan import Plan, as_text

FINISHED, FAILED, MISSING = "finished", "failed", "missing"


def outcomes(folder: SweepFolder, plan: Plan) -> list[str]:
    """Say of each task whether it is finished, failed or missing."""
    finished, failed = folder.keys(RESULTS), folder.keys(FAILURES)
    return [FINISHED if task.key in finished else FAILED if task.key in failed else MISSING for task in plan.tasks]


def gather(out: str | os.PathLike[str]) -> xr.Dataset:
    """Put the results of a sweep into one dataset whose first dimensions are those of the grid, then `seed`.

    out: the folder of the sweep

    What is missing or failed is NaN (text: empty; whole numbers become floats), `outcome` says which. A result that is
    damaged counts as missing, with a warning; the sweep, run again, computes it again. Results whose own coordinates
    differ are aligned, those of layers 1 to 4 with those of layers 1 to 6 for instance.

    >>> import tempfile
    >>> from dynascope.sweep import sweep
    >>> def decay(time, seed=0):
    ...     return {"left": 0.5 ** time}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sweep(decay, grid={"time": [1.0, 2.0]}, out=folder, scheduler="here")
    ...     table = gather(folder)
    >>> table["left"].values.tolist(), table["outcome"].values.tolist()
    ([0.5, 0.25], ['finished', 'finished'])
    """
    table, damaged = gathered(SweepFolder(out))
    if damaged:
        words = f"{len(damaged)} results are damaged and count as missing; run the sweep again to compute them again"
        warnings.warn(f"{words} ({next(iter(damaged.values()))})", RuntimeWarning, stacklevel=2)
    return table


def gathered(folder: SweepFolder) -> tuple[xr.Dataset, dict[str, str]]:
    """The table, and what is wrong with results that could not be used, by address."""
    begun = time.perf_counter()
    plan, _ = folder.read_plan()
    states = outcomes(folder, plan)
    found, damaged = {}, {}
    for index, task in enumerate(plan.tasks):
        if states[index] == FINISHED:
            try:
                found[index] = folder.load(task.key)
            except (OSError, ValueError) as error:
                states[index], damaged[task.key] = MISSING, str(error)
    places, records = list(found), list(found.values())
    shape = tuple(map(len, plan.axes.values()))
    for index, record in found.items():
        with content_of(str(folder.record_path(plan.tasks[index].key))):
            found[index] = _without_axes(record, plan)
    rows = _rows(list(found.values()), places, len(plan.tasks))
    variables = {
        name: ((*plan.axes, *rows[name].dims[1:]), _filled(rows[name]).reshape(shape + rows[name].shape[1:]))
        for name in rows.data_vars
    }
    own = {name: coordinate.variable for name, coordinate in rows.coords.items() if name != "task"}
    table = xr.Dataset(
        variables | {"outcome": (tuple(plan.axes), np.array(states).reshape(shape))}, coords=own | _coordinates(plan)
    )
    for name in variables:
        table[name].attrs = rows[name].attrs
    complete = with_provenance(
        table,
        plan.name,
        {"grid": plan.axes, "fixed": json.loads(as_text(plan.fixed))},
        options={"code": sorted({json.loads(record.attrs["sweep"])["code"] for record in records})},
        seed=None,
        precision="as in the results",
        wall_time=time.perf_counter() - begun,
        device=", ".join(sorted({json.loads(record.attrs.get("device", '"unknown"')) for record in records})) or "none",
    )
    return complete, damaged


def _without_axes(record: xr.Dataset, plan: Plan) -> xr.Dataset:
    """Drop what repeats the grid's values; refuse what would be confused with the grid."""
    own = json.loads(record.attrs["sweep"])["configuration"]
    repeated = [
        name
        for name in plan.axes
        if name in record.variables and not record[name].dims and record[name].item() == own.get(name)
    ]
    record = record.drop_vars(repeated).drop_attrs(deep=False)
    clash = {str(name) for name in (*record.dims, *record.variables)} & {*plan.axes, "outcome", "task"}
    if clash:
        raise ValueError(
            f"results must not have a dimension or variable {min(clash)!r}, as the sweep's table has: rename it in the "
            "experiment; the results themselves are kept"
        )
    return record


def _rows(records: list[xr.Dataset], places: list[int], total: int) -> xr.Dataset:
    """All tasks along one dimension, `task`, with gaps where there is no result."""
    if not records:
        return xr.Dataset()
    first = records[0]
    common = [
        name
        for name in first.coords
        if name not in first.indexes
        and all(name in each.coords and _alone(each, name).identical(_alone(first, name)) for each in records)
    ]
    uneven = {
        dim
        for dim in {dim for each in records for dim in each.dims}
        if len({each.sizes.get(dim) for each in records}) > 1
    }
    rows = xr.concat(
        [_numbered(each, uneven).drop_vars(common).reset_coords() for each in records],
        dim="task",
        data_vars="all",
        coords="minimal",
        compat="override",
        join="outer",
        combine_attrs="override",
    )
    rows = rows.assign_coords(task=places).reindex(task=np.arange(total)).transpose("task", ...)
    return rows.assign_coords({name: first[name].variable for name in common})


def _alone(record: xr.Dataset, name: Hashable) -> xr.DataArray:
    array: xr.DataArray = record[name].reset_coords(drop=True)
    return array


def _numbered(record: xr.Dataset, uneven: set[Hashable]) -> xr.Dataset:
    """Number the places along dimensions that differ in length and have no coordinate to align them by."""
    return record.assign_coords(
        {dim: np.arange(record.sizes[dim]) for dim in uneven if dim in record.dims and dim not in record.coords}
    )


def _filled(array: xr.DataArray) -> np.ndarray:
    """Gaps in text become empty text; whole numbers with gaps are floats."""
    values = array.to_numpy()
    if values.dtype.kind != "O":
        return values
    if any(isinstance(each, str) for each in values.ravel()):
        return np.array([each if isinstance(each, str) else "" for each in values.ravel()]).reshape(values.shape)
    return values.astype(np.float64)


def _coordinates(plan: Plan) -> dict[str, np.ndarray]:
    """Numbers and text stand for themselves, other values as JSON."""
    return {name: _coordinate(values) for name, values in plan.axes.items()}


def _coordinate(values: list[Json]) -> np.ndarray:
    for kinds in (bool, int | float, str):
        if all(isinstance(each, kinds) for each in values):
            return np.array(values)
    return np.array([each if isinstance(each, str) else as_text(each) for each in values])
