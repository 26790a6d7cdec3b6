"""Whether classes can be told apart by hyperplanes, decided exactly, and the direction that shows it best.

A verdict is never a tolerance. Floating point proposes a certificate, which then either is proven with bounds on
every rounding error or gives way to rational arithmetic.
"""

import math
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import linprog, nnls

from dynascope.checks import ArrayLike, as_float, one_of

_EPSILON = float(np.finfo(np.float64).eps)
_UNDERFLOW = 2.0**-900  # added to magnitudes near 1, so that the bounds below also cover what underflows
_ALL_ORDERS = 7  # up to this many classes every order is tried: 7!/2 = 2520
_SHORTLIST = 16
_RANDOM_STARTS = 64


def separable(a: ArrayLike, b: ArrayLike) -> bool:
    """Tell whether a hyperplane strictly separates two clouds of points.

    There are (w, c) with w·a_i > c > w·b_j for all i, j: the convex hulls of the clouds have no point in common.

    a: points (sample, feature).
    b: points (sample, feature), in any number.

    Time does not enter. Clouds that touch, or share a point, are not separable. Numbers are taken as float64 and as
    they
    stand: a margin of one unit in the last place counts. The answer is exact: floating point proposes a proof and
        bounds its roundings, and what it cannot prove is decided in whole numbers. Cost on one core: 10 ms for 600
        points in 10 dimensions, 1 s in 300; more for clouds that nearly touch. How it is done: docs/measures.md.
    Source: elastic (C.1).

    >>> separable([[0, 0], [1, 0]], [[0, 1], [1, 2]])
    True
    >>> separable([[0, 0], [2, 2]], [[1, 1], [5, 0]])  # (1, 1) lies on the segment
    False
    """
    first, second = _cloud("a", a), _cloud("b", b)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"b must have the features of a, {first.shape[1]} of them, got shape {second.shape}")
    if np.any(first.min(axis=0) > second.max(axis=0)) or np.any(second.min(axis=0) > first.max(axis=0)):
        return True
    if first.shape[1] == 1:  # intervals that overlap
        return False
    first, second = np.unique(first, axis=0), np.unique(second, axis=0)
    points = np.concatenate([first, second])  # (point, feature)
    if len(np.unique(points, axis=0)) < len(points):
        return False
    points = points[:, np.any(points != points[0], axis=0)]
    return _hulls_are_apart(points, np.arange(len(points)) < len(first))


def pairwise_separable(points: ArrayLike) -> bool:
    """Tell whether every two classes are separated by some hyperplane, exactly.

    For each pair k < l there is ν with min_i ⟨ν, x_i^k⟩ > max_j ⟨ν, x_j^l⟩; it may differ from pair to pair.

    points: (class, sample, feature), at one time. Decided by `separable`, at K(K−1)/2 times its cost.
    Source: elastic Definition C.1.

    >>> pairwise_separable([[[0, 0], [1, 0]], [[0, 1], [1, 1]], [[3, 0], [3, 1]]])
    True
    """
    return all(separable(a, b) for a, b in combinations(_classes(points), 2))


def universally_separable(points: ArrayLike, direction: ArrayLike) -> bool:
    """Tell whether one direction separates every two classes, exactly.

    The intervals [min_i ⟨ν, x_i^k⟩, max_i ⟨ν, x_i^k⟩] of the classes k are disjoint, in any order along ν.

    points: (class, sample, feature), at one time. direction: ν (feature,), of any length but 0.
    Intervals that touch are not disjoint. Projections closer than a bound on their rounding errors are compared again
    as whole numbers. Source: elastic Definition C.3; at one time and for one sample of each class.

    >>> points = [[[0, 0], [1, 0]], [[0, 1], [1, 1]], [[0, 3], [1, 2]]]
    >>> universally_separable(points, [0, 1]), universally_separable(points, [1, 1])
    (True, False)
    """
    clouds = _classes(points)
    along = as_float("direction", direction)
    if along.shape != clouds.shape[-1:]:
        raise ValueError(f"direction must have shape (feature,) = {clouds.shape[-1:]}, got {along.shape}")
    if not np.any(along):
        raise ValueError(f"direction must not be the zero vector, got {along}")
    flat = clouds.reshape(-1, len(along))
    unit = np.ldexp(flat, -np.frexp(np.abs(flat).max())[1])  # below 1, by a power of two
    value, error = _projected(unit, np.ldexp(along, -np.frexp(np.abs(along).max())[1]))
    value, error = value.reshape(clouds.shape[:2]), error.reshape(clouds.shape[:2])
    if not _overlap((value - error).min(axis=1), (value + error).max(axis=1)):
        return True
    if _overlap((value + error).min(axis=1), (value - error).max(axis=1)):
        return False
    whole, exponent = _integers(flat)
    weights, own = _integers(along[None])
    weights = weights[0] << (exponent + own - (exponent + own).min()).astype(object)
    exact = (whole @ weights).reshape(clouds.shape[:2])
    return not _overlap(exact.min(axis=1), exact.max(axis=1))


