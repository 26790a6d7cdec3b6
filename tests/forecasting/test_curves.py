"""Curves come the same from every kind of log, and what is no log is refused in words."""

import csv
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from dynascope import Ensemble, save, watch
from dynascope.forecasting.curves import read_curves
from dynascope.monitor.loggers import TensorBoard
from dynascope.networks import MLP

STEP, LOSS, RATE = [0, 10, 20, 40], [2.0, 1.5, 1.25, 1.0], [0.5, 0.5, 0.25, 0.125]


def _csv(path, header, rows):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def _rows():
    return [
        {"step": step, "loss": loss, "learning_rate": rate} for step, loss, rate in zip(STEP, LOSS, RATE, strict=True)
    ]


def _lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _events(folder, columns):
    with SummaryWriter(str(folder)) as writer:
        for name, values in columns.items():
            for step, value in zip(STEP, values, strict=False):
                writer.add_scalar(name, value, step)
    return folder


def _written(path, text):
    path.write_text(text)
    return path


LOGS = {
    "arrays": lambda folder: {"step": np.array(STEP), "loss": np.array(LOSS), "learning_rate": RATE},
    "tensors": lambda folder: {"step": torch.tensor(STEP), "loss": torch.tensor(LOSS), "lr": torch.tensor(RATE)},
    "csv": lambda folder: _csv(folder / "a.csv", ["Step", "train/loss", "lr-Adam"], zip(STEP, LOSS, RATE, strict=True)),
    "json lines": lambda folder: _lines(folder / "a.jsonl", _rows()),
    "rows": lambda folder: _written(folder / "a.json", json.dumps(_rows())),
    "lists": lambda folder: _written(
        folder / "a.json", json.dumps({"about": "a run", "iteration": STEP, "train_loss": LOSS, "train/lr": RATE})
    ),
    "checkpoint": lambda folder: (
        _written(
            folder / "trainer_state.json",
            json.dumps(
                {"epoch": 1, "log_history": [*_rows(), {"step": 40, "eval_loss": 9.0}, {"step": 40, "train_loss": 8.0}]}
            ),
        ).parent
    ),
    "events": lambda folder: _events(folder / "runs", {"Loss/train": LOSS, "eval/loss": LOSS[:2], "train/lr": RATE}),
    "event file": lambda folder: next(_events(folder, {"loss": LOSS, "learning_rate": RATE}).iterdir()),
}


@pytest.mark.parametrize("kind", LOGS)
def test_every_kind_of_log_holds_the_same_curve(kind, tmp_path):
    (curve,) = read_curves(LOGS[kind](tmp_path))
    assert curve.name == "loss"
    assert (curve.step.tolist(), curve.value.tolist(), curve.rate.tolist()) == (STEP, LOSS, RATE)
    assert {each.dtype for each in (curve.step, curve.value, curve.rate)} == {np.dtype(float)}


def test_what_is_logged_at_other_steps_is_left_out_and_rates_are_carried(tmp_path):
    rows = [(0, 2.0, "", 0.1), (5, "", 0.3, ""), (10, 1.0, "", ""), (15, "", 0.6, 0.05), (20, "nan", "", "")]
    path = _csv(tmp_path / "metrics.csv", ["step", "train_loss_step", "val_acc", "lr"], rows)
    loss, accuracy = (read_curves(path, name)[0] for name in ("loss", "val_acc"))
    assert (loss.step.tolist(), loss.rate.tolist()) == ([0, 10, 20], [0.1, 0.1, 0.05])
    np.testing.assert_array_equal(loss.value, [2.0, 1.0, math.nan])
    assert (accuracy.step.tolist(), accuracy.value.tolist(), accuracy.rate.tolist()) == (
        [5, 15],
        [0.3, 0.6],
        [0.1, 0.05],
    )


