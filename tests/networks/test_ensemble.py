"""Ensemble.train: the record, resuming, trials that fail, and what is refused."""

import numpy as np
import pytest

from dynascope import digest, load, save
from dynascope.data import corrupt_labels, geomnist
from dynascope.networks import MLP, Ensemble, LeNet, ModularTransformer
from dynascope.networks.training import Trainer
from dynascope.records import attribute

X, Y = geomnist(per_class=12)
X = X.reshape(36, 1, 8, 4, 8, 4).mean((3, 5))
NET = MLP((1, 8, 8), 3, width=10, depth=2, dropout=0.1)


def ensemble(**options):
    return Ensemble(NET, **({"trials": 3, "learning_rate": 0.1, "batch_size": 4, "seed": 2} | options))


def test_the_record_is_what_the_networks_do():
    own = ensemble(learning_rate=[0.1, 0.2, 0.3], vary={"dropout": [0.0, 0.1, 0.2]})
    probe = geomnist(per_class=4, seed=5)
    probe = probe[0].reshape(12, 1, 8, 4, 8, 4).mean((3, 5)), probe[1]
    run = own.train(X, Y, steps=25, probe=probe, record_every=10, keep_outputs=True)
    assert run["step"].values.tolist() == [0, 10, 20, 25]
    assert run["class_mean"].dims == ("trial", "step", "class", "logit")
    assert run["output"].dims == ("trial", "step", "sample", "logit")
    assert not set(run.data_vars) & set(run.dims)
    np.testing.assert_array_equal(run["dropout"], [0.0, 0.1, 0.2])
    inputs = own.trainer.inputs(probe[0])
    for i in range(3):
        outputs = own.trained(i)(inputs).detach().numpy()
        np.testing.assert_allclose(run["output"][i, -1], outputs, atol=1e-5)
        means = [outputs[probe[1] == k].mean(0) for k in range(3)]
        np.testing.assert_allclose(run["class_mean"][i, -1], means, atol=1e-5)
        odds = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
        loss = -np.log(odds[np.arange(12), probe[1]]).mean()
        assert float(run["loss"][i, -1]) == pytest.approx(loss, rel=1e-4)
        assert float(run["accuracy"][i, -1]) == pytest.approx(np.mean(outputs.argmax(1) == probe[1]))
    assert np.isnan(run["train_loss"][:, 0]).all()
    assert attribute(run, "parameters")["network"] == "MLP"
    assert attribute(run, "device") == "cpu"


@pytest.mark.ci
def test_networks_learn_the_shapes():
    x, y = geomnist(per_class=60)
    run = Ensemble(LeNet(3), trials=2, learning_rate=0.003, batch_size=16, optimizer="adam").train(
        x, y, steps=300, probe=geomnist(per_class=30, seed=9), record_every=300
    )
    assert (run["accuracy"][:, -1] > 0.9).all()
    assert (run["train_loss"][:, -1] < run["loss"][:, 0]).all()


def test_same_seed_same_record_and_it_survives_the_disk(tmp_path):
    first, again, other = (ensemble(seed=seed).train(X, Y, steps=6, record_every=3) for seed in (1, 1, 2))
    assert digest(first) == digest(again)
    assert digest(first) != digest(other)
    assert load(save(first, tmp_path / "run.nc")).identical(first)


def test_drawn_outputs_are_those_before_the_update():
    no_dropout = ensemble(trials=2, batch_size=1, vary={"dropout": [0.0, 0.0]})
    run = no_dropout.train(X, Y, steps=5, record_every=list(range(6)), keep_outputs=True, keep_drawn=True)
    order = no_dropout.trainer.batches(0, 5).numpy()
    for i in range(2):
        np.testing.assert_array_equal(run["drawn_label"][i, :, 0], Y[order[:, i, 0]])
        for step in range(5):
            np.testing.assert_allclose(
                run["drawn_output"][i, step, 0], run["output"][i, step, order[step, i, 0]], atol=1e-6
            )


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "adam", "label_noise": 0.5}, {"momentum": 0.9, "precision": "float64"}]
)
def test_an_interrupted_run_continues_bit_for_bit(tmp_path, monkeypatch, options):
    file = tmp_path / "sub" / "run.npz"
    fit = {"steps": 40, "record_every": 7, "keep_drawn": True}
    whole = ensemble(**options).train(X, Y, **fit)
    advance, taken = Trainer.advance, []

    def stopping(self, steps):
        taken.append(steps)
        if sum(taken) > 25:
            raise Stop
        advance(self, steps)

    monkeypatch.setattr(Trainer, "advance", stopping)
    with pytest.raises(Stop):
        ensemble(**options).train(X, Y, **fit, checkpoint=file, checkpoint_every=5)
    taken.clear()
    monkeypatch.setattr(Trainer, "advance", lambda self, steps: (taken.append(steps), advance(self, steps))[1])
    resumed = ensemble(**options).train(X, Y, **fit, checkpoint=file, checkpoint_every=5)
    assert sum(taken) == 40 - 19  # what was saved, after steps 5, 12 and 19, is not computed again
    assert digest(resumed) == digest(whole)
    taken.clear()
    again = ensemble(**options).train(X, Y, **fit, checkpoint=file)
    assert digest(again) == digest(whole)
    assert again.attrs["way"] == whole.attrs["way"]
    assert taken == []  # finished: nothing is trained
    fit |= {"steps": 47, "record_every": [*range(0, 40, 7), 40]}
    longer = ensemble(**options).train(X, Y, **fit, checkpoint=file)
    assert longer["step"].values.tolist() == [*range(0, 40, 7), 40, 47]
    assert sum(taken) == 7


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    file = tmp_path / "run.npz"
    ensemble().train(X, Y, steps=4, record_every=2, checkpoint=file)
    for other, data in ((ensemble(seed=3), X), (ensemble(), X + 1)):
        with pytest.raises(ValueError, match="belongs to another run"):
            other.train(data, Y, steps=4, record_every=2, checkpoint=file)
    with pytest.raises(ValueError, match="belongs to another run"):
        ensemble().train(X, Y, steps=4, record_every=1, checkpoint=file)
    file.write_bytes(b"something else")
    with pytest.raises(ValueError, match="damaged"):
        ensemble().train(X, Y, steps=4, record_every=2, checkpoint=file)


