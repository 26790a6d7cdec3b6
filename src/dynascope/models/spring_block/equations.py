"""The chain's equations of motion, one pure step each.

Positions are shaped (block, grid, trial). The chain hangs between x_0 = 0 (the data) and x_{L+1} = y (the
target). Numbers in brackets are those of the source, spring-block.
"""

import jax
import jax.numpy as jnp

from dynascope.models.stepping import Array, Numeric, Parameters, State


def dead_zone(force: Numeric, right: Numeric, left: Numeric) -> jax.Array:
    """What friction leaves of a force: σ(z) = z − μ→ above μ→, z + μ← below −μ←, else 0 (under (5)).
    Source: spring-block (5).

    >>> dead_zone(jnp.array([-0.5, 0.05, 0.5]), 0.1, 0.2).round(3).tolist()
    [-0.30000001192092896, 0.0, 0.4000000059604645]
    """
    return jnp.maximum(force - right, 0) + jnp.minimum(force + left, 0)


def second_difference(position: Array, target: Numeric) -> jax.Array:
    """(Lx)_ℓ = x_{ℓ+1} − 2 x_ℓ + x_{ℓ−1} along the first axis, with x_0 = 0 and x_{L+1} = target.

    >>> second_difference(jnp.array([0.0, 0.5]), 1.0).tolist()
    [0.5, 0.0]
    """
    edge = jnp.zeros_like(position[:1])
    right = jnp.concatenate([position[1:], edge])
    left = jnp.concatenate([edge, position[:-1]])
    # the target is added by a mask: padding with it would keep the compiler from vectorising (twice the time)
    last = jnp.arange(len(position)).reshape(-1, *(1,) * (position.ndim - 1)) == len(position) - 1
    return right - 2 * position + left + last * target


def _noise_level(time: Numeric, p: Parameters) -> jax.Array:
    """ε(t) = ε₀ exp(−τ t), under (S5)."""
    return jnp.asarray(p["noise"] * jnp.exp(-p["noise_decay"] * time))


def overdamped_step(state: State, noise: Numeric, time: Numeric, p: Parameters, dt: Numeric) -> State:
    """X' = σ(k Lx + ε ξ) (5): in a window of length dt the noise force is (ε/√dt)·N(0,1). Source: spring-block (5)."""
    x = state["position"]
    force = p["stiffness"] * second_difference(x, p["target"]) + _noise_level(time, p) / jnp.sqrt(dt) * noise
    return {"position": x + dt * dead_zone(force, p["friction_right"], p["friction_left"])}


def _slide(velocity: Array, force: Numeric, p: Parameters, dt: Numeric) -> jax.Array:
    """Velocity after one step under a force and stick-slip friction (S3).

    A resting block stays until the force exceeds the static friction; a moving block feels the sliding
    friction against its motion. A block whose velocity would change sign within the step stops on the way, and
    static friction decides whether the force carries it on for the rest of the step: friction alone never
    reverses a block, and without friction the step is the plain one. Source: spring-block (S3).
    """
    right, left = p["friction_right"], p["friction_left"]
    driven = dead_zone(force, right, left)  # acceleration of a block at rest
    sliding = force + jnp.where(velocity > 0, -right, left)
    after = velocity + dt * sliding
    reverses = velocity * after < 0
    stopped_for = dt + velocity / jnp.where(reverses, sliding, 1)  # what is left of the step at the stop
    return jnp.where(velocity == 0, dt * driven, jnp.where(reverses, stopped_for * driven, after))


def inertial_step(state: State, noise: Numeric, time: Numeric, p: Parameters, dt: Numeric) -> State:
    """X'' = k Lx − γ x' + f + ε ξ with unit masses, friction acting on the noisy force (4), (S2), (S3).
    Source: spring-block (4), (S2), (S3).
    """
    x, v = state["position"], state["velocity"]
    force = p["stiffness"] * second_difference(x, p["target"]) - p["damping"] * v
    v = _slide(v, force + _noise_level(time, p) / jnp.sqrt(dt) * noise, p, dt)
    return {"position": x + dt * v, "velocity": v}


def langevin_step(state: State, noise: Numeric, time: Numeric, p: Parameters, dt: Numeric) -> State:
    """Dv = (k Lx − f(v) − γ v) dt + ε(t) dW: noise joins the velocity after friction (S4), (S5).
    Source: spring-block (S4), (S5).
    """
    x, v = state["position"], state["velocity"]
    force = p["stiffness"] * second_difference(x, p["target"]) - p["damping"] * v
    v = _slide(v, force, p, dt) + _noise_level(time, p) * jnp.sqrt(dt) * noise
    return {"position": x + dt * v, "velocity": v}


STEPS = {"overdamped": overdamped_step, "inertial": inertial_step, "langevin": langevin_step}
