"""Transitions against matrix exponentials and brute-force integrals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad_vec
from scipy.linalg import expm

from dynascope.models.elastic.propagation import follow_slope, transitions


def _random(seed, size=3):
    random = np.random.default_rng(seed)
    root = random.normal(size=(size, size))
    return random.normal(size=(size, size)), root @ root.T


@given(st.integers(0, 99), st.floats(0.01, 4.0))
def test_constant_drift(seed, span):
    drift, covariance = _random(seed)
    times = np.array([0.5, 0.5 + span, 0.5 + 2 * span])
    expected = quad_vec(lambda s: expm(drift * s) @ covariance @ expm(drift * s).T, 0, span, epsrel=1e-11)[0]
    scale = np.linalg.norm(expected)
    for constant in (True, False):
        for flow, spread in transitions(times, lambda time: drift, covariance, constant=constant):
            np.testing.assert_allclose(flow, expm(drift * span), atol=1e-8 * scale)
            np.testing.assert_allclose(spread, expected, atol=1e-8 * scale)


def test_long_times_lose_no_digits():
    drift = np.diag([-2.0, 0.0, 0.1])
    ((flow, spread),) = transitions(np.array([0.0, 100.0]), lambda time: drift, np.eye(3), constant=True)
    np.testing.assert_allclose(np.diag(flow), np.exp(100 * np.diag(drift)), rtol=1e-10)
    np.testing.assert_allclose(np.diag(spread), [0.25, 100.0, np.expm1(20) / 0.2], rtol=1e-10)


def test_a_drift_that_jumps():
    """Commuting drifts: the flow is the exponential of the integral, whatever the knots."""

    def drift(time):
        return np.array([[1.0 if time < 1 else -0.5]])

    ((flow, _),) = transitions(np.array([0.0, 3.0]), drift, np.eye(1), knots=[1.0])
    assert float(flow[0, 0]) == pytest.approx(1.0, rel=1e-9)  # e^(1 − 2·½)
    path = follow_slope(np.array([0.0, 1.0, 3.0]), np.ones((1, 1)), lambda time, x: drift(time) @ x, knots=[1.0])
    np.testing.assert_allclose(path.ravel(), [1.0, np.e, 1.0], rtol=1e-9)
