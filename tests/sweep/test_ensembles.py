"""Packs that are really trained together: trials of one ensemble, each with its own slope and start."""

import json

import numpy as np
import pytest
from small_experiments import digests

from dynascope.networks import MLP, Ensemble
from dynascope.sweep import Workload, sweep

DEFAULTS = {"slope": 0.0, "learning_rate": 0.05, "batch_size": 4, "seed": 0}


def train(pack):
    x = np.random.default_rng(0).normal(size=(40, 3))
    settings = {name: [each[name] for each in pack] for name in ("slope", "learning_rate", "seed")}
    ensemble = Ensemble(
        MLP((3,), 2, width=6, depth=2),
        trials=settings["seed"],
        learning_rate=settings["learning_rate"],
        batch_size=pack[0]["batch_size"],
        vary={"slope": settings["slope"]},
        device="cpu",
    )
    run = ensemble.train(x, (x[:, 0] > 0).astype(int), steps=30, record_every=10)
    return [run.isel(trial=place, drop=True)[["loss", "accuracy"]].drop_attrs() for place in range(len(pack))]


ABLE = Workload(train, DEFAULTS, shared=("batch_size",), seconds=10.0)
GRID = [{"slope": slope, "batch_size": batch} for batch in (4, 8) for slope in (0.0, 0.3, 0.6)]
GRID = [each | {"seed": number} for number, each in enumerate(GRID)]


def test_the_same_packs_give_the_same_bits_and_other_packs_agree_to_float_tolerance(tmp_path):
    def run(name, pack_seconds):
        table = sweep(ABLE, GRID, tmp_path / name, scheduler="here", pack_seconds=pack_seconds)
        return table["loss"].values, digests(tmp_path / name)

    together, first = run("together", 30.0)
    _, again = run("again", 30.0)
    alone, _ = run("alone", 1.0)
    assert together.shape == (6, 4)
    assert first == again
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    assert len(set(together[:, -1].tolist())) == 6, "each configuration trains in its own way"


def test_a_copy_that_is_refused_does_not_stop_its_pack(tmp_path):
    rates = [{"learning_rate": rate, "seed": number} for number, rate in enumerate((-1.0, 0.1, 0.2))]
    with pytest.warns(RuntimeWarning, match="1 of 3 tasks failed"):
        table = sweep(ABLE, rates, tmp_path, scheduler="here")
    assert np.isfinite(table["loss"]).all("step").values.tolist() == [False, True, True]
    (failure,) = tmp_path.glob("failures/*.json")
    assert "learning_rate must be at least 0" in json.loads(failure.read_text())["error"]
