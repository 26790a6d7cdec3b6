"""Claims on class means, drift, collapse and direction of the locally elastic model can fail, for the right reason."""

from itertools import combinations

import equinox as eqx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.experiments.elastic import collapse, direction, linearisation
from dynascope.experiments.elastic.reference import looped_drift, solve_means
from dynascope.measure.hyperplanes import separating_direction
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import margin_amplitudes
from dynascope.models.elastic.strengths import PowerLaw

FEWER = {"mean_path": {"draws": 1}, "drift": {}, "collapse": {"starts": 2}}


def _literal(right, self, at):
    """The printed Kronecker form: only diagonals of the blocks are left."""
    return right(self, at) * np.tile(np.eye(self.blocks.shape[2]), self.blocks.shape[:2])


def _ratio_of_start(right, self, times, start):
    """As if β/α stayed what it is at time 0."""
    intra, inter = self.elasticity.intra, self.elasticity.inter
    if not isinstance(inter, PowerLaw) or not isinstance(intra, PowerLaw):
        return right(self, times, start)
    kept = PowerLaw(inter.scale, intra.index)
    return right(eqx.tree_at(lambda model: model.elasticity.inter, self, kept), times, start)


WRONG = {
    # a product's formula spoilt in a way that its claims must notice: experiment, method, replacement, failing claims
    "path": (
        "mean_path",
        "mean_path",
        lambda right, self, *a: (1 + 1e-7) * right(self, *a),
        {"elastic-i-model-path", "elastic-l-model-path", "elastic-l-model-varying-ratio", "elastic-c11-offset"},
    ),
    "constant ratio": (
        "mean_path",
        "mean_path",
        _ratio_of_start,
        {"elastic-l-model-varying-ratio"},
    ),
    "Kronecker": (
        "drift",
        "drift",
        _literal,
        {"elastic-l-model-spectrum", "elastic-l-model-multiplicity", "elastic-kronecker"},
    ),
    "drift": ("drift", "drift", lambda right, self, at: 1.1 * right(self, at), {"elastic-c8-eigenvalue"}),
    "samples": ("drift", "mean_path", lambda right, self, *a: 0.9 * right(self, *a), {"elastic-c12-samples"}),
    "collapse": (
        "collapse",
        "mean_path",
        lambda right, self, times, start: right(self, times, 1.001 * start + 0.001),
        {"elastic-collapse-path", "elastic-collapse-integrable"},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_formula_is_caught(case, monkeypatch, failed):
    experiment, method, spoil, expected = WRONG[case]
    right = getattr(LocallyElastic, method)
    monkeypatch.setattr(LocallyElastic, method, lambda self, *a: spoil(right, self, *a))
    assert expected <= failed(experiment, **FEWER[experiment])


def test_a_distance_that_forgets_its_shift_is_caught(monkeypatch, failed):
    """Cosines compared with 0 instead of −1/(K−1)."""

    def unshifted(means):
        unit = means / np.linalg.norm(means, axis=-1, keepdims=True)
        gram = np.einsum("...kp,...lp->...kl", unit, unit)
        return np.sqrt(((gram - np.eye(gram.shape[-1])) ** 2).mean(axis=(-1, -2)))

    monkeypatch.setattr(collapse, "etf_distance", unshifted)
    expected = {"elastic-collapse-rate", "elastic-collapse-bounded", "elastic-collapse-right-side"}
    assert expected <= failed("collapse", **FEWER["collapse"])


def test_a_worse_direction_is_caught(monkeypatch, failed):
    def aside(means, method="best"):
        best = separating_direction(means, method=method)
        turned = best + 0.1 * np.roll(best, 1)
        return turned / np.linalg.norm(turned)

    monkeypatch.setattr(direction, "separating_direction", aside)
    assert {"elastic-c23-global", "elastic-c24-collapse"} <= failed("direction", draws=2)


def test_simple_directions_no_better_than_random_ones_are_caught(spoilt):
    assert spoilt("direction", lead=lambda each: each - each.mean()) == {"elastic-c24-ratio"}


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        ("elastic-c10", {"largest": lambda each: each / 3}),
        ("elastic-c10-schur", {"above_least": lambda each: 0.5 * each / each.min()}),
    ],
)
def test_a_spectrum_within_the_printed_bounds_or_beyond_the_right_ones_is_caught(claim, changed, spoilt):
    assert spoilt("drift", **changed) == {claim}


@given(st.integers(0, 2**31), st.sampled_from([(2, 2), (3, 3), (4, 6)]), st.sampled_from(["isotropic", "logits"]))
def test_the_reference_shares_no_code_but_agrees(seed, shape, geometry):
    random = np.random.default_rng(seed)
    intra, inter = random.uniform(-1, 1, 2)
    own, other = looped_drift(*shape, geometry)
    model = LocallyElastic(*shape, intra, inter, geometry)
    np.testing.assert_allclose(intra * own + inter * other, model.drift(0.0), atol=1e-14)
    starts, times = random.standard_normal((2, *shape)), np.array([0.0, 0.7, 3.0])
    solved = solve_means(times, starts, lambda _: intra, lambda _: inter, geometry)
    np.testing.assert_allclose(solved, model.mean_path(times, starts), atol=1e-9 * np.abs(solved).max())


def test_objective_is_the_printed_one():
    random = np.random.default_rng(0)
    means, along = random.standard_normal((5, 3)), random.standard_normal((10, 3))
    printed = [min(abs((a - b) @ v) for a, b in combinations(means, 2)) for v in along]
    np.testing.assert_allclose(direction._objective(means, along), printed)


def test_starts_of_collapse_lie_where_they_should():
    amplitude = margin_amplitudes(collapse._starts(np.random.default_rng(0), 4, 50))
    assert np.all(amplitude[:, 0] < 0)
    assert np.all(amplitude[:, 1:] >= 1 - 1e-12)
    assert np.all(amplitude.mean(axis=1) > 0)


@pytest.mark.parametrize(
    ("experiment", "claim", "changed"),
    [
        ("mean_path", "eq3-solution", {"binary_missed": lambda each: each + 1e-6}),
        ("mean_path", "elastic-c5-constant", {"constant_missed": lambda each: each + 1e-6}),
        ("mean_path", "d21-range", {"difference": lambda each: 1.1 * each}),
        ("estimators", "elastic-d4", {"shared_missed": lambda each: each + 1e-3}),
        ("estimators", "elastic-d5", {"apart_missed": lambda each: each + 1e-3}),
        ("linearisation", "b6-margins", {"margin_missed": lambda each: each + 1e-6}),
        ("linearisation", "b10-jacobian", {"jacobian_missed": lambda each: each + 1e-6}),
        ("linearisation", "b12-second", {"expansion_order": lambda each: each - 1}),
        ("linearisation", "b7-second", {"drift_order": lambda each: each - 1}),
        ("collapse", "eq10-frame", {"frame_missed": lambda each: each + 1e-6}),
        ("discrete_limit", "eq1-mean", {"binary_mean": lambda each: 0.5 * each}),
    ],
)
def test_spoilt_closed_forms_are_caught(experiment, claim, changed, spoilt):
    assert spoilt(experiment, **changed) == {claim}


@pytest.mark.parametrize(
    ("name", "claims"), [("margin_jacobian", {"b10-jacobian", "b12-second"}), ("margins", {"b6-margins", "b7-second"})]
)
def test_spoilt_formulas_of_the_softmax_are_caught(name, claims, monkeypatch, failed):
    right = getattr(linearisation, name)
    monkeypatch.setattr(linearisation, name, lambda state: 1.1 * right(state))
    assert failed("linearisation") >= claims
