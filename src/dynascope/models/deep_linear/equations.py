"""One step of each optimiser, for one network: pure functions of the weights, a row of normals and parameters.

A step adds W_{>l}ᵀ (kick) (W_{<l} x)ᵀ to every layer in one pass of backpropagation. The population's gradient is the
pass with x = identity and kick = Δ dt; gradient noise is one more kick before the same pass.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr

from dynascope.models.stepping import Array, Parameters

Weights = tuple[Array, ...]
Step = Callable[[Weights, Array, Parameters], Weights]


def product(left: Array, right: Array) -> Array:
    """The matrix product as multiply-and-sum, which XLA fuses: a third of the time of `@` for small matrices.

    >>> product(jnp.ones((2, 3)), jnp.ones((3, 1))).tolist()
    [[3.0], [3.0]]
    """
    return jnp.sum(left[:, :, None] * right[None], axis=1)


def forward(weights: Weights, inputs: Array | None = None) -> tuple[list[Array | None], Array]:
    """Activations in front of every layer and the output; inputs None stand for the identity."""
    activations, now = [inputs], weights[0] if inputs is None else product(weights[0], inputs)
    for w in weights[1:]:
        activations.append(now)
        now = product(w, now)
    return activations, now


def descend(weights: Weights, activations: Sequence[Array | None], kick: Array) -> Weights:
    """W_l + W_{>l}ᵀ kick (W_{<l} x)ᵀ for every layer."""
    moved = []
    for w, activation in zip(reversed(weights), reversed(activations), strict=True):
        moved.append(w + (kick if activation is None else product(kick, activation.T)))
        kick = product(w.T, kick)
    return tuple(reversed(moved))


def _mean_error(gap: Array, p: Parameters) -> Array:
    """E[ε xᵀ]: Δ over the population, Δ⟨x xᵀ⟩ + ⟨q xᵀ⟩ over a data set."""
    return product(gap, p["input_covariance"]) + p["label_input"] if "inputs" in p else gap


def gd_step(weights: Weights, row: object, p: Parameters) -> Weights:
    """W_l − dt ∇_{W_l} loss: gradient descent with learning rate dt, or gradient flow by Euler's method."""
    activations, output = forward(weights)
    return descend(weights, activations, p["dt"] * p["loss_scale"] * _mean_error(p["teacher"] - output, p))


def _subset(row: Array, size: int) -> Array:
    """Indices of distinct samples: the first of a Fisher-Yates shuffle, whose swaps are looked up, not stored.

    Draw k swaps places k and draws[k]; what place p held before is found by undoing the earlier swaps, latest first.
    """
    order = np.arange(len(row))
    left = size - order
    draws = order + jnp.minimum((ndtr(row) * left).astype(jnp.int32), left - 1)

    def undo(back: Array, place: Array) -> Array:
        swap = len(row) - 1 - back
        return jnp.where((order > swap) & (place == draws[swap]), swap, place)

    chosen: Array = lax.fori_loop(0, len(row), undo, draws)
    return chosen


def sgd_step(weights: Weights, row: Array, p: Parameters) -> Weights:
    """W_l − η ∇ of the mean loss of a batch: fresh samples y = M x + q, or some of a data set without replacement."""
    outputs, inputs = p["teacher"].shape
    if "inputs" in p:
        chosen = _subset(row, len(p["inputs"]))
        x, labels = p["inputs"][chosen].T, p["labels"][chosen].T
    else:
        samples = row.reshape(-1, inputs + outputs).T  # (x and q, sample)
        x = samples[:inputs]
        labels = product(p["teacher"], x)
        if "label_root" in p:
            labels += product(p["label_root"], samples[inputs:])
    activations, output = forward(weights, x)
    return descend(weights, activations, p["dt"] * p["loss_scale"] / x.shape[1] * (labels - output))


def symmetric_noise(row: Array, size: int) -> Array:
    """(G + Gᵀ)/√2 for a standard normal G, from its size·(size + 1)/2 independent entries.

    >>> [[round(float(entry), 3) for entry in line] for line in symmetric_noise(jnp.array([1.0, 3.0, 2.0]), 2)]
    [[1.414, 3.0], [3.0, 2.828]]
    """
    place = np.zeros((size, size), np.int32)
    place[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    scale = np.where(np.eye(size) > 0, np.sqrt(2.0), 1.0)
    return row[np.maximum(place, place.T)] * scale.astype(row.dtype)


def error_noise(row: Array, gap: Array, p: Parameters) -> Array:
    """A Gaussian S with the covariance of ε xᵀ, ε = Δ x + q the error of one sample.

    Over the population S = Δ (G + Gᵀ)/√2 + Σ_q^{1/2} G': E[(x xᵀ − 1)_ij (x xᵀ − 1)_kl] = δ_ik δ_jl + δ_il δ_jk is also
    the covariance of (G + Gᵀ)/√2. It costs O(d³) where a root of Proposition 3.2 costs O(P³). Over a data set
    S = Σ_i z_i (ε_i x_iᵀ − mean)/√N.
    """
    if "inputs" in p:
        errors = p["labels"] - p["inputs"] @ (p["teacher"] - gap).T  # (sample, d_L)
        weighted = errors.T @ (row[:, None] * p["inputs"]) - jnp.sum(row) * _mean_error(gap, p)
        return jnp.asarray(weighted / jnp.sqrt(jnp.asarray(len(row), row.dtype)))
    size = gap.shape[1]
    pairs = size * (size + 1) // 2
    noise = product(gap, symmetric_noise(row[:pairs], size))
    return noise + product(p["label_root"], row[pairs:].reshape(gap.shape)) if "label_root" in p else noise


def langevin_step(weights: Weights, row: Array, p: Parameters) -> Weights:
    """dθ = −∇loss dt + √(η Σ_b(θ)) dB, (1), by Euler and Maruyama; the noise has the exact covariance of SGD's.
    Source: deep-linear (1).
    """
    activations, output = forward(weights)
    gap = p["teacher"] - output
    noise = jnp.sqrt(p["temperature"] * p["dt"]) * error_noise(row, gap, p)
    return descend(weights, activations, p["loss_scale"] * (p["dt"] * _mean_error(gap, p) + noise))


def isotropic_step(weights: Weights, row: Array, p: Parameters) -> Weights:
    """dθ = −∇loss dt + √(η/b) σ dB: noise that is the same in all directions and everywhere."""
    strength, used, kicked = jnp.sqrt(p["temperature"] * p["dt"]) * p["isotropic_noise"], 0, []
    for w in gd_step(weights, row, p):
        kicked.append(w + strength * row[used : used + w.size].reshape(w.shape))
        used += w.size
    return tuple(kicked)


def elements(method: str, p: Parameters, *, batch_size: int, weights: int) -> int:
    """How many normals a step of a method takes; `weights` is the number of all weights."""
    outputs, inputs = map(int, p["teacher"].shape)
    if method == "gd":
        return 0
    if method == "isotropic":
        return weights
    if "inputs" in p:
        return batch_size if method == "sgd" else len(p["inputs"])
    if method == "sgd":
        return batch_size * (inputs + outputs)
    return inputs * (inputs + 1) // 2 + (inputs * outputs if "label_root" in p else 0)


STEPS = {"gd": gd_step, "sgd": sgd_step, "langevin": langevin_step, "isotropic": isotropic_step}
