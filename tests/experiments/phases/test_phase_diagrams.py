"""Phase diagrams of networks: their claims can pass and fail."""

import dataclasses
import json

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.phases.shapes import bend, straight
from dynascope.experiments.registry import find

DROPOUT, CONCAVE = "phases/dropout", "phases/cifar_rates"


def _diagram(bend, straight_gain=0.0, noise="dropout", **config):
    """A made-up record: curvature falls with noise and slope by `bend`, accuracy is best where curves are straight."""
    layers, random = np.arange(8), np.random.default_rng(0)
    slopes, values = np.linspace(0.0, 1.0, 5), np.linspace(0.0, 0.3, 7)
    bends = 0.02 - bend * (slopes[:, None] / 25 + values / 7.5)  # (slope, noise)
    shape = (*bends.shape, 6, 2)
    load = 1 - layers / 2 - bends[..., None, None, None] * layers**2 / 2 + 0.0002 * random.normal(size=(*shape, 8))
    accuracy = 0.97 + (straight_gain - 1) * np.abs(bends)[..., None, None] + 0.0002 * random.normal(size=shape)
    dims = ("slope", noise, "trial", "probe", "layer")
    pinv = np.where((slopes < 1)[:, None, None, None, None], load, 0.1 * load)
    claimed = {"noise": noise, "first_layer": 0, "shared": 0, "linear_converges": True}
    return xr.Dataset(
        {"load": (dims, load), "load_pinv": (dims, pinv), "accuracy": (dims[:-1], accuracy)},
        coords={"slope": slopes, noise: values, "probe": ["train", "test"]},
        attrs={"config": json.dumps(claimed | config)},
    )


def settings(name):
    """The config at paper scale."""
    return find(name).settings("paper")


def _claims(*names):
    return {f"fig-1c-{name}" for name in names}


def _scaled(record, name, factor):
    """Curves that fall `factor` times as far and have the same shape."""
    return record.assign({name: record[name] * factor})


def test_a_diagram_as_the_paper_draws_it_passes_every_claim(failed):
    assert not failed(DROPOUT, _diagram(1.0))


def test_a_diagram_turned_round_fails(failed):
    wrong = _claims("convex", "noise", "nonlinearity", "along-noise", "along-slopes", "diagonal")
    assert wrong <= failed(DROPOUT, _diagram(-1.0))


def test_noise_that_does_nothing_to_linear_networks_is_caught(failed):
    record = _diagram(1.0)
    record["load"][-1] = record["load"][-1, :1].values
    assert failed(DROPOUT, record) == _claims("noise", "noise-linear", "along-noise", "along-slopes", "along-shape")


def test_what_noise_does_to_linear_networks_is_judged_by_itself_where_it_does_little(failed):
    """Figure 1(a): slope 1 has an experiment with more runs; what it says is not said by the diagram again."""
    record = _diagram(1.0, noise="data_noise")
    assert "fig-1a-noise" not in failed("phases/data_noise", record)
    row = record.isel(slope=[-1])
    assert not failed("phases/data_noise_linear", row)
    record["load"][-1] = record["load"][-1, :1].values
    assert "fig-1a-noise" not in failed("phases/data_noise", record)
    assert failed("phases/data_noise_linear", record.isel(slope=[-1])) == {"fig-1a-noise-1"}
    record["load"][-2] = record["load"][-2, :1].values
    assert "fig-1a-noise" in failed("phases/data_noise", record)


@pytest.mark.parametrize(
    ("whole", "row", "claim"),
    [
        ("phases/deep", "phases/deep_best", "fig-s6b"),
        ("phases/fashion", "phases/fashion_best", "fig-s8a"),
        ("phases/widest", "phases/widest_best", "fig-s7b"),
    ],
)
def test_which_of_close_cells_is_best_is_judged_by_networks_that_did_not_choose_them(whole, row, claim, failed):
    record = _diagram(3.0, noise=settings(whole).noise)
    claims = {f"{claim}-accuracy", f"{claim}-accuracy-near"}
    assert not claims & {each.id for each in find(whole).claims}
    seeds = settings(whole).seeds
    assert settings(row).begin >= seeds
    assert set(settings(row).values) <= set(settings(whole).values)
    cells = record.isel(slope=[0])
    assert not failed(row, cells)
    cells["accuracy"][0, -1] = 0.99
    assert failed(row, cells) == claims


def test_networks_that_died_are_left_out_and_told(failed):
    record = _diagram(1.0)
    record["load"][0, -1, 2] = np.nan
    found = next(each for each in find(DROPOUT).judge(record) if each.id == "fig-1c-noise")
    assert found.verdict == "reproduced"
    assert "in 5 of 6 runs no network died" in found.note
    record["load"][0, -1] = np.nan
    assert "fig-1c-noise" in failed(DROPOUT, record)


