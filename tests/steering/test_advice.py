"""Advice: what it says about records in which the answer is known, where it says nothing, and that its lines run."""

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import xarray as xr
from steered import CLASSES, EVERY, data, network, train
from torch import nn

from dynascope import advise, save, steer, watch
from dynascope.monitor.reading import assemble
from dynascope.steering import Advice, Dropout, advice
from dynascope.steering.advice import Benchmark, Gain
from dynascope.steering.law import GAIN, Law, Place

STEPS = (0, 40, 80, 120, 160)
LAYERS = ["input", "a", "b", "c"]


def planted(
    bend=1.0,
    half=0.1,
    *,
    bends=None,
    ready=(0, 1, 1, 1, 1),
    turns=(),
    without=(),
    more=None,
    contradicted=None,
    **start,
):
    """The record of a run whose load curve ends with this bend. turns: (knob, value) at the last step."""
    numbers = {
        "load": [3.0, 2.0, 1.0, 0.0],
        "layer_size": [8.0, 8.0, 8.0, 8.0],
        "belief_bend_interval": [bend - half, bend + half],
        "probe_accuracy": 0.9,
        "probe_loss": 0.1,
        "confidence": 0.9,
        "doubt": 0.1,
    } | (more or {})
    entries = [
        {"kind": "start", "layers": LAYERS, "classes": [0, 1, 2], "device": "cpu"}
        | {"kinds": ["", *["Linear"] * 3], "settings": {"every": 40, "task": "classification"}}
        | start
    ]
    firm = [{}] * len(STEPS) if contradicted is None else [{"contradicted": each} for each in contradicted]
    for step, own, counts, share in zip(STEPS, bends or [bend] * len(STEPS), ready, firm, strict=True):
        found = numbers | {"belief_bend": own, "belief_ready": float(counts)} | share
        kept = {name: value for name, value in found.items() if name not in without}
        entries.append({"kind": "measure", "step": step, "time": 0.1, "numbers": kept})
    entries += [{"kind": "turn", "step": STEPS[-1], "knob": knob, "value": value, "state": {}} for knob, value in turns]
    return assemble(entries)


@pytest.mark.parametrize(
    ("bend", "half", "direction", "beyond"),
    [
        (1.0, 0.1, "more", 0.9),  # by which the law turns: from the near end of the interval, at most 1
        (5.0, 0.1, "more", 1.0),
        (0.0, 0.0, "leave it", 0.0),
        (-0.3, 0.4, "leave it", 0.0),
        (-0.3, 0.1, "less", -0.2),
        (-3.0, 0.1, "less", -1.0),
    ],
)
def test_which_way_and_how_far(bend, half, direction, beyond):
    found = advise(planted(bend, half))
    assert (found.knob, found.direction) == ("dropout", direction)
    assert found.size == pytest.approx(GAIN * beyond * 0.6)
    assert (found.bend, found.interval) == (bend, pytest.approx((bend - half, bend + half)))
    assert (found.target, found.limits, found.step) == (0.0, (0.0, 0.6), 160)
    assert (found.now, found.start) == (None, None)
    assert bool(found.line) == (direction != "leave it")


def test_the_size_is_what_the_law_turns_in_an_e_fold_of_training():
    record = planted(0.5, 0.2, turns=[("dropout", 0.3)])
    turned = Law().turn(replace(Place.at(0.5), since=np.array([100_000])), 271_828, advice._signals(record)[-1])
    found = advise(record)
    assert found.start == pytest.approx(0.6 * turned.u[0], rel=1e-5)
    assert found.now + found.size == pytest.approx(found.start)


def test_knobs_that_were_steered_are_spoken_of():
    found = advise(planted(turns=[("weight_decay", 0.001)]))
    assert (found.knob, found.now) == ("weight_decay", 0.001)
    assert found.start == pytest.approx(0.001 * found.size) == pytest.approx(0.001 * 1e4 ** (0.9 * GAIN))
    assert "× 5.2, from 0.001 to 0.00525" in str(found)
    assert found.expected == ()
    assert any("What to expect is not known" in each for each in found.condition)
    assert advise(planted(turns=[("mixup", 0.1)])).knob == "dropout"


def test_what_is_not_known_to_be_there_may_not_be_there_to_be_taken_away():
    assert "where there is none, turn another knob" in advise(planted(-3.0)).condition[-1]


def test_a_knob_at_its_limit_goes_no_further():
    found = advise(planted(turns=[("dropout", 0.6)]))
    assert (found.direction, found.start) == ("more", 0.6)
    assert "It stands at its limit of 0.6" in found.condition[-1]
    assert not any("limit" in each for each in advise(planted(-3.0, turns=[("dropout", 0.6)])).condition)


def test_contradictions_that_are_taken_back_ask_for_more_noise_whatever_the_bend():
    firm = [0.0, 0.2, 0.2, 0.2, 0.1]
    kept, lost = (advise(planted(-0.4, contradicted=each)) for each in ([0.2] * 5, firm))
    assert (kept.direction, kept.taken_back) == ("leave it", 0.0)
    assert "0% of its contradictions of labels taken back: wrong labels are kept out" in str(kept)
    assert lost.direction == "more"
    assert 0.3 < lost.taken_back < 0.5
    assert advise(planted(-0.4, contradicted=[0.08] * 5)).direction == "less"


