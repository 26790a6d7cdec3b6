"""How well each layer separates the classes, and how the layers share that work: data separation and load curves."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dynascope.checks import ArrayLike, Given, count, one_of, scalar
from dynascope.measure.arrays import (
    BLOCK,
    Array,
    Namespace,
    checked,
    class_codes,
    float64_of,
    like,
    one_hot,
    pieces_of,
    rank_of,
    rounding_of,
    rows_of,
    to_numpy,
)
from dynascope.measure.prediction import held_out_residuals

STREAMED = ("trace", "pinv", "regression")  # what an accumulator can measure batch by batch
KINDS = (*STREAMED, "held_out")
MARGIN, DEAD_BELOW, CONFIDENCE = 0.5, 0.1, 0.95


def data_separation(
    features: ArrayLike, labels: ArrayLike, *, kind: str = "trace", groups: ArrayLike | None = None
) -> Array:
    """Measure how far features are from separating the classes: the lower, the better.

    trace: D = log(tr Σw / tr Σb), (3).   pinv: D = log tr(Σw Σb⁺), (S1).
    regression: D = √(min over w, b of Σ_i |y_i − w·x_i − b|² / (2N)), the best linear fit, S5.
    held_out: the same, each y_i predicted by a fit to other samples, for wide layers.
    Σw is the covariance within classes, averaged with the class sizes N_k/N as weights; Σb that of the class means,
    with the same weights, so that Σw + Σb is the covariance of the data.

    features: (sample, feature), further axes are flattened; NumPy, PyTorch or JAX, any units: trace and pinv do not
    change when features turn, shift or scale. labels: (sample,), whole numbers or text; for regression and held_out the
    targets, (sample,) or (sample, output). groups: (sample,), as the text of a token, held out together. Time does not
    enter.
    Returns one float64 number of the kind that went in, on its device. It is −∞ where classes have no spread at all, +∞
    where their means agree, NaN where nothing differs. Needs more samples than classes (for regression than features
    by 2 or more, else every fit is perfect). Σb⁺ drops directions below the rounding of the features' own precision.
    Cost: O(N·p·K), for regression O(N·p²); no p × p or N × N matrix is formed for trace and pinv.
    Source: spring-block (2), (3), (S1), Section S5; He and Su (2023) for pinv.

    >>> features = [[0.0, 0.0], [0.0, 2.0], [4.0, 0.0], [4.0, 2.0]]  # Σw = diag(0, 1), Σb = diag(4, 0)
    >>> round(float(data_separation(features, [0, 0, 1, 1])), 6) == round(float(np.log(1 / 4)), 6)
    True
    """
    measured = layer_load(features, labels, kind=kind, groups=groups)
    with checked(features=features) as (xp, x):
        return like(xp, x, np.asarray(measured.load))


def load_curve(
    features: Given[Sequence[ArrayLike]],
    labels: ArrayLike,
    *,
    kind: str = "trace",
    groups: ArrayLike | None = None,
    layers: Sequence[str] | None = None,
    resamples: int = 400,
    seed: int = 0,
    margin: float = MARGIN,
    dead_below: float = DEAD_BELOW,
) -> xr.Dataset:
    """Measure the separation after every layer and say how the layers share the work.

    Increments d_ℓ = D_{ℓ−1} − D_ℓ; linearity is R² of a line through D_ℓ over ℓ; curvature is the slope of the
    increments over ℓ (least squares): positive for a concave curve (deep layers do more), negative for a convex one.
    bend = curvature·(L − 1)/mean |d_ℓ| compares it with the increments.

    features: list of L + 1 ≥ 3 arrays (sample, …), the input first, widths may differ.
    labels, kind, groups: see `data_separation`; the bootstrap draws whole groups.
    layers: their names.
    resamples: of the bootstrap (0: no intervals), drawn with `seed`.
    margin: a bend within ± margin counts as linear.
    dead_below: layers whose increment is below this share of the mean absolute increment add nothing ("dead").

    Returns a Dataset over layer: load, increment (NaN for the input), dead; the numbers linearity, curvature, bend,
    shape ("concave", "linear", "convex"; "undefined" where a load is not finite); 95 % intervals as …_low, …_high and
    shape_confidence, the share of resamples with the same verdict. Intervals need tens of samples per class, and hold
    for *this* network, not for other training runs: docs/measures.md. Time does not enter.
    Source: spring-block (3), Figure S3, Figure S5; the figures have dead layers and R², bend, margin and intervals are
    ours.

    >>> random = np.random.default_rng(0)
    >>> labels = np.arange(300) % 3
    >>> noise = random.normal(size=(300, 3))
    >>> curve = load_curve([noise + scale * np.eye(3)[labels] for scale in (1.0, 2.0, 4.0, 8.0)], labels)
    >>> str(curve["shape"].values), bool(curve["dead"].any())
    ('linear', False)
    """
    one_of("kind", kind, KINDS)
    options = {"margin": scalar("margin", margin, at_least=0.0), "dead_below": scalar("dead_below", dead_below)}
    resamples = count("resamples", resamples, at_least=0)
    if not isinstance(features, list | tuple) or len(features) < 3:
        raise ValueError("features must be a list of the features of at least 3 layers, the input first")
    measured = [
        layer_load(each, labels, kind=kind, groups=groups, name=f"features[{index}]")
        for index, each in enumerate(features)
    ]
    loads = np.array([each.load for each in measured])
    curve = describe(loads, layers, kind=kind, **options)
    if resamples and np.all(np.isfinite(loads)):
        drawn = resampled(measured, resamples, count("seed", seed, at_least=0), groups=groups)
        curve = curve.assign(_intervals(drawn, str(curve["shape"].values), **options))
    return curve


@dataclass(frozen=True)
class LayerLoad:
    """A load, and how it moves when a sample's weight grows from 1: ∂D/∂w_i.

    >>> LayerLoad(1.0, np.zeros(3)).load
    1.0
    """

    load: float
    influence: Float[np.ndarray, " sample"]


def layer_load(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    kind: str = "trace",
    groups: ArrayLike | None = None,
    name: str = "features",
) -> LayerLoad:
    """Measure one layer with the influence of every sample; see `data_separation`.

    >>> layer_load([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1]).influence.shape
    (4,)
    """
    rounding = rounding_of(features)
    if one_of("kind", kind, KINDS) in ("regression", "held_out"):
        with float64_of(**{name: features, "labels": labels}) as (xp, x, y):
            x, y = rows_of(xp, name, x), _targets(xp, y, x.shape[0])
            if kind == "regression":
                return _from_residuals(_residuals(xp, x, y, rounding=rounding, name=name))
            told = np.arange(x.shape[0]) if groups is None else to_numpy(groups)
            return _from_residuals(held_out_residuals(xp, x, y, told, name=name))
    with checked(**{name: features}) as (xp, x):
        x = rows_of(xp, name, x)
        classes, codes = class_codes(labels, x.shape[0])
        if kind == "trace":
            return _trace(xp, x, codes, len(classes))
        return _pinv(xp, xp.astype(x, xp.float64), codes, classes=len(classes), rounding=rounding)


def _targets(xp: Namespace, targets: Array, samples: int) -> Array:
    """Targets as (sample, output)."""
    if targets.shape[0] != samples or targets.ndim > 2:
        raise ValueError(
            f"labels must be the targets of the {samples} samples, (sample,) or (sample, output), for "
            f"kind='regression', got shape {tuple(targets.shape)}"
        )
    return xp.reshape(targets, (samples, -1))


def class_split(xp: Namespace, x: Array, codes: Int[np.ndarray, " sample"], classes: int) -> tuple[Array, Array, Array]:
    """Class means about the grand mean (class, feature), those of each sample's class, and what is left of it.

    >>> class_split(np, np.array([[0.0], [2.0], [7.0]]), np.array([0, 0, 1]), 2)[0].tolist()
    [[-2.0], [4.0]]
    """
    x = x - xp.mean(x, axis=0)  # before any product, or a common offset would cost digits
    sizes = like(xp, x, np.bincount(codes, minlength=classes).astype(np.float64))
    means = one_hot(xp, x, codes, classes).T @ x / sizes[:, None]
    own = xp.take(means, like(xp, x, codes), axis=0)  # (sample, feature)
    return means, own, x - own


def _trace(xp: Namespace, x: Array, codes: np.ndarray, classes: int) -> LayerLoad:
    """(3), with ∂ tr(N Σw)/∂w_i = |r|² and ∂ tr(N Σb)/∂w_i = |m|² + 2 r·m, r = x_i − m, m the class mean."""
    within, between, signal = np.zeros(len(codes)), np.zeros(len(codes)), 0.0
    for part in pieces_of(x, classes):
        _, own, rest = class_split(xp, xp.astype(x[:, part], xp.float64), codes, classes)
        within += to_numpy(xp.sum(rest**2, axis=1))
        between += to_numpy(xp.sum(own * (own + 2 * rest), axis=1))
        signal += float(to_numpy(xp.sum(own**2)))
    return _log_ratio(float(within.sum()), signal, within, between)


def _log_ratio(top: float, bottom: float, top_slope: np.ndarray, bottom_slope: np.ndarray) -> LayerLoad:
    load = log_ratio(top, bottom)
    if not math.isfinite(load):
        return LayerLoad(load, np.full(len(top_slope), np.nan))
    return LayerLoad(load, np.asarray(top_slope / top - bottom_slope / bottom))


def log_ratio(top: float, bottom: float) -> float:
    """Logarithm of top/bottom with its limits at 0.

    >>> log_ratio(0.0, 1.0), log_ratio(1.0, 0.0), log_ratio(0.0, 0.0)
    (-inf, inf, nan)
    """
    if top > 0 and bottom > 0:
        return math.log(top) - math.log(bottom)
    return math.nan if top == bottom == 0 else math.copysign(math.inf, top - bottom)


def _pinv(xp: Namespace, x: Array, codes: np.ndarray, *, classes: int, rounding: float) -> LayerLoad:
    """(S1) by projecting on the few directions that Σb has; its derivative includes how those directions turn.

    With W = N Σw, B = N Σb = V S Vᵀ, r = x_i − m, m the class mean about the grand mean:
    ∂B/∂w_i = m mᵀ + r mᵀ + m rᵀ and ∂tr(W B⁺)/∂w_i = rᵀB⁺r − tr(B⁺WB⁺ ∂B) + 2 rᵀ(1 − V Vᵀ) W B⁺² m.
    """
    means, own, rest = class_split(xp, x, codes, classes)
    sizes = like(xp, x, np.sqrt(np.bincount(codes)))
    _, roots, directions = xp.linalg.svd(means * sizes[:, None], full_matrices=False)
    rank = min(rank_of(roots, rounding), classes - 1) if float(roots[0]) > 0 else 0
    strength, directions = roots[:rank] ** 2, directions[:rank, :].T  # S (direction,), V (feature, direction)
    r, m = rest @ directions, own @ directions  # (sample, direction)
    spread = r.T @ r  # Vᵀ W V
    slope = xp.sum(r**2 / strength, axis=1)
    load = float(xp.sum(slope))
    inner = spread / strength[:, None] / strength
    m2 = m / strength**2
    slope = slope - xp.sum((m + 2 * r) * (m @ inner), axis=1)
    slope = slope + 2 * xp.sum((rest @ (rest.T @ r) - r @ spread) * m2, axis=1)
    if rank == 0:  # the class means agree
        return _log_ratio(float(xp.sum(rest**2)), 0.0, np.zeros(len(codes)), np.zeros(len(codes)))
    return _log_ratio(load, 1.0, to_numpy(slope), np.zeros(len(codes)))


def _residuals(xp: Namespace, x: Array, y: Array, *, rounding: float, name: str) -> np.ndarray:
    """Squared errors of the best fit to all samples."""
    samples, features = x.shape
    if samples < features + 2:
        raise ValueError(
            f"{name} must have fewer features than samples − 1 for kind='regression', got {features} features of "
            f"{samples} samples, which any targets fit; use more samples, or kind='held_out'"
        )
    x, y = x - xp.mean(x, axis=0), y - xp.mean(y, axis=0)
    frame, triangle = xp.linalg.qr(x)
    turn, sizes, _ = xp.linalg.svd(triangle)
    explained = frame @ turn[:, : rank_of(sizes, rounding)] if float(sizes[0]) > 0 else frame[:, :0]
    return to_numpy(xp.sum((y - explained @ (explained.T @ y)) ** 2, axis=1))


def _from_residuals(rest: Float[np.ndarray, " sample"]) -> LayerLoad:
    """S5; at the best fit the residual's derivative is that of its sample alone."""
    load = math.sqrt(rest.sum() / (2 * len(rest)))
    relative = rest / rest.sum() if load > 0 else np.full(len(rest), 1 / len(rest))
    return LayerLoad(load, load / 2 * (relative - 1 / len(rest)))


