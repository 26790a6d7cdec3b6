"""How one skill emerges with time, data or parameters in the extended models, and where it passes a threshold.

Networks have to find the skill functions first. Each extended model has one number for that: a slower rate for time
(5.2), D_c samples for data (5.5), N_c basis functions for parameters (5.9). All curves are strengths R/S of one skill.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import betainc, expit, logit

from dynascope.models.multilinear.curves import SkillSet
from dynascope.models.multilinear.quadrature import binomial_rule
from dynascope.models.stepping import Numeric

KINDS = ("time", "data", "parameters")


def strength(
    task: SkillSet, kind: str, ranks: np.ndarray, x: np.ndarray, value: float, *, published: bool
) -> Float[np.ndarray, "..."]:
    """R of skills (…rank, …x) at the amounts x of a resource; see `Multilinear.emergence`."""
    share, at = task.frequency(ranks.ravel()), x.ravel()
    if kind == "time":
        each = over_time(at, share[:, None], value, **_logistic(task))
    elif kind == "data":
        each = np.stack([over_data(at, float(p), value, published=published) for p in share])
    else:
        each = over_parameters(at, ranks.ravel()[:, None], value)
    return np.asarray(task.target * each.reshape((*ranks.shape, *x.shape)))


def amount_to_reach(
    task: SkillSet, kind: str, ranks: np.ndarray, threshold: float, value: float, *, published: bool
) -> Float[np.ndarray, "..."]:
    """Amounts of a resource at which skills pass the threshold; see `Multilinear.emergence_point`."""
    share = task.frequency(ranks.ravel())
    if kind == "time":
        each = time_to_reach(share, value, threshold, **_logistic(task))
    elif kind == "data":
        each = np.array([data_to_reach(float(p), value, threshold, published=published) for p in share])
    else:
        each = parameters_to_reach(ranks.ravel(), value, threshold)
    return np.asarray(each.reshape(ranks.shape))


def _logistic(task: SkillSet) -> dict[str, float]:
    return {"rate": 2 * task.learning_rate * task.target, "start": task.initial / task.target}


def feature_rate(feature_scale: float, *, published: bool = False) -> float:
    """Factor on the rate of learning when every skill function is multiplied by 𝓑 (5.1).

    The strength is R = 𝓑 a b, so that R' = η P 𝓑² (a² + b²)(S − R) with a² = b² = R/𝓑: the rate is 2 η P **𝓑** S. The
    printed (5.2) has 𝓑². Only this factor is ever calibrated; what the source calls 𝓑² = 1/22 is a factor of 1/22.
    Source: layerwise (5.1), (5.2).

    >>> feature_rate(0.5), feature_rate(0.5, published=True)
    (0.5, 0.25)
    """
    return feature_scale**2 if published else feature_scale


def over_time(
    time: Float[np.ndarray, "..."], frequency: Numeric, rate_factor: Numeric, *, rate: Numeric, start: Numeric
) -> Float[np.ndarray, "..."]:
    """R/S = 1/(1 + (S/R(0) − 1) exp(−2 η P(k) 𝓑² S T)) (5.2), with `rate` = 2 η S and `start` = R(0)/S.
    Source: layerwise (5.2).

    >>> float(over_time(np.array(0.0), 1.0, 0.1, rate=1.0, start=0.25))
    0.25
    """
    return np.asarray(expit(rate * frequency * rate_factor * time + logit(start)))


def over_data(
    data: Float[np.ndarray, " x"], frequency: float, shots: float, *, published: bool
) -> Float[np.ndarray, " x"]:
    """E[min(d/D_c, 1)] over the d ~ Binomial(D, P(k)) samples of the skill that are in the data.

    d/D_c is the mean of the minimum-norm solution for a basis in general position. The printed (5.5) has
    1 − √(1 − d/D_c), which mistakes the error in the other basis functions for a missing part of the skill.
    Source: layerwise (5.5), (B.26), Proposition B.1.1.

    >>> over_data(np.array([200.0, 800.0]), 1.0, 800.0, published=False).tolist()
    [0.25, 1.0]
    >>> over_data(np.array([200.0]), 1.0, 800.0, published=True).round(3).tolist()
    [0.134]
    """
    if published:
        rules = (binomial_rule(int(size), np.array([frequency]), np.inf) for size in data)  # the root has a corner
        return np.array([float(np.sum(w * (1 - np.sqrt(np.maximum(1 - d / shots, 0.0))))) for d, w in rules])
    below = float(np.ceil(shots)) - 1  # the largest count that does not complete the skill
    partial = data * frequency * (1 - _more_than(below - 1, data - 1, frequency))  # E[d; d ≤ below]
    return np.asarray(partial / shots + _more_than(below, data, frequency))


def _more_than(count: float, draws: np.ndarray, chance: float) -> np.ndarray:
    """P(d > count) of a binomial, for counts below 0 and beyond the draws too."""
    inside = np.minimum(count, draws - 1)
    tail = betainc(np.maximum(inside + 1, 1.0), np.maximum(draws - inside, 1.0), chance)
    return np.where(count < 0, 1.0, np.where(count >= draws, 0.0, tail))


def over_parameters(parameters: Float[np.ndarray, "..."], skill: Numeric, nodes: Numeric) -> Float[np.ndarray, "..."]:
    """The share of the skill's N_c basis functions that are among the first N: (5.9), for any N_c > 0.
    Source: layerwise (5.9), Proposition B.1.2.

    >>> over_parameters(np.array([4.0, 6.0, 8.0]), 2, 4.0).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(np.clip(parameters / nodes - (skill - 1), 0.0, 1.0))


def time_to_reach(
    frequency: Numeric, rate_factor: Numeric, threshold: float, *, rate: Numeric, start: Numeric
) -> np.ndarray:
    """T at which R/S passes the threshold: (5.2) solved for T; 0 if it starts above. Source: layerwise (5.2).

    >>> at = time_to_reach(0.5, 0.1, 0.5, rate=2.0, start=0.01)
    >>> round(float(over_time(at, 0.5, 0.1, rate=2.0, start=0.01)), 12)
    0.5
    """
    return np.asarray(np.maximum(logit(threshold) - logit(start), 0.0) / (rate * frequency * rate_factor))


def data_to_reach(frequency: float, shots: float, threshold: float, *, published: bool) -> float:
    """Smallest D at which the expected strength reaches the threshold, by bisection of whole numbers.

    >>> data_to_reach(1.0, 800.0, 0.25, published=False)
    200.0
    """
    low, high = 0, 1
    while over_data(np.array([float(high)]), frequency, shots, published=published)[0] < threshold:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        reached = over_data(np.array([float(middle)]), frequency, shots, published=published)[0] >= threshold
        low, high = (low, middle) if reached else (middle, high)
    return float(high)


def parameters_to_reach(skill: Numeric, nodes: Numeric, threshold: float) -> np.ndarray:
    """Smallest N that gives the skill the threshold's share of its N_c basis functions.

    >>> float(parameters_to_reach(np.array(2.0), 4.0, 0.5))
    6.0
    """
    return np.asarray(np.ceil(nodes * (skill - 1 + threshold) - 1e-9))
