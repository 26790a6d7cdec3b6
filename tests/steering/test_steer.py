"""A steered run: what it turns and writes down, that it goes on exactly, and what it leaves alone."""

import json
import os
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from steered import CLASSES, EVERY, STEPS, convolutional, data, network, train
from torch import nn

from dynascope import steer, watch
from dynascope.monitor import open_run
from dynascope.steering import Dropout, Function, LearningRate
from dynascope.steering.law import Place


def steered(model, out=None, steps=STEPS, **options):
    with watch(model, probe=data(), every=EVERY, slow=0, out=out) as run, steer(run, Dropout(model), **options):
        weights = train(model, run, steps)
    return weights, run


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_a_concave_curve_raises_the_noise_and_a_convex_one_lowers_it():
    _, low = steered(network(0.2), target=5.0)
    _, high = steered(network(0.2), target=-5.0)
    assert low.record["dropout"].values[-1] == 0.0
    assert high.record["dropout"].values[-1] > 0.3
    assert low.record["dropout"].values[0] == high.record["dropout"].values[0] == 0.2


def test_with_the_gain_at_zero_training_is_the_same_bit_for_bit():
    plain = train(network(0.2))
    still, run = steered(network(0.2), gain=0.0)
    turned, _ = steered(network(0.2), target=-5.0)
    assert same(plain, still)
    assert not same(plain, turned)
    assert (run.record["dropout"] == 0.2).all()
    assert np.isfinite(run.record["dropout_bend"].values[1:]).all()


def test_convolutions_without_dropout_begin_with_some_and_others_where_they_are():
    three = 1 - 0.4 ** (1 / 3)  # leaves 0.4 behind three layers
    for share, options, begun in ((0.0, {}, three), (0.3, {}, 0.3), (0.0, {"gain": 0.0}, 0.0)):
        model = convolutional(share)
        weights, run = steered(model, steps=EVERY, **options)
        assert run.record["dropout"].values[0] == begun
        assert same(weights, train(convolutional(begun), steps=EVERY))


class _Beside(nn.Module):
    """A branch with dropout, beside a shortcut where there is one."""

    def __init__(self, *, shortcut):
        super().__init__()
        self.branch = nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.ReLU(), nn.Dropout(0.0))
        self.shortcut = shortcut

    def forward(self, x):
        return self.branch(x) + (x if self.shortcut else 0)


@pytest.mark.parametrize(("shortcuts", "passed"), [((True, True, True), 1), ((True, False, True), 2)])
@pytest.mark.filterwarnings("ignore:dropout begins at the most")
def test_dropout_begins_where_some_of_the_signal_is_left(shortcuts, passed):
    torch.manual_seed(1)
    blocks = [_Beside(shortcut=each) for each in shortcuts]
    ends = nn.Flatten(), nn.Linear(4 * data()[0].shape[1], CLASSES)
    model = nn.Sequential(nn.Unflatten(1, (1, -1)), nn.Conv1d(1, 4, 1), *blocks, *ends)
    _, run = steered(model, steps=EVERY)
    assert (1 - run.record["dropout"].values[0]) ** passed == pytest.approx(0.4)
    assert not any(each._forward_hooks for each in model.modules())


def test_where_dropout_begins_at_its_limit_it_is_told_to_stay():
    model = convolutional(0.0)
    with watch(model, probe=data(), every=EVERY, slow=0) as run:
        with pytest.warns(UserWarning, match=r"dropout begins at the most that is allowed, 0\.2, and stays there"):
            assert steer(run, Dropout(model, at_most=0.2)).value == 0.2
        with warnings.catch_warnings(action="error"):
            steer(run, Dropout(model, at_most=0.2))  # which is chosen now


