"""Feature spectra against explicit kernels, least squares and constructed minimum-projection operators."""

import tracemalloc

import jax
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynascope.measure import (
    effective_dimension,
    feature_spectrum,
    minimum_feature_distance,
    neural_collapse,
    spectrum,
)
from dynascope.measure.spectrum import cka, eigenfunctions

seeds = st.integers(0, 2**32 - 1)


def _jax64(array):
    with jax.enable_x64(True):
        return jax.numpy.asarray(array)


LIBRARIES = {"numpy": np.asarray, "torch": torch.as_tensor, "jax": _jax64}


def _minimal(classes, features, samples, seed):
    """Features whose kernel is a_1 |1⟩⟨1| + a_2 P for one-hot outputs, turned at random; and the labels."""
    random = np.random.default_rng(seed)
    labels = np.arange(samples * classes) % classes
    turn = np.linalg.qr(random.normal(size=(features, features)))[0][: classes + 1]
    a1, a2 = random.uniform(0.5, 2.0, 2)
    frame = (np.eye(classes) - 1 / classes) * np.sqrt(a2 * classes)
    constant = np.full((len(labels), 1), np.sqrt(a1 + a2))
    return np.concatenate([frame[labels], constant], axis=1) @ turn, labels


def _explicit_kappa(x, y):
    """(2.8), (2.9) with N × N matrices."""
    n = len(x)
    centre = np.eye(n) - 1 / n
    kernel = centre @ x @ x.T @ centre
    projector = centre @ y @ np.linalg.pinv(y) @ centre
    return 1 - np.trace(kernel @ projector) / np.linalg.norm(kernel) / np.linalg.norm(projector)


@given(seeds, st.integers(1, 4), st.integers(1, 60))
def test_kappa_meets_explicit_operators(seed, outputs, features):
    """Also with more features than samples."""
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(40, features)) + 1, random.normal(size=(40, outputs)) + 0.5
    assert np.isclose(minimum_feature_distance(x, y), _explicit_kappa(x, y), atol=1e-10)
    twice = np.column_stack([y, y @ random.normal(size=(outputs, 2))])  # the span counts, not how it is written
    assert np.isclose(minimum_feature_distance(x, twice), _explicit_kappa(x, y), atol=1e-10)


def test_kappa_jumps_with_faint_outputs_unless_they_count_in_proportion():
    """10 features, 97 outputs: noise fills the directions in which the outputs are 0."""
    random = np.random.default_rng(0)
    x = random.normal(size=(1000, 10))
    y = x @ np.linalg.qr(random.normal(size=(97, 10)))[0].T
    noise = random.normal(size=y.shape)
    clean, spoilt = (minimum_feature_distance(x, each) for each in (y, y + 1e-7 * noise))
    assert clean < 0.01
    assert spoilt > 0.6
    levels = 10.0 ** np.arange(-9, -1)
    path = [float(minimum_feature_distance(x, y + level * noise, least_share=0.01)) for level in levels]
    assert np.all(np.abs(np.array(path) - clean) < 1e-4 + 100 * levels**2)


@given(seeds)
def test_kappa_is_continuous_where_directions_change_places(seed):
    """Also at the share from which on directions count as a whole, and where two have the same share."""
    random = np.random.default_rng(seed)
    x, turn = random.normal(size=(60, 6)), np.linalg.qr(random.normal(size=(60, 4)))[0]
    turn = np.linalg.qr(turn - turn.mean(axis=0))[0]
    for sizes in ([1.0, 0.5, 0.1, 0.1], [1.0, 1.0, 0.1, 0.05]):
        shares = np.square(sizes) / np.square(sizes).sum()
        step = 1e-6 * random.normal(size=(60, 4))
        here, there = (
            float(minimum_feature_distance(x, turn * sizes + each, least_share=shares[2])) for each in (0.0, step)
        )
        assert abs(here - there) < 1e-3


def test_kappa_does_not_see_whether_equal_outputs_are_faint():
    x, labels = _minimal(5, 8, 6, 0)
    onehot = np.eye(5)[labels]
    assert abs(minimum_feature_distance(x, onehot, least_share=0.9)) < 1e-10
    found = feature_spectrum(x, x, onehot, onehot, least_share=0.01)
    assert found.attrs["least_share"] == "0.01"


def test_kappa_in_pieces_is_the_same(monkeypatch):
    random = np.random.default_rng(0)
    for shape in ((50, 30), (30, 50)):
        x, y = random.normal(size=shape), random.normal(size=(shape[0], 3))
        whole = minimum_feature_distance(x, y)
        with monkeypatch.context() as patch:
            patch.setattr(spectrum, "BLOCK", 200)
            assert np.isclose(minimum_feature_distance(x, y), whole, atol=1e-13)


