"""What steering gains over networks that keep their value, by the bend with which they end: what `advise` expects."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import xarray as xr
from scipy.stats import t as student

from dynascope.experiments.experiment import settings
from dynascope.experiments.steering.arms import STEERED, hidden_layers
from dynascope.experiments.steering.mlps import unseen
from dynascope.records import attribute
from dynascope.steering.advice import Benchmark, Gain
from dynascope.steering.law import GAIN, Law

EDGES = (None, -0.9, -0.3, 0.4, 1.4, None)  # of the ranges of bends
FEWEST = 5  # networks of a row


def benchmark_of(record: xr.Dataset) -> Benchmark:
    """Read off the record of steering/mlps what `advise` is to expect.

    A network at a fixed value is compared with the one that steered itself from the same start. Only tasks count that
    the law was not tuned on, and networks whose bend means something.
    """
    own = settings(record)
    return Benchmark(
        experiment=attribute(record, "experiment"),
        scale=attribute(record, "scale"),
        commit=attribute(record, "commit"),
        knob=own.knob,
        gain=GAIN,
        target=Law().target,
        data=tuple(own.data),
        depths=tuple(map(hidden_layers, own.networks)),
        gains=tuple(_gains(record)),
    )


def _gains(record: xr.Dataset) -> Iterator[Gain]:
    beyond = record["accuracy"].sel(arm=STEERED) - record["fixed"]
    for wrong in record["wrong"].values:
        gains, bends = (
            each.sel(wrong=wrong).transpose("data", "network", "value", "trial").values[unseen(record)].ravel()
            for each in (beyond, record["fixed_bend"])
        )
        for above, below in pairwise(EDGES):
            inside = (bends >= (-np.inf if above is None else above)) & (bends < (np.inf if below is None else below))
            if inside.sum() >= FEWEST:
                yield _row(gains[inside], float(wrong), above, below)


def _row(gains: np.ndarray, wrong: float, above: float | None, below: float | None) -> Gain:
    mean, low, high = (round(float(each), 4) for each in (gains.mean(), *interval(gains)))
    return Gain(wrong, above, below, mean, low, high, len(gains))


def interval(values: np.ndarray) -> tuple[float, float]:
    """Find where one more value lies in 95 of 100 cases, by Student's t: mean ± t · deviation · √(1 + 1/n).

    >>> low, high = interval(np.array([0.0, 1.0, 2.0]))
    >>> round(high, 2), round(low + high, 2)
    (5.97, 2.0)
    """
    count = len(values)
    half = student.ppf(0.975, count - 1) * values.std(ddof=1) * np.sqrt(1 + 1 / count)
    return float(values.mean() - half), float(values.mean() + half)
