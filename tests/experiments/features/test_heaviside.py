"""Claims on the network that learns a step fail when it is not what it says."""

import pytest

from dynascope.experiments.features import heaviside
from dynascope.experiments.registry import find

UNTRAINED = heaviside.Config(
    width=100, networks=3, batch_size=10, steps=20, learning_rate=1e-6, initial_networks=6, samples=400
)


@pytest.fixture
def found(failed):
    """A function that runs networks that hardly train and gives the ids of the claims that they do not bear out."""
    experiment = find("features/heaviside")
    return lambda: failed(experiment.name, experiment.record(UNTRAINED))


def test_a_network_that_does_not_train_is_caught(found, monkeypatch):
    monkeypatch.setattr(heaviside, "steady_rate", lambda *a: 1e-6)
    assert {"table-2.1-trained-quality", "fig-2.2-single-feature", "fig-2.2-fewer"} <= found()


def test_networks_that_are_alike_are_caught(smoke, failed):
    record, _ = smoke("features/heaviside")
    alike = record["initial_utilization"].mean() + 0 * record["initial_utilization"]
    assert "table-2.1-spread" in failed("features/heaviside", record.assign(initial_utilization=alike))
    last = record["dimension_intensity_all"].mean("recipe").broadcast_like(record["dimension_intensity_all"])
    assert "table-2.1-recipe" in failed("features/heaviside", record.assign(dimension_intensity_all=last))


def test_another_initial_law_is_caught(found, monkeypatch):
    """Without biases a network of one input has two features only."""
    right = heaviside.initial_weights
    monkeypatch.setattr(heaviside, "initial_weights", lambda *a: [(w, b * 0) for w, b in right(*a)])
    assert "table-2.1-initial-quality" in found()
