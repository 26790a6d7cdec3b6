"""Linear models: learning curves, learnability and minimum-norm fits against direct computation."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope import grid, learnability
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.models.linear_modes import minimum_norm, mode_curves, training_path

spectra = st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=30)


def _loss(w, data):
    features, labels, ridge = data
    return (jnp.sum((features @ w["w"] - labels) ** 2) + ridge * jnp.sum(w["w"] ** 2)) / (2 * len(labels))


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5]))
def test_training_path_follows_the_gradient_flow(seed, ridge):
    random = np.random.default_rng(seed)
    features, labels = random.normal(size=(3, 6)), random.normal(size=3)
    times = [0.0, 0.5, 2.0, 8.0]
    flow = gradient_flow(_loss, {"w": np.zeros(6)}, times, data=(features, labels, ridge))["w"]
    np.testing.assert_allclose(training_path(times, features, labels, ridge=ridge), flow, rtol=0, atol=1e-9)


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 8), st.floats(0.0, 2.0))
def test_minimum_norm_is_the_pseudo_inverse_or_the_ridge_solution(seed, samples, size, ridge):
    random = np.random.default_rng(seed)
    features, labels = random.normal(size=(samples, size)), random.normal(size=samples)
    found = minimum_norm(features, labels, ridge=ridge)
    if ridge > 1e-3:
        expected = np.linalg.solve(features.T @ features + ridge * np.eye(size), features.T @ labels)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    elif ridge == 0:
        np.testing.assert_allclose(found, np.linalg.pinv(features) @ labels, rtol=1e-8, atol=1e-10)


def test_repeated_samples_do_not_matter():
    features, labels = np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([1.0, 3.0])
    np.testing.assert_allclose(minimum_norm(features, labels), minimum_norm(features[:1], [2.0]), rtol=1e-12)


@given(st.floats(0.0, 3.0), st.floats(-2.0, 2.0), st.floats(-2.0, 2.0), st.floats(0.0, 4.0))
def test_mode_curves_solve_their_equation(rate, target, start, at):
    curve = mode_curves([at, at + 1e-6], [rate], [target], start=[start])[0]
    middle = (curve[0] + curve[1]) / 2
    assert (curve[1] - curve[0]) / 1e-6 == pytest.approx(-rate * (middle - target), abs=1e-8)
    assert mode_curves([0.0], [rate], [target], start=[start])[0, 0] == start


@given(spectra, st.floats(0.05, 0.95), st.one_of(st.just(0.0), st.floats(1e-4, 10.0)))
def test_kappa_solves_its_equation(spectrum, share, ridge):
    rho = np.array(spectrum)
    samples = share * rho.size
    found = learnability(rho, samples=samples, ridge=ridge)
    kappa = float(found["kappa"])
    assert kappa > 0
    assert np.sum(rho / (rho + kappa)) + ridge / kappa == pytest.approx(samples, rel=1e-10)
    np.testing.assert_allclose(found["learnability"], rho / (rho + kappa), rtol=1e-12)


@given(st.integers(2, 400), st.floats(0.01, 0.99), st.floats(0.1, 2.0))
def test_uniform_spectra_have_the_exact_answer(size, share, noise):
    """For equal eigenvalues L = n/p; the loss is (1 − n/p)|f*|²/2 + σ² n/(p − n)/2."""
    samples, target = share * size, np.ones(size)
    found = learnability(np.full(size, 3.0), samples=samples, noise=noise, target=target)
    np.testing.assert_allclose(found["learnability"], share, rtol=1e-10)
    expected = (1 - share) * size / 2 + noise**2 * share / (1 - share) / 2
    assert float(found["test_loss"]) == pytest.approx(expected, rel=1e-9)


def test_more_samples_and_smaller_ridges_teach_more():
    spectrum = np.arange(1, 101.0) ** -1.5
    found = learnability(spectrum, **grid(samples=[5.0, 20.0, 80.0], ridge=[0.0, 0.01, 1.0]), target=spectrum)
    assert found["learnability"].dims == ("samples", "ridge", "mode")
    assert np.all(found["learnability"].diff("samples") > 0)
    assert np.all(found["learnability"].diff("ridge") < 0)
    assert np.all(found["learnability"].diff("mode") < 0)
    np.testing.assert_allclose(found["learnability"].isel(ridge=0).sum("mode"), [5.0, 20.0, 80.0], rtol=1e-10)


def test_enormous_ranges_of_eigenvalues():
    spectrum = np.logspace(0, -250, 500)
    found = learnability(spectrum, samples=[1, 100, 499])
    total = np.sum(spectrum / (spectrum + found["kappa"].values[:, None]), axis=-1)
    np.testing.assert_allclose(total, [1, 100, 499], rtol=1e-9)


def test_underdetermined_expectation_meets_simulation():
    """Gaussian features, the first mode of a two-level spectrum: within three standard errors and 1/n."""
    random = np.random.default_rng(8)
    samples, spectrum = 30, np.r_[np.ones(3), np.full(60, 0.1)]
    share = []
    for _ in range(400):
        functions = random.standard_normal((samples, 63))
        weights = minimum_norm(functions * np.sqrt(spectrum), functions[:, 0])
        share.append(weights[0] * np.sqrt(spectrum[0]))
    expected = float(learnability(spectrum, samples=samples)["learnability"][0])
    assert abs(np.mean(share) - expected) < 3 * np.std(share) / 20 + 1 / samples
    assert abs(np.mean(share) - 1) > 5 * np.std(share) / 20  # and not 1, as (1.36) would have it


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eigenvalues": [1.0, -1.0], "samples": 1}, "eigenvalues must be at least 0, got -1.0"),
        (
            {"eigenvalues": [1.0, 1.0], "samples": 3},
            r"samples must be below .* \(2\) when ridge is 0",
        ),
        ({"eigenvalues": [1.0, 1.0], "samples": 2}, "samples must be below the number of modes"),
        ({"eigenvalues": [1.0, 0.0, 0.0], "samples": 1}, r"\(1\) when ridge is 0"),
        ({"eigenvalues": [1.0, 1.0], "samples": 0}, "samples must be above 0"),
        ({"eigenvalues": [1.0, 1.0], "samples": 1, "ridge": -0.1}, "ridge must be at least 0"),
        ({"eigenvalues": [1.0, 1.0], "samples": 1, "noise": -0.1}, "noise must be at least 0"),
        ({"eigenvalues": [1.0, 1.0], "samples": 1, "target": [1.0, 2.0, 3.0]}, "target does not broadcast"),
        ({"eigenvalues": 1.0, "samples": 1}, "eigenvalues must have at least the dimensions"),
    ],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        learnability(**options)


def test_bad_fits_are_refused():
    with pytest.raises(ValueError, match=r"features must have shape \(sample, feature\)"):
        minimum_norm([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="ridge must be at least 0"):
        minimum_norm([[1.0]], [1.0], ridge=-1.0)
    with pytest.raises(ValueError, match="times must be at least 0"):
        training_path([-1.0], [[1.0]], [1.0])
    with pytest.raises(ValueError, match="eigenvalues must be at least 0"):
        mode_curves([0.0], [-1.0])
