"""Ensembles that start from the first stages of trained ones."""

import numpy as np
import pytest

from dynascope import digest
from dynascope.data import geomnist
from dynascope.networks import CNN, MLP, Ensemble, LeNet, ModularTransformer
from dynascope.records import attribute

X, Y = geomnist(per_class=12)
X = X.reshape(36, 1, 8, 4, 8, 4).mean((3, 5))
NET = MLP((1, 8, 8), 3, width=10, depth=4, batch_norm=True, dropout=0.1)
OPTIONS = {"learning_rate": 0.01, "batch_size": 6, "seed": 2, "optimizer": "adam"}


def trained(trials=3, steps=20, **options):
    whole = Ensemble(NET, trials=trials, **OPTIONS | options)
    whole.train(X, Y, steps, record_every=steps, progress=False)
    return whole


def test_the_kept_stages_start_where_the_whole_ended():
    whole = trained(vary={"dropout": [0.0, 0.1, 0.3], "slope": 0.2})
    part = whole.cut("act_2")
    run = part.train(X, Y, 1, record_every=[0, 1], measures="load", progress=False)
    assert run["layer"].values.tolist() == ["norm_0", "act_1", "act_2"]
    again = whole.train(X, Y, 20, record_every=[20], measures="load", progress=False)
    np.testing.assert_allclose(run["load"][:, 0], again["load"][:, -1, :3], rtol=1e-4)
    assert part.settings.vary["slope"].tolist() == [0.2] * 3
    assert not np.allclose(run["load"][:, 1], run["load"][:, 0], rtol=1e-6)  # and go on from there
    assert attribute(run, "parameters")["cut_after"] == "act_2"


def test_features_stay_when_only_the_new_layer_is_trained():
    whole = trained()
    before = whole.features(X, at=["act_2"])["act_2"]
    part = whole.cut("act_2", trained="last")
    run = part.train(X, Y, 150, record_every=[0, 150], progress=False)
    np.testing.assert_array_equal(part.features(X, at=["act_2"])["act_2"], before)
    assert (run["loss"][:, -1] < run["loss"][:, 0]).all()
    np.testing.assert_array_equal(whole.features(X, at=["act_2"])["act_2"], before)  # the whole is left alone


@pytest.mark.ci
def test_the_new_layer_comes_to_the_best_linear_readout():
    """Squared loss on fixed features has one solution: least squares."""
    whole = trained(trials=2, loss="mse", batch_size=36, sampling="shuffled", learning_rate=0.03)
    part = whole.cut("act_1", trained="last")
    run = part.train(X, Y, 600, record_every=[600], progress=False)
    for index, features in enumerate(part.features(X, at=["act_1"])["act_1"]):
        design, targets = np.c_[features, np.ones(len(X))].astype(float), np.eye(3)[Y]
        rest = targets - design @ np.linalg.lstsq(design, targets, rcond=None)[0]
        assert float(run["loss"][index, -1]) == pytest.approx(0.5 * np.mean(rest**2), rel=0.03)


@pytest.mark.parametrize("which", ["all", "last"])
def test_a_network_of_many_is_the_copy_alone(which):
    many, alone = (trained(trials, precision="float64").cut("drop_2", trained=which) for trials in ([0, 1, 2], [1]))
    runs = [each.train(X, Y, 8, record_every=4, progress=False) for each in (many, alone)]
    np.testing.assert_allclose(runs[0]["loss"][1], runs[1]["loss"][0], rtol=1e-8)
    assert not np.allclose(runs[0]["loss"][0], runs[1]["loss"][0], rtol=1e-3)


@pytest.mark.parametrize(
    ("network", "stage"), [(LeNet(3), "pool_1"), (CNN((1, 32, 32), 3, channels=4, depth=2), "up_1")]
)
def test_images_are_flattened(network, stage):
    x, y = geomnist(per_class=4)
    whole = Ensemble(network, trials=2, batch_size=4)
    whole.train(x, y, 2, progress=False)
    part = whole.cut(stage)
    part.train(x, y, 2, progress=False)
    expected = whole.features(x, at=[stage])[stage]
    assert part.trained(0).stages.readout.in_features == expected[0, 0].size


def test_a_cut_can_be_cut_again_and_has_a_new_layer_each_time():
    first = trained().cut("act_3")
    first.train(X, Y, 30, record_every=30, progress=False)
    second = first.cut("act_3")
    second.train(X, Y, 1, record_every=[0, 1], progress=False)
    old, new = (each.trained(0).stages.readout.weight.detach().numpy() for each in (first, second))
    assert np.abs(old - new).max() > 0.05


def test_tokens_stay_tokens():
    network = ModularTransformer(5)
    stage = network.last
    assert network.cut(stage).tokens == network.tokens


def test_a_checkpoint_knows_its_start(tmp_path):
    file = tmp_path / "part.npz"
    whole = trained()
    runs = [whole.cut("act_2").train(X, Y, 4, record_every=2, checkpoint=file, progress=False) for _ in range(2)]
    assert digest(runs[0]) == digest(runs[1])
    with pytest.raises(ValueError, match="belongs to another run"):
        trained(steps=21).cut("act_2").train(X, Y, 4, record_every=2, checkpoint=file, progress=False)


def test_what_cannot_be_cut_is_refused():
    with pytest.raises(ValueError, match="call train first"):
        Ensemble(NET, batch_size=2).cut("act_1")
    whole = trained(steps=1)
    for stage in ("act_9", "linear_5", "scale", 3):
        with pytest.raises(ValueError, match="stage must be one of flat, norm_0, linear_1"):
            whole.cut(stage)
    with pytest.raises(ValueError, match="trained must be one of all, last"):
        whole.cut("act_1", trained="first")
