"""Scaling laws of one set of skills: exponents, prefactors, what a finite number of skills changes, and fits of them.

With N, n_s → ∞ the loss is prefactor·x^exponent for each resource x: Table 4.1 of the source, which leaves the
prefactors out. A finite number of skills takes the loss of those that are not there away from it (C.2).
"""

import math

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.special import gamma, roots_jacobi, stdtrit, zeta

from dynascope.checks import ArrayLike, as_float, scalar
from dynascope.deprecation import renamed
from dynascope.models.multilinear.curves import SkillSet
from dynascope.statistics.errors import over_trials

RESOURCES = ("time", "data", "parameters", "compute")
_LEGENDRE = np.polynomial.legendre.leggauss(20)


def exponent(resource: str, alpha: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Slope of log loss on log resource: Table 4.1.

    >>> float(exponent("parameters", np.array(0.6)))
    -0.6
    """
    divisor = {"time": alpha + 1, "data": alpha + 1, "parameters": 1.0, "compute": alpha + 2}[resource]
    return np.asarray(-alpha / divisor)


def prefactor(resource: str, task: SkillSet) -> float:
    """Constant c in loss ≈ c·resource^exponent for a number of skills without limit, at the given P(1) = A.

    With s = α/(α+1) and gap = 1 − R/S: time ½ S² A/(α+1) (η A)^−s ∫ x^(s−1) gap(x)² dx; data
    ½ (S − R(0))² A^(1/(α+1)) Γ(s)/(α+1); parameters ½ S² A/α; compute: see `best_exposure`. Derived from (4.17).

    >>> task = SkillSet(10**9, 0.6, 1.0, 0.01, 1.0, False)
    >>> law = prefactor("time", task) * 1e4**-0.375 - absent_loss("time", task, published=False)
    >>> abs(law / float(task.loss(np.array([1e4]), None, None)[0]) - 1) < 1e-12
    True
    """
    alpha, normaliser, half_square = task.exponent, task.normaliser, task.target**2 / 2
    s = alpha / (alpha + 1)
    if resource == "time":
        learned = _head_integral(task, s)
        return float(half_square * normaliser / (alpha + 1) * (task.learning_rate * normaliser) ** -s * learned)
    if resource == "data":
        return float(half_square * task.start_gap**2 * normaliser ** (1 / (alpha + 1)) * gamma(s) / (alpha + 1))
    if resource == "parameters":
        return half_square * normaliser / alpha
    exposure, scaled_loss = best_exposure(task)
    tau = exposure / (task.learning_rate * normaliser)  # T = τ N^(α+1) along the frontier
    return float(half_square * normaliser * tau ** (alpha / (alpha + 2)) * scaled_loss)


def absent_loss(resource: str, task: SkillSet, *, published: bool) -> float:
    """L_C: the loss that skills beyond the last one would add, if there were any (C.2).

    They would stand at their start, R(0), or at 0 where the model lacks them. Printed: ½ S² A n_s^−α/α, for R(0) ≪ S.
    Source: layerwise (C.2).

    >>> task = SkillSet(1000, 0.6, 1.0, 0.1, 1.0, False)
    >>> 0.8 < absent_loss("time", task, published=False) / absent_loss("time", task, published=True) < 0.82
    True
    """
    alpha, half_square = task.exponent, task.target**2 / 2
    if published:
        return float(half_square * task.normaliser * task.skills**-alpha / alpha)
    kept = 1.0 if resource in ("parameters", "compute") else task.start_gap**2
    return float(half_square * kept * task.normaliser * zeta(alpha + 1, task.skills + 1))


def best_exposure(task: SkillSet) -> tuple[float, float]:
    """Exposure x = η P(N) T of the last skill at the best split of compute C = T·N, and the loss there.

    With N skills of very many, loss = ½ S² A N^−α [ℓ(x) + 1/α], ℓ(x) = x^−s/(α+1) ∫_x^∞ u^(s−1) gap(u)² du, and at a
    given C that is minimal where x^(α/(α+2)) [ℓ(x) + 1/α] is: one number for every budget. The printed (4.39) adds the
    laws of time and parameters instead, which counts the skills beyond N twice. Returns x and ℓ(x) + 1/α.
    Source: layerwise (4.39), (4.43).

    >>> task = SkillSet(1000, 0.6, 1.0, 0.01, 1.0, False)
    >>> exposure, loss = best_exposure(task)
    >>> round(1 - float(task.gap(np.array(exposure))), 2)  # the last skill is far from learned: more skills pay better
    0.23
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 (slow to import, and only this needs it)

    alpha = task.exponent
    s = alpha / (alpha + 1)

    def scaled_loss(x: float) -> float:
        return float(x**-s / (alpha + 1) * _tail_integral(task, s, x) + 1 / alpha)

    found = minimize_scalar(
        lambda log_x: alpha / (alpha + 2) * log_x + math.log(scaled_loss(math.exp(log_x))),
        bounds=(math.log(0.01 / _speed(task)), math.log(_learned(task))),
        method="bounded",
        options={"xatol": 1e-9},
    )
    exposure = math.exp(found.x)
    return exposure, scaled_loss(exposure)


def best_split(task: SkillSet, budgets: Float[np.ndarray, " budget"]) -> Float[np.ndarray, "4 budget"]:
    """Steps, skills, loss and R_N/S at the best whole number of skills N for each budget C = T·N.

    The loss falls and then rises with N: a grid of ranks is narrowed about its best point until none is left out.

    >>> best_split(SkillSet(1000, 0.6, 1.0, 0.01, 0.1, False), np.array([1e5]))[1].tolist()
    [20.0]
    """
    found = np.empty((4, len(budgets)))
    for index, budget in enumerate(budgets):
        low, high = 1, task.skills
        while True:
            known = np.unique(np.rint(np.geomspace(low, high, 25)))
            losses = task.loss(budget / known, None, known)
            best = int(np.argmin(losses))
            around = int(known[max(best - 1, 0)]), int(known[min(best + 1, len(known) - 1)])
            if around[1] - around[0] <= 2 or around == (low, high):
                break
            low, high = around
        steps = budget / known[best]
        last = 1 - task.gap(task.learning_rate * task.frequency(known[best : best + 1]) * steps)[0]
        found[:, index] = steps, known[best], losses[best], last
    return found


def _speed(task: SkillSet) -> float:
    """1/(exposure over which a gap changes)."""
    return 1.0 if task.linear else 2 * task.target


def _learned(task: SkillSet) -> float:
    """Exposure after which no gap is left in double precision."""
    return (40.0 if task.linear else max(-task.start_logit, 0.0) + 40.0) / _speed(task)


def _tail_integral(task: SkillSet, s: float, begin: float) -> float:
    """∫ u^(s−1) gap(u)² du from `begin` > 0 on, by Gauss-Legendre panels two gap widths long."""
    last = _learned(task)
    edges = np.linspace(begin, last, max(math.ceil((last - begin) * _speed(task) / 2), 1) + 1)
    half = np.diff(edges)[:, None] / 2
    u = edges[:-1, None] + half * (1 + _LEGENDRE[0])
    return float(np.sum(half * _LEGENDRE[1] * u ** (s - 1) * task.gap(u) ** 2))


def _head_integral(task: SkillSet, s: float) -> float:
    """∫ u^(s−1) gap(u)² du from 0 on; Gauss-Jacobi takes care of the singular end."""
    places, weights = roots_jacobi(30, 0.0, s - 1)
    first = 1 / _speed(task)
    near = (first / 2) ** s * float(weights @ task.gap(first / 2 * (1 + places)) ** 2)
    return float(near + _tail_integral(task, s, first))


def estimate_exponent(x: ArrayLike, losses: ArrayLike, absent: float = 0.0, *, confidence: float = 0.95) -> xr.Dataset:
    """Fit log(loss + absent) = intercept + exponent·log x by least squares.

    x: (x,) positive values of a resource. losses: (x,) or (trial, x). absent: the loss of skills that are not there,
    see `Multilinear.absent_loss`; 0 fits the plain power law. confidence: of the interval.

    Returns exponent, low, high, standard_error, prefactor, curvature (the second-order coefficient: 0 for a power law)
    and ok, False with the attribute reason where a slope says little. With trials the interval is Student's over
    them; a single curve has only its scatter about the line, which measures misfit rather than noise.

    >>> x = np.geomspace(10, 1000, 20)
    >>> found = estimate_exponent(x, 3 * x**-0.4 - 0.01, absent=0.01)
    >>> round(float(found["exponent"]), 9), round(float(found["prefactor"]), 9), bool(found["ok"])
    (-0.4, 3.0, True)
    """
    place, loss = as_float("x", x), np.atleast_2d(as_float("losses", losses))
    if place.ndim != 1 or len(place) < 3 or np.any(place <= 0) or np.ptp(place) == 0:
        raise ValueError(f"x must list at least 3 positive values that differ, got {place}")
    if loss.ndim != 2 or loss.shape[1] != len(place):
        raise ValueError(f"losses must be (x,) or (trial, x) with {len(place)} values of x, got shape {loss.shape}")
    shifted = loss.mean(axis=0) + scalar("absent", absent)
    if np.any(shifted <= 0):
        raise ValueError(f"losses + absent must be above 0, got {shifted.min()}; leave out what has been learned")
    confidence = scalar("confidence", confidence, above=0.0)
    if confidence >= 1:
        raise ValueError(f"confidence must be below 1, got {confidence}")
    log_x, log_loss = np.log(place), np.log(shifted)
    slope, intercept = np.polyfit(log_x, log_loss, 1)
    centred = log_x - log_x.mean()
    if len(loss) > 1:  # each trial's pull on the slope, to first order in its noise
        pull = ((loss - loss.mean(axis=0)) / shifted) @ centred / (centred @ centred)
        error, degrees = float(over_trials(pull).error), len(loss) - 1
    else:
        scatter = log_loss - intercept - slope * log_x
        degrees = len(place) - 2
        error = math.sqrt(float(scatter @ scatter) / degrees / float(centred @ centred))
    half = float(stdtrit(degrees, (1 + confidence) / 2)) * float(error)
    reason = "" if np.ptp(log_x) >= math.log(3) else "x spans less than a factor of 3: a slope says little"
    values = {
        "exponent": slope,
        "low": slope - half,
        "high": slope + half,
        "standard_error": error,
        "prefactor": math.exp(intercept),
        "curvature": np.polyfit(log_x, log_loss, 2)[0],
    }
    return (
        xr.Dataset({name: float(value) for name, value in values.items()})
        .assign(ok=not reason)
        .assign_attrs(reason=reason)
    )


fit_exponent = renamed("fit_exponent", estimate_exponent)
