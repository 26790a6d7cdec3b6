"""Separability against constructions and enumerations that are exact themselves; directions against brute force."""

from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dynascope.measure import hyperplanes
from dynascope.measure.hyperplanes import (
    pairwise_separable,
    separable,
    separating_direction,
    universally_separable,
)

seeds = st.integers(0, 2**32 - 1)
corner = st.tuples(st.integers(-3, 3), st.integers(-3, 3))
small_cloud = st.lists(corner, min_size=1, max_size=5)


def _separable_in_the_plane(a, b):
    """Enumerate: directions that separate form open cells, bounded by normals of lines through two of the points."""
    points = sorted(set(a) | set(b))
    normals = {(p[1] - q[1], q[0] - p[0]) for p in points for q in points if p != q}
    around = sorted(normals, key=lambda n: np.arctan2(n[1], n[0]))
    between = [(m[0] + n[0], m[1] + n[1]) for m, n in zip(around, around[1:] + around[:1], strict=True)]
    tried = between + [(n[1], -n[0]) for n in normals]  # the latter for points on one line
    return any(min(x * u + y * v for x, y in a) > max(x * u + y * v for x, y in b) for u, v in tried)


def _whole(rng, *shape, size=8):
    return rng.integers(-size, size + 1, size=shape).astype(float)


def _dyadic_weights(rng, count):
    """Positive weights of sum 1, the last of them a power of two."""
    parts = np.ones(count, dtype=int)
    np.add.at(parts, rng.integers(0, count - 1, size=64 - 8 - (count - 1)), 1)
    parts[-1] = 8
    return parts / 64


def _clouds_with_a_common_point(rng, features):
    """Two clouds whose hulls meet in a point that is exact in float64, and perhaps nowhere else."""
    a, b = _whole(rng, rng.integers(2, features + 3), features), _whole(rng, rng.integers(2, features + 3), features)
    shared = _dyadic_weights(rng, len(a)) @ a
    weights = _dyadic_weights(rng, len(b))
    b[-1] = (shared - weights[:-1] @ b[:-1]) / weights[-1]
    exact = [sum(Fraction(w) * Fraction(x) for w, x in zip(weights, column, strict=True)) for column in b.T]
    assert exact == [Fraction(x) for x in shared]
    return a, b


def _clouds_that_touch(rng, features, gap=0.0):
    """Two clouds on the two sides of a plane, which both touch in one point; a gap moves one of them away."""
    a, b = _clouds_with_a_common_point(rng, features)
    a[:, -1] = b[:, -1] = 0.0
    a = np.vstack([a, np.column_stack([_whole(rng, 4, features - 1), rng.integers(1, 9, size=4)])])
    b = np.vstack([b, np.column_stack([_whole(rng, 4, features - 1), -rng.integers(1, 9, size=4)])])
    a[:, -1] += gap
    shear = np.triu(rng.integers(-1, 2, size=(features, features)), 1) + np.eye(features)
    return rng.permutation(a) @ shear, rng.permutation(b) @ shear  # every sum exact: few bits in each number


@given(small_cloud, small_cloud)
@example([(0, 0), (2, 2)], [(1, 1)])
@example([(0, 0), (2, 2)], [(3, 3)])
@example([(0, 0), (3, 0), (0, 3)], [(1, 1), (3, 3)])
def test_small_clouds_in_the_plane_meet_enumeration(a, b):
    assert separable(a, b) == _separable_in_the_plane(a, b)


def test_many_small_clouds_in_the_plane_meet_enumeration():
    rng = np.random.default_rng(1)
    verdicts = []
    for _ in range(400):
        a, b = (list(map(tuple, rng.integers(-4, 5, size=(rng.integers(1, 5), 2)).tolist())) for _ in range(2))
        verdicts.append(separable(a, b))
        assert verdicts[-1] == _separable_in_the_plane(a, b), (a, b)
    assert 100 < sum(verdicts) < 300  # both answers are common


