"""Results side by side: those that differ in values and attributes only are stacked, one array for each variable."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from dynascope.records import check_attributes, plain_values
from dynascope.sweep.plan import Task, as_text


@dataclass(frozen=True)
class Failure:
    """Why a task has no result: the error in one line, and where it arose."""

    error: str
    traceback: str


@dataclass(frozen=True)
class FailedTask(Failure):
    """What is kept of a failed task."""

    code: str
    configuration: dict[str, Any]


@dataclass(frozen=True)
class Column:
    """One variable of results that are stacked."""

    dims: tuple[str, ...]
    attrs: dict[str, str]
    coordinate: bool
    values: np.ndarray  # (row, *dims), or (1, *dims) where all rows are the same

    def row(self, number: int) -> np.ndarray:
        """Values in one result."""
        row: np.ndarray = self.values[number if len(self.values) > 1 else 0, ...]
        return row

    def like(self, name: str) -> Hashable:
        """What results that are stacked share: all but the values, and those of the coordinates of dimensions."""
        return _like(name, self.dims, self.attrs, self.coordinate, self.row(0))


def _like(name: str, dims: tuple[str, ...], attrs: Mapping[str, str], coordinate: bool, values: np.ndarray) -> Hashable:
    index = (repr(values.tolist()) if values.dtype == object else values.tobytes()) if dims == (name,) else None
    return name, dims, values.dtype.str, values.shape, coordinate, tuple(attrs.items()), index


@dataclass(frozen=True)
class Stack:
    """Results that differ in values and attributes only; `attributes` is one where all are the same."""

    code: str
    keys: list[str]
    configurations: list[dict[str, Any]]
    attributes: list[dict[str, str]]
    columns: dict[str, Column]

    def record(self, row: int) -> xr.Dataset:
        """One result as the experiment returned it, with its address."""
        own = {"address": self.keys[row], "code": self.code, "configuration": self.configurations[row]}
        content: dict[bool, dict[str, xr.Variable]] = {True: {}, False: {}}
        for name, each in self.columns.items():
            content[each.coordinate][name] = xr.Variable(each.dims, each.row(row), each.attrs)
        attributes = self.attributes[row if len(self.attributes) > 1 else 0]
        return xr.Dataset(content[False], content[True], attributes | {"sweep": as_text(own)})


@dataclass
class Gathering:
    """Results and failures on their way into a batch.

    >>> found = Gathering("code")
    >>> for number in (1, 2):
    ...     found.add(Task({"x": number}, f"a{number}"), xr.Dataset({"y": 2.0 * number}))
    >>> [(stack.keys, stack.columns["y"].values.tolist()) for stack in found.stacks()]
    [(['a1', 'a2'], [2.0, 4.0])]
    """

    code: str
    failures: dict[str, FailedTask] = field(default_factory=dict)
    size: int = 0  # bytes of all values
    _alike: dict[Hashable, list[tuple[Task, xr.Dataset, list[np.ndarray]]]] = field(default_factory=dict)

    def add(self, task: Task, outcome: xr.Dataset | Failure) -> None:
        """Take what became of a task; what a record cannot hold is a failure."""
        if isinstance(outcome, xr.Dataset):
            try:
                self._add_result(task, outcome)
            except ValueError as error:
                outcome = Failure(str(error), "")
            else:
                return
        own = json.loads(as_text(task.configuration))
        self.failures[task.key] = FailedTask(_writable(outcome.error), _writable(outcome.traceback), self.code, own)

    def _add_result(self, task: Task, result: xr.Dataset) -> None:
        check_attributes(result)
        "".join(part for pair in result.attrs.items() for part in pair).encode()  # halves of a character are refused
        coordinates = set(result.coords)
        like, values = [], []
        for name, variable in result.variables.items():
            held = plain_values(str(name), variable.to_numpy())
            if isinstance(held, list):
                "".join(held).encode()
                held = words(held, variable.shape)
            like.append(_like(str(name), tuple(map(str, variable.dims)), variable.attrs, name in coordinates, held))
            values.append(held)
        self.size += sum(each.nbytes for each in values)
        self._alike.setdefault(tuple(like), []).append((task, result, values))

    def stacks(self) -> list[Stack]:
        """All results, those that differ in values and attributes only together."""
        return [self._stack(*zip(*found, strict=True)) for found in self._alike.values()]

    def _stack(self, tasks: Sequence[Task], results: Sequence[xr.Dataset], values: Sequence[list[np.ndarray]]) -> Stack:
        first = results[0]
        columns = {
            str(name): Column(
                tuple(map(str, variable.dims)),
                dict(variable.attrs),
                name in first.coords,
                _one_if_same(np.stack(rows)),
            )
            for (name, variable), rows in zip(first.variables.items(), zip(*values, strict=True), strict=True)
        }
        attributes = [each.attrs for each in results]
        return Stack(
            self.code,
            [task.key for task in tasks],
            json.loads(as_text([task.configuration for task in tasks])),
            attributes[:1] if all(each == attributes[0] for each in attributes) else attributes,
            columns,
        )


def _writable(text: str) -> str:
    """Without halves of characters, such as names of files may hold."""
    return text.encode(errors="replace").decode()


def words(texts: Sequence[str], shape: Sequence[int]) -> np.ndarray:
    """An array of texts, of any length each.

    >>> words(["a", "bcd"], (2, 1)).tolist()
    [['a'], ['bcd']]
    """
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape(shape)


def _one_if_same(rows: np.ndarray) -> np.ndarray:
    if rows.dtype == object:
        same = (rows == rows[:1]).all()
    else:
        content = np.frombuffer(rows.tobytes(), np.uint8).reshape(len(rows), -1)
        same = (content == content[:1]).all()
    return rows[:1] if same else rows
