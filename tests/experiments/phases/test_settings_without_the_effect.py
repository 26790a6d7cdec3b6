"""Networks trained in settings that cannot show the effect fail the claims on it."""

import dataclasses

import pytest
import xarray as xr

from dynascope.experiments.phases import chain, regression
from dynascope.experiments.registry import find

SMALL = {"seeds": 3, "epochs": 2, "samples": 20, "times": 7}


def _record(name, **changes):
    experiment = find(name)
    return experiment.record(dataclasses.replace(experiment.settings("smoke"), **changes))


@pytest.mark.parametrize(
    ("name", "schedules", "figure"),
    [("raised_dropout", ((0.0, 0.0, 0.0),) * 2, "fig-6"), ("convolutional", ((0.4,), (0.1,), (0.0,)), "fig-5c")],
)
def test_dropout_that_is_not_raised_is_caught(name, schedules, figure, failed):
    record = _record(f"phases/{name}", **SMALL, schedules=schedules)
    assert [claim for claim in failed(f"phases/{name}", record) if claim.startswith(figure)]


def test_noise_in_the_other_order_is_caught(failed, monkeypatch):
    fitted = xr.Dataset({name + end: 0.0 for name in chain.FITTED for end in ("", "_low", "_high")})
    fitted = fitted.assign(residual=1.0, simulation_gap=0.0, ok=True)  # estimating is tested elsewhere
    monkeypatch.setattr(
        chain, "estimate_chain", lambda load, times: fitted.assign(fitted_load=(("time", "layer"), load.mean(axis=0)))
    )
    turned = {"dropout": (0.25, 0.1, 0.0), "learning_rate": (0.003, 0.001, 0.0003)}
    record = _record("phases/chain", **SMALL, **turned)
    assert {"fig-4d-network", "fig-4-chain-friction"} <= failed("phases/chain", record)


def test_records_of_curves_are_labelled():
    record = _record("phases/regression", epochs=1, seeds=2, samples=10)
    assert record["load"].dims == ("kind", "setting", "trial", "layer")
    assert record["kind"].values.tolist() == list(regression.KINDS)
