"""Claims on separation, the discrete limit and the linearisation fail where what they judge is spoilt."""

import pytest

from dynascope.experiments.elastic import binary_separation, linearisation, tail_index
from dynascope.experiments.registry import find
from dynascope.models.elastic import LocallyElastic, model
from dynascope.models.elastic.softmax import margin_jacobian


def verdicts(name):
    return {claim.id: claim.verdict for claim in find(name).evaluate("smoke")[1]}


def test_a_law_with_too_much_noise_is_caught(monkeypatch):
    right = model.probability_along
    monkeypatch.setattr(
        model, "probability_along", lambda *a, spread, **options: right(*a, spread=2 * spread, **options)
    )
    assert verdicts("elastic/binary_separation")["thm-2-1-law"] == "not reproduced"


def test_a_wrong_rate_of_growth_is_caught(monkeypatch):
    right = model.isotropic_transitions

    def faster(times, intra, inter, covariance, *, classes):
        for flow, spread in right(times, intra, inter, covariance, classes=classes):
            yield 1.3 * flow, spread

    monkeypatch.setattr(model, "isotropic_transitions", faster)
    found = verdicts("elastic/tail_index")
    assert found["thm-3-1-border"] == "not reproduced"
    assert found["thm-3-1-sides"] == "not reproduced"


def test_a_wrong_covariance_is_caught(monkeypatch):
    right = LocallyElastic.covariance
    monkeypatch.setattr(LocallyElastic, "covariance", lambda self, *a, **k: 2 * right(self, *a, **k))
    assert verdicts("elastic/discrete_limit")["eq5-variance"] == "not reproduced"


def test_a_wrong_sign_of_the_jacobian_is_caught(monkeypatch):
    monkeypatch.setattr(linearisation, "margin_jacobian", lambda state: -margin_jacobian(state))
    assert verdicts("elastic/linearisation")["b11-sign"] == "not reproduced"


@pytest.mark.parametrize("module", [binary_separation, tail_index])
def test_a_model_without_separation_is_caught(module, monkeypatch):
    """With the drift switched off nothing separates, and the theorems' positive halves must fail."""
    monkeypatch.setattr(
        module, "LocallyElastic", lambda k, p, a, b, *rest, **more: LocallyElastic(k, p, 0, 0, *rest, **more)
    )
    judged = {claim.id: claim.verdict for claim in module.check(module.run(module.SCALES["smoke"]))}
    assert judged[{binary_separation: "thm-2-1-parts", tail_index: "thm-3-1-slow-tail"}[module]] == "not reproduced"
