"""Two-layer networks: the exact solution against gradient flow, from balanced and other starts."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from dynascope import TwoLayerLinear, load, save
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.models.linear_modes import balanced_weights

TIMES = [0.0, 0.5, 2.0, 5.0]
SHAPES = [(3, 2, 2, 0.0), (2, 5, 3, 0.0), (4, 3, 2, 0.7), (2, 2, 4, -0.5)]


def _loss(w, data):
    """½ mean |xᵀW₁W₂ − y|² over a white sample."""
    inputs, labels = data
    return jnp.sum((inputs @ w["first"] @ w["second"] - labels) ** 2) / (2 * len(inputs))


def _white_sample(correlation):
    """Inputs with Σ x xᵀ/n = I and labels with Σ x yᵀ/n = correlation, more of them than inputs have dimensions."""
    size = correlation.shape[0]
    inputs = np.concatenate([np.eye(size), -np.eye(size)]) * np.sqrt(size)
    return inputs, inputs @ correlation


@pytest.mark.parametrize("case", [SHAPES[0], *(pytest.param(case, marks=pytest.mark.ci) for case in SHAPES[1:])])
@given(st.integers(0, 10_000), st.floats(0.05, 0.8))
def test_balanced_starts_are_solved_exactly(case, seed, scale):
    inputs, hidden, outputs, level = case
    correlation = np.random.default_rng(seed).normal(size=(inputs, outputs))
    first, second = balanced_weights(inputs, hidden, outputs, scale=scale, imbalance=level, seed=seed)
    network = TwoLayerLinear(correlation, first, second)
    assert float(network.imbalance()) == pytest.approx(level, abs=1e-12)
    run = network.solve(TIMES)
    flow = gradient_flow(_loss, {"first": first, "second": second}, TIMES, data=_white_sample(correlation))
    for name, expected in (
        ("product", flow["first"] @ flow["second"]),
        ("first_gram", flow["first"] @ flow["first"].swapaxes(1, 2)),
        ("second_gram", flow["second"].swapaxes(1, 2) @ flow["second"]),
    ):
        np.testing.assert_allclose(run[name], expected, rtol=0, atol=1e-8)


@given(st.integers(0, 10_000), st.floats(0.001, 0.5))
def test_aligned_starts_are_sigmoids(seed, start):
    random = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(random.normal(size=(4, 3)), full_matrices=False)
    values = np.sort(random.uniform(0.3, 2.0, 3))[::-1]
    turn = np.linalg.qr(random.normal(size=(5, 3)))[0]
    network = TwoLayerLinear((left * values) @ right, np.sqrt(start) * left @ turn.T, np.sqrt(start) * turn @ right)
    run = network.solve(TIMES)
    sigmoid = values[:, None] / (1 + (values[:, None] / start - 1) * np.exp(-2 * values[:, None] * np.array(TIMES)))
    np.testing.assert_allclose(run["strength"], sigmoid, rtol=0, atol=1e-10)
    np.testing.assert_allclose(network.aligned_strength(TIMES), sigmoid, rtol=1e-9)
    np.testing.assert_allclose(run["singular_value"], values, rtol=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_small_starts_are_sigmoids_from_what_earlier_modes_leave_free(seed, hidden):
    random = np.random.default_rng(seed)
    values = np.array([2.0, 1.1, 0.5])
    left, right = (np.linalg.qr(random.normal(size=(size, 3)))[0] for size in (4, 3))
    first, second = balanced_weights(4, hidden, 3, scale=1e-5, seed=seed)
    network = TwoLayerLinear((left * values) @ right.T, first, second)
    begin = network.small_start()
    assert np.all(begin[hidden:] == 0)
    np.testing.assert_allclose(network.aligned_strength([0.0])[:, 0], begin, rtol=1e-12)
    for mode in np.flatnonzero(begin > 1e-16):  # nearly dependent directions need a smaller start still
        half = np.log(values[mode] / begin[mode] - 1) / (2 * values[mode])
        assert float(network.solve([half])["strength"][mode, 0]) / values[mode] == pytest.approx(0.5, abs=0.02)


def test_modes_without_a_target_decay_and_printed_starts_can_be_negative():
    network = TwoLayerLinear([[1.0, 0.0], [0.0, 0.0]], [[0.1, 0.0], [0.0, 0.2]], [[-0.1, 0.0], [0.0, 0.2]])
    curve = network.aligned_strength([0.0, 10.0])
    assert curve[1, 1] == pytest.approx(0.04 / (1 + 2 * 0.04 * 10))
    assert network.aligned_strength([0.0], published=True)[0, 0] == pytest.approx(-0.01)


def test_any_start_flows_and_keeps_what_is_conserved():
    random = np.random.default_rng(5)
    first, second = random.normal(size=(3, 4)), random.normal(size=(4, 2))
    correlation = random.normal(size=(3, 2))
    network = TwoLayerLinear(correlation, first, second)
    assert np.isnan(network.imbalance())
    run = network.solve_numerically(TIMES)
    flow = gradient_flow(_loss, {"first": first, "second": second}, TIMES, data=_white_sample(correlation))
    np.testing.assert_allclose(run["first"], flow["first"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run["second"], flow["second"], rtol=0, atol=1e-8)
    a, b = run["first"].values, run["second"].values
    kept = a.swapaxes(1, 2) @ a - b @ b.swapaxes(1, 2)
    np.testing.assert_allclose(kept, np.broadcast_to(network.conserved(), kept.shape), rtol=0, atol=1e-8)
    np.testing.assert_allclose(run["loss"], ((run["product"].values - correlation) ** 2).sum(axis=(1, 2)) / 2)


def test_long_times_end_at_the_target_and_minimal_rank():
    correlation = np.array([[2.0, 0.0], [0.0, 0.7], [0.0, 0.0]])
    first, second = balanced_weights(3, 6, 2, scale=1e-4, seed=2)
    end = TwoLayerLinear(correlation, first, second).solve([2000.0]).isel(time=0)
    np.testing.assert_allclose(end["product"], correlation, atol=1e-10)
    np.testing.assert_allclose(end["first_gram"], np.diag([2.0, 0.7, 0.0]), atol=1e-10)  # √(M Mᵀ): rank c


def test_missing_directions_stay_missing():
    """A network too narrow for its target keeps its rank: rounding does not seed the modes that it lacks."""
    random = np.random.default_rng(0)
    first, second = balanced_weights(4, 1, 3, scale=0.1, seed=1)
    end = TwoLayerLinear(random.normal(size=(4, 3)), first, second).solve([1e4]).isel(time=0)
    values = np.linalg.svd(end["product"].values, compute_uv=False)
    assert values[0] > 0.5
    assert values[1] < 1e-12


def test_a_grid_of_starts_is_one_call(tmp_path):
    correlation = np.array([[1.0, 0.2], [0.1, 0.5]])
    first, second = balanced_weights(2, 3, 2, scale=0.3, seed=4)
    scales = xr.DataArray([0.5, 1.0], dims="size", coords={"size": [0.5, 1.0]})
    network = TwoLayerLinear(
        correlation,
        scales * xr.DataArray(first, dims=("input", "hidden")),
        scales * xr.DataArray(second, dims=("hidden", "output")),
    )
    run = network.solve(TIMES)
    assert run["product"].dims == ("size", "time", "input", "output")
    alone = TwoLayerLinear(correlation, 0.5 * first, 0.5 * second).solve(TIMES)
    np.testing.assert_allclose(run["strength"].sel(size=0.5), alone["strength"], rtol=0, atol=1e-13)
    np.testing.assert_allclose(network.solve_numerically(TIMES)["product"], run["product"], rtol=0, atol=1e-8)
    assert load(save(run, tmp_path / "a.nc")).identical(run)


def test_balanced_weights_have_random_directions():
    draws = np.array([balanced_weights(3, 3, 3, scale=0.2, seed=seed)[0] for seed in range(400)])
    mean = draws.mean(axis=0)
    assert np.all(np.abs(mean) < 4 * draws.std(axis=0) / np.sqrt(400))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TwoLayerLinear([1.0], [[1.0]], [[1.0]]), r"correlation must have shape \(…, input, output\)"),
        (lambda: TwoLayerLinear(np.ones((2, 2)), np.ones((3, 2)), np.ones((2, 2))), "first must have 2 values"),
        (lambda: TwoLayerLinear(np.ones((2, 2)), np.ones((2, 2)), np.ones((1, 2))), "second must have 2 values"),
        (lambda: TwoLayerLinear([[1.0]], [[1.0, 2.0]], [[1.0], [3.0]]).solve([1.0]), "must satisfy W₁ᵀW₁"),
        (lambda: TwoLayerLinear([[np.nan]], [[1.0]], [[1.0]]), "correlation must be finite"),
        (lambda: TwoLayerLinear([[1.0]], [[1.0]], [[1.0]]).solve([-1.0]), "times must be an increasing list"),
        (
            lambda: TwoLayerLinear([[1.0]], [[1.0]], [[1.0]]).solve_numerically([1.0], accuracy=0.0),
            "accuracy must be above 0",
        ),
        (lambda: balanced_weights(2, 3, 4, scale=0.1, imbalance=0.5), "hidden must be at most 2 for an imbalance"),
        (lambda: balanced_weights(4, 3, 2, scale=0.1, imbalance=-0.5), "hidden must be at most 2"),
        (lambda: balanced_weights(4, 3, 2, scale=-0.1), "scale must be at least 0"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
