"""Shapes of load curves, and whether accuracy is best where they are straightest."""

import json

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.phases.shapes import bend, best_where_straight, straight
from dynascope.experiments.registry import find


def _curve(values):
    return xr.DataArray(values, dims="layer")


def test_shapes():
    layers = np.arange(8.0)
    assert float(bend(_curve(-(layers**2)))) == pytest.approx(2.0)
    assert float(bend(_curve(layers**2))) == pytest.approx(-2.0)
    assert float(straight(_curve(3 - 2 * layers))) == pytest.approx(1.0)
    assert float(straight(_curve(-(layers**2)))) < 0.97


SCORES = ("fig-s12a-accuracy", "fig-s12a-accuracy-rank", "fig-s12b-accuracy", "fig-s12b-accuracy-rank")


def _on_fashion(scores, images=60_000, inputs=(0.0, 0.0, 0.0), fitted=(0.9, 0.95, 1.0)):
    """Two panels of three settings each, the first of which has the straightest curve, but for the load of `inputs`."""
    layers, bends = np.arange(8), np.array([0.0, 0.1, 0.2])
    load = np.broadcast_to((-layers - bends[:, None] * layers**2)[None, :, None], (2, 3, 4, 8))
    load = load + np.array(inputs)[:, None, None] * (layers == 0)
    score = np.broadcast_to(np.array(scores)[None, :, None], (2, 3, 4)) + 1e-3 * np.arange(4)
    trained = score - np.array(scores)[:, None] + np.array(fitted)[:, None]
    dims = ("kind", "setting", "trial")
    values = {"load": ((*dims, "layer"), load), "score": (dims, score), "fitted": (dims, trained), "images": images}
    return xr.Dataset(values, attrs={"config": json.dumps({"data": "fashion"})})


def test_the_straightest_curve_with_the_worst_accuracy_is_caught(failed):
    every, less = {*SCORES, "fig-s12a-input"}, "fig-s12b-fitted"
    assert failed("phases/much_data", _on_fashion([0.5, 0.8, 0.9])) == every
    assert failed("phases/much_data", _on_fashion([0.5, 0.8, 0.9], fitted=(0.9, 0.9, 0.9))) == {*every, less}
    assert failed("phases/much_data", _on_fashion([0.9, 0.8, 0.5])) == {less}  # the straightest is the best
    assert failed("phases/much_data", _on_fashion([0.894, 0.9, 0.5])) == every  # 0.006 lost, rank correlation 0.5
    assert failed("phases/much_data", _on_fashion([0.9, 0.897, 0.89])) == {less}
    found = failed("phases/much_data", _on_fashion([0.9, 0.897, 0.896]))  # it does not matter which
    assert found == {"fig-s12a-accuracy", "fig-s12a-input", "fig-s12b-accuracy", less}


def test_the_input_does_not_decide_which_curve_is_straightest(failed):
    """The best has a straight curve from the first layer on, and the least straight one from the input on."""
    found = failed("phases/much_data", _on_fashion([0.9, 0.8, 0.5], inputs=(-9.0, 0.0, 0.0)))
    assert found == {"fig-s12a-input", "fig-s12b-fitted"}


def test_a_part_of_the_images_is_not_all_of_them():
    found = find("phases/much_data").judge(_on_fashion([0.9, 0.8, 0.5], images=10_000))
    assert {each.verdict for each in found} == {"not run"}
    assert all("50000 are not in the data folder" in each.note for each in found)


RATES = "phases/rates"


def _at_rates(bends=(0.3, 0.0, -0.3), accuracies=(0.9193, 0.9252, 0.8999), test=1.0, apart=4e-4, runs=6):
    """Curves of training samples with these bends, and `test` times as bent ones of test samples."""
    layers, runs = np.arange(8), np.arange(runs)
    shape = np.array([1.0, test])[:, None, None, None] * np.array(bends)[None, :, None, None]
    spread = 1 + 0.01 * runs[None, None, :, None]
    load = -layers * spread - 0.5 * shape * layers * (layers - 7)
    score = np.broadcast_to(np.array(accuracies)[None, :, None] + apart * (runs - runs.mean()), (2, 3, len(runs)))
    dims = ("kind", "setting", "trial")
    return xr.Dataset({"load": ((*dims, "layer"), load), "score": (dims, score)})


def test_curves_and_accuracies_as_printed_pass(failed):
    assert failed(RATES, _at_rates()) == {"fig-s4-spread"}  # so close networks tell the printed accuracies apart


def test_networks_that_vary_more_than_printed_accuracies_differ_tell_nothing_of_them(failed):
    record = _at_rates(apart=3e-4, runs=30)
    assert failed(RATES, record) == {"fig-s4-accuracies"}
    found = next(each for each in find(RATES).judge(record) if each.id == "fig-s4-accuracies")
    assert "Why: fig-s4-spread" in found.note
    assert not found.contradicted()


@pytest.mark.parametrize(
    ("spoiled", "claims"),
    [
        ({"bends": (-0.1, 0.0, -0.3)}, {"concave"}),
        ({"bends": (0.3, 0.0, 0.1)}, {"convex"}),
        ({"test": -1.0}, {"concave", "convex"}),
        ({"bends": (0.1, 0.2, -0.3)}, {"straightest", "accuracy"}),
        ({"accuracies": (0.9252, 0.9193, 0.8999)}, {"accuracy", "best", "accuracies"}),
        ({"accuracies": (0.95, 0.97, 0.93)}, {"accuracies"}),
    ],
)
def test_other_curves_or_accuracies_are_caught(spoiled, claims, failed):
    assert failed(RATES, _at_rates(**spoiled)) == {f"fig-s4-{each}" for each in {*claims, "spread"}}


