"""Intervals over trials keep their promise for few trials, too."""

import numpy as np
import pytest

from dynascope.statistics.resampling import bootstrap_weights, estimated, interval, resampled


@pytest.mark.parametrize("trials", [5, pytest.param(8, marks=pytest.mark.ci), pytest.param(40, marks=pytest.mark.ci)])
def test_intervals_of_a_mean_cover(trials):
    """95 % within three standard errors of 1500 draws, but for the granularity of five trials."""
    covered = 0
    for seed in range(1500):
        values = np.random.default_rng(seed).normal(size=trials)
        low, high = interval(values.mean(), bootstrap_weights(trials, 200, seed) @ values, trials)
        covered += bool(low <= 0 <= high)
    assert abs(covered / 1500 - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 1500) + 0.01


SIDES = ("both", "upper", "lower")


def test_blocks_change_nothing():
    means, weights = np.random.default_rng(0).normal(size=(6, 7, 2, 3)), bootstrap_weights(6, 30, 1)
    whole = resampled(weights, means, lambda drawn: drawn.max(axis=(-1, -2)))
    one_by_one = resampled(weights, means, lambda drawn: drawn.max(axis=(-1, -2)), held=10**9)
    np.testing.assert_allclose(whole, one_by_one)
    np.testing.assert_allclose(whole[3], np.tensordot(weights[3], means, 1).max(axis=(-1, -2)))


def test_bad_resampling():
    with pytest.raises(ValueError, match="resamples must be a whole number of at least 20"):
        bootstrap_weights(5, 10, 0)
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0"):
        bootstrap_weights(5, 20, -1)


def test_the_error_of_a_statistic_of_means_is_its_spread_over_repetitions():
    """Of 300 repetitions with 12 trials: of the larger of two means, and of a mean, whose error is known."""
    random = np.random.default_rng(2)
    values = random.normal(size=(300, 2, 12))
    found = [estimated(lambda means: means.max(axis=-1), each) for each in values]
    assert np.median([each.error for each in found]) == pytest.approx(values.mean(axis=-1).max(axis=-1).std(), rel=0.25)
    known = [estimated(lambda means: means[..., 0], each).error for each in values]
    np.testing.assert_allclose(np.mean(known), values[:, 0].std(axis=-1, ddof=1).mean() / np.sqrt(12), rtol=0.03)


def test_the_error_on_one_side_is_that_of_both_where_nothing_jumps_and_no_more_than_the_jump_where_something_does():
    random = np.random.default_rng(3)
    mean = random.normal(size=(1, 200))
    both, upper, lower = (estimated(lambda means: means[..., 0], mean, side=each).error for each in SIDES)
    np.testing.assert_allclose([upper, lower], both, rtol=0.1)
    tied = 0.1 * random.normal(size=(2, 200))  # either of two may be the largest; the statistic is 1 or 2
    found = [estimated(lambda means: 1.0 + means.argmax(axis=-1), tied, side=each) for each in SIDES]
    assert 3 * found[0].error > 0.9
    ends = sorted([float(found[0].mean - 3 * found[2].error), float(found[0].mean + 3 * found[1].error)])
    np.testing.assert_allclose(ends, [1.0, 2.0], atol=0.01)
    with pytest.raises(ValueError, match="side must be one of both, upper, lower, got 'left'"):
        estimated(lambda means: means[..., 0], mean, side="left")
