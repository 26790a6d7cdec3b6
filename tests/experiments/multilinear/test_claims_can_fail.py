"""The claims on the multilinear model fail when a formula behind them is wrong."""

import dataclasses

import numpy as np
import pytest

from dynascope import Multilinear
from dynascope.experiments.multilinear import strengths
from dynascope.experiments.registry import find


def unlimited(record):
    """(4.17) without the limit on data."""
    model = Multilinear(300, strengths.EXPONENT, strengths.TARGET, strengths.INITIAL, strengths.RATE)
    return record.assign(sgd_form=("moment", model.loss(time=record["moment"].values, parameters=20)))


def larger_losses(record):
    return record.assign({name: 1.1 * record[name] for name in ("descent_form", "sgd_form", "final_form")})


def other_exponent(record):
    plain = record["plain"] * record["time"] ** (0.05 * record["table"])
    return record.assign(table=1.05 * record["table"], plain=plain)


# experiment, what its record becomes with another formula, claims that must then fail
WRONG = {
    "plain data": ("strengths", unlimited, {"eq4.17-together"}),
    "loss": ("strengths", larger_losses, {"eq4.17-descent", "eq4.17-together", "eq4.28-start"}),
    "exponent": ("finite_size", other_exponent, {"fig-C.1-corrected"}),
    "absent": ("finite_size", lambda r: r.assign(printed_absent=0.9 * r["printed_absent"]), {"eqC.2-absent"}),
    "all skills": ("strengths", lambda r: r.assign(known_loss=0 * r["known_loss"]), {"corB.1.2-known"}),
    "no square": ("strengths", lambda r: r.assign(skill_form=r["skill_rival"]), {"eq4.8-loss"}),
    "linear": ("data_emergence", lambda r: r.assign(linear=1.01 * r["linear"]), {"eqC.5-linear"}),
    "two samples": ("strengths", lambda r: r.assign(final_form=r["final_rival"]), {"eq4.28-start"}),
    "few skills": (
        "optimal_compute",
        lambda r: r.assign(frontier_share=0.6 * r["frontier_share"]),
        {"fig-4.3-plateau"},
    ),
    "both laws": (
        "optimal_compute",
        lambda r: r.assign(loss=r["time_law"] + r["parameter_law"] - r["absent"]),
        {"eq4.39-once"},
    ),
    "bound": (
        "optimal_compute",
        lambda r: r.assign(learnable=r["learnable"] / r["time"] ** 2),
        {"eq4.39-decay"},
    ),
    "worth": ("stage_law", lambda r: r.assign(drop=r["drop"] + 1 / r["rank"]), {"eq4.13-loss"}),
    "waiting": ("stage_law", lambda r: r.assign(interval=1.01 * r["interval"]), {"eq4.14-interval"}),
    "order": ("stage_law", lambda r: r.assign(interval=r["interval"] - 1 / r["rank"]), {"eq4.15-order"}),
    "slope": ("stage_law", lambda r: r.assign(slope=1.05 * r["slope"]), {"eq4.16-law"}),
    "stages": ("stage_law", lambda r: r.assign(excess=0 * r["excess"] + 1), {"sec4.2.4-overlap"}),
    "frequency": (
        "stage_law",
        lambda r: r.assign(scaled=r["scaled"] / (r["skill_exponent"] + 1)),
        {"eq4.20-scaled"},
    ),
    "rate": ("emergence", lambda r: r.assign(corrected_factor=r["printed_factor"]), {"eq5.2-rate"}),
    "slower": ("emergence", lambda r: r.assign(predicted_passing=1.05 * r["predicted_passing"]), {"fig-5.1-time"}),
    "printed data": ("data_emergence", lambda r: r.assign(shared_form=r["shared_printed"]), {"eq5.5-shared"}),
    "printed modes": (
        "toy_network",
        lambda r: r.assign(corrected_rate=r["printed_rate"]),
        {"eqC.15-alpha", "eqC.16-beta", "eqC.17-gamma", "eqC.18-constant"},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_formula_is_caught(case, smoke, failed):
    name, spoil, expected = WRONG[case]
    record, _ = smoke(f"multilinear/{name}")
    assert failed(f"multilinear/{name}", record) <= {"eq4.39-added"}  # which trained models do not bear out
    assert failed(f"multilinear/{name}", spoil(record)) >= expected


def some_sum(record, time, parameters):
    """A loss that is a sum of both laws with constants."""
    return record.assign(loss=time * record["time_law"] + parameters * record["parameter_law"] - record["absent"])


def any_strengths(record):
    """Skills of any strengths from 0 to S: the loss is between half and all of the sum of what it then calls laws."""
    shape = record["loss"].transpose("skill_exponent", "known_skills", "time").shape
    share = np.random.default_rng(0).uniform(0.5, 1.0, shape)
    total = (record["time_law"] + record["parameter_law"]).transpose("skill_exponent", "known_skills", "time")
    return record.assign(loss=share * total - record["absent"])


# what the loss becomes, and whether it is then a sum of both laws but for constants
LOSSES = {
    "a sum": (lambda r: some_sum(r, 0.7, 1.3), True),
    "as trained": (lambda r: r, False),
    "any strengths": (any_strengths, False),
    "product of laws": (lambda r: r.assign(loss=r["time_law"] * r["parameter_law"]), False),
    "time alone": (lambda r: some_sum(r, 1.0, 0.0), False),
    "parameters alone": (lambda r: some_sum(r, 0.0, 1.0), False),
}


@pytest.mark.parametrize("case", LOSSES)
def test_only_a_sum_of_both_laws_passes_for_one(case, smoke, failed):
    spoil, holds = LOSSES[case]
    record, _ = smoke("multilinear/optimal_compute")
    assert ("eq4.39-added" not in failed("multilinear/optimal_compute", spoil(record))) == holds


def test_strengths_that_grow_faster_are_caught(failed, monkeypatch):
    right = Multilinear.strength
    monkeypatch.setattr(Multilinear, "strength", lambda self, skill, time: right(self, skill, 1.001 * time))
    experiment = find("multilinear/strengths")
    quick = dataclasses.replace(experiment.settings("smoke"), steps=16, trials=2)
    assert failed(experiment.name, experiment.record(quick)) >= {"eq4.11-flow", "eqC.4-flow"}


def test_another_model_does_not_have_the_exponents(failed, monkeypatch):
    """Trained with frequencies of another α, the fitted exponents leave the table."""
    right = Multilinear.simulate

    def simulate(self, *args, **options):
        other = Multilinear(self.skills, 1.1 * self.skill_exponent, self.target, self.initial, self.learning_rate)
        return right(other, *args, **options)

    monkeypatch.setattr(Multilinear, "simulate", simulate)
    experiment = find("multilinear/finite_size")
    assert "fig-C.1-corrected" in failed(experiment.name, experiment.record(experiment.settings("smoke")))
