"""The mode equation as users meet it: shapes, labels, limits, refusals."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from dynascope import ModeEquation, grid

QUICK = {"duration": 1.0, "trials": 3, "save_points": 3}


def test_shapes_and_what_is_recorded():
    mode = ModeEquation(**grid(singular_value=[1.0, 0.7], temperature=[0.01, 0.02], label_noise=[0.0, 0.1, 0.2]))
    run = mode.simulate(**QUICK)
    dims = ("singular_value", "temperature", "label_noise", "trial", "time")
    assert run["amplitude"].dims == run["loss"].dims == run["diffusion"].dims == dims
    np.testing.assert_allclose(run["loss"], (run["singular_value"] - run["amplitude"]).transpose(*dims) ** 2 / 2)
    picked = run.isel(singular_value=1, temperature=0, label_noise=2)
    alone = ModeEquation(singular_value=0.7, temperature=0.01, label_noise=0.2)
    np.testing.assert_allclose(picked["diffusion"], alone.diffusion(picked["amplitude"].values), rtol=1e-12)
    assert run["time"].attrs["units"] == "steps × learning rate"
    assert mode.drift([0.1, 0.5]).shape == (2, 2, 3, 2)
    assert mode.stationary_density(np.ones((4, 5))).shape == (2, 2, 3, 4, 5)
    assert mode.stationary_moments().mode.shape == mode.peak().amplitude.shape == (2, 2, 3)


def test_starts():
    run = ModeEquation(label_noise=[0.0, 0.3]).simulate(start=[0.1, 0.2], **QUICK)
    np.testing.assert_allclose(run["amplitude"].isel(time=0, trial=1), [0.1, 0.2], rtol=1e-14)
    named = xr.DataArray([0.1, 0.2], dims="label_noise")
    run = ModeEquation(**grid(label_noise=[0.0, 0.3])).simulate(start=named, **QUICK)
    np.testing.assert_allclose(run["amplitude"].isel(time=0, trial=1), [0.1, 0.2], rtol=1e-14)


@pytest.mark.parametrize(("scheme", "dt", "tolerance"), [("weak2", 0.01, 2e-5), ("euler", 0.001, 2e-3)])
def test_without_temperature_it_is_gradient_flow(scheme, dt, tolerance):
    mode = ModeEquation(depth=3, temperature=0.0)
    run = mode.simulate(duration=8.0, dt=dt, trials=1, scheme=scheme, start=0.02, save_points=9)
    np.testing.assert_allclose(run["amplitude"][0], mode.gradient_flow(run["time"].values, 0.02), atol=tolerance)


def test_schemes_have_the_same_law():
    mode = ModeEquation(depth=2, temperature=0.05, label_noise=0.3)
    ends = [
        mode.simulate(2.0, 0.01, 4000, start=0.2, scheme=s, seed=i)["amplitude"][:, -1]
        for i, s in enumerate(["weak2", "euler"])
    ]
    error = np.sqrt(sum(float(end.var()) for end in ends) / 4000)
    assert abs(float(ends[0].mean() - ends[1].mean())) < 3 * error + 0.005


def test_large_noise_keeps_the_logarithmic_scheme_positive():
    run = ModeEquation(depth=2, temperature=2.0, label_noise=1.0).simulate(duration=20.0, dt=0.05, trials=50, start=0.5)
    assert (run["amplitude"] > 0).all()
    assert float(run["amplitude"].isel(time=-1).median()) < 1e-3  # above the collapse temperature


@given(st.integers(2, 8), st.floats(0.2, 3.0), st.floats(0.0, 0.95))
def test_peak_is_a_local_maximum_of_the_diffusion(depth, s, share):
    sigma = share * s * depth / np.sqrt(4 * (depth - 1) * (3 * depth - 2))  # of the bound (10)
    mode = ModeEquation(depth=depth, singular_value=s, label_noise=sigma)
    peak = mode.peak()
    assert 0 < peak.amplitude < s
    beside = mode.diffusion(peak.amplitude * np.array([0.999, 1.0, 1.001]))
    assert beside[1] == pytest.approx(float(peak.diffusion))
    assert beside[1] > max(beside[0], beside[2])


def test_no_peak_at_or_beyond_the_bound():
    bound = 4 / np.sqrt(4 * 3 * 10)
    mode = ModeEquation(depth=4, label_noise=[bound * 0.999, bound * 1.0001])
    assert np.isfinite(mode.peak().amplitude).tolist() == [True, False]
    w = np.linspace(0.01, 1.5, 2000)
    assert np.all(np.diff(mode.diffusion(w)[1]) > 0)  # it only levels off
    assert not np.all(np.diff(mode.diffusion(w)[0]) > 0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 1}, "depth must be a whole number of at least 2, got 1"),
        ({"singular_value": 0.0}, "singular_value must be above 0"),
        ({"temperature": -0.1}, "temperature must be at least 0, got -0.1"),
        ({"label_noise": [0.1, -0.2]}, "label_noise must be at least 0, got -0.2"),
        ({"label_noise": float("nan")}, "label_noise must be finite"),
        ({"ito": "stratonovich"}, "ito must be one of derived, published, published-6, got 'stratonovich'"),
        ({"temperature": xr.DataArray([0.1], dims="trial")}, "'trial' is taken by the result"),
        ({"temperature": xr.DataArray([0.1], dims="loss")}, "'loss' is taken by the result"),
    ],
)
def test_parameters_that_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ModeEquation(**fields)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"duration": 0.0}, "duration must be above 0"),
        ({"dt": 0.3}, r"dt must be at most 1/\(L s\^\(2−2/L\)\).*here at most 0\.25, got 0\.3"),
        ({"trials": 0}, "trials must be a whole number"),
        ({"trials": 2**32}, "trials must stay below"),
        ({"seed": -1}, "seed must be an integer"),
        ({"start": 0.0}, r"start must be above 0 \(at 0 nothing ever moves\), got 0.0"),
        ({"start": [0.1, 0.2]}, r"start must broadcast to the grid \(\), got shape \(2,\)"),
        ({"start": xr.DataArray([0.1], dims="x")}, "start must have dimensions among"),
        ({"scheme": "milstein"}, "scheme must be one of weak2, euler, got 'milstein'"),
        ({"precision": "float16"}, "precision must be one of float64, float32"),
        ({"save_points": 1}, "save_points must be at least 2"),
        ({"sed": 1}, r"sed=1 is not an option.*Did you mean seed\?"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ModeEquation().simulate(**options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.drift(-0.1), "w must be at least 0, got -0.1"),
        (lambda m: m.diffusion("x"), "w must be a real number"),
        (lambda m: m.gradient_flow([1.0, 0.5], 0.1), "times must be an increasing list"),
        (lambda m: m.gradient_flow([1.0], -0.1), "start must be above 0"),
        (lambda m: m.time_to_reach(0.0, 0.1), "fraction must be above 0"),
        (lambda m: m.stationary_density(0.0), "w must be above 0, got 0.0"),
        (lambda m: m.stationary_moments("large-rate"), "form must be one of exact, small-rate, published"),
    ],
)
def test_closed_forms_refuse_nonsense(call, message):
    with pytest.raises(ValueError, match=message):
        call(ModeEquation())


def test_euler_that_leaves_the_positive_amplitudes_says_where():
    with pytest.raises(FloatingPointError, match=r"step \d+ .* in trial \d+ with .*temperature=3"):
        ModeEquation(depth=2, temperature=3.0).simulate(duration=5.0, dt=0.2, trials=50, scheme="euler", start=0.5)
