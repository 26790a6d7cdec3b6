"""When classes part: what the strengths say about it, and with which probability at a given time.

Class means part by a distance D(t), their samples spread by √t. D/√t decides: in the isotropic model
D = exp((A − B)/K), so that strengths with α − β = c/t separate classes if and only if c > K/2, the constant that the
theorem leaves open.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from dynascope.models.elastic.geometry import direction_cosine
from dynascope.models.elastic.strengths import Growths, Strength

_HORIZON = 1e12
_STEADY = 0.02  # |d log e/d log t| below which the growth exponent e counts as constant
_STEEP = 100  # exponents above it say only that growth is no power of time
_NEAR = 0.02  # distance from ½ within which a constant exponent decides nothing


@dataclass(frozen=True)
class SeparationVerdict:
    """Whether classes separate in the end, and why.

    separates: True, False, or None where the strengths are too near the border to tell.
    exponent: e at `horizon`, where the distance of class means grows like t^e; noise grows like t^½.
    trend: d log e/d log t there; 0 at the border case α − β = c/t.
    tail_index: r in α − β ∝ t^−r at the horizon.
    gamma: the smaller of α − β and α + (K − 1) β there, the γ of the theorem.
    """

    separates: bool | None
    reason: str
    exponent: float
    trend: float
    tail_index: float
    gamma: float
    horizon: float


def separation_verdict(
    intra: Strength, inter: Strength, *, classes: int, features: int, geometry: str
) -> SeparationVerdict:
    """Judge by how fast class means part: e = t D'/D against ½.

    D = 1 + (1/K) ∫ (α − β) G dt with G the growth of the amplitudes: exp((A − B)/K) for "isotropic", the faster of
    exp((A + (K−1) ρ B)/K) and exp((A − ρ B)/K) for "logits". A rising e separates, a falling one does not, a constant
    one does if it exceeds ½: α − β = c/t gives e = c/K, hence c > K/2, lowered for logits by β = b/t > 0 to
    c/K + b/(K − 1) > ½. With logits even α < β separates where the amplitudes grow fast, since a negative D parts
    classes too, on the wrong sides. Judged at t = 1e12, at the last point if Sampled curves are all there is, or where
    α − β is lost in rounding. Source: elastic Theorem 3.1; elastic-slides Theorem 1; the border, left open there, is
    derived, and checked by simulation.

    >>> from dynascope.models.elastic.strengths import Constant, PowerLaw
    >>> steep = separation_verdict(PowerLaw(1.2, 1.0), Constant(0.0), classes=2, features=2, geometry="isotropic")
    >>> steep.separates, round(steep.exponent, 3)
    (True, 0.6)
    """
    measured = all(strength.knots.size or strength.constant for strength in (intra, inter))
    knots = np.concatenate([intra.knots, inter.knots])
    times = np.expm1(np.linspace(0.0, np.log1p(knots.max() if measured and knots.size else _HORIZON), 4001))
    gap, scale = intra(times) - inter(times), np.abs(intra(times)) + np.abs(inter(times))
    seen = np.flatnonzero(np.abs(gap) > 1e-10 * scale)  # beyond, the difference is rounding
    if seen.size < 2:
        return SeparationVerdict(False, "α = β: nothing parts the classes", 0.0, np.nan, np.nan, 0.0, float(times[-1]))
    times, gap = times[: seen[-1] + 1], gap[: seen[-1] + 1]
    horizon = float(times[-1])
    exponent = _growth_exponent(times, gap, intra, inter, classes=classes, features=features, geometry=geometry)
    late = times >= np.expm1(0.8 * np.log1p(horizon))
    with np.errstate(divide="ignore", invalid="ignore"):  # a gap of 0 has no tail
        tail = -_slope(times[late], np.log(np.abs(gap[late])))
        trend = _slope(times[late], np.log(np.abs(exponent[late])))
    last = float(exponent[-1])
    gamma = min(float(gap[-1]), float(intra(horizon) + (classes - 1) * inter(horizon)))
    return SeparationVerdict(*_judge(last, trend), last, trend, tail, gamma, horizon)


def _growth_exponent(
    times: np.ndarray,
    gap: np.ndarray,
    intra: Strength,
    inter: Strength,
    *,
    classes: int,
    features: int,
    geometry: str,
) -> np.ndarray:
    """Compute t D'/D, in logarithms because D itself may overflow."""
    if geometry == "isotropic":
        return np.asarray(times * gap / classes)
    growth = Growths(intra, inter, classes, direction_cosine(classes, features))
    with np.errstate(divide="ignore"):
        rate = np.log(np.abs(gap) / classes) + growth(times).max(axis=0)
    high, low = np.maximum(rate[1:], rate[:-1]), np.minimum(rate[1:], rate[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):  # exact where the logarithm of the rate is straight
        share = np.where(high - low > 1e-9, -np.expm1(low - high) / (high - low), 1.0)
        steps = high + np.log(np.diff(times) * share)
    distance = np.logaddexp.accumulate(np.concatenate([[0.0], steps]))
    return np.asarray(np.exp(np.log(times.clip(1e-300)) + rate - distance))


def _slope(times: np.ndarray, values: np.ndarray) -> float:
    if not np.all(np.isfinite(values)):
        return float("nan")
    return float(np.polyfit(np.log(times), values, 1)[0])


def _judge(exponent: float, trend: float) -> tuple[bool | None, str]:
    if exponent <= 0:
        return False, "α < β in the end: the classes are drawn together"
    grows = f"like t^{exponent:.3g}" if exponent < _STEEP else f"faster than t^{_STEEP}"
    compared = f"the distance of class means grows {grows} by then, the noise like t^0.5"
    if trend > _STEADY:
        return True, f"{compared}, and the exponent rises"
    if trend < -_STEADY:
        return False, f"{compared}, and the exponent falls"
    if abs(exponent - 0.5) < _NEAR:
        return None, f"{compared}: too close to tell"
    return exponent > 0.5, compared


def share_separable(clouds: Float[np.ndarray, "*lead trial class sample feature"]) -> Float[np.ndarray, "..."]:
    """Share of trials in which every pair of classes is linearly separable, decided exactly.

    >>> share_separable(np.array([[[[0.0], [1.0]], [[2.0], [3.0]]], [[[0.0], [2.0]], [[1.0], [3.0]]]])).tolist()
    0.5
    """
    from dynascope.measure.hyperplanes import pairwise_separable  # noqa: PLC0415 (imports scipy.optimize)

    verdicts = [pairwise_separable(each) for each in clouds.reshape(-1, *clouds.shape[-3:])]
    return np.asarray(np.reshape(verdicts, clouds.shape[:-3]).mean(axis=-1))


def probability_along(
    means: Float[np.ndarray, "time class"],
    covariances: Float[np.ndarray, "time class class"],
    *,
    spread: Float[np.ndarray, "class class"],
    times: Float[np.ndarray, " time"],
    samples: int,
    trials: int,
    seed: int,
) -> Float[np.ndarray, " time"]:
    """Probability that the classes' samples fill disjoint intervals, for projections with a known Gaussian law.

    means, covariances: of the class means along the direction. spread: covariance per time that separates samples from
    their class mean. The largest and least of n centred samples are drawn `trials` times; given these, two class means
    are integrated exactly, more are drawn. Standard error at most ½/√trials, and far less for two classes.

    >>> apart = {"covariances": np.eye(2)[None], "spread": np.eye(2), "times": np.array([1.0]), "samples": 5}
    >>> probability_along(np.array([[0.0, 99.0]]), **apart, trials=10, seed=0).tolist()
    [1.0]
    """
    classes = means.shape[1]
    random = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(spread)
    noise = random.standard_normal((trials, samples, classes)) @ (vectors * np.sqrt(values.clip(0))).T
    noise -= noise.mean(axis=1, keepdims=True)
    highest, lowest = noise.max(axis=1), noise.min(axis=1)  # (trial, class)
    common = random.standard_normal((trials, classes))
    result = np.empty(len(times))
    for index, time in enumerate(times):
        up, down = np.sqrt(time) * highest, np.sqrt(time) * lowest
        if classes == 2:
            gap = means[index, 0] - means[index, 1]
            deviation = np.sqrt(max(np.array([1.0, -1.0]) @ covariances[index] @ np.array([1.0, -1.0]), 0.0))
            needed = np.stack([up[:, 1] - down[:, 0] - gap, up[:, 0] - down[:, 1] + gap])  # class 0 above, below
            result[index] = np.mean(np.sum(_exceeds(needed, deviation), axis=0))
            continue
        values, vectors = np.linalg.eigh(covariances[index])
        centre = means[index] + common @ (vectors * np.sqrt(values.clip(0))).T
        order = np.argsort(centre, axis=1)
        top, bottom = (np.take_along_axis(centre + side, order, axis=1) for side in (up, down))
        result[index] = np.mean(np.all(bottom[:, 1:] > top[:, :-1], axis=1))
    return result


def _exceeds(needed: np.ndarray, deviation: float) -> np.ndarray:
    """P(N(0, deviation²) > needed), also without any deviation."""
    return np.asarray(ndtr(-needed / deviation) if deviation > 0 else (needed < 0).astype(float))
