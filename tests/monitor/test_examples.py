"""The examples on sequences, as a user runs them; those of other packages where these are installed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dynascope.monitor import open_run

EXAMPLES = Path(__file__).parents[2] / "examples"


def _run(name, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.ci
def test_an_idle_layer_can_be_skipped_and_one_that_works_cannot(tmp_path):
    """A block that the optimiser was not given; the costs are measured again on text that nobody saw."""
    said = _run("watch_characters.py", tmp_path / "run")
    assert "idle: blocks.2\n" in said
    now = open_run(tmp_path / "run").isel(step=-1)
    costs = open_run(tmp_path / "run-fresh")["skip_cost"].isel(step=-1)
    high = now["skip_cost_interval"].sel(bound="high")
    assert costs.sel(layer="blocks.2") <= high.sel(layer="blocks.2")
    work = float(now["loads"][0] - now["loads"][-1])
    assert costs.sel(layer="blocks.2") < 0.1 * work
    busiest = str(now["layer"].values[1:][np.argmax(now["increment"].values[1:])])
    assert costs.sel(layer=busiest) > 0.5 * work
    assert now["skip_loss"].sel(layer=busiest) > 10 * now["skip_loss"].sel(layer="blocks.2")


@pytest.mark.ci
def test_language_model_in_the_trainer(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    _run("watch_language.py", tmp_path)
    record = open_run(tmp_path)
    assert record["layer"].values.tolist() == [
        "transformer.wte",
        "transformer.h.0",
        "transformer.h.1",
        "transformer.h.2",
    ]
    assert record["loads"][-1, -1] < 0.8 * record["loads"][0, 0]
    assert abs(record["test_loads"][-1, -1] - record["loads"][-1, -1]) < 0.1
    assert np.isfinite(record["attention_entropy"].values[:, 1:]).all()


@pytest.mark.ci
def test_lora(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    _run("watch_lora.py", tmp_path)
    assert open_run(tmp_path)["loads"][-1, -1] < 0


@pytest.mark.ci
def test_steering_helps_where_labels_are_wrong(tmp_path):
    said = _run("steer_plain.py", tmp_path / "run", 30)
    plain, steered = (float(said.split(word)[0].split()[-1]) for word in (" as it is", " steered"))
    assert steered > plain + 0.03
    dropout = open_run(tmp_path / "run")["dropout"].values
    assert dropout[0] == 0.0
    assert dropout[-1] > 0.1
