"""A curve as level + height · shape: the shape has one to four numbers, tried on a grid; the rest is linear.

For each shape of the grid, level and height follow from least squares in closed form, for all curves at once. Shapes
are then weighed by how well they fit what was seen: posterior odds with a prior against those that do most of their way
in the future, where nothing was seen of it. So there are no starting values, no local minima and no failed fits.
"""

from collections.abc import Callable
from dataclasses import dataclass
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
    """

    mean: np.ndarray
    spread: np.ndarray
    plain: np.ndarray
    misfit: np.ndarray


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


def weigh(seen: Seen, past: np.ndarray, future: np.ndarray, log_prior: np.ndarray) -> Fit:
    """Fit level and height of each shape to each curve, and weigh shapes. past: (shape, record); future: (shape, time).

    >>> seen = Seen(np.array([0.25, 0.5, 0.75, 1.0]), np.array([[4.0, 3.0, 2.0, 1.0]]))
    >>> weigh(seen, seen.x[None], np.array([[1.25]]), np.zeros(1)).mean.round(6).tolist()
    [[0.0]]
    """
    continued, plain, misfit, _ = least_squares(seen, past, future)
    ahead = np.abs(future - past[:, -1:])[:, -1] / (past.std(1) + 1e-300)
    return mixed(seen, continued, plain, misfit, log_prior - _UNSEEN * np.log1p(ahead))


def mixed(
    seen: Seen, continued: np.ndarray, plain: np.ndarray, misfit: np.ndarray, log_prior: np.ndarray | float
) -> Fit:
    """Mean over shapes by their odds: by what they leave of each curve, and a prior (shape,).

    The plain fit is that of the least misfit.
    """
    log_odds = -0.5 * min(len(seen.x), _RECORDS) * np.log(misfit) + log_prior
    odds = np.exp(log_odds - log_odds.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    mean = np.einsum("cs,cst->ct", odds, continued)
    square = np.einsum("cs,cst->ct", odds, continued**2)
    best = misfit.argmin(1)[:, None]
    chosen = np.take_along_axis(plain, best[..., None], 1)[:, 0]
    return Fit(mean, np.sqrt(np.maximum(square - mean**2, 0)), chosen, np.take_along_axis(misfit, best, 1)[:, 0])


def least_squares(
    seen: Seen, past: np.ndarray, future: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Continue each curve by each shape: from its present level, as fitted, (curve, shape, time); misfits, heights.

    weights: of the records for each shape, (shape, record), 1 if not given.
    """
    w = np.ones((1, len(seen.x))) if weights is None else weights
    total = w.sum(1)
    centre = (w * past).sum(1) / total
    apart = past - centre[:, None]
    weighed = w * apart
    mean = seen.y @ w.T / total
    height = seen.y @ weighed.T / ((weighed * apart).sum(1) * (1 + 1e-9) + 1e-300)
    square = ((seen.y**2) @ w.T / total - mean**2) - height * (seen.y @ weighed.T) / total
    misfit = np.maximum(square, 0) / (seen.y.var(1)[:, None] + 1e-300) + _FLOOR
    plain = mean[..., None] + height[..., None] * (future - centre[:, None])
    off = seen.level[:, None] - mean - height * (apart @ seen.recent)
    return plain + off[..., None], plain, misfit, height
