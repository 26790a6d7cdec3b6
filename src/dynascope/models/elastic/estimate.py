"""Read the strengths of local elasticity off measured class means.

Two growths can be seen in class means: that of what the classes share and that of what tells them apart.
Each is an exponential of a combination of A = ∫α and B = ∫β, so two logarithms give both, for any number of classes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import ArrayLike, Times, left_out, one_of, scalar
from dynascope.models.elastic.geometry import direction_cosine, margin_amplitudes
from dynascope.models.elastic.tails import METHODS as TAILS
from dynascope.models.elastic.tails import tail_index
from dynascope.statistics.derivative import NARROWEST, automatic_window, checked_window, local_derivative
from dynascope.statistics.resampling import bootstrap_weights, class_paths, interval, resampled, too_few

STRENGTHS = ("intra", "inter", "gap")
_VANISHING = 1e-8  # what is below this share of the class means is rounding
_CLEAR = 4.0  # standard errors by which a growth must exceed its noise to be read
_UNDERSMOOTHED = 0.6  # share of the widest window that is used: bias falls to a third, and intervals cover
_DRAWS = 16  # resamples that stand for the noise when a window is chosen
PRINTED_VECTORS = np.array([[1, -1, -1, -1, 1, -1, -2, -2, 0], [2, -1, -1, -1, 2, -1, 0, 0, 0]]) / [[4], [3]]  # (D.8)

Reader = Callable[[np.ndarray], Float[np.ndarray, "*lead quantity time"]]


def estimate_strengths(
    times: Times,
    class_means: ArrayLike,
    geometry: str = "logits",
    *,
    method: str = "exact",
    reference_time: float | None = None,
    window: int | None = None,
    tail: str = "differentiated",
    resamples: int = 200,
    seed: int = 0,
) -> xr.Dataset:
    """Estimate α(t), β(t) and their integrals from paths of class means.

    With s the amplitude that the classes share, u that of their differences, a = log s(t)/s(t₀), b = log u(t)/u(t₀):
    A(t) − A(t₀) = a + (K−1) b and B(t) − B(t₀) = (a − b)/ρ, ρ the cosine of two margin directions, −1/(K−1) for logits
    (1 for isotropic). Time is whatever `times` counts.

    times: (time,).
    class_means: (time, class, feature) or (trial, time, class, feature); trials are averaged and give intervals.
    geometry: "logits" (features ≥ classes) or "isotropic".
    method: "exact", or from the first time on "published" for elastic (11) as printed (logits: three classes only), or
        "code" for the same as the source computes it, without the −1 beside X̄ᵀv₁.
    reference_time: t₀; by default the time after s first passes a tenth of its largest value.
    window: points of the Savitzky-Golay derivative (odd), by default chosen by `derivative.automatic_window`.
    tail: how `tails.tail_index` reads tail indices: "differentiated", "integrated" or "published" (D.19).

    Returns over time integrated_intra, integrated_inter, integrated_gap (NaN before t₀), their derivatives intra,
    inter, gap, and those times the mean length of the class means (D.2), adjusted_…; the numbers tail_index_…; all with
    _low and _high (95 %, bootstrap) if there is a trial axis; reference_time, window, and ok with the attribute reason.
    What cannot be known is NaN: where classes are alike only the gap is identified. More: docs/elastic.md.
    Source: elastic (9), (11), (D.2), Section D.1, Section D.2; the exact form is derived, and checked on planted
    strengths.

    >>> from dynascope.models.elastic.mean_path import logit_path
    >>> from dynascope.models.elastic.strengths import Constant
    >>> times = np.linspace(0.0, 4.0, 41)
    >>> start = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, 0.1], [0.0, 0.0, 1.3]])
    >>> found = estimate_strengths(times, logit_path(times, start, Constant(1.0), Constant(-0.2)))
    >>> float(found["intra"][-1].round(6)), float(found["inter"][-1].round(6)), bool(found["ok"])
    (1.0, -0.2, True)
    """
    one_of("geometry", geometry, ["logits", "isotropic"])
    one_of("method", method, ["exact", "published", "code"])
    one_of("tail", tail, TAILS)
    times, means, several = class_paths(times, class_means)
    average = means.mean(axis=0)  # (time, class, feature)
    if method != "exact":
        left_out("reference_time", reference_time, where=f"for the {method} method")
        begin, (reason, refused) = 0, _printed_doubt(average, geometry, method)
    else:
        common, _ = _parts(average, geometry)
        begin = _reference(times, common, reference_time)
        reason, refused = _doubts(means, geometry, begin)
    window = checked_window(window, len(times) - begin)
    read = _reader(geometry, method, begin)
    weights = bootstrap_weights(len(means), resamples, seed)
    found, drawn = read(average), None  # (quantity, time), and with resamples in front
    if several and too_few(len(means)):
        reason = "; ".join(filter(None, [reason, too_few(len(means))]))
    elif several:
        drawn = resampled(weights, means, read)
    window = window or _window(times, found, drawn, begin=begin, refused=refused)
    estimates = _quantities(times[begin:], found[..., begin:], window, tail)
    if drawn is not None:
        draws = _quantities(times[begin:], drawn[..., begin:], window, tail)
    for name, value in list(estimates.items()) if several else ():
        ends = (np.nan * value,) * 2 if drawn is None else interval(value, draws[name], len(means))
        estimates[f"{name}_low"], estimates[f"{name}_high"] = ends
    dataset = _labelled(times, estimates, begin, refused)
    return dataset.assign(reference_time=float(times[begin]), window=window, ok=not reason).assign_attrs(reason=reason)


def integrated_strengths(
    means: Float[np.ndarray, "*lead time class feature"], geometry: str, *, method: str
) -> Float[np.ndarray, "*lead 3 time"]:
    """A, B and A − B from average class means, from their first time on, without intervals; NaN stays NaN.

    geometry, method: as in `estimate_strengths`. Source: elastic (11).

    >>> means = np.exp(np.linspace(0.0, 1.0, 5))[:, None, None] * np.array([[1.0, 0.5], [0.2, 1.0]])
    >>> integrated_strengths(means, "isotropic", method="published")[:, -1].round(6).tolist()
    [2.0, 0.0, 2.0]
    """
    one_of("geometry", geometry, ["logits", "isotropic"])
    return _reader(geometry, one_of("method", method, ["exact", "published", "code"]), 0)(means)[..., :3, :]


def _parts(means: np.ndarray, geometry: str) -> tuple[np.ndarray, np.ndarray]:
    """What the classes share and what tells them apart, (…, time, component): each grows as a whole."""
    if geometry == "isotropic":
        centre = means.mean(axis=-2)
        apart = means - centre[..., None, :]
        return centre, apart.reshape((*apart.shape[:-2], -1))
    amplitude = margin_amplitudes(means)
    centre = amplitude.mean(axis=-1, keepdims=True)
    return centre, amplitude - centre


def _combinations(classes: int, features: int, geometry: str) -> Float[np.ndarray, "strength part"]:
    """A, B and A − B from K log s = A + v B and K log u = A + w B; NaN for what the two do not determine."""
    cosine = 1.0 if geometry == "isotropic" else direction_cosine(classes, features)
    v, w = (classes - 1) * cosine, -cosine
    if abs(v - w) < 1e-12:  # margin directions are orthogonal: s and u grow alike, with A only
        return np.array([[1.0, 0.0], [np.nan, np.nan], [np.nan, np.nan]])
    table = np.array([[-w, v], [1.0, -1.0], [-w - 1, v + 1]]) / (v - w)
    return np.where(np.abs(table) < 1e-12, 0.0, table)  # A − B is the growth of s alone, or of u alone


def _reader(geometry: str, method: str, begin: int) -> Reader:
    """Integrated intra, inter and gap, and the mean length of the class means, from (…, time, class, feature)."""

    def read(means: np.ndarray) -> np.ndarray:
        classes, features = means.shape[-2:]
        with np.errstate(divide="ignore", invalid="ignore"):  # what vanishes is refused elsewhere
            if method != "exact":
                intra, inter = _printed(_printed_factors(means, geometry, method), classes, geometry)
                curves = [intra, inter, intra - inter]
            else:
                sizes = [np.linalg.norm(part, axis=-1) for part in _parts(means, geometry)]
                growth = [classes * np.log(size / size[..., begin, None]) for size in sizes]
                rows = _combinations(classes, features, geometry)
                curves = [
                    np.sum([c * part for c, part in zip(row, growth, strict=True) if c != 0], axis=0) for row in rows
                ]
        return np.stack([*curves, np.linalg.norm(means, axis=-1).mean(axis=-1)], axis=-2)

    return read


def _printed_factors(means: np.ndarray, geometry: str, method: str) -> tuple[np.ndarray, np.ndarray]:
    """The ratios ⟨X⟩ = X(t)/X(0) of (11), (…, time, component), whose logarithms make A and B."""
    if geometry == "isotropic":
        centre, apart = _parts(means, geometry)
    else:
        if means.shape[-2:] != (3, 3):
            raise ValueError(
                f"method {method!r} needs 3 classes and 3 logits, got {means.shape[-2]} and {means.shape[-1]}; "
                "use 'exact'"
            )
        first, second = PRINTED_VECTORS
        flat = means.reshape((*means.shape[:-2], 9))
        shift = 1.0 if method == "published" else 0.0
        centre, apart = (flat @ first - shift)[..., None], (flat @ (second - 4 / 3 * first))[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return centre / centre[..., :1, :], apart / apart[..., :1, :]


def _printed(ratios: tuple[np.ndarray, np.ndarray], classes: int, geometry: str) -> tuple[np.ndarray, np.ndarray]:
    shared, own = (np.log(np.abs(ratio)).mean(axis=-1) for ratio in ratios)
    inter = shared - own if geometry == "isotropic" else 2 * (own - shared)
    return shared + (classes - 1) * own, inter


def _printed_doubt(average: np.ndarray, geometry: str, method: str) -> tuple[str, tuple[str, ...]]:
    ratios = _printed_factors(average, geometry, method)
    if all(np.all(ratio > 0) for ratio in ratios):
        return "", ()
    return "a factor changes sign or vanishes, which the absolute values of the printed form hide", ()


def _reference(times: np.ndarray, common: np.ndarray, wanted: float | None) -> int:
    latest = len(times) - 5
    if wanted is None:
        size = common[:, 0] if common.shape[1] == 1 else np.linalg.norm(common, axis=1)
        first = int(np.argmax(size >= 0.1 * size.max()))
        return min(first + (first > 0), latest)  # the passing point itself was chosen for its upward noise
    wanted = scalar("reference_time", wanted, at_least=float(times[0]))
    begin = int(np.searchsorted(times, wanted))
    if begin > latest:
        raise ValueError(
            f"reference_time must leave at least 5 times of the path, be at most {times[latest]}, got {wanted}"
        )
    return begin


def _doubts(means: np.ndarray, geometry: str, begin: int) -> tuple[str, tuple[str, ...]]:
    """Why not everything can be read, and the strengths that cannot."""
    parts = _parts(means[:, begin:], geometry)
    whole = np.linalg.norm(means[:, begin:].mean(axis=0), axis=(-1, -2))
    names = ("the amplitude that the classes share", "the amplitude of their differences")
    doubts = [_doubt(name, part, whole) for name, part in zip(names, parts, strict=True)]
    if geometry == "logits" and not doubts[0] and parts[0].mean(axis=0)[0] < 0:
        doubts[0] = f"{names[0]} is negative at the reference time: give a later one"
    classes, features = means.shape[-2:]
    rows = _combinations(classes, features, geometry)
    refused = tuple(
        name
        for name, row in zip(STRENGTHS, rows, strict=True)
        if np.isnan(row).any() or any(doubt and weight != 0 for doubt, weight in zip(doubts, row, strict=True))
    )
    if np.isnan(rows).any():
        doubts.append("the margin directions are orthogonal with this number of features: β is not seen")
    left = [name for name in STRENGTHS if name not in refused]
    if refused:
        known = {"gap": "only the gap A − B is identified", "intra": "only A is identified"}
        doubts.append(known[left[0]] if len(left) == 1 else "neither A nor B nor A − B is identified")
    return "; ".join(filter(None, doubts)), refused


def _doubt(name: str, part: np.ndarray, whole: np.ndarray) -> str:
    """What is wrong with a growing part (trial, time, component) beside the whole (time,), or nothing."""
    average, trials = part.mean(axis=0), len(part)
    size = np.linalg.norm(average, axis=-1)
    if np.any(size <= _VANISHING * whole):
        return f"{name} vanishes"
    noise = np.sqrt(part.var(axis=0, ddof=1).sum(axis=-1) / trials) if trials > 1 else 0.0
    if np.any(size < _CLEAR * noise):
        return f"{name} does not stand out from its noise: use more trials"
    if np.any(average @ average[0] <= 0):
        return f"{name} changes sign after the reference time"
    return ""


def _window(
    times: np.ndarray, found: np.ndarray, drawn: np.ndarray | None, *, begin: int, refused: tuple[str, ...]
) -> int:
    """One window for all strengths, chosen on those that are identified; the gap only where it stands alone."""
    kept = [row for row, name in enumerate(STRENGTHS) if name not in refused and np.isfinite(found[row, begin:]).all()]
    kept = kept[:2]
    draws = None if drawn is None else drawn[:_DRAWS, kept, begin:]
    widest = automatic_window(times[begin:], found[kept, begin:], draws)
    return max(min(NARROWEST, widest), int(_UNDERSMOOTHED * widest) | 1)


def _quantities(
    times: np.ndarray, curves: Float[np.ndarray, "*resample quantity time"], window: int, tail: str
) -> dict[str, np.ndarray]:
    """Integrated strengths, strengths, adjusted strengths (…, time) and tail indices (…,), from t₀ on."""
    length = curves[..., 3, :]
    found: dict[str, np.ndarray] = {}
    for row, name in enumerate(STRENGTHS):
        integrated = curves[..., row, :]
        rate = local_derivative(times, integrated, window)
        found |= {f"integrated_{name}": integrated, name: rate, f"adjusted_{name}": rate * length}
        tailed = tail_index(times, rate if tail == "differentiated" else integrated, tail)
        found[f"tail_index_{name}"] = np.asarray(tailed)
    return found


def _labelled(times: np.ndarray, found: dict[str, np.ndarray], begin: int, refused: tuple[str, ...]) -> xr.Dataset:
    """Name the axes; nothing is known before the reference time, nor of what is refused."""
    labelled: dict[str, Any] = {}
    for name, values in found.items():
        known = np.nan if name.removesuffix("_low").removesuffix("_high").split("_")[-1] in refused else 1.0
        path = np.concatenate([np.full(begin, np.nan), values * known]) if values.ndim else values * known
        labelled[name] = ("time", path) if values.ndim else float(path)
    return xr.Dataset(labelled, coords={"time": times})
