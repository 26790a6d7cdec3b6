"""Claims on general H and E, on the slides and on the definitions of separation fail where they are spoilt."""

import numpy as np
import pytest

from dynascope.experiments.elastic import general_geometry, separability
from dynascope.experiments.elastic.reference import looped_drift
from dynascope.models.elastic.geometry import geometry_blocks


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        ("thm-3-1-general", {"slow": lambda each: 0 * each + 0.5}),
        ("thm-3-1-general-part-2", {"tied": lambda each: 0 * each}),
        ("thm-3-1-general-both", {"fast": lambda each: 0 * each + 0.5}),
        ("thm-3-1-general-border", {"slope": lambda each: each + 0.1}),
        ("e-schur", {"printed_least": lambda each: 0.5 * each / each}),
        ("e-schur-drift", {"drift_largest": lambda each: 2 * each / each}),
        ("e-separates", {"general": lambda each: 0 * each + 0.5}),
        ("e-mixes", {"falling": lambda each: 0 * each + 0.5}),
        ("e-indefinite", {"indefinite": lambda each: 0 * each + 0.5}),
        ("d20-eigenvalues", {"mixture": lambda each: each + 0.01}),
        ("d20-path", {"mixture_missed": 1e-3}),
        ("slides-gamma", {"alone": 1.0}),
        ("slides-gamma-isotropic", {"isotropic": 0.0}),
    ],
)
def test_spoilt_shares_slopes_and_spectra_are_caught(claim, changed, spoilt):
    assert spoilt("general_geometry", **changed) == {claim}


def test_wrong_blocks_and_a_wrong_mode_are_caught(monkeypatch, failed):
    def lighter(*given, own_weight=0.8):
        return geometry_blocks(*given, own_weight=0.99 * own_weight)

    def spread(classes, features, geometry):
        own, other = looped_drift(classes, features, geometry)
        return own, 0 * other

    monkeypatch.setattr(general_geometry, "geometry_blocks", lighter)
    monkeypatch.setattr(general_geometry, "looped_drift", spread)
    assert failed("general_geometry") == {"d20-eigenvalues", "thm-3-1-general-border"}


def test_drift_blocks_divided_twice_are_caught(smoke, spoilt):
    third = smoke("elastic/drift")[0]["displacement"] / 3
    assert spoilt("drift", displacement=third) >= {"slides-sampling", "elastic-e-sampling"}


def test_an_index_read_off_the_strength_itself_would_be_no_erratum(smoke, spoilt):
    assert spoilt("estimators", tail_strength=smoke("elastic/estimators")[0]["tail_planted"]) == {"elastic-sec4-tail"}


@pytest.mark.parametrize(
    ("claims", "tail", "kind", "value"),
    [
        ({"def-c2-pairwise", "def-order"}, "slow", "pairwise", False),
        ({"def-c4-uniform"}, "slow", "along own directions", False),
        ({"def-c3-universal", "def-c5-uniform"}, "slow", "along one direction", False),
        ({"def-mixed", "def-mixed-falls"}, "fast", "pairwise", True),
        ({"def-mixed", "def-order"}, "fast", "along one direction", True),
    ],
)
def test_classes_that_do_not_part_or_stay_apart_are_caught(claims, tail, kind, value, spoilt):
    def change(each):
        return each.where((each["tail"] != tail) | (each["kind"] != kind), value)

    assert spoilt("separability", apart=change) == claims


def test_classes_that_meet_once_more_are_not_uniformly_apart(spoilt):
    def meets(each):
        late = (each["tail"] == "slow") & (each["time"] == each["time"][-2]) & (each["kind"] != "pairwise")
        return each.where(~late, False)

    assert spoilt("separability", apart=meets) == {"def-c4-uniform", "def-c5-uniform"}


def test_a_decision_that_errs_is_caught(monkeypatch, failed):
    monkeypatch.setattr(separability, "_by_program", lambda cloud: bool(np.ptp(cloud) > 4))
    assert failed("separability", trials=5) >= {"def-c1-planes"}


def test_clouds_that_part_along_one_direction_too_would_leave_the_definitions_in_order(spoilt):
    assert spoilt("separability", own_only=lambda each: each | True) == {"def-increasing"}