def test_slopes_that_bend_regression_curves_the_other_way_are_caught(failed):
    layers, bends = np.arange(8), np.array([0.0, 0.1, 0.2])
    load = np.broadcast_to((-layers - bends[:, None] * layers**2)[None, :, None], (3, 3, 4, 8))
    dims = ("kind", "setting", "trial")
    names = np.broadcast_to(np.array(["a", "b", "c"]), (3, 3))
    values = {"load": ((*dims, "layer"), load), "score": (dims, np.zeros((3, 3, 4))), "label": (dims[:2], names)}
    assert {"fig-s16-slope", "fig-s16-noise"} <= failed("phases/regression", xr.Dataset(values))


def test_which_of_two_curves_is_the_straightest_is_not_left_to_chance():
    """Two settings with curves of the same kind, one far less accurate: by luck alone, every second would pass."""
    random, accuracy = np.random.default_rng(0), xr.DataArray([[0.9] * 10, [0.8] * 10], dims=("setting", "trial"))
    line, found = -np.arange(8.0), []
    for _ in range(40):
        load = xr.DataArray(line + 0.3 * random.normal(size=(2, 10, 8)), dims=("setting", "trial", "layer"))
        found.append(best_where_straight(accuracy, load).verdict)
    assert found.count("reproduced") <= 4  # where one is the straighter by more than two errors
    load[1] = xr.DataArray(line + random.normal(size=(10, 8)), dims=("trial", "layer"))
    assert best_where_straight(accuracy, load).verdict == "reproduced"


def test_the_straightest_is_that_of_the_mean_curve_as_in_the_source():
    """Runs that scatter about a line are each less straight than arcs that do not, their mean is straighter."""
    random, layers = np.random.default_rng(1), np.arange(8.0)
    scattered = -layers + 0.5 * random.normal(size=(60, 8))
    arcs = np.broadcast_to(-layers - 0.05 * layers**2, (60, 8))
    load = xr.DataArray(np.stack([scattered, arcs]), dims=("setting", "trial", "layer"))
    assert straight(load[0]).mean() < straight(load[1]).mean()
    accuracy = xr.DataArray([[0.9] * 60, [0.8] * 60], dims=("setting", "trial"))
    assert best_where_straight(accuracy, load).verdict == "reproduced"
    assert best_where_straight(accuracy[::-1], load).verdict == "not reproduced"


def test_a_setting_in_which_a_network_died_is_not_the_straightest():
    layers = np.arange(8.0)
    load = xr.DataArray(np.stack([[-layers] * 6, [-layers - 0.2 * layers**2] * 6]), dims=("setting", "trial", "layer"))
    accuracy = xr.DataArray([[0.1] * 6, [0.9] * 6], dims=("setting", "trial"))
    assert best_where_straight(accuracy, load).verdict == "not reproduced"
    load[0, 2] = np.nan
    assert best_where_straight(accuracy, load).verdict == "reproduced"


def test_a_row_in_which_the_choice_does_not_matter_settles_nothing():
    random, layers = np.random.default_rng(0), np.arange(8.0)
    bends = np.linspace(-0.2, 0.2, 9)[:, None, None]
    load = xr.DataArray(np.broadcast_to(-layers - bends * layers**2, (9, 10, 8)), dims=("setting", "trial", "layer"))
    for spread in (0.0, 1e-3, 0.004, 0.01):  # the last one makes a best and a worst by luck alone
        accuracy = xr.DataArray(0.9 + spread * random.normal(size=(9, 10)), dims=("setting", "trial"))
        assert best_where_straight(accuracy, load).verdict != "reproduced"
    alike = xr.full_like(accuracy, 0.9)
    assert best_where_straight(alike, load).verdict == "not determined"
    assert "for the choice to matter" in best_where_straight(alike, load).note
    assert best_where_straight(alike - 0.1 * abs(xr.DataArray(bends[:, 0, 0], dims="setting")), load).verdict == (
        "reproduced"
    )


def _regressed(errors):
    """Load curves that are straightest at the second setting, with these errors."""
    layers, bends, dims = np.arange(8), np.array([-0.1, 0.0, 0.1]), ("kind", "setting", "trial")
    load = np.broadcast_to((-layers - bends[:, None] * layers**2)[None, :, None], (3, 3, 4, 8))
    score = np.array(errors)[None, :, None] + 1e-4 * np.broadcast_to(np.arange(4), (3, 3, 4))
    names = np.broadcast_to(np.array(["a", "b", "c"]), (3, 3))
    values = {"load": ((*dims, "layer"), load), "score": (dims, score), "label": (dims[:2], names)}
    return xr.Dataset(values)


def test_errors_that_fall_on_beyond_the_straightest_curve_are_caught(failed):
    def missed(errors):
        spoilt = _regressed(errors)
        found = failed("phases/diabetes", spoilt) | failed("phases/regression", spoilt)
        return {claim.removeprefix("fig-") for claim in found if claim.endswith(("-error", "-best", "-most"))}

    best = {"s15-best", "s16-best"}
    assert missed([50.0, 45.0, 47.0]) == {"s15-most"}
    assert missed([50.0, 45.0, 40.0]) == best
    assert missed([50.0, 49.8, 49.9]) == {*best, "s15-most"}  # none matters
    assert missed([45.0, 50.0, 55.0]) == {*best, "s15-most", "s15-error", "s16-error"}
