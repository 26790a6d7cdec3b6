"""Local fits against scipy's filter, and windows that come near the best one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import savgol_filter

from dynascope.statistics.derivative import _uneven, automatic_window, checked_window, local_derivative

TIMES = np.linspace(1.0, 9.0, 200)


@pytest.mark.parametrize("window", [3, 5, 21, 101, 199])
def test_even_grids_match_the_savitzky_golay_filter(window):
    curves = np.random.default_rng(0).normal(size=(2, 3, 200)).cumsum(axis=-1)
    expected = savgol_filter(curves, window, 2, deriv=1, delta=TIMES[1] - TIMES[0])
    np.testing.assert_allclose(local_derivative(TIMES, curves, window), expected, atol=1e-11)
    np.testing.assert_allclose(_uneven(TIMES, curves, window), expected, atol=1e-10)


@given(st.integers(0, 999), st.sampled_from([3, 5, 9, 15]), st.floats(-3, 3), st.floats(-3, 3))
def test_parabolas_are_differentiated_exactly_on_any_grid(seed, window, slope, bend):
    times = np.cumsum(np.random.default_rng(seed).uniform(0.1, 1.0, 40))
    found = local_derivative(times, 1.0 + slope * times + bend * times**2, window)
    np.testing.assert_allclose(found, slope + 2 * bend * times, atol=1e-8)


def test_an_uneven_fit_is_the_least_squares_fit_of_its_window():
    random = np.random.default_rng(1)
    times, values = np.cumsum(random.uniform(0.1, 1.0, 30)), random.normal(size=30)
    found = local_derivative(times, values, 7)
    for i, begin in ((12, 9), (1, 0), (29, 23)):
        parabola = np.polyfit(times[begin : begin + 7] - times[i], values[begin : begin + 7], 2)
        assert found[i] == pytest.approx(parabola[1], abs=1e-8)


def test_what_is_not_known_stays_unknown():
    curves = np.stack([TIMES, np.where(TIMES > 8, np.nan, TIMES)])
    found = local_derivative(TIMES, curves, 5)
    np.testing.assert_allclose(found[0], 1.0)
    assert np.all(np.isnan(found[1]))


CURVES = {
    "bent": (lambda t: np.log1p(30 * t), lambda t: 30 / (1 + 30 * t)),
    "wave": (lambda t: np.sin(6 * t), lambda t: 6 * np.cos(6 * t)),
    "ripple": (lambda t: np.sin(30 * t), lambda t: 30 * np.cos(30 * t)),
}


@pytest.mark.parametrize("walk", [False, True])
@pytest.mark.parametrize("name", CURVES)
def test_the_automatic_window_comes_near_the_best_one(name, walk):
    """Median loss over 20 draws against the best of all windows, with white noise and with a random walk."""
    times = np.linspace(0.0, 1.0, 300)
    curve, slope = (function(times) for function in CURVES[name])
    ratios, single = [], []
    for seed in range(20):
        noise = 0.05 * np.random.default_rng(seed).normal(size=(17, 300))
        noise = 0.06 * noise.cumsum(axis=1) if walk else noise
        measured = curve + noise[0]
        losses = {w: ((local_derivative(times, measured, w) - slope) ** 2).sum() for w in range(5, 101, 2)}
        window = automatic_window(times, measured[None], (curve + noise[1:])[:, None])
        ratios.append(losses[window] / min(losses.values()))
        single.append(losses[automatic_window(times, measured[None])] / min(losses.values()))
    assert np.median(ratios) < 2
    assert walk or np.median(single) < 2  # one path alone is judged as if its noise were white


def test_smooth_curves_get_the_narrowest_window_and_short_ones_what_they_hold():
    assert automatic_window(TIMES, np.sin(TIMES)[None]) == 5
    assert automatic_window(TIMES[:5], np.sin(TIMES[:5])[None]) == 5


@pytest.mark.parametrize("window", [0, 2, 4, 201, 2.5, True])
def test_bad_windows(window):
    with pytest.raises(ValueError, match="window must be"):
        checked_window(window, 200)
