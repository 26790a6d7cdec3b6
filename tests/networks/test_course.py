"""Several probes, regression, settings that change on the way, and training of the last layer alone."""

import numpy as np
import pytest
import torch

from dynascope import digest, load, save
from dynascope.data import diabetes, geomnist, modular_arithmetic
from dynascope.networks import MLP, Ensemble, ModularTransformer
from dynascope.networks.training import Trainer
from dynascope.records import attribute

X, Y = geomnist(per_class=12)
X, Y = X.reshape(36, 1, 8, 4, 8, 4).mean((3, 5))[np.arange(36) * 5 % 36], Y[np.arange(36) * 5 % 36]  # classes mixed
NET = MLP((1, 8, 8), 3, width=10, depth=2)
A, B, C, D = diabetes()


def ensemble(network=NET, **options):
    return Ensemble(network, **({"trials": 2, "learning_rate": 0.1, "batch_size": 4, "seed": 2} | options))


def test_probes_by_name_are_those_alone(tmp_path):
    both = ensemble().train(X, Y, steps=8, record_every=4, probe={"train": (X, Y), "test": (X[:20], Y[:20])})
    assert both["probe"].values.tolist() == ["train", "test"]
    assert both["class_mean"].dims == ("trial", "step", "probe", "class", "logit")
    assert both["train_loss"].dims == ("trial", "step")
    alone = ensemble().train(X, Y, steps=8, record_every=4, probe=(X[:20], Y[:20]))
    for name in ("class_mean", "loss", "accuracy"):
        np.testing.assert_allclose(both[name].sel(probe="test"), alone[name], atol=1e-6)
    assert load(save(both, tmp_path / "run.nc")).identical(both)


def test_a_probe_may_hold_labels_of_each_copy():
    own = np.stack([Y, (Y + 1) % 3])
    fast = ensemble(optimizer="adam", learning_rate=0.01)
    run = fast.train(X, own, steps=300, probe={"own": (X, own), "true": (X, Y)}, record_every=300)
    assert (run["accuracy"].sel(probe="own").isel(step=-1) > 0.9).all()
    assert float(run["accuracy"].sel(probe="true").isel(step=-1, trial=1)) < 0.1


@pytest.mark.ci
def test_regression_is_ordinary_regression():
    network = MLP(10, 1, width=6, depth=1, activation="linear", target_scale=2.0)
    own = Ensemble(network, trials=2, learning_rate=0.2, batch_size=354, loss="mse", sampling="shuffled", seed=1)
    run = own.train(A, B, steps=3000, record_every=500, probe={"train": (A, B), "test": (C, D)}, measures=("load",))
    assert not {"accuracy", "class_mean"} & set(run.data_vars)
    with_bias = np.column_stack([A, np.ones(len(A))]).astype(float)
    fit, rest, *_ = np.linalg.lstsq(with_bias, 2.0 * B.astype(float), rcond=None)
    expected = float(rest[0]) / len(A) / 2
    np.testing.assert_allclose(run["loss"].sel(probe="train").isel(step=-1), expected, rtol=1e-3)
    # the load of the inputs is that misfit too, with targets as they were given
    np.testing.assert_allclose(run["load"].sel(probe="train", layer="flat") ** 2, expected / 4, rtol=1e-5)
    outputs = own.trained(0)(torch.as_tensor(C)).detach().numpy()[:, 0]
    np.testing.assert_allclose(outputs, np.column_stack([C, np.ones(len(C))]) @ fit, atol=0.02)


def test_targets_of_several_outputs_and_of_each_copy():
    targets = np.stack([np.eye(3)[Y], 2 * np.eye(3)[Y]])
    labels = ensemble(loss="mse").train(X, Y, steps=8, record_every=8)
    same = ensemble(loss="mse").train(X, targets[0], steps=8, record_every=8)
    np.testing.assert_allclose(labels["loss"], same["loss"], atol=1e-7)
    own = ensemble(loss="mse").train(X, targets, steps=8, record_every=8, probe=(X, targets))
    np.testing.assert_allclose(own["loss"][0], labels["loss"][0], atol=1e-7)
    double = Ensemble(
        MLP((1, 8, 8), 3, width=10, depth=2, target_scale=2.0), trials=[1], learning_rate=0.1, batch_size=4, seed=2
    )
    double.settings = type(double.settings)(**(vars(double.settings) | {"loss": "mse"}))
    np.testing.assert_allclose(own["loss"][1], double.train(X, Y, steps=8, record_every=8)["loss"][0], atol=1e-6)


