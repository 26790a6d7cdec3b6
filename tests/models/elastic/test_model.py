"""The model against its own exact law, independent solvers and the promises of a family."""

import numpy as np
import pytest

from dynascope import digest, load, save
from dynascope.models.elastic.model import LocallyElastic
from dynascope.models.elastic.strengths import PowerLaw, Sampled

START = np.array([[1.0, -0.5, 0.2], [0.1, 0.8, -0.3], [-0.2, 0.4, 1.5]])


def test_drift_is_assembled_from_strengths_sampling_and_geometry():
    model = LocallyElastic(2, 2, intra=PowerLaw(2.0, 1.0), inter=0.5, geometry="isotropic", sampling=[0.25, 0.75])
    expected = np.kron(np.array([[1.0 * 0.25, 0.5 * 0.75], [0.5 * 0.25, 1.0 * 0.75]]), np.eye(2))
    np.testing.assert_allclose(model.drift(1.0), expected)


@pytest.mark.parametrize("sampling", [None, [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("geometry", ["isotropic", "logits", "mixture"])
def test_mean_path_solves_its_own_drift(geometry, sampling):
    model = LocallyElastic(3, 3, Sampled([0.0, 2.0, 5.0], [1.0, 0.2, 0.5]), 0.1, geometry, sampling)
    path = model.mean_path([0.0, 1.0, 1.0 + 1e-5, 4.0], START)
    np.testing.assert_allclose(path[0], START, atol=1e-15)
    slope = (path[2] - path[1]).ravel() / 1e-5
    np.testing.assert_allclose(slope, model.drift(1.0) @ path[1].ravel(), atol=1e-4)


@pytest.mark.parametrize("inter", [0.1, PowerLaw(-0.4, 0.8)])
def test_simulation_has_the_exact_mean_and_covariance(inter):
    model = LocallyElastic(3, 3, PowerLaw(1.0, 0.5), inter, "logits", noise=0.4)
    samples, trials = 4, 4000
    run = model.simulate(3.0, samples=samples, trials=trials, save_points=[1.0, 3.0], start=START, seed=2)
    means = run["class_mean"].isel(time=-1).values.reshape(trials, 9)
    points = run["point"].isel(time=-1).values.reshape(trials, 3, samples, 3)
    exact = model.mean_path([3.0], START)[0].ravel()
    covariance = model.covariance([3.0], samples)[0]
    error = np.sqrt(np.diag(covariance) / trials)
    assert np.all(np.abs(means.mean(axis=0) - exact) < 3.6 * error)  # 3 standard errors for 9 cases together
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / trials)
    assert np.abs((np.cov(means.T) - covariance) / spread).max() < 4.0  # 45 different entries
    # a sample is its class mean and a Brownian motion centred within the class
    inner = points - points.mean(axis=2, keepdims=True)
    within = 0.4**2 * 3.0 * (1 - 1 / samples)
    assert abs(inner.var() / within - 1) < 3 * np.sqrt(2 / (trials * 3 * (samples - 1) * 3))
    crossed = inner[:, 0, 0] * (means - means.mean(axis=0)).reshape(trials, 3, 3)[:, 0]
    assert np.all(np.abs(crossed.mean(axis=0)) < 3.2 * crossed.std(axis=0) / np.sqrt(trials))


def test_promises_of_a_family(tmp_path):
    model, options = LocallyElastic(noise=[0.1, 0.3]), {"duration": 2.0, "samples": 3, "save_points": 4}
    few, many = (model.simulate(trials=trials, **options).isel(trial=3) for trials in (4, 40))
    assert few.drop_attrs().identical(many.drop_attrs())
    np.testing.assert_array_equal(few["noise"], [0.1, 0.3])
    quiet = LocallyElastic(noise=0.1).simulate(trials=4, **options).isel(trial=3)
    np.testing.assert_allclose(quiet["point"], few["point"].isel(grid_0=0), atol=1e-13)
    run = model.simulate(trials=2, **options)
    assert load(save(run, tmp_path / "run.nc")).identical(run)
    assert digest(run) == digest(model.simulate(trials=2, **options))
    assert digest(run) != digest(model.simulate(trials=2, seed=1, **options))
    assert not set(run.data_vars) & set(run.dims)


def test_without_noise_samples_follow_the_mean_path():
    model = LocallyElastic(noise=0.0, intra=PowerLaw(1.0, 0.5))
    run = model.simulate(duration=4.0, samples=2, trials=1, save_points=5, start=START)
    expected = model.mean_path(run["time"].values, START)
    np.testing.assert_allclose(run["class_mean"][0], expected, atol=1e-8)
    np.testing.assert_allclose(run["point"][0, :, :, 1], expected, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LocallyElastic(classes=1), "classes must be a whole number of at least 2"),
        (lambda: LocallyElastic(classes=4, features=3), "features must be at least classes = 4"),
        (lambda: LocallyElastic(geometry="round"), "geometry must be one of"),
        (lambda: LocallyElastic(sampling=[0.5, 0.2, 0.2]), "sampling must sum to 1"),
        (lambda: LocallyElastic(noise=-0.1), "noise must be at least 0"),
        (lambda: LocallyElastic(intra="strong"), "intra must be a number, a PowerLaw"),
        (lambda: LocallyElastic().mean_path([1.0, 0.5], np.eye(3)), "times must be an increasing list"),
        (
            lambda: LocallyElastic().mean_path([1.0], np.eye(2)),
            r"start must end in the shape \(class, feature\) = \(3, 3\)",
        ),
        (lambda: LocallyElastic().simulate(duration=0.0), "duration must be above 0"),
        (lambda: LocallyElastic().simulate(save_points=[1.0, 99.0]), "save_points must lie between 0 and duration"),
        (lambda: LocallyElastic().simulate(samples=0), "samples must be a whole number"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
