"""Exact objects of deep linear networks against autodiff and Monte Carlo, at random sizes."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope import DeepLinear
from dynascope.models.deep_linear import exact


def _network(widths, seed, **options):
    """A network with full label noise, and random weights that are neither balanced nor aligned."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(widths[-1], widths[-1])) / 2
    net = DeepLinear(
        depth=len(widths) - 1,
        width=list(widths),
        teacher=random.normal(size=(widths[-1], widths[0])) if min(widths) >= min(widths[0], widths[-1]) else [1.0],
        label_noise_covariance=root @ root.T,
        network_seed=seed,
        **options,
    )
    weights = [random.normal(size=shape) / 2 for shape in zip(widths[1:], widths[:-1], strict=True)]
    return net, weights


def _stack(matrices):
    """Vec of every layer, one behind the other; vec stacks columns."""
    return np.concatenate([np.swapaxes(m, -1, -2).reshape(*m.shape[:-2], -1) for m in matrices], axis=-1)


def _sample_loss(weights, x, y):
    return jnp.sum((y - exact.end_to_end(weights) @ x) ** 2) / 2


@jax.jit
def _autodiff_loss(weights, teacher):
    return jax.grad(lambda w: jnp.sum((teacher - exact.end_to_end(w)) ** 2) / 2)(weights)


@jax.jit
def _autodiff_map(weights):
    return jax.jacobian(lambda w: exact.end_to_end(w).T.ravel())(weights)


@partial(jax.jit, static_argnums=3)
def _autodiff_mode(vector, left, right, shapes):
    def amplitude(stacked):
        layers, used = [], 0
        for rows, columns in shapes:
            layers.append(stacked[used : used + rows * columns].reshape(columns, rows).T)
            used += rows * columns
        return left @ exact.end_to_end(layers) @ right

    return jax.hessian(amplitude)(vector)


# few shapes: autodiff compiles for each
widths = st.sampled_from([(3, 2), (2, 3, 4), (3, 3, 3), (2, 4, 3, 2), (2, 3, 1, 2), (2, 3, 2, 4, 3)])
seeds = st.integers(0, 2**20)


@given(widths, seeds)
def test_gradient_and_jacobian_are_those_of_autodiff(sizes, seed):
    net, weights = _network(sizes, seed)
    with jax.enable_x64(True):
        layers = [jnp.asarray(w) for w in weights]
        expected, slopes = _autodiff_loss(layers, net.teacher), _autodiff_map(layers)
    for own, other in zip(net.gradient(weights), expected, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-12)
    stacked = np.concatenate([np.swapaxes(s, -1, -2).reshape(len(s), -1) for s in slopes], axis=1)
    np.testing.assert_allclose(net.jacobian(weights), stacked, atol=1e-12)


@pytest.mark.ci
@given(widths, seeds)
def test_mode_hessian_is_that_of_autodiff(sizes, seed):
    net, weights = _network(sizes, seed)

    with jax.enable_x64(True):
        shapes = tuple(w.shape for w in weights)
        expected = _autodiff_mode(jnp.asarray(_stack(weights)), net.left[:, 0], net.right[:, 0], shapes)
    np.testing.assert_allclose(net.mode_hessian(weights, 0), expected, atol=1e-12)


@given(widths, seeds)
def test_diffusion_and_drifts_follow_from_the_full_covariance(sizes, seed):
    """The factored forms against Propositions 3.2 to 3.4 written out with P × P matrices."""
    net, weights = _network(sizes, seed, learning_rate=0.03, batch_size=2)
    covariance, slopes = net.noise_covariance(weights), net.jacobian(weights)
    modes = np.stack([np.kron(v, u) for u, v in zip(net.left.T, net.right.T, strict=True)])
    along = modes @ slopes  # a_α, (mode, P)
    size = max(1.0, np.abs(covariance).max() * np.abs(along).max() ** 2)
    np.testing.assert_allclose(net.mode_diffusion(weights), 0.015 * along @ covariance @ along.T, atol=1e-12 * size)
    np.testing.assert_allclose(net.mode_diffusion(weights, isotropic=True), 0.015 * along @ along.T, atol=1e-12 * size)
    sde = net.mode_sde(weights)
    np.testing.assert_allclose(sde.gradient_drift, -along @ _stack(net.gradient(weights)), atol=1e-11 * size)
    for mode in range(len(modes)):
        traced = 0.015 / 2 * np.sum(covariance * net.mode_hessian(weights, mode))
        np.testing.assert_allclose(sde.ito_drift[mode], traced, atol=1e-11 * size)
    kernels = net.tangent_kernel(weights)
    np.testing.assert_allclose(kernels.sum(0), slopes @ slopes.T, atol=1e-11 * size)


