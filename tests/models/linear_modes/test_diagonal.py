"""Diagonal networks against gradient flow of their loss, at random starts, and their times and stages."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as st

from dynascope import DiagonalNetwork, digest, grid, load, save
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow

TIMES = [0.0, 0.3, 1.0, 3.0]
weight = st.floats(-1.5, 1.5).map(lambda v: round(v, 3))
target = st.floats(-2.0, 2.0).map(lambda v: round(v, 3))
modes = st.lists(st.tuples(st.floats(0.2, 2.0), target, weight, weight), min_size=4, max_size=4)


def _loss(w, data):
    """The loss of a sample average, as written in (3.2), on inputs whose covariance is diagonal."""
    inputs, target = data
    error = inputs @ (w["first"] * w["second"] - target)
    return jnp.mean(error**2) / 2


def _flow(network, times):
    """Integrate on 8 inputs ±√(4·variance) along the axes: E[x xᵀ] is diag(variance)."""
    size = network.modes
    variance, target, first, second = (
        np.broadcast_to(getattr(network, n), size) for n in ("variance", "target", "first", "second")
    )
    inputs = np.concatenate([np.eye(size), -np.eye(size)]) * np.sqrt(size * variance)
    return gradient_flow(_loss, {"first": first, "second": second}, times, data=(inputs, target))


@given(modes)
def test_any_start_follows_the_gradient_flow(fields):
    network = DiagonalNetwork(*map(np.array, zip(*fields, strict=True)))
    run, flow = network.solve(TIMES), _flow(network, TIMES)
    for name in ("first", "second"):
        np.testing.assert_allclose(run[name].values.T, flow[name], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run["product"], run["first"] * run["second"], rtol=0, atol=1e-12)
    kept = run["first"] ** 2 - run["second"] ** 2
    np.testing.assert_allclose(kept.values.T, np.broadcast_to(network.conserved(), kept.T.shape), rtol=0, atol=1e-10)


@given(st.floats(0.1, 3.0), st.floats(0.1, 3.0), st.floats(0.01, 2.0), st.floats(0.0, 5.0))
def test_equal_starts_follow_the_printed_sigmoid(variance, target, start, at):
    run = DiagonalNetwork(variance, target, start, start).solve([at])
    sigmoid = target / (1 + (target / start**2 - 1) * np.exp(-2 * target * variance * at))
    assert float(run["product"][0, 0]) == pytest.approx(sigmoid, rel=1e-11)


@given(modes, st.floats(0.05, 0.95))
def test_times_are_when_the_fraction_is_reached(fields, fraction):
    network = DiagonalNetwork(*map(np.array, zip(*fields, strict=True)))
    share = network.first * network.second / np.where(network.target == 0, np.nan, network.target)
    at = network.time_to_reach(fraction)
    for mode in range(4):
        passes = share[mode] < fraction
        stuck = abs(network.first[mode]) == abs(network.second[mode]) and share[mode] <= 0
        assert np.isfinite(at[mode]) == (passes and not stuck and network.target[mode] != 0)
        if np.isfinite(at[mode]) and at[mode] < 1e6:
            product = network.solve([at[mode]])["product"].values[mode, 0]
            assert product / network.target[mode] == pytest.approx(fraction, abs=1e-8)


def test_a_start_above_the_target_passes_fractions_on_its_way_down():
    network = DiagonalNetwork(1.0, 0.5, 1.0, 1.0)
    assert float(network.solve(network.time_to_reach(1.5))["product"][0, 0]) == pytest.approx(0.75, rel=1e-12)
    assert np.isnan(network.time_to_reach(0.5)).all()


@pytest.mark.ci
@given(st.floats(0.2, 0.9), st.floats(0.005, 0.1), st.floats(0.5, 2.0))
def test_times_and_overlap_are_those_of_3_12_and_corrected_3_13(ratio, start, target):
    network = DiagonalNetwork([1.0, ratio], target, start, start)
    odds = target / start**2 - 1
    share = 0.05
    assume(start**2 < share * target)
    emerges = np.log(odds / (1 / share - 1)) / (2 * np.array([1.0, ratio]) * target)
    np.testing.assert_allclose(network.time_to_reach(share), emerges, rtol=1e-10)
    np.testing.assert_allclose(
        network.saturation_time(share), np.log(1 / share - 1) / (np.array([1.0, ratio]) * target), rtol=1e-10
    )
    overlap = 1 / (1 + odds ** ((1 - ratio) / (1 + ratio)))
    np.testing.assert_allclose(network.stage_overlap(), [overlap], rtol=1e-9)
    printed = 1 / (1 + odds ** ((ratio - 1) / (ratio + 1)))
    np.testing.assert_allclose(network.stage_overlap(published=True), [printed], rtol=1e-12)
    assert network.is_stage_like(share)[0] == (overlap < share)


def test_overlap_of_unequal_starts_is_where_the_two_modes_meet():
    network = DiagonalNetwork([1.0, 0.5, 0.3], [1.0, -2.0, 1.5], [0.02, 0.1, 0.3], [0.2, -0.02, 0.1])
    overlap = network.stage_overlap()
    for pair in (0, 1):
        saturated = network.time_to_reach(1 - overlap[pair])[pair]
        assert saturated == pytest.approx(network.time_to_reach(overlap[pair])[pair + 1], rel=1e-10)
    never = DiagonalNetwork([1.0, 0.5], 1.0, 0.1, [0.1, -0.1])  # the second starts on the wrong side of a saddle
    assert np.isnan(never.stage_overlap()).all()


def test_saddles_stay_and_dead_targets_decay():
    still = DiagonalNetwork(1.0, 1.0, 0.0, 0.0).solve([0.0, 1e3])
    np.testing.assert_array_equal(still["product"], 0.0)
    against = DiagonalNetwork(1.0, 1.0, 0.3, -0.3).solve([0.0, 1e4])["first"].values[0]
    assert against[1] == pytest.approx(0.0, abs=1e-100)
    decay = DiagonalNetwork(1.0, 0.0, 0.5, 0.5).solve([0.0, 10.0])["product"].values[0]
    assert decay[1] == pytest.approx(0.25 / (1 + 2 * 0.25 * 10), rel=1e-12)  # algebraic, not exponential


def test_a_grid_is_one_call_and_the_record_survives(tmp_path):
    starts = xr.DataArray([0.1, 0.2, 0.3], dims="start", coords={"start": [1, 2, 3]})
    spread = (starts * xr.DataArray([1.0, 1.0], dims="mode")).transpose("start", "mode")
    network = DiagonalNetwork([1.0, 0.5], 1.0, spread, spread)
    run = network.solve([0.0, 1.0, 2.0])
    assert run["product"].sizes == {"start": 3, "mode": 2, "time": 3}
    assert run["loss"].dims == ("start", "time")
    alone = DiagonalNetwork([1.0, 0.5], 1.0, 0.2, 0.2).solve([0.0, 1.0, 2.0])
    np.testing.assert_allclose(run["product"].sel(start=2), alone["product"], rtol=1e-15)
    assert load(save(run, tmp_path / "a.nc")).identical(run)
    assert digest(run) == digest(network.solve([0.0, 1.0, 2.0]))
    assert network.time_to_reach(0.5).shape == (3, 2)
    assert network.stage_overlap().shape == (3, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"variance": [1.0, 0.0]}, "variance must be above 0, got 0.0"),
        ({"variance": [1.0, 2.0], "target": [1.0, 2.0, 3.0]}, "target does not broadcast against variance"),
        ({"first": [np.nan]}, "first must be finite everywhere"),
        ({"second": "large"}, "second must be a real number"),
        (grid(first=[0.1, 0.2]), "first must have the dimension 'mode'"),
    ],
)
def test_bad_networks_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        DiagonalNetwork(**fields)


def test_bad_times_and_thresholds_are_refused():
    network = DiagonalNetwork()
    with pytest.raises(ValueError, match="times must be an increasing list"):
        network.solve([1.0, 0.5])
    with pytest.raises(ValueError, match="fraction must be above 0"):
        network.time_to_reach(0.0)
    with pytest.raises(ValueError, match=r"threshold must be below 0\.5"):
        network.saturation_time(0.6)
