"""A recorded run as a spring–block chain: its parameters for the sliders, and its load curves in their units."""

import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from dynascope.live.families.description import Family, Fitted, Values, beyond
from dynascope.live.families.spring_block import DT, SLIDERS, lines, solve
from dynascope.live.tailing import Course
from dynascope.models.spring_block.estimate import estimate_chain
from dynascope.monitor.tables import short

_CURVES = 60  # load curves of a run that are fitted
_SIMULATIONS = 16  # for intervals, which the page rounds
_FOUND = ("friction_right", "friction_left", "noise")


@dataclass(frozen=True)
class FittedChain(Fitted):
    """Model times and load curves (time, layer), so scaled that the target is at distance 1."""

    times: np.ndarray = field(default_factory=lambda: np.zeros(0))
    loads: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def at(self, time: float) -> np.ndarray:
        """The load curve nearest to a time of the model."""
        return np.asarray(self.loads[np.abs(self.times - time).argmin()])


def fit(folder: Path) -> FittedChain:
    """Fit the chain to the load curves of a run; takes seconds. What they do not tell leaves its slider where it is."""
    course = Course(folder, curves=_CURVES)
    course.read_all()
    most = int(SLIDERS["blocks"].greatest)
    if not 3 <= len(course.loads) <= most + 1 or len(course.curves) < 8:
        raise ValueError(f"a fit needs 8 load curves of 3 to {most + 1} layers")
    steps = np.array([step for step, _ in course.curves], dtype=float)
    loads = np.array([each for _, each in course.curves])
    found = estimate_chain(loads, steps, dt=DT, simulations=_SIMULATIONS)
    numbers = {name: float(found[name]) for name in (*_FOUND, "target", "time_scale")}
    if not all(np.isfinite([numbers["target"], numbers["time_scale"]])):
        raise ValueError(found.attrs["reason"])
    unit = numbers["target"]
    values = {name: numbers[name] / unit for name in _FOUND if np.isfinite(numbers[name])}
    parts = [f"{name.replace('_', ' ')} {short(value)}" for name, value in values.items()]
    doubt = "" if bool(found["ok"]) else f"; not certain: {found.attrs['reason']}"
    return FittedChain(
        {**values, "stiffness": 1.0, "target": 1.0, "blocks": float(loads.shape[1] - 1)},
        f"fitted, with the distance to the target as unit: {', '.join(parts)}{doubt}{beyond(SLIDERS, values)}",
        solve,
        partial(_lines, folder, len(course)),
        times=(steps - steps[0]) * numbers["time_scale"],
        loads=1.0 - (loads[:, :1] - loads) / unit,
    )


def _lines(folder: Path, records: int, values: Values) -> str:
    every = 2 ** max(0, math.ceil(math.log2(records / _CURVES)))  # as a course keeps them
    return (
        f"{lines(values)}\n\n"
        "from dynascope import estimate_chain, open_run\n\n"
        f'loads = open_run({str(folder)!r})["loads"].isel(step=slice(None, None, {every}))\n'
        f'found = estimate_chain(loads.values, loads["step"].values, dt={DT:g}, simulations={_SIMULATIONS})\n'
        'print(found["friction_right"].item() / found["target"].item(), found.attrs["reason"])'
    )


FAMILY = Family("spring–block chain", SLIDERS, (), solve, lines, fit)
