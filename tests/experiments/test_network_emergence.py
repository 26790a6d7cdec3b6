"""The claims on emergence in networks fail when the prediction, or what the networks did, is another."""

import numpy as np
import pytest

from dynascope import Multilinear
from dynascope.experiments import registry
from dynascope.experiments.multilinear import networks

FORESEEN = {claim.id for claim in networks.FORESEEN.values()}


@pytest.fixture(scope="module")
def record():
    return networks.run(registry.find("multilinear/networks").config("smoke"))


def failed(record):
    return {claim.id for claim in networks.check(record) if claim.verdict == "not reproduced"}


def like_the_first(record):
    """Networks that learn all skills as fast as one alone."""
    for kind in ("time", "data", "parameters"):
        same = networks._baselines(record, kind)["same"]
        record[f"{kind}_strength"][:] = same
    return record


def like_the_model(record):
    """Networks that do exactly what the calibrated model does."""
    record["time_alone"][:] = record["time_fit"]
    record["time_strength"][:] = record["time_predicted"]
    record["data_strength"][:] = record["data_predicted"]
    return record


def in_order(record):
    """Networks that never prefer a rarer skill."""
    strengths = record["parameters_strength"]
    strengths[:] = -np.sort(-strengths.values, axis=1)
    return record


def scaled(record, factor):
    return record.assign(parameters_strength=factor * record["parameters_strength"])


OTHER = {
    "like the first": (like_the_first, FORESEEN | {"fig-5.1a-instances", "fig-5.1c-preference"}),
    "like the model": (like_the_model, {"fig-5.1a-tail", "fig-5.1b-abrupt"}),
    "in order": (in_order, {"table-5.1-outliers"}),
    "too strong": (lambda record: scaled(record, 4.5), {"table-5.1-range"}),
    "too weak": (lambda record: scaled(record, 0.9), {"table-5.1-first"}),
    "another size": (lambda record: record.assign(as_printed=True), {"fig-5.2-numbers"}),
}  # fmt: skip


def test_the_claims_hold_on_the_networks_as_they_are(record):
    assert not failed(record)


@pytest.mark.parametrize("case", OTHER)
def test_other_networks_are_noticed(case, record):
    change, expected = OTHER[case]
    assert expected <= failed(change(record.copy(deep=True)))


def test_a_prediction_without_calibration_fails(record, monkeypatch):
    right = Multilinear.emergence
    monkeypatch.setattr(Multilinear, "emergence", lambda self, *a, calibration=1.0, **k: right(self, *a, **k))
    assert failed(record) >= FORESEEN - {"fig-5.1c-networks"}


def test_a_prediction_at_other_times_fails(record, monkeypatch):
    right = Multilinear.emergence_point
    monkeypatch.setattr(Multilinear, "emergence_point", lambda *a, **k: 3 * right(*a, **k))
    assert "fig-5.1a-instances" in failed(record)


def test_the_noise_floor_and_the_stretched_curve_are_reported(record):
    errors = networks._errors(record, "time")
    assert errors["noise"] < errors["model"] < errors["plain"]
    assert f"{errors['stretched']:.3f}" in next(c.note for c in networks.check(record) if c.id == "fig-5.1a-networks")