def test_kappa_needs_little_memory():
    x = np.ones((20_000, 64), np.float32)
    x[:, :2] = np.random.default_rng(0).normal(size=(20_000, 2))
    tracemalloc.start()
    minimum_feature_distance(x, x[:, :2])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # N × N would be 3.2 GB


@given(seeds, st.integers(2, 6), st.integers(0, 8))
def test_minimum_projection_operators(seed, classes, extra):
    x, labels = _minimal(classes, classes + 1 + extra, 6, seed)
    onehot = np.eye(classes)[labels]
    assert abs(minimum_feature_distance(x, onehot)) < 1e-10
    found = feature_spectrum(x, x, onehot, onehot)
    for name in ("intensity", "quality", "utilization"):
        assert np.isclose(found[f"dimension_{name}"], classes, atol=1e-9)
    assert str(found["regime"].values) == "minimum features"
    means = neural_collapse(x, labels)["centred_means"].values  # the collapsed last layer is its own class means
    collapse = neural_collapse(x, labels, means)
    for name in ("nc1", "nc1_thesis", "nc2_norm", "nc2_angle", "nc2_thesis", "nc3", "nc3_thesis", "nc4"):
        assert abs(float(collapse[name])) < 1e-12, name


@given(seeds)
def test_alignment_is_one_with_itself_and_blind_to_turns(seed):
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(30, 7)), random.normal(size=(30, 4))
    assert np.isclose(cka(x, x), 1, atol=1e-12)
    turn = np.linalg.qr(random.normal(size=(7, 7)))[0]
    assert np.isclose(cka(1e-8 * x @ turn + 3, x), 1, atol=1e-8)
    assert np.isclose(cka(x, y), cka(y, x), atol=1e-12)
    assert np.isclose(cka(1e90 * x, y), cka(x, y), atol=1e-12)  # fourth powers stay in range
    assert 0 <= cka(x, y) <= 1


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.ci] if each == "jax" else []) for each in LIBRARIES]
)
def test_libraries_agree(name):
    random = np.random.default_rng(1)
    train, test = random.normal(size=(2, 60, 8)) * np.arange(1, 9)
    target, output = np.eye(3)[np.arange(60) % 3], test[:, :2]
    make = LIBRARIES[name]
    given_, plain = [make(each) for each in (train, test, target, output)], (train, test, target, output)
    here, there = feature_spectrum(*given_), feature_spectrum(*plain)
    for variable in ("intensity", "quality", "utilization", "minimum_feature_distance", "dimension_intensity"):
        assert np.allclose(here[variable], there[variable], atol=1e-10), variable
    kappa = minimum_feature_distance(given_[1], given_[3])
    assert isinstance(kappa, {"numpy": np.generic, "torch": torch.Tensor, "jax": jax.Array}[name])
    assert abs(float(kappa) - float(minimum_feature_distance(test, output))) < 1e-10
    dimension = effective_dimension(make(np.arange(5.0)))
    assert abs(float(dimension) - float(effective_dimension(np.arange(5.0)))) < 1e-10
    assert not jax.config.jax_enable_x64


# spectra


