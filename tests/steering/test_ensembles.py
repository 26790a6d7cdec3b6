"""Trials of an ensemble that steer themselves: as one alone would, and as the law says."""

import numpy as np
import pytest
import torch

from dynascope.data import images
from dynascope.monitor.beliefs import signals
from dynascope.networks import CNN, MLP, Ensemble, LeNet, ResNet18
from dynascope.networks.training import Trainer
from dynascope.steering import Helm
from dynascope.steering.law import Law, Place, place_of, value_of

X, Y, *_ = images("digits", per_class=(30, 10))
PROBE = (X[::3], Y[::3])
NET = MLP(X.shape[1:], 10, width=16, depth=3, batch_norm=True)
STEPS, EVERY = 40, 5
STRONG = {"gain": 1.0, "target": -2.0}  # so that knobs of small networks move early
KNOBS = {"dropout": {}, "learning_rate": {}, "weight_decay": {"weight_decay": [0.001, 0.0001]}}


def _ensemble(trials=(0, 1), **options):
    given = {"learning_rate": 0.005, "batch_size": 50, "optimizer": "adam", "sampling": "shuffled", "device": "cpu"}
    given["precision"] = "float64"  # rounding is enough to change a prediction, and with it a bend
    return Ensemble(NET, trials=list(trials), **given | options)


def _train(ensemble, helm, **options):
    return ensemble.train(X, Y, STEPS, probe=PROBE, record_every=EVERY, steer=helm, progress=False, **options)


@pytest.mark.parametrize("knob", KNOBS)
def test_without_gain_training_is_as_without_a_helm(knob):
    steered = _train(_ensemble(**KNOBS[knob]), Helm(knob, probe=PROBE, every=7, gain=0.0))
    plain = _train(_ensemble(**KNOBS[knob]), None)
    for name in plain.data_vars:
        np.testing.assert_array_equal(steered[name], plain[name])
    values = next(steered[name] for name in steered.data_vars if name.startswith(knob) and "bend" not in name)
    assert (values == values[:, :1]).all()


