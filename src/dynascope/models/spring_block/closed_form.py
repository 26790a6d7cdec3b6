"""What is known of the chain without simulating it.

Arrays carry the grid in front and their own axes behind. s = ε/√dt is the size of the noise force in one
window of length dt: the window is part of the model, and another dt means another noise level.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float
from scipy.special import erf, log_ndtr

from dynascope.models.spring_block.equations import second_difference
from dynascope.models.stepping import Numeric


def equilibrium(
    blocks: int,
    stiffness: np.ndarray,
    friction_right: np.ndarray,
    friction_left: np.ndarray,
    target: np.ndarray,
    *,
    published: bool,
) -> Float[np.ndarray, "*grid block"]:
    """Where a noiseless chain released at 0 comes to rest: (6), with blocks that never move.

    With n = max{i ≤ L : i(i+1) μ/(2k) < |y|} the first L − n blocks stay at 0 and the others follow (6) with
    n in place of L. `published` gives (6) as printed, which assumes n = L. Source: spring-block (6).
    """
    friction = np.where(target >= 0, friction_right, friction_left)[..., None] / stiffness[..., None]
    distance = np.abs(target)[..., None]
    index = np.arange(1, blocks + 1)
    moving = np.full_like(distance, blocks)
    if not published:
        moving = np.sum(index * (index + 1) / 2 * friction < distance, axis=-1, keepdims=True)
    place = index - (blocks - moving)  # counted from the last block that sticks
    position = distance * place / (moving + 1) - friction * (moving * place - place * (place - 1)) / 2
    return np.asarray(np.sign(target)[..., None] * np.where(place > 0, position, 0.0))


def expected_excess(threshold: Numeric, bound: float) -> jax.Array:
    """h(a) = E[(ζ − a)₊] of standard normal noise conditioned on |ζ| ≤ bound (infinity for none).

    >>> round(float(expected_excess(jnp.array(0.0), np.inf)), 4)
    0.3989
    """
    inside = jnp.clip(threshold, -bound, bound)
    above = norm.cdf(-inside) - norm.cdf(-bound)
    return jnp.asarray((norm.pdf(inside) - norm.pdf(bound) - threshold * above) / erf(bound / np.sqrt(2)))


@partial(jax.jit, static_argnames=("bound",))
def mean_drift(force: Numeric, right: Numeric, left: Numeric, strength: Numeric, bound: float) -> jax.Array:
    """g(m) = E[σ(m + s ζ)] = s·[h((μ→ − m)/s) − h((m + μ←)/s)]; without noise the dead zone itself.

    Smooth in everything while s > 0, so that fits and gradients go through it.
    """
    noisy = strength > 0
    s = jnp.where(noisy, strength, 1.0)
    smooth = s * (expected_excess((right - force) / s, bound) - expected_excess((force + left) / s, bound))
    return jnp.where(noisy, smooth, jnp.maximum(force - right, 0) + jnp.minimum(force + left, 0))


@partial(jax.jit, static_argnames=("bound", "long", "fitting"))
def mean_path(
    start: Float[Array, " block"],
    times: Float[Array, " time"],
    p: dict[str, Any],
    bound: float,
    long: bool,
    *,
    fitting: bool = False,
) -> Float[Array, "time block"]:
    """Integrate x' = g(k Lx) for one chain; the noise level decays as exp(−τ t).

    An explicit solver may not step beyond the fastest spring's time; for `long` times an implicit one takes over.
    Derivatives go backwards through the solver; `fitting` lets them go forwards, for few parameters and many times, and
    takes longer steps, which err by less than 1e-4 of the target.
    """
    import diffrax  # noqa: PLC0415 (half a second, and only this function needs it)

    def slope(time: Numeric, x: jax.Array, _: None) -> jax.Array:
        strength = p["strength"] * jnp.exp(-p["noise_decay"] * time)
        force = p["stiffness"] * second_difference(x, p["target"])
        return jnp.asarray(mean_drift(force, p["friction_right"], p["friction_left"], strength, bound))

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(slope),
        diffrax.Kvaerno5() if long else diffrax.Tsit5(),
        t0=0.0,
        t1=times[-1],
        dt0=None,
        y0=start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(*((1e-5, 1e-6) if fitting else (1e-8, 1e-10))),
        max_steps=1_000_000,
        adjoint=diffrax.ForwardMode() if fitting else diffrax.RecursiveCheckpointAdjoint(),
    )
    return jnp.asarray(solution.ys)


def stationary_curvature(
    stiffness: np.ndarray, right: np.ndarray, left: np.ndarray, strength: np.ndarray, bound: float
) -> np.ndarray:
    """Mean second difference of the positions in the stationary state.

    σ is odd about (μ→ − μ←)/2, so symmetric unbounded noise of any strength gives exactly (7),
    (μ→ − μ←)/(2k). Noise with |ζ| ≤ z cannot move a block right once k Δd ≤ μ→ − z s; if that happens above
    (7) the chain stops there. Without noise it stops at μ→/k, as in (6). Source: spring-block (7).
    """
    reach = np.where(strength > 0, bound * np.where(strength > 0, strength, 1.0), 0.0)
    return np.asarray(np.maximum((right - left) / 2, right - reach) / stiffness)


def effective_friction(
    force: np.ndarray, right: np.ndarray, left: np.ndarray, strength: np.ndarray, bound: float
) -> np.ndarray:
    """μ_eff = E[m − σ(m + s ζ) | the block moves] = m − g(m)/P(move), m = k Δd.

    Where no noise can move the block: the sliding friction if it slides, else m itself, which static friction
    balances; both are limits of small noise. Ratios of tails are taken after dividing out the larger of them,
    so that rare moves do not turn into 0/0.
    """
    s = np.where(strength > 0, strength, 1.0)
    exits = (right - force) / s, (force + left) / s  # noise beyond these moves the block right, left
    scale = np.clip(np.minimum(*exits), 0, bound) ** 2 / 2  # the likelier exit sets it

    def exit_moments(a: Any) -> tuple[Any, Any]:  # arrays, or single numbers that NumPy makes of them
        inside = np.clip(a, -bound, bound)
        chance = np.exp(log_ndtr(-inside) + scale) - np.exp(log_ndtr(-bound) + scale)
        density = np.exp(scale - inside**2 / 2) - np.exp(scale - bound**2 / 2)
        return chance, density / np.sqrt(2 * np.pi) - a * chance

    (to_right, excess_right), (to_left, excess_left) = map(exit_moments, exits)
    moves = to_right + to_left
    still = np.where(force > right, right, np.where(force < -left, -left, force))
    driven = (strength > 0) & (moves > 0)
    return np.where(driven, force - s * (excess_right - excess_left) / np.where(driven, moves, 1.0), still)
