"""Shares of separated trials: what chance alone reaches, how uncertain they are, and whether they follow the law."""

from math import comb

import numpy as np
import xarray as xr

from dynascope.checks import ArrayLike
from dynascope.experiments.claims import Judgement, equal
from dynascope.experiments.experiment import settings
from dynascope.statistics.errors import Estimate


def chance(record: xr.Dataset) -> float:
    """Probability 2 n!²/(2n)! that two classes of n samples which are alike lie on two sides."""
    samples = settings(record).samples
    return 2 / comb(2 * samples, samples)


def rare(record: xr.Dataset) -> float:
    """What a share of 0 or 1, which has no error of its own, may miss."""
    return 3 / int(settings(record).trials)


def share_error(probability: ArrayLike, record: xr.Dataset) -> np.ndarray:
    """Standard error of a share of the record's trials."""
    expected = np.asarray(probability, float)
    return np.asarray(np.sqrt(expected * (1 - expected) / settings(record).trials))


def follows_law(record: xr.Dataset, note: str) -> Judgement:
    """Judge simulated shares by the law wherever that is neither 0 nor 1."""
    law, share = record["predicted"].values, record["separated"].values
    uncertain = (law > 0.02) & (law < 0.98)
    law = law[uncertain]
    return equal(Estimate(share[uncertain], share_error(law, record)), law, rare(record), note=note)
