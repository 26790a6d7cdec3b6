"""Fit the chain to measured load curves: friction, noise, and the time that one unit of the path stands for.

While fitting, lengths are in units of the path's own final extension. With k = 1 and s = ε/√dt the mean path depends on
five numbers θ: μ→, μ←, s, the logarithm of the model time per unit of time, and the target.
"""

import math
import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from scipy.optimize import least_squares
from scipy.special import stdtrit

from dynascope.checks import ArrayLike, Times, as_float, count, flag, increasing, require, scalar
from dynascope.models.spring_block.chain import SpringBlock
from dynascope.models.spring_block.closed_form import mean_path
from dynascope.records import with_provenance

PARAMETERS = ("friction_right", "friction_left", "noise", "time_scale", "target")
FEWEST_TRIALS = 5  # fewer say next to nothing about their own spread
_DIMS = ("trial", "time", "layer")
_REFINED = 2  # starts that are refined after all have been tried
_SEARCH = 60  # steps of a search
_STEP, _GAIN = 1e-4, 1e-8  # it ends where steps, or what they gain, are shorter than these shares
_AGAIN = 3  # times that the best search may go on
_RESTED = 0.01  # a search that moves no logarithm by more than this has come to rest, whatever the solver's steps do
_RESTRAINT = 1e-4  # keeps a search from drifting along what the path does not depend on
_FAINTER = 0.05  # of the noise found: searched again, since a search in sharp edges stops at noise that rounds them
_LONGEST = 1e4  # model time after which a path is nothing but its end
_BLIND = 1e-6  # a change of θ that moves the path by less than this share of it cannot be seen
_STILL = 1e-9  # movement below this share of the loads is rounding
_LABELS = {
    "friction_right": ("friction to the right μ→", "length"),
    "friction_left": ("friction to the left μ←", "length"),
    "noise": ("noise ε", "length·√(model time)"),
    "time_scale": ("model time per unit of time", "model time/time"),
    "target": ("distance y from layer 0 to the target", "length"),
    "friction_difference": ("μ→ − μ←, twice the settled curvature", "length"),
}
_FORCES = [0, 1, 2, 5]  # which of them are forces
_CONTRASTS = np.vstack([np.eye(5), [1.0, -1.0, 0.0, 0.0, 0.0]])  # θ → those six


def estimate_chain(
    load_path: ArrayLike,
    times: Times | None = None,
    *,
    time_scale: float | None = None,
    target: float | None = None,
    dt: float = 0.01,
    shared_noise: Any = False,  # Any: what is neither True nor False is refused by `flag`
    confidence: float = 0.95,
    simulations: int = 64,
    seed: int = 0,
) -> xr.Dataset:
    """Find the friction and noise with which the spring-block chain follows a measured path of load curves.

    Least squares of D_0 − D_ℓ(t) against the mean path x' = g(Lx) of the chain from where it was first measured, from
    many starts. Stiffness is 1, so that frictions are in units of the load; the noise is ε = s·√dt.

    load_path: D (time, layer) or (trial, time, layer), layers 0 … blocks; or a DataArray with these dimensions.
    times: (time,), by default the DataArray's coordinate, else 0, 1, 2, …; the first is where the chain starts.
    time_scale: model time per unit of `times`; fitted if not given.
    target: y, the distance from layer 0 to the target (D_0 where a load of 0 means arrived); fitted if not given.
    dt: window of the noise.
    shared_noise: whether all blocks feel the same noise.
    confidence: of the intervals.
    simulations: how many chains are simulated for the intervals and to check the mean path.
    seed: of those.

    Returns friction_right, friction_left, noise, time_scale, target and friction_difference = μ→ − μ←, each with _low
    and _high; fitted_load beside the mean load; residual (root mean square); simulation_gap; ok, with the attribute
    reason. What the path does not tell is NaN, and ok is False. Holds where the mean path does: the overdamped chain
    with k·dt ≪ 1. What cannot be told, and how good intervals are: docs/spring-block.md.
    Source: spring-block Figure 4; its parameters are set by hand.

    >>> chain = SpringBlock(friction_right=0.05, friction_left=0.1, noise=0.005)
    >>> steps = np.linspace(0.0, 700.0, 41)
    >>> load = 1.0 - np.pad(chain.mean_path(steps / 7), ((0, 0), (1, 0)))
    >>> found = estimate_chain(load, steps)
    >>> [round(float(found[name]), 4) for name in ("friction_right", "friction_left", "noise")], bool(found["ok"])
    ([0.05, 0.1, 0.005], True)
    """
    begun = time.perf_counter()
    clock, loads, attributes = _checked(load_path, times)
    given = {"time_scale": time_scale, "target": target}
    known = {name: scalar(name, value, above=0.0) for name, value in given.items() if value is not None}
    options: dict[str, Any] = {"dt": scalar("dt", dt, above=0.0), "shared_noise": flag("shared_noise", shared_noise)}
    options |= {"confidence": scalar("confidence", confidence, above=0.0)}
    require("confidence", np.array(confidence), np.array(options["confidence"] < 1), "be below 1")
    options |= {"simulations": count("simulations", simulations, at_least=8)}
    seed = count("seed", seed, at_least=0)
    position = loads[..., :1] - loads[..., 1:]  # (trial, time, block)
    reason = _standstill(position)
    with jax.enable_x64(True):
        fit = _nothing(position, reason) if reason else _fit(clock - clock[0], position, known, options, seed)
    found = _labelled(clock, loads.mean(axis=0), fit)
    found["time"].attrs.update(attributes)
    wall_time = time.perf_counter() - begun
    return with_provenance(
        found, "estimate_chain", known, options=options, seed=seed, precision="float64", wall_time=wall_time
    )


