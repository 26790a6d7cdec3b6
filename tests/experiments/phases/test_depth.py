"""Depth and pruning: claims on made-up curves can pass and fail, and the run cuts where it says."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.phases import depth
from dynascope.experiments.registry import find

NAME = "phases/depth"
TINY = {"samples": 20, "epochs": 2, "retrained_epochs": 1, "full_epochs": 2, "seeds": 2, "width": 8}


def _record():
    """As the paper tells it: layers 14 to 18 of 20 idle, pruning costs nothing, training all layers gains.

    In full batches, samples are learnt by heart.
    """
    random, layers = np.random.default_rng(0), np.arange(21)
    curves = [
        np.where(layers <= 4, 1.0 - layers, np.nan),
        np.where(layers <= 8, 1 - layers / 2, np.nan),
        1 - np.minimum(layers, 13) / 3 - np.maximum(layers - 18, 0) / 3,
        1 - np.minimum(layers, 13) / 3 - np.maximum(layers - 18, 0) / 3,
    ]
    load = np.stack(curves)[:, None] + 0.01 * random.normal(size=(4, 8, 21))
    accuracy = np.array([[0.895], [0.895], [0.895], [0.4]]) + 0.001 * random.normal(size=(4, 8))
    pruned = np.array([[0.896], [0.901]]) + 0.001 * random.normal(size=(2, 8))
    return xr.Dataset(
        {
            "load": (("case", "trial", "layer"), load),
            "accuracy": (("case", "trial"), accuracy),
            "training_accuracy": (("case", "trial"), np.ones((4, 8))),
            "pruned_accuracy": (("retrained", "trial"), pruned),
            "cut_after": 13,
        },
        coords={"case": list("abcd"), "depth": ("case", [4, 8, 20, 20])},
    )


def test_curves_as_the_paper_draws_them_pass_every_claim(failed):
    assert not failed(NAME, _record())


@pytest.mark.parametrize("claim", ["shallow", "dead", "dead-full", "full-heart", "pruned", "retrained"])
def test_each_claim_can_fail(claim, failed):
    record, straight = _record(), 1 - np.arange(21) / 3
    if claim == "shallow":
        record["load"][1, :, 5] += 1.5  # a layer that undoes
    elif claim.startswith("dead"):
        record["load"][2 if claim == "dead" else 3] += straight - record["load"][2 if claim == "dead" else 3].values
    elif claim == "full-heart":
        record["training_accuracy"][-1] -= 0.02
    elif claim == "pruned":
        record["pruned_accuracy"] -= 0.02
    else:
        record["pruned_accuracy"][1] -= 0.005
    assert failed(NAME, record) == {f"fig-s3-{claim}"}


def test_full_batches_that_generalise_are_no_cause(failed):
    record = _record()
    record["accuracy"][-1] += 0.5
    assert failed(NAME, record) == {"fig-s3-full-heart"}


def test_where_separation_stops():
    assert depth.first_idle(np.array([3.0, 3.5, 2.0, 1.0])) == 3  # the first layer is always kept
    assert depth.first_idle(np.array([3.0, 2.0, 1.0])) == 2
    assert depth.first_idle(np.array([3.0, 2.0, 2.0, 1.0])) == 1


def test_a_run_has_every_depth_and_cuts_the_deepest():
    smoke = find(NAME).settings("smoke")
    record = depth.run(dataclasses.replace(smoke, depths=(2, 6), **TINY))
    assert record["load"].dims == ("case", "trial", "layer")
    assert record["case"].values.tolist() == ["2 layers", "6 layers", "6 layers, full batches"]
    np.testing.assert_array_equal(np.isnan(record["load"][0]).all("trial"), np.arange(7) > 2)
    assert int(record["cut_after"]) == depth.first_idle(record["load"][1].mean("trial").values)
    assert record["pruned_accuracy"].sizes == {"retrained": 2, "trial": 2}
    assert not np.allclose(record["pruned_accuracy"][0], record["pruned_accuracy"][1])
