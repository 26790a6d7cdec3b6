"""The machinery of claims, and every experiment at its smallest scale."""

import dataclasses
import json
import math

import equinox as eqx
import pytest

from dynascope import SpringBlock, load
from dynascope.experiments import registry
from dynascope.experiments.claims import Claim
from dynascope.report import claims_json, reproduce, summary

CLAIM = Claim("x", "paper (1)", "x is 1")
MODELS = {
    "deep_linear": {"DeepLinear", "ModeEquation"},
    "elastic": {"LocallyElastic", "Ensemble"},
    "features": {"FeatureDefinitions", "HeavisideNetwork"},
    "linear_modes": {"DiagonalNetwork", "ScalarNetwork", "TwoLayerLinear", "learnability", "linear model"},
    "multilinear": {"Multilinear"},
    "regimes": {"Ensemble"},
    "phases": {"ChainAndNetwork", "NetworkCurves", "PhaseDiagram"},
    "spring_block": {"SpringBlock"},
}

# statements on trained networks that do not hold, or that the few small networks of a test cannot settle
UNSETTLED = {
    f"elastic-{name}"
    for name in (
        "fig4c-crosses", "fig4c-beyond", "figd2-dominates", "figd5-mixed", "figd6-mixed", "figd4-inter",
        *(
            f"{name}-{data}"
            for data in ("geomnist", "cifar")
            for name in (
                "sec4-converged", "fig1-separated", "fig3-intra", "fig3-inter-isotropic", "fig3-inter-logits",
                "fig3-identified", "fig3-drawn", "fig4c-separable", "fig5-better", "fig5-class", "figd3-rises",
                "figd3-sigmoid", "figd6-rises", "figd7-class", "figd8-ratios", "figd8-start", "figd8-wrong",
                "figd9-better", "figd9-fair", "figd9-terminal", "figd10-amplified", "figd10-onset",
            )
        ),
    )
} | {
    "fig-4-chain-friction", "fig-5a-step-full", "fig-5a-entropy-step", "fig-s3-dead-full",
    "fig-s16-convex", "fig-s16-error", "s3-constants-concave", "s3-constants-spread",
    "fig-s10a-accuracy", "fig-s10b-accuracy", "fig-s12a-accuracy",  # of photographs and of all of Fashion-MNIST
}  # fmt: skip


def test_equality():
    assert CLAIM.verdict == "not run"
    assert CLAIM.equals([1.0, 1.1], 1.0, 0.2).verdict == "reproduced"
    assert CLAIM.equals([1.0, 1.3], 1.0, 0.2).verdict == "not reproduced"
    assert CLAIM.equals(math.nan, 1.0, 0.2).verdict == "not reproduced"


def test_a_measurement_that_cannot_tell_rivals_apart_reproduces_nothing():
    assert CLAIM.equals(1.0, 1.0, 0.3, rival=2.0, standard_error=0.1).verdict == "reproduced"
    vague = CLAIM.equals(1.0, 1.0, 0.9, rival=2.0, standard_error=0.3)
    assert vague.verdict == "not reproduced"
    assert "too large to tell" in vague.note
    with pytest.raises(ValueError, match="standard_error must be given"):
        CLAIM.equals(1.0, 1.0, 0.3, rival=2.0)


def test_inequalities():
    assert CLAIM.exceeds(1.0, 0.0, 0.5).verdict == "reproduced"
    assert CLAIM.exceeds([1.0, 0.4], 0.0, 0.5).verdict == "not reproduced"
    assert CLAIM.falls_below(-1.0, 0.0, 0.5).verdict == "reproduced"
    assert CLAIM.falls_below(math.nan, 0.0, 0.5).verdict == "not reproduced"


def test_corrections():
    assert CLAIM.corrects(1.0, 1.01, 0.1, published=2.0, standard_error=0.01, note="n").verdict == "erratum"
    assert CLAIM.corrects(1.0, 1.01, 0.1, published=1.05, standard_error=0.001, note="n").verdict == "not reproduced"
    assert CLAIM.corrects(1.5, 1.01, 0.1, published=2.0, standard_error=0.01, note="n").verdict == "not reproduced"


