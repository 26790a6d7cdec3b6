"""How strongly training on one sample moves another, as functions of time.

A strength is called with times and integrates itself from 0: A(t) = ∫₀ᵗ α(τ) dτ, in closed form wherever
there is one. Its values are numbers, or matrices E(t) where classes differ; their axes follow those of the times.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float
from numpy.polynomial.chebyshev import chebint

from dynascope.checks import ArrayLike, as_float, require, scalar

_POWER_LAW = re.compile(r"([-+]?[\d.]+(?:e[-+]?\d+)?)/\(1\+t\)(?:(?:\^|\*\*)([-+]?[\d.]+))?")


_POWERS, _MOST_PIECES = 16, 2000
_CHEBYSHEV_POINTS = np.cos(np.pi * (np.arange(_POWERS) + 0.5) / _POWERS)
_TO_CHEBYSHEV = 2 / _POWERS * np.cos(np.arange(_POWERS)[:, None] * np.arccos(_CHEBYSHEV_POINTS))
_TO_CHEBYSHEV[0] /= 2


class Strength(eqx.Module):
    """A function of time with an integral."""

    @abstractmethod
    def __call__(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """The strength at the given times."""

    @abstractmethod
    def integral(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """Its integral from 0 to the given times."""

    @abstractmethod
    def describe(self) -> Any:  # Any: whatever JSON holds
        """Plain values that say what it is, for records."""

    @property
    def knots(self) -> Float[np.ndarray, " point"]:
        """Times at which it bends; quadratures and solvers start anew there."""
        return np.empty(0)

    @property
    def constant(self) -> bool:
        """Whether it is the same at all times."""
        return False


class Constant(Strength):
    """The same strength at all times.

    >>> float(Constant(2.0).integral(3.0))
    6.0
    """

    value: Float[np.ndarray, "..."]

    def __init__(self, value: ArrayLike):
        self.value = as_float("strength", value)

    def __call__(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """The constant, at every time."""
        return np.broadcast_to(self.value, np.shape(_times(times)) + self.value.shape).copy()

    def integral(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """Value times time."""
        return np.asarray(np.multiply.outer(_times(times), self.value))

    def describe(self) -> Any:
        """The value."""
        return self.value.tolist()

    @property
    def constant(self) -> bool:
        """It is."""
        return True


class PowerLaw(Strength):
    """scale/(1 + t)^index, with the tail index of elastic (D.17).

    A(t) = scale·((1 + t)^(1−index) − 1)/(1 − index), and scale·log(1 + t) for index 1, exactly (D.18) drops the −1.
    Source: elastic (D.17), (D.18).

    >>> law = PowerLaw(1.0, 1.0)
    >>> float(law(1.0)), float(law.integral(np.e - 1).round(12))
    (0.5, 1.0)
    """

    scale: float
    index: float

    def __init__(self, scale: float, index: float):
        self.scale = scalar("scale", scale)
        self.index = scalar("index", index)

    def __call__(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """The strength at the given times."""
        return np.asarray(self.scale * (1 + _times(times)) ** -self.index)

    def integral(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """Closed form, stable as the index passes 1."""
        log = np.log1p(_times(times))
        rest = 1 - self.index
        return np.asarray(self.scale * (log if rest == 0 else np.expm1(rest * log) / rest))

    def describe(self) -> Any:
        """Scale and index."""
        return {"scale": self.scale, "index": self.index}


class Sampled(Strength):
    """A curve through given points: straight between them, constant beyond the ends.

    times: (point,), increasing from 0 or later. values: (point,), or (point, class, class) for a matrix E(t).

    >>> curve = Sampled([0.0, 2.0], [0.0, 4.0])
    >>> curve([1.0, 5.0]).tolist(), curve.integral([1.0, 3.0]).tolist()
    ([2.0, 4.0], [1.0, 8.0])
    """

    times: Float[np.ndarray, " point"]
    values: Float[np.ndarray, "point ..."]

    def __init__(self, times: ArrayLike, values: ArrayLike):
        self.times, self.values = as_float("times", times), as_float("values", values)
        if self.times.ndim != 1 or self.times.size < 2 or self.values.shape[:1] != self.times.shape:
            raise ValueError(
                f"times and values must be equally long lists of at least two entries, "
                f"got shapes {self.times.shape} and {self.values.shape}"
            )
        if np.any(np.diff(self.times) <= 0) or self.times[0] < 0:
            raise ValueError(f"times must increase from 0 or later, got {self.times}")

    def __call__(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """Linear interpolation."""
        if self.values.ndim == 1:
            return np.asarray(np.interp(_times(times), self.times, self.values))
        at = _times(times).clip(self.times[0], self.times[-1])
        before = np.searchsorted(self.times, at, side="right").clip(1, len(self.times) - 1) - 1
        share = (at - self.times[before]) / (self.times[before + 1] - self.times[before])
        share = _per_time(share, self.values)
        return np.asarray((1 - share) * self.values[before] + share * self.values[before + 1])

    def integral(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """Exact integral of the interpolated curve."""
        at = _times(times)
        knots = np.concatenate([[0.0], self.times]) if self.times[0] > 0 else self.times
        heights = self(knots)
        pieces = _per_time(np.diff(knots), heights) * (heights[1:] + heights[:-1]) / 2
        total = np.concatenate([np.zeros_like(heights[:1]), np.cumsum(pieces, axis=0)])
        before = np.searchsorted(knots, at, side="right") - 1  # the knot at or before each time
        return np.asarray(total[before] + _per_time(at - knots[before], heights) * (heights[before] + self(at)) / 2)

    def describe(self) -> Any:
        """The points."""
        return {"times": self.times.tolist(), "values": self.values.tolist()}

    @property
    def knots(self) -> Float[np.ndarray, " point"]:
        """The points, where the curve bends."""
        return self.times


class Function(Strength):
    """Any function of one time, integrated through piecewise polynomials that meet it to 1e-12.

    The pieces may miss pulses that are narrow beside the times asked for; give those as a Sampled curve.

    >>> float(Function(np.cos).integral(np.pi / 2).round(9))
    1.0
    """

    function: Callable[[float], ArrayLike]

    def __call__(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """The function at each time."""
        at = _times(times)
        values = self._values(at.ravel())
        return values.reshape(at.shape + values.shape[1:])

    def _values(self, times: np.ndarray) -> np.ndarray:
        values = np.array([np.asarray(self.function(float(t)), float) for t in times])
        require("strength", values, np.isfinite(values), "be finite at all times")
        return values

    def integral(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """Integral of the polynomials from 0 to each time."""
        at = _times(times)
        edges, coefficients = self._polynomials(float(at.max(initial=0.0)))
        half = _per_time(np.diff(edges) / 2, coefficients)
        rising = np.stack([chebint(piece, lbnd=-1) for piece in coefficients]) * half  # (piece, power, …)
        total = np.concatenate([np.zeros_like(rising[:1, 0]), np.cumsum(rising.sum(axis=1), axis=0)])  # T_k(1) = 1
        piece = np.searchsorted(edges, at.ravel(), side="right").clip(1, len(edges) - 1) - 1
        place = 2 * (at.ravel() - edges[piece]) / np.diff(edges)[piece] - 1
        powers = np.cos(np.arange(rising.shape[1]) * np.arccos(place.clip(-1, 1))[:, None])  # T_k
        values = total[piece] + np.einsum("tk,tk...->t...", powers, rising[piece])
        return np.asarray(values.reshape(at.shape + values.shape[1:]))

    def _polynomials(self, end: float) -> tuple[np.ndarray, np.ndarray]:
        """Edges, and Chebyshev coefficients (piece, power, …): halved until the last powers vanish."""
        todo, done = [(0.0, max(end, 1e-300))], [0.0]
        found: list[np.ndarray] = []
        while todo:
            left, right = todo.pop()
            values = self._values((left + right) / 2 + (right - left) / 2 * _CHEBYSHEV_POINTS)
            coefficients = np.tensordot(_TO_CHEBYSHEV, values, axes=1)
            tail, size = np.abs(coefficients[-2:]).max(), np.abs(coefficients).max()
            if tail > 1e-12 * size and right - left > max(1e-9 * right, 1e-18 * end) and len(found) < _MOST_PIECES:
                todo += [((left + right) / 2, right), (left, (left + right) / 2)]
                continue
            done.append(right)
            found.append(coefficients)
        return np.array(done), np.stack(found)

    def describe(self) -> Any:
        """The name of the function: its values are not known without calling it."""
        return f"function {getattr(self.function, '__qualname__', repr(self.function))}"


class IntraInter(Strength):
    """E(t) with one strength on its diagonal and another elsewhere: the matrix of local elasticity.

    >>> IntraInter(Constant(1.0), Constant(0.2), 2)(0.0).tolist()
    [[1.0, 0.2], [0.2, 1.0]]
    """

    intra: Strength
    inter: Strength
    classes: int = eqx.field(static=True)

    def __call__(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """The matrix at each time, (…, class, class)."""
        return self._matrix(self.intra(times), self.inter(times))

    def integral(self, times: ArrayLike) -> Float[np.ndarray, "..."]:
        """A on the diagonal, B elsewhere."""
        return self._matrix(self.intra.integral(times), self.inter.integral(times))

    def _matrix(self, diagonal: np.ndarray, elsewhere: np.ndarray) -> np.ndarray:
        own = np.eye(self.classes)
        return np.asarray(np.multiply.outer(diagonal, own) + np.multiply.outer(elsewhere, 1 - own))

    def describe(self) -> Any:
        """Both strengths."""
        return {"intra": self.intra.describe(), "inter": self.inter.describe()}

    @property
    def knots(self) -> Float[np.ndarray, " point"]:
        """Where either bends."""
        return np.concatenate([self.intra.knots, self.inter.knots])

    @property
    def constant(self) -> bool:
        """Whether both are."""
        return self.intra.constant and self.inter.constant


class Growths(eqx.Module):
    """Logarithms of how two parts of the class means grow: what classes share, and what tells them apart.

    (A + v B)/K with v = (K−1) ρ for the first and −ρ for the second; ρ is the cosine between the directions along
    which classes pull, 1 in the isotropic model.

    >>> Growths(Constant(1.0), Constant(0.5), 2, 1.0)(np.array([4.0])).tolist()
    [[3.0], [1.0]]
    """

    intra: Strength
    inter: Strength
    classes: int = eqx.field(static=True)
    cosine: float = eqx.field(static=True)

    @property
    def weights(self) -> Float[np.ndarray, "2 1"]:
        """Of B beside A."""
        return np.array([[(self.classes - 1) * self.cosine], [-self.cosine]])

    @property
    def knots(self) -> Float[np.ndarray, " point"]:
        """Where either strength bends."""
        return np.concatenate([self.intra.knots, self.inter.knots])

    def __call__(self, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, "2 time"]:
        """Both, at each time."""
        return np.asarray((self.intra.integral(times) + self.weights * self.inter.integral(times)) / self.classes)


ElasticityLike = Strength | ArrayLike | Callable[[float], ArrayLike]
StrengthLike = Strength | float | str | Callable[[float], ArrayLike]


def as_elasticity(value: ElasticityLike, classes: int, features: int) -> Strength:
    """Turn a matrix E, a Sampled curve of matrices or a function of time that returns one into a strength.

    Entry (k, l) says how strongly training on class l moves class k: a number, or a feature × feature matrix Θ_kl.

    >>> as_elasticity([[1.0, 0.2], [0.1, 1.0]], 2, 2)(0.0).tolist()
    [[1.0, 0.2], [0.1, 1.0]]
    """
    if isinstance(value, Strength):
        strength: Strength = value
    else:
        strength = Function(value) if callable(value) else Constant(as_float("elasticity", value))
    shape, allowed = strength(0.0).shape, ((classes, classes), (classes, classes, features, features))
    if shape not in allowed:
        raise ValueError(
            f"elasticity must be a matrix of the shape {allowed[0]} or {allowed[1]}, or a function of time or Sampled "
            f"curve that returns one, got the shape {shape}"
        )
    return strength


def as_strength(name: str, value: StrengthLike) -> Strength:
    """Turn a number, a strength, a function of time or text such as "1.0/(1+t)^0.5" into a strength.

    >>> as_strength("intra", 0.5).describe(), as_strength("intra", "2/(1+t)^0.7").describe()
    (0.5, {'scale': 2.0, 'index': 0.7})
    """
    try:
        written = _POWER_LAW.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
        if written:
            return PowerLaw(float(written[1]), float(written[2] or 1.0))
        strength = value if isinstance(value, Strength) else Function(value) if callable(value) else None
        if strength is not None:
            scalar("its value", strength(0.0))
            return strength
        return Constant(scalar(name, value))
    except ValueError as error:
        raise ValueError(
            f"{name} must be a number, a PowerLaw, a Sampled curve, a function of time or text such as "
            f"'1.0/(1+t)^0.5', got {value!r} ({error})"
        ) from error


def _times(times: ArrayLike) -> Float[np.ndarray, "..."]:
    array = as_float("times", times)
    require("times", array, array >= 0, "be at least 0")
    return array


def _per_time(factor: np.ndarray | np.generic, values: np.ndarray) -> np.ndarray:
    """Give a factor per time the axes that values have beyond their first."""
    return np.reshape(np.asarray(factor), np.shape(factor) + (1,) * (values.ndim - 1))
