"""Labels and inputs are spoiled by exactly as much as asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.data import corrupt_labels, imbalance, noisy_inputs, subsample

SIZES = st.lists(st.integers(1, 60), min_size=2, max_size=6)


@given(SIZES, st.floats(0, 1), st.integers(0, 99))
def test_flip_moves_the_share_evenly_to_other_classes(sizes, share, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    spoiled = corrupt_labels(labels, share, seed=seed)
    for own, size in enumerate(sizes):
        counts = np.bincount(spoiled[labels == own], minlength=len(sizes))
        moved = np.delete(counts, own)
        assert moved.sum() == int(share * size)
        assert moved.max() - moved.min() <= 1


@given(SIZES, st.floats(0, 1))
def test_reset_touches_at_most_the_share(sizes, share):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    spoiled = corrupt_labels(labels, share, method="reset")
    assert np.sum(spoiled != labels) <= int(share * len(labels))


def test_reset_is_uniform_over_all_classes():
    labels = np.repeat([0, 1, 2], 10_000)
    spoiled = corrupt_labels(labels, 1.0, method="reset")
    error = np.sqrt(1 / 3 * 2 / 3 / 10_000)
    for own in range(3):
        assert np.abs(np.bincount(spoiled[labels == own]) / 10_000 - 1 / 3).max() < 4 * error


def test_input_noise_has_the_size_asked_for():
    x = np.random.default_rng(0).normal(3.0, 2.0, (100, 100))
    difference = noisy_inputs(x, 0.3, seed=1) - x
    assert difference.std() == pytest.approx(0.6, rel=4 / np.sqrt(2e4) + 0.02)
    assert noisy_inputs(x, 0.3).dtype == np.float32


@given(SIZES.map(lambda sizes: [size + 3 for size in sizes]), st.integers(0, 99))
def test_subsample_draws_each_class_without_repeats(sizes, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    chosen = subsample(labels, 3, seed=seed)
    assert np.bincount(labels[chosen]).tolist() == [3] * len(sizes)
    assert np.all(np.diff(chosen) > 0)


@given(st.floats(0.01, 1), st.integers(2, 6))
def test_imbalance_falls_geometrically(ratio, classes):
    labels = np.repeat(np.arange(classes), 1000)
    sizes = np.bincount(labels[imbalance(labels, ratio)])
    assert sizes[0] == 1000
    assert np.abs(sizes - 1000 * ratio ** (np.arange(classes) / (classes - 1))).max() <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: corrupt_labels([0, 1], 1.5), "share must be at most 1, got 1.5"),
        (lambda: corrupt_labels([0, 1], -0.1), "share"),
        (lambda: corrupt_labels([0, 1], 0.1, method="swap"), "method must be one of flip, reset"),
        (lambda: corrupt_labels([0, 0], 0.1), "at least 2 classes, got 1"),
        (lambda: corrupt_labels([0, -1], 0.1), "labels from 0 to 0, got -1"),
        (lambda: corrupt_labels([0, 2], 0.1), "no sample of class 1"),
        (lambda: corrupt_labels([0.5, 1], 0.1), "whole numbers"),
        (lambda: subsample([0, 0, 1], 2), "at most 1, the samples of class 1"),
        (lambda: subsample([0, 0, 1], [1, 1, 1]), "one number or 2"),
        (lambda: imbalance([0, 1], 0.0), "ratio must be above 0"),
        (lambda: noisy_inputs([np.nan], 0.1), "inputs must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
