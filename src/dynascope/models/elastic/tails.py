"""How fast a strength dies out: the tail index r of α(t) ∝ (1 + t)^−r."""

import numpy as np
from jaxtyping import Float
from scipy.special import exprel

from dynascope.checks import ArrayLike, Times, count, increasing, one_of

METHODS = ("differentiated", "integrated", "published")
_SCAN = np.linspace(-2.0, 4.0, 121)


def tail_index(
    times: Times, curve: ArrayLike, method: str = "differentiated", *, points: int | None = None
) -> float | np.ndarray:
    """Read r of α(t) ∝ (1 + t)^−r off the last third of a path.

    "differentiated": `curve` is α; r is minus the slope of log|α| on log(1 + t). NaN if α changes sign on the way.
    "integrated": `curve` is A = ∫α, from anywhere on; r is that of the curve offset + scale·(1 + t)^(1−r) nearest to
    it in least squares, −2 < r < 4. Needs no derivative, hence stands more noise, and no offset biases it.
    "published": `curve` is A = ∫α from time 0; 1 − mean of log A/log(1 + t), elastic (D.19). Its bias dies out only as
    1/log t: for α = a/(1 + t)^r it is (log(1 − r) − log a − log(1 − (1 + t)^(r−1)))/log(1 + t).
    times: (time,). curve: (…, time), one index for each row; a float for a single one, NaN where it is not known.
    points: how many of the last times are used (default a third of them). Time counts from 0 as in α itself.
    Source: elastic (D.17)–(D.19).

    >>> times = np.linspace(0.0, 1000.0, 301)
    >>> round(tail_index(times, 3 / (1 + times) ** 0.7), 6)
    0.7
    >>> integral = 10 * ((1 + times) ** 0.3 - 1)
    >>> [round(tail_index(times, integral, method), 2) for method in ("integrated", "published")]
    [0.7, 0.38]
    """
    one_of("method", method, METHODS)
    grid, values = increasing("times", times), np.asarray(curve, float)
    if values.ndim == 0 or values.shape[-1] != len(grid):
        raise ValueError(f"curve must end in the {len(grid)} times, got shape {values.shape}")
    used = max(len(grid) // 3, 3) if points is None else count("points", points, at_least=3)
    if used > len(grid):
        raise ValueError(f"points must be at most the number of times, {len(grid)}, got {used}")
    log_time, late = np.log1p(grid[-used:]), values[..., -used:]
    index = {"differentiated": _slope, "integrated": _least_squares, "published": _printed}[method](log_time, late)
    return float(index) if index.ndim == 0 else index


def _slope(log_time: np.ndarray, late: np.ndarray) -> Float[np.ndarray, "..."]:
    one_sign = np.all(late > 0, axis=-1) | np.all(late < 0, axis=-1)  # false also where a value is not known
    height = np.log(np.abs(np.where(one_sign[..., None], late, 1.0)))
    x = log_time - log_time.mean()
    return np.where(one_sign, -(height @ x) / (x @ x), np.nan)


def _printed(log_time: np.ndarray, late: np.ndarray) -> Float[np.ndarray, "..."]:
    known = np.all(late > 0, axis=-1) & bool(log_time[0] > 0)
    height = np.log(np.where(known[..., None], late, 1.0))
    return np.where(known, 1 - (height / np.where(log_time > 0, log_time, 1.0)).mean(axis=-1), np.nan)


def _least_squares(log_time: np.ndarray, late: np.ndarray) -> Float[np.ndarray, "..."]:
    """The r whose power law explains most of the curve: a scan, then parabolas, for all rows at once."""
    known = np.isfinite(late).all(axis=-1)
    known &= np.ptp(np.where(known[..., None], late, 0.0), axis=-1) > 0
    rows = np.where(known[..., None], late, log_time).reshape(-1, len(log_time))
    rows = rows - rows.mean(axis=-1, keepdims=True)
    shapes = _power_laws(log_time, _SCAN)
    at = np.argmax((rows @ shapes.T) ** 2, axis=1)
    inside = (at > 0) & (at < len(_SCAN) - 1)
    best = _SCAN[at]
    for width in (_SCAN[1] - _SCAN[0]) * np.array([1.0, 0.1, 0.01]):  # the peak of a parabola, ever closer
        left, peak, right = (
            ((rows * _power_laws(log_time, best + move)).sum(axis=-1)) ** 2 for move in (-width, 0.0, width)
        )
        bend = left - 2 * peak + right
        best = best + width * np.clip(np.divide(left - right, 2 * bend, out=0 * bend, where=bend < 0), -1.0, 1.0)
    found = np.where(inside, best, np.nan).reshape(known.shape)
    return np.where(known, found, np.nan)


def _power_laws(log_time: np.ndarray, index: np.ndarray) -> Float[np.ndarray, "index time"]:
    """(1 + t)^(1−r) for each index r, centred and of length one; the logarithm at r = 1."""
    rest = (1 - index)[:, None] * (log_time - log_time.mean())
    shape = (log_time - log_time.mean()) * exprel(rest)
    shape = shape - shape.mean(axis=1, keepdims=True)
    return np.asarray(shape / np.linalg.norm(shape, axis=1, keepdims=True))
