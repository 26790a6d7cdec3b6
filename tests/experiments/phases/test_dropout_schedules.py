"""Convolutional networks with dropout: made-up curves as the paper draws them pass, and each claim can fail."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.phases import dropout_schedules
from dynascope.experiments.registry import find

LAYERS, SEEDS = np.arange(8), 6
SMALL = {"data": "digits", "size": 0, "samples": 10, "batch_size": 50, "channels": 2, "depth": 2}


def _curves(bends):
    random = np.random.default_rng(0)
    return -LAYERS - np.asarray(bends)[..., None] * LAYERS**2 / 2 + 1e-3 * random.normal(size=(*np.shape(bends), 8))


def _three(accuracy=(0.90, 0.95, 0.85), bends=(0.1, 0.0, -0.1)):
    """Figure 5(c): three dropouts, or more, at the end."""
    bends = np.repeat(np.array(bends)[:, None], SEEDS, axis=1)[..., None]
    reached = np.array(accuracy)[:, None, None] + 1e-3 * np.random.default_rng(1).normal(size=bends.shape)
    dims = ("schedule", "trial", "time")
    values = {"load": ((*dims, "layer"), _curves(bends)), "accuracy": (dims, reached)}
    return xr.Dataset(values, coords={"time": [1.0]})


def _raised(bends=(0.1, 0.0, -0.1), accuracy=(0.90, 0.95, 0.85), without=0.91, early_accuracy=0.85):
    """Figure 6: dropout raised twice, and none throughout."""
    bent = np.array([[bends] * SEEDS, [[0.1] * 3] * SEEDS])
    reached = np.array([[accuracy] * SEEDS, [[without] * 3] * SEEDS])
    reached = reached + 1e-3 * np.random.default_rng(1).normal(size=reached.shape)
    dims = ("schedule", "trial", "time")
    values = {"load": ((*dims, "layer"), _curves(bent)), "accuracy": (dims, reached)}
    record = xr.Dataset(values, coords={"time": [1.0, 2.0, 3.0]})
    early = record.isel(time=[2]).assign_coords(time=[2.1])
    early["accuracy"] = early["accuracy"] - accuracy[2] + early_accuracy
    return xr.concat([record.isel(time=[0, 1]), early, record.isel(time=[2])], "time").transpose(*dims, "layer")


def _idle(record):
    """The first layer does no work: the input lies off the curve."""
    record["load"][..., 0] = record["load"][..., 1].values
    return record


def test_curves_as_the_paper_draws_them_pass_every_claim(failed):
    assert not failed("phases/convolutional", _three())
    assert not failed("phases/raised_dropout", _raised())
    assert not failed("phases/much_dropout", _raised().isel(schedule=[0]))


def test_accuracy_that_is_best_where_curves_are_bent_is_caught(failed):
    wrong = {"fig-5c-accuracy", "fig-5c-inner-accuracy", "fig-5c-inner-rank"}
    assert failed("phases/convolutional", _three((0.97, 0.95, 0.85))) == wrong


def test_an_input_off_the_curve_is_told_from_a_curve_of_another_shape(failed):
    found = {each.id: each for each in find("phases/convolutional").judge(_idle(_three(bends=(0.1, 0.0, -0.06))))}
    wrong = {name for name, each in found.items() if each.verdict != "reproduced"}
    assert wrong == {"fig-5c-convex", "fig-5c-convex-learnt", "fig-5c-accuracy"}
    assert "Why: fig-5c-inner," in found["fig-5c-convex"].note
    assert "Why: fig-5c-inner-rank," in found["fig-5c-accuracy"].note
    concave = _three()
    concave["load"][-1] = concave["load"][0].values
    assert {"fig-5c-convex", "fig-5c-inner"} <= failed("phases/convolutional", concave)
    assert failed("phases/raised_dropout", _idle(_raised(bends=(0.1, 0.0, -0.06)))) == {"fig-6-linear", "fig-6-convex"}


@pytest.mark.parametrize(
    ("changed", "claims"),
    [
        ({"without": 0.95}, {"accuracy"}),
        ({"bends": (0.1, 0.05, -0.02)}, {"linear", "inner"}),
        ({"bends": (0.1, 0.0, 0.05)}, {"convex"}),
        ({"bends": (-0.1, 0.0, -0.1)}, {"concave"}),
    ],
)
def test_each_claim_on_raised_dropout_can_fail(changed, claims, failed):
    assert failed("phases/raised_dropout", _raised(**changed)) == {f"fig-6-{claim}" for claim in claims}


@pytest.mark.parametrize(
    ("changed", "claim"), [({"accuracy": (0.90, 0.95, 0.95)}, "worse"), ({"early_accuracy": 0.95}, "worse-early")]
)
def test_each_claim_on_much_dropout_can_fail(changed, claim, failed):
    assert failed("phases/much_dropout", _raised(**changed).isel(schedule=[0])) == {f"fig-6-{claim}"}


def test_a_network_that_learns_nothing_has_no_say_in_where_curves_are_convex():
    record = _three((0.9, 0.95, 0.12))
    for learnt, verdict in (({}, "not reproduced"), ({"accuracy": 0 * record["accuracy"] + 0.1}, "not determined")):
        judged = find("phases/convolutional").judge(record.assign(learnt))
        found = {each.id: each.verdict for each in judged}
        assert found["fig-5c-convex-learnt"] == found["fig-5c-inner"] == verdict


def test_curves_that_are_not_in_the_order_of_dropouts_are_caught(failed):
    record = _three(bends=(0.05, 0.1, -0.05, 0.0, -0.1), accuracy=(0.9, 0.9, 0.9, 0.95, 0.8))  # ranks correlate by 0.8
    assert "fig-5c-noise" in failed("phases/convolutional", record)


def test_networks_see_normed_inputs_and_the_input_is_layer_0():
    config = dropout_schedules.Config(((0.0, 0.1),), epochs=1, seeds=1, times=1, **SMALL)
    record = dropout_schedules.run(config)
    assert record["layer"].values.tolist() == [0, 1, 2]