def test_noise_that_takes_separation_from_linear_networks_hides_how_it_bends_them(failed):
    """Their curves are as convex at each noise, and more so for how far they fall; slopes that hold are counted."""
    record = _diagram(1.0)
    curves = record["load"].sel(probe="train").mean("trial").isel(slope=-1)
    lost = bend(curves.isel(dropout=0)) / bend(curves)
    linear = _scaled(record, "load", lost.where(record["slope"] == 1, 1.0).transpose("slope", "dropout"))
    linear["load"] = linear["load"].transpose(*record["load"].dims)
    found = {each.id: each for each in find(DROPOUT).judge(linear)}
    assert found["fig-1c-noise"].verdict == "not reproduced"
    assert "Why: fig-1c-noise-linear" in found["fig-1c-noise"].note
    assert found["fig-1c-noise-linear"].verdict == "reproduced"
    linear["load"][0] = linear["load"][0, :1].values
    assert "at the first 0" in next(each.note for each in find(DROPOUT).judge(linear) if each.id == "fig-1c-noise")


def test_a_load_that_the_first_layer_takes_is_seen_from_the_input_on():
    record = _diagram(1.0, first_layer=1)
    record["load"][-1, :, ..., 1:] = record["load"][-1, :1, ..., 1:].values
    found = {each.id: each.verdict for each in find(DROPOUT).judge(record)}
    assert found["fig-1c-noise"] == found["fig-1c-noise-linear"] == "not reproduced"
    record["load"][-1, -1, ..., 0] += 2.0
    found = {each.id: each.verdict for each in find(DROPOUT).judge(record)}
    assert (found["fig-1c-noise"], found["fig-1c-noise-linear"]) == ("not reproduced", "reproduced")


def test_curves_that_fall_differently_are_ranked_by_their_shape(failed):
    """The less nonlinear, the less far they fall: curvatures turn their order where curves are convex."""
    record = _diagram(1.0)
    factor = np.exp(-3 * record["slope"])
    turned = failed(DROPOUT, _scaled(record, "load", factor))
    assert "fig-1c-along-slopes" in turned
    assert "fig-1c-along-shape" not in turned
    assert failed(DROPOUT, _scaled(record, "load_pinv", factor)) == _claims("pinv")


@pytest.mark.parametrize(
    ("axis", "order", "claims"),
    [
        ("dropout", [0, 5, 4, 3, 2, 1, 6], ["along-noise", "along-shape"]),
        ("slope", [0, 3, 2, 1, 4], ["along-slopes", "along-shape", "diagonal"]),
    ],
)
def test_an_interior_out_of_order_is_caught(axis, order, claims, failed):
    """Corners and ends stay as they are."""
    record = _diagram(1.0)
    turned = record.isel({axis: order}).assign_coords({axis: record[axis]})
    assert failed(DROPOUT, turned) == _claims(*claims)


def test_a_border_that_is_no_diagonal_is_caught(failed):
    """Every slope becomes convex at the same noise; the order of curvatures stays."""
    record = _diagram(1.0)
    drop = record["slope"] / 25  # what slopes take from the curvature, put back but for a trace
    layers = xr.DataArray(np.arange(8), dims="layer")
    record["load"] = record["load"] - 0.95 * drop * layers**2 / 2
    found = failed(DROPOUT, record)
    assert "fig-1c-diagonal" in found
    assert not found & _claims("concave", "noise", "along-noise", "along-slopes", "pinv")


def test_the_corner_of_another_figure_is_not_judged_again(failed):
    record, judged = _diagram(1.0, shared=1), {"fig-1c-concave", "fig-1c-nonlinearity", "fig-1c-pinv-linear"}
    for name in ("load", "load_pinv"):
        record[name][:, 0] = record[name][:, -1].values
        record[name][-1, 0] = record["load"][-1, 0].values
    assert not failed(DROPOUT, record) & judged
    assert {"fig-1c-concave", "fig-1c-pinv-linear"} <= failed(DROPOUT, record.assign_attrs(_diagram(1.0).attrs))


def test_linear_networks_that_do_not_converge_are_left_out(failed):
    record = _diagram(1.0, noise="data_noise", linear_converges=False)
    record["load"][-1] = record["load"][0, 0].values
    assert failed("phases/sgd", record) == {"fig-s8b-convex-between"}  # the more noise, the more convex
    every = record.assign_attrs(_diagram(1.0, noise="data_noise").attrs)
    assert {"fig-s8b-convex", "fig-s8b-noise"} <= failed("phases/sgd", every)


