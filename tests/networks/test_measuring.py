"""Measures taken of all trials at once are those of dynascope.measure, trial by trial."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynascope.data import geomnist
from dynascope.measure import data_separation, effective_dimension, eigenfunctions, minimum_feature_distance
from dynascope.networks import CNN, MLP, Ensemble, LeNet, ModularTransformer, ResNet18, training
from dynascope.networks.measuring import MEASURES, measured

X, Y = (each[np.arange(30) * 7 % 30] for each in geomnist(per_class=10))  # classes mixed
SMALL = X.reshape(30, 1, 8, 4, 8, 4).mean((3, 5))
TOKENS = np.stack([*np.divmod(np.arange(23), 5), np.full(23, 5)], 1)  # of all 25, class means would agree


def one_by_one(name, features, y, probes, last):
    """The same measure from dynascope.measure, for one trial."""
    if name in ("load", "load_pinv"):
        kind = "regression" if y.dtype.kind == "f" else {"load": "trace", "load_pinv": "pinv"}[name]
        return [float(data_separation(features[each], y, kind=kind)) for each in probes]
    if name == "kappa":
        return float(minimum_feature_distance(features[last], features["logits"]))
    rows = features[last].reshape(len(y), -1)
    return float(effective_dimension(eigenfunctions(rows, rows)[0], constant_first=True))


@given(st.integers(2, 5), st.integers(3, 30), st.integers(0, 99), st.booleans())
def test_random_features(classes, width, seed, single):
    random = np.random.default_rng(seed)
    trials, samples = 3, 24
    y = random.permutation(np.arange(samples) % classes)
    x = random.normal(size=(trials, samples, width)) * 10.0 ** random.uniform(-1, 1, width) + random.normal(size=width)
    x[..., 0] += y  # so that kappa sees something that differs
    features = {
        "a": x,
        "b": x[..., : (width + 1) // 2] ** 2 + y[:, None],
        "logits": random.normal(size=(trials, samples, 3)),
    }
    if single:
        features = {name: each.astype(np.float32) for name, each in features.items()}
    found = measured(
        MEASURES,
        {name: torch.as_tensor(each) for name, each in features.items()},
        torch.as_tensor(y).expand(trials, -1),
        classes=classes,
        probes=("a", "b"),
        last="b",
    )
    for i in range(trials):
        own = {name: each[i] for name, each in features.items()}
        for name in MEASURES:
            expected = one_by_one(name, own, y, ("a", "b"), "b")
            np.testing.assert_allclose(found[name][i], expected, rtol=1e-9, atol=1e-10, err_msg=name)


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 99))
def test_regression_by_the_best_linear_fit(width, outputs, seed):
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(2, 20, width)), random.normal(size=(20, outputs))
    x[1, :, -1] = x[1, :, 0]  # features that depend on each other
    found = measured(
        ("load",),
        {"a": torch.as_tensor(x), "logits": torch.as_tensor(x)},
        torch.as_tensor(y).expand(2, -1, -1),
        classes=outputs,
        probes=("a",),
        last="a",
    )
    expected = [[float(data_separation(each, y, kind="regression"))] for each in x]
    np.testing.assert_allclose(found["load"], expected, atol=1e-10)


def test_limits_and_copies_that_failed():
    y = torch.arange(6) % 2
    apart, alike, level, lost = (
        y[:, None].double(),
        torch.arange(6)[:, None] // 2 * 1.0,
        torch.ones(6, 1),
        torch.ones(6, 1),
    )
    lost = lost * torch.nan
    x = torch.stack([apart, alike, level, lost]).double()
    found = measured(MEASURES, {"a": x, "logits": x}, y.expand(4, -1), classes=2, probes=("a",), last="a")
    for name in ("load", "load_pinv"):
        assert found[name][:2, 0].tolist() == [-np.inf, np.inf]
        assert torch.isnan(found[name][2:, 0]).all()
    assert torch.isnan(found["kappa"][3])
    assert torch.isnan(found["effective_dimension"][3])


NETWORKS = {
    "lenet": (LeNet(3), X, Y),
    "mlp": (MLP((1, 8, 8), 3, width=6, depth=2, batch_norm=True, dropout=0.3), SMALL, Y),
    "cnn": (CNN((1, 8, 8), 3, channels=3, depth=2), SMALL, Y),
    "resnet": (ResNet18(3, 1, width=2, size=8), SMALL, Y),
    "transformer": (ModularTransformer(5, width=8, heads=2), TOKENS, TOKENS[:, :2].sum(1) % 5),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_recorded_while_training(name, monkeypatch):
    network, x, y = NETWORKS[name]
    own = Ensemble(network, trials=3, batch_size=4, precision="float64", learning_rate=0.02)
    run = own.train(x, y, steps=6, record_every=6, measures=MEASURES, probe={"all": (x, y), "part": (x[:20], y[:20])})
    assert run["load"].dims == ("trial", "step", "probe", "layer")
    assert run["layer"].values.tolist() == list(network.probes)
    assert run["kappa"].dims == run["loss"].dims == ("trial", "step", "probe")
    for probe, rows in (("all", slice(None)), ("part", slice(20))):
        for i in range(3):
            inputs = own.trainer.inputs(x)[rows]
            with torch.no_grad():
                features = own.trained(i)(inputs, (*network.probes, network.last))
            features = {layer: each.numpy() for layer, each in features.items()}
            for measure in MEASURES:
                expected = one_by_one(measure, features, y[rows], network.probes, network.last)
                seen = run[measure].sel(probe=probe).isel(trial=i, step=-1)
                np.testing.assert_allclose(seen, expected, rtol=1e-9, atol=1e-10, err_msg=measure)
    monkeypatch.setitem(training._HELD, "cpu", 1)  # memory for one trial at a time
    again = Ensemble(network, trials=3, batch_size=4, precision="float64", learning_rate=0.02).train(
        x, y, steps=6, record_every=6, measures=MEASURES
    )
    for measure in (*MEASURES, "loss", "accuracy", "class_mean"):
        np.testing.assert_allclose(again[measure], run[measure].sel(probe="all"), atol=1e-10)


def test_the_last_features_are_what_the_last_layer_reads():
    for name, (network, x, _) in NETWORKS.items():
        inputs = torch.as_tensor(x[:4]) if network.tokens else torch.as_tensor(x[:4]).float()
        found = network.eval()(inputs, (network.last,))
        readout = network.stages.get_submodule(network.readout)
        scaled = network.stages.scale if name == "mlp" else torch.nn.Identity()
        torch.testing.assert_close(scaled(readout(found[network.last].flatten(1))), found["logits"])
