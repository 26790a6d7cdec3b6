"""Gradient flow against an ODE solver, the logistic and its own inverse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from dynascope import ModeEquation, grid

TIMES = np.linspace(0.0, 6.0, 25)


def _solved(depth, s, start, times):
    """The same flow in log w, by an adaptive solver."""
    return np.exp(
        solve_ivp(
            lambda _, x: depth * np.exp(x * (1 - 2 / depth)) * (s - np.exp(x)),
            (0.0, times[-1]),
            [np.log(start)],
            t_eval=times,
            method="DOP853",
            rtol=1e-12,
            atol=1e-13,
        ).y[0]
    )


@given(st.integers(2, 10), st.floats(0.1, 3.0), st.floats(1e-6, 20.0))
def test_flow_meets_an_ode_solver(depth, s, start):
    path = ModeEquation(depth=depth, singular_value=s).gradient_flow(TIMES, start)
    np.testing.assert_allclose(path, _solved(depth, s, start, TIMES), rtol=1e-8, atol=1e-10)


@given(st.floats(0.1, 3.0), st.floats(1e-9, 5.0))
def test_depth_two_is_the_logistic(s, start):
    path = ModeEquation(depth=2, singular_value=s).gradient_flow(TIMES, start)
    np.testing.assert_allclose(path, s / (1 + (s / start - 1) * np.exp(-2 * s * TIMES)), rtol=1e-9)


@given(st.integers(2, 10), st.floats(0.1, 3.0), st.floats(1e-4, 0.3), st.floats(0.35, 0.999))
def test_time_to_reach_inverts_the_flow(depth, s, share, fraction):
    mode = ModeEquation(depth=depth, singular_value=s)
    wait = mode.time_to_reach(fraction, share * s)
    np.testing.assert_allclose(mode.gradient_flow([wait], share * s), fraction * s, rtol=1e-9)


def test_limits():
    mode = ModeEquation(depth=4)
    assert mode.gradient_flow([0.0], 0.3) == pytest.approx(0.3, rel=1e-14)
    assert mode.gradient_flow([1e6], 0.3) == 1.0
    np.testing.assert_array_equal(mode.gradient_flow([0.0, 5.0], 1.0), 1.0)
    np.testing.assert_allclose(mode.time_to_reach([0.3, 1.0, 2.0, 0.1], 0.3), [0.0, np.nan, np.nan, np.nan])
    assert mode.time_to_reach(1.5, 2.0) > 0  # from above, downwards
    assert np.isnan(mode.time_to_reach(2.5, 2.0))


def test_grids_of_modes_and_starts():
    mode = ModeEquation(**grid(singular_value=[0.4, 1.0], label_noise=[0.0, 0.1, 0.2]))
    start = np.array([[0.1], [2.0]])
    path = mode.gradient_flow(TIMES, start)
    assert path.shape == (2, 3, 25)
    alone = ModeEquation(singular_value=1.0).gradient_flow(TIMES, 2.0)
    np.testing.assert_allclose(path[1, 2], alone, rtol=1e-13)
    assert mode.time_to_reach([[0.5, 0.9]], 0.1).shape == (2, 3, 1, 2)


def test_larger_modes_are_learned_first():
    times = ModeEquation(**grid(singular_value=[1.0, 0.7, 0.4])).time_to_reach(0.9, 0.01)
    assert np.all(np.diff(times) > 0)
