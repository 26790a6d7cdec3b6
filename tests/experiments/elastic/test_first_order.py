"""Claims on one step of a network fail where what they judge is spoilt."""

import pytest

from dynascope.experiments.registry import find


@pytest.mark.parametrize(
    ("claims", "changed"),
    [
        ({"b1-order"}, {"step_error": lambda each: 0 * each + 0.01}),
        ({"b1-rate"}, {"step_error": lambda each: each + 0.2 * (each["rate"] == "training")}),
        ({"b3-weights"}, {"weight_error": lambda each: each + 1e-6}),
        ({"b4-start"}, {"mean_error": lambda each: each + 1}),
    ],
)
def test_steps_that_are_not_of_first_order_are_caught(claims, changed, spoilt):
    assert spoilt("first_order", **changed) == claims


@pytest.mark.parametrize(("error", "ratio", "verdict"), [(0.01, 2.0, "reproduced"), (1.0, 1.0, "not reproduced")])
def test_class_means_after_training_are_judged(error, ratio, verdict, smoke):
    record = smoke("elastic/first_order")[0]
    record = record.assign(mean_error=0 * record["mean_error"] + error, margin_ratio=0 * record["margin_ratio"] + ratio)
    found = {each.id: each.verdict for each in find("elastic/first_order").judge(record)}
    assert (found["b4-trained"], found["b4-margins"]) == (verdict, verdict)
