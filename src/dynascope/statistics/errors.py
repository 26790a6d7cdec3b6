"""Mean and standard error over repetitions: the one place where they are computed."""

from typing import NamedTuple

import numpy as np
import xarray as xr


class Estimate(NamedTuple):
    """A mean and its standard error."""

    mean: np.ndarray
    error: np.ndarray


def over_trials(values: xr.DataArray | np.ndarray, axis: int = -1) -> Estimate:
    """Mean over trials and its standard error, std / √n with n − 1 in the variance.

    values: a DataArray is reduced over its dimension "trial", where NaN stays NaN, and the other dimensions keep their
        order; any other array over `axis`. One trial has an error of NaN.

    >>> estimate = over_trials(np.array([[1.0, 3.0], [2.0, 2.0]]))
    >>> estimate.mean.tolist(), estimate.error.tolist()
    ([2.0, 2.0], [1.0, 0.0])
    >>> over_trials(xr.DataArray([[1.0], [3.0]], dims=("trial", "mode"))).error.tolist()
    [1.0]
    """
    if isinstance(values, xr.DataArray):
        mean, spread = values.mean("trial", skipna=False), values.std("trial", ddof=1, skipna=False)
        return Estimate(mean.values, (spread / np.sqrt(values.sizes["trial"])).values)
    values = np.asarray(values)
    error = values.std(axis=axis, ddof=1) / np.sqrt(values.shape[axis])
    return Estimate(np.asarray(values.mean(axis=axis)), np.asarray(error))
