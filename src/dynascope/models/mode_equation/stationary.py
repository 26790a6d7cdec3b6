"""Stationary law of the one-mode equation: (16) by quadrature, moments, and forms for a small learning rate.

Everything is integrated in x = log(w/s), on panels that shrink towards x = 0 as the law does, with Gauss's rule; the
law's power-law tails (w^(3/L−5) upwards, w^(s/(β(2s²+σ²)) − 3/2) downwards at depth 2) are followed to the end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.polynomial import legendre

from dynascope.models.mode_equation.equations import _PRINTED_LABEL
from dynascope.models.stepping import Numeric

_ORDER = 16
_NODES, _WEIGHTS = legendre.leggauss(_ORDER)
_DOWN, _UP, _INNER = 600.0, 60.0, 64  # how far x reaches, and panels between the law's width and 1
_BISECTIONS = 60

Points = dict[str, Float[np.ndarray, " point"]]


def _running_integrals() -> np.ndarray:
    """Matrix that takes values at Gauss's nodes to integrals from −1 to each node, exact for the interpolant."""
    series = np.linalg.inv(legendre.legvander(_NODES, _ORDER - 1))  # values -> Legendre coefficients
    integrals = [legendre.legint(row, lbnd=-1) for row in np.eye(_ORDER)]
    return np.stack([legendre.legval(_NODES, row) for row in integrals], axis=1) @ series


_RUNNING = _running_integrals()


class Moments(NamedTuple):
    """What is asked most often of a stationary law; each an array over the grid.

    `mode` is where the density is highest, `drift_zero` where the drift vanishes (NaN where it does so nowhere).
    """

    mean: Float[np.ndarray, "..."]
    variance: Float[np.ndarray, "..."]
    mode: Float[np.ndarray, "..."]
    drift_zero: Float[np.ndarray, "..."]


