"""Data separation and load curves against constructed clouds, explicit covariances and brute-force resampling."""

import time

import jax
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynascope.measure import LoadAccumulator, data_separation, load_curve
from dynascope.measure.separation import describe

seeds = st.integers(0, 2**32 - 1)
KINDS = ("trace", "pinv", "regression")


def _jax64(array):
    with jax.enable_x64(True):
        return jax.numpy.asarray(array)


LIBRARIES = {"numpy": np.asarray, "torch": torch.as_tensor, "jax": _jax64}


def _clouds(seed, *, samples=90, classes=4, features=6, shift=0.0):
    random = np.random.default_rng(seed)
    labels = random.permutation(np.concatenate([np.arange(classes), random.integers(classes, size=samples - classes)]))
    mix = random.normal(size=(features, features))
    return random.normal(size=(samples, features)) @ mix + random.normal(size=(classes, features))[
        labels
    ] + shift, labels


def _covariances(x, labels):
    """(2) as written: weighted average and weighted covariance with weights N_k/N."""
    classes = np.unique(labels)
    weights = np.array([(labels == k).mean() for k in classes])
    within = sum(w * np.cov(x[labels == k].T, bias=True) for w, k in zip(weights, classes, strict=True))
    between = np.cov(np.stack([x[labels == k].mean(axis=0) for k in classes]).T, aweights=weights, bias=True)
    return within, between


@given(seeds, st.integers(2, 6), st.integers(2, 9))
def test_classification_meets_explicit_covariances(seed, classes, features):
    x, labels = _clouds(seed, classes=classes, features=features)
    within, between = _covariances(x, labels)
    assert np.isclose(data_separation(x, labels), np.log(np.trace(within) / np.trace(between)), rtol=1e-10)
    # the pseudo-inverse needs the same cut-off: Σb has rank classes − 1 at most
    values, vectors = np.linalg.eigh(between)
    kept = np.argsort(values)[::-1][: min(classes - 1, features)]
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    assert np.isclose(data_separation(x, labels, kind="pinv"), np.log(np.trace(within @ inverse)), rtol=1e-7)


@given(seeds, st.integers(1, 3))
def test_regression_meets_least_squares(seed, outputs):
    x, _ = _clouds(seed)
    y = np.random.default_rng(seed).normal(size=(len(x), outputs)) + x[:, :1]
    fit = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)
    expected = np.sqrt(fit[1].sum() / (2 * len(x)))
    assert np.isclose(data_separation(x, y, kind="regression"), expected, rtol=1e-9)
    twice = np.column_stack([x, x[:, :2], np.ones(len(x))])  # dependent features explain nothing more
    assert np.isclose(data_separation(twice, y, kind="regression"), expected, rtol=1e-9)


def test_known_covariances():
    """Four corners: Σw = diag(0, 1), Σb = diag(4, 0); unequal classes count by their sizes."""
    corners = [[0.0, 0.0], [0.0, 2.0], [4.0, 0.0], [4.0, 2.0]]
    assert np.isclose(data_separation(corners, ["a", "a", "b", "b"]), np.log(1 / 4))
    line = [[0.0], [1.0], [2.0], [3.0], [9.0], [10.0]]  # sizes 4 and 2: Σw = (4·1.25 + 2·.25)/6, Σb = (2/9)·8²
    assert np.isclose(data_separation(line, [0, 0, 0, 0, 1, 1]), np.log((5.5 / 6) / (2 / 9 * 64)))


@pytest.mark.parametrize("kind", KINDS)
def test_libraries_agree_and_return_their_own(kind):
    x, labels = _clouds(3)
    y = x[:, :2] ** 2 if kind == "regression" else labels
    found = {}
    for name, make in LIBRARIES.items():
        value = data_separation(make(x), make(y) if kind == "regression" else y, kind=kind)
        assert isinstance(value, {"numpy": np.generic, "torch": torch.Tensor, "jax": jax.Array}[name] | np.ndarray)
        assert "float64" in str(value.dtype)
        found[name] = float(value)
    assert np.ptp(list(found.values())) < 1e-10
    assert not jax.config.jax_enable_x64


@given(seeds, st.sampled_from(["trace", "pinv"]))
def test_turning_shifting_and_scaling_change_nothing(seed, kind):
    x, labels = _clouds(seed)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0]
    moved = 1e3 * x @ turn + 1e6
    assert np.isclose(data_separation(x, labels, kind=kind), data_separation(moved, labels, kind=kind), atol=1e-7)