def test_whole_numbers_alone_meet_enumeration(monkeypatch):
    monkeypatch.setattr(hyperplanes, "_proves_gap", lambda *_: False)
    monkeypatch.setattr(hyperplanes, "_proves_overlap", lambda *_: False)
    monkeypatch.setattr(hyperplanes, "_widest_gap", lambda rows: (np.zeros(2), np.eye(len(rows))[0]))
    rng = np.random.default_rng(4)
    for _ in range(300):
        a, b = (list(map(tuple, rng.integers(-4, 5, size=(rng.integers(1, 6), 2)).tolist())) for _ in range(2))
        assert separable(a, b) == _separable_in_the_plane(a, b), (a, b)


def test_whole_numbers_do_not_depend_on_where_they_start():
    points = np.array([[-1, 0], [1, 0], [0, 2], [0, 0], [0, -2]], float)  # two triangles, a vertex on an edge
    side = np.array([True, True, True, False, False])
    apart = points + np.array([0, 2.0**-40]) * side[:, None]
    for size in range(1, 6):
        for support in combinations(range(5), size):
            assert not hyperplanes._nearest_point_is_off_zero(points, side, np.array(support))
            assert hyperplanes._nearest_point_is_off_zero(apart, side, np.array(support))


def test_rounding_proves_no_gap():
    # the middle of two points projects between them along any direction: it is never below both
    rng = np.random.default_rng(6)
    fooled = 0
    for _ in range(500):
        ends = np.round(rng.uniform(-1, 1, size=(2, 3)) * 2.0**40) / 2.0**40
        points, side = np.vstack([ends, ends.mean(axis=0)]), np.array([True, True, False])
        direction = np.cross(ends[1] - ends[0], rng.normal(size=3))  # nearly level
        value = points @ direction
        fooled += value[:2].min() > value[2]
        assert not hyperplanes._proves_gap(points, side, direction)
        assert hyperplanes._proves_gap(points + 1e-12 * side[:, None] * np.sign(direction), side, direction)
    assert fooled > 20  # bare floating point is wrong about some


@given(seeds, st.integers(1, 8), st.sampled_from([2.0**-8, 2.0**-20, 2.0**-40, 2.0**-46]))
def test_rounding_proves_no_overlap(seed, features, depth):
    rng = np.random.default_rng(seed)
    order = rng.permutation(features)
    simplex = np.vstack([np.zeros(features), np.eye(features)[order]])  # the point is its own barycentric weights
    inside = np.append(depth, np.full(features - 1, 2.0**-6))[order]
    side = np.arange(features + 2) <= features
    for sign in (1, 0, -1):
        points = np.vstack([simplex, np.where(inside == depth, sign * depth, inside)])
        proven = hyperplanes._proves_overlap(points, points, side)
        assert not proven or sign == 1
        assert separable(points[side], points[~side]) is (sign == -1)
        if sign == 1 and depth > 2.0**-30:
            assert proven


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([[1.0]], [[1.0]], False),  # the same point
        ([[1.0]], [[np.nextafter(1.0, 2.0)]], True),  # the next number
        ([[-0.0, 1.0]], [[0.0, 1.0]], False),  # one zero
        ([[1, 2, 3]], [[1, 2, 4]], True),  # one point each, more features than points
        ([[0, 0], [0, 0], [1, 1]], [[1, 1], [1, 1]], False),  # duplicates, a shared vertex
        ([[0, 0], [0, 0]], [[1, 1], [1, 1]], True),
        ([[0, 0], [4, 4]], [[1, 1], [2, 2]], False),  # on one line, inside
        ([[0, 0], [1, 1]], [[2, 2], [3, 3]], True),  # on one line, apart
        ([[0, 0], [4, 0], [0, 4]], [[2, 2], [5, 5]], False),  # a vertex on an edge
        ([[0, 0], [4, 0], [0, 4]], [[2, 2 + 2**-50], [5, 5]], True),  # just off that edge
        ([[0, 0], [4, 0], [0, 4]], [[2, 2 - 2**-50], [5, 5]], False),  # just inside
        ([[0, 0], [4, 4]], [[0, 4], [4, 0]], False),  # crossing segments
        ([[0, 0], [1, 0], [0, 1], [1, 1]], [[0.5, 0.5]], False),
        ([[0.1, 0.1], [0.3, 0.3]], [[0.2, 0.2]], False),  # on one line whatever the decimals
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0.25, 0.25, 0.5]], False),  # inside a triangle in space
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0.25, 0.25, 0.5 + 2**-53]], True),  # in front of it
        ([[0, 7], [2, 7]], [[1, 7]], False),  # one feature is constant
        ([[1e8, 1e-8], [-1e8, 1e-8]], [[0, 0], [3e8, 2e-8]], True),
        ([[1e8, 1e-8], [-1e8, 1e-8]], [[0, 0], [0, 2e-8]], False),
        ([[1e300, 1e-300], [-1e300, 1e-300]], [[1.0, 0.0], [2e300, 5e-324]], True),
        ([[0, 5e-324], [2, 5e-324]], [[1, 0], [1, 1e-323]], False),  # crossing at the smallest number there is
        ([[0, 5e-324], [2, 5e-324]], [[1, 1e-323], [-1, 1.5e-323]], True),
    ],
)
def test_known_verdicts(a, b, expected):
    assert separable(a, b) is expected
    assert separable(b, a) is expected


