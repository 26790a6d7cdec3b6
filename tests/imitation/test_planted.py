"""Networks replaced by processes with known strengths: the pipeline must find them again."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from dynascope import LocallyElastic, PowerLaw, imitate
from dynascope.imitation.pipeline import imitate_to
from dynascope.imitation.summary import averages, best
from dynascope.models.elastic.path_fit import drifts, follow, power_law, solve

START = np.array([[0.5, -0.1, 0.1], [-0.2, 0.4, 0.1], [0.0, -0.3, 0.6]])
TIMES = np.linspace(0.0, 60.0, 121)


def recorded(means, times=TIMES):
    """The record that an ensemble would have left."""
    return xr.Dataset({"class_mean": (("trial", "step", "class", "logit"), means)}, coords={"step": times})


@pytest.fixture(scope="module")
def planted():
    """A process (5) with two power laws, seen through 24 trials with jitter of measurement."""
    model = LocallyElastic(3, 3, PowerLaw(0.6, 0.5), PowerLaw(-0.1, 0.5), "logits", noise=0.02)
    run = model.simulate(60.0, samples=4, trials=24, save_points=TIMES, start=START, seed=1)
    jitter = 0.02 * np.random.default_rng(0).standard_normal(run["class_mean"].shape)
    return model, run["class_mean"].values + jitter


@pytest.mark.ci
def test_planted_strengths_are_recovered_end_to_end(planted, tmp_path):
    _, means = planted
    result, there = imitate_to(tmp_path, recorded(means), ["logits", "isotropic", "kernel"], reference_time=0.0)
    assert not there
    assert (tmp_path / "imitation.nc").is_file()
    found = result.sel(geometry="logits")
    truth = {"intra": PowerLaw(0.6, 0.5)(TIMES), "inter": PowerLaw(-0.1, 0.5)(TIMES)}
    truth["gap"] = truth["intra"] - truth["inter"]
    late = slice(3, -5)  # a window of points looks ahead, and does not reach beyond the end
    for name, true in truth.items():
        inside = (found[f"{name}_low"] <= true) & (true <= found[f"{name}_high"])
        assert float(inside[late].mean()) > 0.85, name
    spans = np.diff(TIMES)
    integrated = (found["gap"].values[:-1] * spans).sum()
    assert integrated == pytest.approx((truth["gap"][:-1] * spans).sum(), rel=0.05)
    assert float(found["tail_index_gap_low"]) < 0.5 < float(found["tail_index_gap_high"])


def test_the_planted_geometry_is_at_the_noise_floor_and_the_wrong_one_is_not(planted):
    _, means = planted
    result = imitate(recorded(means), ["logits", "isotropic"], reference_time=0.0, resamples=20)
    floor = averages(result["noise_floor"])[1]
    right, wrong = (averages(result["relative_difference"].sel(geometry=name))[1] for name in ("logits", "isotropic"))
    assert right < 1.15 * floor
    assert wrong > 2 * floor
    assert str(best(result)["geometry"].values) == "logits"
    ahead = [averages(result["forecast_difference"].sel(geometry=name))[1] for name in ("logits", "isotropic")]
    still = averages(result["forecast_baseline_difference"].sel(baseline="persistence"))[1]
    assert ahead[0] < 0.3 * still
    assert ahead[0] < ahead[1]


def test_theorem_on_planted_tails(planted):
    _, means = planted
    result = imitate(recorded(means), "logits", reference_time=0.0, resamples=20)
    assert int(result["separates"]) == 1  # index ½ < 1
    assert "exponent rises" in str(result["verdict"].values)


def test_sde_has_the_spread_of_the_planted_process(planted):
    model, means = planted
    result = imitate(recorded(means), "logits", reference_time=0.0, resamples=20)
    exact = np.sqrt(np.diagonal(model.covariance([60.0], 4)[0])).reshape(3, 3)
    # the slope of a covariance over 24 trials errs by about a third
    ratio = result["imitated_spread"].values[-1] / exact
    assert 0.5 < ratio.mean() < 1.5


def test_softmax_dynamics_with_a_strength_for_every_pair_are_followed():
    pairs = np.array([[0.5, -0.1, 0.05], [-0.1, 0.7, -0.2], [0.05, -0.2, 0.6]])
    model = LocallyElastic(3, 3, geometry="softmax", elasticity=pairs)
    means = model.mean_path(TIMES, np.stack([START, 0.8 * START, 1.1 * START, START - 0.1]))
    result = imitate(recorded(means), ["kernel", "softmax"], reference_time=0.0, resamples=20)
    fitted = [averages(result["fitted_difference"].sel(geometry=name))[1] for name in ("kernel", "softmax")]
    assert fitted[0] < 0.01
    assert fitted[1] > 5 * fitted[0]


@given(alpha=st.floats(-0.4, 0.5), beta=st.floats(-0.3, 0.3), model=st.sampled_from(["isotropic", "logits", "mixture"]))
def test_following_meets_any_constant_strengths(alpha, beta, model):
    """Against the exact solver: strengths in, path, strengths out."""
    times = np.linspace(0.0, 5.0, 61)
    drift = drifts(model, 3, 3)[3 if model == "mixture" else 0]
    blocks = np.broadcast_to(drift.blocks, (3, 3, 3, 3))
    means = LocallyElastic(3, 3, alpha, beta, blocks).mean_path(times, START)
    strengths, path = follow(times, means, drift, horizon=1)
    np.testing.assert_allclose(path, means, atol=2e-4 * np.abs(means).max())
    np.testing.assert_allclose(strengths[5:], np.broadcast_to([alpha, beta], strengths[5:].shape), atol=0.02)


@pytest.mark.ci
@given(scale=st.floats(0.2, 1.0), index=st.floats(0.3, 1.5), ratio=st.floats(-0.4, 0.4))
def test_power_laws_are_read_off_a_stretch_of_path(scale, index, ratio):
    """The gap, which is what class means that are alike tell."""
    times = np.linspace(5.0, 30.0, 101)
    model = LocallyElastic(3, 3, PowerLaw(scale, index), PowerLaw(ratio * scale, index), "logits")
    scales, read = power_law(times, model.mean_path(times, START), drifts("logits", 3, 3)[0])
    assert read == pytest.approx(index, abs=0.1)
    gap = 16.0**-read * (scales[0] - scales[1])
    assert gap == pytest.approx(16.0**-index * scale * (1 - ratio), rel=0.05)


def test_solve_agrees_with_the_exact_paths_of_every_geometry():
    times = np.linspace(0.0, 4.0, 41)
    pairs = np.array([[0.5, -0.1, 0.05], [0.2, 0.7, -0.2], [0.1, 0.0, 0.6]])
    for model, geometry in (("isotropic", "isotropic"), ("general", "logits"), ("kernel", "softmax")):
        exact = LocallyElastic(3, 3, geometry=geometry, elasticity=pairs).mean_path(times, START)
        drift = drifts(model, 3, 3)[0]
        errors = [
            np.abs(solve(grid, START, np.broadcast_to(pairs, (len(grid) - 1, 3, 3)), drift)[-1] - exact[-1]).max()
            for grid in (times[::10], times[::5])
        ]
        assert errors[1] < 1e-6
        assert np.log2(errors[0] / errors[1]) > 3.5, model  # fourth order