def test_summary_shows_the_worst_case():
    assert summary(CLAIM) == "—"
    assert summary(CLAIM.exceeds([3.0, 1.0], 0.0, 0.5)) == "1 > 0 + 0.5 (worst of 2)"
    assert "printed 2" in summary(CLAIM.corrects(1.0, 1.0, 0.1, published=2.0, standard_error=0.01, note="n"))


def test_json_has_no_nan():
    text = claims_json([CLAIM.equals(math.nan, 1.0, 0.2)])
    assert json.loads(text)[0]["measured"] == [None]


def test_names_are_known_and_unknown_ones_refused():
    assert registry.names("spring_block") == [n for n in registry.EXPERIMENTS if n.startswith("spring_block/")]
    with pytest.raises(ValueError, match="family must be one of"):
        registry.names("nothing")
    with pytest.raises(ValueError, match="name must be one of"):
        registry.find("spring_block/nothing")
    with pytest.raises(ValueError, match="scale must be one of smoke, laptop, paper"):
        registry.find("spring_block/phase_diagram").config("huge")


def test_claim_ids_are_unique_and_every_experiment_has_three_scales():
    experiments = [registry.find(name) for name in registry.names()]
    ids = [claim.id for experiment in experiments for claim in experiment.claims]
    assert len(ids) == len(set(ids))
    for experiment in experiments:
        assert tuple(experiment.scales) == registry.SCALES
        assert all(dataclasses.is_dataclass(config) for config in experiment.scales.values())


@pytest.mark.parametrize("name", registry.names())
def test_experiment_holds_at_its_smallest_scale(name, tmp_path):
    result = reproduce(name, "smoke", tmp_path)
    failed = [
        f"{claim.id}: {summary(claim)}"
        for claim in result.claims
        if claim.verdict == "not reproduced" and claim.id not in UNSETTLED
    ]
    assert not failed
    assert all(claim.note for claim in result.claims if claim.verdict == "not run")  # says what it would need
    assert json.loads(load(result.files["record"]).attrs["model"]) in MODELS[name.split("/")[0]]
    assert result.files["picture"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in result.files["vector_picture"].read_text()
    assert all(f"| {claim.id} |" in result.files["table"].read_text() for claim in result.claims)
    page = result.files["report"].read_text()
    assert all(claim.id in page for claim in result.claims)
    assert "http" not in page.split("base64,")[0]  # nothing is loaded from elsewhere


def test_claims_need_cases():
    with pytest.raises(ValueError, match="at least one case"):
        CLAIM.equals([], [], [])


WRONG = {
    # a closed form spoilt in a way that its claims must notice: experiment, method, replacement, claims that must fail
    "sticking": ("equilibrium", "equilibrium", lambda right, self, **_: right(self, published=True), {"eq6-sticking"}),
    "path": ("mean_path", "mean_path", lambda right, self, *a, **k: 1.05 * right(self, *a, **k), {"mean-path"}),
    "noisier": (
        "mean_path",
        "mean_path",
        lambda right, self, *a, **k: right(eqx.tree_at(lambda c: c.noise, self, 1.2 * self.noise), *a, **k),
        {"mean-path"},
    ),
    "curvature": (
        "stationary_curvature",
        "stationary_curvature",
        lambda right, self, *a, **k: right(self, *a, **k) - 0.02,
        {"eq7-overdamped", "eq7-inertial", "eq7-langevin", "eq7-bounded-falls"},
    ),
    "bound": (
        "stationary_curvature",
        "stationary_curvature",
        lambda right, self, *a, **k: right(eqx.tree_at(lambda c: c.noise, self, 0.5 * self.noise), *a, **k),
        {"eq7-bounded-holds"},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_formula_is_caught(case, monkeypatch):
    """The claims can fail, and fail for the right reason."""
    experiment, method, spoil, expected = WRONG[case]
    right = getattr(SpringBlock, method)
    monkeypatch.setattr(SpringBlock, method, lambda self, *a, **k: spoil(right, self, *a, **k))
    _, claims = registry.find(f"spring_block/{experiment}").evaluate("smoke")
    assert expected <= {claim.id for claim in claims if claim.verdict == "not reproduced"}