def test_decimals_are_taken_as_the_binary_numbers_they_are():
    assert Fraction(0.3) * Fraction(0.3) != Fraction(0.1) * Fraction(0.9)  # (0.3, 0.1) misses the segment by 1e-17
    assert separable([[0, 0], [0.9, 0.3]], [[0.3, 0.1]])
    assert not separable([[0, 0], [0.75, 0.25]], [[0.375, 0.125]])


@given(seeds, st.integers(1, 6), st.integers(-26, 26))
def test_clouds_on_two_sides_of_a_plane_are_separable(seed, features, exponent):
    rng = np.random.default_rng(seed)
    normal = _whole(rng, features)
    assume(np.any(normal))
    points = _whole(rng, 40, features)
    height = points @ normal
    threshold = float(np.median(height))
    a, b = points[height > threshold], points[height <= threshold]
    assume(len(a) and len(b))
    assert separable(a * 2.0**exponent, b * 2.0**exponent)
    middle = (a.max(axis=0) + a.min(axis=0)) / 2
    inside = (a[0] + a[-1]) / 2
    assert not separable(a, np.vstack([b, inside]))
    assert separable(a - middle, b - middle)


@given(seeds, st.integers(2, 7))
def test_clouds_with_a_common_point_are_not_separable(seed, features):
    a, b = _clouds_with_a_common_point(np.random.default_rng(seed), features)
    assert not separable(a, b)


@given(seeds, st.integers(2, 7))
def test_touching_clouds_part_by_the_smallest_gap(seed, features):
    assert not separable(*_clouds_that_touch(np.random.default_rng(seed), features))
    for gap in (2.0**-10, 2.0**-25, 2.0**-40):
        assert separable(*_clouds_that_touch(np.random.default_rng(seed), features, gap))
        a, b = _clouds_that_touch(np.random.default_rng(seed), features, gap)
        edge = (a[0] + a[1]) / 2
        inside = edge + gap * (a[2] - edge)
        assert np.all((inside - edge) / gap == a[2] - edge)  # exact
        assert not separable(a, np.vstack([b, inside]))


@given(seeds, st.sampled_from([0.0, 2.0**-36]), st.integers(-20, 20), st.integers(-26, 26))
def test_verdicts_do_not_change_with_order_place_and_units(seed, gap, shift, exponent):
    rng = np.random.default_rng(seed)
    a, b = _clouds_that_touch(rng, 3, gap)
    move, units = _whole(rng, 3, size=64) / 8 + shift, 2.0 ** (exponent * rng.integers(-1, 2, size=3))
    assert np.all((a + move) - move == a)  # the translation is exact
    assert np.all((b + move) - move == b)
    assert separable(a, b) is (gap > 0)
    assert separable(b, a) is (gap > 0)
    assert separable((a + move) * units, (b + move) * units) is (gap > 0)
    assert separable(np.repeat(a, 2, axis=0), b[::-1]) is (gap > 0)


