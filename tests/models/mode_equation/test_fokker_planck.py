"""The density over time: conserved, never negative, of second order, and the law of simulated modes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from dynascope import ModeEquation, grid
from dynascope.models.mode_equation import fokker_planck


@settings(max_examples=15)
@given(
    st.integers(2, 6),
    st.floats(0.2, 2.0),
    st.floats(0.0, 0.3),
    st.floats(0.0, 1.0),
    st.floats(1e-3, 1e3),
    st.sampled_from(["derived", "published"]),
)
def test_probability_is_kept_and_nothing_is_negative(depth, s, beta, sigma, duration, ito):
    mode = ModeEquation(depth=depth, singular_value=s, temperature=beta, label_noise=sigma, ito=ito)
    points = np.concatenate([[0.0], np.geomspace(1e-3, 3.0, 60)])
    path = mode.density_path([duration, 2 * duration, 3.5 * duration], points, 0.1)
    np.testing.assert_allclose(np.trapezoid(path, points), 1.0, rtol=0, atol=1e-10)
    assert path.min() >= 0


def test_transition_is_the_matrix_exponential():
    points = np.linspace(0.1, 1.5, 40)
    up, down = fokker_planck.rates(
        points, {"depth": 3, "singular_value": 1.0, "temperature": 0.05, "label_noise": 0.4}, "derived"
    )
    generator = np.diag(up, -1) + np.diag(down, 1)
    generator -= np.diag(generator.sum(axis=0))
    for duration in (0.01, 1.0, 30.0):
        matrix, repeats = fokker_planck.transition(up, down, duration)
        np.testing.assert_allclose(
            np.linalg.matrix_power(matrix, repeats), expm(duration * generator), rtol=0, atol=1e-11
        )


def test_it_settles_on_the_stationary_density_to_second_order():
    mode = ModeEquation(depth=3, temperature=0.05, label_noise=0.5)
    errors = []
    for count in (76, 151, 301):
        points = np.linspace(0.05, 3.0, count)
        settled = mode.density_path([200.0], points, 1.0)[0]
        errors.append(np.abs(settled - mode.stationary_density(points)).max())
    slope = np.polyfit(np.log([76, 151, 301]), np.log(errors), 1)[0]
    assert -2.3 < slope < -1.8, errors
    assert errors[-1] < 2e-3 * mode.stationary_density(1.0)


def test_point_mass_and_density_starts():
    mode = ModeEquation(depth=2, temperature=0.05, label_noise=0.3)
    points = np.linspace(0.0, 2.0, 101)
    start = fokker_planck.point_mass(points, 0.333)
    np.testing.assert_allclose(np.trapezoid(start * points, points), 0.333, rtol=1e-12)
    by_number, by_density = (mode.density_path([0.0, 0.5], points, given) for given in (0.333, start))
    np.testing.assert_array_equal(by_number, by_density)
    np.testing.assert_array_equal(by_number[0], start)


def test_equal_and_unequal_steps_agree():
    mode = ModeEquation(depth=2, temperature=0.05, label_noise=0.3)
    points = np.linspace(0.0, 2.0, 81)
    even, odd = (mode.density_path(times, points, 0.2) for times in ([1.0, 2.0, 3.0], [0.3, 2.0, 3.0]))
    np.testing.assert_allclose(even[1:], odd[1:], rtol=1e-9, atol=1e-12)


def test_without_noise_mass_moves_towards_s_and_stays():
    points = np.linspace(0.0, 1.5, 151)
    path = ModeEquation(depth=2, temperature=0.0).density_path([20.0], points, 0.2)[0]
    mean = np.trapezoid(path * points, points)
    assert abs(mean - 1.0) < 0.02
    assert np.trapezoid(path[90:111], points[90:111]) > 0.99


def test_density_follows_simulated_modes():
    mode = ModeEquation(depth=2, temperature=0.05, label_noise=0.3)
    run = mode.simulate(duration=3.0, dt=0.02, trials=8000, start=0.1, save_points=[1.0, 3.0])["amplitude"]
    points = mode.amplitude_grid(0.01, 3.0, 400)
    path = mode.density_path([1.0, 3.0], points, 0.1)
    mean = np.trapezoid(path * points, points)
    variance = np.trapezoid(path * points**2, points) - mean**2
    error = (run.std("trial", ddof=1) / np.sqrt(8000)).values
    np.testing.assert_array_less(np.abs(run.mean("trial").values - mean), 3 * error + 1e-3)
    np.testing.assert_allclose(run.var("trial").values, variance, rtol=3 * np.sqrt(3 / 8000) + 0.01)


def test_grids_and_spacing():
    mode = ModeEquation(depth=3, **grid(temperature=[0.02, 0.05], label_noise=[0.1, 0.2, 0.3]))
    points = mode.amplitude_grid(0.02, 2.0, 60)
    assert points[0] == pytest.approx(0.02)
    assert points[-1] == pytest.approx(2.0)
    assert np.all(np.diff(points) > 0)
    assert np.diff(points)[0] < np.diff(points)[-1] / 5
    assert mode.density_path([0.5, 1.0], points, 0.1).shape == (2, 3, 2, 60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.density_path([1.0], [0.5, 0.4, 0.6], 0.5), "w_grid must be an increasing list"),
        (lambda m: m.density_path([1.0], [0.5, 0.6], 0.5), "w_grid must hold at least three points, got 2"),
        (lambda m: m.density_path([1.0], [0.5, 0.6, 0.7], 0.9), "start must lie within w_grid, got 0.9"),
        (
            lambda m: m.density_path([1.0], [0.5, 0.6, 0.7], [1.0, 2.0]),
            r"or a density of shape \(3,\), got shape \(2,\)",
        ),
        (lambda m: m.density_path([1.0], [0.5, 0.6, 0.7], [1.0, -2.0, 1.0]), "start must be at least 0 everywhere"),
        (lambda m: m.density_path([1.0, 0.5], [0.5, 0.6, 0.7], 0.6), "times must be an increasing list"),
        (lambda m: m.amplitude_grid(2.0, 1.0), "low must be below high = 1.0, got 2.0"),
        (lambda m: m.amplitude_grid(0.0, 1.0), "low must be above 0"),
        (lambda m: ModeEquation(temperature=0.0).amplitude_grid(0.1, 1.0), "temperature must be above 0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call(ModeEquation())