@dataclass(frozen=True)
class _Fit:
    """What was found, in the units of the loads: six numbers of `_LABELS` with their ends, and the fitted positions."""

    values: Float[np.ndarray, "6"]
    ends: Float[np.ndarray, "6 2"]
    position: Float[np.ndarray, "time block"]
    gap: float
    reason: str


def _checked(load_path: ArrayLike, times: Times | None) -> tuple[np.ndarray, np.ndarray, dict[Any, Any]]:
    """Times (time,), loads (trial, time, layer) and what is known about the times."""
    attributes: dict[Any, Any] = {}
    if isinstance(load_path, xr.DataArray):
        dims = [dim for dim in _DIMS if dim in load_path.dims]
        if set(load_path.dims) != set(dims) or not {"time", "layer"} <= set(dims):
            raise ValueError(f"load_path must have the dimensions time, layer, trial or not, got {load_path.dims}")
        load_path = load_path.transpose(*dims)
        if times is None:
            if "time" not in load_path.coords:
                raise ValueError("load_path must have the coordinate time, got none; or hand its times over as `times`")
            times, attributes = load_path["time"].values, dict(load_path["time"].attrs)
    loads = as_float("load_path", load_path)
    if loads.ndim not in (2, 3) or loads.size == 0:
        raise ValueError(f"load_path must be (time, layer), with trials in front or not, got shape {loads.shape}")
    if loads.shape[-1] < 3 or loads.shape[-2] < 5:
        raise ValueError(f"load_path must hold at least 5 times and 3 layers, got {loads.shape[-2:]}")
    clock = increasing("times", np.arange(loads.shape[-2]) if times is None else times)
    if len(clock) != loads.shape[-2]:
        raise ValueError(f"times must list the {loads.shape[-2]} times of load_path, got {len(clock)}")
    return clock, loads.reshape((-1, *loads.shape[-2:])), attributes


def _standstill(position: Float[np.ndarray, "trial time block"]) -> str:
    """Why no chain can be fitted at all, or nothing."""
    mean = position.mean(axis=0)
    if np.abs(mean - mean[0]).max() <= _STILL * np.abs(mean).max():
        return "nothing moves: a chain at rest is held by any friction that is strong enough"
    if not mean[-1, -1] > 0:
        return "the last layer does not end below layer 0: nothing pulls the chain"
    return ""


def _nothing(position: np.ndarray, reason: str) -> _Fit:
    unknown = np.full(6, np.nan)
    return _Fit(unknown, np.stack([unknown, unknown], axis=1), np.full(position.shape[1:], np.nan), np.nan, reason)