REFUSED = {
    "regression": ({"settings": {"task": "regression"}}, "The task is regression; the rule is about classes"),
    "shallow": (
        {"layers": ["input", "a"], "kinds": ["", "Linear"], "more": {"load": [2.0, 1.0], "layer_size": [8.0, 8.0]}},
        "a bend needs 3",
    ),
    "mixed": ({"kinds": ["", "Conv2d", "Conv2d", "Linear"]}, "Layers are of unequal kind (Conv2d; Linear)"),
    "convolutions": ({"kinds": ["", *["Conv2d"] * 3]}, "Layers are of another kind (Conv2d)"),
    "blocks": ({"kinds": ["", *["Block of Linear"] * 3]}, "multilayer perceptrons alone"),
    "old": (
        {"without": ("belief_bend", "belief_bend_interval", "belief_ready", "confidence")},
        "The record has no belief_bend (bend of the load curve of what the network says): an older version wrote it",
    ),
    "damaged": ({"without": ("belief_bend_interval",)}, "The record has no belief_bend_interval"),
    "unfitted": ({"ready": (0, 1, 1, 1, 0)}, "not fitted at step 160, where it says 90 % of the probe's labels"),
    "few": ({"ready": (0, 0, 0, 1, 1)}, "Measurements of the fitted network are 2 of 5, 3 are needed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_where_the_rule_does_not_apply_there_is_a_reason_instead(case):
    change, reason = REFUSED[case]
    found = advise(planted(**change))
    assert (found.direction, found.line, found.expected) == ("no advice", "", ())
    assert reason in found.condition[0]
    assert str(found) == f"no advice about dropout: {found.condition[0]}"


def test_a_run_that_was_not_measured_has_no_advice():
    record = planted().isel(step=slice(0))
    assert advise(record).condition == ("The run has not been measured yet.",)


WEAKER = {
    "Layers differ in width": {"more": {"layer_size": [8.0, 8.0, 4.0, 8.0]}},
    "It is not recorded what the layers are made of": {"kinds": []},
    "hidden layers, here are 2": {
        "layers": LAYERS[:3],
        "kinds": ["", "Linear", "Linear"],
        "more": {"load": [2.0, 1.0, 0.0], "layer_size": [8.0] * 3},
    },
    "The bend still moves: it was +2.00": {"bends": [np.nan, 2.0, 1.5, 1.2, 1.0]},
    "Probe: 8 samples are too few.": {"notes": ["task: guessed", "probe: 8 samples are too few"]},
    "no test set any more": {"more": {"test_loss": 0.2}},
    "Health comes first: inputs out of scale": {"more": {"input_size": 1e3}},
}


@pytest.mark.parametrize("sentence", WEAKER)
def test_where_the_rule_is_less_sure_it_says_so(sentence):
    assert advise(planted()).condition == ()
    found = advise(planted(**WEAKER[sentence]))
    assert found.direction == "more"
    assert len(found.condition) == 1
    assert sentence in found.condition[0]
    assert f"but: {found.condition[0]}" in str(found)


def test_what_to_expect_are_networks_with_such_a_bend(monkeypatch):
    rows = (
        Gain(0.0, None, 0.5, -0.01, -0.03, 0.01, 7),
        Gain(0.0, 0.5, None, 0.02, -0.01, 0.05, 30),
        Gain(0.4, 0.5, 1.5, 0.2, 0.1, 0.3, 9),
        Gain(0.4, 1.5, None, 0.3, 0.2, 0.4, 9),
    )
    own = Benchmark("steering/mlps", "paper", "abc", "dropout", GAIN, 0.0, ("mnist",), (3, 7), rows)
    monkeypatch.setattr(advice, "benchmark", lambda: own)
    found = advise(planted(1.0))
    assert found.expected == rows[1:3]
    assert "+0.020 (-0.010 to +0.050) with clean labels, from 30 networks" in str(found)
    assert "+0.200 (+0.100 to +0.300) with 40 % wrong labels, from 9 networks" in str(found)
    assert "steering/mlps, scale paper" in str(found)
    assert advise(planted(0.5)).expected == rows[1:3]
    assert advise(planted(0.4999)).expected == rows[:1]


def test_the_benchmark_that_is_shipped_is_of_this_law():
    """A new target or gain needs a new table: docs/write_gains.py."""
    held = advice.benchmark()
    assert (held.knob, held.target, held.gain) == ("dropout", 0.0, GAIN)
    assert re.fullmatch("[0-9a-f]{40}", held.commit)
    assert advice.BENCHMARK.stat().st_size < 10_000
    for wrong in {each.wrong for each in held.gains}:
        rows = [each for each in held.gains if each.wrong == wrong]
        assert all(sum(each.holds(bend) for each in rows) <= 1 for bend in np.linspace(-5, 5, 1001))
    assert all(each.low < each.mean < each.high and each.networks >= 5 for each in held.gains)


def test_its_words():
    text = str(advise(planted(2.0, turns=[("dropout", 0.1)])))
    assert text.startswith("more dropout: begin with +0.12, from 0.1 to 0.22; limits 0 to 0.6\n")
    assert "why: bend +2.00 (+1.90 to +2.10) at step 160, target +0.00: too little noise" in text
    assert "  run = watch(model, probe=(inputs, labels), every=40)\n" in text
    left = str(advise(planted(0.0)))
    assert left.startswith("leave dropout as it is\n")
    assert "the interval holds the target" in left
    assert "do:" not in left
    assert "too much noise" in str(advise(planted(-2.0)))


@pytest.mark.parametrize("every", [40, "epoch", None])
@pytest.mark.parametrize(
    "turn", [("dropout", 0.1), ("dropout", 0.7), ("learning_rate_factor", 1.0), ("weight_decay", 0.2)]
)
def test_its_lines_run(turn, every):
    model, (x, y) = network(0.1), data()
    if turn == ("dropout", 0.7):
        Dropout(model, at_most=0.7).set(0.7)
    optimiser = torch.optim.Adam(model.parameters(), weight_decay=0.2 if turn[0] == "weight_decay" else 0.0)
    found = advise(planted(-2.0, turns=[turn], settings={"every": every}))
    names = {"model": model, "inputs": x, "labels": y, "optimizer": optimiser}
    exec(found.line, names)
    names["run"].close()
    assert names["run"].record[turn[0]].values[0] == pytest.approx(turn[1])


def test_of_a_run_its_record_its_folder_and_its_file(tmp_path):
    model = network()
    with watch(model, probe=data(), every=EVERY, slow=0, out=tmp_path / "run") as run:
        train(model, run)
    found = advise(run)
    assert isinstance(found, Advice)
    assert found.direction in ("more", "less", "leave it")
    assert found.bend == run.record["belief_bend"].values[-1]
    for given in (run.record, tmp_path / "run", str(tmp_path / "run"), tmp_path / "run" / "record.nc"):
        assert advise(given) == found


def test_what_it_advises_turns_the_knob_that_way():
    """Its lines, in a training of the same kind: of a network of eight units, which has too much of it."""
    model = network(0.3)
    with watch(model, probe=data(), every=EVERY, slow=0) as run:
        train(model, run)
    found = advise(run)
    assert found.direction == "less"
    again, (x, y) = network(0.3), data()
    names = {"model": again, "inputs": x, "labels": y}
    exec(found.line, names)
    train(again, names["run"])
    turned = names["run"].record["dropout"].values
    assert turned[-1] < turned[0] == 0.3


def test_networks_of_other_kinds_are_seen_in_their_records():
    x, y = torch.randn(60, 1, 6, 6), torch.arange(60) % 3
    layers = [part for size in (1, 4) for part in (nn.Conv2d(size, 4, 3), nn.ReLU())]
    with watch(nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 3)), probe=(x, y), every=5, slow=0) as run:
        pass
    assert "Layers are of another kind (Conv2d)" in advise(run).condition[0]
    numbers = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(8, 8), nn.ReLU())), nn.Linear(8, 1))
    x, _ = data()
    with watch(numbers, probe=(x, x[:, :1]), every=5, slow=0) as run:
        pass
    assert "The task is regression" in advise(run).condition[0]
    flat = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    with watch(flat, probe=data(), every=5, slow=0) as run:
        pass
    assert "The load curve has the layers input, 0 Linear" in advise(run).condition[0]


