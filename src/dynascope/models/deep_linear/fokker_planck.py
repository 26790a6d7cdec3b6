"""The Fokker–Planck equation (5.1) of one mode, conserved and non-negative to rounding.

Finite volumes around the points of a grid, with the fluxes of Chang and Cooper, make a Markov chain: rates to the
neighbours that are never negative, columns that sum to 0. Its transition matrix over a time step is found by Taylor
series and repeated squaring of matrices without a negative entry, so nothing can become negative, and columns are kept
at sum 1. Time is exact; the error is that of the grid, of second order in its spacing.
"""

import math

import numpy as np
from jaxtyping import Float

from dynascope.models.deep_linear.mode_equations import (
    Parameters,
    diffusion,
    diffusion_slope,
    gradient_drift,
    ito_drift,
)

_TERMS = 20  # of a Taylor series at norm 1: 1/20! is below rounding


def cell_widths(points: Float[np.ndarray, " amplitude"]) -> Float[np.ndarray, " amplitude"]:
    """Widths of the cells: the weights of the trapezoidal rule.

    >>> cell_widths(np.array([0.0, 1.0, 3.0])).tolist()
    [0.5, 1.5, 1.0]
    """
    gaps = np.diff(points)
    return np.concatenate([gaps[:1], gaps[:-1] + gaps[1:], gaps[-1:]]) / 2


def _bernoulli(x: np.ndarray) -> np.ndarray:
    """x/(exp(x) − 1), 1 at 0."""
    small = np.abs(x) < 1e-5
    safe = np.where(small, 1.0, np.clip(x, -700, 700))
    return np.where(small, 1 - x / 2, np.where(x < -700, -x, safe / np.expm1(safe)))


def rates(
    points: Float[np.ndarray, " amplitude"], p: Parameters, form: str
) -> tuple[Float[np.ndarray, " face"], Float[np.ndarray, " face"]]:
    """Rates at which probability moves from each cell to the next, and back.

    The flux J = (μ − D'/2) p − D p'/2 through a face is upwinded by its Péclet number; where D vanishes it is all
    upwind.

    >>> up, down = rates(np.array([0.4, 0.5, 0.6]), {"depth": 2, "singular_value": 1.0, "temperature": 0.0,
    ...                  "label_noise": 0.0}, "derived")
    >>> bool((up > 0).all() and (down == 0).all())
    True
    """
    middle, gaps, widths = (points[1:] + points[:-1]) / 2, np.diff(points), cell_widths(points)
    speed = gradient_drift(middle, p) + ito_drift(middle, p, form) - diffusion_slope(middle, p) / 2
    spread = diffusion(middle, p) / 2
    mixes = spread > np.abs(speed) * gaps * 1e-300
    peclet = speed * gaps / np.where(mixes, spread, 1.0)
    up = np.where(mixes, spread / gaps * _bernoulli(-peclet), np.maximum(speed, 0))
    down = np.where(mixes, spread / gaps * _bernoulli(peclet), np.maximum(-speed, 0))
    return up / widths[:-1], down / widths[1:]


def transition(
    up: Float[np.ndarray, " face"], down: Float[np.ndarray, " face"], duration: float
) -> Float[np.ndarray, "cell cell"]:
    """Probability to be in a cell (row) after `duration`, from each cell (column).

    >>> transition(np.array([1.0]), np.array([1.0]), 50.0).round(6).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    leave = np.concatenate([up, [0.0]]) + np.concatenate([[0.0], down])
    fastest = float(leave.max())
    if fastest * duration == 0:
        return np.eye(len(leave))
    halvings = max(math.ceil(math.log2(fastest * duration)), 0)
    step = duration / 2**halvings
    jump = (np.diag(up, -1) + np.diag(down, 1) + np.diag(fastest - leave)) * step  # no entry is negative
    total = np.eye(len(leave))
    for term in range(_TERMS, 0, -1):
        total = np.eye(len(leave)) + jump @ total / term
    total /= total.sum(axis=0)
    for _ in range(halvings):
        total = total @ total
        total /= total.sum(axis=0)
    return total


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
    path, now, moves = [], 0.0, {}
    for time in times:
        gap = round(float(time - now), 12)  # equal steps share one matrix
        if gap not in moves:
            moves[gap] = transition(up, down, gap)
        mass, now = moves[gap] @ mass, float(time)
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
