"""Networks that hold exactly one mode, balanced and aligned: what the one-mode equation is held against.

Nothing here knows the mode equation: gradients come from automatic differentiation of the loss of single samples.
"""

from itertools import pairwise
from typing import Any

import jax
import numpy as np

WIDTHS = (4, 6, 5, 7, 6, 5, 3)  # input, hidden layers, and the output last
_CHUNK = 50_000  # samples at once


def one_mode_network(depth: int, amplitude: float, seed: int) -> tuple[list[Any], Any, Any]:
    """Layers of rank one with product amplitude·u vᵀ and equal norms, and the vectors u, v.

    >>> layers, u, v = one_mode_network(3, 0.5, seed=0)
    >>> product = layers[2] @ layers[1] @ layers[0]
    >>> bool(np.allclose(product, 0.5 * np.outer(u, v)))
    True
    """
    random = np.random.default_rng(seed)
    directions = [random.standard_normal(width) for width in (*WIDTHS[:depth], WIDTHS[-1])]
    directions = [direction / np.linalg.norm(direction) for direction in directions]
    weight = amplitude ** (1 / depth)
    layers = [weight * np.outer(after, before) for before, after in pairwise(directions)]
    return layers, directions[-1], directions[0]


def _product(layers: list[Any]) -> Any:
    total = layers[0]
    for layer in layers[1:]:
        total = layer @ total
    return total


@jax.jit
def population_gradient(layers: list[Any], teacher: Any) -> list[Any]:
    """Gradient of half the squared error on white inputs, by automatic differentiation.

    >>> layers, u, v = one_mode_network(2, 1.0, seed=0)
    >>> all(np.allclose(g, 0.0, atol=1e-6) for g in population_gradient(layers, np.outer(u, v)))
    True
    """
    gradient: list[Any] = jax.grad(lambda given: ((teacher - _product(given)) ** 2).sum() / 2)(layers)
    return gradient


def _mode(layers: list[Any], u: Any, v: Any) -> Any:
    return u @ _product(layers) @ v


@jax.jit
def _along_noise(
    inputs: Any, label_errors: Any, layers: list[Any], mean: list[Any], teacher: Any, u: Any, v: Any
) -> tuple[Any, Any]:
    """For every sample, the mode's derivative along the sample's noise, squared, and half its second derivative."""

    def loss(given: list[Any], x: Any, error: Any) -> Any:
        return ((teacher @ x + error - _product(given) @ x) ** 2).sum() / 2

    def one(x: Any, error: Any) -> tuple[Any, Any]:
        kick = [m - g for m, g in zip(mean, jax.grad(loss)(layers, x, error), strict=True)]

        def slope(given: list[Any]) -> Any:
            return jax.jvp(lambda at: _mode(at, u, v), (given,), (kick,))[1]

        first, second = jax.jvp(slope, (layers,), (kick,))
        return first**2, second / 2

    squares, bends = jax.vmap(one)(inputs, label_errors)
    return squares, bends


def sampled_coefficients(
    depth: int, amplitude: float, *, singular_value: float, label_noise: float, samples: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Drift, Itô drift and diffusion of the mode at temperature 1, as (value, standard error), from single samples.

    The noise of a sample is its gradient less the mean gradient. Along it, the mode's first derivative squared has the
    mean D, half its second derivative the mean μ_Ito.

    >>> found = sampled_coefficients(2, 0.5, singular_value=1.0, label_noise=0.0, samples=2000, seed=0)
    >>> round(found["drift"][0], 6)
    0.5
    """
    with jax.enable_x64(True):
        layers, u, v = one_mode_network(depth, amplitude, seed)
        teacher = singular_value * np.outer(u, v)
        mean = population_gradient(layers, teacher)
        slope = jax.jit(jax.grad(_mode))(layers, u, v)
        drift = -sum(float(np.vdot(a, b)) for a, b in zip(slope, mean, strict=True))
        random = np.random.default_rng([seed, 1])
        drawn = [
            _along_noise(
                random.standard_normal((_CHUNK, len(v))), label_noise * random.standard_normal((_CHUNK, len(u))),
                layers, mean, teacher, u, v,
            )
            for _ in range(-(-samples // _CHUNK))
        ]  # fmt: skip
        squares, bends = (np.concatenate([np.asarray(part[k]) for part in drawn])[:samples] for k in (0, 1))
    errors = [float(np.std(values, ddof=1)) / np.sqrt(samples) for values in (squares, bends)]
    return {
        "drift": (drift, 0.0),
        "diffusion": (float(squares.mean()), errors[0]),
        "ito_drift": (float(bends.mean()), errors[1]),
    }


def train_chains(
    depth: int,
    *,
    singular_value: float,
    learning_rate: float,
    label_noise: float,
    start: float,
    saves: Any,
    trials: int,
    seed: int,
    isotropic: float = 0.0,
) -> np.ndarray:
    """Train chains of `depth` scalar weights by online SGD with batch size 1, many at once: amplitude (trial, save).

    `saves` are step numbers. With `isotropic` > 0, gradient descent with Gaussian noise of that temperature on every
    weight instead (the source's isotropic Langevin dynamics).

    >>> amplitude = train_chains(2, singular_value=1.0, learning_rate=0.01, label_noise=0.0, start=0.1,
    ...                          saves=[0, 1000], trials=3, seed=0)
    >>> amplitude.round(2).tolist()
    [[0.1, 1.0], [0.1, 1.0], [0.1, 1.0]]
    """
    random = np.random.default_rng(seed)
    weights = np.full((depth, trials), start ** (1 / depth))
    column = {int(step): index for index, step in enumerate(saves)}
    saved = np.empty((trials, len(column)))
    for step in range(max(column) + 1):
        product = weights.prod(axis=0)
        if step in column:
            saved[:, column[step]] = product
        pull = singular_value - product
        if isotropic:
            kick = np.sqrt(isotropic * learning_rate) * random.standard_normal(weights.shape)
        else:
            x, noise = random.standard_normal((2, trials))
            pull, kick = (pull * x + label_noise * noise) * x, 0.0
        weights = weights + learning_rate * pull * product / weights + kick
    return saved
