"""What a person sees of a run: tables, sentences, pictures; and the examples."""

import importlib.util
import io
import json
import runpy
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from dynascope import cli, watch
from dynascope.monitor import compare, examine, open_run, show, verdicts
from dynascope.monitor.reading import assemble
from dynascope.plots.watch import plot_watched
from dynascope.report import watch_report
from networks import mlp, train, vectors

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    model = mlp()
    with watch(model, probe=vectors(), every=20, slow=2, out=place) as run:
        train(model, vectors(), 100, after=lambda loss: run.step(loss=loss))
    return place


def _call(*arguments):
    done = CliRunner().invoke(cli.app, [str(each) for each in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return " ".join(done.output.split())


def test_show_prints_tables_and_one_sentence_per_verdict(folder):
    for place in (folder, folder / "record.nc"):
        shown = _call("show", place)
        assert "a run of 6 measurements up to step 100, 3 layers" in shown
        for word in ("0 Linear", "NC1", "κ", "load now"):
            assert word in shown
        for source in ("spring-block (3)", "layerwise (2.8)", "Papyan", "Theorem 3.1"):
            assert source in shown
        assert shown.count("Law:") == shown.count("Source:") == shown.count("; holds for ")
        assert shown.count("Law:") >= 4
    assert '"loads"' in _call("show", folder, "--json")


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_digits_are_not_cut_in_a_narrow_terminal(folder, width):
    record = open_run(folder)
    record["nc1"][:] = 1.0712345e-05
    console = Console(width=width, record=True, file=io.StringIO())
    show.print_run(record, console)
    shown = console.export_text()
    assert "…" not in shown
    assert shown.count("1.07e-05") >= record.sizes["step"]
    for title in ("accuracy", "between", "shape", "work now"):
        assert title in shown


def test_json_holds_verdicts_and_final_values(folder):
    held = json.loads(CliRunner().invoke(cli.app, ["show", str(folder), "--json"]).output)
    assert held["health"]["verdict"] == "nothing found so far"
    assert held["health"]["line"] == examine(open_run(folder)).line
    assert "training=" in held["health"]["not_judged"]["probe leak"]
    assert [each["subject"] for each in held["verdicts"]][:1] == ["load"]
    assert held["final"]["probe_loss"] == pytest.approx(float(open_run(folder)["probe_loss"][-1]))
    assert set(held["final"]["loads"]) == {"input", "0 Linear", "4 Linear"}


def test_json_holds_what_is_wrong_with_a_run(tmp_path):
    with watch(mlp(), probe=vectors(), every=1, slow=0, out=tmp_path) as run:
        run.step(loss=1.0)
        run.step(loss=float("nan"))
    health = json.loads(CliRunner().invoke(cli.app, ["show", str(tmp_path), "--json"]).output)["health"]
    assert (health["verdict"], health["step"]) == ("diverged", 2)
    (found,) = health["findings"]
    assert (found["name"], found["step"], found["evidence"]) == ("diverged", 2, "training loss not finite")
    assert "below 5 times that of the start" in found["bound"]


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    place = tmp_path_factory.mktemp("other")
    torch.manual_seed(1)
    model = mlp()
    with watch(model, probe=vectors(), every=25, slow=0, out=place) as run:
        train(model, vectors(), 100, after=lambda loss: run.step(loss=loss))
    return place


def test_runs_side_by_side(folder, other):
    shown = _call("show", folder, other)
    assert f"{folder.name} {other.name}" in shown
    assert "steps 100 100" in shown
    values = json.loads(CliRunner().invoke(cli.app, ["show", str(folder), str(other), "--json"]).output)
    assert set(values) == {str(folder), str(other)}


def test_compare_puts_runs_into_one_record(folder, other):
    both = compare(folder, other)
    assert both["run"].values.tolist() == [folder.name, other.name]
    assert both["step"].values.tolist() == [0, 20, 25, 40, 50, 60, 75, 80, 100]
    one = open_run(other)
    np.testing.assert_array_equal(
        both["loads"].sel(run=other.name, step=[0, 25, 100]), one.loads.sel(step=[0, 25, 100])
    )
    assert compare(open_run(folder), one)["run"].values.tolist() == ["run 1", "run 2"]
    with pytest.raises(ValueError, match="runs must be two or more to be compared, got 1"):
        compare(folder)


def test_runs_below_a_folder_are_listed(folder, tmp_path):
    def listed():
        found = json.loads(CliRunner().invoke(cli.app, ["runs", str(tmp_path), "--json"]).output)
        return [(each["status"], each["step"]) for each in found]

    shutil.copytree(folder, tmp_path / "a" / "first")
    run = watch(mlp(), probe=vectors(), every=1, slow=0, out=tmp_path / "second")
    assert tmp_path.name in _call("runs", tmp_path)
    assert listed() == [("finished", 100), ("live", 0)]
    run.close(last=False)  # as where training fails
    assert listed() == [("finished", 100), ("stopped", 0)]
    (tmp_path / "empty").mkdir()
    assert "no watched run in" in _call("runs", tmp_path / "empty")


def test_a_run_is_followed_to_its_end(tmp_path, monkeypatch):
    run = watch(mlp(), probe=vectors(), every=1, slow=0, out=tmp_path)
    left = [run.step, run.step, run.close]
    monkeypatch.setattr(time, "sleep", lambda _pause: left.pop(0)())
    shown = _call("show", tmp_path, "--follow")
    for count in ("1 measurement up", "2 measurements up", "3 measurements up"):
        assert f"a run of {count} to step" in shown
    assert shown.endswith("this run is finished")


def test_a_run_as_one_tidy_table(folder):
    record = open_run(folder)
    table = record.to_pandas()
    assert list(table) == ["step", "time", "name", "layer", "class", "source", "feature", "weight", "bound", "value"]
    loads = table[table["name"] == "loads"].pivot(index="step", columns="layer", values="value")
    np.testing.assert_array_equal(loads[list(record["layer"].values)], record.loads)
    assert table["value"].notna().all()


def test_a_run_in_a_notebook(folder):
    with watch(mlp(), probe=vectors(), every=1, slow=0) as run:
        run.step()
    for page in (run._repr_html_(), open_run(folder)._repr_html_()):
        assert "<td>0 Linear</td>" in page
        assert "The load curve is" in page


@pytest.mark.ci
def test_report_is_one_file_with_pictures(folder, tmp_path):
    assert "report.html" in _call("report", folder)
    page = (folder / "report.html").read_text()
    assert page.count("<img") == 1
    assert "://" not in page  # nothing is loaded from elsewhere; letters alone may occur in a picture
    assert "spring-block (3)" in page
    _call("report", folder / "record.nc", "--out", tmp_path / "other.html")
    assert (tmp_path / "other.html").exists()
    _call("show", folder, "--out", tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 10_000


def test_report_refuses_what_was_not_watched(tmp_path):
    _call("simulate", "spring-block", "--duration", "1", "--trials", "2", "--out", tmp_path / "a.nc")
    done = CliRunner().invoke(cli.app, ["report", str(tmp_path / "a.nc")])
    assert "must be one that was watched, got a record of SpringBlock" in str(done.exception)


def _record(**numbers):
    start = {"kind": "start", "layers": ["input", "a", "b", "c"], "classes": [0, 1], "settings": {}, "device": "cpu"}
    return assemble([start, {"kind": "measure", "step": 3, "time": 1.0, "numbers": numbers}])


@pytest.mark.parametrize(
    ("numbers", "subject", "words"),
    [
        ({"load": [3.0, 2.0, 1.0, 0.0]}, "load", "is linear (bend +0.00, R² of a line 1.00)"),
        ({"load": [3.0, 2.9, 2.5, 0.0]}, "load", "is concave"),
        ({"load": [3.0, 0.5, 0.1, 0.0]}, "load", "is convex"),
        ({"load": [3.0, 2.0, 2.1, 0.0]}, "idle layers", "add little separation of classes on this probe: b"),
        ({"nc1": 0.01, "nc2_angle": 0.02}, "collapse", "Classes have collapsed to points of a simplex"),
        ({"nc1": 0.01, "nc2_angle": 0.5}, "collapse", "do not yet form a simplex"),
        ({"nc1": 2.0, "nc2_angle": 0.5}, "collapse", "have not collapsed"),
        ({"minimum_feature_distance": 0.05}, "features", "the fewest features"),
        ({"minimum_feature_distance": 0.5}, "features", "more features than its outputs need"),
        ({"intra": 0.8, "inter": 0.2}, "elasticity", "moves its own class more than others"),
        ({"intra": 0.8, "inter": 0.8}, "elasticity", "moves all classes about alike"),
        ({"intra": 0.2, "inter": 0.8}, "elasticity", "moves other classes more than its own"),
    ],
)
def test_verdicts_follow_the_numbers(numbers, subject, words):
    found = {each.subject: each.finding for each in verdicts(_record(**numbers))}
    assert words in found[subject]
    assert "nan" not in found[subject], "numbers that a journal lacks are left out"


def test_verdicts_are_a_function_whatever_was_imported_before():
    importlib.import_module("dynascope.monitor.judging")
    assert callable(importlib.import_module("dynascope.monitor").verdicts)


def test_no_verdict_on_what_is_not_finite():
    assert verdicts(_record(load=[1.0, np.nan, 0.5, 0.1], nc1=np.nan, intra=np.nan)) == []


def test_too_few_samples_are_named():
    start = {"kind": "start", "layers": ["input"], "classes": [0, 1], "device": "cpu"}
    start["settings"] = {"samples": 50, "width": 512}
    numbers = {"load": [1.0], "minimum_feature_distance": 0.05}
    record = assemble([start, {"kind": "measure", "step": 0, "time": 0.0, "numbers": numbers}])
    assert "here 50 samples of 512 features: κ is too low" in verdicts(record)[-1].sentence


def test_pictures_of_a_run_cut_short():
    assert plot_watched(_record(load=[3.0, 2.0, 1.0, 0.0])) is not None
    with pytest.raises(ValueError, match="must hold a finished measurement"):
        plot_watched(_record())
    assert "Findings" in watch_report(_record(load=[3.0, 2.0, 1.0, 0.0]))


def _over(steps, **numbers):
    start = {"kind": "start", "layers": ["input", "a"], "classes": [0, 1], "settings": {}, "device": "cpu"}
    start["skipped"] = {"b": "no floating-point tensor"}
    entries = [
        {"kind": "measure", "step": int(step), "time": 0.0, "numbers": {"load": [2.0, 1.0], **numbers}}
        for step in steps
    ]
    return assemble([start, *entries])


@pytest.mark.parametrize(("steps", "scale"), [(range(0, 1001, 100), "linear"), ([0, 1, 3, 10, 30, 100], "symlog")])
def test_the_axis_of_steps_follows_the_records(steps, scale):
    figure = plot_watched(_over(steps, probe_loss=0.5, probe_accuracy=0.9, train_loss=0.4))
    _, loss, accuracy = figure.axes[:3]
    assert loss.get_xscale() == scale
    assert (loss.get_yscale(), accuracy.get_yscale()) == ("log", "linear")
    assert [text.get_text() for text in loss.texts] == ["train loss", "probe"]  # beside the ends, from below
    assert all(axes.get_legend() is None for axes in figure.axes)


def test_names_of_lines_do_not_cover_each_other():
    figure = plot_watched(_over([0, 1, 2], **dict.fromkeys(["nc1", "nc2_norm", "nc2_angle", "nc3", "nc4"], 0.5)))
    heights = [text.get_position()[1] for text in figure.axes[1].texts]
    assert np.diff(sorted(heights)).min() > 0.05


def test_the_report_has_the_layers_and_what_was_not_measured():
    page = watch_report(_over([0, 1]))
    assert "<td>a</td><td>1</td><td>1</td><td>1</td>" in page
    assert "not measured: b (no floating-point tensor)" in page


def _needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


@pytest.mark.parametrize(
    "name",
    [
        "watch_plain",
        pytest.param("watch_lightning", marks=[_needs("lightning"), pytest.mark.ci]),
        pytest.param("watch_lightning_resume", marks=[_needs("lightning"), pytest.mark.ci]),
        pytest.param("watch_huggingface", marks=[_needs("transformers", "accelerate"), pytest.mark.ci]),
    ],
)
@pytest.mark.filterwarnings("default")
def test_examples_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(tmp_path / "run"), "50"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert "input" in capsys.readouterr().out or name == "watch_huggingface"
    assert "load" in _call("show", tmp_path / "run")


def test_a_run_too_short_for_slow_measures_says_so(tmp_path):
    with watch(mlp(), probe=vectors(), out=tmp_path, max_overhead=1e-9) as run:
        run.step()
    assert "no time for them within max_overhead" in _call("show", tmp_path)
