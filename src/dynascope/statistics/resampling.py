"""Paths of class means with or without trials: checks, resampling and intervals that all estimators share."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr
from scipy.stats import t as student

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, Given, as_float, count, increasing, one_of
from dynascope.statistics.errors import Estimate

CONFIDENCE = 0.95
_RESAMPLES, _FOR_TAILS = 400, 10_000
FEWEST_TRIALS = 5  # fewer say next to nothing about their own spread
_BLOCK = 2**23  # numbers held at once while trials are resampled


def class_paths(times: ArrayLike, class_means: ArrayLike) -> tuple[np.ndarray, np.ndarray, bool]:
    """Checked times (time,), means (trial, time, class, feature), and whether trials were given.

    >>> grid, means, several = class_paths(range(5), np.ones((5, 2, 3)))
    >>> means.shape, several
    ((1, 5, 2, 3), False)
    """
    means = as_float("class_means", class_means)
    if means.ndim not in (3, 4) or means.size == 0:
        raise ValueError(
            f"class_means must be (time, class, feature), with trials in front or not, got shape {means.shape}"
        )
    grid = as_float("times", times)
    if grid.ndim != 1 or len(grid) != means.shape[-3] or len(grid) < 5:
        raise ValueError(
            f"times must list the {means.shape[-3]} times of class_means, at least 5, got shape {grid.shape}"
        )
    if means.shape[-2] < 2:
        raise ValueError(f"class_means must hold at least 2 classes, got {means.shape[-2]}")
    return increasing("times", grid), means.reshape((-1, *means.shape[-3:])), means.ndim == 4


def too_few(trials: int) -> str:
    """Why there are no intervals, or nothing.

    >>> too_few(3)
    '3 trials are too few for intervals: give at least 5'
    """
    return (
        "" if trials >= FEWEST_TRIALS else f"{trials} trials are too few for intervals: give at least {FEWEST_TRIALS}"
    )


def bootstrap_weights(trials: int, resamples: Given[int], seed: Given[int]) -> Float[np.ndarray, "resample trial"]:
    """Shares of the trials in samples drawn with replacement.

    >>> bootstrap_weights(4, 20, 0).sum(axis=1).tolist() == [1.0] * 20
    True
    """
    random = np.random.default_rng(count("seed", seed, at_least=0))
    draws = count("resamples", resamples, at_least=20)
    require_room({"resamples": draws, "trials": trials}, draws * trials)
    return np.asarray(random.multinomial(trials, np.full(trials, 1 / trials), size=draws) / trials)


def estimated(
    statistic: Callable[..., np.ndarray], *values: Float[np.ndarray, "*setting trial"], side: str = "both"
) -> Estimate:
    """A statistic of means over trials, with the error that trials drawn anew give it, the same for all values.

    statistic: takes as many arrays (…, *setting) as there are values, and reduces over the settings
    side: "both", or "upper" or "lower" for what jumps where trials make another setting the best: a third of the way to
        where all but one of 740 draws lie, as far as three errors of what has none of that

    >>> estimated(lambda means: means.max(axis=-1), np.array([[1.0, 1.2, 0.8], [0.1, 0.2, 0.3]])).mean.round(3)
    np.float64(1.0)
    """
    runs, found = values[0].shape[-1], statistic(*(each.mean(axis=-1) for each in values))
    weights = bootstrap_weights(runs, _RESAMPLES if side == "both" else _FOR_TAILS, 0)
    drawn = np.nan_to_num(
        statistic(*(np.moveaxis(each @ weights.T, -1, 0) for each in values))
    )  # 0 where there is none
    if one_of("side", side, ["both", "upper", "lower"]) == "both":
        spread = drawn.std(axis=0)
    else:
        spread = np.abs(np.quantile(drawn, ndtr(3.0 if side == "upper" else -3.0), axis=0) - found) / 3
    return Estimate(found, spread * np.sqrt(runs / max(runs - 1, 1)), runs)


def resampled(
    weights: Float[np.ndarray, "resample trial"],
    means: Float[np.ndarray, "trial time class feature"],
    reduce: Callable[[np.ndarray], np.ndarray],
    *,
    held: int = 1,
) -> np.ndarray:
    """`reduce` applied to the average path of every resample: (resample, …).

    It is done in blocks that fit into memory, if `reduce` holds `held` numbers at once for each number of a path.

    >>> means = np.ones((4, 5, 2, 3))
    >>> resampled(bootstrap_weights(4, 20, 0), means, lambda drawn: drawn.sum(axis=(-1, -2))).shape
    (20, 5)
    """

    def blocks() -> Iterator[np.ndarray]:
        size = max(1, _BLOCK // (held * means[0].size))
        for begin in range(0, len(weights), size):
            yield reduce(np.tensordot(weights[begin : begin + size], means, axes=1))

    return np.concatenate(list(blocks()))


def interval(
    estimate: ArrayLike, drawn: Float[np.ndarray, "..."], trials: int
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """95 % interval from bootstrap draws: percentiles about the estimate, stretched for the number of trials.

    The spread of n trials falls short by √((n−1)/n), and its own error calls for Student's quantile instead of the
    normal one: both ends move outwards by √(n/(n−1)) t(n−1)/1.96. NaN where a draw is not known.

    >>> low, high = interval(0.0, np.random.default_rng(0).normal(size=10_000), trials=1000)
    >>> float(low.round(1)), float(high.round(1))
    (-2.0, 2.0)
    """
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    stretch = np.sqrt(trials / (trials - 1)) * student.ppf(1 - tail, trials - 1) / student.ppf(1 - tail, np.inf)
    centre = np.asarray(estimate)
    return np.asarray(centre + stretch * (low - centre)), np.asarray(centre + stretch * (high - centre))
