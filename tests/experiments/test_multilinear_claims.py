"""The claims on the multilinear model fail when a formula behind them is wrong."""

import pytest

from dynascope import Multilinear
from dynascope.experiments import registry
from dynascope.experiments.multilinear import emergence as emergence_experiment
from dynascope.experiments.multilinear import finite_size, scaling_laws, toy_network

# experiment, where the formula lives, its name, what replaces it, claims that must then fail
WRONG = {
    "plain data": (
        "strengths", Multilinear, "loss", lambda right: lambda self, time=None, data=None, parameters=None: (
            right(self, time, None if time is not None else data, parameters)
        ), {"eq4.17-together"},
    ),
    "faster": (
        "strengths", Multilinear, "strength",
        lambda right: lambda self, skill, time=None, *a, **k: right(self, skill, 1.001 * time, *a, **k),
        {"eq4.11-flow", "eqC.4-flow"},
    ),
    "loss": (
        "strengths", Multilinear, "loss", lambda right: lambda self, *a, **k: 1.1 * right(self, *a, **k),
        {"eq4.17-descent", "eq4.17-together", "eq4.28-start"},
    ),
    "exponent": (
        "finite_size", Multilinear, "exponent", lambda right: lambda self, resource: 1.05 * right(self, resource),
        {"fig-C.1-corrected", "eqC.2-absent"},
    ),
    "absent": (
        "finite_size", Multilinear, "absent_loss",
        lambda right: lambda self, *a, published=False: right(self, *a, published=True), {"eqC.2-absent"},
    ),
    "rate": (
        "emergence", emergence_experiment, "feature_rate", lambda right: lambda b, published: right(b, published=True),
        {"eq5.2-rate"},
    ),
    "slower": (
        "emergence", Multilinear, "emergence_point",
        lambda right: lambda self, *a, **k: 1.05 * right(self, *a, **k), {"fig-5.1-time"},
    ),
    "printed data": (
        "data_emergence", Multilinear, "emergence",
        lambda right: lambda self, *a, published, **k: right(self, *a, published=True, **k), {"eq5.5-shared"},
    ),
    "printed modes": (
        "toy_network", toy_network, "mode_rates",
        lambda right: lambda *a, published=False: right(*a, published=True),
        {"eqC.15-alpha", "eqC.16-beta", "eqC.17-gamma", "eqC.18-constant"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_formula_is_caught(case, monkeypatch):
    experiment, home, name, spoil, expected = WRONG[case]
    monkeypatch.setattr(home, name, spoil(getattr(home, name)))
    _, claims = registry.find(f"multilinear/{experiment}").evaluate("smoke")
    assert expected <= {claim.id for claim in claims if claim.verdict == "not reproduced"}


def test_another_model_does_not_have_the_exponents(monkeypatch):
    """Trained with frequencies of another α, the fitted exponents leave the table."""
    right = scaling_laws.Multilinear.simulate

    def simulate(self, *args, **options):
        other = Multilinear(self.skills, 1.1 * self.skill_exponent, self.target, self.initial, self.learning_rate)
        return right(other, *args, **options)

    monkeypatch.setattr(finite_size.Multilinear, "simulate", simulate)
    _, claims = registry.find("multilinear/finite_size").evaluate("smoke")
    assert {claim.id for claim in claims if claim.verdict == "not reproduced"} >= {"fig-C.1-corrected"}
