"""The shape of load curves: how they bend, how straight they are, and whether the straightest are best."""

import numpy as np
import xarray as xr
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


def bend(load: xr.DataArray) -> xr.DataArray:
    """Curvature of each of many curves.

    >>> bend(xr.DataArray([[3.0, 3.0, 2.0, 0.0]], dims=("trial", "layer"))).dims
    ('trial',)
    """
    return xr.apply_ufunc(curvature, load, input_core_dims=[["layer"]])


def straight(load: xr.DataArray) -> xr.DataArray:
    """Straightness of each of many curves.

    >>> float(straight(xr.DataArray([3.0, 2.0, 1.0], dims="layer")))
    1.0
    """
    return xr.apply_ufunc(straightness, load, input_core_dims=[["layer"]])


def best_where_straight(accuracy: xr.DataArray, load: xr.DataArray) -> Judgement:
    """Judge that accuracy where load curves are straightest is the best, with the worst as its rival.

    accuracy: over (setting, trial); load: over (setting, trial, layer)

    >>> line, arc = xr.DataArray([2.0, 1.0, 0.0], dims="layer"), xr.DataArray([2.0, 1.8, 0.0], dims="layer")
    >>> accuracy = xr.DataArray([[0.8, 0.9], [0.5, 0.6]], dims=("setting", "trial"))
    >>> load = xr.concat([line, arc], "setting").expand_dims(trial=2, axis=1)
    >>> best_where_straight(accuracy, load).verdict
    'reproduced'
    """
    reached = accuracy.values.astype(float)
    cells = reached.mean(axis=-1)
    best, worst, straightest = cells.argmax(), cells.argmin(), straight(load).values.mean(axis=-1).argmax()
    lost = over_trials(reached[best] - reached[straightest])
    note = f"column {straightest + 1} of {len(cells)} is the straightest, column {best + 1} the most accurate"
    return equal(Estimate(cells[straightest], lost.error), cells[best], rival=cells[worst], note=note)
