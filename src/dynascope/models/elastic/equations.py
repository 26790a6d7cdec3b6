"""One step of the locally elastic model: of its SDE (5), and of the discrete process (1), (4) behind it.

Pure JAX functions for `stepping`. Class means are (class, feature, grid, trial), points (class, sample, feature, grid,
trial). Parameters: `elasticity`, a table (step, class, class) or (step, class, class, feature, feature), one row where
it is constant; `blocks` H (class, class, feature, feature); `sampling` P (class, class, 1, 1) and its row sums up to
each class but the last, `cumulative` (class, 1, class − 1, 1); `factor` of the noise; `noise` (grid, 1).
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import ndtr

from dynascope.models.stepping import Array, Numeric, Parameters, State


def _row(table: Array, time: Numeric, dt: Numeric, ahead: int = 0) -> Array:
    index = jnp.rint(time / dt).astype(jnp.int32) + ahead
    return table[jnp.minimum(index, len(table) - 1)]


def _pairs(elasticity: Array, blocks: Array) -> Array:
    """E_kl H_kl, (class, class, feature, feature)."""
    if elasticity.ndim == 4:
        return jnp.einsum("klij,kljm->klim", elasticity, blocks)
    return elasticity[..., None, None] * blocks


def _drift(mean: Array, pairs: Array, *, softmax: bool) -> Array:
    """Σ_l P_kl E_kl H_kl x_l, or of margins in place of x."""
    felt = _margins(mean) if softmax else mean
    return _sum_pairs(pairs, jnp.broadcast_to(felt, (len(mean), *felt.shape)))


def _sum_pairs(pairs: Array, felt: Array) -> Array:
    """Σ_lj pairs_klij felt_klj term after term: a reduction's order, and its last bit, would vary with the trials."""
    classes, _, features = felt.shape[:3]

    def add(term: Array, total: Array) -> Array:
        k, j = term // features, term % features
        return total + pairs[:, k, :, j, None, None] * felt[:, k, j, None]

    zero = jnp.zeros((classes, features, *felt.shape[3:]), felt.dtype)
    total: Array = lax.fori_loop(0, classes * features, add, zero, unroll=min(classes * features, 16))
    return total


def _margins(mean: Array) -> Array:
    own = jnp.eye(mean.shape[0], mean.shape[1], dtype=mean.dtype)[..., None, None]
    return own - jax.nn.softmax(mean, axis=1)


def _kick(noise: Array, factor: Array, shape: tuple[int, ...], *, coloured: bool) -> Array:
    """Standard normals shaped (class, …, feature, 1, trial), correlated by F (class, feature, class, feature)."""
    white = noise.reshape(*shape, *noise.shape[-2:])
    return jnp.einsum("kilj,l...jgt->k...igt", factor, white) if coloured else white


def euler_step(
    state: State, noise: Array, time: Numeric, p: Parameters, dt: Numeric, *, softmax: bool, coloured: bool
) -> State:
    """X̄ + M X̄ dt + (σ/√n) √dt ξ: weak order 1."""
    mean = state["mean"]
    pairs = p["sampling"] * _pairs(_row(p["elasticity"], time, dt), p["blocks"])
    kick = p["noise"] * jnp.sqrt(dt) * _kick(noise, p["factor"], mean.shape[:2], coloured=coloured)
    return {"mean": mean + dt * _drift(mean, pairs, softmax=softmax) + kick}


def heun_step(
    state: State, noise: Array, time: Numeric, p: Parameters, dt: Numeric, *, softmax: bool, coloured: bool
) -> State:
    """Average the drift at both ends of the step, under one noise: weak order 2, since the noise is additive."""
    mean = state["mean"]
    here, there = (p["sampling"] * _pairs(_row(p["elasticity"], time, dt, ahead), p["blocks"]) for ahead in (0, 1))
    kick = p["noise"] * jnp.sqrt(dt) * _kick(noise, p["factor"], mean.shape[:2], coloured=coloured)
    first = _drift(mean, here, softmax=softmax)
    second = _drift(mean + dt * first + kick, there, softmax=softmax)
    return {"mean": mean + dt * (first + second) / 2 + kick}


def discrete_step(
    state: State, noise: Array, time: Numeric, p: Parameters, dt: Numeric, *, softmax: bool, coloured: bool
) -> State:
    """One iteration of (4) with step size h = dt: a batch of (class, sample) is drawn, every point moves.

    X_i^k += (h/B) Σ_b E_kL H_kL X_J^L + √h σ ζ_i^k. The last 2 B noise numbers of a trial choose classes and samples.
    Where class k feels classes by probabilities of its own (rows of P differ), one uniform number serves all rows.
    Source: elastic (1), (4).
    """
    point = state["point"]
    classes, samples, features, _, trials = point.shape
    kicks = classes * samples * features
    uniform = ndtr(noise[kicks:, 0].reshape(2, -1, trials))  # (2, batch, trial)
    chosen = jnp.sum(uniform[0, None, :, None] >= p["cumulative"], axis=2)  # (class, batch, trial)
    index = jnp.minimum((uniform[1] * samples).astype(chosen.dtype), samples - 1)
    place = (chosen * samples + index).reshape(-1, 1, 1, trials)
    drawn = jnp.take_along_axis(point.reshape(classes * samples, *point.shape[2:]), place, axis=0)
    drawn = drawn.reshape(classes, -1, *point.shape[2:])  # (class, batch, feature, grid, trial)
    member = (chosen[:, :, None] == jnp.arange(classes)[:, None]).astype(point.dtype)  # (class, batch, class, trial)
    if softmax:
        label = jnp.moveaxis(jnp.eye(classes, features, dtype=point.dtype)[chosen], -1, 2)  # (…, feature, trial)
        drawn = label[:, :, :, None] - jax.nn.softmax(drawn, axis=2)
    felt = jnp.mean(member[:, :, :, None, None] * drawn[:, :, None], axis=1)  # (class, class, feature, grid, trial)
    pairs = _pairs(_row(p["elasticity"], time, dt), p["blocks"])
    moved = _sum_pairs(pairs, felt)  # (class, feature, grid, trial)
    kick = _kick(noise[:kicks], p["factor"], point.shape[:3], coloured=coloured)
    return {"point": point + dt * moved[:, None] + p["noise"] * jnp.sqrt(dt) * kick}


# one object for each variant: the compiler recognises a step by its identity
STEPS = {
    (name, softmax, coloured): partial(step, softmax=softmax, coloured=coloured)
    for name, step in (("euler", euler_step), ("heun", heun_step), ("discrete", discrete_step))
    for softmax in (False, True)
    for coloured in (False, True)
}
