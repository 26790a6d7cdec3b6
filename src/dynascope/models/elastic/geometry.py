"""Along which directions, and how often, one class moves another: the blocks of the drift.

Class means X̄ (class, feature) obey X̄_k' = Σ_l E_kl(t) P_kl H_kl X̄_l, elastic (6): E the strengths, P the probability
that a step on class l is what class k feels, H_kl a p × p geometry. The printed Kronecker forms (E ⊗ P) ∘ H weight
features where classes are meant; block (k, l) is E_kl P_kl H_kl.
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from dynascope.checks import ArrayLike, as_float, require, scalar

GEOMETRIES = ("isotropic", "logits", "mixture", "softmax")


def margin_directions(classes: int, features: int) -> Float[np.ndarray, "{classes} {features}"]:
    """d_l = e_l − 1/K, towards which training on class l pushes logits (8). Source: elastic (8).

    >>> margin_directions(2, 2).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    if features < classes:
        raise ValueError(f"features must be at least classes = {classes} for the logit geometry, got {features}")
    return np.eye(classes, features) - 1 / classes


def direction_cosine(classes: int, features: int) -> float:
    """Cosine ρ of the angle between two margin directions; −1/(K−1) when features = classes.

    >>> direction_cosine(4, 4) == -1 / 3
    True
    """
    square = 1 - 2 / classes + features / classes**2
    return (features / classes**2 - 2 / classes) / square


def margin_amplitudes(means: Float[np.ndarray, "*lead class feature"]) -> Float[np.ndarray, "*lead class"]:
    """c_k = d_k·x_k/|d_k|²: how far each class mean has come along its own margin direction.

    >>> margin_amplitudes(3 * margin_directions(3, 4)).round(12).tolist()
    [3.0, 3.0, 3.0]
    """
    directions = margin_directions(*means.shape[-2:])
    return np.asarray(np.einsum("...kp,kp->...k", means, directions) / (directions[0] @ directions[0]))


def geometry_blocks(
    geometry: str | ArrayLike, classes: int, features: int, *, own_weight: float = 0.8
) -> Float[np.ndarray, "{classes} {classes} {features} {features}"]:
    """H_kl for every pair of classes.

    "isotropic": the identity (I-model). "logits": the projector on d_l (L-model, (8)). "mixture": `own_weight` times
    the projector on d_l plus the rest spread evenly over the other classes' projectors (D.20), (E.1). "softmax": the
    identity, which then acts on margins e_l − softmax(x_l) instead of features (B.4). Or the blocks themselves, shaped
    (class, class, feature, feature). Source: elastic (8), (B.4), (D.20), (E.1).

    >>> geometry_blocks("logits", 2, 2)[0, 1].tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    shape = (classes, classes, features, features)
    if not isinstance(geometry, str):
        blocks = as_float("geometry", geometry)
        if blocks.shape != shape:
            raise ValueError(
                f"geometry must have the shape (class, class, feature, feature) = {shape}, got {blocks.shape}"
            )
        return blocks
    if geometry not in GEOMETRIES:
        raise ValueError(f"geometry must be one of {', '.join(GEOMETRIES)} or an array of blocks, got {geometry!r}")
    directions = None if geometry == "isotropic" else margin_directions(classes, features)
    if directions is None or geometry == "softmax":
        return np.broadcast_to(np.eye(features), shape).copy()
    projectors = np.einsum("li,lj->lij", directions, directions) / (directions[0] @ directions[0])
    if geometry == "mixture":
        own = scalar("own_weight", own_weight, at_least=0.0)
        require("own_weight", np.array(own), np.array(own <= 1), "be at most 1")
        other = (1 - own) / (classes - 1)
        projectors = (own - other) * projectors + other * projectors.sum(axis=0)
    return np.broadcast_to(projectors, shape).copy()


def sampling_matrix(sampling: ArrayLike | None, classes: int) -> Float[np.ndarray, "{classes} {classes}"]:
    """P_kl from None (balanced), class probabilities (class,) or a row-stochastic matrix (class, class).

    >>> sampling_matrix([0.25, 0.75], 2).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """
    if sampling is None:
        return np.full((classes, classes), 1 / classes)
    matrix = as_float("sampling", sampling)
    if matrix.shape not in ((classes,), (classes, classes)):
        raise ValueError(f"sampling must have the shape ({classes},) or ({classes}, {classes}), got {matrix.shape}")
    require("sampling", matrix, matrix >= 0, "be at least 0")
    totals = np.atleast_1d(matrix.sum(axis=-1))
    require("sampling", totals, np.abs(totals - 1) < 1e-9, "sum to 1 over the classes that are sampled")
    return np.broadcast_to(matrix, (classes, classes)).copy()


def noise_factor(covariance: ArrayLike | None, classes: int, features: int) -> Float[np.ndarray, "state state"] | None:
    """A matrix F with F Fᵀ = C, the covariance of the noise in units of σ²; None for isotropic noise.

    covariance: None, variances (class,), a matrix for each class (class, feature, feature), or one for all
    (class·feature, class·feature).

    >>> noise_factor([1.0, 4.0], 2, 1).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if covariance is None:
        return None
    given, size = as_float("covariance", covariance), classes * features
    if given.shape == (classes,):
        full = np.kron(np.diag(given), np.eye(features))
    elif given.shape == (classes, features, features):
        full = block_diag(*given)
    elif given.shape == (size, size):
        full = given
    else:
        raise ValueError(
            f"covariance must have the shape ({classes},), ({classes}, {features}, {features}) or ({size}, {size}), "
            f"got {given.shape}"
        )
    values = np.linalg.eigvalsh((full + full.T) / 2)
    asymmetry, scale = np.abs(full - full.T).max(), max(np.abs(full).max(), np.finfo(float).tiny)
    if asymmetry > 1e-9 * scale or values.min() < -1e-9 * scale:
        raise ValueError(
            f"covariance must be symmetric and positive semi-definite, got a least eigenvalue of {values.min():g} "
            f"and an asymmetry of {asymmetry:g}"
        )
    return symmetric_root(full)


def symmetric_root(covariance: Float[np.ndarray, "state state"]) -> Float[np.ndarray, "state state"]:
    """Square root of a covariance that may be singular.

    >>> symmetric_root(np.diag([4.0, 0.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(values.clip(0)) @ vectors.T)


def drift_matrix(elasticity: np.ndarray, sampling: np.ndarray, blocks: np.ndarray) -> Float[np.ndarray, "state state"]:
    """Assemble M, (class·feature, class·feature): block (k, l) is E_kl P_kl H_kl.

    elasticity: E (class, class), or (class, class, feature, feature) where E_kl is itself a matrix (Θ_kl of (B.4)).
    Source: elastic (5), (6); elastic-slides (3).

    >>> drift_matrix(np.eye(2), np.full((2, 2), 0.5), geometry_blocks("isotropic", 2, 1)).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    classes, features = blocks.shape[0], blocks.shape[2]
    if np.ndim(elasticity) == 4:
        pairs = np.einsum("klij,kljm->klim", elasticity, blocks)
    else:
        pairs = np.asarray(elasticity)[..., None, None] * blocks
    matrix = np.einsum("kl,klij->kilj", sampling, pairs)
    return np.asarray(matrix).reshape(classes * features, classes * features)
