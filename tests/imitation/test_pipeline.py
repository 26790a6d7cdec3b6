"""From the command line to files, and on after an interruption."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dynascope import cli, load
from dynascope.imitation import pipeline
from dynascope.imitation.pipeline import Training, images_of, train
from dynascope.networks.recording import Course
from dynascope.networks.training import Trainer

SMALL = ["imitate", "--trials", "3", "--steps", "60", "--per-class", "6"]


def invoke(*words):
    done = CliRunner().invoke(cli.app, [*map(str, words)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@pytest.mark.ci
def test_an_interrupted_command_goes_on_and_does_nothing_twice(tmp_path, monkeypatch):
    whole = train(Training(trials=3, steps=60, per_class=6), tmp_path / "whole", progress=False)

    folder, steps = tmp_path / "cut", []
    measure, advance = Course._measure, Trainer.advance

    def cut(self, trainer, *probes):
        if trainer.steps_done >= 40 and len(steps) < 60:
            self._save(trainer)
            raise KeyboardInterrupt
        measure(self, trainer, *probes)

    def counted(self, number):
        steps.extend(range(self.steps_done, self.steps_done + number))
        advance(self, number)

    monkeypatch.setattr(Course, "_measure", cut)
    monkeypatch.setattr(Trainer, "advance", counted)
    with pytest.raises(KeyboardInterrupt):
        train(Training(trials=3, steps=60, per_class=6), folder, progress=False)
    assert steps == list(range(40))
    monkeypatch.setattr(Course, "_measure", measure)
    output = invoke(*SMALL, "--geometry", "logits,kernel", "--out", folder)
    assert steps == list(range(60))  # each step once
    assert load(folder / "networks.nc").drop_attrs().identical(whole.drop_attrs())
    assert "noise floor" in output
    assert "closest on networks that it was not fitted to" in output
    assert "best forecast" not in output  # class means are forecast no better than by a straight line

    times = {name: (folder / name).stat().st_mtime_ns for name in ("imitation.nc", "imitation.png", "report.html")}
    monkeypatch.setattr(pipeline, "imitate", None)  # what is finished is not computed again
    again = json.loads(invoke(*SMALL, "--geometry", "logits,kernel", "--out", folder, "--json"))
    assert steps == list(range(60))
    assert {name: (folder / name).stat().st_mtime_ns for name in times} == times
    assert [row["model"] for row in again["table"]] == [
        "noise floor",
        "persistence",
        "isotropic",
        "trend",
        "logits",
        "kernel",
    ]
    page = (folder / "report.html").read_text()
    assert "data:image/png;base64" in page
    assert "noise floor" in page


@pytest.mark.ci
def test_a_recorded_run_is_taken_in_place_of_training(tmp_path):
    train(Training(trials=2, steps=60, per_class=6), tmp_path / "a", progress=False)
    output = invoke("imitate", tmp_path / "a" / "networks.nc", "--geometry", "isotropic", "--out", tmp_path / "b")
    assert not (tmp_path / "b" / "networks.nc").exists()
    assert str(tmp_path / "b" / "report.html").split("/")[-1] in output
    invoke("show", tmp_path / "b" / "imitation.nc", "--out", tmp_path / "again.png")
    assert (tmp_path / "again.png").stat().st_size > 10_000


@pytest.mark.ci
def test_another_training_in_the_same_folder_is_refused(tmp_path):
    train(Training(trials=2, steps=40, per_class=4), tmp_path, progress=False)
    with pytest.raises(ValueError, match="belongs to another run"):
        train(Training(trials=2, steps=40, per_class=5), tmp_path, progress=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data": "imagenet"}, "data must be one of geomnist"),
        ({"trials": 0}, "trials must be a whole number"),
        ({"steps": 10}, "steps must be a whole number of at least 40"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_training_is_refused_before_any_work(options, words):
    with pytest.raises(ValueError, match=words):
        Training(**options)


def test_small_images_are_widened_to_what_the_network_takes():
    pytest.importorskip("sklearn")
    x, y, (probe, labels) = images_of(Training(data="digits", per_class=5))
    assert x.shape == (15, 1, 32, 32)
    assert probe.shape[1:] == (1, 32, 32)
    assert sorted(set(y.tolist())) == sorted(set(labels.tolist())) == [0, 1, 2]
    assert np.array_equal(x[:, :, ::4, ::4], x[:, :, 3::4, 3::4])  # each pixel four times
