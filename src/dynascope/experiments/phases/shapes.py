"""The shape of load curves: how they bend, how straight they are, and whether the straightest are best."""

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Judgement, above, below
from dynascope.measure.separation import curvature, straightness
from dynascope.statistics.errors import over_trials
from dynascope.statistics.ranks import rank_correlation

REGRET = 0.005  # of test accuracy: less than the smallest difference, 0.0059, that Figure S4 reads something into
ALIKE = 0.5  # rank correlation of accuracy and straightness


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
    """Judge that no setting is more accurate, by `REGRET`, than that with the straightest load curves.

    What the best of all others has ahead, with its error over trials, must lie below: noise does not help.

    accuracy: over (setting, trial); load: over (setting, trial, layer)

    >>> line, arc = xr.DataArray([2.0, 1.0, 0.0], dims="layer"), xr.DataArray([2.0, 1.8, 0.0], dims="layer")
    >>> accuracy = xr.DataArray([[0.8, 0.9, 0.8], [0.5, 0.6, 0.5]], dims=("setting", "trial"))
    >>> load = xr.concat([line, arc], "setting").expand_dims(trial=3, axis=1)
    >>> best_where_straight(accuracy, load).verdict
    'reproduced'
    """
    reached = accuracy.values.astype(float)
    cells, straightest = reached.mean(axis=-1), int(straight(load).values.mean(axis=-1).argmax())
    rival = int(np.where(np.arange(len(cells)) == straightest, -np.inf, cells).argmax())
    note = f"test accuracy at the straightest, {straightest + 1} of {len(cells)}: {cells[straightest]:.4f}; "
    note += f"the best of all others, {rival + 1}, has so much more"
    return below(over_trials(reached[rival] - reached[straightest]), REGRET, note=note)


def accurate_as_straight(accuracy: xr.DataArray, load: xr.DataArray) -> Judgement:
    """Judge that test accuracy and straightness rank settings alike: a correlation above `ALIKE`, less its error.

    accuracy: over (setting, trial); load: over (setting, trial, layer)

    >>> curves = [[2.0, 1.0 + bent, 0.0] for bent in (0.0, 0.4, 0.8)]
    >>> load = xr.DataArray(curves, dims=("setting", "layer")).expand_dims(trial=3, axis=1)
    >>> accuracy = xr.DataArray([[0.9] * 3, [0.8] * 3, [0.7] * 3], dims=("setting", "trial"))
    >>> accurate_as_straight(accuracy, load).verdict, accurate_as_straight(-accuracy, load).verdict
    ('reproduced', 'not reproduced')
    """
    found = rank_correlation(accuracy.values, straight(load).values)
    return above(found, ALIKE, note="rank correlation of accuracy and R² over settings")
