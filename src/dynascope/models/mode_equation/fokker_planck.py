"""The Fokker–Planck equation (5.1) of one mode, conserved and non-negative to rounding.

Finite volumes around the points of a grid, with fluxes that are central where they can be and upwind where they must,
make a Markov chain: rates to the neighbours that are never negative, columns that sum to 0. Its transition matrix
over a time step is found by Taylor series and repeated squaring of matrices without a negative entry, so nothing can
become negative, and columns are kept at sum 1. Time is exact. The error is that of the grid: of second order in its
spacing h where that is below D/|μ|; where it is above, the law spreads as if D were |μ| h.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from dynascope.models.mode_equation.equations import (
    diffusion,
    diffusion_slope,
    gradient_drift,
    ito_drift,
)
from dynascope.models.stepping import Parameters

_TERMS = 20  # of a Taylor series at norm 1: 1/20! is below rounding
_LEFT = 5  # doublings that are cheaper as 32 products with a vector than as squarings
_NOTHING = 1e-150  # smaller probabilities count as 0


def cell_widths(points: Float[np.ndarray, " amplitude"]) -> Float[np.ndarray, " amplitude"]:
    """Widths of the cells: the weights of the trapezoidal rule.

    >>> cell_widths(np.array([0.0, 1.0, 3.0])).tolist()
    [0.5, 1.5, 1.0]
    """
    gaps = np.diff(points)
    return np.concatenate([gaps[:1], gaps[:-1] + gaps[1:], gaps[-1:]]) / 2


def spread_points(
    low: float, high: float, count: int, need: Callable[[np.ndarray], np.ndarray]
) -> Float[np.ndarray, " amplitude"]:
    """Half of the points equally spaced, the other half dense where `need`, an inverse length, is large.

    >>> spread_points(1.0, 3.0, 3, lambda w: np.ones_like(w)).round(3).tolist()
    [1.0, 2.0, 3.0]
    """
    fine = np.unique(np.concatenate([np.linspace(low, high, 4001), np.geomspace(low, high, 4001)]))
    even = 1 / (high - low)
    wanted = need((fine[1:] + fine[:-1]) / 2) * np.diff(fine)
    rank = np.concatenate([[0.0], np.cumsum(wanted / wanted.sum() + even * np.diff(fine))]) / 2
    return np.asarray(np.interp(np.linspace(0, 1, count), rank / rank[-1], fine))


def rates(
    points: Float[np.ndarray, " amplitude"], p: Parameters, form: str
) -> tuple[Float[np.ndarray, " face"], Float[np.ndarray, " face"]]:
    """Rates at which probability moves from each cell to the next, and back.

    The flux J = (μ − D'/2) p − D p'/2 through a face is a central difference, which adds no diffusion of its own, where
    that leaves both rates non-negative, and upwind elsewhere.

    >>> up, down = rates(np.array([0.4, 0.5, 0.6]), {"depth": 2, "singular_value": 1.0, "temperature": 0.0,
    ...                  "label_noise": 0.0}, "derived")
    >>> bool((up > 0).all() and (down == 0).all())
    True
    """
    middle, gaps, widths = (points[1:] + points[:-1]) / 2, np.diff(points), cell_widths(points)
    speed = gradient_drift(middle, p) + ito_drift(middle, p, form) - diffusion_slope(middle, p) / 2
    spread = diffusion(middle, p) / 2
    up, down = (np.maximum(np.maximum(spread / gaps + way * speed / 2, way * speed), 0.0) for way in (1, -1))
    return up / widths[:-1], down / widths[1:]


def transition(
    up: Float[np.ndarray, " face"], down: Float[np.ndarray, " face"], duration: float
) -> tuple[Float[np.ndarray, "cell cell"], int]:
    """A matrix, and how often to apply it: probability to be in a cell (row) after `duration`, from each (column).

    The last doublings are left to the caller, who applies the matrix several times.

    >>> matrix, repeats = transition(np.array([1.0]), np.array([1.0]), 50.0)
    >>> np.linalg.matrix_power(matrix, repeats).round(6).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    leave = np.concatenate([up, [0.0]]) + np.concatenate([[0.0], down])
    identity, fastest = np.eye(len(leave)), float(leave.max())
    if fastest * duration == 0:
        return identity, 1
    doublings = max(math.ceil(math.log2(fastest * duration)), 0)
    step = duration / 2**doublings
    stay, above, below = (fastest - leave)[:, None] * step, up[:, None] * step, down[:, None] * step
    total = identity
    for term in range(_TERMS, 0, -1):  # Horner's rule; the chain's matrix has three bands, none of them negative
        moved = stay * total
        moved[1:] += above * total[:-1]
        moved[:-1] += below * total[1:]
        total = identity + moved / term
    left = min(doublings, _LEFT)
    for _ in range(doublings - left):
        total = _swept(total)
        total = total @ (total / total.sum(axis=0))
    total = _swept(total)
    return np.asarray(total / total.sum(axis=0)), 2**left


def _swept(values: np.ndarray) -> np.ndarray:
    """Without entries so small that their products are no normal numbers, which are slow to multiply."""
    return np.where(values < _NOTHING, 0.0, values)


def density_path(
    times: Float[np.ndarray, " time"],
    points: Float[np.ndarray, " amplitude"],
    density: Float[np.ndarray, " amplitude"],
    *,
    p: Parameters,
    form: str,
) -> Float[np.ndarray, "time amplitude"]:
    """Follow a density from time 0 to each of the times; no probability leaves the grid.

    >>> p = {"depth": 2, "singular_value": 1.0, "temperature": 0.01, "label_noise": 0.3}
    >>> points = np.linspace(0.0, 1.5, 51)
    >>> path = density_path(np.array([0.0, 2.0]), points, point_mass(points, 0.1), p=p, form="derived")
    >>> np.trapezoid(path, points).round(12).tolist()
    [1.0, 1.0]
    """
    widths = cell_widths(points)
    mass = density * widths
    up, down = rates(points, p, form)
    path, now, gap = [], 0.0, np.nan
    for time in times:
        if not np.isclose(time - now, gap, rtol=1e-12, atol=0):  # equal steps share one matrix
            gap = float(time - now)
            matrix, repeats = transition(up, down, gap)
        for _ in range(repeats):
            mass = matrix @ _swept(mass)
        now = float(time)
        path.append(mass / widths)
    return np.stack(path)


def point_mass(points: Float[np.ndarray, " amplitude"], place: float) -> Float[np.ndarray, " amplitude"]:
    """A unit mass at `place`, shared between its two neighbours so that the mean is right.

    >>> point_mass(np.array([0.0, 1.0, 2.0]), 0.25).tolist()
    [1.5, 0.25, 0.0]
    """
    right = int(np.clip(np.searchsorted(points, place), 1, len(points) - 1))
    share = (place - points[right - 1]) / (points[right] - points[right - 1])
    mass = np.zeros_like(points)
    mass[right - 1], mass[right] = 1 - share, share
    return np.asarray(mass / cell_widths(points))
