"""How far an imitation is from networks that it was not fitted to, and the published procedure for comparison."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dynascope.checks import one_of
from dynascope.models.elastic.difference import relative_difference
from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.models.elastic.geometry import geometry_blocks
from dynascope.models.elastic.path_fit import Drift, drifts, follow, power_law, solve

NORMS = ("H", "plain")
BASELINES = ("persistence", "isotropic", "trend")
_PUBLISHED_WINDOW, _PUBLISHED_TRIALS = 21, 500
_ALIGNED = 1000  # last iterations over which the source aligns its simulation


def differences(genuine: Float[np.ndarray, "..."], imitated: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Relative differences (D.21) along the margin directions ("H") and in all directions ("plain").

    Both are (…, time, class, feature) and broadcast; the result is (norm, …, time, class).
    Features that are fewer than classes have no margin directions: NaN.

    >>> differences(np.ones((1, 2, 2)), np.ones((1, 2, 2))).tolist()
    [[[0.0, 0.0]], [[0.0, 0.0]]]
    """
    genuine, imitated = np.broadcast_arrays(genuine, imitated)
    plain = relative_difference(genuine, imitated, "isotropic")
    if genuine.shape[-1] < genuine.shape[-2]:
        return np.stack([np.full_like(plain, np.nan), plain])
    return np.stack([relative_difference(genuine, imitated, "logits"), plain])