@given(seeds, st.integers(1, 12), st.floats(0.0, 3.0))
def test_floating_point_proofs_agree_with_whole_numbers(seed, features, distance):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(12, features)), rng.normal(size=(9, features)) + distance / np.sqrt(features)
    points, side = np.concatenate([a, b]), np.arange(21) < 12
    assert separable(a, b) == hyperplanes._nearest_point_is_off_zero(points, side, np.array([0]))


def test_clear_cases_need_no_whole_numbers(monkeypatch):
    def fail(*_):
        raise AssertionError("the exact step ran")

    monkeypatch.setattr(hyperplanes, "_nearest_point_is_off_zero", fail)
    rng = np.random.default_rng(2)
    for features in (2, 10, 40):
        cloud, other = rng.normal(size=(2, 100, features))
        direction = rng.normal(size=features)
        far = 12 * direction / np.linalg.norm(direction)
        assert separable(cloud + 1e8, other + far + 1e8)
        assert not separable(cloud, other)
        rare = np.maximum(rng.normal(size=(2, 400, features)) - 2, 0)  # on most of the points these features agree
        assert not separable(*np.concatenate([rare, rng.normal(size=(2, 400, 2))], axis=2))


@pytest.mark.parametrize("proposal", ["nothing", "noise", "reversed"])
def test_verdicts_do_not_depend_on_what_the_solver_says(monkeypatch, proposal):
    solve, rng = hyperplanes._widest_gap, np.random.default_rng(3)

    def propose(signed):
        direction, weights = solve(signed)
        if proposal == "nothing":
            return np.zeros_like(direction), np.zeros_like(weights)
        if proposal == "noise":
            return rng.normal(size=direction.shape), rng.uniform(size=weights.shape) * (rng.random(len(weights)) < 0.3)
        return -direction, weights[::-1].copy()

    monkeypatch.setattr(hyperplanes, "_widest_gap", propose)
    for features, _ in product((2, 3, 5), range(4)):
        assert not separable(*_clouds_that_touch(rng, features))
        assert separable(*_clouds_that_touch(rng, features, 2.0**-40))
        assert not separable(*_clouds_with_a_common_point(rng, features))


def test_classes_in_pairs_and_along_one_direction():
    rows = np.array([[[0, 0], [1, 0]], [[0, 1], [1, 1]], [[0, 2], [1, 2]]], float)
    assert pairwise_separable(rows)
    assert universally_separable(rows, [0, 1])
    assert universally_separable(rows[::-1], [0, -1])
    assert not universally_separable(rows, [1, 0])
    assert not universally_separable(rows, [1, 1])  # neighbours touch in one projection
    assert universally_separable(rows, [1, np.nextafter(1.0, 2.0)])
    assert not universally_separable(rows, [1, np.nextafter(1.0, 0.0)])
    ring = np.array([[[np.cos(t), np.sin(t)], [3 * np.cos(t), 3 * np.sin(t)]] for t in np.arange(8) * np.pi / 4])
    assert pairwise_separable(ring)
    assert not any(universally_separable(ring, [np.cos(t), np.sin(t)]) for t in np.linspace(0, np.pi, 50))
    assert not pairwise_separable(np.concatenate([ring, ring[:1] * 1.1]))


@given(seeds, st.integers(2, 4), st.integers(1, 5), st.booleans())
def test_universal_separation_meets_fractions(seed, classes, features, close):
    rng = np.random.default_rng(seed)
    points, direction = rng.normal(size=(classes, 3, features)), rng.normal(size=features)
    points += 2 * direction * np.arange(classes)[:, None, None]
    if close:  # a point of another class, one unit in the last place away
        points[1, 0] = points[0, 1]
        points[1, 0, 0] = np.nextafter(points[1, 0, 0], rng.choice([-10.0, 10.0]))
    exact = [[sum(Fraction(x) * Fraction(w) for x, w in zip(p, direction, strict=True)) for p in c] for c in points]
    expected = all(max(k) < min(m) or max(m) < min(k) for k, m in combinations(exact, 2))
    assert universally_separable(points, direction) is expected
    assert universally_separable(points * 1e-8, direction * 2.0**900) is universally_separable(points * 1e-8, direction)


