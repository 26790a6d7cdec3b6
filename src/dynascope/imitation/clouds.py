"""Clouds of class means, one point per network or simulated trial: how they spread, part and collapse."""

from itertools import combinations

import numpy as np
from jaxtyping import Float

from dynascope.measure.collapse import etf_distance
from dynascope.measure.hyperplanes import separable

_MOMENTS = 51  # at which separability is decided


def noise_covariance(
    times: Float[np.ndarray, " time"], apart: Float[np.ndarray, "trial time class feature"]
) -> Float[np.ndarray, "state state"]:
    """Covariance per time of the noise that carries trials away from their mean, `apart`.

    V(L) = covariance of what a trial moves apart within a time L = jitter + C·L: C is the slope of V between a quarter
    and a half of the path. Jitter, by which single batches throw class means about, does not add up and drops out.

    >>> apart = np.random.default_rng(0).standard_normal((200, 400, 2, 1)).cumsum(axis=1)
    >>> apart += np.random.default_rng(1).standard_normal(apart.shape)  # jitter
    >>> np.abs(noise_covariance(np.arange(400.0), apart)).round(0).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    flat = apart.reshape(*apart.shape[:2], -1)
    freedom = max(len(flat) - 1, 1) / len(flat)
    covariances, spans = [], []
    for lag in (len(times) // 4, len(times) // 2):
        moved = flat[:, lag:] - flat[:, :-lag]
        covariances.append(np.einsum("nti,ntj->ij", moved, moved) / (moved.shape[0] * moved.shape[1] * freedom))
        spans.append(np.mean(times[lag:] - times[:-lag]))
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