def test_a_steered_run_is_advised_about_its_own_knob():
    model = network()
    with watch(model, probe=data(), every=EVERY, slow=0) as run, steer(run, Dropout(model), target=-2.0):
        train(model, run)
    assert advise(run).now == run.record["dropout"].values[-1] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "record must be that of a watched run, the run itself or its folder, got 5"),
        (None, "got None"),
        (xr.Dataset(), "record must be that of a watched run, got one of something else"),
        (xr.Dataset(attrs={"model": '"SpringBlock"'}), "got one of SpringBlock"),
    ],
)
def test_other_things_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        advise(given)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run in"):
        advise(tmp_path)


def test_the_command_says_it_for_people_and_machines(command, tmp_path):
    record = planted(2.0)
    save(record, tmp_path / "run.nc")
    status, out, _ = command("advise", "run.nc")
    assert (status, out) == (0, f"{advise(record)}\n")
    _, out, _ = command("advise", "run.nc", "--json")
    assert json.loads(out) == json.loads(json.dumps(asdict(advise(record))))
    save(planted(**REFUSED["mixed"][0]), tmp_path / "mixed.nc")
    status, out, _ = command("advise", "mixed.nc")
    assert status == 0
    assert out.startswith("no advice about dropout: Layers are of unequal kind")


def test_the_command_refuses_what_is_no_run(command, tmp_path):
    save(xr.Dataset({"a": 1.0}, attrs={"model": '"SpringBlock"'}), tmp_path / "a.nc")
    status, _, err = command("advise", "a.nc")
    assert (status, "watched run" in err, "Traceback" in err) == (2, True, False)
    assert command("advise", "nowhere")[0] == 2