def _worst_gap(means, directions):
    """Evaluate min over pairs of Σ_t |⟨difference, ν⟩| for directions (feature, many)."""
    pairs = combinations(range(means.shape[1]), 2)
    return np.min([np.abs((means[:, k] - means[:, m]) @ directions).sum(axis=0) for k, m in pairs], axis=0)


@given(seeds, st.integers(2, 7), st.integers(1, 4))
def test_best_direction_meets_brute_force_in_the_plane(seed, classes, times):
    means = np.random.default_rng(seed).normal(size=(times, classes, 2))
    angles = np.linspace(0, np.pi, 20001)
    grid = _worst_gap(means, np.array([np.cos(angles), np.sin(angles)]))
    direction = separating_direction(means)
    steepest = np.abs(means[:, :, None] - means[:, None]).sum(axis=(0, 3)).max()  # |d/dθ| of the objective, at most
    assert np.linalg.norm(direction) == pytest.approx(1, abs=1e-14)
    value = float(_worst_gap(means, direction))
    assert value >= grid.max() - 1e-12
    assert value <= grid.max() + steepest * (angles[1] - angles[0])
    assert (means[-1, 0] - means[-1, -1]) @ direction > 0


def test_best_direction_of_many_classes_and_features():
    rng = np.random.default_rng(5)
    line = np.arange(10)[:, None] * np.array([3.0, 4.0, 0.0]) / 5
    np.testing.assert_allclose(separating_direction(line), [-0.6, -0.8, 0.0], atol=1e-12)
    means = rng.normal(size=(9, 2))  # beyond the enumeration, still checked by brute force
    angles = np.linspace(0, np.pi, 20001)
    grid = _worst_gap(means[None], np.array([np.cos(angles), np.sin(angles)]))
    assert _worst_gap(means[None], separating_direction(means)) >= grid.max() - 1e-12
    wide = rng.normal(size=(4, 30))
    random = rng.normal(size=(30, 5000))
    assert (
        _worst_gap(wide[None], separating_direction(wide))
        > _worst_gap(wide[None], random / np.linalg.norm(random, axis=0)).max()
    )


def _best_value_over_orders(means):
    """The largest distance from 0 to the hull of the steps over all orders, by enumerating the faces of each hull."""
    orders = np.array(list(permutations(range(len(means)))))
    steps = np.diff(means[orders], axis=1)  # (order, step, feature)
    gram = steps @ steps.transpose(0, 2, 1)
    square = np.full(len(orders), np.inf)
    for size in range(1, len(means)):
        for face in combinations(range(len(means) - 1), size):
            weights = np.linalg.solve(gram[:, face][:, :, face], np.ones((len(orders), size, 1)))[..., 0]
            distance = 1 / weights.sum(axis=1)
            square = np.where(np.all(weights > 0, axis=1), np.minimum(square, distance), square)
    return np.sqrt(square.max())


@pytest.mark.parametrize("classes", [3, 5, 7])
def test_best_direction_is_the_best_of_all_orders(classes):
    rng = np.random.default_rng(classes)
    for features in (classes - 1, classes + 3):
        means = rng.normal(size=(classes, features)) * rng.uniform(0.1, 2.0, size=features)
        value = float(_worst_gap(means[None], separating_direction(means)))
        assert value == pytest.approx(_best_value_over_orders(means), rel=1e-10)
    uneven = np.random.default_rng(20).normal(size=(classes, classes - 1)) ** 5  # many local maxima
    value = float(_worst_gap(uneven[None], separating_direction(uneven)))
    assert value == pytest.approx(_best_value_over_orders(uneven), rel=1e-10)
    path = means + 0.5 * rng.normal(size=(3, *means.shape))
    assert _worst_gap(path, separating_direction(path)) >= _best_value_over_orders(path.sum(axis=0)) - 1e-10