def separating_direction(class_means: ArrayLike, *, method: str = "best") -> Float[np.ndarray, " feature"]:
    """Find one direction along which all class means lie apart.

    best: max over ‖ν‖ = 1 of min over k < l of Σ_t |⟨m_k(t) − m_l(t), ν⟩|; the first class ends above the last.
    difference: (m_k − m_l)/‖m_k − m_l‖ at the last time, for the classes k < l that lie farthest apart there.

    class_means: m (class, feature) or (time, class, feature), any units, times weigh the same. Returns ν (feature,).

    `best` is printed as a convex problem, but it maximises absolute values: each order of the classes along ν is a
    convex problem of its own (the nearest point to 0 in the hull of the steps from class to class). At one time and
    for up to 7 classes all orders are solved, and the result is the global maximum up to rounding. With several times
    it is at least as good as every direction along which the classes keep one order all the time, and is improved
    from these and from 64 random directions (always the same) by steps that fix the signs and solve the convex rest.
    With more classes only the latter is left: a local maximum, the best of 64.
    Fails where two classes coincide at all times. Source: elastic (C.23), (C.24).

    >>> separating_direction([[4.0, 0.0], [0.0, 3.0]], method="difference").tolist()
    [0.8, -0.6]
    >>> separating_direction([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]).round(3).tolist()
    [0.707, 0.707]
    """
    means = as_float("class_means", class_means)
    if means.ndim not in (2, 3) or min(means.shape) < 1 or means.shape[-2] < 2:
        raise ValueError(
            f"class_means must have shape (class, feature) or (time, class, feature) with 2 classes or more, "
            f"got {means.shape}"
        )
    one_of("method", method, ["best", "difference"])
    means = means.reshape((-1, *means.shape[-2:]))
    means = means[-1:] if method == "difference" else means
    if np.all(means == means[:, :1]):
        raise ValueError(f"class_means must differ between classes at the last time, got {means[-1, 0]} in all")
    means = means / np.abs(means).max()
    first, second = np.triu_indices(means.shape[1], 1)
    steps = means[:, first] - means[:, second]  # (time, pair, feature)
    extent = np.abs(steps).max(axis=(0, 2))  # (pair,)
    if method == "best" and extent.min() == 0:
        same = int(np.argmin(extent))
        raise ValueError(f"class_means must differ in all classes, got the same in {first[same]} and {second[same]}")
    direction = _best_direction(means) if method == "best" else _longest(steps[-1] / extent.max())
    return np.asarray(direction / np.linalg.norm(direction))


def _cloud(name: str, value: ArrayLike) -> Float[np.ndarray, "sample feature"]:
    cloud = as_float(name, value)
    if cloud.ndim != 2 or cloud.size == 0:
        raise ValueError(f"{name} must have shape (sample, feature) with one of each or more, got {cloud.shape}")
    return cloud


def _classes(value: ArrayLike) -> Float[np.ndarray, "class sample feature"]:
    points = as_float("points", value)
    if points.ndim != 3 or points.size == 0 or len(points) < 2:
        raise ValueError(
            f"points must have shape (class, sample, feature) with 2 classes or more and no axis empty, "
            f"got {points.shape}"
        )
    return points


def _overlap(low: np.ndarray, high: np.ndarray) -> bool:
    """Whether two of the intervals [low, high] have a number in common."""
    reaches = high[:, None] >= low
    return bool(np.any(np.triu(reaches & reaches.T, 1)))


