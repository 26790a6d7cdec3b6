"""What a network learns and where it begins: teachers, bases, initial weights and data sets, each from a seed."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, as_float, count, require

# streams of random numbers below one network_seed
_BASES, _DATA, _WEIGHTS, _HIDDEN = range(4)


def random_orthogonal(random: np.random.Generator, rows: int, columns: int) -> Float[np.ndarray, "rows columns"]:
    """Orthonormal columns, uniform over all such matrices.

    >>> basis = random_orthogonal(np.random.default_rng(0), 4, 2)
    >>> bool(np.allclose(basis.T @ basis, np.eye(2)))
    True
    """
    q, r = np.linalg.qr(random.standard_normal((rows, columns)))
    return np.asarray(q * np.sign(np.diagonal(r)))


def read_widths(width: ArrayLike, depth: int) -> tuple[int, ...]:
    """d_0 … d_L from one width, or from depth + 1 of them.

    >>> read_widths(3, 2), read_widths([2, 5, 3], 2)
    ((3, 3, 3), (2, 5, 3))
    """
    given = as_float("width", width)
    if given.ndim > 1 or given.size == 0:
        raise ValueError(f"width must be one whole number or a list of depth + 1 of them, got {width!r}")
    require("width", given, (given >= 1) & (given == np.rint(given)), "be whole numbers of at least 1")
    if given.ndim and given.size != depth + 1:
        raise ValueError(
            f"width must hold depth + 1 = {depth + 1} numbers (inputs, hidden layers, outputs) so that {depth} layers "
            f"chain, got {given.size}"
        )
    widest = int(given.max())
    require_room({"width": widest, "depth": depth}, widest**2 * depth)
    return tuple(int(each) for each in np.broadcast_to(given, depth + 1))


def read_teacher(teacher: ArrayLike, widths: Sequence[int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Left vectors (d_L, mode), singular values (mode) and right vectors (d_0, mode) of M = U S Vᵀ.

    Singular values get random orthogonal bases; a matrix (d_L, d_0) brings its own and keeps what is not zero.

    >>> left, values, right = read_teacher([2.0, 1.0], (3, 4), 0)
    >>> left.shape, values.tolist(), right.shape
    ((4, 2), [2.0, 1.0], (3, 2))
    """
    given = np.atleast_1d(as_float("teacher", teacher))
    inputs, outputs, bottleneck = widths[0], widths[-1], min(widths)
    if given.ndim == 2:
        if given.shape != (outputs, inputs):
            raise ValueError(
                f"teacher must have the shape (outputs, inputs) = {(outputs, inputs)} of width, got {given.shape}"
            )
        left, values, right = np.linalg.svd(given, full_matrices=False)
        kept = int(np.sum(values > 1e-12 * values[0]))
        left, values, right = left[:, :kept], values[:kept], right[:kept].T
    elif given.ndim == 1 and given.size:
        random = np.random.default_rng([seed, _BASES])
        values, modes = given, min(given.size, bottleneck)
        left, right = (random_orthogonal(random, size, size)[:, :modes] for size in (outputs, inputs))
    else:
        raise ValueError(f"teacher must be a list of singular values or a matrix, got shape {given.shape}")
    require("teacher", values, values >= 0, "have singular values of at least 0")
    if not np.any(values > 0):
        raise ValueError("teacher must have a singular value above 0, there is nothing to learn")
    if values.size > bottleneck:
        raise ValueError(
            f"teacher must have at most min(width) = {bottleneck} singular values, which is all that the network can "
            f"express, got {values.size}; use a wider network"
        )
    return left, values, right