@pytest.mark.parametrize("knob", KNOBS)
def test_a_trial_is_steered_as_the_law_says_step_by_step(knob):
    options = {} if knob != "weight_decay" else {"weight_decay": 0.001}
    helm = Helm(knob, probe=PROBE, every=EVERY, **STRONG)
    run = _train(_ensemble([1], **options), helm)
    hand, law = _ensemble([1], **options), Law(**STRONG)
    trainer = Trainer(hand.network, hand.settings, X, Y)
    scale, shown = ("linear", knob) if knob == "dropout" else ("log", run_name(knob))
    value = float(run[shown][0, 0])
    place, values = Place.at(place_of(value, helm.limits, scale, 1)), [value]
    trainer.turn(knob, np.array([value]))
    for _ in range(STEPS // EVERY):
        trainer.advance(EVERY)
        found = trainer.network_of(0).features(trainer.inputs(PROBE[0]))
        with torch.no_grad():
            y = torch.as_tensor(PROBE[1])[None]
            seen = signals([found[each][None] for each in NET.probes], found["logits"][None], y, 10)
        place = law.turn(place, trainer.steps_done, seen)
        values.append(value_of(float(place.u[0]), helm.limits, scale, 1))
        trainer.turn(knob, np.array(values[-1:]))
    np.testing.assert_allclose(run[shown][0], values, rtol=1e-9)
    assert len(set(values)) > 3
    held = {"dropout": trainer.buffers["stages.drop_2.dropout"], "weight_decay": trainer.decay}
    last = float(held.get(knob, trainer.rate)[0])
    assert last == pytest.approx(values[-1] * (0.005 if knob == "learning_rate" else 1), rel=1e-6)


def run_name(knob):
    """What the record calls it."""
    return "learning_rate_factor" if knob == "learning_rate" else knob


def test_one_trial_alone_is_as_among_others_and_rivals_keep_their_values():
    own = np.stack([Y, (Y + 1) % 10, Y])
    helm = Helm("dropout", probe=(X[::3], own[:, ::3]), every=EVERY, **STRONG, steered=[True, True, False])
    among = _ensemble([0, 1, 1], vary={"dropout": [0.0, 0.1, 0.3]})
    run = among.train(X, own, STEPS, probe=PROBE, record_every=EVERY, steer=helm, progress=False)
    assert run["dropout"].dims == ("trial", "step")
    assert "dropout" not in run.coords
    np.testing.assert_allclose(run["dropout"][2], 0.3, rtol=1e-6)
    assert np.isnan(run["dropout_bend"][2]).all()
    alone = _ensemble([1], vary={"dropout": 0.1}).train(
        X,
        own[1],
        STEPS,
        probe=PROBE,
        record_every=EVERY,
        steer=Helm("dropout", probe=(X[::3], own[1, ::3]), every=EVERY, **STRONG),
        progress=False,
    )
    np.testing.assert_allclose(run["dropout"][1], alone["dropout"][0], rtol=1e-9)
    np.testing.assert_allclose(run["loss"][1], alone["loss"][0], rtol=1e-9)
    assert float(np.ptp(run["dropout"][0].values)) > 0
    rival = _ensemble([1], vary={"dropout": 0.3}).train(X, Y, STEPS, probe=PROBE, record_every=EVERY, progress=False)
    np.testing.assert_allclose(run["loss"][2], rival["loss"][0], rtol=1e-9)


def test_convolutions_begin_where_some_of_the_signal_is_left_and_rivals_where_they_are():
    net = CNN(X.shape[1:], 10, channels=4, depth=3)
    trials = Ensemble(net, trials=[0, 0, 0], vary={"dropout": [0.0, 0.2, 0.0]}, batch_size=50, device="cpu")
    run = trials.train(X, Y, 2, steer=Helm("dropout", probe=PROBE, steered=[True, True, False]), progress=False)
    begun = [1 - 0.4 ** (1 / 3), 0.2, 0.0]  # three layers in a row
    np.testing.assert_allclose(run["dropout"][:, 0], begun, rtol=1e-6)
    held = next(buffer for name, buffer in trials.trainer.buffers.items() if name.endswith(".dropout"))
    np.testing.assert_allclose(held, begun, rtol=1e-6)


def test_residual_networks_without_dropout_begin_higher():
    net = ResNet18(10, X.shape[1], width=4, size=X.shape[-1])
    trials = Ensemble(net, trials=[0, 0], vary={"dropout": [0.0, 0.2]}, batch_size=50, device="cpu")
    run = trials.train(X, Y, 1, steer=Helm("dropout", probe=PROBE), progress=False)
    np.testing.assert_allclose(run["dropout"][:, 0], [0.6, 0.2], rtol=1e-6)


@pytest.mark.ci
def test_inputs_beside_count_as_far_as_networks_are_surer_on_the_probe():
    """Of noise, on which no network is sure, they ask for more dropout; those of the probe itself add nothing."""
    noise = np.zeros_like(X[1::3])
    plain, other, same = (
        _train(_ensemble(), Helm("dropout", probe=PROBE, every=EVERY, gain=0.2, unlabelled=each))
        for each in (None, noise, PROBE[0])
    )
    assert (same["dropout"] <= plain["dropout"] + 1e-9).all()
    assert (other["dropout"][:, -1] > plain["dropout"][:, -1] + 0.05).all()


@pytest.mark.ci
def test_a_known_length_leaves_the_last_tenth_as_it_is():
    run, free = (
        _train(_ensemble(), Helm("dropout", probe=PROBE, every=2, **STRONG, steps=each)) for each in (STEPS, None)
    )
    np.testing.assert_array_equal(run["dropout"][:, :-1], free["dropout"][:, :-1])
    assert (run["dropout"][:, -1] != free["dropout"][:, -1]).any()


def test_all_trials_can_be_looked_at_whether_they_are_steered_or_not():
    ensemble, both = _ensemble(), _ensemble()
    helm = Helm("dropout", probe=PROBE, every=EVERY, gain=0.0, steered=[True, False])
    _train(ensemble, helm)
    run = _train(both, Helm("dropout", probe=PROBE, every=EVERY, gain=0.0))
    np.testing.assert_allclose(helm.look(ensemble.trainer).bend, run["dropout_bend"][:, -1], rtol=1e-9)


def test_rates_are_factors_on_what_later_says():
    ensemble = _ensemble()
    helm = Helm("learning_rate", probe=PROBE, every=EVERY, **STRONG)
    run = _train(ensemble, helm, later={20: {"learning_rate": 0.001}})
    rates = ensemble.trainer.rate.numpy()
    np.testing.assert_allclose(rates, 0.001 * run["learning_rate_factor"][:, -1], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"knob": "width"}, "knob must be one of dropout, learning_rate, weight_decay"),
        ({"at_least": 0.5, "at_most": 0.1}, "at_most must be above at_least"),
        ({"at_most": 1.0}, "at_most must be below 1 for dropout"),
        ({"knob": "weight_decay", "at_least": 0.0}, "turned by factors"),
        ({"every": 0}, "every must be"),
        ({"gain": -1.0}, "gain must be at least 0"),
    ],
)
def test_bad_helms_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Helm(**{"knob": "dropout", "probe": PROBE} | change)