def test_a_rate_that_is_known_late_is_not_known():
    late = {"step": list(range(100)), "loss": [1.0] * 100, "lr": [None] * 50 + [0.1] * 50}
    assert read_curves(late)[0].rate is None
    early = late | {"lr": [None] * 5 + [0.1] * 95}
    assert read_curves(early)[0].rate.tolist() == [0.1] * 100


def test_of_several_groups_the_largest_rate_counts():
    (curve,) = read_curves({"step": [0, 1], "loss": [2.0, 1.0], "lr-Adam/pg1": [0.1, 0.2], "lr-Adam/pg2": [0.3, 0.1]})
    assert curve.rate.tolist() == [0.3, 0.2]


def test_infinite_values_are_gaps():
    np.testing.assert_array_equal(read_curves({"step": [0, 1], "loss": [1.0, math.inf]})[0].value, [1.0, math.nan])


@pytest.mark.parametrize(
    ("beside", "asked", "told"),
    [
        ({}, "loss", 0.0),
        ({"val_loss": [2.0, 1.0]}, "loss", -1.0),
        ({"val_loss": [2.0, 1.0]}, "val_loss", 1.0),
        ({"eval/accuracy": [0.1, 0.2]}, "loss", 0.0),
        ({"accuracy": [0.1, 0.2], "test/accuracy": [0.1, 0.2]}, "accuracy", -1.0),
        ({"lr": [0.1, 0.1], "Train/accuracy": [0.1, 0.2]}, "accuracy", -1.0),
        ({"Val Loss": [2.0, 1.0]}, "val_loss", 1.0),
        ({"Val Loss": [2.0, 1.0]}, "loss", -1.0),
    ],
)
def test_logs_tell_what_a_quantity_is_measured_on(beside, asked, told):
    (curve,) = read_curves({"step": [0, 1], "loss": [2.0, 1.0]} | beside, asked)
    assert (curve.name, curve.told) == (asked, told)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A run that is told its loss, and writes to TensorBoard too."""
    folder = tmp_path_factory.mktemp("watched")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    labels = torch.arange(40) % 2
    with SummaryWriter(str(folder / "events")) as writer:
        probe = torch.randn(40, 4) + labels[:, None], labels
        with watch(net, probe, every=2, slow=2, out=folder / "run", loggers=[TensorBoard(writer)]) as run:
            for step in range(8):
                run.step(loss=1 / (1 + step), learning_rate=0.1)
    return run, folder


def test_watched_runs(watched):
    run, folder = watched
    sources = [run, run.record, folder / "run", str(folder / "run" / "record.nc"), folder / "events"]
    for source in sources:
        (curve,) = read_curves(source)
        assert (curve.step.tolist(), curve.name, curve.told) == ([2, 4, 6, 8], "loss", -1.0)
        np.testing.assert_allclose(curve.value, [1 / 2, 1 / 4, 1 / 6, 1 / 8])
        np.testing.assert_allclose(curve.rate, 0.1)
    (accuracy,) = read_curves(run, "accuracy")
    assert accuracy.value.tolist() == run.record["probe_accuracy"].values.tolist()
    (slow,) = read_curves(run, "minimum_feature_distance")
    assert np.isfinite(slow.value).all()
    assert len(slow.step) < len(accuracy.step)


def test_a_watched_run_that_diverged_ends_in_gaps(watched):
    record = watched[0].record.copy(deep=True)
    for name in ("train_loss", "probe_loss"):
        record[name].values[-1] = math.nan
    assert np.isnan(read_curves(record)[0].value).tolist() == [False, False, False, True]


def test_a_watched_run_without_its_loss(watched):
    record = watched[0].record.drop_vars("train_loss")
    with pytest.raises(ValueError, match=r"\(.*probe_loss.*\), got 'loss'; run.step was not told the loss"):
        read_curves(record)


def test_ensembles_have_a_curve_for_each_trial(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 1, 2, 2)).astype(np.float32), np.arange(30) % 3
    ensemble = Ensemble(MLP((1, 2, 2), 3, width=4, depth=2), trials=2, learning_rate=[0.1, 0.2])
    later = {4: {"learning_rate": 0.01}}
    record = ensemble.train(x, y, steps=6, record_every=2, later=later)
    path = save(record, tmp_path / "networks.nc")
    for source in (record, path):
        curves = read_curves(source)
        np.testing.assert_array_equal([each.value for each in curves], record["loss"])
        assert [each.rate.tolist() for each in curves] == [[0.1, 0.1, 0.01, 0.01], [0.2, 0.2, 0.01, 0.01]]
    (second,) = read_curves(record.isel(trial=1), "train_loss")
    assert second.rate.tolist() == [0.2, 0.2, 0.01, 0.01]
    assert np.isnan(second.value[0])  # no batch before the first step
    probes = ensemble.train(x, y, steps=2, record_every=1, probe={"train": (x, y), "test": (x, y)})
    with pytest.raises(
        ValueError, match=r"loss of this record has the dimension probe: choose one .* \.isel\(probe=…\)"
    ):
        read_curves(probes)
    assert len(read_curves(probes.sel(probe="test"))) == 2


def test_a_steered_rate_is_multiplied_by_its_factor(watched):
    record = watched[0].record
    steered = record.assign(learning_rate_factor=("step", [math.nan, 1.0, 2.0, 2.0, 4.0]))
    np.testing.assert_allclose(read_curves(steered)[0].rate, [0.1, 0.2, 0.2, 0.4])


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"step": [0, math.nan], "loss": [1.0, 2.0]}, "steps must be finite, but in run record 2 has the step nan"),
        ({"step": [0, math.inf], "loss": [1.0, 2.0]}, "record 2 has the step inf"),
        ({"step": [0, None], "loss": [1.0, 2.0]}, "record 2 has the step nan"),
        ({"step": [0, 5, 4], "loss": [1.0, 2.0, 3.0]}, r"step 4 follows step 5 \(record 3\)"),
        ({"step": [0, 0], "loss": [1.0, 2.0]}, r"step 0 follows step 0 \(record 2\)"),
        ({"step": [0, 1], "loss": [1.0, "two"]}, "column 'loss' of run must hold numbers, one at each step, got 'two'"),
        ({"step": ["0", "1"], "loss": [1.0, 2.0]}, "column 'step' of run must hold numbers, .* got '0'"),
        ({"step": [0, 1], "loss": [[1.0], [2.0]]}, r"got list of shape \(2, 1\)"),
        ({"step": [0, 1], "loss": [True, False]}, "must hold numbers"),
        ({"step": [0, 1], "loss": 1.0}, r"got float of shape \(\)"),
        ({"step": [0, 1], "loss": [1.0]}, "'loss' has 1 entries and 'step' 2"),
        ({"step": [], "loss": []}, "run holds no record of 'loss': is the log empty?"),
        ({"step": [0], "loss": [None]}, "run holds no record of 'loss'"),
        ({"step": [0], "loss": [math.nan]}, "run holds no finite value of 'loss'"),
        ({"loss": [1.0]}, "run must have a column of steps .* it has loss"),
        ({}, "run must have a column of steps .* it has no columns"),
        ({"step": [0], "accuracy": [1.0]}, "which has accuracy; 'loss' fits none"),
        ({"step": [0], "a/loss": [1.0], "b/loss": [1.0]}, "'loss' fits several: a/loss, b/loss; ask for one of them"),
        ({"step": [0], "loss": [1.0], "lr": [-0.1]}, "learning rates must be finite and at least 0, run has -0.1"),
        (5, "run must be a watched run, a record, .* got int"),
        (None, "got NoneType"),
        (xr.Dataset({"loss": ("time", [1.0])}), "this record must have a coordinate step"),
        (xr.Dataset(coords={"step": [0, 1]}), r"this record holds over steps \(\), got 'loss'"),
        (
            xr.Dataset({"loss": ("step", [2.0, 1.0])}, coords={"step": [1, 1]}),
            r"in this record step 1 follows step 1 \(record 2\)",
        ),
        (xr.Dataset({"loss": ("step", ["a", "b"])}, coords={"step": [0, 1]}), "this record must hold numbers of loss"),
        (SimpleNamespace(), "got SimpleNamespace"),
    ],
)
def test_what_is_no_curve_is_refused(run, message):
    with pytest.raises(ValueError, match=message):
        read_curves(run)


@pytest.mark.parametrize("quantity", ["", 5, ["loss"]])
def test_a_quantity_that_is_no_name(quantity):
    with pytest.raises(ValueError, match="quantity must be the name of what is forecast"):
        read_curves({"step": [0], "loss": [1.0]}, quantity)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"step,loss\n", "holds no record of 'loss'"),
        ("a.csv", b"\xff\xfe\x00", "is no text"),
        ("a.csv", b'step,loss\n"0,1\n', "is no table of comma-separated values"),
        ("a.csv", b"step,loss\n0,1,2\n", "has 2 columns, but row 1 has 3 entries"),
        ("a.csv", b"step,loss,loss\n0,1,2\n", "must name each column once, got step, loss, loss"),
        ("a.csv", b"step,loss\n0,one\n", "got 'one'"),
        ("a.csv", b"step,accuracy\n0,1\n", "which has accuracy; 'loss' fits none"),
        ("a.json", b"{", "is no JSON text"),
        ("a.json", b"[" * 100_000, "is no JSON text"),
        ("a.json", b"5", "must hold lists by name"),
        ("a.json", b"{}", "must hold lists by name"),
        ("a.json", b'{"log_history": 5}', "must hold lists by name"),
        ("a.json", b"[]", "is empty"),
        ("a.json", b"[1]", "row 1 is '1'"),
        ("a.jsonl", b'{"step": 0}\nnothing\n', "line 2 is none"),
        ("a.jsonl", b"step,loss\n0,1\n", "line 1 is none"),
        ("a.nc", b"no record", "is not a dynascope record"),
        ("a.xlsx", b"table", "must be a log in a .csv, .json or .jsonl file"),
        ("events.out.tfevents.1", b"no events", "holds no scalars"),
    ],
)
def test_a_file_that_is_not_what_it_says(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        read_curves(path)
    assert repr(str(path)) in str(raised.value)


def test_places_without_a_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        read_curves(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="holds no run: neither a journal of watch, nor event files"):
        read_curves(tmp_path)
    _events(tmp_path / "first", {"loss": LOSS})
    with pytest.raises(ValueError, match="name the folder of one run: first"):
        read_curves(tmp_path)


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path):
    path = _lines(tmp_path / "a.jsonl", _rows())
    path.write_text(path.read_text() + '{"step": 50, "lo')
    assert read_curves(path)[0].step.tolist() == STEP


odd = st.sampled_from([None, "", "a", "1", True, [1.0], math.nan, math.inf, -1.0, 1e308, 2**70])
entries = st.lists(st.one_of(st.floats(0, 9), st.floats(0, 9), st.floats(0, 9), odd), min_size=3, max_size=3)
steps = st.one_of(st.just([0, 1, 2]), st.just([0.5, 1e6, 1e9]), entries)
columns = st.fixed_dictionaries(
    {}, optional={"step": steps, "Epoch": steps, "loss": entries, "b/Loss": entries, "lr": entries}
)


@given(columns)
def test_odd_columns_are_read_or_refused(content):
    try:
        (curve,) = read_curves(content)
    except ValueError:
        return
    assert np.all(np.diff(curve.step) > 0)
    assert np.isfinite(curve.step).all()
    assert len(curve.step) == len(curve.value) > 0
    assert curve.rate is None or (len(curve.rate) == len(curve.step) and np.isfinite(curve.rate).all())
