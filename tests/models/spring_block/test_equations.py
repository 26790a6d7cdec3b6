"""The three dynamics against exact solutions of their linear cases, and friction block by block."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm, solve_discrete_lyapunov

from dynascope import SpringBlock
from dynascope.models.spring_block.equations import STEPS, dead_zone, second_difference
from dynascope.models.stepping import follow

BLOCKS = 4
LAPLACIAN = -2 * np.eye(BLOCKS) + np.eye(BLOCKS, k=1) + np.eye(BLOCKS, k=-1)


def frictionless(**parameters):
    return SpringBlock(blocks=BLOCKS, friction_right=0.0, friction_left=0.0, **parameters)


def slope(sizes, errors):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@given(st.floats(-2, 2), st.floats(0, 1), st.floats(0, 1))
def test_dead_zone_is_the_printed_case_distinction(force, right, left):
    expected = force - right if force > right else force + left if force < -left else 0.0
    assert float(dead_zone(np.float32(force), np.float32(right), np.float32(left))) == pytest.approx(expected, abs=1e-6)


def test_second_difference_is_the_laplacian():
    x = np.random.default_rng(0).normal(size=(BLOCKS, 3))
    expected = LAPLACIAN @ x + np.array([0, 0, 0, 2.5])[:, None]
    np.testing.assert_allclose(second_difference(jnp.asarray(x, jnp.float32), 2.5), expected, atol=1e-6)


@pytest.mark.ci
def test_overdamped_chain_converges_with_order_one():
    chain = frictionless(noise=0.0, stiffness=0.7)
    rest = np.arange(1, BLOCKS + 1) / (BLOCKS + 1)
    exact = rest - expm(0.7 * LAPLACIAN * 3.0) @ rest
    sizes = np.array([0.2, 0.1, 0.05, 0.025])
    ends = [chain.simulate(3.0, dt, 1, save_points=2)["position"][0, -1].values for dt in sizes]
    assert slope(sizes, [np.abs(end - exact).max() for end in ends]) == pytest.approx(1, abs=0.1)


@pytest.mark.ci
@pytest.mark.parametrize("dynamics", ["inertial", "langevin"])
def test_second_order_chain_converges_with_order_one(dynamics):
    chain = frictionless(noise=0.0, stiffness=0.7)
    rest = np.arange(1, BLOCKS + 1) / (BLOCKS + 1)
    system = np.block([[np.zeros((BLOCKS, BLOCKS)), np.eye(BLOCKS)], [0.7 * LAPLACIAN, -0.4 * np.eye(BLOCKS)]])
    exact = np.concatenate([rest, np.zeros(BLOCKS)]) - expm(system * 3.0) @ np.concatenate([rest, np.zeros(BLOCKS)])
    sizes, errors = np.array([0.1, 0.05, 0.025, 0.0125]), []
    for dt in sizes:
        run = chain.simulate(3.0, dt, 1, save_points=2, dynamics=dynamics, damping=0.4).isel(trial=0, time=-1)
        errors.append(np.abs(np.concatenate([run["position"], run["velocity"]]) - exact).max())
    assert slope(sizes, errors) == pytest.approx(1, abs=0.1)


def _covariance_agrees(samples, expected):
    """Sample covariance of (trial, variable) within three standard errors, entry by entry, with room for 36 entries."""
    count = len(samples)
    measured = np.cov(samples.T)
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / count)
    deviation = np.abs(measured - expected) / error
    assert deviation.max() < 4.0
    assert (deviation > 3).mean() < 0.05


@pytest.mark.parametrize("shared", [False, True])
def test_overdamped_fluctuations_are_those_of_the_linear_map(shared):
    dt, noise = 0.1, 0.05
    run = frictionless(noise=noise).simulate(100.0, dt, 4000, save_points=2, shared_noise=shared, seed=1)
    kick = noise**2 * dt * (np.ones((BLOCKS, BLOCKS)) if shared else np.eye(BLOCKS))
    expected = solve_discrete_lyapunov(np.eye(BLOCKS) + dt * LAPLACIAN, kick)
    _covariance_agrees(run["position"].isel(time=-1).values, expected)


@pytest.mark.parametrize("dynamics", ["inertial", "langevin"])
def test_second_order_fluctuations_are_those_of_the_linear_map(dynamics):
    dt, noise, damping = 0.1, 0.05, 0.8
    run = frictionless(noise=noise).simulate(150.0, dt, 4000, save_points=2, dynamics=dynamics, damping=damping, seed=2)
    velocity = np.hstack([dt * LAPLACIAN, (1 - damping * dt) * np.eye(BLOCKS)])
    position = np.hstack([np.eye(BLOCKS), np.zeros((BLOCKS, BLOCKS))]) + dt * velocity
    push = np.vstack([dt * np.eye(BLOCKS), np.eye(BLOCKS)]) * noise * np.sqrt(dt)
    expected = solve_discrete_lyapunov(np.vstack([position, velocity]), push @ push.T)
    last = run.isel(time=-1)
    _covariance_agrees(np.concatenate([last["position"], last["velocity"]], axis=1), expected)


def test_noise_decays_exponentially():
    dt, noise, decay, steps = 0.1, 0.05, 0.3, 80
    run = frictionless(noise=noise).simulate(steps * dt, dt, 4000, save_points=2, noise_decay=decay, seed=3)
    step, expected = np.eye(BLOCKS) + dt * LAPLACIAN, np.zeros((BLOCKS, BLOCKS))
    for index in range(steps):
        level = noise * np.exp(-decay * index * dt)
        expected = step @ expected @ step.T + level**2 * dt * np.eye(BLOCKS)
    _covariance_agrees(run["position"].isel(time=-1).values, expected)


@pytest.mark.parametrize("dynamics", ["inertial", "langevin"])
def test_a_block_at_rest_sticks_until_the_force_exceeds_friction(dynamics):
    options = {"duration": 5.0, "trials": 1, "dynamics": dynamics, "save_points": 3}
    held = SpringBlock(blocks=1, friction_right=0.5, noise=0.0, target=0.499).simulate(**options)
    assert np.all(held["position"] == 0)
    assert np.all(held["velocity"] == 0)
    freed = SpringBlock(blocks=1, friction_right=0.5, noise=0.0, target=0.501).simulate(**options)
    assert freed["position"][0, -1] > 0
    pulled_left = SpringBlock(blocks=1, friction_right=0.5, friction_left=0.1, noise=0.0, target=-0.2).simulate(
        **options
    )
    assert pulled_left["position"][0, -1] < 0


def test_a_sliding_block_stops_where_friction_has_eaten_its_energy():
    # one block, k = 1/2 on either side: x'' = y/2 − x − μ while it moves right; it turns at x = y − 2μ, without damping
    target, friction = 1.0, 0.2
    chain = SpringBlock(blocks=1, stiffness=0.5, friction_right=friction, friction_left=10.0, noise=0.0, target=target)
    run = chain.simulate(20.0, 1e-3, 1, dynamics="inertial", damping=0.0)
    end = run["position"][0, -1, 0]
    assert abs(float(end) - (target - 2 * friction)) < 2e-3  # the step moves the turning point by less than dt
    assert np.all(run["velocity"][0, -10:] == 0)


def test_inertia_without_friction_and_damping_keeps_its_energy():
    run = SpringBlock(friction_right=0.0, friction_left=0.0, noise=0.0).simulate(
        50.0, 0.001, 1, dynamics="inertial", damping=0.0
    )
    total = run["energy"] + 0.5 * (run["velocity"] ** 2).sum("block")
    assert abs(total / total[0, 0] - 1).max() < 2e-3  # a symplectic step: the error stays of order dt


@partial(jax.jit, static_argnames="dynamics")
def _end(dynamics, parameters, rows):
    state = {name: jnp.zeros(rows.shape[1:]) for name in ("position", "velocity")[: 1 + (dynamics != "overdamped")]}
    return follow(STEPS[dynamics], state, rows, parameters=parameters, dt=0.1)["position"][-1]


@pytest.mark.parametrize("dynamics", STEPS)
@given(st.floats(0.0, 0.3), st.floats(0.0, 0.3), st.floats(0.0, 0.1), st.floats(0.0, 2.0), st.integers(0, 100))
def test_mirrored_chain_moves_like_the_mirror_image(dynamics, right, left, noise, target, seed):
    """The symmetry behind (7): swap the frictions, flip target and noise, and every position flips."""
    rows = jnp.asarray(np.random.default_rng(seed).normal(size=(40, 3, 1, 4)), jnp.float32)
    common = {"stiffness": 1.0, "noise": noise, "damping": 1.0, "noise_decay": 0.0}
    image = _end(dynamics, common | {"friction_right": right, "friction_left": left, "target": target}, rows)
    mirror = _end(dynamics, common | {"friction_right": left, "friction_left": right, "target": -target}, -rows)
    np.testing.assert_allclose(image, -mirror, atol=1e-6)


@pytest.mark.ci
def test_gradients_run_through_the_dynamics():
    with jax.enable_x64(True):
        rows = jnp.asarray(np.random.default_rng(1).normal(size=(50, 3, 1, 8)))

        def mean_end(friction):
            parameters = {
                "stiffness": 1.0, "friction_right": friction, "friction_left": 0.2, "noise": 0.1, "target": 1.0,
                "noise_decay": 0.0,
            }  # fmt: skip
            path = follow(STEPS["overdamped"], {"position": jnp.zeros((3, 1, 8))}, rows, parameters=parameters, dt=0.1)
            return path["position"][-1].mean()

        expected = (mean_end(0.1 + 1e-6) - mean_end(0.1 - 1e-6)) / 2e-6
        np.testing.assert_allclose(jax.grad(mean_end)(0.1), expected, rtol=1e-6)
