"""Clouds of class means, one point per network or simulated trial: how they spread, part and collapse."""

from itertools import combinations

import numpy as np
from jaxtyping import Float

from dynascope.measure.collapse import etf_distance
from dynascope.measure.hyperplanes import separable
from dynascope.models.elastic.path_fit import Drift, solve

_MOMENTS = 51  # at which separability is decided


def noise_covariance(
    times: Float[np.ndarray, " time"],
    paths: Float[np.ndarray, "trial time class feature"],
    elasticity: Float[np.ndarray, "interval class class"],
    drift: Drift,
) -> Float[np.ndarray, "state state"]:
    """Covariance per time of the noise that carries trials away from where the drift alone would take them.

    V(L) = covariance over trials of flow(X(t)) − flow(X(t+L)), both to t + L/2, forwards and backwards, = jitter + C·L
    up to (growth)²: C is the slope of V between a twelfth and a sixth of the path. Jitter, by which single batches
    throw class means about, does not add up and drops out. A single trial is compared with its own drift alone.

    >>> from dynascope.models.elastic.path_fit import drifts
    >>> paths = np.random.default_rng(0).standard_normal((200, 400, 2, 1)).cumsum(axis=1)
    >>> paths += np.random.default_rng(1).standard_normal(paths.shape)  # jitter
    >>> still = np.zeros((399, 2, 2))
    >>> np.abs(noise_covariance(np.arange(400.0), paths, still, drifts("isotropic", 2, 1)[0])).round(0).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    covariances, spans = [], []
    for lag in (max(1, len(times) // 12), max(2, len(times) // 6)):
        found, lengths = [], []
        for first in range(0, len(times) - lag, lag):
            middle, last = first + lag // 2, first + lag
            ahead = solve(times[first : middle + 1], paths[:, first], elasticity[first:middle], drift)[:, -1]
            back = solve(times[middle : last + 1][::-1], paths[:, last], elasticity[middle:last][::-1], drift)[:, -1]
            missed = (ahead - back).reshape(len(paths), -1)
            if len(paths) > 1:
                missed = (missed - missed.mean(axis=0)) * np.sqrt(len(paths) / (len(paths) - 1))
            found.append(missed)
            lengths.append(times[last] - times[first])
        covariances.append(np.mean([each.T @ each / len(each) for each in found], axis=0))
        spans.append(np.mean(lengths))
    return np.asarray((covariances[1] - covariances[0]) / (spans[1] - spans[0]))


def separability(clouds: Float[np.ndarray, "trial time class feature"]) -> Float[np.ndarray, " time"]:
    """Share of pairs of classes whose class means over trials are linearly separable, at about 50 of the times.

    NaN at the other times, and everywhere for a single trial.

    >>> clouds = np.arange(12.0).reshape(3, 1, 2, 2) % 4
    >>> separability(clouds).tolist()
    [1.0]
    """
    result = np.full(clouds.shape[1], np.nan)
    if len(clouds) > 1:
        pairs = list(combinations(range(clouds.shape[2]), 2))
        for at in np.unique(np.linspace(0, clouds.shape[1] - 1, _MOMENTS).round().astype(int)):
            result[at] = np.mean([separable(clouds[:, at, k], clouds[:, at, m]) for k, m in pairs])
    return result


def collapse(path: Float[np.ndarray, "time class feature"]) -> Float[np.ndarray, " time"]:
    """Distance of the directions of class means from a simplex (`etf_distance`); NaN where one has no direction.

    >>> collapse(np.stack([np.zeros((3, 3)), np.eye(3)])).round(3).tolist()
    [nan, 0.5]
    """
    known = (np.linalg.norm(path, axis=-1) > 0).all(axis=-1) & np.isfinite(path).all(axis=(-1, -2))
    result = np.full(len(path), np.nan)
    if known.any():
        result[known] = etf_distance(path[known])
    return result