def test_float32_is_measured_in_float64():
    """A common offset of 1000 would cost float32 three digits of the spread; sums in float64 lose nothing."""
    x, labels = _clouds(5, shift=1000.0)
    single = x.astype(np.float32)
    exact = data_separation(single.astype(np.float64), labels)
    assert np.isclose(data_separation(single, labels), exact, rtol=1e-12)
    assert np.isclose(float(data_separation(jax.numpy.asarray(single), labels)), exact, rtol=1e-12)
    assert np.isclose(float(data_separation(torch.as_tensor(single), labels)), exact, rtol=1e-12)


def test_limits_are_named_by_infinities():
    labels = [0, 0, 1, 1]
    for kind in ("trace", "pinv"):
        assert data_separation([[0.0], [0.0], [1.0], [1.0]], labels, kind=kind) == -np.inf
        assert data_separation([[0.0], [1.0], [0.0], [1.0]], labels, kind=kind) == np.inf
        assert np.isnan(data_separation(np.ones((4, 1)), labels, kind=kind))
    curve = load_curve([np.eye(4), np.ones((4, 1)), np.eye(4)], labels)
    assert str(curve["shape"].values) == "undefined"
    assert "load_low" not in curve


def test_features_keep_their_graph_and_memory():
    x = torch.ones(4, 2, requires_grad=True)
    weighted = x * torch.tensor([[1.0], [2.0], [3.0], [5.0]])
    assert not data_separation(weighted, [0, 0, 1, 1]).requires_grad
    assert x.grad is None


# load curves


def _scaled(scales, *, samples=400, classes=4, features=8, seed=0):
    random = np.random.default_rng(seed)
    labels = np.arange(samples) % classes
    noise, means = random.normal(size=(samples, features)), np.eye(classes, features)
    return [noise + scale * means[labels] for scale in scales], labels


@pytest.mark.parametrize(
    ("powers", "shape"),
    [([0, 1, 2, 3, 4], "linear"), ([0, 0.2, 0.8, 2.0, 4], "concave"), ([0, 2.0, 3.2, 3.8, 4], "convex")],
)
def test_shapes(powers, shape):
    layers, labels = _scaled(np.exp(np.array(powers) + 1.0), samples=2000)
    curve = load_curve(layers, labels)
    assert str(curve["shape"].values) == shape
    assert curve["shape_confidence"] > 0.95
    assert np.allclose(curve["increment"][1:], 2 * np.diff(powers), atol=0.15)  # D falls by 2 log(scale)
    assert (np.sign(float(curve["curvature"])) == {"concave": 1, "convex": -1}.get(shape, 0)) or shape == "linear"


@given(st.integers(3, 9), st.floats(-0.2, 0.2), st.floats(0.5, 2.0))
def test_curvature_of_a_parabola_is_its_second_difference(depth, second, first):
    steps = np.arange(depth)
    loads = 5 - first * steps - second * steps * (steps - 1) / 2  # increments first, first + second, …
    curve = describe(loads, None, kind="trace", margin=0.5, dead_below=0.1)
    assert np.isclose(curve["curvature"], second, atol=1e-12)
    fit = np.polynomial.Polynomial.fit(steps, loads, 1)(steps)
    assert np.isclose(curve["linearity"], 1 - ((loads - fit) ** 2).sum() / ((loads - loads.mean()) ** 2).sum())


def test_dead_layers_are_named():
    layers, labels = _scaled([1.0, 4.0, 4.0, 16.0])
    curve = load_curve(layers, labels, layers=["input", "one", "two", "three"])
    assert curve["dead"].values.tolist() == [False, False, True, False]
    assert curve["layer"].values.tolist() == ["input", "one", "two", "three"]