def describe(
    loads: Float[np.ndarray, " layer"], layers: Sequence[str] | None, *, kind: str, margin: float, dead_below: float
) -> xr.Dataset:
    """Label a load curve and judge its shape; see `load_curve`.

    >>> float(describe(np.array([3.0, 2.0, 1.0, 0.0]), None, kind="trace", margin=0.5, dead_below=0.1)["linearity"])
    1.0
    """
    names = list(range(len(loads))) if layers is None else [str(name) for name in layers]
    if len(names) != len(loads):
        raise ValueError(f"layers must name all {len(loads)} layers, got {len(names)} names")
    numbers = _shape_numbers(loads)
    increments = np.concatenate([[np.nan], -np.diff(loads)])
    size = np.abs(increments[1:]).mean()
    units = {} if kind == "regression" else {"units": "natural logarithm"}
    return xr.Dataset(
        {
            "load": ("layer", loads, {"long_name": "load D", **units}),
            "increment": ("layer", increments, {"long_name": "work done by the layer", **units}),
            "dead": ("layer", increments < dead_below * size),
            "linearity": _linearity(loads),
            **numbers,
            "shape": str(_verdict(numbers["bend"], margin)),
        },
        coords={"layer": names},
        attrs={"kind": kind},
    )


def curvature(load: Float[np.ndarray, "*lead layer"]) -> Float[np.ndarray, "*lead"]:
    """Growth of the work d_ℓ = D_{ℓ−1} − D_ℓ from layer to layer, by least squares: above 0 a curve is concave.

    >>> float(curvature(np.array([3.0, 3.0, 2.0, 0.0])))
    1.0
    """
    work = -np.diff(load, axis=-1)
    places = np.arange(work.shape[-1]) - (work.shape[-1] - 1) / 2
    return np.asarray(work @ places / (places @ places))