class Law:
    """Stationary densities of several modes that have one: label noise and temperature above 0, no collapse.

    >>> law = Law({"singular_value": np.ones(1), "temperature": np.full(1, 0.005), "label_noise": np.full(1, 0.3)},
    ...           depth=4, form="derived")
    >>> law.moments().mean.round(6).tolist()
    [0.999312]
    """

    def __init__(self, points: Points, *, depth: int, form: str):
        self.depth, self.form = depth, form
        self.s, self.beta, self.sigma = (
            points[name][:, None] for name in ("singular_value", "temperature", "label_noise")
        )
        self.edges = self._edges()
        half = np.diff(self.edges)[..., None] / 2
        self.x = (self.edges[:, :-1, None] + half * (1 + _NODES)).reshape(len(self.s), -1)
        slope = self._slope(self.x).reshape(*half.shape[:2], _ORDER)
        with np.errstate(over="ignore"):
            panels = (slope * half) @ _WEIGHTS
            self.exponent = _from_centre(panels, int(np.argmin(np.abs(self.edges[0]))))
            running = self.exponent[:, :-1, None] + half * (slope @ _RUNNING.T)
        log_density = running.reshape(self.x.shape) - self._log_weight(self.x)
        self.peak = log_density.max(axis=1, keepdims=True)
        mass = np.exp(log_density - self.peak) * (half * _WEIGHTS).reshape(self.x.shape)
        self.total = mass.sum(axis=1, keepdims=True)
        self.mass = mass / self.total
        self.log_amplitude_density = log_density - self.x

    def _edges(self) -> np.ndarray:
        """Panels from x = 0 outwards: a first one of half the law's width, growing to 2."""
        spread = np.sqrt(small_rate_variance(self.s, self.beta, self.sigma, self.depth)) / self.s
        width = np.minimum(np.minimum(spread, self.sigma / self.s), 1.0) / 2
        inner = width * (2 / width) ** np.linspace(0, 1, _INNER)
        down, up = (np.tile(np.arange(4.0, far, 2.0), (len(width), 1)) for far in (_DOWN, _UP))
        centre = np.zeros((len(width), 1))
        return np.concatenate([-down[:, ::-1], -inner[:, ::-1], centre, inner, up], axis=1)

    def _error(self, x: np.ndarray) -> np.ndarray:
        """δ = s − w, without cancellation."""
        return np.asarray(-self.s * np.expm1(x))

    def _power(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(2 * self._error(x) ** 2 + self.sigma**2)

    def _slope(self, x: np.ndarray) -> np.ndarray:
        """2 w μ/D, the derivative by x of the exponent in (16)."""
        depth, power = self.depth, self._power(x)
        w = self.s * np.exp(x)
        gradient = 2 * self._error(x) * w ** (2 / depth - 1) / (self.beta * depth * power)
        if self.form == "derived":
            return np.asarray(gradient + (depth - 1) / depth)
        error = self._error(x) + _PRINTED_LABEL[self.form] * self.sigma
        return np.asarray(gradient + 2 * (depth - 1) / depth * error / (power * w))

    def _log_weight(self, x: np.ndarray) -> np.ndarray:
        """Log of D/w, up to a constant."""
        return np.asarray(np.log(self._power(x)) + (3 - 4 / self.depth) * x)

    def density(self, w: Float[np.ndarray, " amplitude"]) -> Float[np.ndarray, "point amplitude"]:
        """The density (16), normalised, at amplitudes w > 0. Source: deep-linear (16)."""
        x = np.clip(np.log(w / self.s), self.edges[:, :1], self.edges[:, -1:])
        left = np.stack([np.searchsorted(edges, row, side="right") for edges, row in zip(self.edges, x, strict=True)])
        left = np.clip(left - 1, 0, self.edges.shape[1] - 2)
        begin, exponent = (np.take_along_axis(values, left, axis=1) for values in (self.edges, self.exponent))
        half = (x - begin)[..., None] / 2
        places = (begin[..., None] + half * (1 + _NODES)).reshape(len(x), -1)
        rest = (self._slope(places).reshape(*x.shape, _ORDER) * half) @ _WEIGHTS
        return np.asarray(np.exp(exponent + rest - self._log_weight(x) - self.peak) / self.total / w)

    def moments(self) -> Moments:
        """Mean and variance from the quadrature, mode and zero of the drift by bisection."""
        shift = -self._error(self.x)  # w − s
        mean = (self.mass * shift).sum(axis=1, keepdims=True)
        variance = (self.mass * (shift - mean) ** 2).sum(axis=1)
        return Moments(self.s[:, 0] + mean[:, 0], variance, self._mode(), self._drift_zero())

    def _mode(self) -> np.ndarray:
        """The highest node's neighbourhood, then the zero of the log-density's derivative by bisection."""
        top = np.argmax(self.log_amplitude_density, axis=1)[:, None]
        left, right = (np.take_along_axis(self.x, np.clip(top + side, 0, self.x.shape[1] - 1), 1) for side in (-1, 1))

        def rises(x: np.ndarray) -> np.ndarray:
            bend = 4 * self._error(x) * self.s * np.exp(x) / self._power(x)
            return np.asarray(self._slope(x) + bend > 4 - 4 / self.depth)

        place = _bisect(rises, left, right)
        return np.asarray(np.where(top == 0, 0.0, self.s * np.exp(place))[:, 0])

    def _drift_zero(self) -> np.ndarray:
        """The first zero at or above s, where the drift turns from positive to negative."""
        centre = np.zeros_like(self.s)
        upward = np.concatenate([centre, np.where(self.x > 0, self.x, np.nan)], axis=1)
        negative = self._slope(np.nan_to_num(upward)) < 0
        first = np.argmax(negative & ~np.isnan(upward), axis=1)[:, None]
        right = np.take_along_axis(upward, first, axis=1)
        before = np.take_along_axis(upward, np.maximum(first - 1, 0), axis=1)
        place = _bisect(lambda x: self._slope(x) > 0, np.nan_to_num(before), np.nan_to_num(right))
        return np.where(first == 0, np.nan, self.s * np.exp(place))[:, 0]


def _from_centre(panels: np.ndarray, centre: int) -> np.ndarray:
    """Integrals from the edge number `centre` to every edge; summed outwards, so that far panels spoil no near one."""
    below = -np.cumsum(panels[:, centre - 1 :: -1], axis=1)[:, ::-1]
    return np.concatenate([below, np.zeros((len(panels), 1)), np.cumsum(panels[:, centre:], axis=1)], axis=1)


def _bisect(is_left: Callable[[np.ndarray], np.ndarray], left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The point where `is_left` turns from true to false, between left and right."""
    for _ in range(_BISECTIONS):
        middle = (left + right) / 2
        below = is_left(middle)
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    return np.asarray((left + right) / 2)


def small_rate_variance(s: Numeric, beta: Numeric, sigma: Numeric, depth: int) -> Any:
    """β L σ_q² s^(2(L−1)/L)/2 (18). Source: deep-linear (18).

    >>> small_rate_variance(1.0, 0.005, 0.3, 4)
    0.0009
    """
    return beta * depth / 2 * sigma**2 * s ** (2 - 2 / depth)


def small_rate_moments(s: Numeric, beta: Numeric, sigma: Numeric, depth: int) -> Moments:
    """First order in the temperature: mean s − u/2, mode s − 3u/2, zero of the drift s + u/2, variance (18).

    u = β (L−1) σ_q² s^((L−2)/L). The zero of the drift lies above s, mean and mode below: the curvature of the
    drift and the growth of D with w enter at the same order.

    >>> [float(value) for value in small_rate_moments(1.0, 0.01, 0.5, 3)]
    [0.9975, 0.00375, 0.9925, 1.0025]
    """
    shift = beta * (depth - 1) * sigma**2 * s ** (1 - 2 / depth)
    variance = small_rate_variance(s, beta, sigma, depth)
    return Moments(*(np.asarray(value) for value in (s - shift / 2, variance, s - 1.5 * shift, s + shift / 2)))


def published_moments(s: Numeric, beta: Numeric, sigma: Numeric, depth: int) -> Moments:
    """(17) and (18) as printed; the source calls (17) the zero of the drift, the peak and the mean.
    Source: deep-linear (17), (18).

    >>> [round(float(value), 6) for value in published_moments(1.0, 0.01, 0.5, 3)]
    [1.005, 0.00375, 1.005, 1.005]
    """
    zero = s + beta / 2 * (depth - 1) * s ** (-2 / depth) * sigma
    variance = small_rate_variance(s, beta, sigma, depth)
    return Moments(*(np.asarray(value) for value in (zero, variance, zero, zero)))


def collapse_temperature(s: Numeric, sigma: Numeric, depth: int) -> Any:
    """2s/(2s² + σ_q²) at depth 2; deeper modes never collapse.

    >>> collapse_temperature(1.0, 0.0, 2)
    1.0
    """
    return 2 * s / (2 * s**2 + sigma**2) if depth == 2 else np.full_like(np.asarray(s + sigma), np.inf)


def window_moments(amplitude: xr.DataArray, since: float) -> dict[str, tuple[xr.DataArray, xr.DataArray]]:
    """Mean and variance of a measured amplitude from time `since` on, each with its standard error over trials.

    amplitude: over trial and time and anything else, from the mode equation or from a network. The variance is taken
    about the mean of the whole window and all trials. Trials are independent, moments within one are not: errors
    come from trials alone, so that there must be several.

    >>> run = xr.DataArray(np.array([[0.0, 1.0, 3.0], [0.0, 2.0, 2.0]]), dims=("trial", "time"),
    ...                    coords={"time": [0.0, 1.0, 2.0]})
    >>> {name: float(value) for name, (value, _) in window_moments(run, since=1.0).items()}
    {'mean': 2.0, 'variance': 0.5}
    """
    if amplitude.sizes.get("trial", 0) < 2 or "time" not in amplitude.dims:
        raise ValueError(f"amplitude must have a time and at least two trials, got {dict(amplitude.sizes)}")
    window = amplitude.sel(time=slice(since, None))
    if window.sizes["time"] == 0:
        raise ValueError(f"since must be at most the last time {float(amplitude['time'][-1])}, got {since}")
    each = window.mean("time")
    mean = each.mean("trial")
    squares = ((window - mean) ** 2).mean("time")
    root = np.sqrt(window.sizes["trial"])
    return {
        "mean": (mean, each.std("trial", ddof=1) / root),
        "variance": (squares.mean("trial"), squares.std("trial", ddof=1) / root),
    }
