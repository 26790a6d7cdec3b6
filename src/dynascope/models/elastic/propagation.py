"""How class means and their covariance travel from one time to the next under a linear drift M(t).

X̄(end) = Φ X̄(begin) + N(0, (σ²/n) ∫ Φ(end, s) C Φ(end, s)ᵀ ds) for n samples in each class: Gaussian, and known.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from dynascope.models.elastic.quadrature import integrate_growth
from dynascope.models.elastic.strengths import Strength

Drift = Callable[[float], np.ndarray]

_TOLERANCE = {"method": "DOP853", "rtol": 1e-10, "atol": 1e-13}


def transitions(
    times: Float[np.ndarray, " time"],
    drift: Drift,
    covariance: Float[np.ndarray, "state state"],
    *,
    constant: bool = False,
    knots: Any = (),
) -> Iterator[tuple[Float[np.ndarray, "state state"], Float[np.ndarray, "state state"]]]:
    """For each interval between consecutive times yield Φ and ∫ Φ C Φᵀ.

    The matrix exponential if the drift is `constant`, else an adaptive solver (relative error 1e-10) that starts anew
    at the `knots` where the drift bends.

    >>> flow, spread = next(transitions(np.array([0.0, 3.0]), lambda time: np.zeros((1, 1)), np.eye(1), constant=True))
    >>> flow.round(12).tolist(), spread.round(12).tolist()
    ([[1.0]], [[3.0]])
    """
    span, found = -1.0, (covariance, covariance)
    for begin, end in pairwise(times.tolist()):
        with np.errstate(over="ignore", invalid="ignore"):
            if not constant:
                found = _integrate(begin, end, drift, covariance, np.asarray(knots))
            elif abs(end - begin - span) > 1e-13 * end:  # an even grid needs one exponential
                span, found = end - begin, _exponential(end - begin, drift(0.0), covariance)
        _refuse_overflow(begin, end, *found)
        yield found


def isotropic_transitions(
    times: Float[np.ndarray, " time"],
    intra: Strength,
    inter: Strength,
    covariance: Float[np.ndarray, "state state"],
    *,
    classes: int,
) -> Iterator[tuple[Float[np.ndarray, "state state"], Float[np.ndarray, "state state"]]]:
    """Φ and ∫ Φ C Φᵀ of the I-model, by three scalar integrals instead of a solver: exact also over many decades.

    Φ = exp(ΔG₁) Π₁ + exp(ΔG₂) Π₂ with Π₁ the mean over classes, Π₂ = 1 − Π₁, G₁ = (A + (K−1) B)/K, G₂ = (A − B)/K.

    >>> from dynascope.models.elastic.strengths import Constant
    >>> still = isotropic_transitions(np.array([0.0, 3.0]), Constant(0.0), Constant(0.0), np.eye(2), classes=2)
    >>> [matrix.round(12).tolist() for matrix in next(still)]
    [[[1.0, 0.0], [0.0, 1.0]], [[3.0, 0.0], [0.0, 3.0]]]
    """
    shared = np.kron(np.full((classes, classes), 1 / classes), np.eye(len(covariance) // classes))
    projectors = np.stack([shared, np.eye(len(covariance)) - shared])
    spreads = np.einsum("aij,jk,blk->abil", projectors, covariance, projectors)
    weights, knots = np.array([[classes - 1.0], [-1.0]]), np.concatenate([intra.knots, inter.knots])

    def growth(at: np.ndarray) -> np.ndarray:
        return np.asarray((intra.integral(at) + weights * inter.integral(at)) / classes)

    for begin, end in pairwise(times.tolist()):
        last = growth(np.array([end]))

        def ahead(at: np.ndarray, last: np.ndarray = last) -> np.ndarray:
            own, other = last - growth(at)
            return np.stack([2 * own, own + other, 2 * other])

        with np.errstate(over="ignore", invalid="ignore"):
            both = integrate_growth(np.array([end]), ahead, np.ones_like, begin=begin, knots=knots)[:, 0]
            flow = np.einsum("a,aij->ij", np.exp(last - growth(np.array([begin])))[:, 0], projectors)
        _refuse_overflow(begin, end, flow, both)
        yield flow, np.einsum("ab,abil->il", np.array([[both[0], both[1]], [both[1], both[2]]]), spreads)


def _refuse_overflow(begin: float, end: float, *found: np.ndarray) -> None:
    if not all(np.all(np.isfinite(values)) for values in found):
        raise FloatingPointError(
            f"class means grow beyond all numbers between time {begin:g} and {end:g}; "
            f"choose a shorter duration or weaker strengths"
        )


def _exponential(span: float, drift: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Van Loan's block exponential over a short time, then doubling: a long time at once would cancel digits."""
    size = len(drift)
    doublings = max(0, int(np.ceil(np.log2(span * float(np.linalg.norm(drift)) + 1e-9))))
    block = np.block([[-drift, covariance], [np.zeros((size, size)), drift.T]])
    exponential = expm(block * (span / 2**doublings))
    flow = exponential[size:, size:].T
    spread = flow @ exponential[:size, size:]
    for _ in range(doublings):
        flow, spread = flow @ flow, flow @ spread @ flow.T + spread
    return flow, (spread + spread.T) / 2


def _integrate(
    begin: float, end: float, drift: Drift, covariance: np.ndarray, knots: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    size = len(covariance)

    def slope(at: float, state: np.ndarray) -> np.ndarray:
        flow, spread = state.reshape(2, size, size)
        matrix = drift(at)
        grown = matrix @ spread
        return np.stack([matrix @ flow, grown + grown.T + covariance]).ravel()

    state = np.stack([np.eye(size), np.zeros((size, size))]).ravel()
    for left, right in pairwise([begin, *np.unique(knots[(knots > begin) & (knots < end)]), end]):
        state = solve_ivp(slope, (left, right), state, **_TOLERANCE).y[:, -1]
    flow, spread = state.reshape(2, size, size)
    return flow, (spread + spread.T) / 2


def follow_slope(
    times: Float[np.ndarray, " time"],
    start: Float[np.ndarray, "..."],
    slope: Callable[[float, np.ndarray], np.ndarray],
    *,
    knots: Any = (),
) -> Float[np.ndarray, "..."]:
    """Solve x' = slope(t, x) from time 0, for any shape of x: (time, *start.shape), relative error 1e-10.

    >>> path = follow_slope(np.array([0.0, 1.0]), np.array([[1.0]]), lambda time, x: -x)
    >>> path.ravel().round(9).tolist()
    [1.0, 0.367879441]
    """
    bends = np.asarray(knots, float)
    stops = np.unique(np.concatenate([[0.0], times, bends[(bends > 0) & (bends < times[-1])]]))
    state, path = start.ravel(), {0.0: start.ravel()}

    def flat(at: float, x: np.ndarray) -> np.ndarray:
        return slope(at, x.reshape(start.shape)).ravel()

    for left, right in pairwise(stops.tolist()):
        path[right] = state = solve_ivp(flat, (left, right), state, **_TOLERANCE).y[:, -1]
    return np.stack([path[time] for time in times.tolist()]).reshape(len(times), *start.shape)
