"""Sources of noise against the learning rate: runs bear the claims out, spoilt ones do not."""

import numpy as np
import pytest

from dynascope.experiments.phases import noise_sources
from dynascope.experiments.registry import find

NAME = "phases/noise_sources"


def test_runs_bear_every_claim_out(smoke, failed):
    assert not failed(NAME, smoke(NAME)[0])


@pytest.mark.parametrize(
    ("quantity", "cells", "factor", "claims"),
    [
        ("spread", (0, 1), 2.0, {"batch-kept"}),  # the learning rate alone counts
        ("spread", (1, 1), 2.0, {"dropout-kept"}),
        ("spread", (0, 2), 0.5, {"batch-doubled"}),  # the learning rate does not count
        ("spread", (1, 2), 0.5, {"dropout-doubled"}),
        ("drift", (slice(None),), 0.9, {"label-drift"}),
        ("variance", (slice(None),), 0.9, {"label-variance", "label-others"}),
        ("other_variance", (slice(None),), 0.9, {"label-others"}),
        ("largest", (slice(None),), 100.0, {"label-single"}),
    ],
)
def test_each_claim_can_fail(quantity, cells, factor, claims, smoke, failed):
    record = smoke(NAME)[0]
    record[quantity][cells] *= factor
    assert failed(NAME, record) == {f"s7-{claim}" for claim in claims}


def test_noise_that_batches_do_not_average_is_caught(monkeypatch, failed):
    """One sample, taken as often as the batch is large."""
    batch = noise_sources._batch

    def alike(random, runs, width, x, y, *, size):
        seen, targets, mask = batch(random, runs, width, x, y, size=1)
        return np.repeat(seen, size, axis=1), np.repeat(targets, size, axis=1), mask

    monkeypatch.setattr(noise_sources, "_batch", alike)
    experiment = find(NAME)
    assert "s7-batch-kept" in failed(NAME, experiment.record(experiment.settings("smoke")))


LABELS = {"s7-label-drift", "s7-label-variance", "s7-label-others"}


def test_steps_of_labels_follow_the_gradient_of_the_cross_entropy():
    random = np.random.default_rng(0)
    weights, x, labels = random.normal(size=(3, 2, 4)), random.normal(size=2), np.array([0, 3, 0])

    def loss(each):
        outputs = x @ each
        return np.sum(np.log(np.exp(outputs).sum(axis=-1)) - outputs[np.arange(3), labels])

    found = noise_sources.label_gradient(weights, x, labels)
    for place in np.ndindex(weights.shape):
        moved = np.zeros_like(weights)
        moved[place] = 1e-5
        assert found[place] == pytest.approx((loss(weights + moved) - loss(weights - moved)) / 2e-5, abs=1e-8)


def _failed_with(monkeypatch, failed, gradient):
    """Claims on labels that fail if networks descend along another gradient."""
    true = noise_sources.label_gradient
    monkeypatch.setattr(noise_sources, "label_gradient", lambda *given: gradient(true, *given))
    monkeypatch.setattr(noise_sources, "_spread", lambda config, *rest: np.linspace(0.9, 1.1, config.groups))
    experiment = find(NAME)
    return failed(NAME, experiment.record(experiment.settings("smoke"))) & LABELS


def test_labels_bear_the_claims_out_with_their_gradient(monkeypatch, failed):
    assert not _failed_with(monkeypatch, failed, lambda true, *given: true(*given))


def test_a_gradient_without_the_softmax_is_caught(monkeypatch, failed):
    """Every step towards the label is as long: t₁ holds nothing back."""

    def steady(true, weights, x, labels):
        return true(0 * weights, x, labels)

    assert _failed_with(monkeypatch, failed, steady) == {"s7-label-drift"}


def test_labels_that_are_reset_half_as_often_are_caught(monkeypatch, failed):
    random = np.random.default_rng(1)

    def half(true, weights, x, labels):
        return true(weights, x, np.where(random.random(len(labels)) < 0.5, labels, 0))

    assert _failed_with(monkeypatch, failed, half) == LABELS
