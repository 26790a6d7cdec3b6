"""The two stages through which class means pass: they find their directions, then they grow."""

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import ArrayLike
from dynascope.statistics.resampling import bootstrap_weights, class_paths, interval, too_few

_FINAL = 10  # the last tenth of a path gives its final directions
_TURNED = 0.1  # radians: what turns less has its directions from the beginning
_GROWN = 2.0  # times its length that a pattern must reach to count as amplified
_SETTLED = 0.25  # largest ratio of the mean angles after and before; a steady turn has a third


def learning_stages(times: ArrayLike, class_means: ArrayLike, *, resamples: int = 200, seed: int = 0) -> xr.Dataset:
    """Find the time at which class means stop turning and only grow: de-randomization ends, amplification begins.

    Of each trial the pattern M(t) = class means less their common mean is one vector, θ(t) its angle to its own
    final direction (mean over the last tenth of the times). The stages are parted by the time τ at which two constant
    levels fit the mean angle over trials best, Σ (θ − θ̄ before)² + Σ (θ − θ̄ after)² weighted with the time that each
    point stands for. For a pattern that grows exponentially that is about when it comes to dominate (θ = 45°).

    times: (time,). class_means: (time, class, feature) or (trial, time, class, feature). Angles are taken trial by
    trial, because random starts average out over trials. Time is whatever `times` counts.

    Returns angle (time,) in radians and length (time,), means over trials of θ and |M|; amplification_time = τ, with
    _low and _high (95 %, bootstrap over trials) if there is a trial axis; ok and the attribute reason. τ is NaN and ok
    False where class means hardly turn, turn to the end (the level after is over a quarter of that before) or do not
    grow after τ; ok is False, too, with fewer than 5 trials, which give no interval. A path must end well within the
    second stage: what is still to turn cannot be seen.
    Source: elastic Section D.3; it tells the stages apart by eye.

    >>> times = np.linspace(0.0, 10.0, 101)
    >>> grown = np.exp(times - 4.0)[:, None, None] * np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> found = learning_stages(times, grown + np.array([[0.0, 1.0], [0.0, -1.0]]))
    >>> bool(found["ok"]), round(float(found["amplification_time"]))
    (True, 4)
    """
    times, means, several = class_paths(times, class_means)
    pattern = (means - means.mean(axis=2, keepdims=True)).reshape((*means.shape[:2], -1))
    length = np.linalg.norm(pattern, axis=-1)  # (trial, time)
    angle = _angles(pattern, length)
    shares, moments = np.gradient(times), (times[1:] + times[:-1]) / 2
    split = int(_split(angle.mean(axis=0)[None], shares)[0])
    refused, few = _unparted(angle.mean(axis=0), length.mean(axis=0), shares, split), too_few(len(means))
    found = {"amplification_time": moments[split - 1]}
    if several and few:
        found |= dict.fromkeys(("amplification_time_low", "amplification_time_high"), np.nan)
    elif several:
        drawn = _split(bootstrap_weights(len(means), resamples, seed) @ angle, shares)
        ends = interval(moments[split - 1], moments[drawn - 1], len(means))
        found |= {"amplification_time_low": ends[0], "amplification_time_high": ends[1]}
    reason = "; ".join(filter(None, [refused, few if several else ""]))
    return xr.Dataset(
        {
            "angle": ("time", angle.mean(axis=0), {"units": "radians"}),
            "length": ("time", length.mean(axis=0)),
            **{name: np.nan if refused else float(value) for name, value in found.items()},
            "ok": not reason,
        },
        coords={"time": times},
        attrs={"reason": reason},
    )


def _unparted(angle: np.ndarray, length: np.ndarray, shares: np.ndarray, split: int) -> str:
    """Why the two stretches are not the two stages, or nothing."""
    before = np.average(angle[:split], weights=shares[:split])
    after = np.average(angle[split:], weights=shares[split:])
    if before < _TURNED:
        return f"the class means hardly turn, by {before:.2g} radians: they have their directions from the beginning"
    if after > _SETTLED * before:
        return f"the class means keep turning: their mean angle only falls from {before:.2g} to {after:.2g} radians"
    if length[-1] <= _GROWN * length[split]:
        return "the class means do not grow to twice their length after they have found their directions"
    return ""


def _angles(pattern: np.ndarray, length: np.ndarray) -> Float[np.ndarray, "trial time"]:
    """Angle of each pattern (trial, time, component) to its direction in the last tenth; 90° for one that vanishes."""
    last = max(1, pattern.shape[1] // _FINAL)
    final = pattern[:, -last:].mean(axis=1)
    along = np.einsum("itc,ic->it", pattern, final)
    scale = length * np.linalg.norm(final, axis=-1)[:, None]
    cosine = np.divide(along, scale, out=np.zeros_like(along), where=scale > 0)
    return np.asarray(np.arccos(np.clip(cosine, -1.0, 1.0)))


def _split(angles: Float[np.ndarray, "row time"], shares: Float[np.ndarray, " time"]) -> np.ndarray:
    """First point of the second of two constant levels that fit each row best: the most variance between levels."""
    weight, total = np.cumsum(shares)[:-1], np.cumsum(angles * shares, axis=-1)
    first, second = total[:, :-1] / weight, (total[:, -1:] - total[:, :-1]) / (shares.sum() - weight)
    between = weight * (shares.sum() - weight) * np.where(first > second, (first - second) ** 2, 0.0)
    return np.asarray(1 + np.argmax(between, axis=-1))
