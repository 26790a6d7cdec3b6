"""Sums over millions of skills, and means over sampled data, by a few hundred well-chosen points.

What a skill contributes is a smooth function of its rank k. Split the ranks into blocks whose ends stand in a fixed
ratio and replace each block by the points of the Gauss rule for sums over consecutive integers: exact for polynomials
of degree 2 n − 1, with an error that falls geometrically in n for functions as smooth as ours.
"""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal
from scipy.special import zeta

POINTS = 16  # of a Gauss rule; a block with fewer ranks is summed as it is


def power_sum(exponent: float, first: Float[np.ndarray, "..."], last: float) -> Float[np.ndarray, "..."]:
    """Σ k^−exponent over k = first … last, for exponent > 1, by two Hurwitz zeta functions.

    >>> float(power_sum(2.0, np.array(1.0), 3.0).round(12)) == round(1 + 1 / 4 + 1 / 9, 12)
    True
    """
    sum_beyond = zeta(exponent, first) - zeta(exponent, last + 1)
    few = last - first < 1000  # the difference of two nearly equal tails loses digits: add up instead
    if not np.any(few):
        return np.asarray(sum_beyond)
    exact = [math.fsum(np.arange(low, last + 1) ** -exponent) for low in np.atleast_1d(first[few])]
    result = np.array(sum_beyond)
    result[few] = exact if result.ndim else exact[0]
    return result


@lru_cache(maxsize=4096)
def sum_rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss rule for Σ f(i) over i = 0 … count − 1: places and weights, from the discrete Chebyshev polynomials.

    >>> places, weights = sum_rule(1000)
    >>> bool(np.isclose(weights @ places**7, sum(float(i) ** 7 for i in range(1000)), rtol=1e-12))
    True
    """
    if count <= POINTS:
        return np.arange(float(count)), np.ones(count)
    order = np.arange(1.0, POINTS)
    off_diagonal = order / 2 * np.sqrt((count**2 - order**2) / (4 * order**2 - 1))
    places, vectors = eigh_tridiagonal(np.full(POINTS, (count - 1) / 2), off_diagonal)
    return places, count * vectors[0] ** 2


def block_ratio(exponent: float, pole: complex) -> float:
    """Ratio of the ends of a block that keeps the error of its rule near 1e-14.

    A curve in v ∝ k^−(exponent+1) with its nearest singularity at `pole` has it at the angle
    θ = arg(pole)/(exponent + 1) in the plane of k. The rule's error is ρ^−2n with ρ = y + √(1 + y²) and
    y = 2 sin θ √r/(r − 1); y = 1.19 gives 1e-14 for 16 points. Curves without a pole are limited by k^−(exponent+1).

    >>> 1.1 < block_ratio(0.6, complex(5.0, np.pi)) < 2
    True
    """
    angle = min(abs(np.angle(pole)) / (exponent + 1), np.pi / 2)
    return math.exp(min(2 * math.asinh(math.sin(angle) / 1.19), 0.8 / (exponent + 1)))


def representatives(
    first: int, last: int, ratio: float
) -> tuple[Float[np.ndarray, " node"], Float[np.ndarray, " node"]]:
    """Ranks and multiplicities that stand for all ranks from `first` to `last`.

    Σ_k f(k) ≈ Σ_j multiplicity_j f(rank_j); the multiplicities add up to the number of ranks.

    >>> ranks, multiplicity = representatives(1, 10**6, 1.5)
    >>> len(ranks) < 500, bool(np.isclose(multiplicity @ ranks**-1.6, power_sum(1.6, np.array(1.0), 1e6), rtol=1e-13))
    (True, True)
    """
    ranks, multiplicity = [np.empty(0)], [np.empty(0)]
    begin = first
    while begin <= last:
        end = min(max(int(begin * ratio), begin + POINTS - 1), last)  # small blocks are summed rank by rank
        places, weights = sum_rule(end - begin + 1)
        ranks.append(begin + places)
        multiplicity.append(weights)
        begin = end + 1
    return np.concatenate(ranks), np.concatenate(multiplicity)


def binomial_rule(
    draws: int, chance: Float[np.ndarray, " node"], sharpness: float = 1.0
) -> tuple[Float[np.ndarray, "node point"], Float[np.ndarray, "node point"]]:
    """Counts and weights for E[curve(d)] over d ~ Binomial(draws, chance), a row for each chance.

    Counts within 9 standard deviations σ stand one by one while σ < 10; beyond, every h-th of them, for which a smooth
    bell gives the same mean (the error of such a sum is exp(−2π² σ²/h²)). `sharpness` is mean/width of the steepest
    step that the curve has: steps finer than the bell are not skipped over.

    >>> counts, weights = binomial_rule(50, np.array([0.3]))
    >>> round(float((counts**2 * weights).sum()), 10) == 15.0**2 + 50 * 0.3 * 0.7
    True
    """
    from scipy.stats import binom  # noqa: PLC0415 (half a second, and only curves over finite data need it)

    mean, spread = draws * chance, np.sqrt(draws * chance * (1 - chance))
    stride = np.maximum(np.floor(np.minimum(spread / 5, mean / (1.5 * sharpness))), 1.0)
    stride = np.where(spread < 10, 1.0, stride)
    low = np.maximum(np.floor(mean - 9 * spread - 15), 0.0)
    high = np.minimum(np.ceil(mean + 9 * spread + 15), draws)
    points = int(np.max(np.ceil((high - low) / stride))) + 1
    counts = low[:, None] + stride[:, None] * np.arange(points)
    weights = np.where(counts <= high[:, None], binom.pmf(counts, draws, chance[:, None]), 0.0)
    return np.minimum(counts, draws), weights / weights.sum(axis=1, keepdims=True)
