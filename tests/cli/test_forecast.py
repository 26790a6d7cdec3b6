"""`dynascope forecast`: what it prints, what it writes, how it ends."""

import json

import numpy as np
import pytest
import xarray as xr

from dynascope import load, save

STEP = np.arange(0, 1000, 20)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log of 50 records in the current folder."""
    monkeypatch.chdir(tmp_path)
    loss = 2 + 3 * (STEP + 30.0) ** -0.4 + 0.01 * np.random.default_rng(0).standard_normal(50)
    rows = "".join(f"{step},{value},0.1\n" for step, value in zip(STEP, loss, strict=True))
    (tmp_path / "log.csv").write_text("step,train/loss,lr\n" + rows)
    return "log.csv"


def test_a_table_a_sentence_and_files(command, log, tmp_path):
    code, out, _ = command("forecast", log, "--until", "2000", "--reach", "2.18", "--schedule", "wsd:1500")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["step", "2.5%", "10%", "50%", "90%", "97.5%", "reached"]
    result = load(tmp_path / "results" / "forecast" / "forecast.nc")
    ends = result["loss"].sel(quantile=[0.025, 0.1, 0.5, 0.9, 0.975]).values[-1]
    assert [float(each) for each in lines[8].split()[1:6]] == pytest.approx(ends, rel=1e-4)
    assert lines[9] == result.attrs["sentence"]
    assert lines[10].startswith("by: ")
    for name in ("forecast.png", "forecast.svg"):
        assert (tmp_path / "results" / "forecast" / name).stat().st_size > 5000


def test_its_record_can_be_shown_and_drawn_again(command, log, tmp_path):
    command("forecast", log, "--out", "here")
    assert "candidate" in command("show", "here/forecast.nc")[1]
    for name in ("again.png", "again.html"):
        assert command("show", "here/forecast.nc", "--out", name)[0] == 0
        assert (tmp_path / name).stat().st_size > 5000


def test_json(command, log):
    code, out, _ = command("forecast", log, "--quantity", "train/loss", "--out", "here", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["step"][-1] == 1960
    assert np.shape(found["train/loss"]) == (40, 7)
    assert all(0.05 < weight <= 1 for weight in found["weights"].values())
    assert found["files"] == {"record": "here/forecast.nc", "picture": "here/forecast.png"}


def test_what_is_refused_is_no_error(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("step,loss\n0,2\n1,1\n")
    code, out, _ = command("forecast", "log.csv")
    assert code == 0
    assert "no forecast (too short: loss has 2 records, 6 are needed)" in out


def test_trials_are_rows(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = 2 + np.exp(-STEP / 300.0) * np.arange(1, 9)[:, None]
    save(xr.Dataset({"train_loss": (("trial", "step"), values)}, {"step": STEP}), "runs.nc")
    code, out, _ = command("forecast", "runs.nc", "--reach", "2.01")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:9]] == ["trial", *"01234567"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.csv"], "missing.csv"),
        (["log.csv", "--until", "5"], "until must be above 980"),
        (["log.csv", "--until", "nan"], "until must be finite"),
        (["log.csv", "--quantity", "accuracy"], "quantity must name one column"),
        (["log.csv", "--schedule", "quadratic"], "schedule must be one of"),
        (["log.csv", "--like", "nowhere"], "nowhere"),
        (["log.csv", "--out", "/proc/no"], "cannot be written"),
    ],
)
def test_bad_use_ends_with_2_and_leaves_nothing(command, log, words, message, tmp_path):
    code, _, err = command("forecast", *words)
    assert code == 2
    assert message in " ".join(err.split())
    assert [each.name for each in tmp_path.iterdir()] == [log]