def _fit(clock: np.ndarray, position: np.ndarray, known: dict[str, float], options: dict[str, Any], seed: int) -> _Fit:
    """Everything in units of the final extension, then back."""
    extent = float(position.mean(axis=0)[-1, -1])
    paths = position / extent
    mean = paths.mean(axis=0)  # (time, block)
    fixed: dict[int, float] = {}
    if "time_scale" in known:
        fixed[3] = math.log(known["time_scale"])
    if "target" in known:
        fixed[4] = known["target"] / extent
    theta, converged = _least_squares(clock, mean, fixed)
    fitted = np.asarray(_path(theta, mean[0], clock))
    slope = np.asarray(_slope(theta, mean[0], clock)).reshape(-1, 5)
    free = [index for index in range(5) if index not in fixed]
    chains = _simulated(theta, clock, mean[0], options, seed)
    measured = len(paths) >= FEWEST_TRIALS
    errors = _errors(slope[:, free], _CONTRASTS[:, free], mean - fitted, paths if measured else chains, len(paths))
    trials = len(paths) if measured else len(chains)
    half = float(stdtrit(trials - 1, (1 + options["confidence"]) / 2)) * errors
    missed = chains.mean(axis=0) - fitted
    half[_FORCES] = np.maximum(half[_FORCES], np.sqrt(np.mean(missed**2)))  # the mean path itself is no better
    resting = bool(math.exp(theta[3]) * clock[-1] >= _LONGEST)
    half[_hidden(half, float(theta[4]) / (mean.shape[1] + 1) / 2, resting, fixed)] = np.inf
    units = extent * np.array([1.0, 1.0, math.sqrt(options["dt"]), 1 / extent, 1.0, 1.0])
    low, middle, high = (_reported(_CONTRASTS @ theta + shift) * units for shift in (-half, np.zeros(6), half))
    return _Fit(
        np.where(np.isinf(half), np.nan, middle),
        np.stack([low, high], axis=1),
        position=fitted * extent,
        gap=float(np.abs(missed).max()) * extent,
        reason=_doubt(half, resting, converged),
    )


def _reported(numbers: Float[np.ndarray, "6"]) -> Float[np.ndarray, "6"]:
    """Undo the logarithm of the time scale; what cannot be negative is not."""
    right, left, force, log_scale, target, difference = numbers
    with np.errstate(over="ignore"):
        scale = np.exp(log_scale)
    return np.array([max(right, 0.0), max(left, 0.0), max(force, 0.0), scale, max(target, 0.0), difference])


def _hidden(half: Float[np.ndarray, "6"], tolerated: float, resting: bool, fixed: dict[int, float]) -> list[int]:
    """Which numbers are not known: forces not to within `tolerated`, nor what only they would tell apart."""
    hidden = {index for index in _FORCES[:3] if not half[index] <= tolerated}
    if 2 in hidden or resting:  # frictions and clock are told apart by how the noise rounds the edges of sticking
        hidden |= {0, 1, 2} | ({3} - set(fixed))
    return sorted(hidden)


# --- the mean path and its parameters ------------------------------------------------------------------------------


@jax.jit
def _path(theta: Any, start: Any, clock: Any) -> Float[Array, "time block"]:
    right, left, strength, log_scale, target = theta
    fields = {"friction_right": right, "friction_left": left, "strength": strength, "target": target}
    fields |= {"stiffness": 1.0, "noise_decay": 0.0}
    scale = jnp.minimum(jnp.exp(log_scale), _LONGEST / clock[-1])
    return jnp.asarray(mean_path(start, clock * scale, fields, np.inf, False, fitting=True))


_slope = jax.jit(jax.jacfwd(_path))


def _encode(theta: Float[np.ndarray, "5"]) -> Float[np.ndarray, "5"]:
    """Forces and target as logarithms: what a search may take any step in."""
    return np.append(np.log(theta[:3]), [theta[3], np.log(theta[4])])


def _decode(code: Float[np.ndarray, "5"]) -> Float[np.ndarray, "5"]:
    return np.append(np.exp(code[:3]), [code[3], np.exp(code[4])])


class _Search(NamedTuple):
    """Where a search ended, the sum of squares there, and whether it came to rest."""

    code: Float[np.ndarray, "5"]
    squares: float
    rested: bool


