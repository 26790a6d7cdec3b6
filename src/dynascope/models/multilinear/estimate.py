"""Calibrate an extended model on one skill: least squares with an interval."""

import math
from collections.abc import Callable

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.special import stdtrit

from dynascope.checks import ArrayLike, as_float, one_of, require, scalar
from dynascope.models.multilinear import emergence
from dynascope.models.multilinear.model import Multilinear
from dynascope.statistics.errors import over_trials

_STEP = 1e-4  # of the number's logarithm, for its derivative
_GRID = 60  # values of the calibration tried before the best one is refined


def estimate_emergence(
    kind: str,
    x: ArrayLike,
    strengths: ArrayLike,
    *,
    model: Multilinear | None = None,
    skill: int = 1,
    confidence: float = 0.95,
    published: bool = False,
) -> xr.Dataset:
    """Find the one number of an extended model from the measured strength of one skill.

    kind: "time": the factor on the rate, printed as 𝓑² in (5.2); "data": D_c of (5.5); "parameters": N_c of (5.9).
    x: (x,) steps, samples or basis functions (hidden nodes). strengths: R over x, (x,) or (trial, x).
    model: target, initial strength, learning rate and frequencies; by default Multilinear(skills=1), a network trained
    on one skill alone, with target 1. skill: the rank of the measured skill in it.
    confidence: of the interval. published: calibrate (5.5) as printed.

    Least squares over a wide range of the number's logarithm. With trials the interval is Student's over the trials, so
    that noise which is correlated along x does no harm; with one curve it takes its scatter for independent.

    Returns value, low, high, standard_error (of the logarithm), fitted (x) and ok, with the attribute reason where the
    curve does not determine the number. Predict other skills with `Multilinear.emergence(kind, …, calibration=value)`.
    Source: layerwise chapter 5; it calibrates by hand and gives no interval.

    >>> one = Multilinear(skills=1, target=5.0, learning_rate=0.05)
    >>> steps = np.linspace(0, 1000, 50)
    >>> found = estimate_emergence("time", steps, one.emergence("time", 1, steps, calibration=1 / 22), model=one)
    >>> round(1 / float(found["value"]), 6), bool(found["ok"])
    (22.0, True)
    """
    one_of("kind", kind, emergence.KINDS)
    used = Multilinear(skills=1) if model is None else model
    if not isinstance(used, Multilinear) or used.grid.shape:  # type: ignore[redundant-expr]
        raise ValueError(f"model must be a single Multilinear without a grid, got {used!r}")
    place, measured = _measured(kind, x, strengths)
    level = scalar("confidence", confidence, above=0.0)
    require("confidence", np.array(level), np.array(level < 1), "be below 1")
    low, high = _range(used, kind, skill, place)

    def curve(log_value: float) -> Float[np.ndarray, " x"]:
        return used.emergence(kind, skill, place, calibration=math.exp(log_value), published=published)

    log_value = _least_squares(curve, measured.mean(axis=0), low, high)
    slope = (curve(log_value + _STEP) - curve(log_value - _STEP)) / (2 * _STEP)
    reason = _doubt(slope / float(used.target), log_value, low, high)
    fitted = curve(log_value)
    half, error = (math.inf, math.inf) if reason else _interval(measured, fitted, slope, level)
    values = {"value": math.exp(log_value), "standard_error": error}
    values |= {"low": math.exp(log_value - half), "high": math.exp(log_value + half) if half < 500 else math.inf}
    return xr.Dataset(
        {**values, "ok": not reason, "fitted": ("x", fitted, {"long_name": "fitted strength"})},
        coords={"x": ("x", place, {"long_name": {"time": "steps"}.get(kind, kind)})},
        attrs={"reason": reason, "kind": kind},
    )


def _measured(
    kind: str, x: ArrayLike, strengths: ArrayLike
) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, "trial x"]]:
    place, measured = as_float("x", x), np.atleast_2d(as_float("strengths", strengths))
    if place.ndim != 1 or np.sum(place > 0) < 3 or np.any(place < 0):
        raise ValueError(f"x must list at least 3 values above 0, and none below, got {place}")
    if measured.ndim != 2 or measured.shape[1] != len(place):
        raise ValueError(
            f"strengths must be (x,) or (trial, x) with {len(place)} values of x, got shape {measured.shape}"
        )
    if kind == "data":
        require("x", place, (place >= 1) & (place == np.floor(place)), "be whole numbers of samples from 1 on")
    return place, measured


def _range(model: Multilinear, kind: str, skill: int, x: np.ndarray) -> tuple[float, float]:
    """Logarithms between which the number is sought: the skill emerges within a tenth to ten times the range of x."""
    first, last = float(x[x > 0].min()) / 10, float(x.max()) * 10
    share = float(model.frequency(skill))
    if kind == "time":
        half_way = 0.5 + float(model.initial / model.target) / 2
        plain = float(model.emergence_point("time", skill, half_way))
        return math.log(plain / last), math.log(plain / first)
    per_unit = share if kind == "data" else 1 / float(skill)
    return math.log(max(first * per_unit, 1.0)) + _STEP, math.log(max(last * per_unit, 2.0))


def _least_squares(curve: Callable[[float], np.ndarray], mean: np.ndarray, low: float, high: float) -> float:
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 (slow to import, and only this needs it)

    def misfit(log_value: float) -> float:
        return float(np.sum((curve(log_value) - mean) ** 2))

    tried = np.linspace(low, high, _GRID)
    best = int(np.argmin([misfit(value) for value in tried]))
    around = tried[max(best - 1, 0)], tried[min(best + 1, _GRID - 1)]
    return float(minimize_scalar(misfit, bounds=around, method="bounded", options={"xatol": 1e-10}).x)


def _doubt(slope: np.ndarray, log_value: float, low: float, high: float) -> str:
    if float(np.abs(slope).max()) < 1e-3:
        return "the curve does not depend on the number here: measure where the skill emerges"
    if not low + 1e-6 < log_value < high - 1e-6:
        return "the best value lies at the end of the range that x can tell apart: measure where the skill emerges"
    return ""


def _interval(measured: np.ndarray, fitted: np.ndarray, slope: np.ndarray, confidence: float) -> tuple[float, float]:
    """Half width and standard error of the logarithm, to first order in the noise."""
    stiffness = float(slope @ slope)
    trials, places = measured.shape
    if trials > 1:
        pull = (measured - measured.mean(axis=0)) @ slope / stiffness
        error, degrees = float(over_trials(pull).error), trials - 1
    else:
        scatter = measured[0] - fitted
        degrees = places - 1
        error = math.sqrt(float(scatter @ scatter) / degrees / stiffness)
    return float(stdtrit(degrees, (1 + confidence) / 2)) * error, error