def test_settings_that_change_on_the_way():
    network = MLP((1, 8, 8), 3, width=10, depth=2, dropout=0.0)
    later = {5: {"learning_rate": [0.2, 0.3], "dropout": 0.3}, 9: {"dropout": 0.0, "weight_decay": 0.1}}
    changed = ensemble(network).train(X, Y, steps=12, record_every=1, later=later)
    plain = ensemble(network).train(X, Y, steps=12, record_every=1)
    np.testing.assert_array_equal(changed["loss"][:, :6], plain["loss"][:, :6])
    assert (changed["loss"][:, 6:] != plain["loss"][:, 6:]).all()
    by_hand = Trainer(network, ensemble(network).settings, X, Y)
    by_hand.advance(5)
    for name, buffer in by_hand.buffers.items():
        if name.endswith("dropout"):
            buffer.fill_(0.3)
    by_hand._per_trial()  # which looks whether there is any dropout
    by_hand.rate = torch.tensor([0.2, 0.3])
    by_hand.advance(4)
    np.testing.assert_allclose(by_hand.losses(by_hand.outputs(X), by_hand.labels(Y)), changed["loss"][:, 9], rtol=1e-5)
    assert attribute(changed, "parameters")["later"]["5"]["dropout"] == [0.3, 0.3]


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop_after", [4, 14])  # before and after the settings change
def test_changed_settings_survive_an_interruption(tmp_path, monkeypatch, stop_after):
    network = MLP((1, 8, 8), 3, width=10, depth=2, dropout=0.1)
    fit = {"steps": 20, "record_every": 4, "measures": ("load", "kappa"), "probe": {"a": (X, Y), "b": (X[:9], Y[:9])}}
    fit["later"] = {6: {"dropout": 0.4, "label_noise": 0.5, "input_noise": 0.1, "learning_rate": 0.01}}
    whole = ensemble(network).train(X, Y, **fit)
    advance, taken = Trainer.advance, []

    def stopping(self, steps):
        if sum(taken) >= stop_after:
            raise Stop
        taken.append(steps)
        advance(self, steps)

    monkeypatch.setattr(Trainer, "advance", stopping)
    with pytest.raises(Stop):
        ensemble(network).train(X, Y, **fit, checkpoint=tmp_path / "run.npz", checkpoint_every=2)
    monkeypatch.setattr(Trainer, "advance", advance)
    resumed = ensemble(network).train(X, Y, **fit, checkpoint=tmp_path / "run.npz", checkpoint_every=2)
    assert digest(resumed) == digest(whole)
    with pytest.raises(ValueError, match="belongs to another run"):
        ensemble(network).train(X, Y, **(fit | {"later": None}), checkpoint=tmp_path / "run.npz")


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_last_layer_alone_is_a_linear_model(optimizer):
    own = ensemble(trained="last", optimizer=optimizer, learning_rate=0.01, weight_decay=0.01)
    before = Trainer(NET, own.settings, X, Y).state()
    run = own.train(X, Y, steps=30, record_every=30)
    after = own.trainer.state()
    for name in before:
        if name.startswith("parameter/"):
            assert (np.array_equal(before[name], after[name])) == ("linear_3" not in name)
    assert (run["loss"][:, -1] < run["loss"][:, 0]).all()


