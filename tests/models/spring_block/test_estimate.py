"""Planted friction and noise are found again, and what a path does not show is not claimed."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dynascope import SpringBlock, estimate_chain

STEPS = 7.0  # units of the path per unit of model time
TIMES = np.linspace(0.0, 100.0, 41)


def _path(times=TIMES, **parameters):
    """The noise-free mean load of a chain, as a path over steps."""
    chain = SpringBlock(**parameters)
    return float(chain.target) - np.pad(chain.mean_path(times), ((0, 0), (1, 0)))


def _covers(found, truth):
    return [float(found[f"{name}_low"]) <= value <= float(found[f"{name}_high"]) for name, value in truth.items()]


@pytest.mark.ci
@settings(max_examples=3)
@given(st.floats(0.03, 0.1), st.floats(0.03, 0.15), st.floats(0.6, 1.4), st.floats(0.2, 5.0), st.floats(0.1, 30.0))
def test_a_mean_path_gives_its_parameters_back_in_any_units(right, left, sharpness, length, steps):
    noise = sharpness * (right + left) / 2 * 0.1  # the noise force is like the friction: all of them show
    load = _path(friction_right=right, friction_left=left, noise=noise)
    found = estimate_chain(length * load + 3.0, TIMES * steps, simulations=8)
    truth = {"friction_right": right, "friction_left": left, "noise": noise, "target": 1.0}
    for name, value in truth.items():
        assert float(found[f"{name}_low"]) <= length * value <= float(found[f"{name}_high"]), name
    centre = (float(found["friction_right_low"]) + float(found["friction_right_high"])) / 2
    if bool(found["ok"]):
        assert centre == pytest.approx(length * right, rel=0.1)
        assert float(found["time_scale"]) == pytest.approx(1 / steps, rel=0.05)
    assert float(found["residual"]) < 1e-3 * length


@pytest.mark.ci
def test_intervals_cover_planted_values_over_seeds():
    """95 % intervals from 16 trials each hold the truth in 95 % of the data sets, within what chance allows."""
    sets, truth = 16, {"friction_right": 0.05, "friction_left": 0.1, "noise": 0.005}
    run = SpringBlock(**truth).simulate(100.0, trials=16 * sets, save_points=41, seed=11)
    loads = run["load"].values.reshape(sets, 16, 41, 8)
    truth |= {"time_scale": 1 / STEPS, "target": 1.0, "friction_difference": -0.05}
    fits = [estimate_chain(load, TIMES * STEPS, simulations=16) for load in loads]
    assert all(bool(found["ok"]) for found in fits)
    hits = np.sum([_covers(found, truth) for found in fits], axis=0)
    assert np.all(hits >= binom.ppf(1e-3, sets, 0.95)), hits
    widths = [float(found["friction_right_high"] - found["friction_right_low"]) for found in fits]
    values = [float(found["friction_right"]) for found in fits]
    assert np.mean(widths) < 6 * 2 * np.std(values)  # not wide for the sake of covering


@pytest.mark.ci
@pytest.mark.parametrize("paths", [3, 8])
def test_intervals_of_single_paths_come_from_simulated_chains(paths):
    truth = {"friction_right": 0.05, "friction_left": 0.1, "noise": 0.005}
    run = SpringBlock(**truth).simulate(100.0, trials=paths, save_points=41, seed=5)
    fits = [estimate_chain(load, TIMES * STEPS) for load in run["load"].values]
    hits = np.sum([_covers(found, truth) for found in fits], axis=0)
    assert np.all(hits >= binom.ppf(1e-3, paths, 0.95)), hits
    assert max(float(found["simulation_gap"]) for found in fits) < 0.01


@pytest.mark.ci  # what is known is compiled in: 15 seconds
def test_a_known_clock_and_target_are_used():
    load = _path(friction_right=0.04, friction_left=0.12, noise=0.011)
    free = estimate_chain(load, TIMES * STEPS, simulations=16)
    held = estimate_chain(load, TIMES * STEPS, time_scale=1 / STEPS, target=1.0, simulations=16)
    assert float(held["target"]) == pytest.approx(1.0)
    assert float(held["time_scale_low"]) == pytest.approx(1 / STEPS)
    widths = [float(each["noise_high"] - each["noise_low"]) for each in (free, held)]
    assert widths[1] < widths[0]
    assert _covers(held, {"friction_right": 0.04, "friction_left": 0.12, "noise": 0.011}) == [True] * 3


@pytest.mark.ci
@pytest.mark.parametrize(
    ("planted", "unknown", "known"),
    [
        ({"friction_right": 0.0, "friction_left": 0.0, "noise": 0.01}, "friction_right, friction_left, noise", None),
        ({"friction_right": 0.1, "friction_left": 0.2, "noise": 0.05}, "friction_right, friction_left, noise", -0.1),
        ({"friction_right": 0.05, "friction_left": 0.1, "noise": 0.0}, "friction_left", None),
    ],
)
def test_what_a_path_does_not_show_is_not_claimed(planted, unknown, known):
    run = SpringBlock(**planted).simulate(100.0, trials=8, save_points=41, seed=2)
    found = estimate_chain(run["load"].assign_coords(time=TIMES * STEPS), simulations=16)
    assert not bool(found["ok"])
    assert found.attrs["reason"].startswith(unknown)
    for name in unknown.split(", "):
        assert np.isnan(float(found[name]))
        assert float(found[f"{name}_high"]) == np.inf
    if known is not None:
        assert _covers(found, {"friction_difference": known}) == [True]
        assert "; the difference of the frictions is" in found.attrs["reason"]
    if unknown == "friction_left":
        assert _covers(found, {"friction_right": 0.05, "noise": 0.0}) == [True, True]


def test_a_chain_at_rest_shows_nothing():
    rest = np.tile(1 - np.arange(8) / 8, (6, 1))
    found = estimate_chain(rest)
    assert found.attrs["reason"].startswith("nothing moves")
    assert not bool(found["ok"])
    assert np.isnan(float(found["friction_right"]))
    rising = np.tile(1 + np.arange(8) / 8, (6, 1)) + np.linspace(0, 1, 6)[:, None] * np.arange(8)
    assert "nothing pulls the chain" in estimate_chain(rising).attrs["reason"]


@pytest.mark.ci
def test_a_fit_is_a_record_with_the_paths_own_labels(tmp_path):
    from dynascope import load, save  # noqa: PLC0415

    steps = xr.DataArray(TIMES * STEPS, dims="time", attrs={"units": "updates"})
    path = xr.DataArray(
        _path(friction_right=0.05, friction_left=0.1, noise=0.005).T, dims=("layer", "time"), coords={"time": steps}
    )
    found = estimate_chain(path, simulations=16)
    assert found["fitted_load"].dims == ("time", "layer")
    assert found["time"].attrs["units"] == "updates"
    assert np.abs(found["fitted_load"] - found["load"]).max() < 1e-3
    xr.testing.assert_identical(load(save(found, tmp_path / "fit.nc")), found)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.ones((2, 8)),), {}, "load_path must hold at least 5 times and 3 layers"),
        ((np.ones((9, 2)),), {}, "load_path must hold at least 5 times and 3 layers"),
        ((np.ones(8),), {}, "load_path must be \\(time, layer\\)"),
        ((np.full((9, 8), np.nan),), {}, "load_path must be finite everywhere"),
        (("curve",), {}, "load_path must be a real number or an array"),
        (
            (xr.DataArray(np.ones((9, 8)), dims=("step", "layer")),),
            {},
            "load_path must have the dimensions time, layer",
        ),
        ((np.ones((9, 8)), np.arange(8)), {}, "times must list the 9 times"),
        ((np.ones((9, 8)), np.zeros(9)), {}, "times must be an increasing list"),
        ((np.ones((9, 8)),), {"time_scale": 0.0}, "time_scale must be above 0"),
        ((np.ones((9, 8)),), {"target": -1.0}, "target must be above 0"),
        ((np.ones((9, 8)),), {"dt": 0.0}, "dt must be above 0"),
        ((np.ones((9, 8)),), {"confidence": 1.0}, "confidence must be below 1"),
        ((np.ones((9, 8)),), {"simulations": 2}, "simulations must be a whole number of at least 8"),
        ((np.ones((9, 8)),), {"shared_noise": "no"}, "shared_noise must be True or False"),
        ((np.ones((9, 8)),), {"seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_bad_input_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        estimate_chain(*arguments, **options)
