"""Whether a run is healthy: every rule fires on a planted record and on none that is well; alerts, callbacks, leaks."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dynascope import watch
from dynascope.monitor import examine, verdicts
from dynascope.monitor.health import RULES
from dynascope.monitor.probing import Probe
from dynascope.monitor.reading import assemble
from dynascope.monitor.vitals import Losses, leaked
from networks import mlp, train, vectors

STEPS = np.arange(18) * 20
LAYERS, WEIGHTS = ["input", "a", "b"], ["a.weight", "b.weight", "c.weight"]
FALL = np.exp(-STEPS / 80)


def course(values, dims=0):
    """A value for each measurement."""
    return [np.full(dims, value).tolist() if dims else float(value) for value in np.broadcast_to(values, len(STEPS))]


WELL = {
    "probe_loss": course(math.log(3) * (0.1 + 0.9 * FALL)),
    "probe_accuracy": course(0.95 - 0.6 * FALL),
    "loss_mean": course(math.log(3) * (0.12 + 0.9 * FALL)),
    "loss_least": course(math.log(3) * 0.9 * FALL),
    "loss_greatest": course(math.log(3) * (0.3 + 0.9 * FALL)),
    "loss_rise": course(0.2),
    "loss_fall": course(0.2),
    "losses_not_finite": course(0.0),
    "gradient_norm": course(1.0),
    "gradient_change": course(1.2),
    "gradient_size": course(0.1, 3),
    "silent": course(0.0, 3),
    "weight_size": course(0.1, 3),
    "update_ratio": course(0.003, 3),
    "constant": course(0.0, 3),
    "saturated": course(0.0, 3),
    "one_answer": course(0.4),
    "probabilities": course(0.0),
    "input_size": course(1.0),
    "leaked": course(0.0),
}


def record(**planted):
    numbers = WELL | planted
    start = {"kind": "start", "layers": LAYERS, "weights": WEIGHTS, "classes": [0, 1, 2], "settings": {"samples": 100}}
    entries = [
        {
            "kind": "measure",
            "step": int(step),
            "time": 0.0,
            "numbers": {name: each[at] for name, each in numbers.items()},
        }
        for at, step in enumerate(STEPS)
    ]
    return assemble([start | {"device": "cpu"}, *entries])


def test_a_run_that_is_well_has_no_finding():
    health = examine(record())
    assert health.findings == ()
    assert health.unjudged == {}
    assert health.line == f"healthy: none of {len(RULES)} faults up to step 340"


LATER = np.where(STEPS >= 100, 1.0, 0.0)
RISING = np.where(STEPS < 80, 1.0 - STEPS / 100, 0.2 + STEPS / 100)
PLANTED = [
    ("probe leak", 0, {"leaked": course(0.25)}),
    ("softmax twice", 0, {"probabilities": course(1.0), "loss_least": course(0.6)}),
    ("inputs out of scale", 0, {"input_size": course(255.0)}),
    ("start out of range", 0, {"probe_loss": course(40 * FALL)}),
    ("layers left out", 0, {"update_ratio": [[0.0, 0.003, 0.003]] * len(STEPS)}),
    ("wrong direction", 20, {"loss_mean": course(-1.0 - STEPS), "probe_loss": course(2.0 + STEPS)}),
    ("gradients not cleared", 0, {"gradient_change": course(0.05), "gradient_norm": course(1.0 + STEPS)}),
    ("gradients not cleared", 0, {"gradient_change": course(0.05), "gradient_norm": course(2.0 - FALL)}),
    ("weights vanish", 60, {"weight_size": [[size] * 3 for size in 0.1 * np.exp(-STEPS / 60)]}),
    ("too much noise", 0, {"loss_mean": course(3.0)}),
    ("updates too large", 100, {"update_ratio": [[0.003 + 0.5 * each] * 3 for each in LATER]}),
    ("updates too small", 0, {"update_ratio": course(1e-8, 3)}),
    ("dead units", 100, {"constant": [[0.0, 0.9 * each, 0.0] for each in LATER]}),
    ("dead units", 100, {"silent": [[each, 0.0, 0.0] for each in LATER]}),
    ("saturated units", 100, {"saturated": [[0.0, 0.95 * each, 0.0] for each in LATER]}),
    ("vanishing gradients", 0, {"gradient_size": [[1e-9, 1e-3, 0.1]] * len(STEPS)}),
    ("exploding gradients", 100, {"gradient_norm": course(1.0 + 1e4 * LATER)}),
    ("diverged", 100, {"probe_loss": course(np.where(LATER > 0, np.nan, 1.0))}),
    ("diverged", 57, {"losses_not_finite": course(3 * LATER), "first_not_finite": course(57.0)}),
    ("batches differ", 0, {"loss_rise": course(1.5), "loss_fall": course(0.2)}),
    ("label noise fitted", 80, {"probe_loss": course(RISING), "probe_accuracy": course(0.8 - 0.4 * LATER)}),
    ("overfitting", 80, {"probe_loss": course(RISING)}),
    ("stuck", 340, {"probe_loss": course(1.1), "loss_mean": course(1.1)}),
]


@pytest.mark.parametrize(("name", "step", "planted"), PLANTED, ids=[each[0] for each in PLANTED])
def test_each_rule_fires_on_its_own_signs(name, step, planted):
    if name in ("label noise fitted", "overfitting"):
        planted = planted | {"loss_mean": course(0.02)}
    health = examine(record(**planted))
    found = {each.name: each for each in health.findings}
    assert name in found
    assert found[name].step == step
    assert found[name].bound
    assert f"{name} at step {step}" in health.line
    assert not health.line.startswith("healthy")


def test_gradients_of_one_and_the_same_batch_may_be_steady():
    steady = {"gradient_change": course(0.05), "gradient_norm": course(2.0 - FALL), "loss_rise": course(0.0)}
    assert examine(record(**steady)).findings == ()


def test_all_rules_are_planted():
    assert {name for name, *_ in PLANTED} == set(RULES)


@pytest.mark.parametrize(
    ("missing", "names", "reason"),
    [
        (
            ("gradient_norm", "gradient_size", "gradient_change"),
            ("vanishing gradients", "layers left out"),
            "optimizer=",
        ),
        (("leaked",), ("probe leak",), "training="),
        (("loss_mean", "loss_least", "loss_greatest", "loss_rise"), ("overfitting", "batches differ"), "not told"),
        (("update_ratio",), ("updates too large", "updates too small"), "no step after"),
    ],
)
def test_what_was_not_measured_is_not_judged(missing, names, reason):
    health = examine(record().drop_vars(missing))
    assert health.findings == ()
    assert set(names) <= set(health.unjudged)
    assert all(reason in health.unjudged[name] for name in names)
    assert "not judged" in health.line
    assert health.line.startswith("healthy") == (missing == ("leaked",))


def test_a_run_without_a_measurement_is_not_judged():
    health = examine(assemble([{"kind": "start", "layers": [], "classes": [0], "settings": {}, "device": "cpu"}]))
    assert health.line.startswith("not judged")


def test_losses_between_measurements_are_seen():
    told = Losses()
    for step, value in enumerate([1.0, torch.tensor(4.0), float("inf"), 2.0]):
        told.add(step, value)
    numbers = told.take()
    assert (numbers["loss_least"], numbers["loss_greatest"], numbers["loss_rise"]) == (1.0, 4.0, 3.0)
    assert (numbers["losses_not_finite"], numbers["first_not_finite"]) == (1.0, 2)
    assert told.take() == {"losses_not_finite": 1.0, "first_not_finite": 2}


def test_a_network_that_diverges_between_measurements_is_called_diverged():
    model = mlp()
    with watch(model, probe=vectors(), every=10, slow=0) as run:
        for step in range(1, 16):
            if step == 13:
                with torch.no_grad():
                    model[0].weight.fill_(torch.nan)
            run.step(loss=torch.tensor(math.nan if step >= 13 else 1.0))
    assert "diverged at step 13" in examine(run.record).line


def test_a_dead_network_is_called_dead():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    with torch.no_grad():
        model[0].bias.fill_(-100.0)
    with watch(model, probe=vectors(), every=5, slow=0) as run:
        train(model, vectors(), 20, after=lambda loss: run.step(loss=loss))
    found = {each.name: each for each in examine(run.record).findings}
    assert found["dead units"].step == 0


@pytest.mark.parametrize("hooked", [False, True])
def test_gradients_that_were_cleared_are_not_judged_unless_the_optimiser_is_known(hooked):
    model, (x, y) = mlp(), vectors()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    with watch(model, probe=(x, y), every=5, slow=0, optimizer=optimiser if hooked else None) as run:
        for _ in range(40):
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            run.step(loss=loss)
    assert ("gradient_norm" in run.record) == hooked
    assert ("exploding gradients" in examine(run.record).unjudged) != hooked
    assert np.isfinite(run.record["update_ratio"].values[1:]).all()  # updates need no gradients


def test_reading_gradients_in_the_optimiser_changes_nothing():
    def weights(watched):
        torch.manual_seed(0)
        model, (x, y) = mlp(), vectors()
        optimiser = torch.optim.Adam(model.parameters())
        run = watch(model, probe=(x, y), every=3, slow=0, optimizer=optimiser) if watched else None
        for _ in range(20):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
            if run is not None:
                run.step()
        return nn.utils.parameters_to_vector(model.parameters())

    assert torch.equal(weights(False), weights(True))


def test_weights_that_take_no_part_are_not_called_dead():
    class Spare(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.spare, self.head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.body(x).relu())

    model = Spare()
    with watch(model, probe=vectors(), every=5, slow=0) as run:
        train(model, vectors(), 40, after=lambda loss: run.step(loss=loss))
    health = examine(run.record)
    assert health.findings == ()
    assert "vanishing gradients" not in health.unjudged


def test_an_optimiser_inside_another_is_found():
    class Around:
        def __init__(self, optimizer):
            self.optimizer = optimizer

    model = mlp()
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    watch(model, probe=vectors(), every=1, slow=0, optimizer=Around(inner))
    assert inner._optimizer_step_pre_hooks


def test_updates_are_those_of_one_step():
    model, (x, y) = mlp(), vectors()
    with watch(model, probe=(x, y), every=2, slow=0) as run:
        for _ in range(4):
            with torch.no_grad():
                model[0].weight.mul_(0.9)
            run.step()
    weight = run.record["weight"].values.tolist().index("0.weight")
    np.testing.assert_allclose(run.record["update_ratio"].values[1:, weight], 0.1, rtol=1e-5)


def test_each_finding_is_told_once():
    told = []
    model = mlp()
    with watch(model, probe=vectors(), every=2, slow=0, on_verdict=told.append) as run:
        for _ in range(6):
            run.step(loss=math.nan)
    assert [each.name for each in told].count("diverged") == 1
    assert len({each.name for each in told}) == len(told)


def test_a_callback_that_fails_does_not_stop_training():
    def fail(_finding):
        raise RuntimeError("no network")

    run = watch(mlp(), probe=vectors(), every=1, slow=0, on_verdict=fail)
    with pytest.warns(RuntimeWarning, match="no network"):
        run.step(loss=math.nan)


def test_leaks():
    x, y = vectors()
    assert leaked(Probe.of((x[:10], y[:10]), mlp()), x) == 1.0
    assert leaked(Probe.of((x[:10], y[:10]), mlp()), TensorDataset(x[5:], y[5:])) == 0.5
    with watch(mlp(), probe=(x, y), every=1, slow=0, training=x[:6]) as run:
        pass
    assert "10% of the probe" in examine(run.record).findings[0].evidence


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer must be a torch.optim.Optimizer, got str"),
        ({"training": 3}, "training must be a tensor of inputs or a Dataset with a length, got int"),
    ],
)
def test_what_cannot_work_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        watch(mlp(), probe=vectors(), **options)


def test_a_closed_run_leaves_the_optimiser_alone():
    model = mlp()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    watch(model, probe=vectors(), every=1, slow=0, optimizer=optimiser).close()
    assert not optimiser._optimizer_step_pre_hooks


def _curve(loads, step=50, **more):
    start = {"kind": "start", "layers": ["input", "a", "b", "c"], "classes": [0, 1], "settings": {}, "device": "cpu"}
    numbers = {"load": loads, "probe_loss": 0.05, "layer_size": [9.0, 8.0, 8.0, 8.0]} | more
    return {each.subject: each for each in verdicts(assemble([start, _entry(step, numbers)]))}


def _entry(step, numbers):
    return {"kind": "measure", "step": step, "time": 1.0, "numbers": numbers}


def test_unequal_work_is_not_called_even():
    uneven = [1.62, 1.40, 0.40, 0.0]  # work 0.22, 1.0, 0.40
    found = _curve(uneven)["load"]
    assert "evenly" not in found.finding
    assert "b does 1.00, a 0.22 of 1.62" in found.finding
    assert "not known" in found.finding  # its spread
    assert "share the work evenly" in _curve([3.0, 2.0, 1.0, 0.0])["load"].finding


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"step": 0}, "before training"),
        ({"probe_loss": 0.6}, "not small yet"),
        ({"layer_size": [9.0, 8.0, 4.0, 8.0]}, "not alike"),
    ],
)
def test_advice_is_kept_where_its_condition_fails(changes, reason):
    found = _curve([3.0, 2.9, 2.5, 0.0], **changes)["load"]
    assert f"no advice here, {reason}" in found.law or reason in found.law
    assert "dropout" not in found.law
    assert "dropout" in _curve([3.0, 2.9, 2.5, 0.0])["load"].law


def test_idle_layers_are_named_with_what_is_not_known():
    found = _curve([3.0, 2.0, 1.95, 0.0])["idle layers"]
    assert "may still cost accuracy" in found.finding
    assert "spread over samples is not known" in found.finding


def test_intervals_decide_where_there_are_some():
    start = {"kind": "start", "layers": ["input", "a", "b", "c"], "classes": [0, 1], "settings": {}, "device": "cpu"}
    run = assemble([start, _entry(50, {"load": [3.0, 2.0, 1.95, 0.0]})])
    wide = np.array([[[np.nan, np.nan], [0.8, 1.2], [-0.3, 0.4], [1.7, 2.2]]])
    with_ends = run.assign(increment_interval=(("step", "layer", "bound"), wide))
    assert "idle layers" not in {each.subject for each in verdicts(with_ends)}
    wide[0, 2] = -0.02, 0.08
    with_ends = run.assign(increment_interval=(("step", "layer", "bound"), wide))
    assert "in 95 % of other samples too" in {e.subject: e for e in verdicts(with_ends)}["idle layers"].finding


def test_old_numbers_are_not_called_new():
    start = {"kind": "start", "layers": ["input", "a", "b", "c"], "classes": [0, 1], "settings": {}, "device": "cpu"}
    good = {"load": [3.0, 2.9, 2.5, 0.0], "nc1": 0.5, "nc2_angle": 0.4}
    bad = {"load": [3.0, np.nan, np.nan, np.nan], "nc1": np.nan, "nc2_angle": np.nan}
    found = verdicts(assemble([start, _entry(10, good), _entry(20, bad)]))
    assert all("as of step 10" in each.finding for each in found)


@pytest.mark.parametrize(("rate", "line"), [(0.02, "nothing found so far"), (1e3, "diverged at step")])
def test_regression_is_judged_by_the_spread_of_its_targets(rate, line):
    torch.manual_seed(0)
    x = torch.randn(200, 6)
    y = x[:, :1] * x[:, 1:2]
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    optimiser = torch.optim.SGD(net.parameters(), lr=rate)
    with watch(net, probe=(x[:80], y[:80]), every=10) as run:
        for _ in range(120):
            loss = nn.functional.mse_loss(net(x[80:]), y[80:])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            run.step(loss=loss)
    assert examine(run.record).line.startswith(line)


@pytest.mark.filterwarnings("error")
def test_a_run_whose_gradients_never_were_finite_is_judged_by_the_rest():
    lost = [[math.nan] * 3] * len(STEPS)
    health = examine(record(gradient_size=lost, loss_mean=course(math.nan)))
    assert "vanishing gradients" in health.unjudged
