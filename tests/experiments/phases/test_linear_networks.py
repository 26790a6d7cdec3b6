"""Deep linear networks from orthogonal weights: gradient flow solved exactly, and claims that can fail."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.stats import ortho_group

from dynascope.experiments.phases import linear_networks
from dynascope.experiments.phases.linear_networks import balanced_load
from dynascope.experiments.registry import find
from dynascope.measure import data_separation
from dynascope.measure.separation import curvature, straightness
from dynascope.networks import Ensemble, mlp_variants
from dynascope.networks.mlp_variants import OrthogonalMLP
from dynascope.networks.settings import initial_state

WIDTH, DEPTH, RATE, TIME = 32, 3, 0.004, 1.0
X = ortho_group.rvs(WIDTH, random_state=1)
Y = np.arange(WIDTH) % 2
NAME = "phases/linear_networks"


def _ensemble(rate):
    """Copy 0 in full batches; the ensemble's loss is the mean over samples and outputs, the flow's a sum."""
    network = OrthogonalMLP(WIDTH, 2, width=WIDTH, depth=DEPTH)
    batch = {"batch_size": WIDTH, "sampling": "shuffled"}
    return Ensemble(network, trials=1, learning_rate=rate * WIDTH * 2, loss="mse", precision="float64", **batch)


def _trained_loads(rate):
    path = _ensemble(rate).train(
        X, Y, round(TIME / rate), record_every=[round(TIME / rate)], measures="load", progress=False
    )
    return path["load"].values[0, -1]


def _flow():
    """Weights at TIME under dW_ℓ/dt = −∂(½ |W_{L+1} ⋯ W_1 X − Y|²)/∂W_ℓ, from copy 0's start."""
    ensemble = _ensemble(RATE)
    start = [w[0].numpy() for w in initial_state(ensemble.network, ensemble.settings)[0].values()]
    shapes = [w.shape for w in start]
    ends = np.cumsum([w.size for w in start])
    targets = np.eye(2)[:, Y]

    def unpack(flat):
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]

    def velocity(_, flat):
        weights, seen = unpack(flat), [X.T]
        for weight in weights:
            seen.append(weight @ seen[-1])
        back, found = seen[-1] - targets, []
        for weight, before in zip(weights[::-1], seen[-2::-1], strict=True):
            found.append(-back @ before.T)
            back = weight.T @ back
        return np.concatenate([each.ravel() for each in found[::-1]])

    flat = np.concatenate([w.ravel() for w in start])
    return unpack(solve_ivp(velocity, (0, TIME), flat, method="DOP853", rtol=1e-9, atol=1e-10).y[:, -1])


@pytest.fixture(scope="module")
def flow():
    features = [X]
    for weight in (weights := _flow())[:-1]:
        features.append(features[-1] @ weight.T)
    return weights, features, np.array([float(data_separation(each, Y)) for each in features])


def test_gradient_flow_stays_balanced_and_its_load_curve_is_straight(flow):
    weights, features, loads = flow
    for before, after in pairwise(weights[:DEPTH]):
        np.testing.assert_allclose(after.T @ after, before @ before.T, atol=1e-6)  # starts are orthogonal in float32
    np.testing.assert_allclose(loads, balanced_load(features[1], Y, DEPTH), atol=1e-6)
    assert straightness(loads) > 0.9999
    assert abs(curvature(loads)) < 0.01 * (loads[0] - loads[-1]) / DEPTH
    assert loads[0] - loads[-1] > 0.5  # something was learned


def test_small_steps_come_to_the_flow_in_proportion(flow):
    """Gradient descent is Euler's method for the flow: half the step, half the distance."""
    loads = flow[2]
    far, near = (np.abs(_trained_loads(rate) - loads).max() for rate in (RATE, RATE / 2))
    assert near < 0.01
    assert far / near == pytest.approx(2.0, rel=0.15)


@given(depth=st.integers(1, 5), seed=st.integers(0, 1000))
def test_one_layer_of_balanced_weights_tells_the_others(depth, seed):
    random = np.random.default_rng(seed)
    turns = [ortho_group.rvs(8, random_state=random) for _ in range(depth + 1)]
    stretch, y = np.diag(random.uniform(0.5, 2, 8)), random.permutation([0, 0, 0, 1, 1, 1, 1, 1])
    features = [ortho_group.rvs(8, random_state=random)]
    for before, after in pairwise(turns):
        features.append(features[-1] @ (after @ stretch @ before.T).T)
    expected = [float(data_separation(each, y)) for each in features]
    np.testing.assert_allclose(balanced_load(features[1], y, depth), expected, atol=1e-8)


def _record(**changes):
    experiment = find(NAME)
    return experiment.record(dataclasses.replace(experiment.settings("smoke"), **changes))


def test_settings_without_the_effect_are_caught(failed):
    record = _record(learning_rate=(0.001, 0.001), dropout=0.0, epochs=40)
    assert {"fig-5a-step", "fig-5a-dropout", "fig-5a-entropy-dropout"} <= failed(NAME, record)


def test_steps_that_are_not_small_are_caught(failed):
    assert "fig-5a-straight" in failed(NAME, _record(learning_rate=(0.03, 0.03), epochs=40))


class Gaussian(OrthogonalMLP):
    """Starts that are not balanced."""

    def reset_parameters(self):
        for weight in self.parameters():
            torch.nn.init.normal_(weight, std=weight.shape[1] ** -0.5)


def test_other_starts_are_caught(monkeypatch, failed):
    monkeypatch.setattr(mlp_variants, "OrthogonalMLP", Gaussian)
    assert {"fig-5a-straight", "fig-5a-balance", "fig-5a-entropy-straight"} <= failed(NAME, _record(epochs=40))


def test_a_wrong_law_of_balance_is_caught(monkeypatch, failed):
    monkeypatch.setattr(linear_networks, "balanced_load", lambda *given: 0.95 * balanced_load(*given))
    assert "fig-5a-balance" in failed(NAME, _record(epochs=60))
