"""Networks that hold exactly one mode, balanced and aligned: what the one-mode equation is held against.

Nothing here knows the mode equation: gradients come from automatic differentiation of the loss of single samples.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import jax
import numpy as np

from dynascope.experiments.deep_linear.sampling import Array, product
from dynascope.statistics.errors import Estimate, over_trials

WIDTHS = (4, 6, 5, 7, 6, 5, 3)  # input, hidden layers, and the output last
_CHUNK = 50_000  # samples at once


def one_mode_network(depth: int, amplitude: float, seed: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Layers of rank one with product amplitude·u vᵀ and equal norms, and the vectors u, v.

    >>> layers, u, v = one_mode_network(3, 0.5, seed=0)
    >>> bool(np.allclose(product(layers), 0.5 * np.outer(u, v)))
    True
    """
    random = np.random.default_rng(seed)
    directions = [random.standard_normal(width) for width in (*WIDTHS[:depth], WIDTHS[-1])]
    directions = [direction / np.linalg.norm(direction) for direction in directions]
    weight = amplitude ** (1 / depth)
    layers = [weight * np.outer(after, before) for before, after in pairwise(directions)]
    return layers, directions[-1], directions[0]


@jax.jit
def population_gradient(layers: Sequence[Array], teacher: Array) -> list[jax.Array]:
    """Gradient of half the squared error on white inputs, by automatic differentiation.

    >>> layers, u, v = one_mode_network(2, 1.0, seed=0)
    >>> all(np.allclose(g, 0.0, atol=1e-6) for g in population_gradient(layers, np.outer(u, v)))
    True
    """
    gradient: list[jax.Array] = jax.grad(lambda given: ((teacher - product(given)) ** 2).sum() / 2)(layers)
    return gradient


def _mode(layers: Sequence[Array], u: Array, v: Array) -> Array:
    return u @ product(layers) @ v


@jax.jit
def _along_noise(
    inputs: Array, label_errors: Array, layers: list[Array], mean: list[Array], teacher: Array, u: Array, v: Array
) -> tuple[jax.Array, jax.Array]:
    """For every sample, the mode's derivative along the sample's noise, squared, and half its second derivative."""

    def loss(given: list[Array], x: Array, error: Array) -> Array:
        return ((teacher @ x + error - product(given) @ x) ** 2).sum() / 2

    def one(x: Array, error: Array) -> tuple[jax.Array, jax.Array]:
        kick = [m - g for m, g in zip(mean, jax.grad(loss)(layers, x, error), strict=True)]

        first, second = jax.jvp(lambda w: jax.jvp(partial(_mode, u=u, v=v), (w,), (kick,))[1], (layers,), (kick,))
        return first**2, second / 2

    return jax.vmap(one)(inputs, label_errors)


def sampled_coefficients(
    depth: int, amplitude: float, *, singular_value: float, label_noise: float, samples: int, seed: int
) -> dict[str, Estimate]:
    """Drift, Itô drift and diffusion of the mode at temperature 1, from single samples.

    The noise of a sample is its gradient less the mean gradient. Along it, the mode's first derivative squared has the
    mean D, half its second derivative the mean μ_Ito.

    >>> found = sampled_coefficients(2, 0.5, singular_value=1.0, label_noise=0.0, samples=2000, seed=0)
    >>> round(float(found["drift"].mean), 6)
    0.5
    """
    with jax.enable_x64(True):
        layers, u, v = one_mode_network(depth, amplitude, seed)
        teacher = singular_value * np.outer(u, v)
        mean = population_gradient(layers, teacher)
        slope = jax.jit(jax.grad(_mode))(layers, u, v)
        drift = -sum(float(np.vdot(a, b)) for a, b in zip(slope, mean, strict=True))
        random = np.random.default_rng([seed, 1])
        drawn = []
        for _ in range(-(-samples // _CHUNK)):
            x, error = (random.standard_normal((_CHUNK, len(vector))) for vector in (v, u))
            drawn.append(_along_noise(x, label_noise * error, layers, mean, teacher, u, v))
        squares, bends = (
            np.concatenate([np.asarray(each) for each in part])[:samples] for part in zip(*drawn, strict=True)
        )
    exact = Estimate(np.asarray(drift), np.asarray(0.0))
    return {"drift": exact, "diffusion": over_trials(squares), "ito_drift": over_trials(bends)}


def train_chains(
    depth: int,
    learning_rate: float,
    start: float,
    saves: Sequence[float] | np.ndarray,
    *,
    trials: int,
    seed: int,
    label_noise: float = 0.0,
    isotropic: float = 0.0,
) -> np.ndarray:
    """Train chains of `depth` scalar weights towards 1 by online SGD with batch size 1: amplitude (trial, save).

    `saves` are step numbers. With `isotropic` > 0, gradient descent with Gaussian noise of that temperature on every
    weight instead (the source's isotropic Langevin dynamics).

    >>> train_chains(2, 0.01, 0.1, [0, 1000], trials=3, seed=0).round(2).tolist()
    [[0.1, 1.0], [0.1, 1.0], [0.1, 1.0]]
    """
    random = np.random.default_rng(seed)
    weights = np.full((depth, trials), start ** (1 / depth))
    column = {int(step): index for index, step in enumerate(saves)}
    saved = np.empty((trials, len(column)))
    for step in range(max(column) + 1):
        amplitude = weights.prod(axis=0)
        if step in column:
            saved[:, column[step]] = amplitude
        pull = 1.0 - amplitude
        if isotropic:
            kick = np.sqrt(isotropic * learning_rate) * random.standard_normal(weights.shape)
        else:
            x, noise = random.standard_normal((2, trials))
            pull, kick = (pull * x + label_noise * noise) * x, 0.0
        weights = weights + learning_rate * pull * amplitude / weights + kick
    return saved
