"""The claims on linear modes can fail, and fail for the right reason."""

from dataclasses import replace

import numpy as np
import pytest

from dynascope.experiments.registry import find
from dynascope.models.linear_modes import DiagonalNetwork, ScalarNetwork, TwoLayerLinear


def _later(values):
    """A curve whose time runs at another rate."""
    return values.roll(time=1)


SPOILT = {
    # experiment, what a wrong formula would have put into its record, claims that must fail
    "printed rate": (
        "theorem_1",
        lambda r: {"output": r["printed_output"], "first": _later(r["first"])},
        {"thm1-rate", "thm1-weights"},
    ),
    "limit": ("theorem_1", lambda r: {"amplification": 1.0001 * r["amplification"]}, {"eq6.14-limit"}),
    "printed overlap": ("diagonal", lambda r: {"overlap": r["overlap_printed"]}, {"eq3.13-overlap"}),
    "eigenvalues without the square": (
        "diagonal",
        lambda r: {"intensity_form": r["intensity_rival"]},
        {"eq3.11-modes"},
    ),
    "eigenfunctions that mix": ("diagonal", lambda r: {"overlaps": 0 * r["overlaps"] + 0.4}, {"eq3.11-modes"}),
    "square root of the sigmoid": (
        "two_layer",
        lambda r: {"strength_sigmoid": np.sqrt(r["strength_sigmoid"])},
        {"eqA.39-aligned", "eq3.15-strength"},
    ),
    "other rates": (
        "eigenmodes",
        lambda r: {"coefficient": _later(r["coefficient"]), "weights": r["weights_printed"]},
        {"eq1.26-curves", "eqA.9-flow"},
    ),
    "learnability without its ridge": (
        "learnability",
        lambda r: {name: (r[name].dims, r[name].values[[0, 0, 2, 2]]) for name in ("share", "noise_loss")},
        {"eq1.35-learnability", "eq1.35-noise-loss"},
    ),
    "a fit that misses the target": (
        "overfitting",
        lambda r: {"missed": r["missed"] + 0.1, "noise_energy": r["noise_energy"] + 1.0},
        {"fig-1.3-hundredth"},
    ),
    "the printed tail loses the signal": (
        "overfitting",
        lambda r: {name: r[name].roll(tail=1) for name in ("missed", "noise_energy")},
        {"fig-1.3-hundredth", "fig-1.3-signal"},
    ),
    "eigenfunctions of another size": (
        "eigenmodes",
        lambda r: {"mean_square": 1.2 * r["mean_square"]},
        {"alg1-spectrum"},
    ),
    "a kernel that grows as the target": (
        "lazy_rich",
        lambda r: {"kernel_form": 1.01 * r["kernel_form"]},
        {"eq6.3-kernel"},
    ),
    "a kernel that knows no imbalance": (
        "lazy_rich",
        lambda r: {"kernel_change": r["kernel_change"].isel(imbalance=0).broadcast_like(r["kernel_change"])},
        {"eq6.3-kernel", "sec6.2-lazier"},
    ),
    "another lever": ("levers", lambda r: {"through_target": 1.001 * r["through_target"]}, {"table-6.1-one-lever"}),
    "a lever that does nothing": (
        "levers",
        lambda r: {"measured": r["measured"].where(r["row"] != r["row"][-1], r["measured"].isel(row=0))},
        {"table-6.1-raises", "table-6.1-flow"},
    ),
    "everything is learned": (
        "overfitting",
        lambda r: {name: 0 * r[name] + 1 for name in ("theory_share", "theory_overfitting")},
        {"eq1.36-learnability", "fig-1.5-learnability"},
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_wrong_formula_is_caught(case, smoke, failed):
    name, spoil, expected = SPOILT[case]
    record, _ = smoke(f"linear_modes/{name}")
    assert not expected & failed(f"linear_modes/{name}", record)
    assert expected <= failed(f"linear_modes/{name}", record.assign(spoil(record)))


def test_the_printed_tail_alone_decides_benign_overfitting(smoke, failed):
    """With the errors of the weaker tail in its place the printed spectrum would be benign."""
    record, _ = smoke("linear_modes/overfitting")
    assert "fig-1.3-benign" in failed("linear_modes/overfitting", record)
    swapped = {name: record[name].roll(tail=1) for name in ("missed", "noise_energy")}
    assert "fig-1.3-benign" not in failed("linear_modes/overfitting", record.assign(swapped))


def test_the_printed_tail_alone_decides_when_noise_is_fitted(smoke):
    record, _ = smoke("linear_modes/overfitting")
    for tail, verdict in ((0, "not reproduced"), (1, "erratum")):
        late = record["noise_time"].copy()
        late[{"tail": tail}] *= 20
        found = {each.id: each for each in find("linear_modes/overfitting").judge(record.assign(noise_time=late))}
        assert found["sec1.6.1-noise-time"].verdict == verdict


WRONG = {
    # what records do not hold: model, method, replacement, experiment, what makes it quick, claims that must fail
    "weight lever without its square": (
        ScalarNetwork,
        "amplification",
        lambda right, self, weight=1.0, **k: right(self, weight=np.sqrt(weight), **k),
        "levers",
        {},
        {"table-6.1-flow"},
    ),
    "times": (
        DiagonalNetwork,
        "time_to_reach",
        lambda right, self, f: 1.001 * right(self, f),
        "diagonal",
        {"modes": 8},
        {"eq3.12-times"},
    ),
    "imbalance left out": (
        TwoLayerLinear,
        "imbalance",
        lambda right, self: np.zeros_like(right(self)),
        "two_layer",
        {"repeats": 1},
        {"balanced-gram"},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_method_is_caught(case, failed, monkeypatch):
    model, method, spoil, name, quick, expected = WRONG[case]
    right = getattr(model, method)
    monkeypatch.setattr(model, method, lambda self, *a, **k: spoil(right, self, *a, **k))
    experiment = find(f"linear_modes/{name}")
    record = experiment.record(replace(experiment.settings("smoke"), **quick))
    assert expected <= failed(experiment.name, record)
