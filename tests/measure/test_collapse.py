"""Simplex frames have the Gram matrix that defines them; NC1 to NC4 meet their definitions written out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynascope.measure.collapse import etf_distance, neural_collapse, simplex_etf

seeds = st.integers(0, 2**32 - 1)


def _rotation(rng, features):
    return np.linalg.qr(rng.normal(size=(features, features)))[0]


@given(st.integers(2, 12), st.integers(0, 5), st.one_of(st.none(), seeds))
def test_frame_has_the_defining_gram_matrix(classes, more, seed):
    frame = simplex_etf(classes, classes + more, seed=seed)
    assert frame.shape == (classes, classes + more)
    gram = np.full((classes, classes), -1 / (classes - 1))
    np.fill_diagonal(gram, 1.0)
    np.testing.assert_allclose(frame @ frame.T, gram, atol=1e-14)
    np.testing.assert_allclose(frame.sum(axis=0), 0, atol=1e-14)
    # tight: S Sᵀ is K/(K−1) times a projection onto K − 1 dimensions
    values = np.linalg.svd(frame, compute_uv=False)
    expected = np.append(np.full(classes - 1, np.sqrt(classes / (classes - 1))), 0.0)
    np.testing.assert_allclose(values, expected, atol=1e-14)
    assert etf_distance(frame) < 1e-13


def test_seeds_fix_and_vary_the_frame():
    np.testing.assert_array_equal(simplex_etf(3, 5, seed=1), simplex_etf(3, 5, seed=1))
    assert np.abs(simplex_etf(3, 5, seed=1) - simplex_etf(3, 5, seed=2)).max() > 0.1
    np.testing.assert_array_equal(simplex_etf(3), simplex_etf(3, 3))
    np.testing.assert_allclose(simplex_etf(4, 6), np.sqrt(4 / 3) * (np.eye(4, 6) - np.eye(4).sum(0) @ np.eye(4, 6) / 4))


def test_random_frames_are_uniform():
    # every coordinate of a uniform unit vector in 4 dimensions has mean 0 and variance 1/4
    first = np.array([simplex_etf(2, 4, seed=seed)[0] for seed in range(2000)])
    error = np.sqrt(1 / 4 / 2000)
    assert np.all(np.abs(first.mean(axis=0)) < 4 * error)
    fourth = np.sqrt(3 / 24 - 1 / 16)  # standard deviation of a squared coordinate
    assert np.all(np.abs((first**2).mean(axis=0) - 1 / 4) < 4 * fourth / np.sqrt(2000))


@given(seeds, st.integers(2, 6), st.integers(1, 8), st.booleans())
def test_distance_ignores_rotation_and_length(seed, classes, features, centre):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(classes, features))
    distance = etf_distance(means, centre=centre)
    turned = means @ _rotation(rng, features)
    assert etf_distance(turned, centre=centre) == pytest.approx(distance, abs=1e-9)
    assert etf_distance(means * 1e-200, centre=centre) == pytest.approx(distance, abs=1e-9)
    assert etf_distance(means[::-1] * 1e200, centre=centre) == pytest.approx(distance, abs=1e-9)
    if centre:
        assert etf_distance(means + rng.normal(size=features), centre=True) == pytest.approx(distance, abs=1e-9)
    else:
        lengths = 10 ** rng.uniform(-250, 250, size=(classes, 1))
        assert etf_distance(means * lengths) == pytest.approx(distance, abs=1e-9)


@given(st.integers(2, 9))
def test_distance_of_known_configurations(classes):
    assert etf_distance(np.eye(classes)) == pytest.approx(1 / (classes - 1))
    assert etf_distance(np.eye(classes), centre=True) < 1e-12
    assert etf_distance(np.ones((classes, 3))) == pytest.approx(classes / (classes - 1))
    turned = simplex_etf(classes)
    turned[0] *= -1  # its K − 1 cosines change sign, counted twice among K(K − 1)
    assert etf_distance(turned) == pytest.approx(2 / (classes - 1) * np.sqrt(2 / classes))


@given(seeds, st.integers(3, 6))
def test_distance_grows_in_proportion_to_a_small_disturbance(seed, classes):
    rng = np.random.default_rng(seed)
    frame, disturbance = simplex_etf(classes, classes + 2, seed=seed), rng.normal(size=(classes, classes + 2))
    fine, coarse = (etf_distance(frame + size * disturbance) for size in (1e-6, 1e-5))
    assert coarse / fine == pytest.approx(10, rel=1e-2)


def test_leading_axes_are_kept():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 5, 3, 6))
    distance = etf_distance(means)
    assert distance.shape == (4, 5)
    assert isinstance(etf_distance(means[0, 0]), float)
    each = [[etf_distance(means[i, j]) for j in range(5)] for i in range(4)]
    np.testing.assert_allclose(distance, each, rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simplex_etf(1), "classes must be a whole number of at least 2, got 1"),
        (lambda: simplex_etf(4, 3), "features must be a whole number of at least 4, got 3"),
        (lambda: simplex_etf(4, seed=-1), "seed must be a whole number of at least 0, got -1"),
        (lambda: simplex_etf(2.5), "classes must be a whole number"),
        (lambda: etf_distance([1.0, 2.0]), r"class_means must have shape.*got \(2,\)"),
        (lambda: etf_distance([[1.0, 2.0]]), r"class_means must have shape.*got \(1, 2\)"),
        (lambda: etf_distance(np.zeros((2, 0))), r"class_means must have shape.*got \(2, 0\)"),
        (lambda: etf_distance([[1.0], [np.nan]]), "class_means must be finite everywhere, got nan"),
        (lambda: etf_distance([[1.0, 0.0], [0.0, 0.0]]), r"class_means must differ from 0 .*got 0 at \(1,\)"),
        (lambda: etf_distance(np.zeros((2, 3, 4))), r"class_means must differ from 0 .*at \(0, 0\)"),
        (lambda: etf_distance(np.full((3, 2), 0.1), centre=True), "class_means must differ from the mean over classes"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# NC1 to NC4


def _explicit(x, labels, weight, bias):
    """The definitions with covariance matrices and loops."""
    classes = np.unique(labels)
    means = np.stack([x[labels == k].mean(axis=0) for k in classes])
    centred = means - means.mean(axis=0)
    within = sum(np.outer(v - means[k], v - means[k]) for v, k in zip(x, labels, strict=True)) / len(x)
    between = centred.T @ centred / len(classes)
    predicted = np.argmax(x @ weight.T + bias, axis=1)
    nearest = np.argmin(((x[:, None] - means) ** 2).sum(axis=-1), axis=1)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    off = [
        unit[k] @ unit[j] + 1 / (len(classes) - 1) for k in range(len(classes)) for j in range(len(classes)) if k != j
    ]
    lengths = np.linalg.norm(centred, axis=1)
    rows = weight / np.linalg.norm(weight, axis=1, keepdims=True) - unit
    return {
        "nc1": np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / len(classes),
        "nc1_thesis": np.trace(within @ between.T),
        "nc2_norm": lengths.std() / lengths.mean(),
        "nc2_angle": np.mean(np.abs(off)),
        "nc2_thesis": np.sqrt(np.mean(np.square(off))),
        "nc3": np.linalg.norm(weight / np.linalg.norm(weight) - centred / np.linalg.norm(centred)),
        "nc3_thesis": np.linalg.norm(rows, axis=1).mean(),
        "nc4": np.mean(predicted != nearest),
    }


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(3, 9))
def test_collapse_meets_its_definitions(seed, classes, features):
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), random.integers(classes, size=40)])
    x = random.normal(size=(len(labels), features)) + 2 * random.normal(size=(classes, features))[labels] + 5
    weight, bias = random.normal(size=(classes, features)), random.normal(size=classes)
    found = neural_collapse(x, labels, weight, bias)
    for name, value in _explicit(x, labels, weight, bias).items():
        assert np.isclose(found[name], value, rtol=1e-7, atol=1e-10), name
    assert np.isclose(found["nc2_thesis"], etf_distance(found["centred_means"].values), atol=1e-10)
    tensors = neural_collapse(*(torch.as_tensor(each) for each in (x, labels, weight, bias)))
    assert all(np.isclose(found[name], tensors[name], atol=1e-10) for name in found.data_vars if found[name].ndim == 0)


@given(st.integers(0, 2**32 - 1))
def test_collapse_is_blind_to_turns_and_scale(seed):
    random = np.random.default_rng(seed)
    labels = np.arange(30) % 3
    x, weight = random.normal(size=(30, 5)) + np.eye(3, 5)[labels], random.normal(size=(3, 5))
    turn = np.linalg.qr(random.normal(size=(5, 5)))[0]
    before, after = neural_collapse(x, labels, weight), neural_collapse(7 * x @ turn, labels, 3 * weight @ turn)
    for name in ("nc1", "nc2_norm", "nc2_angle", "nc2_thesis", "nc3", "nc3_thesis", "nc4"):
        assert np.isclose(before[name], after[name], atol=1e-9), name
    assert np.isclose(7**4 * before["nc1_thesis"], after["nc1_thesis"])


def test_collapse_without_a_last_layer():
    found = neural_collapse(np.eye(4), ["a", "a", "b", "b"])
    assert np.isnan(found["nc3"])
    assert np.isnan(found["nc4"])
    assert found["class"].values.tolist() == ["a", "b"]
    assert neural_collapse(np.ones((4, 2)), [0, 0, 1, 1])["nc1"] == np.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(4), [0, 0, 1, 1], np.eye(2)), r"weight must have shape \(class, 4\), got \(2, 2\)"),
        ((np.eye(4), [0, 0, 1, 1], np.ones((3, 4))), "each of the classes 0 … 2 that the 3 rows"),
        ((np.eye(4), ["a", "a", "b", "b"], np.ones((2, 4))), "each of the classes 0 … 1"),
        ((np.eye(4), [0, 0, 1, 1], np.ones((2, 4)), np.ones(3)), r"bias must have shape \(2,\), got \(3,\)"),
        ((np.eye(4), [0, 0, 1, 1], None, np.ones(2)), "bias must come with the weight"),
        ((np.eye(4), [0, 1]), "labels must name the class of each of the 4 samples"),
        ((np.eye(4), [2, 2, 2, 2]), "at least 2 classes"),
        ((np.eye(4), [0, 1, 2, 3]), "labels must repeat"),
    ],
)
def test_collapse_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        neural_collapse(*arguments)
