"""The losses of the layerwise chapters as they are written down: what gradient flow descends.

Each is a JAX function of a dict of weights and a tuple of data.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

Weights = Mapping[str, jax.Array]
Data = tuple[jax.Array, ...]


def population_loss(weights: Weights, data: Data) -> jax.Array:
    """½ E[(f − f*)²] (1.11), (3.2) for a linear model whose features have the given covariance."""
    covariance, truth = data
    error = weights["w"] - truth
    return error @ covariance @ error / 2


def training_loss(weights: Weights, data: Data) -> jax.Array:
    """The loss of (1.12), 1/(2n) of the squared error on n samples."""
    features, labels = data
    return jnp.sum((features @ weights["w"] - labels) ** 2) / (2 * labels.shape[0])


def diagonal_loss(weights: Weights, data: Data) -> jax.Array:
    """½ Σ E[x²] (a b − S)²: (3.2) for the diagonal network on independent inputs."""
    variance, target = data
    return jnp.sum(variance * (weights["first"] * weights["second"] - target) ** 2) / 2


def two_layer_loss(weights: Weights, data: Data) -> jax.Array:
    """½ E|xᵀW₁W₂ − y|² for E[x yᵀ] = covariance·teacher, summed over networks and without its constant."""
    covariance, teacher = data
    error = weights["first"] @ weights["second"] - teacher
    return jnp.sum(error * (covariance @ error)) / 2


def scalar_loss(weights: Weights, data: Data) -> jax.Array:
    """Half the squared error of (6.1), one network per row, summed over networks."""
    target, scale, variance = data
    output = jnp.sum(weights["first"] * weights["second"], axis=-1) / scale
    return jnp.sum(variance * (output - target) ** 2) / 2
