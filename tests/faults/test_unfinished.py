"""What a killed program left half done is done again, and nothing passes for finished that is not."""

import json
import os
import platform
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from dynascope import load, plots, report, results, save
from dynascope.cli import imitate as imitating
from dynascope.experiments.experiment import Experiment
from dynascope.files import scratch_folder, write_text
from dynascope.imitation import pipeline
from dynascope.plots.figures import new_figure
from dynascope.records import digest
from dynascope.results import Result, finished, load_result, save_result
from dynascope.sweep import sweep
from dynascope.sweep.folder import SweepFolder

NAME = "spring_block/data_separation"


@pytest.fixture
def commit(monkeypatch):
    """All results are of one commit."""
    monkeypatch.setattr(results, "source_commit", lambda: "abc")


@pytest.mark.ci
def test_an_experiment_without_its_pictures_is_not_finished(tmp_path, commit, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "save_figure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report.reproduce(NAME, "smoke", tmp_path)
    assert (tmp_path / NAME / "smoke" / "record.nc").exists()
    assert finished(tmp_path, NAME, "smoke") is None


def test_a_claim_that_cannot_be_judged_does_not_lose_the_run(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Experiment, "judge", broken)
    with pytest.raises(ZeroDivisionError):
        report.reproduce("spring_block/left_friction", "smoke", tmp_path)
    assert load(tmp_path / "spring_block/left_friction/smoke/record.nc").attrs["scale"] == '"smoke"'
    assert finished(tmp_path, "spring_block/left_friction", "smoke") is None


def test_a_result_with_a_changed_digit_is_refused_and_run_again(tmp_path, commit):
    folder = tmp_path / NAME / "smoke"
    path = save_result(Result(NAME, "t", "s", "smoke", (), seconds=12.5, commit="abc"), folder)
    assert finished(tmp_path, NAME, "smoke").seconds == 12.5
    path.write_text(path.read_text().replace("12.5", "13.5"))
    with pytest.raises(ValueError, match="does not match the sum at its end"):
        load_result(path)
    with pytest.warns(RuntimeWarning, match=f"{NAME} is run again"):
        assert finished(tmp_path, NAME, "smoke") is None


@pytest.mark.ci
def test_pages_are_made_beside_what_a_killed_program_left(tmp_path, commit):
    folder = tmp_path / "found" / NAME / "smoke"
    save_result(Result(NAME, "t", "s", "smoke", ()), folder)
    place = tmp_path / "pages" / results.KEPT
    place.mkdir(parents=True)
    (place / f".a.another-machine-7-{uuid.uuid4().hex}.json").write_text('{"na')
    assert results.publish_results([tmp_path / "found"], tmp_path / "pages").exists()


def test_a_plan_with_a_changed_digit_is_refused(tmp_path):
    sweep(lambda x: {"y": 2 * x}, {"x": [1.0, 3.0]}, tmp_path, scheduler="here")
    plan = tmp_path / "sweep.json"
    assert json.loads(plan.read_text())["axes"] == {"x": [1.0, 3.0]}
    plan.write_text(plan.read_text().replace("3.0", "7.0", 1))
    with pytest.raises(ValueError, match="does not match the sum at its end; run the sweep again"):
        SweepFolder(tmp_path).read_plan()


def fragile(x):
    if os.environ.get("BROKEN"):
        raise RuntimeError("broken for now")
    return {"y": 2 * x}


def test_a_failure_that_was_mended_does_not_outlive_a_kill(tmp_path, monkeypatch):
    unlink = Path.unlink

    def killed(path, *arguments, **options):
        if path.parent.name == "failures":
            raise KeyboardInterrupt
        unlink(path, *arguments, **options)

    monkeypatch.setenv("BROKEN", "yes")
    with pytest.warns(RuntimeWarning, match="1 of 1 tasks failed"):
        sweep(fragile, {"x": [1.0]}, tmp_path, scheduler="here")
    monkeypatch.delenv("BROKEN")
    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        sweep(fragile, {"x": [1.0]}, tmp_path, scheduler="here", retry=True)
    monkeypatch.undo()
    assert sweep(fragile, {"x": [1.0]}, tmp_path, scheduler="here")["y"].item() == 2.0
    assert os.listdir(tmp_path / "failures") == []


def test_a_sweep_that_is_stopped_before_its_plan_says_so(command, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dynascope.cli.sweep.run_sweep", stopped)
    code, _, err = command("sweep", "spring-block", "--grid", "noise=0,1", "--scheduler", "here")
    assert code == 130
    assert "stopped: nothing was begun; the same command goes on" in " ".join(err.split())


def test_pictures_of_another_imitation_are_drawn_again(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "plot_imitation", lambda result: new_figure()[0])
    monkeypatch.setattr(report, "imitation_report", lambda result, figure: digest(result))
    first, second = (xr.Dataset({"a": value}) for value in (1.0, 2.0))
    page = imitating._draw(first, tmp_path)["report"]
    drawn = page.stat().st_mtime_ns
    imitating._draw(first, tmp_path)
    assert page.stat().st_mtime_ns == drawn
    imitating._draw(second, tmp_path)  # as if killed after the record and before the pictures
    assert page.read_text() == digest(second)


def test_a_damaged_imitation_is_made_again(tmp_path, monkeypatch):
    times = np.arange(30.0)
    means = xr.DataArray(
        np.ones((2, 30, 3, 3)), dims=("trial", "time", "class", "feature"), coords={"time": times}, name="class_mean"
    )
    monkeypatch.setattr(pipeline, "imitate", lambda *_, **__: xr.Dataset({"a": 1.0}))
    pipeline.imitate_to(tmp_path, means)
    place = tmp_path / "imitation.nc"
    place.write_bytes(place.read_bytes()[:-100])
    with pytest.warns(RuntimeWarning, match="it is made again"):
        assert not pipeline.imitate_to(tmp_path, means)[1]
    assert load(place)["a"] == 1.0


def test_folders_of_killed_programs_are_removed_and_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import os, tempfile; from dynascope.files import scratch_folder\n"
        f"tempfile.tempdir = {str(tmp_path)!r}\n"
        "with scratch_folder('a') as folder: (folder / 'key.pem').touch(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    elsewhere = f".a.another-machine-99999999-{uuid.uuid4().hex}"
    (tmp_path / elsewhere).mkdir()
    assert len(os.listdir(tmp_path)) == 2
    with scratch_folder("a") as folder:
        sweep(fragile, {"x": [1.0]}, tmp_path / "out", scheduler="here")
        assert sorted(os.listdir(tmp_path)) == sorted([elsewhere, folder.name, "out"])
    assert sorted(os.listdir(tmp_path)) == sorted([elsewhere, "out"])


def test_links_among_leftovers_are_removed_and_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    save(xr.Dataset({"a": 1.0}), tmp_path / "precious" / "run.nc")
    (tmp_path / f".a.{platform.node()}-99999999-{uuid.uuid4().hex}").symlink_to(tmp_path / "precious")
    write_text(tmp_path / "b.txt", "hello")
    assert load(tmp_path / "precious" / "run.nc")["a"] == 1.0
