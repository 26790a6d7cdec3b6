"""Integrals of exponential growth, ∫ weight(t) exp(growth(t)) dt, to nearly full precision."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_TOLERANCE = 1e-12
_DOUBLINGS = 8
_LARGEST = 350.0  # exp(2 · 350) is near the largest number


def integrate_growth(
    times: Float[np.ndarray, " time"],
    growth: Callable[[np.ndarray], np.ndarray],
    weight: Callable[[np.ndarray], np.ndarray],
    *,
    begin: float = 0.0,
    knots: Float[np.ndarray, " knot"],
) -> Float[np.ndarray, "curve time"]:
    """Integrals from `begin` to each time, for growth(t) shaped (curve, time) and weight(t) shaped (time,).

    Gauss-Legendre with ten nodes, on pieces cut at the times, at the knots, where 1 + t grows by e^½ and where the
    growth changes by ½; pieces are halved until the result stands to 1e-12.

    >>> twice = integrate_growth(np.array([1.0, 2.0]), lambda t: -t[None], np.ones_like, knots=np.empty(0))
    >>> twice.round(9).tolist()
    [[0.632120559, 0.864664717]]
    """
    refuse_overflow(times, growth(times))
    edges = smooth_pieces(np.unique(np.append(begin, times)), growth, knots)
    before = _sums(times, edges, growth, weight)
    for _ in range(_DOUBLINGS):
        edges = _split(edges, np.full(len(edges) - 1, 2.0))
        after = _sums(times, edges, growth, weight)
        if np.all(np.abs(after - before) <= _TOLERANCE * np.abs(after).max(axis=1, keepdims=True)):
            return after
        before = after
    return before


def refuse_overflow(times: Float[np.ndarray, " time"], growth: Float[np.ndarray, "... time"]) -> None:
    """Raise where exp(growth), or its square in a covariance, is beyond the largest number.

    >>> refuse_overflow(np.array([1.0, 2.0]), np.array([5.0, 900.0]))
    Traceback (most recent call last):
    FloatingPointError: class means grow beyond all numbers by time 2; choose a shorter duration or weaker strengths
    """
    beyond = ~(growth < _LARGEST)  # also what is not a number
    if np.any(beyond):
        first = times[np.flatnonzero(beyond.reshape(-1, len(times)).any(axis=0))[0]]
        raise FloatingPointError(
            f"class means grow beyond all numbers by time {first:g}; choose a shorter duration or weaker strengths"
        )


def smooth_pieces(
    times: Float[np.ndarray, " time"], growth: Callable[[np.ndarray], np.ndarray], knots: Float[np.ndarray, " knot"]
) -> Float[np.ndarray, " edge"]:
    """Cut at the times and knots, and further so that neither log(1 + t) nor the growth changes by more than ½.

    >>> smooth_pieces(np.array([0.0, 1.0]), lambda t: 2 * t[None], np.array([0.3])).round(2).tolist()
    [0.0, 0.15, 0.3, 0.53, 0.77, 1.0]
    """
    stops = np.unique(np.concatenate([times, knots[(knots > times[0]) & (knots < times[-1])]]))
    edges = np.expm1(_split(np.log1p(stops), np.ceil(2 * np.diff(np.log1p(stops)))))
    edges = np.unique(np.concatenate([edges[(edges > stops[0]) & (edges < stops[-1])], stops]))
    return _split(edges, np.ceil(2 * np.abs(np.diff(growth(edges), axis=1)).max(axis=0)))


def gauss_nodes(
    edges: Float[np.ndarray, " edge"],
) -> tuple[Float[np.ndarray, "piece node"], Float[np.ndarray, "piece node"]]:
    """Ten Gauss-Legendre nodes and weights on each piece.

    >>> nodes, weights = gauss_nodes(np.array([0.0, 2.0]))
    >>> float(np.sum(weights * nodes**3).round(12))
    4.0
    """
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return middle[:, None] + half[:, None] * _NODES, half[:, None] * _WEIGHTS


def _split(edges: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Cut each interval into equal parts, keeping its ends as they are."""
    count = parts.clip(1, 10_000).astype(int)
    first = np.repeat(np.cumsum(count) - count, count)
    share = (np.arange(count.sum()) - first) / np.repeat(count, count)
    cut = np.repeat(edges[:-1], count) + share * np.repeat(np.diff(edges), count)
    return np.append(cut, edges[-1])


def _sums(
    times: np.ndarray,
    edges: np.ndarray,
    growth: Callable[[np.ndarray], np.ndarray],
    weight: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    nodes, weights = gauss_nodes(edges)
    flat = nodes.ravel()
    values = (np.exp(growth(flat)) * weight(flat)).reshape(-1, *nodes.shape)
    total = np.cumsum((values * weights).sum(axis=2), axis=1)
    total = np.concatenate([np.zeros((len(total), 1)), total], axis=1)
    return np.asarray(total[:, np.searchsorted(edges, times)])
