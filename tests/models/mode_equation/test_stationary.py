"""The stationary law against closed forms, adaptive quadrature, its small-rate limit and long simulation."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import cumulative_simpson, simpson

from dynascope import ModeEquation
from dynascope.models.mode_equation.stationary import window_moments


def _depth_two_log_density(w, s, beta, sigma):
    """(16) at depth 2 in elementary functions, up to normalisation: partial fractions of 2μ/D."""
    share = s / (2 * s**2 + sigma**2)
    power = 2 * (s - w) ** 2 + sigma**2
    angle = np.arctan(np.sqrt(2) * (w - s) / sigma) / (np.sqrt(2) * sigma)
    integral = share * np.log(w) - share / 2 * np.log(power) + (2 * s * share - 1) * angle
    return integral / beta - 1.5 * np.log(w) - np.log(power)


@given(st.floats(0.3, 2.0), st.floats(0.003, 0.3), st.floats(0.05, 1.0))
def test_depth_two_is_elementary(s, beta, sigma):
    mode = ModeEquation(depth=2, singular_value=s, temperature=beta, label_noise=sigma)
    w = s * np.exp(np.linspace(-3, 3, 9) * np.minimum(np.sqrt(beta / s) * sigma, 1))
    if beta < mode.collapse_temperature():
        found = np.log(mode.stationary_density(w))
        expected = _depth_two_log_density(w, s, beta, sigma)
        np.testing.assert_allclose(found - found[4], expected - expected[4], atol=1e-8)


@pytest.mark.parametrize("ito", ["derived", "published", "published-6"])
@pytest.mark.parametrize(
    ("depth", "s", "beta", "sigma"), [(2, 1.3, 0.01, 0.2), (3, 0.7, 0.02, 0.5), (4, 1.0, 0.005, 0.3)]
)
def test_density_and_moments_by_simpsons_rule(depth, s, beta, sigma, ito):
    mode = ModeEquation(depth=depth, singular_value=s, temperature=beta, label_noise=sigma, ito=ito)

    law = mode.stationary_moments()
    spread = float(np.sqrt(law.variance))
    w = np.linspace(max(s - 10 * spread, 0.02 * s), s + 40 * spread, 100_001)
    slope = 2 * mode.drift(w) / mode.diffusion(w)
    exponent = cumulative_simpson(slope, x=w, initial=0.0)
    density = np.exp(exponent - exponent.max()) / mode.diffusion(w)
    density /= simpson(density, x=w)
    mean = simpson(density * w, x=w)
    np.testing.assert_allclose(law.mean, mean, atol=1e-6 * spread)
    np.testing.assert_allclose(law.variance, simpson(density * (w - mean) ** 2, x=w), rtol=1e-5)
    np.testing.assert_allclose(mode.stationary_density(w), density, rtol=1e-6, atol=1e-9 * density.max())


@given(st.integers(2, 7), st.floats(0.3, 2.0), st.floats(0.002, 0.2), st.floats(0.1, 1.0))
def test_density_is_normalised_and_peaks_at_the_mode(depth, s, beta, sigma):
    mode = ModeEquation(depth=depth, singular_value=s, temperature=beta, label_noise=sigma)
    law = mode.stationary_moments()
    if law.mode == 0:  # near collapse the density of depth 2 is highest at 0
        return
    around = law.mode * np.exp([-1e-4, 0.0, 1e-4])
    density = mode.stationary_density(around)
    assert density[1] >= density.max() * (1 - 1e-12)
    x = np.linspace(np.log(s) - 40, np.log(s) + 40, 20_001)
    np.testing.assert_allclose(np.trapezoid(mode.stationary_density(np.exp(x)) * np.exp(x), x), 1.0, rtol=1e-6)
    if np.isfinite(law.drift_zero):
        np.testing.assert_allclose(mode.drift(law.drift_zero), 0.0, atol=1e-9 * depth * max(s, 1) ** 3)


@pytest.mark.parametrize("depth", [2, 3, 4, 6])
def test_small_rate_forms_are_the_limit(depth):
    """Errors of mean, mode and zero of the drift fall at least as the square of the temperature."""
    errors = []
    for beta in (4e-4, 2e-4, 1e-4):
        mode = ModeEquation(depth=depth, singular_value=0.8, temperature=beta, label_noise=0.4)
        exact, small = mode.stationary_moments(), mode.stationary_moments("small-rate")
        shift = 0.8 - small.mean
        errors.append(
            [abs(float(getattr(exact, n) - getattr(small, n)) / shift) for n in ("mean", "mode", "drift_zero")]
        )
        assert abs(exact.variance / small.variance - 1) < 2 * depth * 0.8 ** (2 - 2 / depth) * beta
    order = np.polyfit(np.log([4e-4, 2e-4, 1e-4]), np.log(errors), 1)[0]
    assert np.all(order > 0.9)  # relative to a shift that is itself of first order


def test_mean_and_mode_lie_below_s_and_the_zero_of_the_drift_above():
    law = ModeEquation(depth=4, label_noise=0.3).stationary_moments()
    assert law.mode < law.mean < 1 < law.drift_zero
    printed = ModeEquation(depth=4, label_noise=0.3).stationary_moments("published")
    assert printed.mean == pytest.approx(1 + 0.005 / 2 * 3 * 0.3)
    assert printed.variance == pytest.approx(0.005 * 4 / 2 * 0.09)


def test_without_noise_the_law_is_a_point_mass():
    mode = ModeEquation(singular_value=0.7, label_noise=[0.0, 0.3], temperature=[[0.01], [0.0]])
    law = mode.stationary_moments()
    np.testing.assert_array_equal(law.mean[[0, 1, 1], [0, 0, 1]], 0.7)
    np.testing.assert_array_equal(law.variance[[0, 1, 1], [0, 0, 1]], 0.0)
    assert law.variance[0, 1] > 0
    density = mode.stationary_density([0.5, 0.7])
    np.testing.assert_array_equal(density[0, 0], [0.0, np.inf])
    assert np.isfinite(density[0, 1]).all()


def test_density_narrows_to_the_point_mass():
    mode = ModeEquation(depth=3, label_noise=[1e-2, 1e-3, 1e-5])
    spread = np.sqrt(mode.stationary_moments().variance)
    np.testing.assert_allclose(spread / [1e-2, 1e-3, 1e-5], np.sqrt(0.005 * 3 / 2 / (1 - 0.015)), rtol=1e-3)
    height = mode.stationary_density(1.0)
    np.testing.assert_allclose(height * spread, 1 / np.sqrt(2 * np.pi), rtol=0.05)


def test_collapse_at_depth_two():
    mode = ModeEquation(depth=2, label_noise=0.5, temperature=[0.5, 0.8, 0.9])
    limit = mode.collapse_temperature()
    np.testing.assert_allclose(limit, 2 / 2.25)
    law = mode.stationary_moments()
    assert law.mean[0] > law.mean[1] > law.mean[2] == 0
    assert law.mode[1] == 0  # the density of a nearly collapsed mode is highest at 0
    assert np.isinf(ModeEquation(depth=3, temperature=5.0).collapse_temperature())
    assert ModeEquation(depth=3, temperature=5.0, label_noise=1.0).stationary_moments().mean > 0


def test_long_simulation_has_these_moments():
    mode = ModeEquation(depth=3, temperature=0.03, label_noise=0.5)
    run = mode.simulate(duration=45.0, dt=0.02, trials=400, start=1.0, save_points=91)
    law = mode.stationary_moments()
    for name, (value, error) in window_moments(run["amplitude"], since=5.0).items():
        assert abs(float(value - getattr(law, name))) < 3 * float(error), name
    gap = float(window_moments(run["amplitude"], since=5.0)["mean"][0]) - 1
    assert gap < -3 * float(window_moments(run["amplitude"], since=5.0)["mean"][1])  # below s


def test_window_moments_refuse_what_has_no_window():
    run = xr.DataArray(np.ones((3, 2)), dims=("trial", "time"), coords={"time": [0.0, 1.0]})
    with pytest.raises(ValueError, match=r"since must be at most the last time 1\.0, got 2\.0"):
        window_moments(run, since=2.0)
    with pytest.raises(ValueError, match="at least two trials"):
        window_moments(run.isel(trial=[0]), since=0.0)
