"""Training: the four optimisers against what is known, and how bad input is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope import DeepLinear, grid
from dynascope.models.deep_linear import equations, exact
from dynascope.models.deep_linear.descent import DivergenceError
from dynascope.records import attribute

SMALL = {"depth": 3, "width": [4, 5, 3, 4], "teacher": (1.0, 0.5)}


def _one_step(net, method, **options):
    """Weights before and after one step, (trial, …)."""
    run = net.simulate(method=method, trials=3, keep_weights=True, save_points=2, **options)
    layers = range(1, net.depth + 1)
    return [[run[f"weight_{layer}"].values[:, moment] for layer in layers] for moment in (0, 1)]


def test_gradient_descent_steps_against_the_gradient():
    net = DeepLinear(**SMALL, learning_rate=0.1)
    before, after = _one_step(net, "gd", duration=0.1)
    for w, moved, slope in zip(before, after, net.gradient(before), strict=True):
        np.testing.assert_allclose(moved, w - 0.1 * slope, atol=1e-14)
    _, slower = _one_step(net, "gd", duration=0.1, reduction="mean")
    for w, moved, half in zip(before, after, slower, strict=True):
        np.testing.assert_allclose(half - w, (moved - w) / 2, atol=1e-14)  # 2/outputs = 1/2


@pytest.mark.ci
def test_sgd_is_gradient_descent_on_its_batch():
    net = DeepLinear(**SMALL, learning_rate=0.1, batch_size=3, label_noise=0.5)
    with jax.enable_x64(True):
        weights = tuple(jnp.asarray(w[0]) for w in net.initial_weights())
        p = {"teacher": jnp.asarray(net.teacher), "dt": 0.1, "loss_scale": 1.0, "label_root": 0.5 * jnp.eye(4)}
        row = jnp.asarray(np.random.default_rng(0).normal(size=24))
        samples = row.reshape(3, 8)
        x, y = samples[:, :4], samples[:, :4] @ net.teacher.T + 0.5 * samples[:, 4:]
        slopes = jax.grad(exact.data_loss)(weights, x, y)
        moved = equations.sgd_step(weights, row, p)
    for w, after, slope in zip(weights, moved, slopes, strict=True):
        np.testing.assert_allclose(after, np.asarray(w) - 0.1 * np.asarray(slope), atol=1e-14)


@pytest.mark.parametrize(
    ("method", "dt"),
    [
        ("sgd", 0.2),
        pytest.param("langevin", 0.05, marks=pytest.mark.ci),
        pytest.param("isotropic", 0.05, marks=pytest.mark.ci),
    ],
)
def test_methods_move_by_the_noise_that_they_promise(method, dt):
    """Mean and covariance of one step over many trials, against the gradient and Proposition 3.2."""
    net = DeepLinear(2, [3, 4, 2], (1.0, 0.5), learning_rate=0.2, batch_size=2, label_noise=0.4, init_exponent=0.0)
    start, trials = [w[0] for w in net.initial_weights()], 16_384
    slope = np.concatenate([g.T.ravel() for g in net.gradient(start)])
    step = {} if method == "sgd" else {"dt": dt}
    run = net.simulate(dt, trials, method=method, start=start, save_points=[dt], keep_weights=True, **step)
    moved = [run[f"weight_{k + 1}"].values[:, 0] - start[k] for k in range(2)]
    moved = np.concatenate([m.swapaxes(1, 2).reshape(trials, -1) for m in moved], axis=1)
    covariance = np.eye(len(slope)) if method == "isotropic" else net.noise_covariance(start)
    expected = 0.1 * dt * covariance
    error = np.sqrt(np.diag(expected) / trials)
    assert np.all(np.abs(moved.mean(0) + dt * slope) < 4.5 * error)
    centred = moved - moved.mean(0)
    measured = centred.T @ centred / trials
    spread = np.sqrt((centred**2).T @ centred**2 / trials - measured**2) / np.sqrt(trials)
    assert np.all(np.abs(measured - expected) < 4.5 * spread + 1e-12)


@pytest.mark.ci
def test_same_start_for_every_method_and_seed():
    net = DeepLinear(**SMALL)
    starts = [
        net.simulate(0.1, 2, method=method, seed=seed, save_points=2)["cross_amplitude"].isel(time=0)
        for method, seed in (("gd", 0), ("sgd", 1), ("langevin", 2), ("isotropic", 3))
    ]
    assert all(starts[0].equals(other) for other in starts)
    other = DeepLinear(**SMALL, network_seed=1).simulate(0.1, 2, method="gd", save_points=2)
    assert not starts[0].equals(other["cross_amplitude"].isel(time=0))


def test_balanced_and_aligned_starts():
    gaussian, balanced, aligned = (
        DeepLinear(**SMALL, initialisation=kind).simulate(0.1, 3, method="gd", save_points=2).isel(time=0)
        for kind in ("gaussian", "balanced", "aligned")
    )
    assert float(gaussian["balance"].min()) > 0.1
    assert float(balanced["balance"].max()) < 1e-10
    # a bottleneck of 3 keeps all of a product of rank 3
    np.testing.assert_allclose(balanced["cross_amplitude"], gaussian["cross_amplitude"], atol=1e-12)
    cross = aligned["cross_amplitude"].values
    np.testing.assert_allclose(cross, np.eye(2) * cross[:, :1, :1], atol=1e-12)


@pytest.mark.ci
def test_grids_of_rates_batches_and_label_noise():
    axes = {"learning_rate": [0.01, 0.02], "batch_size": [1, 3], "label_noise": [0.0, 0.2]}
    run = DeepLinear(**SMALL, **grid(**axes)).simulate(0.4, 2, method="sgd", save_points=5)
    assert run["diffusion"].dims == (*axes, "trial", "time", "mode")
    for rate, batch, noise in ((0.02, 3, 0.2), (0.01, 1, 0.0)):
        alone = DeepLinear(**SMALL, learning_rate=rate, batch_size=batch, label_noise=noise)
        single = alone.simulate(0.4, 2, method="sgd", save_points=run["time"].values)
        chosen = run.sel(learning_rate=rate, batch_size=batch, label_noise=noise)
        np.testing.assert_allclose(chosen["amplitude"], single["amplitude"], atol=1e-13)


@pytest.mark.ci
def test_finite_data():
    net = DeepLinear(**SMALL, data_size=6, batch_size=6, label_noise=0.3, learning_rate=0.05)
    gd, sgd, langevin = (net.simulate(1.0, 2, method=method, save_points=4) for method in ("gd", "sgd", "langevin"))
    np.testing.assert_allclose(sgd["amplitude"], gd["amplitude"], atol=1e-12)  # the whole data set is no sample
    np.testing.assert_allclose(langevin["diffusion"], 0.0, atol=1e-15)  # and has no noise
    assert bool(np.all(np.diff(gd["train_loss"], axis=-1) < 0))


def test_subsets_are_uniform_and_without_replacement():
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(16_384, 3)))
    drawn = np.asarray(jax.vmap(lambda row: equations._subset(row, 5))(rows))
    assert all(len(set(subset)) == 3 for subset in drawn.tolist())
    counts = np.unique(np.sort(drawn, axis=1), axis=0, return_counts=True)[1]
    assert counts.size == 10
    assert np.all(np.abs(counts - 1638.4) < 4.5 * np.sqrt(1474.6))
    assert np.all(np.abs(np.bincount(drawn[:, 0], minlength=5) - 3276.8) < 4.5 * np.sqrt(2621.4))


@pytest.mark.ci
def test_noise_of_finite_data_has_the_covariance_of_its_samples():
    net = DeepLinear(2, [2, 3, 2], (1.0, 0.5), data_size=7, batch_size=3, label_noise=0.5, init_exponent=0.0)
    start, trials, dt = [w[0] for w in net.initial_weights()], 16_384, 0.001
    data = net._data(0.5 * np.eye(2))
    with jax.enable_x64(True):
        each = jax.vmap(jax.grad(exact.data_loss), in_axes=(None, 0, 0))(
            [jnp.asarray(w) for w in start], data["inputs"][:, None], data["labels"][:, None]
        )
    slopes = np.concatenate([np.asarray(s).reshape(7, -1) for s in each], axis=1)
    for method, scale in (("sgd", 0.005**2), ("langevin", 0.005 * dt)):
        step = {} if method == "sgd" else {"dt": dt}
        run = net.simulate(
            step.get("dt", 0.005),
            trials,
            method=method,
            start=start,
            save_points=[step.get("dt", 0.005)],
            keep_weights=True,
            **step,
        )
        moved = np.concatenate(
            [(run[f"weight_{k + 1}"].values[:, 0] - start[k]).reshape(trials, -1) for k in range(2)], 1
        )
        expected = scale * (7 - 3) / (3 * 6) * np.cov(slopes.T, bias=True)
        centred = moved - moved.mean(0)
        measured = centred.T @ centred / trials
        spread = np.sqrt((centred**2).T @ centred**2 / trials - measured**2) / np.sqrt(trials)
        assert np.all(np.abs(measured - expected) < 4.5 * spread + 1e-12 * scale), method


def test_divergence_names_the_step_and_keeps_the_record():
    net = DeepLinear(2, 4, (1.0,), learning_rate=[0.01, 0.9], init_exponent=0.0)
    with pytest.raises(DivergenceError, match=r"diverged at step \d+ .* learning_rate=0.9") as caught:
        net.simulate(90.0, 3, method="sgd", save_points=91)
    error = caught.value
    assert error.time == pytest.approx(0.9 * error.step)
    assert 0 < error.record["time"].values[-1] < error.time <= error.record["time"].values[-1] + 1
    assert attribute(error.record, "model") == "DeepLinear"
    assert all(bool(np.isfinite(error.record[name]).all()) for name in error.record.data_vars)


def test_divergence_step_is_exact():
    net = DeepLinear(2, 4, (1.0,), learning_rate=0.9, init_exponent=0.0)
    with pytest.raises(DivergenceError) as caught:
        net.simulate(90.0, 3, method="sgd", save_points=2)
    step = caught.value.step
    finer = net.simulate(0.9 * (step - 1), 3, method="sgd", save_points=2, keep_weights=True)
    assert bool(np.isfinite(finer["weight_1"]).all())
    with pytest.raises(DivergenceError, match=f"step {step} "):
        net.simulate(0.9 * step, 3, method="sgd", save_points=2)


@pytest.mark.ci
def test_optional_records():
    run = DeepLinear(**SMALL).simulate(
        0.1, 2, method="isotropic", save_points=2, tangent_kernel=True, isotropic_noise=0.5
    )
    assert run["tangent_kernel"].dims == ("trial", "time", "matrix", "mode", "other_mode")
    summed = np.diagonal(run["tangent_kernel"].sum("matrix").values, axis1=-2, axis2=-1)
    np.testing.assert_allclose(run["isotropic_diffusion"], 0.005 * 0.25 * summed, rtol=1e-12)
    assert "balance" not in DeepLinear(1, 3).simulate(0.1, 1, method="gd", save_points=2)


BAD = {
    "width must hold depth \\+ 1 = 5 numbers": {"width": [3, 4]},
    "width must be whole numbers": {"width": 2.5},
    "teacher must have at most min\\(width\\) = 2 singular values": {"width": 2},
    "teacher must have the shape \\(outputs, inputs\\)": {"width": 3, "teacher": np.ones((2, 3))},
    "teacher must have singular values of at least 0": {"teacher": (1.0, -0.5)},
    "there is nothing to learn": {"teacher": (0.0,)},
    "learning_rate must be above 0": {"learning_rate": -0.1},
    "batch_size must be whole numbers": {"batch_size": 0},
    "whitened needs data_size": {"data_size": 2, "whitened": True},
    "batch_size must be at most data_size": {"batch_size": 9, "data_size": 8},
    "label_noise must be at least 0": {"label_noise": -1.0},
    "must be positive semi-definite": {"label_noise_covariance": -np.eye(12)},
    "must be symmetric": {"label_noise_covariance": np.triu(np.ones((12, 12)))},
    "label_noise_covariance must have the shape": {"label_noise_covariance": np.eye(3)},
    "initialisation must be one of": {"initialisation": "zero"},
    "seed must be an integer": {"network_seed": -1},
    "depth must be a whole number": {"depth": 0},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_networks(message):
    with pytest.raises(ValueError, match=message):
        DeepLinear(**BAD[message])


BAD_RUNS = {
    "method must be one of gd, sgd, langevin, isotropic": {"method": "adam"},
    "dt must not be given for sgd": {"dt": 0.1},
    "dt must be below 2/": {"method": "langevin", "dt": 0.6},
    "learning_rate must be below 2/": {"method": "gd"},
    "start must hold one matrix or 32": {"start": [np.ones((2, 12, 12))] * 4},
    "start\\[0\\] must end in the shape": {"start": [np.ones((3, 12))] * 4},
    "reduction must be one of": {"reduction": "none"},
    "trials must stay below": {"trials": 70_000, "save_points": 2},
    "sed=1 is not an option": {"sed": 1},
}


@pytest.mark.parametrize("message", BAD_RUNS)
def test_bad_runs(message):
    rate = 0.6 if "learning_rate" in message else 0.005
    with pytest.raises(ValueError, match=message):
        DeepLinear(learning_rate=rate).simulate(**BAD_RUNS[message])


def test_a_whitened_data_set_has_the_populations_gradient():
    """Without label noise, that is: gradient descent on it is gradient descent on the population."""
    fixed = DeepLinear(**SMALL, data_size=9, whitened=True).simulate(2.0, 2, method="gd", save_points=3)
    drawn = DeepLinear(**SMALL, data_size=9).simulate(2.0, 2, method="gd", save_points=3)
    population = DeepLinear(**SMALL).simulate(2.0, 2, method="gd", save_points=3)
    np.testing.assert_allclose(fixed["amplitude"], population["amplitude"], atol=1e-12)
    assert np.abs(drawn["amplitude"] - population["amplitude"]).max() > 1e-3
