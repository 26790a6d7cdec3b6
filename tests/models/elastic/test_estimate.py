"""Planted strengths come back; intervals cover; what is not identified is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope.models.elastic.compare import relative_difference
from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.models.elastic.geometry import margin_directions
from dynascope.models.elastic.mean_path import isotropic_path, logit_path
from dynascope.models.elastic.strengths import Constant, Function, PowerLaw
from dynascope.models.elastic.tails import tail_index

TIMES = np.linspace(0.0, 10.0, 101)
PATHS = {"logits": logit_path, "isotropic": isotropic_path}


def planted(classes, features, seed):
    """Class means near their own directions, all different."""
    random = np.random.default_rng(seed)
    scales = 1 + 0.5 * random.random((classes, 1))
    return margin_directions(classes, features) * scales + 0.1 * random.random((classes, features))


@pytest.mark.parametrize("geometry", PATHS)
@given(
    st.sampled_from([2, 3, 5, 10]),
    st.sampled_from([0, 1, 2, 3]),
    st.floats(0.1, 1.0),
    st.floats(-0.3, 0.3),
    st.integers(0, 99),
)
def test_planted_strengths_come_back(geometry, classes, extra, scale, mixed, seed):
    intra = Function(lambda t: scale * (1 + 0.5 * np.sin(t)))
    inter = Function(lambda t: mixed * np.cos(t / 2))
    path = PATHS[geometry](TIMES, planted(classes, classes + extra, seed), intra, inter)
    found = estimate_strengths(TIMES, path, geometry)
    begin = int(np.searchsorted(TIMES, float(found["reference_time"])))
    if geometry == "logits" and extra == classes:  # then the directions are orthogonal and β is not seen
        assert not found["ok"]
        return
    assert found["ok"]
    for name, strength in (("integrated_intra", intra), ("integrated_inter", inter)):
        truth = strength.integral(TIMES) - strength.integral(TIMES[begin])
        assert np.abs(found[name].values - truth)[begin:].max() < 1e-8
        assert np.all(np.isnan(found[name].values[:begin]))
    np.testing.assert_allclose(
        found["integrated_gap"][begin:], (found["integrated_intra"] - found["integrated_inter"])[begin:], atol=1e-8
    )


def test_derivatives_and_tail_indices():
    times = np.linspace(0.0, 200.0, 2001)
    path = logit_path(times, planted(3, 3, 0), PowerLaw(1.0, 0.6), PowerLaw(-0.3, 0.9))
    found = estimate_strengths(times, path, window=11, reference_time=0.0)
    late = times > 20
    np.testing.assert_allclose(found["intra"][late], PowerLaw(1.0, 0.6)(times[late]), rtol=1e-3)
    np.testing.assert_allclose(found["inter"][late], PowerLaw(-0.3, 0.9)(times[late]), rtol=1e-3)
    assert float(found["tail_index_intra"]) == pytest.approx(0.6, abs=1e-3)
    assert float(found["tail_index_inter"]) == pytest.approx(0.9, abs=1e-3)
    uneven = np.concatenate([times[:100], times[100::10]])
    coarse = estimate_strengths(uneven, logit_path(uneven, planted(3, 3, 0), PowerLaw(1.0, 0.6), PowerLaw(-0.3, 0.9)))
    assert float(coarse["tail_index_intra"]) == pytest.approx(0.6, abs=0.01)
    assert np.isnan(tail_index([0.0, 1.0, 2.0], [1.0, 0.0, 0.0]))


def test_intervals_cover_the_truth():
    intra, inter = PowerLaw(1.0, 0.5), PowerLaw(-0.3, 0.5)
    path = logit_path(TIMES, margin_directions(3, 3) * np.array([[1.0], [1.8], [0.9]]), intra, inter)
    begin, at = 10, 80
    gap = [s.integral(TIMES[at]) - s.integral(TIMES[begin]) for s in (intra, inter)]
    truths = {"integrated_intra": gap[0], "integrated_inter": gap[1], "integrated_gap": gap[0] - gap[1]}
    covered = dict.fromkeys(truths, 0)
    for seed in range(200):
        random = np.random.default_rng(seed)
        noisy = path + 0.3 * random.normal(size=(40, 1, 3, 3)) + 0.1 * random.normal(size=(40, len(TIMES), 3, 3))
        found = estimate_strengths(TIMES, noisy, reference_time=1.0, seed=seed)
        for name, truth in truths.items():
            covered[name] += bool(found[f"{name}_low"][at] <= truth <= found[f"{name}_high"][at])
    for name, count in covered.items():
        assert 0.90 <= count / 200 <= 0.98, name


def test_alike_classes_give_the_gap_and_refuse_the_rest():
    intra, inter = PowerLaw(1.0, 0.5), PowerLaw(-0.3, 0.5)
    path = logit_path(TIMES, margin_directions(3, 3), intra, inter)
    truth = float(intra.integral(TIMES[-1]) - inter.integral(TIMES[-1]))
    clean = estimate_strengths(TIMES, path)
    assert float(clean["integrated_gap"][-1]) == pytest.approx(truth, abs=1e-10)
    covered = 0
    for seed in range(100):
        noisy = path + 0.1 * np.random.default_rng(seed).normal(size=(40, len(TIMES), 3, 3))
        found = estimate_strengths(TIMES, noisy, seed=seed)
        covered += bool(found["integrated_gap_low"][-1] < truth < found["integrated_gap_high"][-1])
        for estimate in (clean, found):
            assert not estimate["ok"]
            assert "only the gap" in estimate.attrs["reason"]
            assert np.all(np.isnan(estimate["integrated_intra"]))
        assert np.all(np.isnan(found["integrated_inter_low"]))
    assert 90 <= covered <= 99


def test_paths_that_carry_no_estimate_are_doubted():
    flat = np.random.default_rng(1).normal(size=(30, len(TIMES), 3, 3))
    found = estimate_strengths(TIMES, flat, reference_time=0.0)
    assert not found["ok"]
    assert found.attrs["reason"]


def test_published_form_is_exact_only_for_its_own_case():
    start = np.array([[1.0, -0.2], [0.3, 0.9]])
    path = isotropic_path(TIMES, start, Constant(0.4), Constant(0.1))
    for method in ("exact", "published"):
        found = estimate_strengths(TIMES, path, "isotropic", method=method, reference_time=0.0)
        np.testing.assert_allclose(found["integrated_intra"], 0.4 * TIMES, atol=1e-9)
        np.testing.assert_allclose(found["integrated_inter"], 0.1 * TIMES, atol=1e-9)
    logits = logit_path(TIMES, planted(3, 3, 4), Constant(0.4), Constant(0.1))
    exact, printed = (estimate_strengths(TIMES, logits, method=m, reference_time=0.0) for m in ("exact", "published"))
    assert np.abs(exact["integrated_intra"] - 0.4 * TIMES).max() < 1e-9
    assert np.abs(printed["integrated_intra"] - 0.4 * TIMES).max() > 0.1  # the offset c_0 is ignored


def test_relative_difference():
    path = logit_path(TIMES, planted(3, 3, 0), Constant(0.3), Constant(0.1))
    assert np.all(relative_difference(path, path) == 0)
    assert relative_difference(path, -path, "isotropic").max() == pytest.approx(2.0)
    aside = path + np.array([1.0, 1.0, 1.0])  # along 1, to which the margin directions are orthogonal
    np.testing.assert_allclose(relative_difference(path, aside), 0, atol=1e-12)
    assert relative_difference(path, aside, "isotropic").min() > 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TIMES, np.zeros((101, 3))), "class_means must be"),
        ((TIMES[:50], np.ones((101, 3, 3))), "times must list the 101 times"),
        ((TIMES[::-1], np.ones((101, 3, 3))), "times must be an increasing list"),
        ((TIMES, np.full((101, 3, 3), np.nan)), "class_means must be finite"),
        ((TIMES, np.ones((101, 1, 3))), "at least 2 classes"),
        ((TIMES, np.ones((101, 3, 2))), "features must be at least classes = 3"),
        ((TIMES, np.ones((101, 3, 3)), "round"), "geometry must be one of logits, isotropic"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        estimate_strengths(*arguments)


def test_bad_options():
    path = logit_path(TIMES, planted(4, 4, 0), Constant(0.3), Constant(0.1))
    with pytest.raises(ValueError, match="needs 3 classes"):
        estimate_strengths(TIMES, path, method="published")
    with pytest.raises(ValueError, match="method must be one of"):
        estimate_strengths(TIMES, path, method="guess")
    with pytest.raises(ValueError, match="reference_time must leave at least 5"):
        estimate_strengths(TIMES, path, reference_time=9.9)
    with pytest.raises(ValueError, match="imitated must have the shape"):
        relative_difference(path, path[:, :2])
