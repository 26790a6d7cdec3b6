"""Phase diagrams of networks: their claims can pass and fail."""

import dataclasses
import json

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.registry import find

DROPOUT, CONCAVE = "phases/dropout", "phases/cifar_rates"


def _diagram(bend, straight_gain=0.0, noise="dropout"):
    """A made-up record: curvature falls with noise and slope by `bend`, accuracy is best where curves are straight."""
    layers, random = np.arange(8), np.random.default_rng(0)
    slopes, values = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.1, 0.2, 0.3])
    bends = 0.02 - bend * (slopes[:, None] / 25 + values / 7.5)  # (slope, noise)
    load = 1 - layers / 2 - bends[..., None, None, None] * layers**2 / 2 + 0.0004 * random.normal(size=(3, 4, 5, 2, 8))
    accuracy = 0.97 - np.abs(bends)[..., None, None] + straight_gain * np.abs(bends)[..., None, None] * np.ones((5, 2))
    accuracy = accuracy + 0.0002 * random.normal(size=(3, 4, 5, 2))
    dims = ("slope", noise, "trial", "probe", "layer")
    pinv = np.where((slopes < 1)[:, None, None, None, None], load, 0.1 * load)
    return xr.Dataset(
        {"load": (dims, load), "load_pinv": (dims, pinv), "accuracy": (dims[:-1], accuracy)},
        coords={"slope": slopes, noise: values, "probe": ["train", "test"]},
        attrs={"config": json.dumps({"noise": noise, "first_layer": 0})},
    )


def test_a_diagram_as_the_paper_draws_it_passes_every_claim(failed):
    assert not failed(DROPOUT, _diagram(1.0))


def test_a_diagram_turned_round_fails(failed):
    wrong = {"fig-1c-convex", "fig-1c-noise", "fig-1c-nonlinearity", "fig-1c-pinv"}
    assert wrong <= failed(DROPOUT, _diagram(-1.0))


def test_accuracy_that_is_best_elsewhere_is_caught(failed):
    assert "fig-1c-accuracy" in failed(DROPOUT, _diagram(1.0, straight_gain=2.0))


@pytest.mark.parametrize("claim", ["test", "pinv-linear"])
def test_a_spoilt_measure_is_caught(claim, failed):
    record = _diagram(1.0)
    if claim == "test":  # test curves that have nothing to do with training curves
        record["load"][..., 1, :] = np.random.default_rng(1).normal(size=record["load"][..., 1, :].shape)
    else:  # both definitions the same
        record["load_pinv"] = record["load"]
    assert f"fig-1c-{claim}" in failed(DROPOUT, record)


def test_a_convex_curve_with_the_best_accuracy_is_caught(failed):
    record = _diagram(4.0, noise="learning_rate")
    record["accuracy"][:] = 0.5
    record["accuracy"][-1, -1] = 0.9
    assert "fig-s10a-accuracy" in failed(CONCAVE, record)
    record["accuracy"][-1, -1], record["accuracy"][0, 0] = 0.5, 0.9
    record["load"] = record["load"] - 0.1 * np.arange(8) ** 2
    assert "fig-s10a-accuracy" not in failed(CONCAVE, record)


@pytest.mark.ci
def test_networks_that_do_not_train_are_caught(failed):
    """At a learning rate of nearly 0 there is no load curve to bend."""
    experiment = find(DROPOUT)
    config = dataclasses.replace(experiment.settings("smoke"), epochs=1, learning_rate=1e-7, seeds=3)
    assert {"fig-1c-noise", "fig-1c-concave"} & failed(DROPOUT, experiment.record(config))
