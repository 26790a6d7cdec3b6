"""Mean and standard error over repetitions: the one place where they are computed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error, which is itself known from so many runs only.

    Unpacks into mean and error. `runs` is the number of independent runs behind the error, infinite where the error is
    not estimated from their spread; what is chosen or scaled keeps it.

    >>> mean, error = Estimate(np.array([1.0, 2.0]), np.array([0.1, 0.2]), runs=5)[1]
    >>> float(mean), float(error), Estimate(1.0, 0.1, runs=5).scaled(-2.0)
    (2.0, 0.2, Estimate(mean=-2.0, error=0.2, runs=5))
    """

    mean: Any  # an array, or a number
    error: Any
    runs: float = math.inf

    def __iter__(self) -> Iterator[Any]:
        return iter((self.mean, self.error))

    def __getitem__(self, chosen: Any) -> "Estimate":
        return Estimate(self.mean[chosen], self.error[chosen], self.runs)

    def against(self, other: "Estimate") -> "Estimate":
        """Keep the mean, and take the error of the difference from what was measured independently.

        Runs are those of the smaller sample, which errs on the safe side.

        >>> Estimate(1.0, 0.3, runs=5).against(Estimate(0.2, 0.4, runs=9))
        Estimate(mean=1.0, error=np.float64(0.5), runs=5)
        """
        return Estimate(self.mean, np.hypot(self.error, other.error), min(self.runs, other.runs))

    def scaled(self, factor: Any) -> "Estimate":
        """Multiply by a number that is known exactly, or an array of such.

        >>> Estimate(1.0, 0.1).scaled(3.0).mean
        3.0
        """
        return Estimate(self.mean * factor, self.error * abs(factor), self.runs)


def over_trials(values: xr.DataArray | np.ndarray, axis: int = -1) -> Estimate:
    """Mean over trials and its standard error, std / √n with n − 1 in the variance.

    values: a DataArray is reduced over its dimension "trial", where NaN stays NaN, and the other dimensions keep their
        order; any other array over `axis`. One trial has an error of NaN, none a mean of NaN, too.

    >>> estimate = over_trials(np.array([[1.0, 3.0], [2.0, 2.0]]))
    >>> estimate.mean.tolist(), estimate.error.tolist()
    ([2.0, 2.0], [1.0, 0.0])
    >>> over_trials(xr.DataArray([[1.0], [3.0]], dims=("trial", "mode"))).error.tolist()
    [1.0]
    """
    if isinstance(values, xr.DataArray):
        values, axis = values.transpose(..., "trial").values, -1
    trials = np.moveaxis(np.asarray(values), axis, -1)
    runs = trials.shape[-1]
    unknown = np.full(trials.shape[:-1], np.nan)  # NumPy warns where there are too few to say
    mean = trials.mean(axis=-1) if runs else unknown
    error = trials.std(axis=-1, ddof=1) / np.sqrt(runs) if runs > 1 else unknown
    return Estimate(np.asarray(mean), np.asarray(error), runs)


def side_by_side(*parts: Estimate) -> Estimate:
    """Estimates as the cases of one, whose runs are the fewest of theirs.

    >>> side_by_side(Estimate(1.0, 0.1, 5), Estimate(2.0, 0.2, 5)).mean.tolist()
    [1.0, 2.0]
    """
    mean, error = (np.concatenate([np.ravel(each) for each in each_part]) for each_part in zip(*parts, strict=True))
    return Estimate(mean, error, min(part.runs for part in parts))
