"""From a grid to tasks with addresses, and from tasks to packs. Depends on nothing but what is asked for."""

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from dynascope.checks import Given, count
from dynascope.records import Json
from dynascope.sweep.source import source_digest
from dynascope.sweep.workload import REQUIRED, Configuration, Workload

Grid = Mapping[str, Iterable[object]] | Sequence[Mapping[str, object]]  # lists of values, or a list of configurations
Seeds = int | Iterable[int] | None  # how many, or which
MOST_TASKS = 1_000_000


@dataclass(frozen=True)
class Task:
    """One configuration, seed included, and the address of its result."""

    configuration: Configuration
    key: str


@dataclass(frozen=True)
class Plan:
    """All tasks of a sweep in the order of its grid.

    axes: names and values of the grid, last the seeds; a list of configurations has one axis, `configuration`
    fixed: the parameters that do not vary
    """

    name: str
    code: str
    axes: dict[str, list[Json]]
    fixed: Configuration
    tasks: list[Task]


def make_plan(
    workload: Workload,
    grid: Given[Grid],
    *,
    seeds: Given[Seeds] = None,
    fixed: Given[Mapping[str, object] | None] = None,
) -> Plan:
    """Check a grid (or list of configurations) and spell out its tasks.

    >>> def decay(time, seed=0):
    ...     return {"left": 0.5 ** time}
    >>> from dynascope.sweep.workload import as_workload
    >>> plan = make_plan(as_workload(decay), {"time": [1, 2]}, seeds=2)
    >>> [task.configuration for task in plan.tasks][:2]
    [{'time': 1, 'seed': 0}, {'time': 1, 'seed': 1}]
    """
    own = _settings("fixed", {} if fixed is None else fixed, workload)
    if isinstance(grid, Mapping):
        axes = _axes(grid, workload)
        points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    else:
        points = _listed(grid, workload)
        axes = {"configuration": list(range(len(points)))}
    varied = {name for point in points for name in point}
    if twice := sorted(varied & own.keys()):
        raise ValueError(f"{twice[0]} must be given in the grid or in fixed, not in both")
    runs = _seeds(seeds, workload, varied | own.keys(), len(points))
    if runs is not None:
        axes = axes | {"seed": runs}
        points = [point | {"seed": seed} for point in points for seed in runs]
    configurations = [{**workload.defaults, **own, **point} for point in points]
    for each in configurations:
        _require_all(each, workload)
    code = source_digest(workload.origin)
    tasks = [Task(each, address(workload.name, code, each)) for each in configurations]
    if len({task.key for task in tasks}) < len(tasks):
        raise ValueError("grid must hold each configuration once, got one of them twice")
    constant = {name: value for name, value in configurations[0].items() if name not in varied and name not in axes}
    return Plan(workload.name, code, axes, constant, tasks)


def address(name: str, code: str, configuration: Configuration) -> str:
    """Hash of an experiment's name and source, and of a configuration with its seed.

    >>> address("a", "", {"x": 1, "y": 2}) == address("a", "", {"y": 2, "x": 1}) != address("a", "", {"x": 1})
    True
    """
    return hashlib.sha256(as_text([name, code, configuration]).encode()).hexdigest()[:32]


def as_text(value: object, *, in_order: bool = False) -> str:
    """One JSON text for each value, whatever the order of its keys; or, in_order, with that order kept.

    >>> as_text({"b": np.float64(0.5), "a": (1, 2)})
    '{"a": [1, 2], "b": 0.5}'
    """
    return json.dumps(value, sort_keys=not in_order, default=_described)