def test_curves_that_much_noise_leaves_straight_are_convex_in_between(failed):
    record = _diagram(1.0, noise="data_noise", linear_converges=False)
    record["load"][:, -1] = 1 - np.arange(8) / 2 + 0.01 * np.random.default_rng(1).normal(size=(5, 6, 2, 8))
    judged = {"fig-s8b-convex", "fig-s8b-convex-between"}
    assert failed("phases/sgd", record) & judged == {"fig-s8b-convex"}
    assert "Why: fig-s8b-convex-between" in next(
        each.note for each in find("phases/sgd").judge(record) if each.id == "fig-s8b-convex"
    )


def test_accuracy_that_is_best_elsewhere_is_caught(failed):
    wrong = _claims("accuracy", "accuracy-near", "accuracy-rank", "accuracy-cells")
    assert failed(DROPOUT, _diagram(1.0, straight_gain=2.0)) == wrong


def test_an_accuracy_that_is_best_next_to_the_straightest_is_told_from_one_that_is_best_elsewhere(failed):
    record = _diagram(3.0)
    straightest = straight(record["load"].sel(probe="train").mean("trial"))[0].values.argmax()
    for away, wrong in ((1, ["accuracy"]), (5, ["accuracy", "accuracy-near"])):
        other = record.copy(deep=True)
        other["accuracy"][0, straightest + away] = 0.99
        assert failed(DROPOUT, other) & _claims("accuracy", "accuracy-near") == _claims(*wrong)


def test_networks_with_straight_curves_that_fit_as_well_are_told_from_those_that_fit_less(failed):
    record, fitted = _diagram(3.0, noise="batch_size"), "fig-s7a-accuracy-fitted"
    straightest = straight(record["load"].sel(probe="train").mean("trial"))[0].values.argmax()
    record["accuracy"][0, straightest + 1] = 0.99
    random = np.random.default_rng(1)
    record["loss"] = record["accuracy"] * 0 + 0.01 * np.exp(0.01 * random.normal(size=record["accuracy"].shape))
    assert fitted in failed("phases/wide", record)  # all fit alike
    record["loss"][0, straightest] *= 10 * np.exp([[0.1], [-0.1]] * 3)
    assert fitted in failed("phases/wide", record)  # nor does it cost accuracy
    record["accuracy"][0, straightest] = 0.97 - 0.01 * np.log(record["loss"][0, straightest] / 0.1)
    assert fitted not in failed("phases/wide", record)
    record["loss"][0, straightest] /= 1000
    assert fitted in failed("phases/wide", record)  # it does, and they fit better


def test_noise_does_not_help_accuracies_to_pass(failed):
    record = _diagram(1.0)
    record["accuracy"] += 0.02 * np.random.default_rng(1).normal(size=record["accuracy"].shape)
    assert _claims("accuracy", "accuracy-rank") <= failed(DROPOUT, record)


@pytest.mark.parametrize("claim", ["test", "pinv", "pinv-linear"])
def test_a_spoilt_measure_is_caught(claim, failed):
    record = _diagram(1.0)
    if claim == "test":  # test curves that have nothing to do with training curves
        record["load"][..., 1, :] = np.random.default_rng(1).normal(size=record["load"][..., 1, :].shape)
    elif claim == "pinv":  # at each slope the same change from end to end, but between slopes the other way round
        rising = record["slope"] * 0.3 * xr.DataArray(np.arange(8), dims="layer") ** 2 / 2
        record["load_pinv"] = record["load_pinv"] - rising.where(record["slope"] < 1, 0.0)
    else:  # both definitions the same
        record["load_pinv"] = record["load"]
    assert failed(DROPOUT, record) == _claims(*([claim, "pinv-shape"] if claim == "pinv" else [claim]))


def test_a_convex_curve_with_the_best_accuracy_is_caught(failed):
    record = _diagram(4.0, noise="learning_rate")
    record["accuracy"][:] = 0.5
    record["accuracy"][-1, -1] = 0.9
    both = {"fig-s10a-accuracy", "fig-s10a-accuracy-near"}
    assert both <= failed(CONCAVE, record)
    record["accuracy"][0, 0] = 0.899
    assert failed(CONCAVE, record) & both == {"fig-s10a-accuracy"}
    record["accuracy"][0, 0] = 0.901 + 0.02 * np.array([[1, -1]] * 3).reshape(6, 1)
    assert "fig-s10a-accuracy" in failed(CONCAVE, record)  # the concave one is the best by luck
    record["accuracy"][-1, -1], record["accuracy"][0, 0] = 0.5, 0.9
    record["load"] = record["load"] - 0.1 * np.arange(8) ** 2
    assert "fig-s10a-accuracy" not in failed(CONCAVE, record)


def test_networks_that_do_not_train_are_caught(failed):
    """At a learning rate of nearly 0 there is no load curve to bend."""
    experiment = find(DROPOUT)
    config = dataclasses.replace(experiment.settings("smoke"), epochs=1, learning_rate=1e-7, seeds=3)
    assert {"fig-1c-noise", "fig-1c-concave"} & failed(DROPOUT, experiment.record(config))