def straightness(load: Float[np.ndarray, "*lead layer"]) -> Float[np.ndarray, "*lead"]:
    """R² of a straight line through each load curve. Source: spring-block Figure S5.

    >>> float(straightness(np.array([3.0, 2.0, 1.0])))
    1.0
    """
    places = np.arange(load.shape[-1]) - (load.shape[-1] - 1) / 2
    centred = load - load.mean(axis=-1, keepdims=True)
    return np.asarray((centred @ places) ** 2 / (places @ places) / np.vecdot(centred, centred))


def bends(load: Float[np.ndarray, "*lead layer"]) -> Float[np.ndarray, "*lead"]:
    """Bend of load curves: curvature·(L − 1)/mean |d_ℓ|, 0 for level ones; see `load_curve`.

    >>> float(bends(np.array([3.0, 2.0, 1.0])))
    0.0
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.abs(np.diff(load, axis=-1)).mean(axis=-1)
        return np.where(size == 0, 0.0, curvature(load) * (load.shape[-1] - 2) / size)


def _shape_numbers(loads: np.ndarray) -> dict[str, np.ndarray]:
    """Curvature and bend of load curves (…, layer)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return {"curvature": curvature(loads), "bend": bends(loads)}


def _linearity(loads: np.ndarray) -> float:
    """R² of a line; NaN for a level curve, which has nothing to explain."""
    if not np.all(np.isfinite(loads)) or np.ptp(loads) == 0:
        return math.nan
    return float(straightness(loads))


