"""Read the strengths of local elasticity off measured class means.

Two growths can be seen in class means: that of what the classes have in common and that of what tells them apart.
Each is an exponential of a combination of A = ∫α and B = ∫β, so two logarithms give both, for any number of classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.signal import savgol_filter

from dynascope.models.elastic.geometry import direction_cosine, margin_amplitudes, margin_directions
from dynascope.models.parameters import as_float, count, one_of, scalar

CONFIDENCE = 0.95
_ALIKE = 1e-8  # differences between classes below this share of what they have in common are rounding
_CLEAR = 4.0  # standard errors by which a growth must exceed its noise to be read


@dataclass(frozen=True)
class _Growth:
    """What the classes share and what tells them apart, over time: (…, time), and the weights of B in them."""

    classes: int
    common: np.ndarray
    apart: np.ndarray
    common_weight: float  # K log common = A + common_weight B + const
    apart_weight: float


def estimate_strengths(
    times: Any,
    class_means: Any,
    geometry: str = "logits",
    *,
    method: str = "exact",
    reference_time: float | None = None,
    window: int | None = None,
    resamples: int = 200,
    seed: int = 0,
) -> xr.Dataset:
    """Estimate α(t), β(t) and their integrals from paths of class means.

    With s the amplitude that the classes share and u that of their differences (logits: mean and spread of
    c_k = d_k·x_k/|d_k|²; isotropic: lengths of the mean over classes and of what is left), a = log s(t)/s(t₀) and
    b = log u(t)/u(t₀): A(t) − A(t₀) = a + (K−1) b and B(t) − B(t₀) = (a − b)/ρ, ρ the cosine of two margin directions,
    −1/(K−1) for logits (1 for isotropic). No offset enters. Time is whatever `times` counts.

    times: (time,). class_means: (time, class, feature) or (trial, time, class, feature); trials are averaged and give
    intervals. geometry: "logits" (features ≥ classes) or "isotropic". method: "exact", or "published" for elastic (11)
    as printed (logits: three classes only), which ignores an unknown offset.
    reference_time: t₀; by default the time after s first passes a tenth of its largest value, after the classes have
    found their directions. window: points of the Savitzky-Golay derivative (odd; by default a twentieth of the path).

    Returns over time integrated_intra, integrated_inter, integrated_gap = their difference (NaN before t₀), their
    derivatives intra, inter, gap, each with _low and _high (95 %, bootstrap over trials) if there are trials; the
    numbers reference_time, tail_index_intra, tail_index_inter (see `tail_index`) and ok; and the attribute reason.
    Where the classes are alike only the gap is identified: then ok is False and the two strengths are NaN.
    Source: elastic (9), (11), D.1; the exact form is derived, and checked on planted strengths.

    >>> from dynascope.models.elastic.mean_path import logit_path
    >>> from dynascope.models.elastic.strengths import Constant
    >>> times = np.linspace(0.0, 4.0, 41)
    >>> start = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, 0.1], [0.0, 0.0, 1.3]])
    >>> found = estimate_strengths(times, logit_path(times, start, Constant(1.0), Constant(-0.2)))
    >>> float(found["intra"][-1].round(6)), float(found["inter"][-1].round(6)), bool(found["ok"])
    (1.0, -0.2, True)
    """
    times, means = _paths(times, class_means, geometry)
    one_of("method", method, ["exact", "published"])
    average = means.mean(axis=0)  # (time, class, feature)
    if method == "published":
        return _published(times, average, geometry, window)
    growth = _growth(average, geometry)
    begin = _reference(times, growth.common, reference_time)
    reason = _doubt(_growth(means, geometry), growth, begin)
    found = _strengths(times, growth, begin, window, alike=bool(reason))
    if len(means) > 1:
        drawn = _bootstrap(times, means, geometry, begin=begin, window=window, resamples=resamples, seed=seed)
        for name, values in drawn.items():
            low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
            refused = bool(reason) and not name.endswith("gap")
            found[f"{name}_low"], found[f"{name}_high"] = (np.full_like(low, np.nan),) * 2 if refused else (low, high)
    return _labelled(times, found, begin, reason)


def _paths(times: Any, class_means: Any, geometry: str) -> tuple[np.ndarray, np.ndarray]:
    """Checked times (time,) and means (trial, time, class, feature)."""
    one_of("geometry", geometry, ["logits", "isotropic"])
    grid, means = as_float("times", times), as_float("class_means", class_means)
    if means.ndim not in (3, 4):
        raise ValueError(
            f"class_means must be (time, class, feature), with trials in front or not, got shape {means.shape}"
        )
    means = means if means.ndim == 4 else means[None]
    if grid.ndim != 1 or len(grid) != means.shape[1] or len(grid) < 5:
        raise ValueError(
            f"times must list the {means.shape[1]} times of class_means, at least 5, got shape {grid.shape}"
        )
    if np.any(np.diff(grid) <= 0) or grid[0] < 0:
        raise ValueError(f"times must increase from 0 or later, got {grid}")
    if means.shape[2] < 2:
        raise ValueError(f"class_means must hold at least 2 classes, got {means.shape[2]}")
    return grid, means


def _growth(means: np.ndarray, geometry: str) -> _Growth:
    classes, features = means.shape[-2:]
    if geometry == "isotropic":
        centre = means.mean(axis=-2)
        spread = np.sqrt(((means - centre[..., None, :]) ** 2).sum(axis=(-1, -2)))
        return _Growth(classes, np.linalg.norm(centre, axis=-1), spread, classes - 1.0, -1.0)
    cosine = direction_cosine(classes, features)
    amplitude = margin_amplitudes(means)
    centre = amplitude.mean(axis=-1)
    spread = np.linalg.norm(amplitude - centre[..., None], axis=-1)
    return _Growth(classes, centre, spread, (classes - 1) * cosine, -cosine)


def _reference(times: np.ndarray, common: np.ndarray, wanted: float | None) -> int:
    if wanted is None:
        first = int(np.argmax(common >= 0.1 * common.max()))
        begin = first + (first > 0)  # the passing point itself was chosen for its upward noise
    else:
        wanted = scalar("reference_time", wanted, at_least=float(times[0]))
        begin = int(np.searchsorted(times, wanted))
    if begin > len(times) - 5:
        raise ValueError(
            f"reference_time must leave at least 5 times of the path, got {times[min(begin, len(times) - 1)]}"
        )
    return begin


def _doubt(each: _Growth, together: _Growth, begin: int) -> str:
    """Why the two strengths cannot be told apart, or nothing."""
    common, apart = together.common[begin:], together.apart[begin:]
    if abs(together.common_weight - together.apart_weight) < 1e-12:
        return "the margin directions are orthogonal with this number of features: the inter-class strength is not seen"
    if np.any(common <= 0):
        return "the amplitude that the classes share is not positive after the reference time: give a later one"
    if np.any(apart <= _ALIKE * np.abs(common)):
        return "the classes are alike: their differences vanish, and only the gap A − B is identified"
    trials = len(each.common)
    if trials > 1:
        noise = each.common[:, begin:].std(axis=0, ddof=1) / np.sqrt(trials)
        if np.any(common < _CLEAR * noise):
            return "the amplitude that the classes share does not stand out from its noise: use more trials"
        if np.any(apart < _CLEAR * noise):
            return "the classes are alike within the noise: only the gap A − B is identified"
    return ""


def _strengths(
    times: np.ndarray, growth: _Growth, begin: int, window: int | None, *, alike: bool
) -> dict[str, Float[np.ndarray, "*resample time"]]:
    """Integrated strengths from t₀ on and their derivatives, for any leading axes."""
    classes = growth.classes
    weights = growth.common_weight - growth.apart_weight  # of B in K (a − b)
    with np.errstate(divide="ignore", invalid="ignore"):  # before t₀, and where classes are alike
        a = np.log(growth.common / growth.common[..., begin, None])
        b = np.log(growth.apart / growth.apart[..., begin, None])
        inter = classes * (a - b) / weights if abs(weights) > 1e-12 else np.full_like(a, np.nan)
        intra = classes * b - growth.apart_weight * inter
    # at p = K the shared amplitude grows with A − B itself, whatever the differences do
    gap = classes * a if np.isclose(growth.common_weight, -1) else intra - inter
    found = {"integrated_intra": intra, "integrated_inter": inter, "integrated_gap": gap}
    for name, values in list(found.items()):
        values[..., :begin] = np.nan
        if alike and name != "integrated_gap":
            values[...] = np.nan
        rate = np.full_like(values, np.nan)
        rate[..., begin:] = _derivative(times[begin:], values[..., begin:], window)
        found[name.removeprefix("integrated_")] = rate
    return found


def _derivative(times: np.ndarray, values: np.ndarray, window: int | None) -> np.ndarray:
    """Local quadratic fits on an even grid, differences on an uneven one."""
    steps = np.diff(times)
    if not np.allclose(steps, steps[0], rtol=1e-6):
        return np.asarray(np.gradient(values, times, axis=-1))
    points = max(5, len(times) // 20) if window is None else count("window", window, at_least=3)
    points = min(points | 1, len(times) - (len(times) + 1) % 2)  # odd, and no longer than the path
    known = np.isfinite(values).all(axis=-1, keepdims=True)  # the filter refuses what is not finite
    rate = savgol_filter(np.where(known, values, 0.0), points, 2, deriv=1, delta=steps[0], axis=-1)
    return np.where(known, rate, np.nan)


def _bootstrap(
    times: np.ndarray, means: np.ndarray, geometry: str, *, begin: int, window: int | None, resamples: int, seed: int
) -> dict[str, np.ndarray]:
    """The same estimates from trials drawn with replacement, (resample, time)."""
    trials = len(means)
    random = np.random.default_rng(seed)
    counts = random.multinomial(trials, np.full(trials, 1 / trials), size=count("resamples", resamples, at_least=20))
    drawn = np.tensordot(counts / trials, means, axes=1)  # (resample, time, class, feature)
    return _strengths(times, _growth(drawn, geometry), begin, window, alike=False)


def _published(times: np.ndarray, means: np.ndarray, geometry: str, window: int | None) -> xr.Dataset:
    """Elastic (11) as printed, from the first time on."""
    classes, features = means.shape[1:]
    if geometry == "isotropic":
        centre = means.mean(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            shared = np.log(np.abs(centre / centre[0])).mean(axis=(1, 2))
            own = np.log(np.abs((means - centre) / (means - centre)[0])).mean(axis=(1, 2))
        intra, inter = shared + (classes - 1) * own, shared - own
    else:
        if (classes, features) != (3, 3):
            raise ValueError(
                f"method 'published' needs 3 classes and 3 logits, got {classes} and {features}; use 'exact'"
            )
        first = np.array([1, -1, -1, -1, 1, -1, -2, -2, 0]) / 4  # (D.2)
        second = np.array([2, -1, -1, -1, 2, -1, 0, 0, 0]) / 3 - 4 / 3 * first
        flat = means.reshape(len(times), 9)
        with np.errstate(divide="ignore"):
            a, b = (np.log(np.abs(path / path[0])) for path in (flat @ first - 1, flat @ second))
        intra, inter = a + 2 * b, 2 * (b - a)
    found = {"integrated_intra": intra, "integrated_inter": inter, "integrated_gap": intra - inter}
    found |= {name.removeprefix("integrated_"): _derivative(times, values, window) for name, values in found.items()}
    return _labelled(times, found, 0, "")


def _labelled(times: np.ndarray, found: dict[str, np.ndarray], begin: int, reason: str) -> xr.Dataset:
    dataset = xr.Dataset({name: ("time", values) for name, values in found.items()}, coords={"time": times})
    dataset["reference_time"] = float(times[begin])
    for name in ("intra", "inter"):
        dataset[f"tail_index_{name}"] = tail_index(times[begin:], found[name][begin:])
    dataset["ok"] = not reason
    return dataset.assign_attrs(reason=reason)


def tail_index(times: Any, strength: Any) -> float:
    """R in α(t) ∝ (1 + t)^−r: minus the slope of log|α| on log(1 + t) over the last third of the path.

    A regression on the strength itself has no offset to be biased by, unlike 1 − log A/log(1 + t) of elastic (D.19).
    NaN where the strength is not known.

    >>> times = np.linspace(0.0, 1000.0, 301)
    >>> round(tail_index(times, 3 / (1 + times) ** 0.7), 6)
    0.7
    """
    grid, values = np.asarray(times, float), np.asarray(strength, float)
    late = slice(len(grid) - max(len(grid) // 3, 2), None)
    x, y = (
        np.log1p(grid[late]),
        np.log(np.abs(values[late]), where=values[late] != 0, out=np.full(len(grid[late]), np.nan)),
    )
    return float(-np.polyfit(x, y, 1)[0]) if np.all(np.isfinite(y)) else float("nan")


def relative_difference(
    genuine: Any, imitated: Any, geometry: str = "logits"
) -> Float[np.ndarray, "*trial time class"]:
    """RD_k between two sets of paths, 0 for the same and 2 at the most: elastic (D.21).

    |x_k − y_k|_H / ((|x_k| + |y_k|)/2), where |·|_H is the length along the margin direction d_k for "logits" and the
    plain length for "isotropic". Paths are (…, time, class, feature). The logit form sees one direction only, the very
    one that an estimate is fitted to: judge an imitation by the plain form, on what it was not fitted to.

    >>> float(relative_difference([[[1.0, 0.0]]], [[[0.0, 1.0]]], geometry="isotropic").round(3)[0, 0])
    1.414
    """
    one_of("geometry", geometry, ["logits", "isotropic"])
    x, y = as_float("genuine", genuine), as_float("imitated", imitated)
    if x.shape != y.shape or x.ndim < 2:
        raise ValueError(
            f"imitated must have the shape of genuine, (…, time, class, feature) = {x.shape}, got {y.shape}"
        )
    if geometry == "logits":
        length = np.linalg.norm(margin_directions(*x.shape[-2:])[0])
        distance = np.abs(margin_amplitudes(x - y)) * length
    else:
        distance = np.linalg.norm(x - y, axis=-1)
    scale = (np.linalg.norm(x, axis=-1) + np.linalg.norm(y, axis=-1)) / 2
    return np.asarray(np.divide(distance, scale, out=np.zeros_like(distance), where=scale > 0))
