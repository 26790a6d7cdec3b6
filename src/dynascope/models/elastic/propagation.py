"""How class means and their covariance travel from one time to the next under a linear drift M(t).

X̄(end) = Φ X̄(begin) + N(0, (σ²/n) ∫ Φ(end, s) C Φ(end, s)ᵀ ds) for n samples in each class: Gaussian, and known.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from dynascope.models.elastic.geometry import direction_cosine, margin_directions
from dynascope.models.elastic.quadrature import gauss_nodes, integrate_growth, refuse_overflow, smooth_pieces
from dynascope.models.elastic.strengths import Growths, Strength

Drift = Callable[[float], np.ndarray]


def transitions(
    times: Float[np.ndarray, " time"],
    drift: Drift,
    covariance: Float[np.ndarray, "state state"],
    *,
    constant: bool = False,
    knots: Sequence[float] | np.ndarray = (),
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
            refuse_overflow(np.array([end]), np.log(np.abs(found).max() + 1.0)[None] / 2)
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
    growth = Growths(intra, inter, classes, 1.0)
    for begin, end in pairwise(times.tolist()):
        last = growth(np.array([end]))

        def ahead(at: np.ndarray, last: np.ndarray = last) -> np.ndarray:
            own, other = last - growth(at)
            return np.stack([2 * own, own + other, 2 * other])

        refuse_overflow(np.array([end]), last - growth(np.array([begin])))
        both = integrate_growth(np.array([end]), ahead, np.ones_like, begin=begin, knots=growth.knots)[:, 0]
        flow = np.einsum("a,aij->ij", np.exp(last - growth(np.array([begin])))[:, 0], projectors)
        yield flow, np.einsum("ab,abil->il", np.array([[both[0], both[1]], [both[1], both[2]]]), spreads)


def logit_transitions(
    times: Float[np.ndarray, " time"],
    intra: Strength,
    inter: Strength,
    covariance: Float[np.ndarray, "state state"],
    *,
    classes: int,
) -> Iterator[tuple[Float[np.ndarray, "state state"], Float[np.ndarray, "state state"]]]:
    """Φ and ∫ Φ C Φᵀ of the L-model, all intervals at once by quadrature.

    Φ(t, s) = 1 + Σ_j w_j(t, s) Π_j with four fixed matrices: class k moves along d_k by its own amplitude, and along
    all d_l by theirs, for the mean of the amplitudes and for their differences. The w_j are integrals of α and β
    against the two growths (see `mean_path.logit_path`), so that ∫ Φ C Φᵀ takes only the integrals of w_j and w_i w_j
    over s.

    >>> from dynascope.models.elastic.strengths import Constant
    >>> still = logit_transitions(np.array([0.0, 3.0]), Constant(0.0), Constant(0.0), np.eye(4), classes=2)
    >>> [bool(np.allclose(matrix, factor * np.eye(4))) for matrix, factor in zip(next(still), (1, 3))]
    [True, True]
    """
    features = len(covariance) // classes
    growth = Growths(intra, inter, classes, direction_cosine(classes, features))
    if len(times) < 2:
        return
    refuse_overflow(times, growth(times))
    nodes, weights = gauss_nodes(smooth_pieces(times, growth, growth.knots))
    at = np.concatenate([times, nodes.ravel()])
    order = np.argsort(at, kind="stable")
    drawn = np.empty((2, len(at)))
    drawn[:, order] = integrate_growth(at[order], growth, inter, begin=float(times[0]), knots=growth.knots)
    grown = np.exp(growth(at))  # (2, time and node)

    def factors(begin: slice | np.ndarray, end: slice | np.ndarray) -> np.ndarray:
        with_inter = (drawn[:, end] - drawn[:, begin]) / grown[:, begin]
        with_intra = classes * (grown[:, end] / grown[:, begin] - 1) - growth.weights * with_inter
        return np.concatenate([with_intra - with_inter, with_inter])  # (4, …)

    interval = np.searchsorted(times, nodes[:, 0]) - 1  # of each piece
    first_piece = np.searchsorted(interval, np.arange(len(times) - 1))
    w = factors(len(times) + np.arange(nodes.size), np.repeat(interval + 1, nodes.shape[1]))
    products = np.concatenate([w, np.einsum("in,jn->ijn", w, w).reshape(16, -1)]) * weights.ravel()
    sums = np.add.reduceat(products.reshape(20, *nodes.shape).sum(axis=2), first_piece, axis=1)
    flows = factors(np.arange(len(times) - 1), np.arange(1, len(times)))
    patterns = _logit_patterns(classes, features)
    mixed = np.einsum("aij,jk->aik", patterns, covariance)
    double = np.einsum("aij,bkj->abik", mixed, patterns).reshape(16, *covariance.shape)
    for index, span in enumerate(np.diff(times)):
        once = np.einsum("a,aij->ij", sums[:4, index], mixed)
        spread = span * covariance + once + once.T + np.einsum("a,aij->ij", sums[4:, index], double)
        yield np.eye(len(covariance)) + np.einsum("a,aij->ij", flows[:, index], patterns), (spread + spread.T) / 2


def _logit_patterns(classes: int, features: int) -> Float[np.ndarray, "4 state state"]:
    """How amplitudes move class means, over K: own direction and all directions, each for their mean and the rest."""
    directions = margin_directions(classes, features)
    amplitude = np.einsum("kl,kp->klp", np.eye(classes), directions / (directions[0] @ directions[0]))
    amplitude = amplitude.reshape(classes, -1)  # (class, state)
    own = np.einsum("kl,kp->kpl", np.eye(classes), directions).reshape(-1, classes)  # (state, class)
    every = np.tile(directions.T, (classes, 1))
    mean = np.full((classes, classes), 1 / classes)
    parts = [move @ part @ amplitude for move in (own, every) for part in (mean, np.eye(classes) - mean)]
    return np.stack(parts) / classes


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
        state = _solve(slope, (left, right), state, np.array([right]))[-1]
    flow, spread = state.reshape(2, size, size)
    return flow, (spread + spread.T) / 2


def follow_slope(
    times: Float[np.ndarray, " time"],
    start: Float[np.ndarray, "..."],
    slope: Callable[[float, np.ndarray], np.ndarray],
    *,
    knots: Sequence[float] | np.ndarray = (),
) -> Float[np.ndarray, "..."]:
    """Solve x' = slope(t, x) from time 0, for any shape of x: (time, *start.shape), relative error 1e-10.

    >>> path = follow_slope(np.array([0.0, 1.0]), np.array([[1.0]]), lambda time, x: -x)
    >>> path.ravel().round(9).tolist()
    [1.0, 0.367879441]
    """
    bends = np.asarray(knots, float)
    stops = np.unique(np.concatenate([[0.0], times[-1:], bends[(bends > 0) & (bends < times[-1])]]))
    state, path = start.ravel(), np.empty((len(times), start.size))
    path[times == 0] = state

    def flat(at: float, x: np.ndarray) -> np.ndarray:
        return slope(at, x.reshape(start.shape)).ravel()

    for left, right in pairwise(stops.tolist()):
        wanted = (times > left) & (times <= right)
        solved = _solve(flat, (left, right), state, np.append(times[wanted & (times < right)], right))
        path[wanted], state = solved[: wanted.sum()], solved[-1]
    return path.reshape(len(times), *start.shape)


def _solve(
    slope: Callable[[float, np.ndarray], np.ndarray], span: tuple[float, float], state: np.ndarray, at: np.ndarray
) -> Float[np.ndarray, "time state"]:
    """States at the given times, the last of which ends the span (DOP853, relative error 1e-11 a step)."""

    def finite_slope(at: float, x: np.ndarray) -> np.ndarray:
        if not np.all(np.isfinite(x)):
            raise FloatingPointError(
                f"class means grow beyond all numbers by time {at:g}; choose a shorter duration or weaker strengths"
            )
        return slope(at, x)

    with np.errstate(over="ignore", invalid="ignore"):
        solved = solve_ivp(finite_slope, span, state, method="DOP853", rtol=1e-11, atol=1e-13, t_eval=at)
    if not solved.success:
        raise FloatingPointError(
            f"class means cannot be followed from time {span[0]:g} to {span[1]:g}: {solved.message}"
        )
    return np.asarray(solved.y.T)
