"""The softmax dynamics and its linearisations against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import margin_directions
from dynascope.models.elastic.softmax import linearise, margin_jacobian, margins


@jax.jit
def _loss_gradient(state):
    """−d/dx of the cross-entropy of each class mean against its own label."""
    return -jax.grad(lambda x: -jnp.trace(jax.nn.log_softmax(x)))(state)


_loss_hessian = jax.jit(jax.jacobian(_loss_gradient))


@given(st.integers(0, 99), st.sampled_from([(2, 2), (3, 5)]))
def test_margins_are_the_gradient_of_cross_entropy(seed, shape):
    state = np.random.default_rng(seed).normal(size=shape)
    with jax.enable_x64(True):
        np.testing.assert_allclose(margins(state), _loss_gradient(state), atol=1e-14)
        derivative = np.asarray(_loss_hessian(state)).reshape(state.size, state.size)
    np.testing.assert_allclose(-margin_jacobian(state), derivative, atol=1e-14)


@given(st.integers(0, 99))
def test_linearisation_touches_to_second_order(seed):
    random = np.random.default_rng(seed)
    model = LocallyElastic(3, 3, geometry="softmax", elasticity=random.normal(size=(3, 3, 3, 3)))
    around, step = random.normal(size=(2, 3, 3))
    matrix, offset = model.linearise(around)
    errors = []
    for size in (1e-2, 1e-3):
        state = around + size * step
        exact = (model.drift(0.0) @ margins(state).ravel()).reshape(3, 3)
        errors.append(np.abs(exact - (matrix @ state.ravel()).reshape(3, 3) - offset).max())
    assert errors[0] < 1.0
    assert errors[1] < 0.02 * errors[0]  # quadratic: a hundredth


def test_residue_around_equal_logits_pushes_along_the_margin_directions():
    for level in (0.0, 2.5):  # (B.14): J annihilates equal logits
        _, offset = linearise(np.eye(9), np.full((3, 3), level))
        np.testing.assert_allclose(offset, margin_directions(3, 3), atol=1e-14)


def test_mean_path_is_gradient_descent_on_cross_entropy():
    """Θ = K on the diagonal: every class mean descends its own cross-entropy."""
    model = LocallyElastic(3, 3, intra=3.0, inter=0.0, geometry="softmax")
    start = np.random.default_rng(0).normal(size=(4, 3, 3))
    path = model.mean_path([0.0, 0.5, 2.0], start)
    assert path.shape == (4, 3, 3, 3)
    state = start.copy()
    for _ in range(20_000):
        half = state + 5e-5 * margins(state)
        state = state + 1e-4 * margins(half)  # midpoint: error of order 1e-8
    np.testing.assert_allclose(path[:, -1], state, atol=1e-8)


def test_what_has_no_exact_law_is_refused():
    model = LocallyElastic(geometry="softmax")
    with pytest.raises(ValueError, match="geometry must be linear for an exact law"):
        model.covariance([1.0])
    with pytest.raises(ValueError, match="method must be euler or heun"):
        model.simulate(duration=1.0, method="exact")
    with pytest.raises(ValueError, match="geometry must be 'softmax' to be linearised"):
        LocallyElastic().linearise(np.eye(3))
    with pytest.raises(ValueError, match="around must be one state"):
        model.linearise(np.ones((2, 3, 3)))
    with pytest.raises(ValueError, match="features must be at least classes"):
        LocallyElastic(3, 2, geometry="softmax")
