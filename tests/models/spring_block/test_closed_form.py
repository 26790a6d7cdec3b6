"""Closed forms against quadrature, simulation and the laws that define them, at random parameters."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad

from dynascope import SpringBlock

positive = st.floats(0.05, 2.0)
friction = st.floats(0.0, 0.6)


def _dead_zone(force, right, left):
    return max(force - right, 0.0) + min(force + left, 0.0)


def _average(function, bound, breaks):
    """E[function(ζ)] by quadrature, split where the integrand has kinks."""
    edge = 12.0 if bound is None else bound
    inside = sorted({float(np.clip(b, -edge, edge)) for b in breaks} | {-edge, 0.0, edge})

    def weighted(z):
        return function(z) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    def total(f):
        return sum(quad(f, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(inside))

    mass = total(lambda z: np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))
    return total(weighted) / mass


@given(st.integers(1, 8), positive, friction, friction, st.floats(-2.0, 2.0))
def test_noiseless_simulation_meets_equation_6(blocks, stiffness, right, left, target):
    # a block at the very edge of sticking creeps there for ever: stay a little away from that edge
    pull = left if target < 0 else right
    counts = np.arange(1, blocks + 1)
    assume(np.all(np.abs(counts * (counts + 1) * pull / (2 * stiffness) - abs(target)) > 1e-6))
    chain = SpringBlock(
        blocks=blocks, stiffness=stiffness, friction_right=right, friction_left=left, noise=0.0, target=target
    )
    slowest = stiffness * 4 * np.sin(np.pi / (2 * (blocks + 1))) ** 2
    dt = 0.5 / stiffness
    run = chain.simulate(round(60 / slowest / dt) * dt, dt, 1, save_points=2)
    np.testing.assert_allclose(run["position"][0, -1], chain.equilibrium(), rtol=0, atol=1e-10)


@given(st.integers(1, 12), positive, friction, st.floats(0.0, 3.0))
def test_equilibrium_balances_every_force(blocks, stiffness, right, target):
    chain = SpringBlock(blocks=blocks, stiffness=stiffness, friction_right=right, noise=0.0, target=target)
    x = np.concatenate([[0.0], chain.equilibrium(), [target]])
    force = stiffness * (x[2:] - 2 * x[1:-1] + x[:-2])
    assert np.all(force <= right + 1e-12)
    assert np.all(force >= -1e-12)
    np.testing.assert_allclose(force[x[1:-1] > 1e-12], right, atol=1e-12)


def test_printed_equation_6_is_the_same_where_all_blocks_move_and_not_elsewhere():
    moving, sticking = SpringBlock(friction_right=0.02), SpringBlock(friction_right=0.11)
    np.testing.assert_allclose(moving.equilibrium(), moving.equilibrium(published=True), atol=1e-15)
    assert np.count_nonzero(sticking.equilibrium()) == 3  # FIG. 4(b) without noise
    assert np.abs(sticking.equilibrium() - sticking.equilibrium(published=True)).max() > 0.1


@pytest.mark.ci
@given(st.floats(-1.5, 1.5), friction, friction, st.floats(0.02, 1.0), st.one_of(st.none(), st.floats(0.3, 4.0)))
def test_mean_drift_is_the_average_of_the_dead_zone(force, right, left, strength, bound):
    chain = SpringBlock(friction_right=right, friction_left=left, noise=strength)
    breaks = [(right - force) / strength, (-left - force) / strength]
    expected = _average(lambda z: _dead_zone(force + strength * z, right, left), bound, breaks)
    assert float(chain.mean_drift(force, dt=1.0, truncate=bound)) == pytest.approx(expected, abs=1e-10)


@given(friction, friction, st.floats(0.02, 1.0), st.floats(-0.8, 0.8), st.one_of(st.none(), st.floats(0.5, 4.0)))
def test_effective_friction_is_the_conditional_average(right, left, strength, force, bound):
    chain = SpringBlock(friction_right=right, friction_left=left, noise=strength)
    breaks = [(right - force) / strength, (-left - force) / strength]
    moves = _average(lambda z: float(not -left <= force + strength * z <= right), bound, breaks)
    assume(moves > 1e-6)
    drift = _average(lambda z: _dead_zone(force + strength * z, right, left), bound, breaks)
    measured = chain.effective_friction(force, dt=1.0, truncate=bound)
    assert float(measured) == pytest.approx(force - drift / moves, abs=1e-8)
    np.testing.assert_array_equal(chain.effective_friction(force, dt=1.0, truncate=bound, published=True), -measured)


def test_effective_friction_at_the_ends_of_the_noise_scale():
    still = SpringBlock(friction_right=0.1, friction_left=0.2, noise=0.0)
    np.testing.assert_allclose(still.effective_friction([0.5, 0.05, -0.1, -0.7]), [0.1, 0.05, -0.1, -0.2])
    faint = SpringBlock(friction_right=0.1, friction_left=0.2, noise=1e-6)
    np.testing.assert_allclose(
        faint.effective_friction([0.5, 0.05, -0.1, -0.7], dt=1.0), [0.1, 0.05, -0.1, -0.2], atol=1e-5
    )
    loud = SpringBlock(friction_right=0.1, friction_left=0.2, noise=1e5)
    np.testing.assert_allclose(loud.effective_friction([0.5, 0.0, -0.7], dt=1.0), -0.05, atol=1e-5)


@given(friction, friction, st.floats(0.02, 1.0), positive)
def test_drift_vanishes_at_the_stationary_curvature(right, left, noise, stiffness):
    chain = SpringBlock(friction_right=right, friction_left=left, noise=noise, stiffness=stiffness)
    force = stiffness * chain.stationary_curvature()
    assert abs(float(chain.mean_drift(force))) < 1e-14


def test_stationary_curvature_of_bounded_noise():
    chain = SpringBlock(friction_right=0.1, friction_left=0.2, noise=[0.0, 0.001, 0.005, 0.05])
    np.testing.assert_allclose(chain.stationary_curvature(), [0.1, -0.05, -0.05, -0.05])
    np.testing.assert_allclose(chain.stationary_curvature(0.01, 2.0), [0.1, 0.08, 0.0, -0.05], atol=1e-15)
    # where it stops above (7), no noise within the bound can move it either way
    for curvature, noise in ((0.08, 0.001), (0.0, 0.005)):
        stuck = SpringBlock(friction_right=0.1, friction_left=0.2, noise=noise)
        assert abs(float(stuck.mean_drift(curvature, truncate=2.0))) < 1e-16
        assert float(stuck.mean_drift(curvature + 0.01, truncate=2.0)) > 0


def test_stationary_curvature_is_mirrored_by_a_negative_target():
    pulled_left = {"friction_right": 0.2, "friction_left": 0.1, "target": -4.0, "noise": [0.0, 0.001, 0.05]}
    pulled_right = {"friction_right": 0.1, "friction_left": 0.2, "target": 4.0, "noise": [0.0, 0.001, 0.05]}
    left, right = (SpringBlock(**fields) for fields in (pulled_left, pulled_right))
    for bound in (None, 2.0):
        np.testing.assert_allclose(left.stationary_curvature(0.01, bound), -right.stationary_curvature(0.01, bound))
    still = SpringBlock(**(pulled_left | {"noise": 0.0}))
    run = still.simulate(400.0, 0.25, 1, save_points=2)
    np.testing.assert_allclose(run["curvature"][0, -1], still.stationary_curvature(), atol=1e-10)


def test_simulated_curvature_settles_at_equation_7():
    # from rest and from a convex curve, at a noise level that settles within the run
    chain = SpringBlock(blocks=3, friction_right=[0.1, 0.3], friction_left=[0.3, 0.1], noise=0.2)
    for start in (None, [0.6, 0.9, 1.0]):
        run = chain.simulate(150.0, 0.1, 2000, save_points=61, start=start, seed=8)
        settled = run["curvature"].isel(time=slice(30, None)).mean("time")
        error = settled.std("trial", ddof=1) / np.sqrt(2000)
        assert np.all(error < np.abs(chain.stationary_curvature() - np.array([0.1, 0.3])) / 5)
        assert np.all(np.abs(settled.mean("trial") - chain.stationary_curvature()) < 3 * error)


@pytest.mark.ci
@given(positive, friction, friction, st.floats(0.5, 2.0))
def test_mean_path_without_noise_is_the_noiseless_simulation(stiffness, right, left, target):
    chain = SpringBlock(
        blocks=4, stiffness=stiffness, friction_right=right, friction_left=left, noise=0.0, target=target
    )
    dt = 1e-3
    run = chain.simulate(4.0, dt, 1, save_points=5)
    path = chain.mean_path(run["time"].values, dt)
    # Euler's error: at most dt/2·∫|x''|, and |x''| ≤ 4k|x'|, so dt·2k times the distance covered
    assert np.abs(run["position"][0] - path).max() < 2 * stiffness * dt * target + 1e-8


@pytest.mark.ci
def test_mean_path_reaches_very_long_times():
    chain = SpringBlock(noise=0.05, stiffness=[1.0, 30.0])
    end = chain.mean_path([1e6])[:, 0]
    curvature = (1 - end[:, -1] - end[:, 0]) / 7
    np.testing.assert_allclose(curvature, chain.stationary_curvature(), atol=1e-8)


@pytest.mark.ci
def test_mean_path_settles_where_theory_says():
    chain = SpringBlock(friction_right=[0.1, 0.2, 0.05], noise=0.05)
    end = chain.mean_path([2000.0])[:, 0]
    extended = np.concatenate([np.zeros((3, 1)), end, np.ones((3, 1))], axis=1)
    curvature = np.diff(extended, 2, axis=1)
    np.testing.assert_allclose(curvature, np.repeat(chain.stationary_curvature()[:, None], 7, axis=1), atol=1e-6)


@pytest.mark.ci
def test_mean_path_meets_simulated_chains():
    chain = SpringBlock(friction_right=[0.02, 0.1], noise=0.01)
    run = chain.simulate(30.0, 0.01, 400, save_points=[0.0, 5.0, 30.0], seed=9)
    path = chain.mean_path(run["time"].values)
    error = 3 * run["position"].std("trial", ddof=1) / np.sqrt(400)
    # what fluctuations of variance k ε² add to the speed, ½ max|g''| k ε², over the time so far
    bound = 0.5 * 0.4 / 0.1 * 0.01**2 * run["time"].values[:, None]
    assert np.all(np.abs(run["position"].mean("trial") - path) < error + bound + 0.01 * 0.1)
    assert 0.1 * np.abs(path - chain.equilibrium()[:, None])[:, -1].max() > (0.4 / 0.1 * 0.01**2 * 30)


@pytest.mark.ci
def test_mean_path_with_decaying_and_bounded_noise():
    chain = SpringBlock(friction_right=0.1, friction_left=0.2, noise=0.012)
    for options in ({"noise_decay": 0.05}, {"truncate": 1.0}):
        run = chain.simulate(30.0, 0.01, 400, save_points=2, seed=9, **options).isel(time=-1)
        path = chain.mean_path([30.0], **options)[0]
        error = 3 * run["position"].std("trial", ddof=1) / np.sqrt(400)
        gap = np.abs(run["position"].mean("trial") - path)
        assert np.all(gap < error + 0.5 * 0.4 / 0.12 * 0.012**2 * 30)
        plain = chain.mean_path([30.0])[0]
        assert np.abs(plain - path).max() > 5 * float(gap.max())  # the option makes a difference that is resolved
