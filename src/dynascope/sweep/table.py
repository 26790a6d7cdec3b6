"""All results of a sweep as one dataset over its grid."""

import json
import os
import time
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from dynascope.records import Json, with_provenance
from dynascope.schema import content_of
from dynascope.sweep.folder import FAILURES, RESULTS, SweepFolder
from dynascope.sweep.plan import Plan, as_text
from dynascope.sweep.stacks import Column, Stack

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
        words = "are damaged and count as missing; run the sweep again to compute them again"
        warnings.warn(f"{counted(damaged)} {words} ({next(iter(damaged.values()))})", RuntimeWarning, stacklevel=2)
    return table


def counted(damaged: Mapping[str, str]) -> str:
    """How much is damaged: results by their addresses, and parts of a file that do not even say whose they are.

    >>> counted({"a1": "is damaged", "bytes 0 to 9": "is damaged"})
    '1 results and 1 batches'
    """
    unknown = sum(" " in key for key in damaged)
    found = {"results": len(damaged) - unknown, "batches": unknown}
    return " and ".join(f"{number} {name}" for name, number in found.items() if number)


def gathered(folder: SweepFolder) -> tuple[xr.Dataset, dict[str, str]]:
    """The table, and what is wrong with results that could not be used, by address."""
    begun = time.perf_counter()
    plan, _ = folder.read_plan()
    states = outcomes(folder, plan)
    places = {task.key: place for place, task in enumerate(plan.tasks) if states[place] == FINISHED}
    damaged: dict[str, str] = {}
    parts: dict[Hashable, list[_Part]] = {}
    codes, devices = set(), set()
    for stack, rows in folder.results(places, damaged):
        if rows:
            with content_of(str(folder.path / RESULTS)):
                part = _part(stack, rows, places, plan)
            parts.setdefault(part.like, []).append(part)
            codes.add(stack.code)
            devices |= {each.get("device", '"unknown"') for each in stack.attributes}
    for key in damaged.keys() & places:
        states[places[key]] = MISSING
    with content_of(str(folder.path / RESULTS)):
        first = sorted(parts.values(), key=lambda alike: min(min(part.places) for part in alike))
        table = _rows([_together(alike) for alike in first], len(plan.tasks))
    shape = tuple(map(len, plan.axes.values()))
    variables = {
        name: ((*plan.axes, *each.dims[1:]), _filled(each).reshape(shape + each.shape[1:]), each.attrs)
        for name, each in table.data_vars.items()
    }
    own = {name: coordinate.variable for name, coordinate in table.coords.items() if name != "task"}
    table = xr.Dataset(
        variables | {"outcome": (tuple(plan.axes), np.array(states).reshape(shape))}, coords=own | _coordinates(plan)
    )
    complete = with_provenance(
        table,
        plan.name,
        {"grid": plan.axes, "fixed": json.loads(as_text(plan.fixed))},
        options={"code": sorted(codes)},
        seed=None,
        precision="as in the results",
        wall_time=time.perf_counter() - begun,
        device=", ".join(sorted(map(json.loads, devices))) or "none",
    )
    return complete, damaged


@dataclass(frozen=True)
class _Part:
    """Results that are stacked, and their places among the tasks."""

    places: list[int]
    columns: dict[str, Column]

    @property
    def like(self) -> Hashable:
        """What parts share that are put together."""
        return tuple(each.like(name) for name, each in self.columns.items())


def _part(stack: Stack, rows: list[int], places: Mapping[str, int], plan: Plan) -> _Part:
    """Drop what repeats the grid's values; refuse what would be confused with the grid."""
    columns = {name: replace(each, values=_picked(each.values, rows)) for name, each in stack.columns.items()}
    for name in plan.axes:
        own = [stack.configurations[row].get(name) for row in rows]
        if name in columns and not columns[name].dims and _all(columns[name].values, len(rows)).tolist() == own:
            del columns[name]
    names = {*columns, *(dim for each in columns.values() for dim in each.dims)}
    if clash := names & {*plan.axes, "outcome", "task"}:
        raise ValueError(
            f"results must not have a dimension or variable {min(clash)!r}, as the sweep's table has: rename it in the "
            "experiment; the results themselves are kept"
        )
    return _Part([places[stack.keys[row]] for row in rows], columns)


def _picked(values: np.ndarray, rows: list[int]) -> np.ndarray:
    return values if len(values) == 1 or len(rows) == len(values) else values[rows]


def _all(values: np.ndarray, count: int) -> np.ndarray:
    """One row for each result."""
    return np.broadcast_to(values, (count, *values.shape[1:])) if len(values) == 1 else values


def _together(parts: list[_Part]) -> xr.Dataset:
    """Parts that are alike along one dimension, `task`."""
    content: dict[bool, dict[str, xr.Variable]] = {True: {}, False: {}}
    for name, first in parts[0].columns.items():
        each = [(part.columns[name].values, len(part.places)) for part in parts]
        if first.dims == (name,):
            content[True][name] = xr.Variable(first.dims, first.row(0), first.attrs)
        else:
            values = np.concatenate([_all(*one) for one in each])
            content[first.coordinate][name] = xr.Variable(("task", *first.dims), values, first.attrs)
    content[True]["task"] = xr.Variable("task", [place for part in parts for place in part.places])
    return xr.Dataset(content[False], content[True])


def _rows(parts: list[xr.Dataset], total: int) -> xr.Dataset:
    """All tasks along one dimension, `task`, with gaps where there is no result."""
    if not parts:
        return xr.Dataset()
    first = parts[0]
    common = [
        name
        for name in first.coords
        if name not in first.indexes and all(name in each.coords and _same(each, first, name) for each in parts)
    ]
    uneven = {
        dim for dim in {dim for each in parts for dim in each.dims} if len({each.sizes.get(dim) for each in parts}) > 1
    } - {"task"}
    even = [_numbered(each, uneven).drop_vars(common).reset_coords() for each in parts]
    rows = even[0]
    if len(even) > 1:
        rows = xr.concat(
            even,
            dim="task",
            data_vars="all",
            coords="minimal",
            compat="override",
            join="outer",
            combine_attrs="override",
        )
    rows = rows.reindex(task=np.arange(total)).transpose("task", ...)
    return rows.assign_coords({name: first[name].variable[0] for name in common})


def _same(part: xr.Dataset, first: xr.Dataset, name: Hashable) -> bool:
    """Whether a coordinate is the same in all results of a part as in the first of all results."""
    own, other = part[name].variable, first[name].variable
    if own.dims != other.dims or own.shape[1:] != other.shape[1:]:
        return False
    first_everywhere = xr.Variable(own.dims, np.broadcast_to(other.values[:1], own.shape), other.attrs)
    return bool(own.identical(first_everywhere))  # type: ignore[no-untyped-call]


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
