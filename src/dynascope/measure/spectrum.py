"""How many features a network has, needs and uses: intensity, quality, utilization, and distance from the minimum."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from dynascope.checks import ArrayLike, flag, require, scalar
from dynascope.measure.arrays import (
    BLOCK,
    Array,
    Namespace,
    basis,
    checked,
    float64_of,
    like,
    rounding_of,
    rows_of,
    to_numpy,
)

_FAINT = 1e-12  # intensities below this share of the strongest are rounding
THRESHOLD = 0.1  # below it features count as minimal, layerwise Definition 2


def effective_dimension(values: ArrayLike, *, constant_first: bool = False) -> Array:
    """Count the entries that matter: the exponential of the entropy of the normalised values.

    D = exp(−Σ_i q_i log q_i), q_i = v_i/Σ_j v_j, (1.16). With constant_first, D = 1 + D(v_2, …), (2.6), which counts
    the first feature, usually a constant that a bias can replace, as one whatever its intensity.

    values: (feature,), not negative, in any units: d equal entries among zeros give d. Returns one float64 number of
    the kind that went in. Time does not enter. Source: layerwise (1.16), (2.6).

    >>> float(effective_dimension([2.0, 2.0, 0.0]))
    2.0
    >>> float(effective_dimension([9.0, 1.0, 1.0, 0.0], constant_first=True))
    3.0
    """
    skip = int(flag("constant_first", constant_first))
    with float64_of(values=values) as (xp, v):
        if v.ndim != 1 or v.shape[0] <= skip:
            raise ValueError(f"values must be a list of {skip + 1} numbers or more, got shape {tuple(v.shape)}")
        rest = v[skip:]
        total = float(xp.sum(rest))
        if float(xp.min(v)) < 0 or total <= 0:
            raise ValueError(f"values must not be negative, and not all 0, got {to_numpy(v)}")
        share = rest / total
        entropy = -xp.sum(share * xp.log(xp.where(share > 0, share, xp.ones_like(share))))
        dimension: Array = xp.exp(entropy) + skip
        return dimension


def cka(features: ArrayLike, others: ArrayLike) -> Array:
    """Compare two sets of features of the same samples: 1 where they agree up to rotation and scale, 0 at the least.

    CKA = ‖X̃ᵀỸ‖_F² / (‖X̃ᵀX̃‖_F ‖ỸᵀỸ‖_F), X̃ and Ỹ centred: linear centred kernel alignment.

    features: (sample, feature, …). others: (sample, …), of any width. Returns one float64 number of the kind that went
    in. Computed in float64 and in pieces: no N × N matrix is formed. With fewer samples than features it is biased
    upwards: unrelated features then look alike. Source: layerwise (2.9); Kornblith et al. (2019).

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(float(cka(x, 7 * x[:, ::-1] + 1)), 12)
    1.0
    """
    with checked(features=features, others=others) as (xp, x, y):
        x = rows_of(xp, "features", x)
        return _alignment(xp, x, rows_of(xp, "others", y, x.shape[0]), "others")


def _alignment(xp: Namespace, x: Array, y: Array, name: str) -> Array:
    first, second = _Centred(xp, x, "features"), _Centred(xp, y, name)
    cross = sum(xp.sum((a.T @ b) ** 2) for a in first.columns() for b in second.columns())
    return cross / (first.gram_norm() * second.gram_norm())


class _Centred:
    """Features about their means, scaled to at most 1 so that fourth powers stay in range; float64, in pieces."""

    def __init__(self, xp: Namespace, array: Array, name: str) -> None:
        self.xp, self.array, self.scale = xp, array, 1.0
        self.mean: Array | None = None
        raw = [(xp.mean(piece, axis=0), float(xp.max(xp.abs(piece)))) for piece in self.columns()]
        self.mean = xp.concat([mean for mean, _ in raw])
        self.scale = max(float(xp.max(xp.abs(piece))) for piece in self.columns())
        if self.scale <= 4 * np.finfo(np.float64).eps * max(size for _, size in raw):
            raise ValueError(f"{name} must differ between samples, got the same for all {array.shape[0]}")

    def columns(self, start: int = 0) -> Iterator[Array]:
        """Pieces (sample, some features), from piece number `start` on."""
        step = max(1, BLOCK // self.array.shape[0])
        for first in range(start * step, self.array.shape[1], step):
            chosen = slice(first, first + step)
            yield self._centre(self.array[:, chosen], chosen)

    def rows(self, start: int = 0) -> Iterator[Array]:
        """Pieces (feature, some samples)."""
        step = max(1, BLOCK // self.array.shape[1])
        for first in range(start * step, self.array.shape[0], step):
            yield self._centre(self.array[first : first + step, :], slice(None)).T

    def _centre(self, piece: Array, chosen: slice) -> Array:
        piece = self.xp.astype(piece, self.xp.float64)
        return piece if self.mean is None else (piece - self.mean[chosen]) / self.scale

    def gram_norm(self) -> Array:
        """‖XᵀX‖_F = ‖XXᵀ‖_F from the smaller of the two, each pair of pieces once and none kept."""
        samples, features = self.array.shape
        pieces = self.columns if features <= samples else self.rows
        total: Array | float = 0.0
        for place, one in enumerate(pieces()):
            total = total + self.xp.sum((one.T @ one) ** 2)
            total = total + 2 * sum(self.xp.sum((one.T @ other) ** 2) for other in pieces(place + 1))
        return total**0.5


def minimum_feature_distance(features: ArrayLike, outputs: ArrayLike, *, least_share: float = 0.0) -> Array:
    """Measure how far features are from the fewest that can express the outputs: κ = 1 − CKA(T, T_MP).

    T is the kernel of the features and T_MP = a_1 |1⟩⟨1| + a_2 P the minimum-projection operator, P the projection on
    the span of the outputs, (2.8); centring removes a_1, and a_2 cancels. κ = 0 where the centred features are an
    isotropic copy of that span; κ < 0.1 is called the minimum feature regime, above lies the extended one.

    features: Φ of the last layer, (sample, feature, …). outputs: f̂, (sample,) or (sample, output), their span of N
    samples, without what is rounding. Both NumPy, PyTorch or JAX, in any units; κ does not change when features turn,
    shift or scale, or outputs mix among each other. Returns one float64 number of the kind that went in.
    least_share: 0 counts every direction of the outputs above rounding, however faint, so that noise can make κ jump.
        Above 0 (0.01 is of use) principal directions count by min(1, λ_i/(least_share Σλ)), which is continuous.
    Assumes balanced classes. Definition 1 (two eigenspaces) agrees with (2.8) only where the outputs span the constant,
    as one-hot outputs do; (2.8) is what is computed. With fewer samples than features κ is too low. No N × N matrix is
    formed: 20,000 × 1024 takes about a second and 0.5 GB. Source: layerwise (2.8), (2.9), Definition 2.

    >>> labels = np.arange(12) % 3
    >>> abs(float(minimum_feature_distance(np.eye(3)[labels], np.eye(3)[labels]))) < 1e-12
    True
    """
    least_share = scalar("least_share", least_share, at_least=0.0)
    require("least_share", np.array(least_share), np.array(least_share <= 1), "be at most 1")
    with checked(features=features, outputs=outputs) as (xp, x, y):
        x = rows_of(xp, "features", x)
        y = _functions(xp, "outputs", xp.astype(y, xp.float64), x.shape[0])
        span = _weighted(xp, y, least_share) if least_share else basis(xp, y, epsilon=rounding_of(outputs))
        return 1 - _alignment(xp, x, span, "outputs")


def _weighted(xp: Namespace, outputs: Array, least_share: float) -> Array:
    """Principal directions of the centred outputs, (sample, direction), faint ones shorter: u_i √w_i."""
    left, sizes, _ = xp.linalg.svd(outputs - xp.mean(outputs, axis=0), full_matrices=False)
    if float(xp.max(sizes)) <= rounding_of(outputs):  # the largest output is 1
        raise ValueError(f"outputs must differ between samples, got the same for all {outputs.shape[0]}")
    share = sizes**2 / xp.sum(sizes**2)
    return left * xp.sqrt(xp.clip(share / least_share, max=1.0))


def _functions(xp: Namespace, name: str, values: Array, samples: int) -> Array:
    """Values of functions at the samples, (sample, function), scaled so that products stay in range."""
    if values.ndim > 2 or values.shape[0] != samples:
        raise ValueError(
            f"{name} must be (sample,) or (sample, output) for {samples} samples, got shape {tuple(values.shape)}"
        )
    largest = float(xp.max(xp.abs(values)))
    if largest == 0:
        raise ValueError(f"{name} must not be 0 everywhere")
    return xp.reshape(values, (samples, -1)) / largest


def eigenfunctions(train_features: ArrayLike, test_features: ArrayLike) -> tuple[Array, Array]:
    """Find a layer's orthogonal features by Algorithm 1 and evaluate them at other samples.

    With ϕ = U S Vᵀ from N training samples, ρ_k = s_k²/N and e_k(x) = √N u_k·Φ(x)/s_k, so that the mean over training
    samples of e_k e_l is δ_kl and Σ_k ρ_k e_k(x) e_k(x') = Φ(x)·Φ(x').

    train_features: (sample, feature, …). test_features: other samples, same features. Returns ρ (k,), strongest first
    and without what lies below 1e-12 of the strongest, and e (test sample, k), float64 of the kind that went in; the
    sign of each e_k is arbitrary. Algorithm 1 as printed leaves out N: its ρ grows with the number of samples.
    Source: layerwise (1.13), (1.15), (1.27), (1.29), (1.33), Algorithm 1.

    >>> intensity, e = eigenfunctions([[3.0, 0.0], [0.0, 1.0]], [[6.0, 0.0], [0.0, 1.0]])
    >>> intensity.round(9).tolist(), abs(e).round(3).tolist()
    ([4.5, 0.5], [[2.828, 0.0], [0.0, 1.414]])
    """
    with float64_of(train_features=train_features, test_features=test_features) as (xp, train, test):
        return _diagonalise(xp, *_same_width(xp, train, test))


def _same_width(xp: Namespace, train: Array, test: Array) -> tuple[Array, Array]:
    train, test = rows_of(xp, "train_features", train), rows_of(xp, "test_features", test)
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"test_features must have {train.shape[1]} features, got {test.shape[1]}")
    return train, test


def feature_spectrum(
    train_features: ArrayLike,
    test_features: ArrayLike,
    targets: ArrayLike,
    outputs: ArrayLike,
    *,
    threshold: float = THRESHOLD,
    least_share: float = 0.0,
    published: bool = False,
) -> xr.Dataset:
    """Find a layer's orthogonal features, and how strong, how useful and how much used each is.

    The features √ρ_k e_k diagonalise the kernel of Φ, see `eigenfunctions`. On test samples, ⟨·|·⟩ the mean over them:
    intensity ρ_k; quality Q*_k = ⟨e_k|P* e_k⟩/dim H*, P* the projection on the span H* of the targets; utilization
    Q̂_k = ⟨e_k|P̂ e_k⟩/dim Ĥ likewise for the outputs. For one target this is ⟨e_k|f⟩²/⟨f|f⟩.

    train_features: (sample, feature, …).
    test_features: other samples, same features; more samples than features.
    targets, outputs: f*, f̂ at the test samples, (sample,) or (sample, output), as numbers: labels go in as one-hot
        rows.
    least_share: of κ, see `minimum_feature_distance`; the result has it, and the threshold, among its attributes.
    published: the printed forms; docs/measures.md says in which three ways ours differ.

    Returns over feature (strongest first, without those below 1e-12 of the strongest): intensity, quality, utilization
    and their cumulative_… sums; the numbers dimension_quality, dimension_utilization, dimension_intensity (2.6) and
    dimension_intensity_all (1.16); constant_overlap = ⟨e_1|1⟩; minimum_feature_distance (κ on test samples) and regime,
    "minimum features" where κ < threshold, else "extended features". Cost O(N·p²).
    Source: layerwise (1.16), (1.29)–(1.34), (2.3)–(2.9).

    >>> random = np.random.default_rng(0)
    >>> train, test = random.normal(size=(2, 500, 4)) * [3.0, 1.0, 1.0, 0.1]
    >>> found = feature_spectrum(train, test, targets=test[:, 1], outputs=test[:, 0])
    >>> found["utilization"].values.round(2).tolist(), float(found["cumulative_quality"][-1].round(9))
    ([1.0, 0.0, 0.0, 0.0], 1.0)
    """
    threshold = scalar("threshold", threshold, above=0.0)
    published = flag("published", published)
    given = {"train_features": train_features, "test_features": test_features, "targets": targets, "outputs": outputs}
    with float64_of(**given) as (xp, train, test, target, output):
        train, test = _same_width(xp, train, test)
        _refuse_labels(xp, targets=targets, outputs=outputs)
        f = {
            "quality": _functions(xp, "targets", target, test.shape[0]),
            "utilization": _functions(xp, "outputs", output, test.shape[0]),
        }
        intensity, functions = _diagonalise(xp, train, test)
        if published:
            shares = {name: _printed_shares(xp, functions, values, name) for name, values in f.items()}
            intensity = intensity * train.shape[0]
        else:
            spans = {"quality": rounding_of(targets), "utilization": rounding_of(outputs)}
            frame, kept = _orthonormal(xp, functions)
            shares = {n: _shares(xp, frame, kept, basis(xp, v, epsilon=spans[n])) for n, v in f.items()}
        first = functions[:, 0]
        overlap = float(xp.abs(xp.mean(first)) / xp.sqrt(xp.mean(first**2)))
        kappa = float(minimum_feature_distance(test, output, least_share=least_share))
        found = _labelled(to_numpy(intensity), shares, overlap=overlap, kappa=kappa, threshold=threshold)
        return found.assign_attrs(least_share=str(least_share))


def _refuse_labels(xp: Namespace, **given: ArrayLike) -> None:
    for name, values in given.items():
        array = values if isinstance(values, Array) else np.asarray(values)
        if array.ndim == 1 and "float" not in str(array.dtype):
            raise ValueError(
                f"{name} must be numbers, got a list of {array.dtype}: give class labels as one-hot rows, "
                "np.eye(classes)[labels], and whole numbers that are values as floats"
            )


def _diagonalise(xp: Namespace, train: Array, test: Array) -> tuple[Array, Array]:
    """Algorithm 1: intensities (feature,) and eigenfunctions at the test samples (sample, feature)."""
    samples, features = train.shape
    wide = features > samples  # then from the N × N side, which is the smaller
    values, vectors = xp.linalg.eigh((train @ train.T if wide else train.T @ train) / samples)
    values, vectors = xp.flip(values), xp.flip(vectors, axis=1)
    largest = float(values[0])
    if largest <= 0:
        raise ValueError("train_features must not be 0 everywhere")
    rank = int((to_numpy(values) > _FAINT * largest).sum())
    values, vectors = values[:rank], vectors[:, :rank]
    directions = train.T @ vectors / xp.sqrt(values * samples) if wide else vectors
    return values, test @ directions / xp.sqrt(values)


def _orthonormal(xp: Namespace, columns: Array) -> tuple[Array, np.ndarray]:
    """Orthonormalise eigenfunctions in order; those that depend on earlier ones on these samples are left out."""
    size = to_numpy(xp.sqrt(xp.sum(columns**2, axis=0)))
    kept = np.flatnonzero(size > 0)[: columns.shape[0]]
    while True:
        frame, triangle = xp.linalg.qr(xp.take(columns, like(xp, columns, kept), axis=1))
        pivots = np.abs(np.diagonal(to_numpy(triangle)))
        alone = pivots > 1e-10 * size[kept]
        if alone.all():
            return frame, kept
        kept = kept[alone]


def _shares(xp: Namespace, frame: Array, kept: np.ndarray, functions: Array) -> np.ndarray:
    """Share of the span of orthonormal functions that each orthonormal feature holds."""
    overlap = to_numpy(xp.sum((frame.T @ functions) ** 2, axis=1)) / functions.shape[1]
    shares = np.zeros(int(kept.max()) + 1)
    shares[kept] = overlap
    return shares


def _printed_shares(xp: Namespace, eigenfunctions: Array, functions: Array, name: str) -> np.ndarray:
    """(1.30), (1.31) for one function; (2.3) with (1.34), and the square of (2.5), for several."""
    units = [each / xp.sqrt(xp.sum(each**2, axis=0)) for each in (eigenfunctions, functions)]
    overlap = to_numpy(xp.sum((units[0].T @ units[1]) ** 2, axis=1))  # ⟨e_k|P e_k⟩, P = Σ_j |f_j⟩⟨f_j|/‖f_j‖²
    outputs = functions.shape[1]
    return np.asarray((overlap**2 if name == "utilization" and outputs > 1 else overlap) / outputs)


def _labelled(
    intensity: np.ndarray, shares: dict[str, np.ndarray], *, overlap: float, kappa: float, threshold: float
) -> xr.Dataset:
    features = len(intensity)
    found = xr.Dataset(
        {"intensity": ("feature", intensity, {"long_name": "intensity ρ"})},
        coords={"feature": np.arange(1, features + 1)},
        attrs={"threshold": str(threshold)},
    )
    for name, values in shares.items():
        values = np.concatenate([values, np.zeros(features - len(values))])
        found[name] = ("feature", values)
        found[f"cumulative_{name}"] = ("feature", np.cumsum(values))
        found[f"dimension_{name}"] = float(effective_dimension(values)) if values.sum() > 0 else np.nan
    found["dimension_intensity_all"] = float(effective_dimension(intensity))
    found["dimension_intensity"] = float(effective_dimension(intensity, constant_first=True)) if features > 1 else 1.0
    found["constant_overlap"] = overlap
    found["minimum_feature_distance"] = kappa
    found["regime"] = "minimum features" if kappa < threshold else "extended features"
    return found
