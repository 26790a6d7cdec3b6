"""Networks as the source reads them: class means of samples as they are drawn, one by each network at an update.

X̄ at an update is the mean over networks of the logits before it, by the label that is trained on: some 33 of 100
networks draw a class, and their chance is in all that is read. X̄(0), by which all is divided, is one such update in
the source; here each of the first `STARTS` stands for it in turn.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int

from dynascope.experiments.elastic.network_training import last_iterations
from dynascope.imitation.drawn import drawn_means, filled, shuffled
from dynascope.models.elastic.estimate import integrated_strengths
from dynascope.statistics.derivative import local_derivative
from dynascope.statistics.resampling import bootstrap_weights

STARTS = 50
METHODS = {"L-model as printed": "published", "L-model as coded": "code"}
_RESAMPLES = 100


def first_updates(labels: Int[np.ndarray, "trial update"], classes: int) -> Int[np.ndarray, " start"]:
    """The first updates at which each class is drawn by some network: they stand for X̄(0) in turn."""
    drawn = (labels[:, :, None] == np.arange(classes)).any(axis=0).all(axis=-1)
    return np.flatnonzero(drawn[: len(drawn) // 2])[:STARTS]


def last_updates(updates: int) -> Int[np.ndarray, " late"]:
    """The last 1000 of so many updates, over which the source averages; of a short run, its last third.

    >>> last_updates(10_000)[[0, -1]].tolist()
    [8999, 9999]
    """
    return np.flatnonzero(last_iterations(np.arange(updates)))


def from_starts(
    means: Float[np.ndarray, "*lead update class logit"], starts: int, geometry: str, method: str
) -> Float[np.ndarray, "*lead 3 start late"]:
    """A, B and A − B of all but the first `starts` updates, with each of these as X̄(0)."""
    common = known_mean(means[..., :starts, :, :], axis=-3)[..., None, :, :]  # whatever it is, it drops out
    curves = integrated_strengths(np.concatenate([common, means], axis=-3), geometry, method=method)[..., 1:]
    return np.asarray(curves[..., None, starts:] - curves[..., :starts, None])


def known_mean(values: np.ndarray, axis: int | tuple[int, ...] = -1) -> np.ndarray:
    """Mean of what is finite; NaN where nothing is.

    >>> known_mean(np.array([1.0, np.nan, 3.0])).tolist()
    2.0
    """
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=axis) / known.sum(axis=axis))


def right(
    logits: Float[np.ndarray, "trial update logit"], labels: Int[np.ndarray, "trial update"]
) -> Bool[np.ndarray, "trial update"]:
    """Whether the largest logit is that of the label."""
    return np.asarray(logits.argmax(axis=-1) == labels)


def read_drawn(
    logits: Float[np.ndarray, "trial update logit"], labels: Int[np.ndarray, "trial update"], window: int, seed: int
) -> xr.Dataset:
    """What the claims on one training ask of the drawn samples.

    inter_below: share of the last 1000 updates with B < 0, L-model, by X̄(0); inter_below_shuffled: without labels
    drawn_rise, with its error: α − β of the I-model where it peaks, less the first window's, less the last one's
    drawn_intra_rise: the same of α
    drawn_accuracy: share of the last 1000 samples that each network has right before it is trained on them
    """
    starts, late = first_updates(labels, logits.shape[2]), last_updates(logits.shape[1])
    chosen = np.concatenate([starts, late])
    shares = {}
    for name, own in (("", labels[:, chosen]), ("_shuffled", shuffled(labels[:, chosen], seed))):
        means = drawn_means(logits[:, chosen], own)
        inter = np.stack([from_starts(means, len(starts), "logits", each)[1] for each in METHODS.values()])
        below = known_mean(np.where(np.isfinite(inter), inter < 0, np.nan))
        shares[f"inter_below{name}"] = (("as_read", "start"), below)
    rises: dict[str, Any] = {}
    for name, row in (("", 2), ("_intra", 0)):
        rise, error, rises[f"drawn{name}_peak"] = _rise(logits, labels, window, row)
        rises |= {f"drawn{name}_rise": ("since", rise), f"drawn{name}_rise_error": ("since", error)}
    return xr.Dataset(
        {
            **shares,
            **rises,
            "drawn_accuracy": ("trial", right(logits[:, late], labels[:, late]).mean(axis=1)),
        },
        coords={"as_read": list(METHODS), "since": ["first window", "last window"]},
    )


def _rise(
    logits: Float[np.ndarray, "trial update logit"], labels: Int[np.ndarray, "trial update"], window: int, row: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rise and fall of a strength, their errors by bootstrap, and the update of the peak.

    row: 0 for α, 1 for β, 2 for α − β.
    The peak is found in one half of the networks and measured in the other, so that no chance helps it.
    """
    half, last = len(logits) // 2, logits.shape[1] - 1
    curve = integrated_strengths(filled(drawn_means(logits[:half], labels[:half])), "isotropic", method="code")[row]
    inside = slice(window // 2, last + 1 - window // 2)
    peak = window // 2 + int(np.argmax(local_derivative(np.arange(last + 1.0), curve, window)[inside]))
    offsets = np.arange(window) - window // 2
    chosen = (np.array([window // 2, peak, last - window // 2])[:, None] + offsets).ravel()
    other = len(logits) - half
    weights = np.concatenate([np.full((1, other), 1 / other), bootstrap_weights(other, _RESAMPLES, 0)])
    means = filled(drawn_means(logits[half:, chosen], labels[half:, chosen], weights))
    curves = integrated_strengths(means, "isotropic", method="code")[..., row, :].reshape(len(weights), 3, window)
    first, top, end = (curves @ offsets / (offsets @ offsets)).T
    found = np.stack([top - first, top - end])  # (since, resample)
    return found[:, 0], np.nanstd(found[:, 1:], axis=1, ddof=1), peak
