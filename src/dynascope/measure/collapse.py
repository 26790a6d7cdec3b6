"""How near class means are to neural collapse: the simplex equiangular tight frame and the distance from it."""

from typing import Any

import numpy as np
from jaxtyping import Float

from dynascope.models.parameters import as_float, count


def simplex_etf(classes: Any, features: Any = None, *, seed: Any = None) -> Float[np.ndarray, "class feature"]:
    """Unit vectors that spread as widely as K vectors can, one row per class.

    S = √(K/(K−1)) Q (I − 1 1ᵀ/K), QᵀQ = I; the rows returned are the columns of S, so that ⟨s_k, s_l⟩ = −1/(K−1).

    classes: K ≥ 2. features: p ≥ K, by default K (the frame itself spans K − 1 dimensions).
    seed: integer ≥ 0 that draws Q uniformly among partial orthogonal matrices; if not given Q is the first K columns
    of the identity. Source: locally elastic SDE, (10).

    >>> simplex_etf(2).round(3).tolist()
    [[0.707, -0.707], [-0.707, 0.707]]
    """
    classes = count("classes", classes, at_least=2)
    features = classes if features is None else count("features", features, at_least=classes)
    frame = np.sqrt(classes / (classes - 1)) * (np.eye(classes) - 1 / classes)
    if seed is None:
        return np.asarray(frame @ np.eye(classes, features))
    gaussian = np.random.default_rng(count("seed", seed, at_least=0)).standard_normal((features, classes))
    orthogonal, triangle = np.linalg.qr(gaussian)
    orthogonal *= np.sign(np.diag(triangle))  # without it the law of Q depends on the sign convention of QR
    return np.asarray(frame @ orthogonal.T)


def etf_distance(class_means: Any, *, centre: bool = False) -> float | Float[np.ndarray, "..."]:
    """Measure how far the directions of class means are from a simplex equiangular tight frame.

    d = √(mean over k ≠ l of (⟨m_k, m_l⟩/(‖m_k‖‖m_l‖) + 1/(K−1))²)

    class_means: m (…, class, feature), any units. Returns a number, or an array with the leading axes (time, trial).
    centre: subtract the mean over classes first, as is usual for features; logits of the theory need no centring.

    It compares Gram matrices, hence does not change when all means turn or any of them grows. d = 0 exactly for the
    frame (10) in some rotation, which takes K − 1 features; d = 1/(K−1) for orthogonal means and K/(K−1) for equal
    directions. Lengths are ignored: collapse also asks that they agree. Fails where a mean has no direction.
    Source: locally elastic SDE, section 3.3 and Proposition 3.4.

    >>> round(etf_distance([[1, 0, 0], [0, 1, 0], [0, 0, 1]]), 3)
    0.5
    >>> etf_distance([[1, 0, 0], [0, 1, 0], [0, 0, 1]], centre=True) < 1e-12
    True
    """
    means = as_float("class_means", class_means)
    if means.ndim < 2 or means.size == 0 or means.shape[-2] < 2:
        raise ValueError(
            f"class_means must have shape (…, class, feature) with 2 classes or more and no axis empty, "
            f"got {means.shape}"
        )
    classes = means.shape[-2]
    directions = _directions(means, centre)
    gram = directions @ np.swapaxes(directions, -1, -2)  # (…, class, class)
    apart = ~np.eye(classes, dtype=bool)
    distance = np.sqrt(np.mean((gram[..., apart] + 1 / (classes - 1)) ** 2, axis=-1))
    return distance if means.ndim > 2 else float(distance)


def _directions(
    means: Float[np.ndarray, "*grid class feature"], centre: bool
) -> Float[np.ndarray, "*grid class feature"]:
    """Unit vectors along the means; what centring leaves of equal means is rounding, not a direction."""
    smallest = 0.0
    if centre:
        scale = np.abs(means).max(axis=(-2, -1), keepdims=True)
        means = means / np.where(scale > 0, scale, 1.0)
        means = means - means.mean(axis=-2, keepdims=True)
        smallest = float(means.shape[-2] * np.finfo(np.float64).eps)
    extent = np.abs(means).max(axis=-1, keepdims=True)
    if np.any(extent <= smallest):
        place = tuple(int(i) for i in np.argwhere(extent[..., 0] <= smallest)[0])
        about = "the mean over classes" if centre else "0"
        raise ValueError(
            f"class_means must differ from {about} in every class to have a direction, got {about} at {place}"
        )
    means = means / extent
    return np.asarray(means / np.linalg.norm(means, axis=-1, keepdims=True))