@pytest.mark.parametrize(("side", "head"), [(64, (nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2))), (64, ())])
def test_large_images_and_labels_of_each_pixel_count_as_few_ones_do(side, head):
    torch.manual_seed(0)
    blocks = (part for into in (1, 4, 4) for part in (nn.Conv2d(into, 4, 3, padding=1), nn.ReLU(), nn.Dropout(0.0)))
    model, x = nn.Sequential(*blocks, *head), torch.randn(40, 1, side, side)
    y = torch.arange(40) % 2 if head else (x[:, 0] > 0).long()
    with watch(model, probe=(x, y), every=EVERY, slow=0) as run:
        assert steer(run, Dropout(model)).value == 1 - 0.4 ** (1 / 3)


def test_a_resumed_run_is_not_tried_out_again(tmp_path):
    options = {"probe": data(), "every": EVERY, "slow": 0, "out": tmp_path / "run"}
    for share, more in ((0.05, {}), (0.0, {"resume": True})):  # the second is built anew
        model = convolutional(share)
        with warnings.catch_warnings(action="error"), watch(model, **options, **more) as run:
            assert steer(run, Dropout(model, at_most=0.2)).value == 0.05


class _Two(nn.Module):
    """A tower with dropout in line, and a number beside it."""

    def __init__(self):
        super().__init__()
        self.tower, self.last = convolutional(0.0), nn.Linear(CLASSES + 1, CLASSES)

    def forward(self, x, beside):
        return self.last(torch.cat([self.tower(x), beside], 1))


def test_an_input_that_passes_beside_is_no_way_round():
    model, (x, y) = _Two(), data()
    with watch(model, probe=({"x": x, "beside": 10 * x[:, :1]}, y), every=EVERY, slow=0) as run:
        assert steer(run, Dropout(model)).value == 0.1


def test_every_turn_is_a_line_of_the_journal_with_the_bend_that_caused_it(tmp_path):
    _, run = steered(network(), tmp_path / "run", target=-5.0)
    lines = [json.loads(line[9:]) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    turns = [line for line in lines if line["kind"] == "turn"]
    assert [line["step"] for line in turns] == list(range(0, STEPS + 1, EVERY))
    assert turns[-1]["value"] == run.record["dropout"].values[-1]
    record = open_run(tmp_path / "run")
    assert record["dropout"].values.tolist() == [line["value"] for line in turns]
    assert record["dropout_bend"].values[1:].tolist() == [line["bend"] for line in turns[1:]]
    first, before = turns[-1], turns[-2]
    place = Place.from_json(first["state"])
    lost = np.clip((place.taken_back[0] - 0.05) / 0.05, 0, 3) if place.most[0] > 0.1 else 0.0
    error = min(first["low"] + 5, 1) + lost
    moved = 0.2 * error * np.log(first["step"] / before["step"])
    assert first["value"] - before["value"] == pytest.approx(0.6 * min(moved, 1 - before["value"] / 0.6), abs=1e-12)


@pytest.mark.parametrize("kept", ["journal", "checkpoint"])
def test_a_run_that_is_stopped_and_resumed_ends_bit_for_bit_like_one_that_was_not(tmp_path, kept):
    whole, run = steered(network(), tmp_path / "whole", target=-2.0)
    model = network()
    optimiser, saved = torch.optim.Adam(model.parameters(), lr=0.01), {}

    def save(step):
        if step == 30:
            state = (model.state_dict(), optimiser.state_dict(), steering.state_dict())
            saved.update(state=json.loads(json.dumps(state[2])), random=torch.get_rng_state())
            torch.save(state[:2], tmp_path / "model.pt")
        if step == 43:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), watch(model, probe=data(), every=EVERY, slow=0, out=tmp_path / "run") as first:
        steering = steer(first, Dropout(model), target=-2.0)
        train(model, first, optimiser=optimiser, after=save)
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    held = torch.load(tmp_path / "model.pt", weights_only=True)
    model.load_state_dict(held[0])
    optimiser.load_state_dict(held[1])
    place = tmp_path / ("run" if kept == "journal" else "elsewhere")
    with watch(model, probe=data(), every=EVERY, slow=0, out=place, first_step=30) as again:
        steering = steer(again, Dropout(model), target=-2.0)
        if kept == "checkpoint":
            steering.load_state_dict(saved["state"])
        torch.set_rng_state(saved["random"])
        resumed = train(model, again, optimiser=optimiser, first=30)
    assert same(whole, resumed)
    assert run.record["dropout"].values[-6:].tolist() == again.record["dropout"].values[-6:].tolist()
    assert len(set(run.record["dropout"].values.tolist())) > 5


