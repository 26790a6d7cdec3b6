"""The learning rate of the rest of a run: as a formula, a table or a PyTorch scheduler says it.

Rates are known at some steps and straight in between. What a run recorded of its own past counts before what a schedule
says of it.
"""

import copy
import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dynascope.checks import Given, require, scalar
from dynascope.forecasting.curves import Curve
from dynascope.forecasting.logs import Series, read_log, require_increasing, table
from dynascope.progress import progress_bar

_POINTS = 512  # of a formula, up to the end
_TOLD = 1000  # steps of a scheduler between two looks at the clock
_STILL = 1e-6  # relative: rates that differ less are the same
_CLOSE = 0.05  # of its fall so far: a past this close to a cosine follows it
# name -> how many numbers it may have behind it
_FORMULAS = {"constant": 0, "cosine": 1, "linear": 1, "wsd": 2}
_WRITTEN = "constant, cosine[:END_FACTOR], linear[:END_FACTOR], wsd:START_STEP[:END_FACTOR]"


@runtime_checkable
class Scheduler(Protocol):
    """What is used of PyTorch's schedulers."""

    optimizer: Any

    def step(self) -> object:
        """Go on by one training step."""

    def get_last_lr(self) -> list[float]:
        """Rates now, one for each group of parameters."""


Schedule = str | os.PathLike[str] | Mapping[str, Any] | Scheduler


def future_rates(given: Given[Schedule | None], curve: Curve, until: Given[float]) -> Series | None:
    """Learning rates (step, rate) from the first step of a curve to `until`; None if they are not known.

    given: one of
        None: what was recorded goes on if it never changed; else nothing is known
        {"step": …, "learning_rate": …}, or a log with such columns: straight between its steps
        a PyTorch scheduler: its steps are training steps, of which it has done `last_epoch` (as many as the curve
            where it does not say); a copy is stepped. Of several groups the largest rate counts.
        "constant", "linear", "cosine", "wsd:START_STEP": from the last recorded rate to END_FACTOR times it at `until`,
            0 if none is given: in a straight line, as half a cosine, or kept up to START_STEP and then in a straight
            line. Where the past since its largest rate follows a cosine that ends at `until`, to within 5 % of its fall
            so far, that one goes on, with its own end if none is given; END_FACTOR is then a share of the largest rate.

    Where both are known, the curve's own past counts. Of a curve without rates the schedule must say the past, too, at
    the latest from its second record on.

    >>> curve = Curve(np.array([0.0, 100.0]), np.array([2.0, 1.0]), np.array([0.1, 0.1]), "loss")
    >>> step, rate = future_rates("wsd:150", curve, 200)
    >>> np.interp([0, 150, 175, 200], step, rate).round(3).tolist()
    [0.1, 0.1, 0.05, 0.0]
    """
    end = scalar("until", until, above=float(curve.step[-1]))
    if given is None:
        still = curve.rate is not None and np.ptp(curve.rate) <= _STILL * np.max(curve.rate)
        return _joined(curve, _formula("constant", curve, end), end) if still else None
    if isinstance(given, str) and (given.partition(":")[0] in _FORMULAS or not Path(given).exists()):
        return _joined(curve, _formula(given, curve, end), end)
    if isinstance(given, Mapping | str | os.PathLike):
        return _joined(curve, _tabled(given), end)
    if not isinstance(given, Scheduler):
        raise ValueError(
            f'schedule must be a formula ({_WRITTEN}), {{"step": …, "learning_rate": …}}, the path of such a table, or '
            f"a PyTorch scheduler, got {type(given).__name__}"
        )
    return _joined(curve, _scheduled(given, float(curve.step[-1]), end), end)


def _joined(curve: Curve, schedule: Series, end: float) -> Series:
    """The curve's own rates and then those of the schedule, from its first step to the end."""
    step, rate = schedule
    if step[-1] < end:
        raise ValueError(f"schedule must reach until = {end:.12g}, it ends at step {step[-1]:.12g}; make it longer")
    if curve.rate is not None:
        later = step > curve.step[-1]
        step, rate = np.append(curve.step, step[later]), np.append(curve.rate, rate[later])
    elif step[0] > curve.step[:2][-1]:
        raise ValueError(
            "schedule must say the past, too, where the run has no learning rates: it begins at step "
            f'{step[0]:.12g}, the run at {curve.step[0]:.12g}; give {{"step": …, "learning_rate": …}} from there on'
        )
    inside = step[(step > curve.step[0]) & (step < end)]
    steps = np.concatenate([curve.step[:1], inside, [end]])
    return steps, np.interp(steps, step, rate)