def _search(
    code: Float[np.ndarray, "5"],
    anchor: Float[np.ndarray, "5"],
    restraint: Float[np.ndarray, "5"],
    free: list[int],
    clock: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, "time block"],
) -> _Search:
    """Least squares over the free numbers, held to the anchor by the restraint."""
    held = restraint[free]

    def whole(part: np.ndarray) -> Float[np.ndarray, "5"]:
        moved = code.copy()
        moved[free] = part
        return moved

    def missed(part: np.ndarray) -> np.ndarray:
        gap = np.asarray(_path(_decode(whole(part)), measured[0], clock)) - measured
        return np.append(gap.ravel(), held * (part - anchor[free]))

    def slope(part: np.ndarray) -> np.ndarray:
        theta = _decode(whole(part))
        along = np.asarray(_slope(theta, measured[0], clock)).reshape(-1, 5) * np.append(theta[:3], [1.0, theta[4]])
        return np.vstack([along[:, free], np.diag(held)])

    found = least_squares(missed, code[free], slope, xtol=_STEP, ftol=_GAIN, gtol=None, max_nfev=_SEARCH)
    squares = float(np.sum(found.fun[: measured.size] ** 2))
    return _Search(whole(found.x), squares, found.status > 0)


def _least_squares(
    clock: np.ndarray, mean: Float[np.ndarray, "time block"], fixed: dict[int, float]
) -> tuple[Float[np.ndarray, "5"], bool]:
    """The best of the refined starts, and whether its search came to rest.

    A last search takes the forces to lie within e^±1.5 of that of an evenly loaded spring, with the weight of one
    measured number: what the path determines is not moved, what it does not determine cannot drift away.
    """
    starts = _starts(clock, mean, fixed)
    misfits = [float(np.sum((np.asarray(_path(theta, mean[0], clock)) - mean) ** 2)) for theta in starts]
    search = partial(_search, free=[index for index in range(5) if index not in fixed], clock=clock, measured=mean)
    codes = [_encode(starts[index]) for index in np.argsort(misfits)[:_REFINED]]
    loose = np.full(5, _RESTRAINT)
    found = [search(code, code, loose) for code in codes]
    fainter = _best(found).code + np.array([0.0, 0.0, math.log(_FAINTER), 0.0, 0.0])
    best = _best([*found, search(fainter, fainter, loose)])
    noise = math.sqrt(best.squares / mean.size)
    middle = np.append(np.full(3, math.log(_even(mean))), best.code[3:])
    held = loose + noise / 1.5 * np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    code, rested = best.code, False
    for _ in range(_AGAIN):
        last = search(code, middle, held)
        rested = last.rested or float(np.abs(last.code - code).max()) < _RESTED
        code = last.code
        if rested:
            break
    return _decode(code), rested


def _even(mean: Float[np.ndarray, "time block"]) -> float:
    """Force of a spring if all were loaded evenly, up to the target that continues the last curve."""
    return float(max(2 * mean[-1, -1] - mean[-1, -2], 1.0) / (mean.shape[1] + 1))


def _best(found: list[_Search]) -> _Search:
    return min(found, key=lambda each: each.squares)


def _starts(clock: np.ndarray, mean: np.ndarray, fixed: dict[int, float]) -> list[Float[np.ndarray, "5"]]:
    """Every combination of weak and strong forces and of clocks, with the target that continues the last curve."""
    spring = _even(mean)
    ahead = spring * (mean.shape[1] + 1)
    durations = np.log(np.array([3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]) / clock[-1])
    clocks = [fixed[3]] if 3 in fixed else durations
    targets = [fixed[4]] if 4 in fixed else [ahead, 1.5 * ahead]
    forces = ((0.2 * spring, spring), (0.2 * spring, spring), (0.3 * spring, spring))
    return [np.array(each) for each in product(*forces, clocks, targets)]


# --- how well it is known -------------------------------------------------------------------------------------------


