"""Whether two quantities rank settings alike, with an error over repetitions."""

import numpy as np
from scipy.stats import rankdata

from dynascope.checks import ArrayLike
from dynascope.statistics.errors import Estimate
from dynascope.statistics.resampling import estimated


def rank_correlation(first: ArrayLike, second: ArrayLike) -> Estimate:
    """Spearman's correlation over settings of two means over trials, with the error that trials drawn anew give it.

    first, second: (…, setting, trial); what is known exactly has one trial

    The same trials are drawn for both. NaN where one of the two is the same in all settings, whatever trials are drawn.

    >>> found = rank_correlation([[1.0, 1.2, 0.9], [2.0, 2.1, 2.2], [3.0, 3.3, 3.1]], [[9.0], [4.0], [1.0]])
    >>> float(found.mean), float(found.error), found.runs
    (-1.0, 0.0, 3)
    """
    return estimated(spearman, *np.broadcast_arrays(np.asarray(first, float), np.asarray(second, float)))


def spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Spearman's correlation over the last axis; in single precision, so that rounding breaks no ties.

    >>> float(spearman(np.array([1.0, 2.0, 4.0]), np.array([5.0, 9.0, 6.0])))
    0.5
    """
    ranks = (rankdata(each.astype(np.float32), axis=-1) for each in (first, second))
    one, other = (each - each.mean(axis=-1, keepdims=True) for each in ranks)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.vecdot(one, other) / np.sqrt(np.vecdot(one, one) * np.vecdot(other, other)))
