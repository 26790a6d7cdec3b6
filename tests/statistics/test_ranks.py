"""Rank correlation of means: what it is, what error it has, and where it says nothing."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from dynascope.statistics.ranks import rank_correlation


def test_it_is_spearmans_correlation_of_the_means():
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 3, 12, 5))
    found = rank_correlation(first, second)
    expected = [spearmanr(*each).statistic for each in zip(first.mean(-1), second.mean(-1), strict=True)]
    np.testing.assert_allclose(found.mean, expected, atol=1e-12)
    assert found.runs == 5
    assert found.error.shape == (3,)


def test_what_is_known_exactly_needs_one_trial():
    values = np.arange(6.0)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(6, 4))
    assert float(rank_correlation(values, np.arange(6.0)[::-1, None]).mean) == -1


def test_its_error_is_the_spread_over_repetitions():
    """Of 300 repetitions of an experiment with 10 trials in 12 settings."""
    random, signal = np.random.default_rng(1), np.linspace(0, 1, 12)[:, None]
    found = [rank_correlation(signal + random.normal(size=(12, 10)), signal) for _ in range(300)]
    means, errors = (np.array([getattr(each, name) for each in found]) for name in ("mean", "error"))
    assert np.median(errors) == pytest.approx(means.std(), rel=0.25)


def test_without_order_there_is_no_correlation():
    assert np.isnan(rank_correlation(np.ones((5, 4)), np.arange(5.0)[:, None]).mean)
    tied = rank_correlation(np.repeat([[1.0], [1.0], [0.0]], 7, axis=1) / 3, [[3.0], [2.0], [1.0]])
    assert float(tied.mean) == pytest.approx(np.sqrt(3) / 2)
    assert float(tied.error) < 1e-12  # rounding breaks no ties
