"""Claims on estimators fail when an estimator is spoilt."""

import numpy as np
import pytest

from dynascope.experiments.elastic import estimators
from dynascope.models.elastic import estimate, tails
from dynascope.models.elastic.strengths import PowerLaw

TINY = {"cases": 2, "points": 31, "trials": 10}


def spoil_exact(monkeypatch):
    right = estimate._combinations
    monkeypatch.setattr(estimate, "_combinations", lambda *a: right(*a) * np.array([[1.01], [1.0], [1.0]]))


def spoil_printed(monkeypatch):
    right = estimate._printed
    monkeypatch.setattr(estimate, "_printed", lambda *a: tuple(1.01 * part for part in right(*a)))


def spoil_tails(monkeypatch):
    for name in ("_printed", "_least_squares"):
        right = getattr(tails, name)
        monkeypatch.setattr(tails, name, lambda *a, right=right: right(*a) + 0.01)


def spoil_intervals(monkeypatch):
    monkeypatch.setattr(estimate, "interval", lambda value, drawn, trials: (value - 1e-3, value + 1e-3))


def spoil_offset(monkeypatch):
    monkeypatch.setattr(estimators, "_W", estimators._W + 0.01)


def spoil_product(monkeypatch):
    monkeypatch.setattr(estimators, "_V2", 1.01 * estimators._V2)


def spoil_first(monkeypatch):
    monkeypatch.setattr(estimators, "_V1", estimators._V1 + 0.01 * np.arange(9))


def spoil_law(monkeypatch):
    right = PowerLaw.integral
    monkeypatch.setattr(PowerLaw, "integral", lambda self, times: right(self, times) + 1e-3)


SPOILT = {
    spoil_exact: {"elastic-exact-estimator"},
    spoil_printed: {"elastic-d16", "elastic-eq11-isotropic"},
    spoil_tails: {"elastic-d19", "elastic-tail-fit"},
    spoil_intervals: {"elastic-coverage"},
    spoil_offset: {"elastic-d12-offset"},
    spoil_product: {"elastic-d10", "elastic-d11"},
    spoil_first: {"elastic-d9"},
    spoil_law: {"elastic-d6", "elastic-d18"},
}


def test_nothing_fails_unspoilt(smoke):
    assert not [finding for finding in smoke("elastic/estimators")[1] if finding.fails("smoke")]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_estimator_is_caught(spoil, monkeypatch, failed):
    spoil(monkeypatch)
    seeds = 20 if spoil is spoil_intervals else 2
    assert SPOILT[spoil] <= failed("estimators", **TINY, seeds=seeds)


@pytest.mark.parametrize(
    ("claim", "name", "printed"),
    [
        ("elastic-d6", "ratio_growth", "ratio_inter"),
        ("elastic-d18", "integral_found", "integral_printed"),
        ("elastic-d19", "tail_printed", "tail_planted"),
    ],
)
def test_a_path_that_obeyed_the_printed_form_would_be_no_erratum(claim, name, printed, smoke, spoilt):
    assert spoilt("estimators", **{name: smoke("elastic/estimators")[0][printed]}) == {claim}


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        ("elastic-d16-rate", {"late_slope": lambda each: each + 0.06}),
        ("elastic-d16-rate", {"late_slope": lambda each: each - 0.06}),
        ("elastic-d16-rate", {"earlier_slope": lambda each: 0 * each + 1.0}),
        ("elastic-d16", {"printed_error": lambda each: 0 * each}),
        ("elastic-d16", {"printed_constant": lambda each: each + 0.1}),
        ("elastic-d16", {"late_relative": lambda each: 0 * each + 10.0}),
    ],
)
def test_a_printed_estimate_that_grows_otherwise_or_errs_by_more_and_more_is_caught(claim, changed, spoilt):
    assert spoilt("estimators", **changed) == {claim}


@pytest.mark.parametrize("duration", [1.0, 5.0, 20.0])
def test_before_offsets_are_outgrown_the_printed_estimate_does_not_grow_as_it_should(duration, failed):
    assert "elastic-d16-rate" in failed("estimators", cases=12, points=31, trials=10, seeds=2, duration=duration)


def test_indices_read_as_planted_would_not_show_that_size_decides(smoke, spoilt):
    planted = smoke("elastic/estimators")[0]["order_planted"]
    assert spoilt("estimators", order_found=planted) == {"elastic-figd2-size"}