@pytest.mark.parametrize("kind", KINDS)
def test_bootstrap_meets_brute_force(kind):
    """Intervals from derivatives against curves that are measured again on every resample."""
    layers, labels = _scaled([1.5, 2.0, 3.0], samples=300, classes=3, features=5)
    random = np.random.default_rng(1)
    targets = layers[0][:, :2] + random.normal(size=(300, 2)) if kind == "regression" else labels
    curve = load_curve(layers, targets, kind=kind, resamples=1000)
    drawn = []
    for _ in range(250):
        chosen = random.integers(300, size=300)
        drawn.append([float(data_separation(x[chosen], targets[chosen], kind=kind)) for x in layers])
    widths = (curve["load_high"] - curve["load_low"]).values / 3.92
    assert np.allclose(widths, np.std(drawn, axis=0), rtol=0.2)  # both are known to about 5 %
    second = np.std(np.diff(drawn, 2, axis=1))
    assert np.isclose(float(curve["curvature_high"] - curve["curvature_low"]) / 3.92, second, rtol=0.2)


def test_intervals_cover_the_truth():
    """Σw = I and Σb known: the population's load lies in the 95 % interval about 95 times of 100."""
    scales, features, classes = np.array([2.0, 3.0, 5.0]), 8, 4
    signal = 1 / classes * (1 - 1 / classes) * classes * scales**2  # tr Σb of scale·e_k
    truth = np.log(features / signal)
    hits = []
    for seed in range(100):
        layers, labels = _scaled(scales, samples=400, classes=classes, features=features, seed=seed)
        random = np.random.default_rng(seed)
        labels = random.integers(classes, size=400)  # class sizes vary as the bootstrap has it
        layers = [random.normal(size=(400, features)) + s * np.eye(classes, features)[labels] for s in scales]
        curve = load_curve(layers, labels, resamples=200)
        hits.append((curve["load_low"].values <= truth) & (truth <= curve["load_high"].values))
    assert np.all(np.abs(np.mean(hits, axis=0) - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 100) + 0.02)  # 2 %: 200 resamples


def test_load_curve_of_eight_wide_layers_is_quick():
    random = np.random.default_rng(0)
    layers, labels = [random.normal(size=(10_000, 100)).astype(np.float32) for _ in range(8)], np.arange(10_000) % 10
    begun = time.process_time()
    load_curve(layers, labels)
    assert time.process_time() - begun < 2.0  # 0.4 s on one idle core; processor time, since others may be at work


# streaming


@given(seeds, st.sampled_from(KINDS), st.data())
def test_accumulators_in_any_order_equal_the_whole(seed, kind, data):
    random = np.random.default_rng(seed)
    x, labels = _clouds(seed, shift=100.0)
    layers = [x, x[:, :3] ** 2, np.sin(x)]
    targets = random.normal(size=(len(x), 2)) + x[:, :2] if kind == "regression" else labels
    cuts = sorted(data.draw(st.sets(st.integers(1, len(x) - 1), max_size=6)))
    parts = np.split(random.permutation(len(x)), cuts)
    workers = [LoadAccumulator(kind=kind) for _ in range(3)]
    for place, part in enumerate(parts):
        workers[place % 3].update([each[part] for each in layers], targets[part])
    order = random.permutation(3)
    total = LoadAccumulator(kind=kind)
    for place in order:
        total.merge(workers[place])
    whole = load_curve(layers, targets, kind=kind, resamples=0)
    assert total.samples == len(x)
    assert np.allclose(total.compute()["load"], whole["load"], rtol=0, atol=1e-9)
    assert total.compute()["shape"] == whole["shape"]


def test_accumulator_takes_single_classes_and_tensors():
    x, labels = _clouds(1)
    total = LoadAccumulator()
    for k in np.unique(labels)[::-1]:
        total.update([torch.as_tensor(x[labels == k])], torch.as_tensor(labels[labels == k]))
    assert np.isclose(total.loads()[0], data_separation(x, labels), atol=1e-12)


def test_accumulator_refuses_and_stays_as_it_was():
    x, labels = _clouds(1)
    total = LoadAccumulator().update([x, x, x], labels)
    before = total.loads()
    for features, names, message in (
        ([x, x], labels, "must keep the widths"),
        ([x[:, :2], x, x], labels, "must keep the widths"),
        ([x, x * np.nan, x], labels, r"features\[1\] must be finite"),
        ([x, x, x], labels[:-1], "labels must name the class of each of the 90 samples"),
        (x, labels, "features must be a list"),
    ):
        with pytest.raises(ValueError, match=message):
            total.update(features, names)
    assert np.array_equal(total.loads(), before)
    with pytest.raises(ValueError, match="nothing has been added"):
        LoadAccumulator().loads()
    with pytest.raises(ValueError, match="at least 3 layers"):
        LoadAccumulator().update([x], labels).compute()
    with pytest.raises(ValueError, match="at least 2 classes"):
        LoadAccumulator().update([x], np.zeros(len(x), int)).loads()
    with pytest.raises(ValueError, match="needs more samples than features"):
        LoadAccumulator(kind="regression").update([x[:4]], x[:4, 0]).loads()
    with pytest.raises(ValueError, match="number of outputs"):
        LoadAccumulator(kind="regression").update([x], x[:, 0]).update([x], x[:, :2])


