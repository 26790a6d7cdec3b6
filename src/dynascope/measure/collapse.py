"""How near features are to neural collapse: NC1 to NC4, the simplex equiangular tight frame, the distance from it."""

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import ArrayLike, Given, as_float, count
from dynascope.measure.arrays import Array, Namespace, class_codes, float64_of, rank_of, rounding_of, rows_of, to_numpy
from dynascope.measure.separation import class_split


def simplex_etf(
    classes: Given[int], features: Given[int | None] = None, *, seed: Given[int | None] = None
) -> Float[np.ndarray, "class feature"]:
    """Unit vectors that spread as widely as K vectors can, one row per class.

    S = √(K/(K−1)) Q (I − 1 1ᵀ/K), QᵀQ = I; the rows returned are the columns of S, so that ⟨s_k, s_l⟩ = −1/(K−1).

    classes: K ≥ 2. features: p ≥ K, by default K (the frame itself spans K − 1 dimensions).
    seed: integer ≥ 0 that draws Q uniformly among partial orthogonal matrices; if not given Q is the first K columns
    of the identity. Source: elastic (10).

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


def etf_distance(class_means: ArrayLike, *, centre: bool = False) -> float | Float[np.ndarray, "..."]:
    """Measure how far the directions of class means are from a simplex equiangular tight frame.

    d = √(mean over k ≠ l of (⟨m_k, m_l⟩/(‖m_k‖‖m_l‖) + 1/(K−1))²)

    class_means: m (…, class, feature), any units. Returns a number, or an array with the leading axes (time, trial).
    centre: subtract the mean over classes first, as is usual for features; logits of the theory need no centring.

    It compares Gram matrices, hence does not change when all means turn or any of them grows. d = 0 exactly for the
    frame (10) in some rotation, which takes K − 1 features; d = 1/(K−1) for orthogonal means and K/(K−1) for equal
    directions. Lengths are ignored: collapse also asks that they agree. Fails where a mean has no direction.
    Source: elastic Section 3.3, Proposition 3.4.

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


def neural_collapse(
    features: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None
) -> xr.Dataset:
    """Measure the four signs of neural collapse, all 0 where it is complete.

    With class means m_k = μ_k − μ_g about the mean μ_g of class means, Σw = (1/N) Σ_i (x_i − μ)(x_i − μ)ᵀ about the own
    class mean, Σb = (1/K) Σ_k m_k m_kᵀ (D.2 to D.5), as the original paper has them and, where it differs, the thesis:

    nc1: tr(Σw Σb⁺)/K, spread within classes.
    nc1_thesis: tr(Σw Σbᵀ) (D.6), (2.10), which has units of features⁴.
    nc2_norm: std/mean of |m_k|.
    nc2_angle: mean over k ≠ l of |cos(m_k, m_l) + 1/(K−1)|.
    nc2_thesis: root mean square of cos(m_k, m_l) + 1/(K−1) (D.7), which is `etf_distance`.
    nc3: ‖W/‖W‖ − M/‖M‖‖_F, last layer against class means.
    nc3_thesis: mean over k of |w_k/|w_k| − m_k/|m_k|| (D.8).
    nc4: share of samples whose prediction, argmax_k w_k·x + b_k, is not the nearest class mean (D.9).

    features: (sample, feature, …) of the last layer.
    labels: (sample,); whole numbers 0 … K−1 where weight is given, each at least once.
    weight: (class, feature), rows as in the last layer, and bias: (class,); without weight nc3 and nc4 are NaN.

    NumPy, PyTorch or JAX, any units. Time does not enter. Meant for balanced classes: class means count alike. What
    needs class means that differ from μ_g, or weights that are not 0, is else NaN. More: docs/measures.md.
    Returns a Dataset of these numbers, centred_means (class, feature) and cosine (class, other).
    Source: layerwise (2.10), (2.11), (2.13), (2.14), (D.1)–(D.9); Papyan, Han and Donoho (2020).

    >>> labels = np.arange(12) % 3
    >>> found = neural_collapse(np.eye(3)[labels], labels, np.eye(3))
    >>> [round(float(found[name]), 9) for name in ("nc1", "nc2_norm", "nc2_angle", "nc4")]
    [0.0, 0.0, 0.0, 0.0]
    """
    with float64_of(features=features, weight=weight, bias=bias) as (xp, x, w, b):
        x = rows_of(xp, "features", x)
        classes, codes = class_codes(labels, x.shape[0])
        _check_last_layer(classes, x.shape[1], w, b)
        means, _, rest = class_split(xp, x, codes, len(classes))
        centre = xp.mean(means, axis=0)
        means = means - centre  # (class, feature), about the mean of class means
        host = to_numpy(means)
        found = _spread(xp, means, rest, rounding_of(features)) | _frame(host) | {"nc3": np.nan, "nc3_thesis": np.nan}
        found["nc4"] = np.nan
        if w is not None:
            found |= _duality(to_numpy(w), host)
            scores = x @ w.T + (0.0 if b is None else b)
            about = x - xp.mean(x, axis=0) - centre
            nearest = xp.argmax(about @ means.T - xp.sum(means**2, axis=1) / 2, axis=1)
            found["nc4"] = float(np.mean(to_numpy(nearest) != to_numpy(xp.argmax(scores, axis=1))))
    cosine = found.pop("cosine")
    names = classes.tolist()
    return xr.Dataset(
        {**found, "cosine": (("class", "other"), cosine), "centred_means": (("class", "feature"), host)},
        coords={"class": names, "other": names},
    )