def _tabled(given: Mapping[str, Any] | str | os.PathLike[str]) -> Series:
    log = table(given, "schedule") if isinstance(given, Mapping) else read_log(Path(given))
    for name in log.rate_names():
        step, rate = log.read(name)
        require_increasing(step, log.place)
        require("schedule", rate, ~np.isnan(rate), "hold numbers everywhere")
    rates = log.rates()
    if rates is None:
        raise ValueError(
            f"schedule must hold learning rates in a column learning_rate, {log.place} has "
            f"{', '.join(log.names) or 'no columns'} beside its steps"
        )
    return rates


def _formula(text: str, curve: Curve, end: float) -> Series:
    """What a formula says from the last step of a curve on."""
    kind, *behind = text.split(":")
    if len(behind) > _FORMULAS.get(kind, -1) or (kind == "wsd" and not behind):
        raise ValueError(f"schedule must be one of {_WRITTEN}, or the path of a table that is there, got {text!r}")
    if curve.rate is None:
        raise ValueError(
            f"schedule {text!r} goes on from the last learning rate, but the run has none: record it with "
            'watch(…, optimizer=optimiser), or give {"step": …, "learning_rate": …}'
        )
    numbers = [_number(each, text) for each in behind]
    begin, last = float(curve.step[-1]), float(curve.rate[-1])
    step = np.linspace(begin, end, _POINTS + 1)
    if kind == "constant":
        return step, np.full_like(step, last)
    if kind == "wsd":
        start = numbers.pop(0)
        if not begin <= start < end:
            raise ValueError(
                f"schedule {text!r} must begin to fall between the last step, {begin:.12g}, and until = {end:.12g}"
            )
        begin, step = start, np.union1d(step, [start])
    if kind == "cosine" and (followed := _followed(curve, end, *numbers)) is not None:
        return step, followed(step)
    passed = np.clip((step - begin) / (end - begin), 0, 1)
    share = (1 + np.cos(np.pi * passed)) / 2 if kind == "cosine" else 1 - passed
    factor = numbers[0] if numbers else 0.0
    return step, last * (factor + (1 - factor) * share)


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"schedule must be one of {_WRITTEN} with numbers from 0 on, got {whole!r}")
    return value


def _followed(curve: Curve, end: float, factor: float | None = None) -> Callable[[np.ndarray], np.ndarray] | None:
    """The cosine from the largest rate to `end` that a curve's rates follow, if they do."""
    rates = np.asarray(curve.rate)
    top = int(np.flatnonzero(rates >= (1 - _STILL) * rates.max())[-1])
    peak, fall = float(rates[top]), float(rates[top] - rates[-1])
    if fall <= _STILL * peak:
        return None

    def share(step: np.ndarray) -> np.ndarray:
        return np.asarray(1 + np.cos(np.pi * (step - curve.step[top]) / (end - curve.step[top]))) / 2

    now = float(share(curve.step[-1:])[0])
    floor = max(peak - fall / (1 - now), 0.0) if factor is None else factor * peak

    def rate(step: np.ndarray) -> np.ndarray:
        return floor + (peak - floor) * share(step)

    close = np.abs(rate(curve.step[top:]) - rates[top:]) <= _CLOSE * fall
    return rate if close.all() else None


def _scheduled(given: Scheduler, now: float, end: float) -> Series:
    """What a copy of a scheduler says when it is stepped; its optimiser has no parameters."""
    groups = [
        {name: copy.deepcopy(value) for name, value in group.items() if name != "params"} | {"params": []}
        for group in given.optimizer.param_groups
    ]
    stand_in = SimpleNamespace(param_groups=groups, step=lambda: None)
    kind = type(given).__name__
    try:
        copied = copy.deepcopy(given, {id(given.optimizer): stand_in})
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"schedule must be a scheduler that can be copied, {kind} cannot: {error}") from error
    begin = float(getattr(given, "last_epoch", now))
    rates = [max(map(float, copied.get_last_lr()))]
    with progress_bar("schedule", end - begin) as done, warnings.catch_warnings(action="ignore"):
        while begin + len(rates) - 1 < end:
            try:
                copied.step()
            except TypeError as error:
                raise ValueError(f"schedule must be a scheduler that steps by itself, {kind} waits: {error}") from error
            except ValueError:  # it says that it has come to its end
                break
            rates.append(max(map(float, copied.get_last_lr())))
            if len(rates) % _TOLD == 0:
                done(len(rates))
    rate = np.array(rates)
    require("schedule", rate, rate >= -_STILL * np.max(np.abs(rate)), "have rates of at least 0")
    return begin + np.arange(len(rates)), np.maximum(rate, 0.0)
