"""Coefficients of the one-mode equation (4), and its steps.

With v = w^(1/L) the weight that all layers share, δ = s − w and q = 2δ² + σ², one sample of noise moves every layer
by v^(L−1)·√(β q)·dB, so that

    dv = v^(L−1) [δ dt + √(β q) dB],   w = v^L.

Itô's formula for w = v^L gives (5), (7) and the corrected Itô drift; in x = log w, which keeps w positive,

    dx = [g δ − b²/(2L)] dt + b dB,   g = L w^(1−2/L),   b = g √(β q).

Functions take NumPy or JAX arrays. Numbers in brackets are those of the source, deep-linear.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from dynascope.models.stepping import Numeric, Parameters, State, Step

Coefficients = Callable[[Any, Parameters], tuple[Any, Any]]

ITO_FORMS = ("derived", "published", "published-6")
_PRINTED_LABEL = {"published": 0.5, "published-6": 1.0}  # factor of σ_q in (14) and in (6)


def noise_power(w: Numeric, p: Parameters) -> Any:
    """Variance of one sample's error, q = 2(s − w)² + σ_q².

    >>> noise_power(0.5, {"singular_value": 1.0, "label_noise": 0.0})
    0.5
    """
    return 2 * (p["singular_value"] - w) ** 2 + p["label_noise"] ** 2


def gradient_drift(w: Numeric, p: Parameters) -> Any:
    """L (s − w) w^(2(L−1)/L) (5). Source: deep-linear (5).

    >>> gradient_drift(0.25, {"singular_value": 1.0, "depth": 2})
    0.375
    """
    return p["depth"] * (p["singular_value"] - w) * w ** (2 - 2 / p["depth"])


def ito_drift(w: Numeric, p: Parameters, form: str) -> Any:
    """Drift that noise induces; `form` chooses between the derived one, (14) and (6).

    derived: β L(L−1)/2 · q · w^((3L−4)/L); published: β L(L−1) w^(2(L−2)/L) [(s − w) + c σ_q] with c = 1/2 in (14)
    and 1 in (6). Source: deep-linear (6), (14).

    >>> p = {"depth": 2, "singular_value": 1.0, "temperature": 0.01, "label_noise": 0.0}
    >>> ito_drift(0.5, p, "derived"), ito_drift(0.5, p, "published")
    (0.0025, 0.01)
    """
    depth = p["depth"]
    pairs = p["temperature"] * depth * (depth - 1)
    if form == "derived":
        return pairs / 2 * noise_power(w, p) * w ** (3 - 4 / depth)
    error = p["singular_value"] - w + _PRINTED_LABEL[form] * p["label_noise"]
    return pairs * w ** (2 - 4 / depth) * error


def diffusion(w: Numeric, p: Parameters) -> Any:
    """D = β L² q w^(4(L−1)/L) (7). Source: deep-linear (7).

    >>> diffusion(0.5, {"depth": 2, "singular_value": 1.0, "temperature": 0.01, "label_noise": 0.0})
    0.005
    """
    return p["temperature"] * p["depth"] ** 2 * noise_power(w, p) * w ** (4 - 4 / p["depth"])


def diffusion_slope(w: Numeric, p: Parameters) -> Any:
    """Derivative of D by w.

    >>> diffusion_slope(0.5, {"depth": 2, "singular_value": 1.0, "temperature": 0.01, "label_noise": 0.0})
    0.0
    """
    power = 4 - 4 / p["depth"]
    bend = power * noise_power(w, p) - 4 * (p["singular_value"] - w) * w
    return p["temperature"] * p["depth"] ** 2 * bend * w ** (power - 1)


def log_coefficients(form: str) -> Coefficients:
    """Drift and noise of x = log w, as a function of x and the parameters.

    >>> p = {"depth": 2.0, "singular_value": 1.0, "temperature": 0.0, "label_noise": 0.0}
    >>> [float(value) for value in log_coefficients("derived")(jnp.log(0.5), p)]
    [1.0, 0.0]
    """

    def derived(x: Numeric, p: Parameters) -> tuple[Any, Any]:
        w, speed, depth = jnp.exp(x), p["depth"] * jnp.exp(x * (1 - 2 / p["depth"])), p["depth"]
        power = p["temperature"] * noise_power(w, p) * speed**2
        return speed * (p["singular_value"] - w) - power / (2 * depth), jnp.sqrt(power)

    def published(x: Numeric, p: Parameters) -> tuple[Any, Any]:
        w, variance = jnp.exp(x), jnp.exp(-2 * x) * diffusion(jnp.exp(x), p)
        return (gradient_drift(w, p) + ito_drift(w, p, form)) / w - variance / 2, jnp.sqrt(variance)

    return derived if form == "derived" else published


def weak_step(form: str) -> Step:
    """Platen's explicit scheme of weak order 2 for x = log w: w stays positive, whatever the noise.

    Source: Kloeden and Platen, Numerical Solution of Stochastic Differential Equations (1992), (15.1.1).

    >>> p = {"depth": 2.0, "singular_value": 1.0, "temperature": 0.0, "label_noise": 0.0}
    >>> after = weak_step("derived")({"x": jnp.log(0.5)}, 0.0, 0.0, p, 0.1)
    >>> round(float(jnp.exp(after["x"])), 3)  # logistic growth
    0.55
    """
    coefficients = log_coefficients(form)

    def step(state: State, noise: Numeric, time: Numeric, p: Parameters, dt: Numeric) -> State:
        x, root = state["x"], jnp.sqrt(dt)
        a, b = coefficients(x, p)
        ahead = coefficients(x + a * dt + b * root * noise, p)[0]
        up, down = (coefficients(x + a * dt + side * b * root, p)[1] for side in (1, -1))
        kick = (up + down + 2 * b) * noise + (up - down) * (noise**2 - 1)
        return {"x": x + (a + ahead) * dt / 2 + kick * root / 4}

    return step


def euler_step(form: str) -> Step:
    """Euler–Maruyama on w itself, as the source does: weak order 1.

    >>> p = {"depth": 2.0, "singular_value": 1.0, "temperature": 0.0, "label_noise": 0.0}
    >>> round(float(euler_step("derived")({"w": jnp.array(0.5)}, 0.0, 0.0, p, 0.1)["w"]), 4)
    0.55
    """
    coefficients = log_coefficients(form)  # a and b of x = log w share their powers: dw = w (a + b²/2) dt + w b dB

    def step(state: State, noise: Numeric, time: Numeric, p: Parameters, dt: Numeric) -> State:
        w = state["w"]
        a, b = coefficients(jnp.log(w), p)
        return {"w": w * (1 + (a + b**2 / 2) * dt + b * jnp.sqrt(dt) * noise)}

    return step


# one function object per scheme and form, so that each is compiled once
STEPS = {
    "weak2": {form: weak_step(form) for form in ITO_FORMS},
    "euler": {form: euler_step(form) for form in ITO_FORMS},
}
