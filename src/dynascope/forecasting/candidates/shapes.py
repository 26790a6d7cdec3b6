"""A curve as level + height · shape: the shape has one to four numbers, tried on a grid; the rest is linear.

For each shape of the grid, level and height follow from least squares in closed form, for all curves at once. Shapes
are then weighed by how well they fit what was seen: posterior odds with a prior against those that do most of their way
in the future, where nothing was seen of it. So there are no starting values, no local minima and no failed fits.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from dynascope.forecasting.seen import Seen

_RECORDS = 8.0  # independent records that a curve counts for at most: misfits of neighbours are alike
_UNSEEN = 2.0  # exponent of the prior against shapes whose way lies ahead
_FLOOR = 1e-6  # of the variance: no fit is better


@dataclass(frozen=True)
class Fit:
    """What a candidate says of each curve.

    mean: where it goes on from its present level, (curve, time); spread: standard deviation over shapes that fit alike
    plain: the one shape of least squares as it is, as everybody fits it, (curve, time)
    misfit: its mean square over the curve's variance, (curve,)
    doubt: how far off it may be besides, which nothing in the past shows, (curve, time)
    """

    mean: np.ndarray
    spread: np.ndarray
    plain: np.ndarray
    misfit: np.ndarray
    doubt: np.ndarray


class Candidate(Protocol):
    """One way to continue a curve."""

    @property
    def name(self) -> str:
        """What results call it."""
        ...

    def fit(self, seen: Seen, ahead: np.ndarray) -> Fit | None:
        """Continue curves to times ahead (time,), 1 is now; None if it says nothing about such curves."""
        ...


@dataclass(frozen=True, eq=False)
class Shapes:
    """A candidate from a family of shapes. grid: (shape, number); shape: from times and the numbers of one shape."""

    name: str
    grid: np.ndarray
    shape: Callable[..., np.ndarray]

    def fit(self, seen: Seen, ahead: np.ndarray) -> Fit:
        """Continue curves."""
        past, future = _table(self, seen.x.tobytes()), _table(self, ahead.tobytes())
        return weigh(seen, past, future, np.zeros(len(self.grid)))


@lru_cache(maxsize=1024)
def _table(family: Shapes, times: bytes) -> np.ndarray:
    """All shapes at times, (shape, time): the same for all curves of the same steps."""
    return np.stack([family.shape(np.frombuffer(times), *each) for each in family.grid])


def product(*axes: np.ndarray) -> np.ndarray:
    """All combinations of numbers, (combination, axis).

    >>> product(np.array([1, 2]), np.array([3])).tolist()
    [[1, 3], [2, 3]]
    """
    return np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], -1)


def weigh(
    seen: Seen, past: np.ndarray, future: np.ndarray, log_prior: np.ndarray, doubted: np.ndarray | None = None
) -> Fit:
    """Fit level and height of each shape to each curve, and weigh shapes. past: (shape, record); future: (shape, time).

    doubted: how far off each shape may be besides, in units of its height, (shape, time)
    >>> seen = Seen(np.array([0.25, 0.5, 0.75, 1.0]), np.array([[4.0, 3.0, 2.0, 1.0]]))
    >>> weigh(seen, seen.x[None], np.array([[1.25]]), np.zeros(1)).mean.round(6).tolist()
    [[0.0]]
    """
    continued, plain, misfit, height = least_squares(seen, past, future)
    ahead = np.abs(future - past[:, -1:])[:, -1] / (past.std(1) + 1e-300)
    odds = odds_of(seen, misfit, log_prior - _UNSEEN * np.log1p(ahead))
    found = mixed(odds, continued, plain, misfit)
    return found if doubted is None else replace(found, doubt=np.abs((odds * height) @ doubted))


def odds_of(seen: Seen, misfit: np.ndarray, log_prior: np.ndarray | float = 0.0) -> np.ndarray:
    """How far each shape is believed: by what it leaves of each curve, and a prior (shape,); (curve, shape)."""
    log_odds = -0.5 * min(len(seen.x), _RECORDS) * np.log(misfit) + log_prior
    odds = np.exp(log_odds - log_odds.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))


def mixed(odds: np.ndarray, continued: np.ndarray, plain: np.ndarray, misfit: np.ndarray) -> Fit:
    """Mean over shapes by their odds (curve, shape). The plain fit is that of the least misfit."""
    mean = np.einsum("cs,cst->ct", odds, continued)
    square = np.einsum("cs,cst->ct", odds, continued**2)
    best = misfit.argmin(1)[:, None]
    chosen = np.take_along_axis(plain, best[..., None], 1)[:, 0]
    least = np.take_along_axis(misfit, best, 1)[:, 0]
    return Fit(mean, np.sqrt(np.maximum(square - mean**2, 0)), chosen, least, np.zeros_like(mean))


def least_squares(
    seen: Seen, past: np.ndarray, future: np.ndarray, weights: np.ndarray | None = None, *, trust: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Continue each curve by each shape: from its present level, as fitted, (curve, shape, time); misfits, heights.

    weights: of the records for each shape, (shape, record), 1 if not given
    trust: those of a steep beginning count less
    """
    w = np.ones((1, len(seen.x))) if weights is None else weights
    y, now = seen.y - seen.last[:, None], past[:, -1:]  # sums of squares lose no digits so
    own = seen.trust if trust else np.ones_like(y)
    shape, weighed = past - now, own * y
    total = own @ w.T
    mean, centre = weighed @ w.T / total, own @ (w * shape).T / total
    square = (weighed * y) @ w.T / total - mean**2
    both = weighed @ (w * shape).T / total - mean * centre
    wide = np.maximum(own @ (w * shape**2).T / total - centre**2, 0)
    height = both / (wide * (1 + 1e-9) + 1e-300)
    left = np.maximum(square - height * both, 0)
    misfit = left / (_variance(seen.y, own) + 1e-300)[:, None] + _FLOOR
    start = seen.last[:, None] + mean - height * centre
    plain = start[..., None] + height[..., None] * (future - now)
    off = seen.level[:, None] - start - height * (shape @ seen.recent)
    return plain + off[..., None], plain, misfit, height


def _variance(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    total = weight.sum(1, keepdims=True)
    mean = (weight * y).sum(1, keepdims=True) / total
    return np.asarray((weight * (y - mean) ** 2 / total).sum(1))
