"""Gradient flow of one mode, by quadrature that is exact to rounding.

With z = w/s, κ = L s^(2−2/L) and ℓ = log(z/|1 − z|) the flow w' = L w^(2−2/L)(s − w) becomes ℓ' = κ z^(1−2/L):
depth 2 is linear in time (the logistic (3)), other depths need F(ℓ) = ∫ z^(2/L−1) dℓ and its inverse.
"""

import numpy as np
from jaxtyping import Float

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FAR = 40.0  # beyond this ℓ, z is 1 to rounding and F grows as ℓ


def logit(z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """log(z/|1 − z|) of an amplitude in units of the singular value; infinite at z = 1.

    >>> float(logit(np.array(0.5)))
    0.0
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(z) - np.log(np.abs(1 - z)))


def expit(place: Float[np.ndarray, "..."], *, above: bool) -> Float[np.ndarray, "..."]:
    """The amplitude below (or above) the singular value that has this logit.

    >>> expit(np.array([0.0, np.inf]), above=False).tolist()
    [0.5, 1.0]
    """
    return np.asarray(1 / (1 - np.exp(-place)) if above else 1 / (1 + np.exp(-place)))


def _slowness(place: np.ndarray, power: float, above: bool) -> np.ndarray:
    """dF/dℓ = z^(−power)."""
    return expit(place, above=above) ** -power


def _stretch(left: np.ndarray, right: np.ndarray, power: float, above: bool) -> np.ndarray:
    """∫ dF from left to right, at most one panel apart, by Gauss's rule."""
    half = (right - left)[..., None] / 2
    return np.asarray((_slowness(left[..., None] + half * (1 + _NODES), power, above) * half) @ _WEIGHTS)


class Clock:
    """F(ℓ) on one side of the singular value, measured from the smallest logit that is needed.

    >>> clock = Clock(-3.0, depth=4, above=False)
    >>> place = np.array([-2.0, 5.0, 80.0])
    >>> np.allclose(clock.place(clock.reading(place)), place)
    True
    """

    def __init__(self, first: float, depth: int, *, above: bool):
        self.power, self.above = 1 - 2 / depth, above
        edges = [first]
        while edges[-1] < _FAR:  # above s the integrand is singular at ℓ = 0: panels shrink towards it
            edges.append(edges[-1] + (min(2.0, edges[-1]) if above else 2.0))
        self.edges = np.array(edges)
        self.ticks = np.concatenate([[0.0], np.cumsum(self._stretch(self.edges[:-1], self.edges[1:]))])

    def _stretch(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return _stretch(left, right, self.power, self.above)

    def reading(self, place: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """F at the given logits."""
        panel = np.clip(np.searchsorted(self.edges, place, side="right") - 1, 0, len(self.edges) - 1)
        beyond = np.maximum(place - self.edges[-1], 0.0)
        inside = np.minimum(place, self.edges[-1])
        return np.asarray(self.ticks[panel] + self._stretch(self.edges[panel], inside) + beyond)

    def place(self, reading: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Logits at which F has the given values: Newton's method within one panel."""
        panel = np.clip(np.searchsorted(self.ticks, reading, side="right") - 1, 0, len(self.ticks) - 1)
        left, rest = self.edges[panel], reading - self.ticks[panel]
        last = panel == len(self.edges) - 1
        right = self.edges[np.minimum(panel + 1, len(self.edges) - 1)]
        where = left
        for _ in range(12):  # quadratic: from anywhere in a panel, 7 reach rounding
            miss = self._stretch(left, where) - rest
            step = where - miss / _slowness(where, self.power, self.above)
            where = np.clip(step, left, right)
        return np.where(last, left + rest, where)


def solve(
    times: Float[np.ndarray, " time"],
    start: Float[np.ndarray, " point"],
    singular_value: Float[np.ndarray, " point"],
    *,
    depth: int,
) -> Float[np.ndarray, "point time"]:
    """Amplitudes under gradient flow from `start`, for several modes at once.

    >>> solve(np.array([0.0, 1.0]), np.array([0.5]), np.array([1.0]), depth=2).round(4).tolist()
    [[0.5, 0.8808]]
    """
    z, rate = start / singular_value, relaxation_rate(singular_value, depth)
    path = np.ones((len(start), len(times)))
    for above in (False, True):
        chosen = (z > 1) if above else (z < 1)
        if chosen.any():
            begin = logit(z[chosen])
            clock = Clock(float(begin.min()), depth, above=above)
            readings = clock.reading(begin)[:, None] + rate[chosen, None] * times
            path[chosen] = expit(clock.place(readings), above=above)
    return np.asarray(path * singular_value[:, None])


def time_to_reach(
    fraction: Float[np.ndarray, "point more"],
    start: Float[np.ndarray, " point"],
    singular_value: Float[np.ndarray, " point"],
    *,
    depth: int,
) -> Float[np.ndarray, "point more"]:
    """Gradient-flow time from `start` to fractions of the singular value; NaN where the flow never comes by.

    >>> time_to_reach(np.array([[0.9]]), np.array([0.1]), np.array([1.0]), depth=2).round(4).tolist()
    [[2.1972]]
    """
    z, rate = start / singular_value, relaxation_rate(singular_value, depth)
    times = np.where(fraction == z[:, None], 0.0, np.nan)
    for above in (False, True):
        side = (z > 1)[:, None] & (fraction > 1) if above else (z < 1)[:, None] & (fraction < 1)
        if side.any():
            begin, goal = logit(z), logit(fraction)
            clock = Clock(float(min(begin[side.any(axis=1)].min(), goal[side].min())), depth, above=above)
            safe = np.where(side, goal, clock.edges[-1])
            wait = (clock.reading(safe) - clock.reading(np.where(side, begin[:, None], safe))) / rate[:, None]
            times = np.where(side & (wait >= 0), wait, times)
    return times


def relaxation_rate(singular_value: Float[np.ndarray, "..."], depth: int) -> Float[np.ndarray, "..."]:
    """κ = L s^(2−2/L): how fast a learned mode returns to s.

    >>> float(relaxation_rate(np.array(1.0), 4))
    4.0
    """
    return np.asarray(depth * singular_value ** (2 - 2 / depth))