def test_the_transformer_learns_some_arithmetic():
    x, y, _, _ = modular_arithmetic(7, "addition", train_share=0.8)
    own = Ensemble(
        ModularTransformer(7, width=16, heads=2), trials=2, batch_size=20, optimizer="adam", learning_rate=5e-3
    )
    run = own.train(x, y, steps=120, record_every=120, probe=(x, y))
    assert (run["accuracy"][:, -1] > 0.9).all()


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (X, Y, {"measures": "heat"}, "measures must be one of load, load_pinv, kappa, effective_dimension, got 'heat'"),
        (X, Y, {"probe": {}}, "several of them by name"),
        (X, Y, {"probe": {"": (X, Y)}}, "several of them by name"),
        (X, Y, {"probe": {"test": (X, Y[:9])}}, "probe 'test' must hold one label for each of the 36 inputs, got 9"),
        (X, Y, {"probe": {"a": (X, Y), "b": (X[:9], Y[:9])}, "keep_outputs": True}, "keep_outputs must be False"),
        (X, Y, {"later": [3]}, r"later must be \{step: \{setting: value\}\}"),
        (X, Y, {"later": {1: 0.3}}, r"later must be \{step: \{setting: value\}\}"),
        (X, Y, {"later": {3: {"slope": 0.3}}}, "later must name steps before the last, 3, got 3"),
        (X, Y, {"later": {1: {"momentum": 0.3}}}, r"later\[1\] must be one of learning_rate"),
        (X, Y, {"later": {1: {"weight_scale": 0.3}}}, r"later\[1\] must be one of learning_rate"),
        (X, Y, {"later": {1: {"dropout": 1.0}}}, r"later\[1\]: dropout must be at most 0.999"),
        (X, np.eye(3)[Y][:, 0], {}, "whole numbers"),
    ],
)
def test_bad_data(x, y, options, message):
    with pytest.raises(ValueError, match=message):
        ensemble().train(x, y, **({"steps": 3} | options))


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (np.ones((36, 2)), {}, r"y must be targets \(sample, 3\), got shape \(36, 2\)"),
        (np.full((36, 3), np.nan), {}, "y must be finite"),
        (np.ones((3, 36, 3)), {}, "one row for each of 2 trials, got 3"),
        (np.ones((30, 3)), {}, "one label for each of the 36 inputs, got 30"),
        (np.ones((36, 3)), {"measures": "load_pinv"}, "load_pinv for regression"),
        (np.ones((36, 3)), {"measures": "load"}, "got 36 samples and 64 features"),
    ],
)
def test_bad_targets(y, options, message):
    with pytest.raises(ValueError, match=message):
        ensemble(loss="mse").train(X, y, **({"steps": 3} | options))


def test_features_of_all_copies():
    own = ensemble()
    with pytest.raises(ValueError, match="call train first"):
        own.features(X)
    run = own.train(X, Y, steps=5, record_every=5, keep_outputs=True)
    found = own.features(X, at=["act_1"])
    assert list(own.features(X, at=[])) == ["logits"]
    np.testing.assert_array_equal(own.features(X, at=[])["logits"], found["logits"])
    assert found["act_1"].shape == (2, 36, 10)
    np.testing.assert_allclose(found["logits"], run["output"][:, -1], atol=1e-6)
    assert (found["act_1"] >= 0).all()
    with pytest.raises(ValueError, match="at must be one of flat"):
        own.features(X, at=["nowhere"])


def test_other_refusals():
    with pytest.raises(ValueError, match="label_noise must be 0 for regression"):
        ensemble(loss="mse", label_noise=0.1).train(X, np.eye(3)[Y], steps=3)
    with pytest.raises(ValueError, match="y must hold at least 2 classes, got 1"):
        ensemble(MLP((1, 8, 8), 1)).train(X, Y * 0, steps=3)
    with pytest.raises(ValueError, match="trained must be one of all, last"):
        ensemble(trained="first")
    with pytest.raises(ValueError, match="vary: dropout must be at most"):
        ensemble(vary={"dropout": 2.0})


def test_the_checkpoint_of_a_finished_training_has_its_last_record(tmp_path):
    """Even where a save is due at the last step: it would come before the last measurement."""
    file = tmp_path / "run.npz"
    ensemble().train(X, Y, steps=4, record_every=2, checkpoint=file, checkpoint_every=1)
    assert np.load(file, allow_pickle=False)["recorded"].tolist() == [0, 2, 4]
