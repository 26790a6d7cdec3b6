"""Every experiment at its smallest scale: its claims hold, and it leaves its files."""

import json

import pytest

from dynascope import load
from dynascope.experiments import registry
from dynascope.experiments.claims import summary
from dynascope.experiments.experiment import Experiment
from dynascope.report import reproduce

MODELS = {
    "deep_linear": {"DeepLinear", "ModeEquation"},
    "elastic": {"LocallyElastic", "Ensemble"},
    "features": {"FeatureDefinitions", "HeavisideNetwork"},
    "health": {"watched networks"},
    "linear_modes": {"DiagonalNetwork", "ScalarNetwork", "TwoLayerLinear", "learnability", "linear model"},
    "multilinear": {"Multilinear"},
    "regimes": {"Ensemble"},
    "phases": {"ChainAndNetwork", "NetworkCurves", "NoisyDescent", "PhaseDiagram"},
    "spring_block": {"GaussianClasses", "SpringBlock"},
    "steering": {"SpringBlock", "NetworkCurves"},
    "forecasts": {"forecast"},
}
# One of each family; the others are left to `make verify-smoke`. Networks of the two families that have nothing quicker
# are trained for some steps in phases/test_depth.py and regimes/test_claims_can_fail.py.
QUICK = (
    "deep_linear/gradient_flow",
    "elastic/mean_path",
    "features/definitions",
    "linear_modes/inductive_bias",
    "multilinear/emergence",
    "spring_block/left_friction",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.ci) for name in registry.names()]
)
def test_experiment_holds_at_its_smallest_scale(name, smoke, tmp_path, monkeypatch):
    done = smoke(name)
    monkeypatch.setattr(Experiment, "evaluate", lambda self, scale: done)
    result = reproduce(name, "smoke", tmp_path)
    assert not [f"{claim.id}: {summary(claim)}" for claim in result.claims if claim.fails("smoke")]
    assert all(claim.note for claim in result.claims if claim.verdict == "not run")  # says what it would need
    assert json.loads(load(result.files["record"]).attrs["model"]) in MODELS[name.split("/")[0]]
    assert result.files["picture"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in result.files["vector_picture"].read_text()
    assert all(f"| {claim.id} |" in result.files["table"].read_text() for claim in result.claims)
    page = result.files["report"].read_text()
    assert all(claim.id in page for claim in result.claims)
    assert "http" not in page.split("base64,")[0]  # nothing is loaded from elsewhere
