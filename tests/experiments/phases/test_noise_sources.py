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
        ("label_share", (1, slice(None), 0), -1.0, {"input-smaller"}),  # at the start, with the most of both noises
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


def test_both_layers_gradients_are_those_of_the_cross_entropy():
    random = np.random.default_rng(0)
    x, hidden, last = random.normal(size=(2, 4, 3)), random.normal(size=(3, 5)), random.normal(size=(5, 2))
    targets = np.eye(2)[random.integers(2, size=(2, 4))]

    def loss(hidden, last):
        outputs = np.tanh(x @ hidden) @ last
        return -(targets * (outputs - np.log(np.exp(outputs).sum(axis=-1, keepdims=True)))).sum(axis=-1).mean(axis=1)

    for number, found in enumerate(noise_sources.class_gradients(x, targets, hidden, last)):
        for place in np.ndindex(found.shape[1:]):
            ends = []
            for sign in (1, -1):
                moved = [hidden.copy(), last.copy()]
                moved[number][place] += sign * 1e-5
                ends.append(loss(*moved))
            assert found[(slice(None), *place)] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


def test_inputs_as_noisy_as_labels_are_caught(monkeypatch, failed):
    """Noise of ten times the deviation on the inputs moves a step more than reset labels do."""
    true = noise_sources.class_gradients

    def noisier(x, targets, *weights):
        return true(x + 10 * (x - x.mean(axis=0)) if len(x) > 1 else x, targets, *weights)

    monkeypatch.setattr(noise_sources, "class_gradients", noisier)
    monkeypatch.setattr(noise_sources, "_spread", lambda config, *rest: np.linspace(0.9, 1.1, config.groups))
    experiment = find(NAME)
    assert "s7-input-smaller" in failed(NAME, experiment.record(experiment.settings("smoke")))
