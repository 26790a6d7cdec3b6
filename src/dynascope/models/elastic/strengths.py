"""How strongly training on one sample moves another, as functions of time.

A strength is called with times and integrates itself from 0: A(t) = ∫₀ᵗ α(τ) dτ, in closed form wherever
there is one.
"""

from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.integrate import quad

from dynascope.models.parameters import as_float, require, scalar


class Strength(eqx.Module):
    """A function of time with an integral."""

    @abstractmethod
    def __call__(self, times: Any) -> Float[np.ndarray, "..."]:
        """The strength at the given times."""

    @abstractmethod
    def integral(self, times: Any) -> Float[np.ndarray, "..."]:
        """Its integral from 0 to the given times."""


class Constant(Strength):
    """The same strength at all times.

    >>> float(Constant(2.0).integral(3.0))
    6.0
    """

    value: float

    def __init__(self, value: Any):
        self.value = scalar("strength", value)

    def __call__(self, times: Any) -> Float[np.ndarray, "..."]:
        """The constant, in the shape of `times`."""
        return np.full_like(_times(times), self.value)

    def integral(self, times: Any) -> Float[np.ndarray, "..."]:
        """Value times time."""
        return np.asarray(self.value * _times(times))


class PowerLaw(Strength):
    """scale/(1 + t)^index, with the tail index of elastic (D.17).

    A(t) = scale·((1 + t)^(1−index) − 1)/(1 − index), and scale·log(1 + t) for index 1, exactly (D.18) drops the −1.

    >>> law = PowerLaw(1.0, 1.0)
    >>> float(law(1.0)), float(law.integral(np.e - 1).round(12))
    (0.5, 1.0)
    """

    scale: float
    index: float

    def __init__(self, scale: Any, index: Any):
        self.scale = scalar("scale", scale)
        self.index = scalar("index", index)

    def __call__(self, times: Any) -> Float[np.ndarray, "..."]:
        """The strength at the given times."""
        return np.asarray(self.scale * (1 + _times(times)) ** -self.index)

    def integral(self, times: Any) -> Float[np.ndarray, "..."]:
        """Closed form, stable as the index passes 1."""
        log = np.log1p(_times(times))
        rest = 1 - self.index
        return np.asarray(self.scale * (log if rest == 0 else np.expm1(rest * log) / rest))


class Sampled(Strength):
    """A curve through given points: straight between them, constant beyond the ends.

    >>> curve = Sampled([0.0, 2.0], [0.0, 4.0])
    >>> curve([1.0, 5.0]).tolist(), curve.integral([1.0, 3.0]).tolist()
    ([2.0, 4.0], [1.0, 8.0])
    """

    times: Float[np.ndarray, " point"]
    values: Float[np.ndarray, " point"]

    def __init__(self, times: Any, values: Any):
        self.times, self.values = as_float("times", times), as_float("values", values)
        if self.times.ndim != 1 or self.times.shape != self.values.shape or self.times.size < 2:
            raise ValueError(
                f"times and values must be equally long lists of at least two numbers, "
                f"got shapes {self.times.shape} and {self.values.shape}"
            )
        if np.any(np.diff(self.times) <= 0) or self.times[0] < 0:
            raise ValueError(f"times must increase from 0 or later, got {self.times}")

    def __call__(self, times: Any) -> Float[np.ndarray, "..."]:
        """Linear interpolation."""
        return np.asarray(np.interp(_times(times), self.times, self.values))

    def integral(self, times: Any) -> Float[np.ndarray, "..."]:
        """Exact integral of the interpolated curve."""
        times = _times(times)
        knots = np.concatenate([[0.0], self.times]) if self.times[0] > 0 else self.times
        heights = self(knots)
        total = np.concatenate([[0.0], np.cumsum(np.diff(knots) * (heights[1:] + heights[:-1]) / 2)])
        before = np.searchsorted(knots, times, side="right") - 1  # the knot at or before each time
        return np.asarray(total[before] + (times - knots[before]) * (heights[before] + self(times)) / 2)


class Function(Strength):
    """Any function of one time, integrated by adaptive quadrature (relative error 1e-10).

    >>> float(Function(np.cos).integral(np.pi / 2).round(9))
    1.0
    """

    function: Callable[[float], float]

    def __call__(self, times: Any) -> Float[np.ndarray, "..."]:
        """The function at each time."""
        times = _times(times)
        values = np.array([float(self.function(t)) for t in times.ravel()]).reshape(times.shape)
        require("strength", values, np.isfinite(values), "be finite at all times")
        return values

    def integral(self, times: Any) -> Float[np.ndarray, "..."]:
        """Quadrature from each time to the next."""
        times = _times(times)
        order = np.argsort(times, axis=None)
        stops = np.concatenate([[0.0], times.ravel()[order]])
        pieces = [quad(self.function, a, b, epsrel=1e-10, limit=200)[0] for a, b in pairwise(stops)]
        result = np.empty(times.size)
        result[order] = np.cumsum(pieces)
        return result.reshape(times.shape)


def as_strength(name: str, value: Any) -> Strength:
    """Turn a number, a strength or a function of time into a strength.

    >>> as_strength("intra", 0.5)
    Constant(value=0.5)
    """
    if isinstance(value, Strength):
        return value
    if callable(value):
        return Function(value)
    try:
        return Constant(scalar(name, value))
    except ValueError as error:
        raise ValueError(
            f"{name} must be a number, a PowerLaw, a Sampled curve or a function of time, got {value!r}"
        ) from error


def _times(times: Any) -> Float[np.ndarray, "..."]:
    array = as_float("times", times)
    require("times", array, array >= 0, "be at least 0")
    return array