def _hulls_are_apart(points: Float[np.ndarray, "point feature"], side: Bool[np.ndarray, " point"]) -> bool:
    """Decide `separable` for distinct points in which every feature varies."""
    scaled = _scaled(points)
    signed = np.where(side, 1.0, -1.0)[:, None] * np.column_stack([scaled, np.ones(len(points))])
    if _proves_gap(scaled, side, _level(signed)):
        return True
    direction, weights = _widest_gap(signed)
    support = np.flatnonzero(weights >= min(_EPSILON, weights.max()))
    if any(_proves_gap(scaled, side, guess) for guess in (direction, _level(signed[support]))):
        return True
    if _proves_overlap(points[support], scaled[support], side[support]):
        return False
    return _nearest_point_is_off_zero(points, side, support)


def _scaled(points: Float[np.ndarray, "point feature"]) -> Float[np.ndarray, "point feature"]:
    """Centre each feature and bring it to magnitude 1 by powers of two: one relative rounding error in each entry."""
    unit = np.ldexp(points, -np.frexp(np.abs(points).max(axis=0))[1])
    centred = unit - (unit.max(axis=0) + unit.min(axis=0)) / 2
    return np.asarray(np.ldexp(centred, -np.frexp(np.abs(centred).max(axis=0))[1]))


def _level(signed: Float[np.ndarray, "point unknown"]) -> Float[np.ndarray, " feature"]:
    """The direction along which ±(w·x − c) is nearest to 1 for all points: Fisher's discriminant."""
    return np.asarray(np.linalg.lstsq(signed, np.ones(len(signed)))[0][:-1])


