"""Schedules that are compared before they are run."""

import numpy as np
import pytest
import xarray as xr

from dynascope import forecast, load, save
from dynascope.forecasting import best_schedule
from dynascope.forecasting.candidates.schedule import law
from dynascope.forecasting.pace import pace_of

STEP = np.arange(0.0, 2001.0, 20.0)


def _planted(rate):
    """A loss that follows the multi-power law of its learning rates."""
    pace = pace_of(STEP, rate, 20.0, 2020.0)
    shape = law(pace, (STEP + 20.0) / 2020.0, np.array([[0.5, 0.4, 100.0, 0.9]]))[0]
    return 2 + shape + 0.003 * np.random.default_rng(0).standard_normal(len(STEP))


def _wsd(start):
    return 0.1 * np.clip((2000 - STEP) / (2000 - start), 0, 1)


def _run(seen=51):
    return {"step": STEP[:seen], "loss": _planted(_wsd(1400.0))[:seen], "learning_rate": np.full(seen, 0.1)}


@pytest.mark.ci
def test_schedules_are_compared_by_their_forecasts(tmp_path):
    earlier = [
        {"step": STEP, "loss": _planted(rate), "learning_rate": rate}
        for rate in (0.05 * (1 + np.cos(np.pi * STEP / 2000)), _wsd(1500.0))
    ]
    found = best_schedule(_run(), end=2000, like=earlier)
    names = found["schedule"].values.tolist()
    assert names == ["constant", "cosine", "linear", "wsd:1200", "wsd:1400", "wsd:1600", "wsd:1800"]
    assert found["loss"].dims == ("schedule", "quantile")
    alone = forecast(_run(), until=2000, schedule="wsd:1400", like=earlier)
    np.testing.assert_allclose(found["loss"].sel(schedule="wsd:1400"), alone["loss"][-1])
    assert found["loss"].sel(schedule="wsd:1400")[0] < _planted(_wsd(1400.0))[-1]
    middle = found["loss"].sel(quantile=0.5)
    assert middle.sel(schedule=found.attrs["best"]) == middle.min()
    assert middle.sel(schedule="constant") > middle.sel(schedule=found.attrs["best"])  # a decay is better than none
    assert found.attrs["sentence"].startswith(f"loss at step 2000 is best under {found.attrs['best']}: ")
    xr.testing.assert_identical(load(save(found, tmp_path / "schedules.nc")), found)


def test_what_rises_is_best_where_it_is_highest():
    run = _run()
    run["accuracy"] = 1 - 0.2 * run.pop("loss")
    found = best_schedule(run, end=2000, quantity="accuracy")
    middle = found["accuracy"].sel(quantile=0.5)
    assert middle.sel(schedule=found.attrs["best"]) == middle.max()


def test_where_there_is_no_forecast_there_is_no_advice():
    found = best_schedule(_run(4), end=2000)
    assert found.attrs["sentence"].startswith("no advice (too short: loss has 4 records, 6 are needed); ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": {"step": STEP, "loss": STEP}, "end": 3000}, "run must have learning rates"),
        ({"end": 1000}, "end must be above 1000"),
        ({"end": np.nan}, "end must be finite"),
        ({"run": xr.Dataset({"loss": (("trial", "step"), np.ones((2, 8)))}, {"step": range(8)})}, "got 2 trials"),
        ({"like": 5}, "like must be a folder"),
    ],
)
def test_bad_input_is_one_sentence(change, message):
    arguments = {"run": _run(), "end": 2000} | change
    with pytest.raises(ValueError, match=message):
        best_schedule(arguments.pop("run"), **arguments)