@given(seeds, st.integers(3, 25))
def test_eigenfunctions_diagonalise_the_kernel(seed, features):
    """Also with more features than samples."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(15, features)) @ random.normal(size=(features, features))
    intensity, e = eigenfunctions(x, x)
    assert np.allclose(e.T @ e / len(x), np.eye(len(intensity)), atol=1e-7)
    assert np.allclose(e * intensity @ e.T, x @ x.T, atol=1e-8 * intensity[0])
    assert np.all(np.diff(intensity) <= 0)


@given(seeds, st.integers(1, 3))
def test_cumulative_shares_are_what_least_squares_explains(seed, outputs):
    random = np.random.default_rng(seed)
    train, test = random.normal(size=(2, 80, 10)) * np.arange(1, 11)
    target, output = random.normal(size=(80, outputs)), test @ random.normal(size=(10, outputs))
    found = feature_spectrum(train, test, target, output)
    e = eigenfunctions(train, test)[1]
    for name, values in (("quality", target), ("utilization", output)):
        span = np.linalg.svd(values, full_matrices=False)[0]
        for k in (1, 5, 10):
            fit = e[:, :k] @ np.linalg.lstsq(e[:, :k], span, rcond=None)[0]
            assert np.isclose(found[f"cumulative_{name}"][k - 1], (fit**2).sum() / outputs, atol=1e-9)
    assert np.isclose(found["cumulative_utilization"][-1], 1, atol=1e-9)
    assert np.all(found["quality"] >= 0)
    assert found["cumulative_quality"][-1] <= 1 + 1e-9


def test_printed_forms_stay_available():
    random = np.random.default_rng(2)
    train, test = random.normal(size=(2, 500, 6))
    output = test @ random.normal(size=(6, 2))
    ours, printed = (feature_spectrum(train, test, test[:, 0], output, published=flag) for flag in (False, True))
    assert np.allclose(printed["intensity"], 500 * ours["intensity"])
    assert printed["cumulative_utilization"][-1] < 0.9  # the square of (2.5)
    single = feature_spectrum(train, test, test[:, 0], test[:, 1], published=True)
    e = eigenfunctions(train, test)[1]
    expected = (e.T @ test[:, 1]) ** 2 / (e**2).sum(axis=0) / (test[:, 1] ** 2).sum()  # (1.34)
    assert np.allclose(single["utilization"], expected)


def test_few_samples_and_dead_features():
    """Fewer test samples than features, and features that are off on all test samples."""
    random = np.random.default_rng(3)
    train, test = random.normal(size=(100, 20)), random.normal(size=(8, 20))
    found = feature_spectrum(train, test, random.normal(size=8), random.normal(size=8))
    assert np.isclose(found["cumulative_quality"][-1], 1)
    assert np.all(found["quality"][8:] == 0)
    test[:, 3:] = 0
    found = feature_spectrum(train, test, test[:, 0], test[:, 1])
    assert np.isclose(found["cumulative_quality"][-1], 1)
    assert (found["quality"] > 1e-9).sum() <= 3


def test_effective_dimensions():
    assert np.isclose(effective_dimension(np.ones(7)), 7)
    assert np.isclose(effective_dimension([3.0, 0.0, 0.0]), 1)
    values = np.array([0.5, 0.3, 0.2])
    assert np.isclose(effective_dimension(values), np.exp(-(values * np.log(values)).sum()))
    assert np.isclose(effective_dimension(1e-200 * values), effective_dimension(values))
    assert np.isclose(effective_dimension([1e9, 1.0, 1.0], constant_first=True), 3)


BAD = {
    "negative": (lambda: effective_dimension([1.0, -1.0]), "values must not be negative"),
    "zero": (lambda: effective_dimension([0.0, 0.0]), "not all 0"),
    "single": (lambda: effective_dimension([1.0], constant_first=True), "list of 2 numbers or more"),
    "table": (lambda: effective_dimension(np.ones((2, 2))), "list of 1 numbers or more"),
    "level": (
        lambda: minimum_feature_distance(np.ones((9, 2)), np.arange(9.0)),
        "features must differ between samples",
    ),
    "constant": (lambda: minimum_feature_distance(np.eye(9), np.ones(9)), "outputs must differ between samples"),
    "share": (
        lambda: minimum_feature_distance(np.eye(9), np.ones(9), least_share=0.01),
        "outputs must differ between samples",
    ),
    "much": (
        lambda: minimum_feature_distance(np.eye(9), np.eye(9), least_share=1.5),
        "least_share must be at most 1, got 1.5",
    ),
    "nothing": (lambda: minimum_feature_distance(np.eye(9), np.zeros(9)), "outputs must not be 0 everywhere"),
    "lengths": (lambda: minimum_feature_distance(np.eye(9), np.ones(8)), "outputs must be .* for 9 samples"),
    "nan": (lambda: cka(np.eye(3) * np.nan, np.eye(3)), "features must be finite"),
    "others": (lambda: cka(np.eye(3), np.eye(4)), "others must have one row for each of the 3 samples, got 4"),
    "widths": (lambda: feature_spectrum(np.eye(4), np.eye(3), np.ones(3), np.ones(3)), "test_features must have 4"),
    "labels": (lambda: feature_spectrum(np.eye(4), np.eye(4), [0, 1, 0, 1], np.ones(4)), "class labels as one-hot"),
    "off": (lambda: feature_spectrum(np.zeros((4, 2)), np.eye(2), np.ones(2), np.arange(2.0)), "must not be 0"),
    "one": (lambda: cka(np.ones((1, 3)), np.ones((1, 3))), "features must hold at least 2 samples"),
    "homes": (lambda: cka(torch.eye(3), np.eye(3)), "others must lie beside features, in torch on cpu, got numpy"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    work, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        work()
