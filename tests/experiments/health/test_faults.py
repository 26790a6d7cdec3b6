"""Claims about the rules of health fail when the rules are blind, too eager or wrong about the cause."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.health import faults
from dynascope.experiments.health.faults import CAUSES, HEALTHY, NOTHING, confusion
from dynascope.experiments.health.trainings import FAULTS
from dynascope.monitor.health import RULES

NAME = "health/faults"
SEEDS = 20


@pytest.fixture
def record():
    """Every fault is found for what it is, and the loss alone tells half of them."""
    rows = []
    for architecture in ("mlp", "cnn"):
        for seed in range(SEEDS):
            rows += [
                (architecture, fault, seed, causes[0], 0.1 + (at % 2))
                for at, (fault, causes) in enumerate(CAUSES.items())
            ]
            rows += [(architecture, HEALTHY, seed * len(CAUSES) + each, NOTHING, 0.2) for each in range(len(CAUSES))]
    names = ("architecture", "fault", "seed", "first", "left")
    made = {name: ("run", np.array(column)) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return xr.Dataset(made | {"found": made["first"], "learnt": ("run", np.full(len(rows), 0.9))})


def _changed(record, share, fault, first):
    """A share of the runs with or without a fault, with another first finding."""
    chosen = (record["fault"].values == HEALTHY) == (fault == HEALTHY)
    chosen &= np.arange(record.sizes["run"]) % round(1 / share) == 0
    changed = record["first"].astype(object).where(~chosen, first).astype(str)
    return record.assign(first=changed, found=changed)


def test_claims_hold(record, failed):
    assert failed(NAME, record) == set()
    assert float(confusion(record).sel(fault="leak", finding="probe leak")) == 1.0


@pytest.mark.parametrize(
    ("share", "fault", "first", "claim"),
    [
        (0.1, "faulty", NOTHING, "health-recall"),
        (0.5, "faulty", "stuck", "health-cause"),
        (0.05, HEALTHY, "stuck", "health-alarms"),
        (0.5, "faulty", NOTHING, "health-rival"),
    ],
)
def test_claims_fail_where_the_rules_do(record, failed, share, fault, first, claim):
    assert claim in failed(NAME, _changed(record, share, fault, first))


def test_a_run_without_a_fault_that_has_not_learnt_is_no_false_alarm(record, failed):
    accused = _changed(record, 0.05, HEALTHY, "stuck")
    wrong = (accused["fault"].values == HEALTHY) & (accused["first"].values == "stuck")
    assert failed(NAME, accused.assign(learnt=("run", np.where(wrong, 0.4, 0.9)))) == set()


def test_every_fault_has_a_cause_that_some_rule_names():
    assert set(CAUSES) == set(FAULTS) - {HEALTHY}
    assert {name for causes in CAUSES.values() for name in causes} <= set(RULES)


def test_runs_without_a_fault_have_seeds_of_their_own():
    points = faults._points(faults.Config(healthy=3))
    seeds = [each["seed"] for each in points if each["architecture"] == "cnn" and each["fault"] == HEALTHY]
    assert len(set(seeds)) == len(seeds) == 3 * 20 * len(CAUSES)
    assert min(seeds) >= 40
