"""Claims on separation, the discrete limit and the linearisation fail where what they judge is spoilt."""

import pytest

from dynascope.experiments.elastic import binary_separation, linearisation, tail_index
from dynascope.models.elastic import LocallyElastic, model
from dynascope.models.elastic.softmax import margin_jacobian


def test_a_law_with_too_much_noise_is_caught(monkeypatch, verdicts):
    right = model.probability_along
    monkeypatch.setattr(
        model, "probability_along", lambda *a, spread, **options: right(*a, spread=2 * spread, **options)
    )
    assert verdicts("binary_separation", gaps=(-0.1, 0.1))["thm-2-1-law"] == "not reproduced"


def test_a_wrong_rate_of_growth_is_caught(monkeypatch, verdicts):
    right = model.isotropic_transitions

    def faster(times, intra, inter, covariance, *, classes):
        for flow, spread in right(times, intra, inter, covariance, classes=classes):
            yield 1.3 * flow, spread

    monkeypatch.setattr(model, "isotropic_transitions", faster)
    found = verdicts("tail_index", indices=(0.8, 1.5))
    assert found["thm-3-1-border"] == "not reproduced"
    assert found["thm-3-1-sides"] == "not reproduced"


def test_a_wrong_covariance_is_caught(monkeypatch, verdicts):
    right = LocallyElastic.covariance
    monkeypatch.setattr(LocallyElastic, "covariance", lambda self, *a, **k: 2 * right(self, *a, **k))
    assert verdicts("discrete_limit")["eq5-variance"] == "not reproduced"


def test_a_wrong_sign_of_the_jacobian_is_caught(monkeypatch, verdicts):
    monkeypatch.setattr(linearisation, "margin_jacobian", lambda state: -margin_jacobian(state))
    assert verdicts("linearisation")["b11-sign"] == "not reproduced"


@pytest.mark.parametrize(
    ("module", "claim", "fewer"),
    [
        (binary_separation, "thm-2-1-parts", {"gaps": (-0.4, 0.4)}),
        (tail_index, "thm-3-1-slow-tail", {"indices": (0.8, 1.5), "ratios": (1.3,), "trials": 20}),
    ],
)
def test_a_model_without_separation_is_caught(module, claim, fewer, monkeypatch, verdicts):
    """With the drift switched off nothing separates, and the theorems' positive halves must fail."""
    monkeypatch.setattr(
        module, "LocallyElastic", lambda k, p, a, b, *rest, **more: LocallyElastic(k, p, 0, 0, *rest, **more)
    )
    assert verdicts(module.__name__.rpartition(".")[2], **fewer)[claim] == "not reproduced"


def test_shares_of_chance_below_the_threshold_and_of_none_at_it_are_caught(spoilt):
    """At α < β not even chance parts the classes; at α = β chance does."""
    assert spoilt("binary_separation", mixed=lambda each: 0 * each) == {"thm-2-1-mixes"}
    assert spoilt("binary_separation", mixed=lambda each: 0 * each + each.sel(gap=0.0)) == {"thm-2-1-mixes"}


def test_a_symmetric_geometry_and_logits_that_stay_finite_are_caught(spoilt):
    assert spoilt("tail_index", asymmetry=0.0) == {"thm-3-1-logits"}
    assert "b14-converges" in spoilt("linearisation", amplitude=lambda each: 0 * each + 1)