def _verdict(bend: ArrayLike, margin: float) -> np.ndarray:
    words = np.where(np.abs(bend) <= margin, "linear", np.where(np.asarray(bend) > 0, "concave", "convex"))
    return np.where(np.isfinite(bend), words, "undefined")


def resampled(
    layers: Sequence[LayerLoad], resamples: int, seed: int, *, groups: ArrayLike | None = None
) -> Float[np.ndarray, "resample layer"]:
    """Loads under samples, or groups of them, drawn with replacement; to first order, see docs/measures.md.

    >>> resampled([LayerLoad(1.0, np.zeros(3))], 2, 0).tolist()
    [[1.0], [1.0]]
    """
    influence = np.stack([each.influence for each in layers], axis=-1)  # (sample, layer)
    if groups is not None:
        _, codes = np.unique(to_numpy(groups), return_inverse=True)
        influence = np.stack([np.bincount(codes, weights=each) for each in influence.T], axis=-1)  # (group, layer)
    changes = [weights @ influence for weights in drawn_anew(len(influence), resamples, seed)]
    return np.asarray(np.array([each.load for each in layers]) + np.concatenate(changes))


def drawn_anew(samples: int, resamples: int, seed: int) -> Iterator[Int[np.ndarray, "resample sample"]]:
    """How much more often than once each sample is drawn with replacement; some resamples at a time.

    >>> next(drawn_anew(3, 2, 0)).sum(axis=1).tolist()
    [0, 0]
    """
    random = np.random.default_rng(seed)
    for first in range(0, resamples, size := max(1, BLOCK // samples)):
        several = min(size, resamples - first)
        places = random.integers(samples, size=(several, samples)) + samples * np.arange(several)[:, None]
        yield np.bincount(places.ravel(), minlength=several * samples).reshape(several, samples) - 1


def _intervals(drawn: np.ndarray, shape: str, *, margin: float, dead_below: float) -> Mapping[str, object]:
    """95 % intervals from resampled curves (resample, layer)."""
    first = np.full((len(drawn), 1), np.nan)
    numbers = _shape_numbers(drawn)
    spread = {"load": drawn, "increment": np.concatenate([first, -np.diff(drawn, axis=1)], axis=1), **numbers}
    found: dict[str, object] = {}
    for name, values in spread.items():
        ends = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
        for end, value in zip(("low", "high"), ends, strict=True):
            found[f"{name}_{end}"] = ("layer", value) if value.ndim else float(value)
    found["shape_confidence"] = float(np.mean(_verdict(numbers["bend"], margin) == shape))
    return found