@pytest.mark.parametrize("classes", [4, 9])
def test_best_direction_over_time_cannot_be_improved_nearby(classes):
    rng = np.random.default_rng(classes)
    means = rng.normal(size=(20, classes, 8))
    direction = separating_direction(means)
    value = float(_worst_gap(means, direction))
    nearby = direction[:, None] + rng.normal(size=(8, 2000)) * 10 ** rng.uniform(-6, -1, size=2000)
    assert _worst_gap(means, nearby / np.linalg.norm(nearby, axis=0)).max() <= value + 1e-12
    # the convex problem with the signs found, by another solver
    steps = [means[:, k] - means[:, m] for k, m in combinations(range(classes), 2)]
    folded = np.array([np.sign(step @ direction) @ step for step in steps])
    ball = {"type": "ineq", "fun": lambda x: 1 - x[:-1] @ x[:-1]}
    above = {"type": "ineq", "fun": lambda x: folded @ x[:-1] - x[-1]}
    solution = minimize(lambda x: -x[-1], np.append(direction, value), constraints=[ball, above], method="SLSQP")
    assert solution.x[-1] == pytest.approx(value, rel=1e-6)


def test_best_direction_of_a_simplex_is_the_known_one():
    # equal steps from class to class: for K orthonormal means ν ∝ (K−1)/2 − k, with smallest step 1/‖ν‖
    for classes in (2, 3, 5, 7):
        ladder = (classes - 1) / 2 - np.arange(classes)
        value = _worst_gap(np.eye(classes)[None], separating_direction(np.eye(classes)))
        assert value == pytest.approx(1 / np.linalg.norm(ladder), rel=1e-12)


@given(seeds, st.integers(2, 5), st.integers(1, 4), st.sampled_from([1e-150, 1e-8, 1.0, 1e150]))
def test_difference_of_the_farthest_last_means(seed, classes, features, units):
    means = np.random.default_rng(seed).normal(size=(3, classes, features)) * units
    direction = separating_direction(means, method="difference")
    pairs = [means[-1, k] - means[-1, m] for k, m in combinations(range(classes), 2)]
    longest = max(pairs, key=lambda step: np.linalg.norm(step / units))
    np.testing.assert_allclose(direction, longest / units / np.linalg.norm(longest / units), rtol=0, atol=1e-14)
    spread = np.ptp(means[-1] / units @ direction)
    assert spread == pytest.approx(np.linalg.norm(longest / units), rel=1e-12)
    np.testing.assert_allclose(separating_direction(means), separating_direction(means / units), atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: separable([1.0, 2.0], [[1.0]]), r"a must have shape \(sample, feature\).*got \(2,\)"),
        (lambda: separable([[1.0]], np.zeros((0, 1))), r"b must have shape.*got \(0, 1\)"),
        (lambda: separable([[1.0, 2.0]], [[1.0]]), r"b must have the features of a, 2 of them, got shape \(1, 1\)"),
        (lambda: separable([[np.nan]], [[1.0]]), "a must be finite everywhere, got nan"),
        (lambda: separable([["x"]], [[1.0]]), "a must be a .*number"),
        (lambda: pairwise_separable(np.zeros((1, 2, 2))), r"points must have shape.*got \(1, 2, 2\)"),
        (lambda: pairwise_separable(np.zeros((2, 0, 2))), r"points must have shape.*got \(2, 0, 2\)"),
        (lambda: universally_separable(np.zeros((2, 2, 2)), [1.0]), r"direction must have shape.*\(2,\), got \(1,\)"),
        (lambda: universally_separable(np.zeros((2, 2, 2)), [0, 0]), "direction must not be the zero vector"),
        (lambda: separating_direction([1.0, 2.0]), r"class_means must have shape.*got \(2,\)"),
        (lambda: separating_direction([[1.0, 2.0]]), r"class_means must have shape.*got \(1, 2\)"),
        (lambda: separating_direction([[1.0], [np.inf]]), "class_means must be finite everywhere, got inf"),
        (lambda: separating_direction([[1.0], [2.0]], method="svm"), "method must be one of best, difference, got"),
        (lambda: separating_direction([[1.0], [2.0], [1.0]]), "class_means must differ.*the same in 0 and 2"),
        (lambda: separating_direction([[3.0], [3.0]], method="difference"), r"class_means must differ.*got \[3\.\]"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
