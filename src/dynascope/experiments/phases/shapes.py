"""The shape of load curves: how they bend and how straight they are, and what many runs know about it."""

import numpy as np
from jaxtyping import Float

from dynascope.experiments.claims import Claim, three_errors


def curvature(load: Float[np.ndarray, "*lead layer"]) -> Float[np.ndarray, "*lead"]:
    """Growth of the work d_ℓ = D_{ℓ−1} − D_ℓ from layer to layer, by least squares: above 0 a curve is concave.

    >>> float(curvature(np.array([3.0, 3.0, 2.0, 0.0])))
    1.0
    """
    work = -np.diff(load, axis=-1)
    places = np.arange(work.shape[-1]) - (work.shape[-1] - 1) / 2
    return np.asarray(work @ places / (places @ places))


def straightness(load: Float[np.ndarray, "*lead layer"]) -> Float[np.ndarray, "*lead"]:
    """R² of a straight line through each load curve, as in FIG. S5.

    >>> float(straightness(np.array([3.0, 2.0, 1.0])))
    1.0
    """
    places = np.arange(load.shape[-1]) - (load.shape[-1] - 1) / 2
    centred = load - load.mean(axis=-1, keepdims=True)
    return np.asarray((centred @ places) ** 2 / (places @ places) / (centred**2).sum(axis=-1))


def mean_error(values: Float[np.ndarray, "*lead run"]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over runs, the last axis.

    >>> [float(each) for each in mean_error(np.array([1.0, 3.0]))]
    [2.0, 1.0]
    """
    error = values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    return np.asarray(values.mean(axis=-1)), np.asarray(error)


def best_where_straight(
    claim: Claim, accuracy: Float[np.ndarray, "setting run"], straight: Float[np.ndarray, "setting run"]
) -> Claim:
    """Judge that accuracy where load curves are straightest is the best, with the worst as its rival.

    >>> claim = Claim("s5", "S5", "straight is best")
    >>> best_where_straight(claim, np.array([[0.8, 0.9], [0.5, 0.6]]), np.array([[1.0, 1.0], [0.9, 0.9]])).verdict
    'reproduced'
    """
    cells = accuracy.mean(axis=-1)
    best, worst, straightest = int(cells.argmax()), int(cells.argmin()), int(straight.mean(axis=-1).argmax())
    _, error = mean_error(accuracy[best] - accuracy[straightest])
    note = f"column {straightest + 1} of {len(cells)} is the straightest, column {best + 1} the most accurate"
    return claim.equals(
        cells[straightest], cells[best], three_errors(error), rival=cells[worst], standard_error=error, note=note
    )