def _simulated(
    theta: np.ndarray, clock: np.ndarray, start: np.ndarray, options: dict[str, Any], seed: int
) -> Float[np.ndarray, "trial time block"]:
    """Chains with the fitted parameters, on the path's times."""
    right, left, force, log_scale, target = theta
    moments = clock * min(math.exp(log_scale), _LONGEST / clock[-1])
    # the path's times must fall on different steps
    dt = min(options["dt"], float(np.diff(moments).min()))
    chain = SpringBlock(len(start), 1.0, right, left, force * math.sqrt(dt), target)
    run = chain.simulate(
        moments[-1] + dt,
        dt,
        options["simulations"],
        seed=seed,
        save_points=moments,
        shared_noise=options["shared_noise"],
        start=start,
        progress=False,
    )
    return np.asarray(run["position"].values)


def _errors(
    slope: Float[np.ndarray, "number free"],
    contrasts: Float[np.ndarray, "6 free"],
    residual: Float[np.ndarray, "time block"],
    paths: Float[np.ndarray, "trial time block"],
    averaged: int,
) -> Float[np.ndarray, "6"]:
    """Standard errors of the contrasts, to first order, when the fitted path is the mean of `averaged` like these.

    Infinite along directions in which the path does not depend on the parameters.
    """
    left, sizes, right = np.linalg.svd(slope, full_matrices=False)
    seen = sizes > _BLIND * math.sqrt(len(slope))
    solve = left[:, seen] / sizes[seen]  # (number, direction)
    spread = (paths - paths.mean(axis=0)).reshape(len(paths), -1) / math.sqrt((len(paths) - 1) * averaged)
    pulls = spread @ solve
    covariance = pulls.T @ pulls
    expected = float(np.sum(spread**2) - np.sum((spread @ left) ** 2))  # of the residual's squares
    beyond = max(0.0, float(np.sum(residual**2)) - expected) / (len(slope) - slope.shape[1])
    covariance += beyond * _correlation_time(residual) * solve.T @ solve
    along = contrasts @ right[seen].T  # (contrast, direction)
    errors = np.sqrt(np.einsum("cd,de,ce->c", along, covariance, along))
    hidden = np.linalg.norm(contrasts @ right[~seen].T, axis=1) > 1e-3
    return np.where(hidden, np.inf, errors)


def _correlation_time(residual: Float[np.ndarray, "time block"]) -> float:
    """Points along time that a residual stays alike: 1 + 2 Σ ρ until ρ first falls below 0."""
    power = np.array([np.sum(residual[lag:] * residual[: len(residual) - lag]) for lag in range(len(residual))])
    if power[0] == 0:
        return 1.0
    negative = np.flatnonzero(power <= 0)
    end = negative[0] if negative.size else len(power)
    return float(1 + 2 * np.sum(power[1:end] / power[0]))


def _doubt(half: Float[np.ndarray, "6"], resting: bool, converged: bool) -> str:
    """Why the parameters are not known, or nothing."""
    if resting:
        return "the path is at rest almost from its start: it shows where the chain ends, not how it moves"
    missing = [name for name, width in zip(PARAMETERS, half[:5], strict=True) if np.isinf(width)]
    if missing:
        left = "; the difference of the frictions is" if np.isfinite(half[5]) else ""
        return f"{', '.join(missing)} cannot be told from this path{left}"
    return "" if converged else "the search did not come to rest"


def _labelled(clock: np.ndarray, load: Float[np.ndarray, "time layer"], fit: _Fit) -> xr.Dataset:
    fitted = load[:, :1] - np.pad(fit.position, ((0, 0), (1, 0)))
    found = xr.Dataset(
        {
            "load": (_DIMS[1:], load, {"long_name": "load"}),
            "fitted_load": (_DIMS[1:], fitted, {"long_name": "fitted load"}),
            "residual": float(np.sqrt(np.mean((load - fitted)[:, 1:] ** 2))),
            "simulation_gap": fit.gap,
            "ok": not fit.reason,
        },
        coords={"time": clock, "layer": np.arange(load.shape[1])},
        attrs={"reason": fit.reason},
    )
    for (name, (long_name, units)), value, ends in zip(_LABELS.items(), fit.values, fit.ends, strict=True):
        for suffix, number in (("", value), ("_low", ends[0]), ("_high", ends[1])):
            found[name + suffix] = ((), float(number), {"long_name": long_name, "units": units})
    return found
