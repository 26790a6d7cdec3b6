"""Claims on feature measures fail when the measure, or the network, is not what it says."""

import dataclasses

import numpy as np
import pytest

from dynascope.experiments import registry
from dynascope.experiments.features import definitions, heaviside
from dynascope.measure import spectrum


def _failed(experiment, record):
    return {claim.id for claim in experiment.check(record) if claim.verdict == "not reproduced"}


def _times_samples(right):
    return lambda train, test: (right(train, test)[0] * 1.05, right(train, test)[1])


def _squared(right):
    def shares(xp, frame, kept, functions):
        return right(xp, frame, kept, functions) ** 2

    return shares


WRONG = {
    # what is spoilt, how, and the claim that must notice
    "intensity": (definitions, "eigenfunctions", _times_samples, "alg-1-intensity"),
    "utilization": (spectrum, "_shares", _squared, "eq-2.5-utilization"),
    "collapse": (
        definitions,
        "neural_collapse",
        lambda right: lambda x, labels: right(x * (1 + 0.01 * np.eye(*x.shape)), labels),
        "prop-2.5-collapse",
    ),
    "kappa": (
        definitions,
        "minimum_feature_distance",
        lambda right: lambda x, y: right(x[:, :3], y),
        "eq-2.9-minimal",
    ),
    "pinv": (
        definitions,
        "data_separation",
        lambda right: lambda x, labels, kind: right(x, labels, kind="trace"),
        "s4-linear-layers",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_measure_is_caught(case, monkeypatch):
    module, name, spoil, claim = WRONG[case]
    monkeypatch.setattr(module, name, spoil(getattr(module, name)))
    config = dataclasses.replace(registry.find("features/definitions").config("smoke"), draws=30)
    assert claim in _failed(definitions.EXPERIMENT, definitions.run(config))


def test_a_network_that_does_not_train_is_caught():
    config = heaviside.Config(width=100, networks=2, batch_size=10, steps=20, learning_rate=1e-6, initial_networks=3)
    failed = _failed(heaviside.EXPERIMENT, heaviside.run(config))
    assert {"table-2.1-trained-quality", "fig-2.2-single-feature"} <= failed


def test_another_initial_law_is_caught(monkeypatch):
    """Without biases a network of one input has two features only."""
    right = heaviside.initial_weights
    unbiased = lambda key, width: [(w, b * 0) for w, b in right(key, width)]  # noqa: E731
    monkeypatch.setattr(heaviside, "initial_weights", unbiased)
    config = heaviside.Config(width=100, networks=2, batch_size=10, steps=20, learning_rate=1e-6, initial_networks=6)
    assert "table-2.1-initial-quality" in _failed(heaviside.EXPERIMENT, heaviside.run(config))
