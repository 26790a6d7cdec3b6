"""Exact objects of one deep linear network: gradient, gradient noise and what both do to the teacher's modes.

Pure functions of the weights W_1 … W_L, each (d_l, d_{l−1}), on NumPy arrays (nothing to compile) or JAX arrays.
W_{>l} = W_L ⋯ W_{l+1}, W_{<l} = W_{l−1} ⋯ W_1, empty products are identities, Δ = M − W_L ⋯ W_1, vec stacks columns.
u_α and v_α are columns of `left` and `right`. Functions of the noise leave out the temperature that multiplies them.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dynascope.models.stepping import Array, Numeric

Weights = Sequence[Any]


def _namespace(weights: Weights) -> Any:
    return np if isinstance(weights[0], np.ndarray) else jnp


class Task(NamedTuple):
    """What a network learns: teacher M, its modes and the covariance Σ_q of the label noise."""

    teacher: Array  # (d_L, d_0)
    left: Array  # (d_L, mode)
    right: Array  # (d_0, mode)
    label_covariance: Array  # (d_L, d_L)


def partial_products(weights: Weights) -> tuple[list[Any], list[Any]]:
    """W_{<l} and W_{>l} for l = 1 … L.

    >>> before, after = partial_products([jnp.full((1, 1), 2.0), jnp.full((1, 1), 3.0)])
    >>> [float(w[0, 0]) for w in (*before, *after)]
    [1.0, 2.0, 3.0, 1.0]
    """
    xp = _namespace(weights)
    kind = weights[0].dtype
    before, after = [xp.eye(weights[0].shape[1], dtype=kind)], [xp.eye(weights[-1].shape[0], dtype=kind)]
    for w in weights[:-1]:
        before.append(w @ before[-1])
    for w in reversed(weights[1:]):
        after.append(after[-1] @ w)
    return before, after[::-1]


def end_to_end(weights: Weights) -> Any:
    """W_L ⋯ W_1."""
    return reduce(lambda product, w: w @ product, weights)


def loss(weights: Weights, task: Task) -> Any:
    """Population loss E|y − W x|²/2 = |Δ|²/2 + tr Σ_q/2: half the squared error, summed over outputs (2.1)."""
    xp = _namespace(weights)
    return (xp.sum((task.teacher - end_to_end(weights)) ** 2) + xp.trace(task.label_covariance)) / 2


def gradient(weights: Weights, task: Task) -> list[Any]:
    """∇_{W_l} loss = −W_{>l}ᵀ Δ W_{<l}ᵀ (Proposition 3.1)."""
    return [-each for each in spread(weights, task.teacher - end_to_end(weights))]


def spread(weights: Weights, kick: Array) -> list[Any]:
    """What a (d_L, d_0) matrix S does to every layer: W_{>l}ᵀ S W_{<l}ᵀ."""
    before, after = partial_products(weights)
    return [a.T @ kick @ b.T for a, b in zip(after, before, strict=True)]


def jacobian(weights: Weights) -> Any:
    """∂vec(W)/∂θ = [W_{<l}ᵀ ⊗ W_{>l}]_l, (d_L·d_0, P): Proposition 3.1, where W_{>l} is printed transposed."""
    xp = _namespace(weights)
    before, after = partial_products(weights)
    return xp.concatenate([xp.kron(b.T, a) for a, b in zip(after, before, strict=True)], axis=1)


def error_covariance(weights: Weights, task: Task) -> Any:
    """Covariance (I ⊗ Δ)(I + C)(I ⊗ Δ)ᵀ + I ⊗ Σ_q of vec(ε xᵀ) for one sample, with C vec(A) = vec(Aᵀ)."""
    xp = _namespace(weights)
    gap = task.teacher - end_to_end(weights)
    size = gap.shape[1]
    mixed = xp.kron(xp.eye(size), gap)
    swap = xp.eye(size**2).reshape((size,) * 4).swapaxes(0, 1).reshape(size**2, size**2)
    return mixed @ (xp.eye(size**2) + swap) @ mixed.T + xp.kron(xp.eye(size), task.label_covariance)


def noise_covariance(weights: Weights, task: Task) -> Any:
    """Σ = Jᵀ Cov[vec(ε xᵀ)] J, (P, P), of the gradient of one sample (Proposition 3.2)."""
    chain = jacobian(weights)
    return chain.T @ error_covariance(weights, task) @ chain


def _features(weights: Weights, task: Task) -> tuple[Any, Any]:
    """W_{>l} W_{>l}ᵀ u_α, (layer, d_L, mode), and W_{<l}ᵀ W_{<l} v_α, (layer, d_0, mode)."""
    xp = _namespace(weights)
    before, after = partial_products(weights)
    outer = xp.stack([a @ (a.T @ task.left) for a in after])
    inner = xp.stack([b.T @ (b @ task.right) for b in before])
    return outer, inner


def tangent_kernel(weights: Weights, task: Task) -> Any:
    """(v_α ⊗ u_α)ᵀ K_l (v_β ⊗ u_β) of every layer, (layer, mode, mode), K_l = W_{<l}ᵀW_{<l} ⊗ W_{>l}W_{>l}ᵀ."""
    xp = _namespace(weights)
    outer, inner = _features(weights, task)
    return xp.einsum("ia,lib->lab", task.left, outer) * xp.einsum("ia,lib->lab", task.right, inner)


def mode_diffusion(weights: Weights, task: Task) -> Any:
    """a_αᵀ Σ a_β, (mode, mode), without Σ (Proposition 3.3).

    With N_α = Σ_l W_{>l} W_{>l}ᵀ u_α v_αᵀ W_{<l}ᵀ W_{<l} and Q_α = Δᵀ N_α it is
    ⟨Q_α, Q_β⟩ + ⟨Q_α, Q_βᵀ⟩ + ⟨N_α, Σ_q N_β⟩.
    """
    xp = _namespace(weights)
    n = xp.einsum("lia,lja->aij", *_features(weights, task))
    q = xp.einsum("ki,akj->aij", task.teacher - end_to_end(weights), n)
    labels = xp.einsum("aij,ik,bkj->ab", n, task.label_covariance, n)
    return xp.einsum("aij,bij->ab", q, q) + xp.einsum("aij,bji->ab", q, q) + labels


def gradient_drift(weights: Weights, task: Task) -> Any:
    """−Σ_l ⟨∂w_α/∂W_l, ∇_{W_l} loss⟩ = (v_α ⊗ u_α)ᵀ Σ_l K_l vec Δ, (mode): printed with the opposite sign in 3.4."""
    xp = _namespace(weights)
    outer, inner = _features(weights, task)
    return xp.einsum("lia,ij,lja->a", outer, task.teacher - end_to_end(weights), inner)


def ito_drift(weights: Weights, task: Task) -> Any:
    """tr(Σ ∇²w_α)/2, (mode): what noise adds to the mean speed of a mode (Proposition 3.4), without Σ or Hessian.

    With x = W_{>l} W_{>l}ᵀ u_α, y = W_{<m}ᵀ W_{<m} v_α and K = W_{<l}ᵀ W_{l−1:m+1} W_{>m}ᵀ it is
    Σ_{l>m} [ yᵀ K (Δ Δᵀ + Σ_q) x + (xᵀ Δ y) tr(K Δ) ].
    """
    xp = _namespace(weights)
    before, after = partial_products(weights)
    outer, inner = _features(weights, task)
    gap = task.teacher - end_to_end(weights)
    force = xp.einsum("ij,lja->lia", gap @ gap.T + task.label_covariance, outer)
    total = xp.zeros(task.left.shape[1], gap.dtype)
    for m in range(len(weights) - 1):
        chain = xp.eye(weights[m].shape[0], dtype=gap.dtype)  # W_{l−1:m+1}
        for high in range(m + 1, len(weights)):
            kernel = before[high].T @ chain @ after[m].T
            total += xp.einsum("ja,ji,ia->a", inner[m], kernel, force[high])
            total += xp.einsum("ia,ij,ja->a", outer[high], gap, inner[m]) * xp.sum(kernel * gap.T)
            chain = weights[high] @ chain
    return total


def mode_hessian(weights: Weights, task: Task, mode: int) -> Any:
    """∇²w_α in the stacked coordinates, (P, P): (I ⊗ W_{>l}ᵀu)(vᵀW_{<m}ᵀ ⊗ W_{l−1:m+1}) for l > m (Proposition 3.4)."""
    xp = _namespace(weights)
    before, after = partial_products(weights)
    sizes = [w.size for w in weights]
    rows = [[xp.zeros((sizes[i], sizes[j])) for j in range(len(sizes))] for i in range(len(sizes))]
    for m in range(len(weights) - 1):
        chain = xp.eye(weights[m].shape[0])
        for high in range(m + 1, len(weights)):
            a = (after[high].T @ task.left[:, mode])[:, None]
            c = (before[m] @ task.right[:, mode])[None]
            block = xp.kron(xp.eye(weights[high].shape[1]), a) @ xp.kron(c, chain)
            rows[high][m], rows[m][high] = block, block.T
            chain = weights[high] @ chain
    return xp.block(rows)


def aligned_diffusion(amplitude: Array, values: Array, labels: Array, *, depth: int) -> Any:
    """(7) for balanced, aligned weights: L² (2 (s_α − w_α)² + labels_α) |w_α|^{4(L−1)/L}, labels_α = u_αᵀ Σ_q u_α.
    Source: deep-linear (7).
    """
    spread = 2 * (values - amplitude) ** 2 + labels
    return depth**2 * spread * _namespace([amplitude]).abs(amplitude) ** (4 * (depth - 1) / depth)


def predicted_diffusion(amplitude: Array, task: Task, values: Array, *, depth: int) -> Any:
    """What (7) says of the diffusion at these amplitudes, in units of the temperature. Source: deep-linear (7)."""
    labels = _namespace([amplitude]).einsum("ia,ij,ja->a", task.left, task.label_covariance, task.left)
    return aligned_diffusion(amplitude, values, labels, depth=depth)


def balance(weights: Weights) -> tuple[Any, Any]:
    """r_l of (33) and its numerator |W_l W_lᵀ − W_{l+1}ᵀ W_{l+1}|, (layer 1 … L−1). Source: deep-linear (33)."""
    xp = _namespace(weights)
    outer = [w @ w.T for w in weights[:-1]]
    inner = [w.T @ w for w in weights[1:]]
    numerator = xp.stack([xp.linalg.norm(o - i) for o, i in zip(outer, inner, strict=True)])
    scale = xp.stack([xp.linalg.norm(o) + xp.linalg.norm(i) for o, i in zip(outer, inner, strict=True)])
    return numerator / xp.where(scale > 0, scale, 1), numerator


def observe(weights: Weights, task: Task, values: Array, *, temperature: Numeric, kernel: bool) -> dict[str, Any]:
    """All that a run records of one network; `kernel` adds the tangent kernel of every layer."""
    xp = _namespace(weights)
    product = end_to_end(weights)
    cross = task.left.T @ product @ task.right
    amplitude = xp.diagonal(cross)
    diffusion = temperature * mode_diffusion(weights, task)
    seen = {
        "loss": loss(weights, task),
        "amplitude": amplitude,
        "cross_amplitude": cross,
        "diffusion": xp.diagonal(diffusion),
        "cross_diffusion": diffusion,
        "predicted_diffusion": temperature * predicted_diffusion(amplitude, task, values, depth=len(weights)),
        "gradient_drift": gradient_drift(weights, task),
        "ito_drift": temperature * ito_drift(weights, task),
        "weight_norm": xp.stack([xp.linalg.norm(w) for w in weights]),
        "end_to_end": product,
    }
    if len(weights) > 1:
        seen["balance"], seen["imbalance"] = balance(weights)
    if kernel:
        seen["tangent_kernel"] = tangent_kernel(weights, task)
    return seen


def data_loss(weights: Weights, inputs: Array, labels: Array) -> Any:
    """Mean of |y − W x|²/2 over a data set."""
    return jnp.sum((labels - inputs @ end_to_end(weights).T) ** 2) / (2 * len(inputs))


@partial(jax.jit, static_argnames="kernel")
def observe_many(weights: Weights, task: Task, values: Array, *, temperature: Numeric, kernel: bool) -> Any:
    """`observe` for weights with a leading trial axis, one network after another: the same arithmetic for each."""
    one = partial(observe, task=task, values=values, temperature=temperature, kernel=kernel)
    return lax.map(one, weights)


@jax.jit
def kernel_many(weights: Weights, task: Task) -> Any:
    """`tangent_kernel` for weights with a leading trial axis."""
    return lax.map(lambda each: tangent_kernel(each, task), weights)


@jax.jit
def data_loss_many(weights: Weights, inputs: Array, labels: Array) -> Any:
    """`data_loss` for weights with a leading trial axis."""
    return lax.map(lambda each: data_loss(each, inputs, labels), weights)