BAD = {
    "short labels": (np.ones((4, 2)), [0, 1], {}, "labels must name the class of each of the 4 samples"),
    "one class": (np.ones((4, 2)), [1, 1, 1, 1], {}, r"at least 2 classes, got only \[1\]"),
    "no repeats": (np.ones((4, 2)), [1, 2, 3, 4], {}, "labels must repeat"),
    "nan": (
        [[1.0], [np.nan], [2.0]],
        [0, 0, 1],
        {},
        "features must be finite everywhere, got NaN .* sample 1",
    ),
    "flat": (np.ones(4), [0, 0, 1, 1], {}, r"shape \(sample, feature, …\), got \(4,\)"),
    "empty": (np.ones((0, 3)), [], {}, "at least one sample"),
    "complex": (np.ones((4, 2)) * 1j, [0, 0, 1, 1], {}, "real numbers"),
    "text": ("features", [0], {}, "features must be an array of real numbers, got str"),
    "fractions": (np.ones((4, 2)), [0.5, 0.5, 1.0, 1.0], {}, "whole numbers or text"),
    "kind": (np.ones((4, 2)), [0, 0, 1, 1], {"kind": "lda"}, "kind must be one of trace, pinv, regression, held_out"),
    "wide": (np.ones((4, 3)), np.ones(4), {"kind": "regression"}, "fewer features than samples − 1"),
    "targets": (np.ones((9, 2)), np.ones((9, 2, 2)), {"kind": "regression"}, "labels must be the targets"),
    "mixed": (torch.ones(9, 2), np.ones(9), {"kind": "regression"}, "labels must lie beside features, in torch on cpu"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    features, labels, options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        data_separation(features, labels, **options)


def test_bad_curves():
    x, labels = _clouds(1)
    for features, options, message in (
        (x, {}, "list of the features of at least 3 layers"),
        ([x, x], {}, "at least 3 layers"),
        ([x, x[:-1], x], {}, "labels must name the class of each of the 89 samples"),
        ([x, x, x], {"layers": ["a"]}, "layers must name all 3 layers"),
        ([x, x, x], {"margin": -1.0}, "margin must be at least 0"),
        ([x, x, x], {"resamples": -1}, "resamples must be a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            load_curve(features, labels, **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_on_a_gpu():
    x, labels = _clouds(2)
    found = data_separation(torch.as_tensor(x, device="cuda"), torch.as_tensor(labels, device="cuda"))
    assert found.is_cuda
    assert np.isclose(float(found), data_separation(x, labels), atol=1e-10)
    with pytest.raises(ValueError, match="labels must lie beside features"):
        data_separation(torch.as_tensor(x, device="cuda"), torch.as_tensor(x[:, 0]), kind="regression")


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("spoilt", [np.nan, np.inf, -np.inf])
def test_one_spoilt_number_among_many_is_found(name, spoilt):
    """Reductions of large arrays are parted, and some libraries lose a NaN on the way."""
    x = np.random.default_rng(0).normal(size=(60, 500))
    x[7, 400] = spoilt
    with pytest.raises(ValueError, match="got NaN or infinity in sample 7"):
        data_separation(LIBRARIES[name](x), np.arange(60) % 3)


def test_many_classes_are_measured_in_pieces_as_if_whole():
    random = np.random.default_rng(0)
    codes = random.permutation(np.arange(600) % 200)
    x = random.normal(size=(600, 700)) + random.normal(size=(200, 700))[codes]
    means = np.stack([x[codes == k].mean(0) for k in range(200)])[codes]
    expected = np.log(((x - means) ** 2).sum() / ((means - x.mean(0)) ** 2).sum())
    np.testing.assert_allclose(float(data_separation(x, codes)), expected, rtol=1e-12)
