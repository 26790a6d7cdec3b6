"""Extended models: closed forms against gradient flow and regression, calibration with honest intervals."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope import Multilinear, estimate_emergence
from dynascope.models.multilinear.emergence import feature_rate
from dynascope.models.multilinear.extended import (
    minimum_norm_strength,
    partial_skill,
    sample_basis,
    sampled_skill,
    scaled_skill,
)
from dynascope.models.multilinear.toy_network import mode_rates, network_loss, train_toy_network


@given(st.floats(0.05, 1.0), st.floats(0.01, 0.5), st.floats(0.3, 4.0), st.floats(0.1, 0.9))
def test_scaled_features_are_learned_at_the_scale_not_its_square(scale, start, target, until):
    model = Multilinear(1, target=target, initial=start * target, learning_rate=0.5)
    steps = float(model.emergence_point("time", 1, (1 + start) / 2, calibration=scale)) * 2 * until
    root = np.sqrt(start * target / scale)
    flow = scaled_skill(scale, frequency=1.0, target=target).solve([0.0, steps], root, [root], learning_rate=0.5)
    found = model.emergence("time", 1, [0.0, steps], calibration=feature_rate(scale))
    np.testing.assert_allclose(flow["strength"], found, rtol=1e-8)


@pytest.mark.ci
@given(st.integers(1, 6), st.data())
def test_partial_bases_reach_their_share(nodes, draw):
    available = draw.draw(st.integers(1, nodes))
    start = 0.05 * np.array(draw.draw(st.lists(st.floats(0.1, 1.0), min_size=available, max_size=available)))
    run = partial_skill(available, nodes, frequency=0.4, target=2.0).solve([0.0, 150.0], 0.05, start)
    form = Multilinear(3, target=2.0).emergence("parameters", 1, available, calibration=float(nodes))
    np.testing.assert_allclose(run["strength"][-1], form, atol=1e-7)
    np.testing.assert_allclose(run["imbalance"][-1], run["imbalance"][0], atol=1e-9)


def test_gradient_flow_on_few_samples_finds_the_minimum_norm():
    seen = np.random.default_rng(2).standard_normal((4, 9))
    readout = np.full(9, 1 / 3)
    run = sampled_skill(seen, data=8, target=1.0).solve([0.0, 400.0], 1e-4, 1e-4 * np.ones(9), learning_rate=1.0)
    norm = np.linalg.pinv(seen) @ (seen @ readout)
    np.testing.assert_allclose(run["strength"][-1], norm @ readout, atol=2e-4)
    np.testing.assert_allclose(minimum_norm_strength(seen, readout), norm @ readout, rtol=1e-10)
    np.testing.assert_allclose(run["loss"][-1], 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", ["parities", "gaussian", "cells"])
def test_bases_have_the_properties_that_are_asked_of_them(kind):
    values, readout = sample_basis(kind, 6, 4000, trials=5, seed=1)
    flat = values.reshape(-1, 6)
    np.testing.assert_allclose(flat.T @ flat / len(flat), np.eye(6), atol=0.1)  # (5.4), first property
    assert np.linalg.norm(readout) == pytest.approx(1.0)
    if kind != "gaussian":
        np.testing.assert_allclose(abs(flat @ readout), 1.0)  # g is ±1


@given(st.floats(0.01, 1.0), st.integers(1, 200), st.floats(1.0, 60.0), st.booleans())
def test_data_emergence_averages_over_the_counts(chance, size, shots, published):
    from scipy.stats import binom  # noqa: PLC0415

    from dynascope.models.multilinear.emergence import over_data  # noqa: PLC0415

    counts = np.arange(size + 1)
    part = np.minimum(counts / shots, 1.0)
    curve = 1 - np.sqrt(1 - part) if published else part
    direct = binom.pmf(counts, size, chance) @ curve
    found = over_data(np.array([float(size)]), chance, shots, published=published)
    np.testing.assert_allclose(found, direct, atol=1e-12)


def test_one_shot_is_the_plain_model():
    model = Multilinear(20, initial=1e-12)
    sizes = np.array([1, 5, 50])
    for published in (False, True):
        shot = model.emergence("data", [1, 4], sizes, published=published)
        np.testing.assert_allclose(shot, model.strength([1, 4], data=sizes), atol=1e-9)


@given(
    st.sampled_from(["time", "data", "parameters"]), st.floats(0.05, 0.95), st.floats(1.0, 50.0), st.integers(1, 8),
    st.booleans(),
)  # fmt: skip
def test_passing_points_pass(kind, threshold, value, skill, published):
    model = Multilinear(8, 0.8, 2.0, 0.02)
    options = {"calibration": value, "published": published}
    at = model.emergence_point(kind, skill, threshold, **options)
    level = model.emergence(kind, skill, at, **options)
    if kind == "time":
        assert level == pytest.approx(2 * threshold, rel=1e-9)
        return
    assert level >= 2 * threshold - 1e-8
    if at > 1:
        assert model.emergence(kind, skill, at - 1, **options) < 2 * threshold


PLANTED = {
    "time": (1 / 22, np.linspace(0, 3000, 60)),
    "data": (40.0, np.arange(5, 100, 5)),
    "parameters": (4.0, np.arange(1, 12)),
}


@pytest.mark.ci
@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("trials", [1, 8])
def test_calibration_covers_the_planted_value(kind, trials):
    value, x = PLANTED[kind]
    model = Multilinear(1, target=5.0, learning_rate=0.02)
    truth = model.emergence(kind, 1, x, calibration=value)
    random, inside, runs = np.random.default_rng(7), 0, 60
    for _ in range(runs):
        noise = 0.2 * random.standard_normal((trials, len(x)))
        if trials > 1:  # noise that is shared along x, as between runs of a network
            noise += 0.2 * random.standard_normal((trials, 1))
        found = estimate_emergence(kind, x, (truth + noise)[0 if trials == 1 else slice(None)], model=model)
        assert bool(found["ok"])
        inside += float(found["low"]) <= value <= float(found["high"])
    assert inside / runs >= 0.866  # 95 % less three standard errors of 60 runs


@pytest.mark.ci
@given(st.floats(0.01, 1.0), st.integers(1, 3))
def test_calibration_of_another_skill_recovers_the_factor(factor, skill):
    model = Multilinear(5, 0.6, 5.0, 0.01, 0.05)
    x = np.linspace(0, 3 * float(model.emergence_point("time", skill, calibration=factor)), 30)
    exact = model.emergence("time", skill, x, calibration=factor)
    found = estimate_emergence("time", x, exact, model=model, skill=skill)
    assert float(found["value"]) == pytest.approx(factor, rel=1e-5)
    np.testing.assert_allclose(found["fitted"], exact, atol=1e-4)


def test_a_curve_that_says_nothing_is_not_ok():
    silent = estimate_emergence("time", [1.0, 2.0, 3.0, 4.0], [0.01] * 4)
    assert not bool(silent["ok"])
    assert "where the skill emerges" in silent.attrs["reason"]
    assert np.isinf(float(silent["high"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("luck", [1, 2, 3], [0, 0, 1]), "kind must be one of"),
        (("time", [1, 2], [0, 1]), "x must list at least 3 values above 0"),
        (("time", [1, 2, 3], [0, 1]), r"strengths must be \(x,\) or \(trial, x\)"),
        (("data", [1.5, 2, 3], [0, 0, 1]), "x must be whole numbers of samples"),
        (("time", [1, 2, 3], [0, np.nan, 1]), "strengths must be finite"),
    ],
)
def test_bad_measurements_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        estimate_emergence(*arguments)


def test_bad_models_for_calibration_are_refused():
    with pytest.raises(ValueError, match="without a grid"):
        estimate_emergence("time", [1, 2, 3], [0, 0, 1], model=Multilinear(initial=[0.1, 0.2]))
    with pytest.raises(ValueError, match="a linear one does not emerge"):
        estimate_emergence("time", [1, 2, 3], [0, 0, 1], model=Multilinear(linear=True))
    with pytest.raises(ValueError, match=r"second must have the shape \(basis,\)"):
        scaled_skill(1.0, frequency=1.0, target=1.0).solve([0.0, 1.0], 0.1, [0.1, 0.2])
    with pytest.raises(ValueError, match="available must be at most nodes"):
        partial_skill(5, 4, frequency=1.0, target=1.0)


_GRADIENT = jax.jit(jax.grad(network_loss))


@given(st.lists(st.floats(0.05, 2.0), min_size=3, max_size=3), st.floats(-2.0, 2.0), st.floats(0.1, 3.0))
def test_mode_rates_are_the_gradient_of_the_network(weights, constant, target):
    place = np.array([*weights, constant])
    with jax.enable_x64(True):
        rates = -np.asarray(_GRADIENT(place, target))
    rates[:3] *= 2 * place[:3]
    np.testing.assert_allclose(mode_rates(place, target), rates, rtol=1e-9, atol=1e-11)


def test_toy_network_learns_the_parity_at_any_scale():
    run = train_toy_network([0.0, 200.0], [0.05, 0.1, 0.15, 0.2], 2.5, learning_rate=1.0)
    np.testing.assert_allclose(run["parameter"][-1], [*np.sqrt([5.0] * 3), -2.5], rtol=1e-6)
    np.testing.assert_allclose(run["mode_strength"][-1], [0.5, 0.25, 0.25], rtol=1e-6)
    np.testing.assert_allclose(run["loss"][-1], 0.0, atol=1e-10)
    with pytest.raises(ValueError, match="start must have alpha, beta, gamma of at least 0"):
        train_toy_network([1.0], [-0.1, 0.1, 0.1, 0.0])