@pytest.mark.parametrize(
    ("helm", "options", "message"),
    [
        ({"probe": (X[:, :, :4], Y)}, {}, "steer: probe inputs must have the shape"),
        ({"probe": (X, Y[:50])}, {}, "steer: probe must hold one label"),
        ({"probe": X}, {}, "steer: probe must be"),
        ({"steered": [True]}, {}, "steered must be True or False for each of 2"),
        ({"steered": [False, False]}, {}, "True for one or more"),
        ({"unlabelled": X[:, :, :4]}, {}, "steer: unlabelled must have the shape"),
        ({"knob": "weight_decay"}, {}, "weight_decay must start within the limits of the helm"),
        ({"at_least": 0.1}, {}, "dropout must start within the limits"),
        ({}, {"checkpoint": "run.npz"}, "checkpoint must not be given with steer"),
        ({}, {"later": {20: {"dropout": 0.1}}}, "later must not change dropout"),
    ],
)
def test_helms_that_do_not_suit_the_trials_are_refused(helm, options, message):
    with pytest.raises(ValueError, match=message):
        _train(_ensemble(), Helm(**{"knob": "dropout", "probe": PROBE} | helm), **options)


def test_networks_without_an_effect_or_a_curve_are_refused():
    shallow = MLP(X.shape[1:], 10, width=8, depth=1)
    with pytest.raises(ValueError, match="load curve of 3 layers"):
        Ensemble(shallow, trials=1).train(X, Y, 5, steer=Helm("dropout", probe=PROBE))
    x, y = np.zeros((9, 1, 32, 32)), np.arange(9) % 3
    with pytest.raises(ValueError, match="train without dropout layers"):
        Ensemble(LeNet(3), trials=1).train(x, y, 5, steer=Helm("dropout", probe=(x, y)))
    squares = Ensemble(MLP(X.shape[1:], 1, width=8, depth=3), trials=1, loss="mse")
    with pytest.raises(ValueError, match="for regression no rule"):
        squares.train(X, np.linspace(0, 1, len(X)), 5, steer=Helm("dropout", probe=PROBE))
    with pytest.raises(ValueError, match=r"steer must be a dynascope\.steering\.Helm"):
        _train(_ensemble(), "dropout")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA graphs cannot be captured")
@pytest.mark.parametrize("knob", KNOBS)
def test_a_captured_graph_sees_what_is_turned(knob):
    runs = [
        _train(_ensemble(device=device, **KNOBS[knob]), Helm(knob, probe=PROBE, every=EVERY, **STRONG))
        for device in ("cpu", "cuda")
    ]
    for name in (run_name(knob), "loss"):
        np.testing.assert_allclose(runs[1][name], runs[0][name], rtol=1e-6)
    assert len(np.unique(runs[1][run_name(knob)])) > 3
