"""Derivatives of measured curves by local quadratic fits, with a window that is given or chosen by its risk."""

import numpy as np
from jaxtyping import Float
from scipy.signal import oaconvolve

from dynascope.checks import Given, count

_WIDEST = 2001  # points that are tried by default
_DOUBT = 2.0  # times what noise explains: a larger difference between two windows is bias
NARROWEST = 5  # points through which a quadratic still averages


def checked_window(window: Given[int | None], points: int) -> int | None:
    """An odd number of points that a path of `points` can hold, or None for an automatic choice.

    >>> checked_window(4, 100)
    Traceback (most recent call last):
    ValueError: window must be an odd number from 3 to 99, or None for an automatic one, got 4
    """
    if window is None:
        return None
    longest = points - (points + 1) % 2
    if count("window", window, at_least=1) % 2 == 0 or not 3 <= window <= longest:
        raise ValueError(
            f"window must be an odd number from 3 to {longest}, or None for an automatic one, got {window}"
        )
    return int(window)


def local_derivative(
    times: Float[np.ndarray, " time"], values: Float[np.ndarray, "*lead time"], window: int
) -> Float[np.ndarray, "*lead time"]:
    """Slope at each time of the parabola through the `window` nearest points (Savitzky-Golay; any grid).

    The first and last half window use the outermost full one. A row that is not finite gives NaN.

    >>> times = np.array([0.0, 1.0, 3.0, 4.0, 8.0])
    >>> local_derivative(times, times**2, 3).round(12).tolist()
    [0.0, 2.0, 6.0, 8.0, 16.0]
    """
    known = np.isfinite(values).all(axis=-1, keepdims=True)
    curves = np.where(known, values, 0.0)
    steps = np.diff(times)
    if np.allclose(steps, steps[0], rtol=1e-6):
        rate = _even((times[-1] - times[0]) / len(steps), curves, window)
    else:
        rate = _uneven(times, curves, window)
    return np.where(known, rate, np.nan)


def _even(step: float, values: np.ndarray, window: int) -> np.ndarray:
    """One convolution, by Fourier transforms because windows grow long; the ends from their parabolas."""
    half = window // 2
    offsets = np.linspace(-1.0, 1.0, window)
    weights = offsets[::-1] / (offsets @ offsets)  # in the middle of a window parabola and line have the same slope
    inside = oaconvolve(values, weights.reshape((1,) * (values.ndim - 1) + (-1,)), mode="valid", axes=-1)
    _, slope, bend = np.linalg.pinv(offsets[:, None] ** np.arange(3))
    ends = [values[..., :window], values[..., -window:]]
    slopes = [(part @ slope)[..., None] + 2 * (part @ bend)[..., None] * offsets for part in ends]
    return np.concatenate([slopes[0][..., :half], inside, slopes[1][..., half + 1 :]], axis=-1) / (half * step)


def _uneven(times: np.ndarray, values: np.ndarray, window: int) -> np.ndarray:
    first = np.clip(np.arange(len(times)) - window // 2, 0, len(times) - window)  # of each window
    reach = (times[first + window - 1] - times[first]) / 2
    offsets = [(times[first + j] - times) / reach for j in range(window)]  # of order 1, so that moments stay tame
    moments = np.stack([sum(u**power for u in offsets) for power in range(5)])
    gram = moments[np.add.outer(np.arange(3), np.arange(3))].transpose(2, 0, 1)  # (time, 3, 3)
    slope = np.linalg.solve(gram, np.broadcast_to([[0.0], [1.0], [0.0]], (len(times), 3, 1)))[..., 0]
    rate = np.zeros_like(values)
    for j, u in enumerate(offsets):
        rate += (slope[:, 0] + slope[:, 1] * u + slope[:, 2] * u**2) * values[..., first + j]
    return np.asarray(rate / reach)


def automatic_window(
    times: Float[np.ndarray, " time"],
    curves: Float[np.ndarray, "curve time"],
    draws: Float[np.ndarray, "draw curve time"] | None = None,
) -> int:
    """Widest window at which the derivative still agrees with that of every narrower one (Lepski's rule).

    D_w y, the local fit over w points, is trusted while Σ (D_w y − D_v y)² over time and curves is at most twice what
    the noise alone would make it, for all v < w: a larger difference is bias, because the curve bends within w. The
    noise comes from `draws`, each with the noise of `curves` (a bootstrap); it may be correlated over time in any way.
    Without them it is taken as white, its variance from third differences: give a window where the noise of a single
    path is a random walk. Windows from 5 points to a third of the path (at most 2001) are tried, each a third wider.

    >>> times = np.linspace(0.0, 1.0, 300)
    >>> rough = times + 0.1 * np.random.default_rng(0).normal(size=300)
    >>> automatic_window(times, times[None] ** 3), automatic_window(times, rough[None]) > 50
    (5, True)
    """
    longest = min(len(times) // 3, _WIDEST)
    if longest <= NARROWEST or len(curves) == 0:
        return min(NARROWEST, len(times) - (len(times) + 1) % 2)
    ladder = np.geomspace(NARROWEST, longest, 1 + round(np.log(longest / NARROWEST) / np.log(4 / 3)))
    spread, share = _noise(curves, draws)
    chosen = NARROWEST
    slopes: list[np.ndarray] = []
    noises: list[np.ndarray] = []
    for window in sorted({int(points) | 1 for points in ladder}):
        slope, noise = (local_derivative(times, values, window) for values in (curves, spread))
        for before, noise_before in zip(slopes, noises, strict=True):
            allowed = _DOUBT * share * ((noise - noise_before) ** 2).sum()
            if ((slope - before) ** 2).sum() > allowed:
                return chosen
        chosen = window
        slopes.append(slope)
        noises.append(noise)
    return chosen


def _noise(curves: np.ndarray, draws: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Curves (draw, curve, time) whose squares, summed over draws and times the factor, are the noise's variance."""
    if draws is not None:
        return draws - draws.mean(axis=0), 1 / (len(draws) - 1)
    variance = (np.diff(curves, 3, axis=-1) ** 2).mean(axis=-1, keepdims=True) / 20  # 1 + 9 + 9 + 1
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(8, *curves.shape))
    return signs * np.sqrt(variance), 1 / len(signs)