def test_what_is_measured_beside_the_schedule_turns_nothing():
    model = network()
    with watch(model, probe=data(), every=EVERY, slow=0) as run, steer(run, Dropout(model), target=-5.0) as steering:
        train(model, run, 50)
        before = steering.value
        run.measure()
        run.measure_once()
        assert steering.value == before > 0


def test_inputs_beside_are_looked_at_and_written_down():
    x, _ = data()
    runs = {}
    for name, beside in (("plain", None), ("beside", x[:80] * 0)):
        model = network()
        with watch(model, probe=data(), every=EVERY, slow=0) as run, steer(run, Dropout(model), unlabelled=beside):
            train(model, run)
        runs[name] = run
    bends = [run.record["dropout_bend"].values[1] for run in runs.values()]
    assert bends[0] == bends[1]  # that of the probe
    assert runs["beside"].record["dropout"].values[-1] > runs["plain"].record["dropout"].values[-1]
    assert runs["beside"].turns[-1]["beside"] < runs["beside"].turns[-1]["sure"]
    assert "beside" not in runs["plain"].turns[-1]


class _Tokens(nn.Module):
    """Reads the mean over its tokens, of which samples have many or few."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.blocks, self.readout = nn.TransformerEncoder(block, 3), nn.Linear(8, CLASSES)

    def forward(self, x):
        tokens = x if x.ndim == 3 else x[:, None] * torch.ones(1, 5, 1)
        return self.readout(self.blocks(tokens).mean(1))


def test_networks_that_read_positions_look_at_inputs_beside_whatever_their_length():
    model, (x, _) = _Tokens(), data()
    other = x[:40, None] * torch.ones(1, 7, 1)
    with watch(model, probe=data(), every=EVERY, slow=0) as run, steer(run, Dropout(model), unlabelled=other):
        train(model, run, EVERY)
    with torch.no_grad():
        expected = model.eval()(other).softmax(-1).amax(-1).mean()
    assert run.turns[-1]["beside"] == pytest.approx(float(expected), rel=1e-5)


def test_any_knob_can_be_turned():
    turned = []
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    with (
        watch(model, probe=data(), every=EVERY, slow=0) as run,
        steer(run, LearningRate(optimiser), target=-5.0),
        steer(run, Function("mixup", turned.append, value=0.1, at_most=1.0), target=-5.0),
    ):
        train(model, run, optimiser=optimiser)
    assert run.record["learning_rate_factor"].values[-1] > 1.0
    assert run.record["mixup"].values[-1] == turned[-1] > 0.1


def test_loggers_see_the_knob():
    class Log:
        def __init__(self):
            self.seen = []

        def log(self, values, step):
            self.seen += [(step, values["dropout"])] if "dropout" in values else []

    log, model = Log(), network()
    with watch(model, probe=data(), every=EVERY, slow=0, loggers=[log]) as run, steer(run, Dropout(model)):
        train(model, run, 10)
    assert [step for step, _ in log.seen] == [0, 5, 10]


def _refused(message, model=None, every=EVERY, probe=None, knob=None, **options):
    model = network() if model is None else model
    with (
        watch(model, probe=probe or data(), every=every, slow=0) as run,
        pytest.raises(ValueError, match=message),
    ):
        steer(run, Dropout(model) if knob is None else knob, **options)


def test_what_cannot_be_steered_is_refused():
    _refused("run must be measured at stated steps to be steered", every=None)
    _refused("knob must be one of dynascope.steering", knob=5)
    _refused(
        "knob must have a name that the record has not, got 'loads'", knob=Function("loads", print, value=0, at_most=1)
    )
    _refused("gain must be at least 0", gain=-1)
    _refused("steps must be a whole number", steps=1.5)
    _refused("knob must start within its limits", model=network(0.9))
    flat = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0), nn.Linear(8, CLASSES))
    _refused("run must have a load curve of 3 layers or more", model=flat)
    x, _ = data()
    for wrong in (x[:, :5], x * torch.nan, "inputs", x[:0]):
        _refused("unlabelled must be inputs as those of the probe, without labels", unlabelled=wrong)
    numbers = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(8, 8), nn.Dropout(0.0))), nn.Linear(8, 1))
    _refused("run must be one of classes", model=numbers, probe=(x, x[:, :1]))
    with pytest.raises(ValueError, match="run must be a run that watch made, got str"):
        steer("run", Dropout(network()))


def test_a_test_part_of_the_probe_is_warned_about():
    model, (x, y) = network(), data()
    probe = {"train": (x[:80], y[:80]), "test": (x[80:], y[80:])}
    with watch(model, probe=probe, every=EVERY, slow=0) as run, pytest.warns(UserWarning, match="no longer a test set"):
        steer(run, Dropout(model))


def test_a_state_of_another_knob_is_refused():
    model = network()
    with watch(model, probe=data(), every=EVERY, slow=0) as run:
        steering = steer(run, Dropout(model))
        with pytest.raises(ValueError, match="state must be that of the knob dropout, got one of 'mixup'"):
            steering.load_state_dict({**steering.state_dict(), "knob": "mixup"})
        with pytest.raises(ValueError, match="state must be what state_dict gave"):
            steering.load_state_dict(5)
        with pytest.raises(ValueError, match="state must hold u and since"):
            steering.load_state_dict({**steering.state_dict(), "state": {}})


@pytest.mark.ci
def test_in_two_processes_the_first_decides(tmp_path):
    program = Path(__file__).with_name("two_ranks_steered.py")
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # for what its program shares with others
    subprocess.run([sys.executable, program, tmp_path], check=True, timeout=300, env=paths)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert found[0]["value"] == found[1]["value"] > 0
    assert found[0]["turned"] > 3
    assert found[0]["begun"] == found[1]["begun"] == 1 - 0.4 ** (1 / 3)  # three layers in a row
    assert found[0]["refused"] == found[1]["refused"]


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore")
def test_lightning_keeps_the_knob_in_its_checkpoint(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    from dynascope.monitor.lightning import WatchCallback  # noqa: PLC0415

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    def fit(epochs, **options):
        callback = WatchCallback(
            data(), EVERY, slow=0, steer=lambda run, model, optimizer: steer(run, Dropout(model), target=-5.0)
        )
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
        trainer = lightning.Trainer(max_epochs=epochs, default_root_dir=tmp_path, callbacks=[callback], **quiet)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=12)
        trainer.fit(Module(), loader, **options)
        trainer.save_checkpoint(tmp_path / "last.ckpt")
        return callback

    before = fit(6)
    assert before.steering.value > 0
    again = fit(8, ckpt_path=tmp_path / "last.ckpt")
    assert again.run.record["dropout"].values[0] == before.steering.value
    assert again.steering.value > before.steering.value


def test_a_measurement_that_fails_leaves_the_knob():
    model = network(0.1)
    with watch(model, probe=data(), every=EVERY, slow=0) as run, steer(run, Dropout(model), target=-5.0) as steering:
        model[0].weight.data.fill_(torch.nan)
        with warnings.catch_warnings(action="ignore"):
            for _ in range(10):
                run.step()
        assert steering.value == 0.1
