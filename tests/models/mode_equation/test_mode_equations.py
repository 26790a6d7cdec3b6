"""The coefficients against Itô's formula, and the steps' weak order without any sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynascope import ModeEquation
from dynascope.models.mode_equation import equations
from dynascope.models.mode_equation.equations import STEPS

PARAMETERS = st.fixed_dictionaries(
    {
        "depth": st.integers(2, 8),
        "singular_value": st.floats(0.1, 3.0),
        "temperature": st.floats(1e-4, 0.5),
        "label_noise": st.floats(0.0, 1.0),
    }
)


@given(PARAMETERS, st.floats(0.01, 2.0))
def test_ito_formula_for_the_weight_of_a_layer(p, w):
    """Dv = v^(L−1)[δ dt + √(βq) dB] for the weight v that all layers share, and w = v^L, give drift and diffusion."""
    depth, delta = p["depth"], p["singular_value"] - w
    v, power = w ** (1 / depth), p["temperature"] * (2 * delta**2 + p["label_noise"] ** 2)
    with jax.enable_x64(True):
        first = float(jax.grad(lambda v: v**depth)(v))
        second = float(jax.grad(jax.grad(lambda v: v**depth))(v))
    noise = power * v ** (2 * depth - 2)
    np.testing.assert_allclose(equations.gradient_drift(w, p), first * delta * v ** (depth - 1), rtol=1e-12)
    np.testing.assert_allclose(equations.ito_drift(w, p, "derived"), second * noise / 2, rtol=1e-11)
    np.testing.assert_allclose(equations.diffusion(w, p), first**2 * noise, rtol=1e-12)


@given(PARAMETERS, st.floats(0.01, 2.0))
def test_slope_of_the_diffusion(p, w):
    with jax.enable_x64(True):
        slope = jax.grad(lambda w: equations.diffusion(w, p))(w)
    np.testing.assert_allclose(equations.diffusion_slope(w, p), slope, rtol=1e-9, atol=1e-14)


@given(PARAMETERS, st.floats(0.01, 2.0), st.sampled_from(equations.ITO_FORMS))
def test_coefficients_of_the_logarithm_follow_from_those_of_w(p, w, form):
    with jax.enable_x64(True):
        a, b = equations.log_coefficients(form)(jnp.log(w), p)
    drift = equations.gradient_drift(w, p) + equations.ito_drift(w, p, form)
    variance = equations.diffusion(w, p)
    np.testing.assert_allclose(b, np.sqrt(variance) / w, rtol=1e-9)
    np.testing.assert_allclose(a, drift / w - variance / (2 * w**2), rtol=1e-9, atol=1e-12)


def test_published_drift_does_not_vanish_where_the_noise_does():
    tiny = {"depth": 2, "temperature": 0.01}
    assert ModeEquation(**tiny, ito="published").ito_drift(0.0) == pytest.approx(0.02)
    assert ModeEquation(**tiny).ito_drift(0.0) == 0
    assert ModeEquation(**tiny).diffusion(0.0) == 0
    six, fourteen = (ModeEquation(label_noise=0.4, ito=form) for form in ("published-6", "published"))
    gap = 0.005 * 12 * 0.5 * 0.4 / 2  # (6) and (14) differ by half of the label noise
    np.testing.assert_allclose(six.ito_drift(0.5) - fourteen.ito_drift(0.5), gap)


def _expectation(step, steps, parameters, in_log):
    """E[w at time 1 | w at time 0 = 0.6] under a scheme, exactly: the noise integrated by Gauss–Hermite's rule.

    One step takes a function of w, known at Chebyshev's points of x = log w, to its mean after the step.
    """
    count, (nodes, weights) = 48, np.polynomial.hermite_e.hermegauss(16)
    angles = np.pi * (np.arange(count) + 0.5) / count
    low, high = np.log(0.25), np.log(1.9)
    x = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
    to_series = np.polynomial.chebyshev.chebvander(np.cos(angles), count - 1)
    places = np.broadcast_to((x if in_log else np.exp(x))[:, None], (count, len(nodes)))
    state = step({"x" if in_log else "w": jnp.asarray(places)}, jnp.asarray(nodes), 0.0, parameters, 1.0 / steps)
    after = np.asarray(next(iter(state.values())))
    after = np.clip(
        after if in_log else np.log(np.maximum(after, 1e-9)), low, high
    )  # rare and far: nothing is lost where we look
    values = np.polynomial.chebyshev.chebvander((2 * after - low - high) / (high - low), count - 1)
    move = (np.einsum("jkn,k->jn", values, weights) / weights.sum()) @ np.linalg.inv(to_series)
    function = np.exp(x)
    for _ in range(steps):
        function = move @ function
    here = (2 * np.log(0.6) - low - high) / (high - low)
    return float(
        np.polynomial.chebyshev.chebvander(np.array([here]), count - 1)[0] @ np.linalg.solve(to_series, function)
    )


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize(("scheme", "order"), [("weak2", 2), ("euler", 1)])
def test_weak_order(scheme, order, depth):
    parameters = {"depth": float(depth), "singular_value": 1.0, "temperature": 0.01, "label_noise": 0.2}
    with jax.enable_x64(True):
        exact = _expectation(STEPS["weak2"]["derived"], 400, parameters, in_log=True)
        counts = np.array([8, 16, 32])
        step, in_log = STEPS[scheme]["derived"], scheme == "weak2"
        errors = [abs(_expectation(step, int(n), parameters, in_log) - exact) for n in counts]
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert order - 0.15 < slope < order + 0.35, (slope, errors)
