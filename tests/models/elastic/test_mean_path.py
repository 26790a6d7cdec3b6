"""Drift and class means against an ODE solver, the spectrum, and the limits of the printed forms."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from dynascope.models.elastic.geometry import (
    direction_cosine,
    drift_matrix,
    geometry_blocks,
    margin_directions,
    sampling_matrix,
)
from dynascope.models.elastic.mean_path import general_path, isotropic_path, logit_path
from dynascope.models.elastic.strengths import Constant, Function, PowerLaw, Sampled

TIMES = np.array([0.0, 0.3, 1.0, 4.0])
KINDS = {
    "constant": lambda a, b: (Constant(a), Constant(b)),
    "power law": lambda a, b: (PowerLaw(a, 0.5), PowerLaw(b, 1.3)),  # β/α varies
    "sampled": lambda a, b: (Sampled([0.0, 1.0, 3.0], [a, b, a]), Constant(b)),
    "function": lambda a, b: (Function(lambda t: a * np.cos(t)), Function(lambda t: b * np.exp(-t))),
}


def elasticity(intra, inter, classes):
    def at(time):
        matrix = np.full((classes, classes), float(inter(time)))
        np.fill_diagonal(matrix, float(intra(time)))
        return matrix

    return at


def solved(times, start, drift):
    """An independent solution, restarted at every time and at the bends of sampled strengths."""
    state, path = start.ravel(), [start]
    stops = np.unique(np.concatenate([times, [1.0, 3.0]]))
    for begin, end in pairwise(stops):
        state = solve_ivp(lambda t, x: drift(t) @ x, (begin, end), state, method="DOP853", rtol=1e-11, atol=1e-13).y[
            :, -1
        ]
        if end in times:
            path.append(state.reshape(start.shape))
    return np.stack(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("geometry", ["isotropic", "logits"])
@settings(max_examples=8)
@given(st.integers(2, 6), st.integers(0, 3), st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), st.integers(0, 1000))
def test_closed_forms_solve_the_equation(kind, geometry, classes, extra, a, b, seed):
    features = classes + extra
    start = np.random.default_rng(seed).normal(size=(classes, features))
    intra, inter = KINDS[kind](a, b)
    blocks, sampling = geometry_blocks(geometry, classes, features), sampling_matrix(None, classes)
    strengths = elasticity(intra, inter, classes)
    expected = solved(TIMES, start, lambda t: drift_matrix(strengths(t), sampling, blocks))
    path = {"isotropic": isotropic_path, "logits": logit_path}[geometry](TIMES, start, intra, inter)
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("geometry", ["isotropic", "logits", "mixture"])
def test_general_path_for_unequal_classes_and_any_elasticity(geometry):
    random = np.random.default_rng(2)
    start, sampling = random.normal(size=(2, 3, 4)), sampling_matrix([0.2, 0.3, 0.5], 3)
    blocks, base = geometry_blocks(geometry, 3, 4), random.normal(size=(3, 3))

    def drift(time):
        return drift_matrix(base * np.cos(time) + np.eye(3), sampling, blocks)

    path = general_path(TIMES, start, drift, constant=False, knots=np.array([]))
    for trial in range(2):
        np.testing.assert_allclose(path[trial], solved(TIMES, start[trial], drift), rtol=0, atol=1e-8)
    still = general_path(TIMES, start, lambda t: drift(0.0), constant=True, knots=np.array([]))
    np.testing.assert_allclose(still[0], solved(TIMES, start[0], lambda t: drift(0.0)), rtol=0, atol=1e-8)


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_spectrum_of_the_logit_drift(classes):
    """α − β once, α + β/(K−1) with multiplicity K − 1 (K(K−1) is printed), 0 with multiplicity K(K−1)."""
    alpha, beta = 1.3, -0.4
    strengths = elasticity(Constant(alpha), Constant(beta), classes)(0.0)
    matrix = drift_matrix(strengths, sampling_matrix(None, classes), geometry_blocks("logits", classes, classes))
    found = np.sort(np.linalg.eigvals(classes * matrix).real)
    expected = [alpha - beta, *[alpha + beta / (classes - 1)] * (classes - 1), *[0.0] * (classes * (classes - 1))]
    np.testing.assert_allclose(found, np.sort(expected), atol=1e-6)


def test_many_starts_are_solved_at_once():
    starts = np.random.default_rng(0).normal(size=(5, 2, 3, 3))
    together = logit_path(TIMES, starts, PowerLaw(1.0, 0.5), Constant(0.1))
    assert together.shape == (5, 2, 4, 3, 3)
    np.testing.assert_allclose(
        together[3, 1], logit_path(TIMES, starts[3, 1], PowerLaw(1.0, 0.5), Constant(0.1)), atol=1e-13
    )


def test_blocks_weight_classes_and_not_features():
    """Block (k, l) is E_kl P_kl H_kl; the printed Hadamard product with E ⊗ I would weight features."""
    strengths, sampling = np.array([[1.0, 2.0], [3.0, 4.0]]), sampling_matrix([0.25, 0.75], 2)
    blocks = np.arange(16.0).reshape(2, 2, 2, 2)
    matrix = drift_matrix(strengths, sampling, blocks)
    np.testing.assert_allclose(matrix[:2, 2:], 2.0 * 0.75 * blocks[0, 1])
    np.testing.assert_allclose(matrix[2:, :2], 3.0 * 0.25 * blocks[1, 0])


@given(st.integers(2, 8), st.integers(0, 6))
def test_cosine_of_the_margin_directions(classes, extra):
    directions = margin_directions(classes, classes + extra)
    expected = directions[0] @ directions[1] / (directions[0] @ directions[0])
    assert direction_cosine(classes, classes + extra) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: geometry_blocks("round", 3, 3), "geometry must be one of isotropic, logits, mixture"),
        (lambda: geometry_blocks("logits", 3, 2), "features must be at least classes = 3"),
        (lambda: geometry_blocks(np.zeros((3, 3)), 3, 3), r"\(class, class, feature, feature\) = \(3, 3, 3, 3\)"),
        (lambda: sampling_matrix([0.5, 0.6], 2), "sampling must sum to 1"),
        (lambda: sampling_matrix([[0.5, 0.5], [1.5, -0.5]], 2), "sampling must be at least 0"),
        (lambda: sampling_matrix([0.5, 0.5], 3), r"sampling must have the shape \(3,\) or \(3, 3\)"),
    ],
)
def test_geometries_and_samplings_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
