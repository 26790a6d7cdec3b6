"""A mean and its standard error: what repetitions of a run know."""

from typing import NamedTuple

import numpy as np
import xarray as xr


class Estimate(NamedTuple):
    """A mean and its standard error."""

    mean: np.ndarray
    error: np.ndarray


def over_trials(values: xr.DataArray | np.ndarray, axis: int = -1) -> Estimate:
    """Mean and standard error over repetitions; NaN where one of them has no value.

    values: over `trial`, if they have that dimension; else repetitions stand along `axis`.

    >>> [float(each) for each in over_trials(np.array([1.0, 3.0]))]
    [2.0, 1.0]
    >>> over_trials(xr.DataArray([[1.0], [3.0]], dims=("trial", "mode"))).mean.tolist()
    [2.0]
    """
    if isinstance(values, xr.DataArray):
        spread = values.std("trial", ddof=1, skipna=False) / np.sqrt(values.sizes["trial"])
        return Estimate(values.mean("trial", skipna=False).values, spread.values)
    error = np.std(values, axis=axis, ddof=1) / np.sqrt(np.shape(values)[axis])
    return Estimate(np.asarray(np.mean(values, axis=axis)), np.asarray(error))