def halves(trials: int, splits: int, seed: int) -> Float[np.ndarray, "fit 2 trial"]:
    """Weights that average one half of the trials, and the other: `splits` random splits, each used both ways.

    >>> halves(4, 3, seed=0).shape, halves(4, 3, seed=0).sum(axis=(1, 2)).tolist()
    ((6, 2, 4), [2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    """
    random = np.random.default_rng([seed, 7])
    found = []
    for _ in range(splits):
        first = np.isin(np.arange(trials), random.permutation(trials)[: trials // 2])
        pair = np.stack([first / first.sum(), ~first / (~first).sum()])
        found += [pair, pair[::-1]]
    return np.stack(found)


def chosen_fit(
    times: np.ndarray, means: Float[np.ndarray, "*lead time class feature"], model: str, *, horizon: int
) -> tuple[Drift, np.ndarray, np.ndarray]:
    """The drift, elasticities (…, interval, class, class) and path that follow the means best.

    Where a model has a number beside its strengths (the weight of "mixture") every lead takes its own best; the drift
    returned is that of the first lead.

    >>> times, means = np.linspace(0.0, 1.0, 30), np.exp(np.linspace(0.0, 1.0, 30))[:, None, None] * np.eye(3)
    >>> chosen_fit(times, means, "logits", horizon=1)[1].shape
    (29, 3, 3)
    """
    candidates = drifts(model, *means.shape[-2:])
    fits = [follow(times, means, each, horizon=horizon) for each in candidates]
    missed = np.stack([((path - means) ** 2).sum(axis=(-1, -2, -3)) for _, path in fits])  # (candidate, …)
    best = np.argmin(np.where(np.isfinite(missed), missed, np.inf), axis=0)
    elasticity = np.stack([each.elasticity(fit[0]) for each, fit in zip(candidates, fits, strict=True)])
    path = np.stack([fit[1] for fit in fits])
    place = best[None, ..., None, None, None]
    chosen = [np.take_along_axis(values, place, axis=0)[0] for values in (elasticity, path)]
    return candidates[int(best.ravel()[0])], chosen[0], chosen[1]


def forecast(
    times: np.ndarray, means: Float[np.ndarray, "time class feature"], model: str, *, first: int, last: int
) -> tuple[Float[np.ndarray, "late class feature"], np.ndarray, float]:
    """The path from times[last] on, with power-law strengths fitted to times[first … last]; scales and index.

    >>> times = np.linspace(0.0, 10.0, 40)
    >>> means = np.log1p(times)[:, None, None] * (np.eye(3) - 1 / 3)
    >>> forecast(times, means, "softmax", first=10, last=20)[0].shape
    (20, 3, 3)
    """
    fitted = [
        (drift, *power_law(times[first : last + 1], means[first : last + 1], drift))
        for drift in drifts(model, *means.shape[-2:])
    ]
    paths, found = [], []
    ahead, behind = times[last:], times[first : last + 1]
    for drift, scales, index in fitted:
        law = [drift.elasticity(_at_middle(grid)[:, None] ** -index * scales) for grid in (behind, ahead)]
        again = solve(behind, means[first], law[0], drift)
        paths.append(solve(ahead, means[last], law[1], drift))
        found.append(((again - means[first : last + 1]) ** 2).sum())
    best = int(np.argmin(found))
    return paths[best], fitted[best][1], fitted[best][2]


def _at_middle(times: np.ndarray) -> np.ndarray:
    """1 + t in the middle of each interval."""
    return np.asarray(1 + (times[1:] + times[:-1]) / 2)


def trend(
    times: np.ndarray, means: Float[np.ndarray, "time class feature"], *, first: int, last: int
) -> Float[np.ndarray, "late class feature"]:
    """The straight line that fits times[first … last], moved to start where the means are then.

    >>> means = np.arange(10.0)[:, None, None] * np.ones((2, 2))
    >>> float(trend(np.arange(10.0), means, first=2, last=5)[-1, 0, 0].round(9))
    9.0
    """
    slope = np.polyfit(times[first : last + 1], means[first : last + 1].reshape(last + 1 - first, -1), 1)[0]
    return np.asarray(means[last] + (times[last:] - times[last])[:, None, None] * slope.reshape(means.shape[1:]))


def published_strengths(
    times: np.ndarray, means: Float[np.ndarray, "time class feature"], model: str
) -> Float[np.ndarray, "2 time"]:
    """α and β by (11) as the source computes them, differentiated over 21 points (its D.1).

    >>> times, means = np.arange(0.0, 400.0, 10.0), np.exp(np.linspace(0.0, 1.0, 40))[:, None, None] * np.eye(3)
    >>> published_strengths(times, means + 0.1 * np.arange(9.0).reshape(3, 3), "logits").shape
    (2, 40)
    """
    one_of("geometry", model, ["isotropic", "logits"])
    window = min(_PUBLISHED_WINDOW, len(times) - (len(times) + 1) % 2)
    found = estimate_strengths(times, means, model, method="code", window=window)
    return np.stack([found["intra"].values, found["inter"].values])


def published_paths(
    times: np.ndarray,
    means: Float[np.ndarray, "time class feature"],
    strengths: Float[np.ndarray, "2 time"],
    *,
    geometry: str = "logits",
    seeds: Sequence[int],
) -> tuple[Float[np.ndarray, "seed time class feature"], Float[np.ndarray, " seed"]]:
    """The source's own simulation (its Figure 5, D.2), kept for comparison: a path and its scalar for each seed.

    Forward Euler, one step per iteration; the average of 500 random starts N(0, |X̄_k(0)|²/K); then one scalar for all,
    so that logit 0 of class 0 meets the networks' on average over the times of the last 1000 iterations. The model is
    linear and starts have mean 0: the average that is scaled is what chance left over, and so is the scalar.

    >>> times, means = np.arange(0.0, 400.0, 10.0), np.exp(np.linspace(0.0, 1.0, 40))[:, None, None] * np.eye(3)
    >>> paths, scales = published_paths(times, means, np.full((2, 40), 0.01), seeds=[0, 1])
    >>> paths.shape, scales.shape
    ((2, 40, 3, 3), (2,))
    """
    classes = means.shape[1]
    steps = np.arange(times[0], times[-1] + 0.5)
    intra, inter = (np.interp(steps, times, each) for each in strengths)
    lengths = np.linalg.norm(means[0], axis=-1, keepdims=True) / np.sqrt(classes)
    shape = (_PUBLISHED_TRIALS, *means.shape[1:])
    state = (
        np.stack([np.random.default_rng([seed, 11]).standard_normal(shape).mean(axis=0) for seed in seeds]) * lengths
    )
    blocks = geometry_blocks(geometry, *means.shape[1:])[0]
    nearest = np.searchsorted(steps, times).clip(0, len(steps) - 1)
    wanted, kept = set(nearest.tolist()), {}
    for place in range(len(steps)):
        if place in wanted:
            kept[place] = state
        felt = np.einsum("lij,slj->sli", blocks, state)
        others = felt.sum(axis=1, keepdims=True) - felt
        state = state + (intra[place] * felt + inter[place] * others) / classes
    paths = np.stack([kept[place] for place in nearest.tolist()], axis=1)
    late = times >= times[-1] - _ALIGNED
    scales = means[late, 0, 0].mean() / paths[:, late, 0, 0].mean(axis=1)
    return paths * scales[:, None, None, None], scales
