"""What a person sees of a run: tables, sentences, pictures; and the examples."""

import importlib.util
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from dynascope import cli, watch
from dynascope.monitor import verdicts
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
    assert '"load"' in _call("show", folder, "--json")


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


def _needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


@pytest.mark.parametrize(
    "name",
    [
        "watch_plain",
        pytest.param("watch_lightning", marks=[_needs("lightning"), pytest.mark.ci]),
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