def _described(value: object) -> Json:
    """Arrays as lists, settings as dicts. Others have no text that stays the same from one process to the next."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise ValueError(f"a configuration must hold numbers, text, lists and dicts of them, got {type(value).__name__}")


def _listed(grid: object, workload: Workload) -> list[Configuration]:
    """Configurations that were given one by one."""
    if isinstance(grid, str) or not isinstance(grid, Sequence) or not all(isinstance(each, Mapping) for each in grid):
        raise ValueError(
            f"grid must map parameters to lists of values, or be a list of configurations, got {type(grid).__name__}"
        )
    if not grid:
        raise ValueError("grid must hold at least one configuration, got an empty list")
    return [_settings(f"grid[{index}]", each, workload) for index, each in enumerate(grid)]


def _axes(grid: Mapping[str, Given[Iterable[object]]], workload: Workload) -> dict[str, list[Json]]:
    axes = {}
    for name, values in grid.items():
        _require_known("grid", name, workload)
        if isinstance(values, str | Mapping) or np.ndim(np.asarray(values, dtype=object)) == 0:
            raise ValueError(f"grid[{name!r}] must be a list of values, got {values!r}; fixed holds single values")
        floats = any(isinstance(each, float) for each in values)  # 0 beside 0.5 is 0.0
        axes[name] = [_value(each, 0.0 if floats else workload.defaults[name]) for each in values]
        if not axes[name]:
            raise ValueError(f"grid[{name!r}] must hold at least one value, got an empty list")
    if not axes:
        raise ValueError(f"grid must name at least one parameter out of {', '.join(workload.defaults)}, got none")
    size = math.prod(map(len, axes.values()))
    if size > MOST_TASKS:
        raise ValueError(f"grid must have at most {MOST_TASKS} points, got {size}; split the sweep")
    return axes


def _settings(argument: str, given: Given[Mapping[str, object]], workload: Workload) -> Configuration:
    if not isinstance(given, Mapping):
        raise ValueError(f"{argument} must map parameters to values, got {type(given).__name__}")
    for name in given:
        _require_known(argument, name, workload)
    return {name: _value(value, workload.defaults[name]) for name, value in given.items()}


def _require_known(argument: str, name: object, workload: Workload) -> None:
    if name not in workload.defaults:
        raise ValueError(
            f"{argument} must name parameters of {workload.name}: {', '.join(workload.defaults)}; got {name!r}"
        )


def _value(value: object, default: object) -> Json:
    """NumPy numbers as Python's; 1 as 1.0 where the default is a float, so that both have one address."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return tuple(value) if isinstance(default, tuple) and isinstance(value, list) else value


def _seeds(seeds: object, workload: Workload, given: set[str], points: int) -> list[int] | None:
    if seeds is None:
        return None
    if "seed" not in workload.defaults:
        raise ValueError(f"seeds must be left out: {workload.name} has no parameter `seed`")
    if "seed" in given:
        raise ValueError("seeds must be left out where the grid or fixed holds `seed`")
    chosen = None if np.asarray(seeds).ndim == 0 else list(cast(Iterable[object], seeds))
    many = count("seeds", seeds) if chosen is None else len(chosen)
    if points * many > MOST_TASKS:
        raise ValueError(f"grid and seeds must make at most {MOST_TASKS} tasks, got {points} × {many}; split the sweep")
    runs = [count("seeds", seed, at_least=0) for seed in (range(many) if chosen is None else chosen)]
    if not runs or len(set(runs)) < len(runs):
        raise ValueError(f"seeds must be a number, or a list of different numbers, got {seeds!r}")
    return runs


def _require_all(configuration: Configuration, workload: Workload) -> None:
    for name, value in configuration.items():
        if value is REQUIRED:
            raise ValueError(f"{name} must be given in the grid or in fixed: {workload.name} has no default for it")


def make_packs(workload: Workload, tasks: Sequence[Task], pack_seconds: float) -> list[list[Task]]:
    """Split tasks into packs that share what must be shared and cost about as much as asked for.

    The packs follow from the tasks alone: neither the number of workers nor what is already finished counts.

    >>> from dynascope.sweep.workload import as_workload
    >>> tasks = [Task({"width": w, "seed": s}, f"{w}{s}") for s in range(4) for w in (8, 16)]
    >>> able = Workload(len, {"width": 8, "seed": 0}, shared=("width",), seconds=10.0)
    >>> [[task.key for task in pack] for pack in make_packs(able, tasks, 30.0)]
    [['80', '81'], ['82', '83'], ['160', '161'], ['162', '163']]
    """
    if workload.seconds is None:
        return [[task] for task in tasks]
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(as_text([task.configuration[name] for name in workload.shared]), []).append(task)
    packs = []
    for group in groups.values():
        costs = np.array([seconds_of(workload, task) for task in group])
        parts = math.ceil(costs.sum() / pack_seconds)
        place = np.floor((costs.cumsum() - costs / 2) / costs.sum() * parts)  # by the middle of each task's time
        packs += [[task for task, at in zip(group, place, strict=True) if at == each] for each in np.unique(place)]
    return packs


def seconds_of(workload: Workload, task: Task) -> float:
    """What a task costs on one core, as the workload says.

    >>> seconds_of(Workload(len, {"x": 1.0}, seconds=lambda each: 2 * each["x"]), Task({"x": 3.0}, ""))
    6.0
    """
    seconds = workload.seconds(task.configuration) if callable(workload.seconds) else workload.seconds
    if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise ValueError(f"seconds of {workload.name} must be a number above 0, got {seconds!r}")
    return float(seconds)
