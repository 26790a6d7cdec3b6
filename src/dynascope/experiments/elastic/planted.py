"""What is read off planted strengths: tail indices, growth late in a path, and how often intervals hold the truth."""

import numpy as np

from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.models.elastic.geometry import margin_directions
from dynascope.models.elastic.mean_path import logit_path
from dynascope.models.elastic.strengths import PowerLaw
from dynascope.models.elastic.tails import tail_index

COVERED = ("integrated_intra", "integrated_inter", "integrated_gap", "tail_index_gap")
_DECADE = 10.0
_SHARE = 3  # tails are read off the last third of the points


def tail_bias(law: PowerLaw, times: np.ndarray) -> float:
    """What (D.19) adds to the tail index of a power law, on average over the last third of the points.

    >>> round(tail_bias(PowerLaw(0.5, 0.5), np.array([0.0, 1.0, 1e8])), 3)
    0.0
    """
    log = np.log1p(times[-(len(times) // _SHARE) :])
    rest = 1 - law.index
    return float(((np.log(rest / law.scale) - np.log(-np.expm1(-rest * log))) / log).mean())


def tail_of_strength(law: PowerLaw, times: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """1 − mean of log α/log(1 + t) for α as found, in the middle of the last third of the points; and for the law.

    >>> times = np.linspace(0.0, 60.0, 61)
    >>> {k: round(v, 3) for k, v in tail_of_strength(PowerLaw(1.0, 0.5), times, (1 + times) ** -0.5).items()}
    {'tail_strength': 1.5, 'tail_strength_exact': 1.5}
    """
    late = np.arange(len(times))[-(len(times) // _SHARE) : -(len(times) // (2 * _SHARE))]  # no ends of windows
    log = np.log1p(times[late])
    exact = 1 + law.index - float((np.log(law.scale) / log).mean())
    return {"tail_strength": 1 - float((np.log(found[late]) / log).mean()), "tail_strength_exact": exact}


def order_of_tails(times: np.ndarray, means: np.ndarray) -> float:
    """r_β − r_α by (D.19) of |A| and |B| of the L-model, as the source's code computes it from class means.

    >>> times = np.linspace(0.0, 20.0, 41)
    >>> start = np.diag([1.0, 1.5, 2.0]) @ margin_directions(3, 3)
    >>> path = logit_path(times, start, PowerLaw(1.0, 0.0), PowerLaw(-0.1, 0.0))
    >>> order_of_tails(times, path) > 0.5
    True
    """
    found = estimate_strengths(times, means, method="code")
    size = np.abs([found[f"integrated_{name}"].values for name in ("intra", "inter")])
    intra, inter = np.asarray(tail_index(times, size, "published"))
    return float(inter - intra)


def late_growth(times: np.ndarray, within: np.ndarray, printed: np.ndarray) -> dict[str, float]:
    """An estimate of A(t) beside it over the last decade of time and the one before: relative errors, and slopes.

    >>> times = np.geomspace(1.0, 1000.0, 31)
    >>> {name: round(float(value), 9) for name, value in late_growth(times, times, times + 1.0).items()}
    {'late_slope': 1.0, 'earlier_slope': 1.0, 'late_relative': 0.001, 'earlier_relative': 0.01}
    """
    last = len(times) - 1
    end, before, first = (int(np.abs(times - times[last] / _DECADE**power).argmin()) for power in range(3))
    return {
        "late_slope": (printed[end] - printed[before]) / (within[end] - within[before]),
        "earlier_slope": (printed[before] - printed[first]) / (within[before] - within[first]),
        "late_relative": abs(printed[end] / within[end] - 1),
        "earlier_relative": abs(printed[before] / within[before] - 1),
    }


def coverage(seeds: int, trials: int, noise: float, seed: int) -> list[float]:
    """Share of noisy sets of trials whose 95 % intervals hold the planted values of `COVERED`.

    >>> len(coverage(1, 10, 0.1, 0))
    4
    """
    times, at = np.linspace(0.0, 10.0, 61), 50
    intra, inter = PowerLaw(1.0, 0.5), PowerLaw(-0.3, 0.5)
    path = logit_path(times, margin_directions(3, 3) * np.array([[1.0], [2.4], [0.5]]), intra, inter)
    planted = [float(law.integral(times[at]) - law.integral(1.0)) for law in (intra, inter)]
    truths = dict(zip(COVERED, [*planted, planted[0] - planted[1], 0.5], strict=True))
    hits = np.zeros(len(COVERED))
    for number in range(seeds):
        random = np.random.default_rng([seed, number])
        shape = (trials, len(times), 3, 3)
        chance = random.normal(size=(trials, 1, 3, 3)) + random.normal(size=shape)
        found = estimate_strengths(times, path + noise * chance, reference_time=1.0, seed=number, tail="integrated")
        for index, (name, truth) in enumerate(truths.items()):
            low, high = (found[f"{name}_{end}"] for end in ("low", "high"))
            low, high = (end.isel(time=at) if "time" in end.dims else end for end in (low, high))
            hits[index] += bool(low <= truth <= high)
    return list(hits / seeds)
