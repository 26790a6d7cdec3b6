"""Per-sample gradients of a network and what they do to its modes, by automatic differentiation alone.

Nothing here uses the closed forms of the model: it is what they are held against.
"""

from collections.abc import Sequence
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np

from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import Estimate

Array = jax.Array | np.ndarray


def product(factors: Sequence[Array]) -> Array:
    """Multiply from the left, the first factor first: layers, or an input and the layers that it runs through.

    >>> product([np.array([1.0, 2.0]), 2 * np.eye(2), np.ones((1, 2))]).tolist()
    [6.0]
    """
    return reduce(lambda done, layer: layer @ done, factors)


def _modes(weights: Sequence[Array], left: Array, right: Array) -> Array:
    modes: jax.Array = jax.vmap(lambda u, v: u @ product((v, *weights)), in_axes=(1, 1))(left, right)
    return modes


@jax.jit
def _gradients(weights: Sequence[Array], x: Array, y: Array) -> list[jax.Array]:
    def loss(given: Sequence[Array], x: Array, y: Array) -> jax.Array:
        return jnp.sum((y - product((x, *given))) ** 2) / 2

    gradients: list[jax.Array] = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(weights, x, y)
    return gradients


@jax.jit
def _responses(
    weights: Sequence[Array], kicks: Sequence[Array], left: Array, right: Array
) -> tuple[jax.Array, jax.Array]:
    """d/dh and ½ d²/dh² of all modes at weights + h·kick."""
    follow = partial(_modes, left=left, right=right)

    def respond(kick: Sequence[Array]) -> tuple[jax.Array, jax.Array]:
        slope, curvature = jax.jvp(lambda w: jax.jvp(follow, (w,), (kick,))[1], (weights,), (kick,))
        return slope, curvature / 2

    return jax.vmap(respond)(kicks)


def sample_gradients(net: DeepLinear, weights: Sequence[np.ndarray], *, samples: int, seed: int) -> list[np.ndarray]:
    """Gradients of single fresh samples, one array (sample, d_l, d_{l−1}) for each layer.

    >>> net = DeepLinear(2, 3)
    >>> [g.shape for g in sample_gradients(net, [np.eye(3)] * 2, samples=4, seed=0)]
    [(4, 3, 3), (4, 3, 3)]
    """
    random = np.random.default_rng(seed)
    outputs, inputs = net.teacher.shape
    covariance = float(net.label_noise.ravel()[0]) ** 2 * np.eye(outputs) + net.label_noise_covariance
    x = random.standard_normal((samples, inputs))
    y = x @ net.teacher.T + random.multivariate_normal(np.zeros(outputs), covariance, samples)
    with jax.enable_x64(True):
        return [np.asarray(each) for each in _gradients([jnp.asarray(w) for w in weights], x, y)]


def mode_responses(
    net: DeepLinear, weights: Sequence[np.ndarray], kicks: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """First and half of second derivative of the modes along each kick, (sample, mode) each.

    >>> net = DeepLinear(2, 3)
    >>> first, second = mode_responses(net, [np.eye(3)] * 2, [np.eye(3)[None]] * 2)
    >>> bool(np.allclose(first, 2 * np.sum(net.left * net.right, axis=0)))
    True
    """
    with jax.enable_x64(True):
        start, moves = [jnp.asarray(w) for w in weights], [jnp.asarray(k) for k in kicks]
        first, second = _responses(start, moves, jnp.asarray(net.left), jnp.asarray(net.right))
    return np.asarray(first), np.asarray(second)


def stacked(layers: Sequence[np.ndarray]) -> np.ndarray:
    """Stacked coordinates (vec W_1; …; vec W_L) of matrices with leading axes; vec stacks columns.

    >>> stacked([np.array([[1, 2], [3, 4]])]).tolist()
    [1, 3, 2, 4]
    """
    return np.concatenate([np.swapaxes(w, -1, -2).reshape(*w.shape[:-2], -1) for w in layers], axis=-1)


def covariance_with_error(values: np.ndarray) -> Estimate:
    """Covariance over the first axis and the standard error of each of its entries.

    >>> covariance_with_error(np.array([[1.0], [-1.0]])).mean.tolist()
    [[1.0]]
    """
    centred = values - values.mean(axis=0)
    covariance = centred.T @ centred / len(values)
    spread = (centred**2).T @ centred**2 / len(values) - covariance**2
    return Estimate(covariance, np.sqrt(np.maximum(spread, 0) / len(values)))


def mean_with_error(values: np.ndarray) -> Estimate:
    """Mean over the first axis and its standard error, from the same moments as the covariance.

    >>> [each.tolist() for each in mean_with_error(np.array([[1.0], [-1.0], [1.0], [-1.0]]))]
    [[0.0], [0.5]]
    """
    return Estimate(values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values)))
