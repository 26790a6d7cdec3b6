"""Records that lack what a number rests on are refused, not guessed at."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from dynascope import LocallyElastic, SpringBlock, save


@pytest.mark.ci
def test_no_clock_no_chain(tmp_path, command):
    run = SpringBlock(noise=0.02).simulate(5.0, trials=2, save_points=21)
    load = run["load"]
    for clock, code in ((True, (0, 1)), (False, (2,))):
        kept = load if clock else load.drop_vars("time")
        save(kept.to_dataset(name="load").drop_attrs(), tmp_path / "run.nc")
        found, _, err = command("estimate", "spring-block", tmp_path / "run.nc")
        assert found in code
        assert clock or "coordinate time" in err


def test_no_clock_no_strengths(tmp_path, command):
    means = LocallyElastic(noise=0.01).simulate(duration=5.0, samples=5, trials=6)["class_mean"]
    save(means.drop_vars("time").to_dataset(name="class_mean").drop_attrs(), tmp_path / "run.nc")
    code, _, err = command("estimate", "elastic", tmp_path / "run.nc")
    assert code == 2
    assert "coordinate time" in " ".join(err.split())


def test_an_estimate_that_is_not_ok_says_so_by_its_exit_status(tmp_path, command):
    still = xr.Dataset({"load": (("time", "layer"), np.ones((9, 1)) * [3.0, 2.0, 1.0])}, {"time": np.arange(9.0)})
    save(still, tmp_path / "run.nc")
    code, out, _ = command("estimate", "spring-block", tmp_path / "run.nc")
    assert code == 1
    assert "not ok: nothing moves" in " ".join(out.split())


@pytest.mark.parametrize("name", ["spring-block", "elastic"])
def test_files_that_are_no_records(tmp_path, command, name):
    for file, content in (("a.nc", b""), ("b.nc", b"\x89HDF\r\n\x1a\n"), ("c.npz", b"PK\x03\x04"), ("d.npz", b"")):
        (tmp_path / file).write_bytes(content)
        code, out, err = command("estimate", name, tmp_path / file)
        assert code == 2
        assert file in err
        assert "Traceback" not in out + err


@pytest.mark.parametrize(
    "change",
    [
        {"claims": 3},
        {"claims": [3]},
        {"claims": [{"id": "a", "source": "s", "statement": "x", "verdict": "splendid"}]},
        {"seconds": "long"},
        {"name": ["a"]},
        None,
    ],
)
def test_results_that_hold_something_else(tmp_path, command, change):
    content = {"name": "spring_block/left_friction", "title": "t", "source": "s", "scale": "laptop", "claims": []}
    (tmp_path / "result.json").write_text("[]" if change is None else json.dumps(content | change))
    code, out, err = command("results", tmp_path, "--out", tmp_path / "out")
    assert code == 2
    assert "result.json" in err
    assert "Traceback" not in out + err


def test_results_write_no_markup_of_theirs(tmp_path, command):
    content = {"name": "spring_block/left_friction", "title": "<b>", "source": "<script>", "scale": "laptop"}
    content |= {"claims": [], "hardware": "<script>alert(1)</script>", "commit": "<i>", "adapted": "<b>"}
    (tmp_path / "result.json").write_text(json.dumps(content))
    (tmp_path / "small.png").write_bytes(b"")
    code, _, err = command("results", tmp_path, "--out", tmp_path / "out")
    assert code == 0, err
    for page in ("README.md", "gallery.md"):
        text = (tmp_path / "out" / page).read_text()
        assert "<script" not in text
        assert "<b>" not in text
        assert "<i>" not in text


STEPS = {"step": np.arange(3)}


@pytest.mark.parametrize(
    "run",
    [
        xr.Dataset({"loads": ("step", [1.0, 2.0, 3.0])}, STEPS),
        xr.Dataset({"probe_loss": ("step", list("abc"))}, STEPS),
        xr.Dataset({"probe_loss": ("step", [1.0, 2.0, 3.0])}, {"step": list("abc")}),
        xr.Dataset({"probe_loss": ("step", [1.0, 2.0, 3.0])}),
        xr.Dataset({"probe_loss": ("step", [1.0, 2.0, 3.0])}, STEPS, attrs={"options": "[]"}),
        xr.Dataset({"probe_loss": ("step", [1.0, 2.0, 3.0])}, STEPS, attrs={"parameters": '{"classes": 3}'}),
    ],
)
def test_records_that_are_no_watched_runs(tmp_path, command, run):
    save(run.assign_attrs(model='"watch"'), tmp_path / "run.nc")
    for words in (["show"], ["show", "--out", "a.png"], ["report"]):
        code, _, err = command(words[0], tmp_path / "run.nc", *words[1:])
        assert code == 2
        assert "run.nc" in err
        assert any(
            words in " ".join(err.split()) for words in ("did not write it", "holds something that cannot be used")
        )


def test_names_are_no_markup(tmp_path, command):
    named = xr.Dataset({"[red]": ("[bold]", [1.0, 2.0])}, attrs={"model": '"[/bold]"', "[/a]": "[/b]"})
    save(named, tmp_path / "run.nc")
    code, out, _ = command("show", tmp_path / "run.nc")
    assert code == 0
    assert all(word in out for word in ("[red]", "[bold]", "[/bold]", "[/a]", "[/b]"))


@pytest.mark.ci
def test_class_means_that_never_move(tmp_path, command):
    still = xr.DataArray(np.ones((6, 30, 3, 3)), dims=("trial", "time", "class", "feature"))
    save(still.assign_coords(time=np.arange(30.0)).to_dataset(name="class_mean"), tmp_path / "run.nc")
    for words in (["estimate", "elastic"], ["imitate", "--geometry", "logits"]):
        code, _, err = command(*words, tmp_path / "run.nc")
        assert code in (0, 1), err


def test_a_picture_that_is_no_file_is_refused_before_anything_is_written(command, tmp_path):
    shutil.copytree(Path(__file__).parents[2] / "docs" / "results" / "kept", tmp_path / "kept")
    (tmp_path / "run" / "small.png").mkdir(parents=True)
    shutil.copy(sorted((tmp_path / "kept").glob("*.json"))[0], tmp_path / "run" / "result.json")
    code, _, err = command("results", "run", "--out", "page")
    assert code == 2
    assert "must be a picture, it is no file" in err
    assert not (tmp_path / "page").exists()
