"""The shape of load curves: how they bend, how straight they are, and whether the straightest are best."""

import numpy as np
from jaxtyping import Float

from dynascope.experiments.claims import Judgement, equal
from dynascope.statistics.errors import Estimate, over_trials


def curvature(load: Float[np.ndarray, "*lead layer"]) -> Float[np.ndarray, "*lead"]:
    """Growth of the work d_ℓ = D_{ℓ−1} − D_ℓ from layer to layer, by least squares: above 0 a curve is concave.

    >>> float(curvature(np.array([3.0, 3.0, 2.0, 0.0])))
    1.0
    """
    work = -np.diff(load, axis=-1)
    places = np.arange(work.shape[-1]) - (work.shape[-1] - 1) / 2
    return np.asarray(work @ places / (places @ places))


def straightness(load: Float[np.ndarray, "*lead layer"]) -> Float[np.ndarray, "*lead"]:
    """R² of a straight line through each load curve, as in Figure S5.

    >>> float(straightness(np.array([3.0, 2.0, 1.0])))
    1.0
    """
    places = np.arange(load.shape[-1]) - (load.shape[-1] - 1) / 2
    centred = load - load.mean(axis=-1, keepdims=True)
    return np.asarray((centred @ places) ** 2 / (places @ places) / (centred**2).sum(axis=-1))


def best_where_straight(
    accuracy: Float[np.ndarray, "setting run"], straight: Float[np.ndarray, "setting run"]
) -> Judgement:
    """Judge that accuracy where load curves are straightest is the best, with the worst as its rival.

    >>> best_where_straight(np.array([[0.8, 0.9], [0.5, 0.6]]), np.array([[1.0, 1.0], [0.9, 0.9]])).verdict
    'reproduced'
    """
    cells = accuracy.mean(axis=-1)
    best, worst, straightest = int(cells.argmax()), int(cells.argmin()), int(straight.mean(axis=-1).argmax())
    lost = over_trials(accuracy[best] - accuracy[straightest])
    note = f"column {straightest + 1} of {len(cells)} is the straightest, column {best + 1} the most accurate"
    return equal(Estimate(cells[straightest], lost.error), cells[best], rival=cells[worst], note=note)
