"""A planted elasticity matrix comes back for any geometry and sampling, and what is not seen is reported."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.models.elastic.elasticity import estimate_elasticity
from dynascope.models.elastic.geometry import drift_matrix, geometry_blocks, margin_directions, sampling_matrix
from dynascope.models.elastic.mean_path import general_path, logit_path
from dynascope.models.elastic.strengths import Constant

TIMES = np.linspace(0.0, 3.0, 121)
GEOMETRIES = ("isotropic", "logits", "mixture", "blocks")


def setting(geometry, classes, features, seed):
    """Random blocks or named geometry, random stochastic sampling, a start near the margin directions, random E."""
    random = np.random.default_rng(seed)
    shape = (classes, classes, features, features)
    blocks = random.normal(size=shape) if geometry == "blocks" else geometry_blocks(geometry, classes, features)
    sampling = random.dirichlet(np.full(classes, 5.0), size=classes)
    start = margin_directions(classes, features) * (1 + random.random((classes, 1)))
    start = start + 0.3 * random.normal(size=start.shape)
    return blocks, sampling, start, random.normal(size=(2, classes, classes))


def path_of(start, elasticity, sampling, blocks, *, constant):
    def drift(time):
        return drift_matrix(elasticity(time), sampling_matrix(sampling, len(sampling)), blocks)

    return general_path(TIMES, start, drift, constant=constant, knots=np.array([]))


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(st.sampled_from([(2, 3), (3, 4), (3, 5)]), st.integers(0, 999), st.booleans())
def test_constant_elasticity_comes_back(geometry, sizes, seed, symmetric):
    blocks, sampling, start, (matrix, _) = setting(geometry, *sizes, seed)
    matrix = (matrix + matrix.T) / 2 if symmetric else matrix
    path = path_of(start, lambda time: matrix, sampling, blocks, constant=True)
    found = estimate_elasticity(TIMES, path, blocks, sampling=sampling, window=21, ridge=0.0, symmetric=symmetric)
    assert found["ok"]
    inside = found["elasticity"].values[10:-10]
    np.testing.assert_allclose(inside, np.broadcast_to(matrix, inside.shape), atol=1e-5)
    assert np.all(np.isnan(found["elasticity"].values[:10]))
    unknowns = sizes[0] * (sizes[0] + 1) // 2 if symmetric else sizes[0] ** 2
    np.testing.assert_allclose(found["degrees_of_freedom"][10:-10], unknowns, rtol=1e-9)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_varying_elasticity_comes_back_as_the_window_shrinks(geometry):
    """The error is that of an average over the window: second order in its width."""
    blocks, sampling, start, (first, second) = setting(geometry, 3, 5, 1)

    def elasticity(time):
        return first + 0.5 * np.sin(time) * second

    path = path_of(start, elasticity, sampling, blocks, constant=False)
    truth = np.array([elasticity(time) for time in TIMES])
    errors = []
    for window in (21, 11):
        found = estimate_elasticity(TIMES, path, blocks, sampling=sampling, window=window, ridge=0.0)
        errors.append(np.abs(found["elasticity"].values - truth)[10:-10].max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 * np.log2(20 / 10), abs=0.3)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_intervals_cover_with_noise(geometry):
    blocks, sampling, start, (matrix, _) = setting(geometry, 3, 4, 1)
    path = path_of(start, lambda time: matrix, sampling, blocks, constant=True)
    covered, errors = [], []
    for seed in range(40):
        noisy = (path + 0.02 * np.random.default_rng(seed).normal(size=(20, *path.shape)))[:, ::6]
        found = estimate_elasticity(
            TIMES[::6], noisy, blocks, sampling=sampling, window=17, ridge=1e-9, resamples=100, seed=seed
        )
        low, high = (found[f"elasticity_{end}"].values[10] for end in ("low", "high"))
        covered.append((low <= matrix) & (matrix <= high))
        errors.append(np.abs(found["elasticity"].values[10] - matrix).max())
        assert found["ok"]
    assert 0.90 <= np.mean(covered) <= 0.98
    assert np.median(errors) < 0.1


def test_pooled_trials_from_different_starts_tell_what_their_average_does_not():
    """Alike classes and features = classes: one combination of each row is not seen in the average."""
    random = np.random.default_rng(0)
    starts = margin_directions(3, 3) * (1 + 0.5 * random.normal(size=(8, 3, 1)))
    starts += margin_directions(3, 3) - starts.mean(axis=0)
    paths = logit_path(TIMES, starts, Constant(1.0), Constant(-0.4))
    averaged = estimate_elasticity(TIMES, paths)
    assert not averaged["ok"]
    assert "numbers are determined" in averaged.attrs["reason"]
    assert float(averaged["degrees_of_freedom"].min()) == pytest.approx(6.0, abs=0.01)
    pooled = estimate_elasticity(TIMES, paths, pooled=True, ridge=1e-10)
    assert pooled["ok"]
    expected = np.full((3, 3), -0.4) + 1.4 * np.eye(3)
    inside = slice(12, -12)
    np.testing.assert_allclose(pooled["elasticity"][inside], np.broadcast_to(expected, (97, 3, 3)), atol=1e-5)
    assert np.all(pooled["elasticity_low"][inside] <= pooled["elasticity_high"][inside])


def test_uneven_times_and_few_trials():
    blocks, sampling, start, (matrix, _) = setting("isotropic", 3, 4, 2)
    path = path_of(start, lambda time: matrix, sampling, blocks, constant=True)
    keep = np.concatenate([np.arange(0, 60), np.arange(60, 121, 2)])
    found = estimate_elasticity(TIMES[keep], np.stack([path, path])[:, keep], blocks, sampling=sampling, ridge=0.0)
    middle = found["elasticity"].values[len(keep) // 2]
    np.testing.assert_allclose(middle, matrix, atol=1e-5)
    assert "2 trials are too few" in found.attrs["reason"]
    assert not found["ok"]
    assert np.all(np.isnan(found["elasticity_low"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"geometry": "round"}, "geometry must be one of"),
        ({"sampling": [0.5, 0.6, 0.1]}, "sampling must sum to 1"),
        ({"window": 10}, "window must be an odd number"),
        ({"ridge": -1.0}, "ridge must be at least 0"),
        ({"symmetric": 1}, "symmetric must be True or False"),
        ({"pooled": "yes"}, "pooled must be True or False"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        estimate_elasticity(TIMES, np.ones((121, 3, 3)), **options)
