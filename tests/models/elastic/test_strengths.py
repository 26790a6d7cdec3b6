import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from dynascope.models.elastic.strengths import Constant, Function, PowerLaw, Sampled, as_elasticity, as_strength

times = st.one_of(st.just(0.0), st.floats(1e-3, 50.0))  # quadrature of the check gives up below


@given(st.floats(-2, 2), st.one_of(st.floats(-1, 3), st.just(1.0), st.floats(1 - 1e-9, 1 + 1e-9)), times)
def test_power_law_integrates_itself(scale, index, end):
    law = PowerLaw(scale, index)
    expected = quad(lambda t: scale / (1 + t) ** index, 0, end, epsabs=1e-12, epsrel=1e-12)[0]
    assert float(law.integral(end)) == pytest.approx(expected, rel=1e-9, abs=1e-10)


@settings(max_examples=8)  # the check evaluates the curve thousands of times
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=6), st.floats(0, 2), times)
def test_sampled_curve_integrates_itself(values, first, end):
    knots = first + np.cumsum(np.linspace(0.5, 1.5, len(values)))
    curve = Sampled(knots, values)
    inside = [knot for knot in knots if knot < end]
    expected = sum(
        quad(lambda t: float(curve(t)), a, b)[0] for a, b in zip([0.0, *inside], [*inside, end], strict=True)
    )
    assert float(curve.integral(end)) == pytest.approx(expected, rel=1e-9, abs=1e-10)
    np.testing.assert_allclose(curve(knots), values)


def test_matrices_interpolate_and_integrate_entry_by_entry():
    random = np.random.default_rng(0)
    knots, values, at = np.array([0.5, 1.0, 3.0]), random.normal(size=(3, 2, 2)), np.array([[0.0, 0.7], [2.0, 9.0]])
    curve = Sampled(knots, values)
    for k in range(2):
        for j in range(2):
            entry = Sampled(knots, values[:, k, j])
            np.testing.assert_allclose(curve(at)[..., k, j], entry(at), atol=1e-15)
            np.testing.assert_allclose(curve.integral(at)[..., k, j], entry.integral(at), atol=1e-14)
    matrix = Function(lambda t: t * values[0])
    np.testing.assert_allclose(matrix.integral(at), np.multiply.outer(at**2 / 2, values[0]), atol=1e-12)
    np.testing.assert_allclose(Constant(values[0]).integral(at), np.multiply.outer(at, values[0]))


@pytest.mark.parametrize("value", [np.eye(3), Sampled([0.0, 1.0], np.ones((2, 3, 3))), lambda t: t * np.eye(3), 1.0])
def test_an_elasticity_of_the_wrong_shape_is_refused(value):
    with pytest.raises(ValueError, match=r"elasticity must be a matrix of the shape \(2, 2\)"):
        as_elasticity(value, 2, 4)


def test_functions_and_numbers_become_strengths():
    grid = np.array([3.0, 0.5, 0.0, 2.0])  # in any order
    np.testing.assert_allclose(Function(np.sin).integral(grid), 1 - np.cos(grid), atol=1e-12)
    np.testing.assert_allclose(as_strength("intra", lambda t: 2 * t).integral(grid), grid**2, atol=1e-12)
    assert isinstance(as_strength("intra", 1), Constant)
    np.testing.assert_allclose(Constant(-0.5).integral(grid), -0.5 * grid)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_strength("intra", "strong"), "intra must be a number, a PowerLaw"),
        (lambda: PowerLaw(float("nan"), 1.0), "scale must be finite"),
        (lambda: Sampled([0.0, 1.0], [1.0]), "equally long lists"),
        (lambda: Sampled([1.0, 0.5], [1.0, 2.0]), "times must increase"),
        (lambda: Sampled([0.0], [1.0]), "at least two entries"),
        (lambda: PowerLaw(1.0, 1.0)(-1.0), "times must be at least 0"),
        (lambda: Function(lambda t: float("nan"))(1.0), "strength must be finite"),
    ],
)
def test_strengths_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("end", [1e-6, 1.0, 1e4, 1e10])
def test_functions_integrate_over_any_span(end):
    law = PowerLaw(0.7, 0.9)
    at = end * np.array([0.0, 1e-6, 0.1, 0.5, 1.0])
    found = Function(lambda t: 0.7 / (1 + t) ** 0.9).integral(at)
    np.testing.assert_allclose(found, law.integral(at), rtol=1e-10, atol=1e-10 * float(law.integral(end)))


def test_functions_with_corners_and_waves():
    at = np.linspace(0.0, 3.0, 40)
    corner = Function(lambda t: abs(t - 1.234)).integral(at)
    expected = np.where(at < 1.234, 1.234 * at - at**2 / 2, 1.234**2 - 1.234 * at + at**2 / 2)
    np.testing.assert_allclose(corner, expected, atol=1e-9)
    np.testing.assert_allclose(Function(lambda t: np.cos(40 * t)).integral(at), np.sin(40 * at) / 40, atol=1e-12)