def _check_last_layer(classes: np.ndarray, features: int, weight: Array | None, bias: Array | None) -> None:
    if weight is None:
        if bias is not None:
            raise ValueError("bias must come with the weight of the last layer, got no weight")
        return
    if weight.ndim != 2 or weight.shape[1] != features:
        raise ValueError(f"weight must have shape (class, {features}), got {tuple(weight.shape)}")
    rows = weight.shape[0]
    if classes.dtype.kind not in "iu" or classes.tolist() != list(range(rows)):
        raise ValueError(
            f"labels must hold each of the classes 0 … {rows - 1} that the {rows} rows of weight stand for, "
            f"got {classes.tolist()}"
        )
    if bias is not None and tuple(bias.shape) != (rows,):
        raise ValueError(f"bias must have shape ({rows},), got {tuple(bias.shape)}")


def _spread(xp: Namespace, means: Array, rest: Array, rounding: float) -> dict[str, float]:
    """NC1 by projections on the class means; the p × p covariances are never formed."""
    classes, samples = means.shape[0], rest.shape[0]
    _, roots, directions = xp.linalg.svd(means, full_matrices=False)
    rank = min(rank_of(roots, rounding), classes - 1) if float(roots[0]) > 0 else 0
    along = rest @ directions[:rank, :].T / roots[:rank]  # Σb⁺ = K V S⁻² Vᵀ
    original = float(xp.sum(along**2)) / samples if rank else np.inf
    return {"nc1": original, "nc1_thesis": float(xp.sum((rest @ means.T) ** 2)) / samples / classes}


def _frame(means: Float[np.ndarray, "class feature"]) -> dict[str, float | np.ndarray]:
    """NC2: equal lengths, equal angles."""
    classes = len(means)
    lengths = np.linalg.norm(means, axis=1)
    apart = ~np.eye(classes, dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = means @ means.T / lengths / lengths[:, None]
        norm = float(lengths.std() / lengths.mean())
    excess = cosine[apart] + 1 / (classes - 1)
    return {
        "nc2_norm": norm,
        "nc2_angle": float(np.abs(excess).mean()),
        "nc2_thesis": float(np.sqrt((excess**2).mean())),
        "cosine": cosine,
    }


def _duality(weight: Float[np.ndarray, "class feature"], means: Float[np.ndarray, "class feature"]) -> dict[str, float]:
    """NC3: the last layer points where the class means point."""
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = weight / np.linalg.norm(weight) - means / np.linalg.norm(means)
        rows = weight / np.linalg.norm(weight, axis=1, keepdims=True)
        rows = rows - means / np.linalg.norm(means, axis=1, keepdims=True)
    return {"nc3": float(np.linalg.norm(whole)), "nc3_thesis": float(np.linalg.norm(rows, axis=1).mean())}