def read_covariance(covariance: ArrayLike, outputs: int) -> Float[np.ndarray, "output output"]:
    """A symmetric, positive semi-definite (d_L, d_L) matrix.

    >>> read_covariance([[1.0, 2.0], [2.0, 1.0]], 2)
    Traceback (most recent call last):
    ValueError: label_noise_covariance must be positive semi-definite, its least eigenvalue is -1
    """
    given = as_float("label_noise_covariance", covariance)
    if given.shape != (outputs, outputs):
        raise ValueError(
            f"label_noise_covariance must have the shape (outputs, outputs) = {(outputs, outputs)}, got {given.shape}"
        )
    if not np.allclose(given, given.T, rtol=1e-10, atol=0):
        raise ValueError("label_noise_covariance must be symmetric")
    least = float(np.linalg.eigvalsh(given)[0])
    if least < -1e-10 * float(np.abs(given).max()):
        raise ValueError(f"label_noise_covariance must be positive semi-definite, its least eigenvalue is {least:.4g}")
    return given


def square_root(covariance: Float[np.ndarray, "output output"]) -> Float[np.ndarray, "output output"]:
    """The symmetric root of a positive semi-definite matrix.

    >>> square_root(np.diag([4.0, 0.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)


def gaussian_weights(widths: Sequence[int], exponent: float, seed: int, trial: int) -> list[np.ndarray]:
    """Independent normal entries of variance min(d_l, d_{l−1})^(−γ) (H.2).

    >>> [w.shape for w in gaussian_weights((2, 5, 3), 2.0, 0, 0)]
    [(5, 2), (3, 5)]
    """
    random = np.random.default_rng([seed, _WEIGHTS, trial])
    shapes = list(zip(widths[1:], widths[:-1], strict=True))
    return [random.standard_normal(shape) * min(shape) ** (-exponent / 2) for shape in shapes]


def balanced_factors(
    left: np.ndarray, values: np.ndarray, right: np.ndarray, *, widths: Sequence[int], seed: int
) -> list[np.ndarray]:
    """Weights with W_L ⋯ W_1 = left·diag(values)·rightᵀ and W_{l+1}ᵀ W_{l+1} = W_l W_lᵀ in every layer.

    W_l = R_l |values|^{1/L} R_{l−1}ᵀ with orthonormal R_l, R_0 = right, R_L = left; the last carries the signs.

    >>> first, second = balanced_factors(np.eye(3, 1), np.array([0.25]), np.eye(2, 1), widths=(2, 4, 3), seed=0)
    >>> (second @ first).round(6).tolist()[0], round(float(np.linalg.norm(first)), 6)
    ([0.25, 0.0], 0.5)
    """
    depth, random = len(widths) - 1, np.random.default_rng([seed, _HIDDEN])
    hidden = [random_orthogonal(random, size, values.size) for size in widths[1:-1]]
    bases = [right, *hidden, left * np.sign(values)]
    root = np.abs(values) ** (1 / depth)
    return [(bases[layer + 1] * root) @ bases[layer].T for layer in range(depth)]


def balanced_weights(weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    """Balanced weights with the same end-to-end map as the given ones.

    >>> start = gaussian_weights((3, 3, 3), 2.0, 0, 0)
    >>> bool(np.allclose(np.linalg.multi_dot(start[::-1]), np.linalg.multi_dot(balanced_weights(start, 0)[::-1])))
    True
    """
    widths = [weights[0].shape[1], *(w.shape[0] for w in weights)]
    product = weights[0]
    for w in weights[1:]:
        product = w @ product
    left, values, right = np.linalg.svd(product, full_matrices=False)
    rank = min(widths)
    return balanced_factors(left[:, :rank], values[:rank], right[:rank].T, widths=widths, seed=seed)


def draw_data(size: int, widths: Sequence[int], seed: int, *, whitened: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (sample, d_0) and unit label noise (sample, d_L), standard normal.

    Whitened inputs have exactly the second moments of the population, ⟨x xᵀ⟩ = 1; it takes at least d_0 of them.

    >>> inputs, noise = draw_data(5, (2, 3), 0, whitened=True)
    >>> np.allclose(inputs.T @ inputs / 5, np.eye(2)), noise.shape
    (True, (5, 3))
    """
    random = np.random.default_rng([seed, _DATA])
    size = count("data_size", size)
    inputs, noise = random.standard_normal((size, widths[0])), random.standard_normal((size, widths[-1]))
    if whitened:
        inputs = inputs @ np.linalg.inv(square_root(inputs.T @ inputs / size))
    return inputs, noise