def _widest_gap(
    signed: Float[np.ndarray, "point unknown"],
) -> tuple[Float[np.ndarray, " feature"], Float[np.ndarray, " point"]]:
    """Solve max t, ±(w·x − c) ≥ t in the unit box; the multipliers are weights of a point in both hulls if t = 0.

    The answer is only a proposal: whatever the solver returns, the verdict is the same.
    """
    size, unknowns = signed.shape
    answer = linprog(
        np.append(np.zeros(unknowns), -1.0),
        A_ub=np.column_stack([-signed, np.ones(size)]),
        b_ub=np.zeros(size),
        bounds=[(-1, 1)] * unknowns + [(None, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        return np.zeros(unknowns - 1), np.append(1.0, np.zeros(size - 1))
    return answer.x[: unknowns - 1], -answer.ineqlin.marginals


def _projected(
    points: Float[np.ndarray, "point feature"], direction: Float[np.ndarray, " feature"]
) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """Projections of points of magnitude 1, and a bound on their distance from the exact ones.

    |fl(w·y) − w·y| ≤ γ_p |w|·|y|, γ_p ≈ p ε/2, in any order of summation; the factor of four covers the rounding of y,
    of the bound itself and of its sum with the projection.
    """
    bound = 2 * (points.shape[1] + 4) * _EPSILON * ((np.abs(points) + _UNDERFLOW) @ np.abs(direction))
    return points @ direction, bound


def _proves_gap(
    scaled: Float[np.ndarray, "point feature"], side: Bool[np.ndarray, " point"], guess: Float[np.ndarray, " feature"]
) -> bool:
    """Whether the two sides project to disjoint intervals beyond doubt, the first above the second."""
    if not np.any(guess):
        return False
    value, error = _projected(scaled, guess / np.abs(guess).max())
    return bool((value - error)[side].min() > (value + error)[~side].max())


def _proves_overlap(
    points: Float[np.ndarray, "point feature"],
    scaled: Float[np.ndarray, "point feature"],
    side: Bool[np.ndarray, " point"],
) -> bool:
    """Whether the hulls of these few points share a point beyond doubt.

    With M = (±y, ±1, 1)ᵀ a common point is z > 0 with M z = (0, 0, 1). For any R with ‖I − R M‖ ≤ β < 1 the solution
    exists and lies within ‖R (M z̃ − e)‖/(1 − β) of z̃ (maximum norms); all roundings are added to both.
    Features in which the points agree impose nothing and are left out.
    """
    varied = np.any(points != points[0], axis=0)
    sign = np.where(side, 1.0, -1.0)
    matrix = np.vstack([scaled[:, varied].T * sign, sign, np.ones(len(sign))])
    if matrix.shape[0] != matrix.shape[1]:
        return False
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return False
    size = len(matrix)
    unit, right, weights = 4 * (size + 4) * _EPSILON, np.eye(size)[-1], inverse[:, -1]
    magnitude = np.abs(matrix) + _UNDERFLOW
    doubt = np.abs(np.eye(size) - inverse @ matrix) + unit * (np.abs(inverse) @ magnitude + np.eye(size))
    residual = np.abs(matrix @ weights - right) + unit * (magnitude @ np.abs(weights) + right)
    distance = (np.abs(inverse) @ residual).max()
    return bool(doubt.sum(axis=1).max() < 0.5 and weights.min() > 4 * distance)  # 2 for 1 − β, 2 for these roundings


def _integers(points: Float[np.ndarray, "point feature"]) -> tuple[np.ndarray, Int[np.ndarray, " feature"]]:
    """The same numbers as (whole number)·2^(exponent of the feature), exactly."""
    fraction, exponent = np.frexp(points)
    exponent = np.where(fraction == 0, exponent.max(axis=0), exponent).astype(np.int64)
    lowest = exponent.min(axis=0)
    return (fraction * 2.0**53).astype(np.int64).astype(object) << (exponent - lowest).astype(object), lowest - 53


def _nearest_point_is_off_zero(
    points: Float[np.ndarray, "point feature"], side: Bool[np.ndarray, " point"], support: Int[np.ndarray, " chosen"]
) -> bool:
    """Decide in whole numbers whether 0 lies outside the hull of ±(x, 1), starting from a proposed support.

    Wolfe's algorithm: x is the nearest point to 0 in the affine hull of a few independent points and inside their
    convex hull. Either x = 0, or ⟨x, v⟩ > 0 for all points v, or a point with ⟨x, v⟩ ≤ 0 joins and ‖x‖ falls: no set
    of points comes back.
    """
    whole = _integers(points)[0]
    whole = whole - whole[0]
    whole = whole // np.gcd.reduce(whole, axis=0)
    bits = [max(abs(entry).bit_length() for entry in column) for column in whole.T]
    whole = whole << np.array([max(bits) - length for length in bits], dtype=object)  # features of equal magnitude
    rows = np.column_stack([whole, np.full(len(whole), 1 << max(bits), dtype=object)])
    rows = rows * np.where(side, 1, -1).astype(object)[:, None]
    corral, weights = list(map(int, support)), [Fraction(1, len(support))] * len(support)
    while True:
        corral, weights = _settle(rows, corral, weights)
        denominator = math.lcm(*(weight.denominator for weight in weights))
        nearest = np.array([int(weight * denominator) for weight in weights], dtype=object) @ rows[corral]
        if not np.any(nearest):
            return False
        nearest //= math.gcd(*nearest)
        heights = rows @ nearest
        lowest = int(np.argmin(heights))
        if heights[lowest] > 0:
            return True
        corral, weights = [*corral, lowest], [*weights, Fraction(0)]


def _settle(rows: np.ndarray, corral: list[int], weights: list[Fraction]) -> tuple[list[int], list[Fraction]]:
    """Drop points until the nearest point to 0 in the affine hull of the rest has positive weights only."""
    while True:
        target = _affine_weights(rows[corral])
        if target is None:  # a proposed support need not be independent; later ones are
            corral, weights = corral[:1], [Fraction(1)]
            continue
        if min(target) > 0:
            return corral, target
        step = min(old / (old - new) for old, new in zip(weights, target, strict=True) if new <= 0)
        moved = [old + step * (new - old) for old, new in zip(weights, target, strict=True)]
        corral = [point for point, weight in zip(corral, moved, strict=True) if weight > 0]
        weights = [weight for weight in moved if weight > 0]


def _affine_weights(rows: np.ndarray) -> list[Fraction] | None:
    """Weights of sum 1 whose combination of the rows is nearest to 0; None if the rows are affinely dependent.

    Gauss–Jordan elimination without fractions (Bareiss) on [[G, 1], [1, 0]] (w, μ) = (0, 1) with G the Gram matrix.
    """
    size = len(rows) + 1
    system = np.ones((size, size + 1), dtype=object)
    system[:-1, :-2] = rows @ rows.T
    system[:-1, -1] = system[-1, -2] = 0
    previous = 1
    for column in range(size):
        pivots = np.flatnonzero(system[column:, column])
        if pivots.size == 0:
            return None
        system[[column, column + pivots[0]]] = system[[column + pivots[0], column]]
        pivot, rest, others = system[column, column], slice(column + 1, None), np.arange(size) != column
        cleared = pivot * system[others, rest] - np.outer(system[others, column], system[column, rest])
        system[others, rest] = cleared // previous
        previous = pivot
    return [Fraction(entry, previous) for entry in system[:-1, -1]]


def _longest(vectors: Float[np.ndarray, "vector feature"]) -> Float[np.ndarray, " feature"]:
    return np.asarray(vectors[np.argmax(np.linalg.norm(vectors, axis=-1))])


def _best_direction(means: Float[np.ndarray, "time class feature"]) -> Float[np.ndarray, " feature"]:
    """Solve (C.23) in coordinates of the space that the differences span; the length is left open."""
    times, classes, _ = means.shape
    means = means - means[:, :1]
    basis = np.linalg.svd(means.reshape(times * classes, -1), full_matrices=False)[2]
    means = means @ basis.T
    first, second = np.triu_indices(classes, 1)
    steps = means[:, first] - means[:, second]  # (time, pair, coordinate)
    mixtures = np.random.default_rng(0).standard_normal((_RANDOM_STARTS, times * len(first)))
    starts = list(mixtures @ steps.reshape(times * len(first), -1))
    if classes <= _ALL_ORDERS:
        starts += _best_orders(means.sum(axis=0))
    ends = [_ascend(steps, start / np.linalg.norm(start)) for start in starts if np.any(start)]
    best = max(ends, key=lambda direction: _worst(steps @ direction))
    return np.asarray((best if (means[-1, 0] - means[-1, -1]) @ best >= 0 else -best) @ basis)


def _worst(along: Float[np.ndarray, "time pair"]) -> float:
    """Evaluate min over pairs of Σ_t |⟨m_k(t) − m_l(t), ν⟩| from the projections."""
    return float(np.abs(along).sum(axis=0).min())


def _best_orders(means: Float[np.ndarray, "class feature"]) -> list[np.ndarray]:
    """For each order of the classes the direction with the widest smallest step, the widest of them first."""
    orders = [order for order in permutations(range(len(means))) if order[0] < order[-1]]
    nearest = [_nearest(np.diff(means[list(order)], axis=0)) for order in orders]
    nearest.sort(key=lambda point: -float(np.linalg.norm(point)))
    return nearest[:_SHORTLIST]


def _nearest(vectors: Float[np.ndarray, "vector feature"]) -> Float[np.ndarray, " feature"]:
    """The point x of the vectors' convex hull nearest to 0: max over ‖ν‖ ≤ 1 of min_i ⟨d_i, ν⟩ is ‖x‖, at ν = x/‖x‖.

    Least squares min ‖Σ z d‖² + (Σ z − 1)² with z ≥ 0 has that point, scaled: its value rises with ‖x‖ alone.
    """
    system = np.vstack([vectors.T, np.ones(len(vectors))])
    weights = nnls(system, np.append(np.zeros(vectors.shape[1]), 1.0), maxiter=100 * len(vectors))[0]
    return np.asarray(weights @ vectors / weights.sum())


def _ascend(
    steps: Float[np.ndarray, "time pair feature"], direction: Float[np.ndarray, " feature"]
) -> Float[np.ndarray, " feature"]:
    """Fix the signs of all projections, solve the convex problem that is left, repeat while it improves."""
    along = steps @ direction  # (time, pair)
    while True:
        point = _nearest(np.einsum("tp,tpf->pf", np.where(along >= 0, 1.0, -1.0), steps))
        point /= max(np.linalg.norm(point), np.finfo(np.float64).tiny)
        ahead = steps @ point
        if _worst(ahead) <= _worst(along) * (1 + 1e-12):
            return direction
        direction, along = point, ahead