@given(st.integers(1, 5), seeds, st.floats(0.0, 1.0))
def test_closed_forms_hold_on_balanced_aligned_weights(depth, seed, noise):
    random = np.random.default_rng(seed)
    values, amplitude = random.uniform(0.1, 1.5, 3), random.uniform(0.05, 1.5, 3)
    net = DeepLinear(depth, [int(d) for d in random.integers(3, 6, depth + 1)], values, label_noise=noise)
    weights = net.aligned_weights(amplitude)
    for first, second in pairwise(weights):
        np.testing.assert_allclose(first @ first.T, second.T @ second, atol=1e-12)
    diffusion = net.mode_diffusion(weights)
    np.testing.assert_allclose(diffusion.diagonal(), net.predicted_diffusion(amplitude), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(diffusion - np.diag(diffusion.diagonal()), 0.0, atol=1e-14)
    np.testing.assert_allclose(net.ito_drift(weights), net.aligned_ito_drift(amplitude), rtol=1e-9, atol=1e-14)
    speed = depth * (values - amplitude) * amplitude ** (2 - 2 / depth)
    np.testing.assert_allclose(net.mode_sde(weights).gradient_drift, speed, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sizes", [(3, 4, 2), (2, 4, 3, 3), (2, 3, 2, 3, 2)])
def test_covariance_and_factored_noise_are_those_of_single_samples(sizes):
    """All entries within 4 standard errors, for per-sample gradients and for the sampled noise."""
    net, weights = _network(sizes, 5)
    samples = 100_000
    random = np.random.default_rng(1)
    x = random.normal(size=(samples, sizes[0]))
    y = x @ net.teacher.T + random.multivariate_normal(np.zeros(sizes[-1]), net.label_noise_covariance, samples)
    with jax.enable_x64(True):
        slopes = jax.jit(jax.vmap(jax.grad(_sample_loss), in_axes=(None, 0, 0)))(
            [jnp.asarray(w) for w in weights], x, y
        )
    expected = net.noise_covariance(weights)
    for drawn in (_stack([np.asarray(s) for s in slopes]), _stack(net.sample_noise(weights, seed=3, samples=samples))):
        centred = drawn - drawn.mean(0)
        measured = centred.T @ centred / samples
        spread = np.sqrt((centred**2).T @ centred**2 / samples - measured**2)
        assert np.all(np.abs(measured - expected) <= 4 * spread / np.sqrt(samples) + 1e-12)


def test_objects_over_a_grid_and_leading_axes():
    net = DeepLinear(2, 3, [1.0, 0.5], label_noise=[0.0, 0.2], learning_rate=[[0.1], [0.2], [0.3]])
    weights = net.initial_weights(4)
    assert net.mode_diffusion(weights).shape == (3, 2, 4, 2, 2)
    assert net.ito_drift(weights).shape == (3, 2, 4, 2)
    assert net.predicted_diffusion([0.2, 0.1]).shape == (3, 2, 2)
    assert net.aligned_ito_drift([0.2, 0.1]).shape == (3, 2, 2)
    alone = DeepLinear(2, 3, [1.0, 0.5], label_noise=0.2, learning_rate=0.3)
    np.testing.assert_allclose(net.mode_diffusion(weights)[2, 1], alone.mode_diffusion(weights), rtol=1e-12)
    assert [layer.shape for layer in net.sample_noise([w[0] for w in weights], samples=5)] == [(3, 2, 5, 3, 3)] * 2


def test_bad_weights_are_refused():
    net = DeepLinear(2, [3, 4, 3])
    with pytest.raises(ValueError, match="weights must be a list of 2 matrices"):
        net.gradient([np.ones((4, 3))])
    with pytest.raises(ValueError, match=r"weights\[1\] must end in the shape \(3, 4\) for the layers to chain"):
        net.gradient([np.ones((4, 3)), np.ones((4, 3))])
    with pytest.raises(ValueError, match="single matrices"):
        net.sample_noise(net.initial_weights(2))
    with pytest.raises(ValueError, match="mode must be below"):
        net.mode_hessian([w[0] for w in net.initial_weights()], 3)
    with pytest.raises(ValueError, match="amplitude must hold one number per mode"):
        net.aligned_weights([1.0])
    with pytest.raises(ValueError, match="amplitude must be at least 0"):
        net.aligned_ito_drift([0.1, -0.1, 0.1])
