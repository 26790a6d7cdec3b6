"""The claims on linear modes can fail, and fail for the right reason."""

import numpy as np
import pytest

from dynascope.experiments import registry
from dynascope.experiments.linear_modes import eigenmodes, learnability, overfitting
from dynascope.models.linear_modes import DiagonalNetwork, ScalarNetwork, TwoLayerLinear


def _failed(name):
    _, claims = registry.find(f"linear_modes/{name}").evaluate("smoke")
    return {claim.id for claim in claims if claim.verdict == "not reproduced"}


WRONG = {
    # model, method, replacement, experiment, claims that must fail
    "printed rate": (
        ScalarNetwork, "solve", lambda right, self, t, **_: right(self, t, published=True), "theorem_1",
        {"thm1-rate", "thm1-weights"},
    ),
    "limit": (
        ScalarNetwork, "amplification", lambda right, self, **k: 1.0001 * right(self, **k), "theorem_1",
        {"eq6.14-limit"},
    ),
    "weight lever without its square": (
        ScalarNetwork, "amplification",
        lambda right, self, weight=1.0, **k: right(self, weight=np.sqrt(weight), **k), "levers", {"table-6.1-flow"},
    ),
    "printed overlap": (
        DiagonalNetwork, "stage_overlap", lambda right, self, **_: right(self, published=True), "diagonal",
        {"eq3.13-overlap"},
    ),
    "times": (
        DiagonalNetwork, "time_to_reach", lambda right, self, f: 1.001 * right(self, f), "diagonal", {"eq3.12-times"},
    ),
    "imbalance left out": (
        TwoLayerLinear, "imbalance", lambda right, self: np.zeros_like(right(self)), "two_layer", {"balanced-gram"},
    ),
    "square root of the sigmoid": (
        TwoLayerLinear, "aligned_strength", lambda right, self, t: np.sqrt(right(self, t)), "two_layer",
        {"eqA.39-aligned", "eq3.15-strength"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_method_is_caught(case, monkeypatch):
    model, method, spoil, experiment, expected = WRONG[case]
    right = getattr(model, method)
    monkeypatch.setattr(model, method, lambda self, *a, **k: spoil(right, self, *a, **k))
    assert expected <= _failed(experiment)


def test_wrong_functions_are_caught(monkeypatch):
    right = eigenmodes.mode_curves
    monkeypatch.setattr(eigenmodes, "mode_curves", lambda t, *a, **k: right(2 * np.array(t), *a, **k))
    path = eigenmodes.training_path
    monkeypatch.setattr(eigenmodes, "training_path", lambda t, f, y: path(len(y) * np.array(t), f, y))
    assert {"eq1.26-curves", "eqA.9-flow"} <= _failed("eigenmodes")


def test_a_wrong_learnability_is_caught(monkeypatch):
    right = learnability.learnability

    def without_ridge(*a, ridge=0.0, **k):
        return right(*a, ridge=0.0 * np.asarray(ridge), **k)

    monkeypatch.setattr(learnability, "learnability", without_ridge)
    monkeypatch.setattr(overfitting, "learnability", lambda rho, **k: right(rho, **k) * 0 + 1)
    assert {"eq1.35-learnability", "eq1.35-noise-loss"} <= _failed("learnability")
    assert {"eq1.36-learnability", "fig-1.5-learnability"} <= _failed("overfitting")