def test_a_copy_that_diverges_is_named_and_the_others_go_on():
    rates = [0.1, 1e30, 0.1]
    with pytest.warns(RuntimeWarning, match=r"trial 1 at step \d+ was not finite; the other 2 trials went on"):
        run = ensemble(learning_rate=rates).train(X, Y, steps=20, record_every=5)
    assert run["diverged_at"].values[[0, 2]].tolist() == [-1, -1]
    assert 0 < int(run["diverged_at"][1]) <= 3
    healthy = ensemble(trials=[0, 2]).train(X, Y, steps=20, record_every=5)
    np.testing.assert_allclose(run["class_mean"][[0, 2]], healthy["class_mean"], atol=1e-5)
    with pytest.raises(FloatingPointError, match=r"all 2 trials left the finite numbers, the first at step \d"):
        ensemble(trials=2, learning_rate=1e30).train(X, Y, steps=20)


def test_labels_of_their_own():
    shares = (0.0, 0.3, 0.6)
    own = np.stack([corrupt_labels(Y, share) for share in shares])
    together = ensemble().train(X, own, steps=10, probe=(X, Y), record_every=10)
    for i in range(3):
        alone = ensemble(trials=[i]).train(X, own[i], steps=10, probe=(X, Y), record_every=10)
        np.testing.assert_allclose(alone["class_mean"][0], together["class_mean"][i], atol=1e-5)
    with pytest.raises(ValueError, match="probe must be given"):
        ensemble().train(X, own, steps=10)


def test_the_progress_bar_says_loss_and_speed(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    ensemble().train(X, Y, steps=6, record_every=2, progress=True)
    shown = capsys.readouterr().err
    assert "loss" in shown
    assert "steps/s" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials"),
        ({"trials": []}, "list of the numbers"),
        ({"learning_rate": [0.1, 0.2]}, r"learning_rate must be one number or 3, one for each trial, got shape \(2,\)"),
        ({"learning_rate": -0.1}, "learning_rate must be at least 0"),
        ({"momentum": 1.5}, "momentum must be at most 1"),
        ({"label_noise": 1.5}, "label_noise must be at most 1"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
        ({"optimizer": "lion"}, "optimizer must be one of sgd, adam, adamw, got 'lion'"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"sampling": "none"}, "sampling must be one of"),
        ({"precision": "float16"}, "precision must be one of"),
        ({"device": "toaster"}, "device must be one that PyTorch has here"),
        ({"vary": {"slop": [1, 2, 3]}}, "vary must name settings of the network, which has slope, dropout"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        ensemble(**options)


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (X, np.where(Y == 2, 3, Y), {}, "y must be labels from 0 to 2, got 3"),
        (X, -Y, {}, "y must be labels from 0 to 2, got -2"),
        (X, np.where(Y == 2, 1, Y), {}, "no sample of class 2"),
        (X, Y[:-1], {}, "one label for each of the 36 inputs, got 35"),
        (X, Y / 2, {}, "whole numbers"),
        ([X[0], X[1][:, :4]], Y[:2], {}, "all samples of the same shape"),
        (X[:, :, :4], Y, {}, r"x must have the shape \(sample, 1, 8, 8\), got \(36, 1, 4, 8\)"),
        (np.where(X > 0.5, np.nan, X), Y, {}, "x must be finite everywhere"),
        (X, Y, {"steps": 0}, "steps"),
        (X, Y, {"record_every": 0}, "record_every"),
        (X, Y, {"record_every": [3, 2]}, "increasing steps"),
        (X, Y, {"probe": X}, r"probe must be \(inputs, labels\)"),
        (X, Y, {"probe": (X, Y * 0)}, "probe labels must hold every class"),
        (X, Y, {"probe": (X[:5], Y)}, "probe must hold one label for each of the 5 inputs, got 36"),
        (X, Y, {"checkpoint": "run.pt"}, "checkpoint must end in .npz"),
        (X, np.stack([Y, Y]), {"probe": (X, Y)}, "one row for each of 3 trials, got 2"),
    ],
)
def test_bad_data(x, y, options, message):
    with pytest.raises(ValueError, match=message):
        ensemble().train(x, y, **({"steps": 3} | options))


def test_other_refusals():
    with pytest.raises(ValueError, match=r"network must be one of dynascope\.networks, got str"):
        Ensemble("lenet")
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 2, got 1"):
        Ensemble(MLP(batch_norm=True), batch_size=1)
    with pytest.raises(ValueError, match="batch_size must be at most 36"):
        ensemble(batch_size=37).train(X, Y, steps=1)
    with pytest.raises(ValueError, match="call train first"):
        ensemble().trained(0)
    tokens = np.stack([*np.divmod(np.arange(9), 3), np.full(9, 4)], 1)
    with pytest.raises(ValueError, match="x must be whole numbers from 0 to 3, got 4"):
        Ensemble(ModularTransformer(3, width=4), trials=2).train(tokens, np.arange(9) % 3, steps=1)
