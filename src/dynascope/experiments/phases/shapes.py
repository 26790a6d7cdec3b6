"""The shape of load curves: how they bend, how straight they are, and whether the straightest are best."""

import xarray as xr

from dynascope.experiments.claims import Judgement, equal
from dynascope.measure.separation import curvature, straightness
from dynascope.statistics.errors import Estimate, over_trials


def bend(load: xr.DataArray) -> xr.DataArray:
    """Curvature of each of many curves.

    >>> bend(xr.DataArray([[3.0, 3.0, 2.0, 0.0]], dims=("trial", "layer"))).dims
    ('trial',)
    """
    found: xr.DataArray = xr.apply_ufunc(curvature, load, input_core_dims=[["layer"]])
    return found


def straight(load: xr.DataArray) -> xr.DataArray:
    """Straightness of each of many curves.

    >>> float(straight(xr.DataArray([3.0, 2.0, 1.0], dims="layer")))
    1.0
    """
    found: xr.DataArray = xr.apply_ufunc(straightness, load, input_core_dims=[["layer"]])
    return found


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
    return equal(Estimate(cells[straightest], lost.error, lost.runs), cells[best], rival=cells[worst], note=note)
