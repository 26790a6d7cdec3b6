"""Transitions against matrix exponentials and brute-force integrals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad_vec
from scipy.linalg import expm

from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import drift_matrix, geometry_blocks, sampling_matrix
from dynascope.models.elastic.propagation import follow_slope, isotropic_transitions, logit_transitions, transitions
from dynascope.models.elastic.quadrature import integrate_growth
from dynascope.models.elastic.strengths import IntraInter, PowerLaw, Sampled


def _random(seed, size=3):
    random = np.random.default_rng(seed)
    root = random.normal(size=(size, size))
    return random.normal(size=(size, size)), root @ root.T


@settings(max_examples=8)
@given(st.integers(0, 99), st.floats(0.01, 4.0))
def test_constant_drift(seed, span):
    drift, covariance = _random(seed, size=2)
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


SOLVED = {"isotropic": (isotropic_transitions, 1), "logits": (logit_transitions, 3)}


@pytest.mark.parametrize("geometry", SOLVED)
@settings(max_examples=8)
@given(st.integers(0, 99), st.floats(-1.0, 1.0), st.floats(-0.5, 0.5), st.integers(0, 1))
def test_solved_transitions_meet_the_solver(geometry, seed, intra, inter, extra):
    solve, features = SOLVED[geometry][0], SOLVED[geometry][1] + extra
    _, covariance = _random(seed, size=3 * features)
    strengths = PowerLaw(intra, 0.7), Sampled([0.5, 2.0], [inter, -inter])
    blocks, sampling = geometry_blocks(geometry, 3, features), sampling_matrix(None, 3)

    def drift(time):
        return drift_matrix(IntraInter(*strengths, 3)(time), sampling, blocks)

    times = np.array([0.2, 1.0, 4.0])
    expected = transitions(times, drift, covariance, knots=[0.5, 2.0])
    found = solve(times, *strengths, covariance, classes=3)
    for (flow, spread), (other_flow, other_spread) in zip(expected, found, strict=True):
        np.testing.assert_allclose(other_flow, flow, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(other_spread, spread, rtol=1e-8, atol=1e-8)


@pytest.mark.ci
def test_growth_beyond_all_numbers_is_named():
    start = np.ones((3, 3))
    for geometry in ("isotropic", "logits", "mixture"):
        model = LocallyElastic(intra=1.0, geometry=geometry)
        for follow in (lambda: model.covariance([1e5]), lambda: model.mean_path([1e5], start)):  # noqa: B023
            with pytest.raises(FloatingPointError, match="class means grow beyond all numbers by time"):
                follow()
    diverging = LocallyElastic(elasticity=lambda t: 500 * np.eye(3), geometry="isotropic")
    with pytest.raises(FloatingPointError, match=r"class means grow beyond all numbers by time [45]\."):
        diverging.mean_path([20.0], start)


def test_integrals_over_many_decades_and_oscillations():
    none = np.empty(0)
    power = integrate_growth(np.array([1e2, 1e8]), lambda t: -0.5 * np.log1p(t)[None], np.ones_like, knots=none)
    np.testing.assert_allclose(power[0], 2 * (np.sqrt(1 + np.array([1e2, 1e8])) - 1), rtol=1e-12)
    waves = integrate_growth(
        np.array([1.0]), lambda t: np.sin(200 * t)[None] / 10, lambda t: np.cos(200 * t), knots=none
    )
    np.testing.assert_allclose(waves[0], np.expm1(np.sin(200.0) / 10) / 20, rtol=1e-10)
