"""The small ReLU network of appendix C.4, in which one skill is learned by three modes and a constant.

f(x) = wᵀ ReLU(W x + b) + c with the shared weights (C.9) on all eight inputs of three bits. With z = x₁ − x₂ + x₃ and
α, β, γ ≥ 0 it reads f = −2 α² ReLU(−z) + β² ReLU(1 − z) + γ² ReLU(z − 1) + c: three modes and a constant.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.checks import ArrayLike, Times, as_float, increasing, require, scalar
from dynascope.models.stepping import Array, Numeric

INPUTS = np.array([[bits >> 2 & 1, bits >> 1 & 1, bits & 1] for bits in range(8)], float)  # (input, bit), as (C.7)
PARITY = np.where(INPUTS.sum(axis=1) % 2 == 0, 1.0, -1.0)  # Y/S
PARAMETERS = ("alpha", "beta", "gamma", "constant")


def network_output(parameters: Array) -> jax.Array:
    """F on the eight inputs, from α, β, γ, c: (C.8), (C.9) as a network with ReLU units.
    Source: layerwise (C.8), (C.9).

    >>> np.asarray(network_output(jnp.sqrt(2.0) * jnp.array([1.0, 1.0, 1.0, -0.5**0.5]))).round(3).tolist()
    [1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0]
    """
    alpha, beta, gamma, constant = parameters
    pattern = jnp.array([-1.0, 1.0, -1.0])
    weights = jnp.stack([alpha * pattern, beta * pattern, -gamma * pattern])
    hidden = jax.nn.relu(INPUTS @ weights.T + jnp.stack([0 * alpha, beta, -gamma]))
    return jnp.asarray(hidden @ jnp.stack([-2 * alpha, beta, gamma]) + constant)


def network_loss(parameters: Array, target: Numeric) -> jax.Array:
    """½ mean over the eight inputs of (S·parity − f)²: (4.5). Source: layerwise (4.5).

    >>> float(network_loss(jnp.zeros(4), 2.0))
    2.0
    """
    return jnp.mean((target * PARITY - network_output(parameters)) ** 2) / 2


_gradient = jax.jit(jax.grad(network_loss))
_losses = jax.jit(jax.vmap(network_loss, in_axes=(0, None)))


def mode_rates(parameters: Array, target: Numeric, *, learning_rate: float = 1.0, published: bool = False) -> Any:
    """Rates of α², β², γ² and c under gradient flow on `network_loss`.

    (α²)' = η α² (S − 2α² + 2β² + c), (β²)' = η β² (S + 4α² − 7β² − 5c)/2, (γ²)' = η γ² (S − γ² − c)/2 and
    c' = η (2α² − 5β² − γ² − 8c)/8. `published=True`: (C.15)–(C.18) as printed, which have the opposite signs, other
    factors, and 2α² − 5β² where 4α² − 7β² belongs. Parameters α, β, γ, c along the first axis, α, β, γ ≥ 0.
    Source: layerwise (C.15)–(C.18).

    >>> mode_rates(np.array([0.1, 0.1, 0.1, 0.0]), 1.0).round(5).tolist()
    [0.01, 0.00485, 0.00495, -0.005]
    """
    alpha, beta, gamma, c = parameters
    a, b, g = alpha**2, beta**2, gamma**2
    if published:
        rates = (
            2 * a * (-target - (-2 * a + 2 * b + c)),
            -b * (target - (-2 * a + 5 * b + 5 * c)),
            -g * (target - (g + c)),
            -(2 * a - 5 * b - g - 8 * c),
        )
    else:
        rates = (
            a * (target - 2 * a + 2 * b + c),
            b * (target + 4 * a - 7 * b - 5 * c) / 2,
            g * (target - g - c) / 2,
            (2 * a - 5 * b - g - 8 * c) / 8,
        )
    return learning_rate * np.stack(rates)


def mode_strengths(parameters: Array, target: Numeric) -> Any:
    """Share of the skill that each mode carries, (mode, …): (C.13), α²/(4S), β²/(8S), γ²/(8S); they add up to R/S.
    Source: layerwise (C.13), (C.14).

    >>> mode_strengths(np.sqrt([2.0, 2.0, 2.0, 0.0]), 1.0).round(6).tolist()
    [0.5, 0.25, 0.25]
    """
    squares = np.asarray(parameters)[:3] ** 2
    return np.asarray(squares / (np.array([4.0, 8.0, 8.0]).reshape(-1, *(1,) * (squares.ndim - 1)) * target))


def train_toy_network(times: Times, start: ArrayLike, target: float = 1.0, *, learning_rate: float = 1.0) -> xr.Dataset:
    """Train the network of appendix C.4 by gradient flow and split its skill into modes.

    times: increasing, in steps. start: α, β, γ ≥ 0 and c. target: S > 0. The gradient is that of the network itself,
    by automatic differentiation; relative error 1e-10.

    Returns parameter (time, name), mode_strength (time, mode), strength R/S and loss over time.
    Source: layerwise (C.7)–(C.14).

    >>> run = train_toy_network([0.0, 100.0], [0.1, 0.1, 0.1, 0.0])
    >>> run["strength"].round(3).values.tolist(), run["parameter"].isel(time=-1).round(3).values.tolist()
    ([0.005, 1.0], [1.414, 1.414, 1.414, -1.0])
    """
    from scipy.integrate import solve_ivp  # noqa: PLC0415 (slow to import, and only this needs it)

    grid, begin = increasing("times", times), as_float("start", start)
    if begin.shape != (4,):
        raise ValueError(f"start must hold alpha, beta, gamma and c, got shape {begin.shape}")
    require("start", begin[:3], begin[:3] >= 0, "have alpha, beta, gamma of at least 0")
    scale, rate = scalar("target", target, above=0.0), scalar("learning_rate", learning_rate, above=0.0)
    with jax.enable_x64(True):

        def slope(_: float, state: np.ndarray) -> np.ndarray:
            return -rate * np.asarray(_gradient(state, scale))

        span = (0.0, max(float(grid[-1]), 1e-300))
        allowed = 1e-13 * np.minimum(1.0, np.where(begin > 0, begin, 1.0))  # small modes grow from where they start
        path = solve_ivp(slope, span, begin, method="DOP853", t_eval=grid, rtol=1e-10, atol=allowed).y.T
        loss = np.asarray(_losses(path, scale))
    modes = mode_strengths(path.T, scale).T
    return xr.Dataset(
        {
            "parameter": (("time", "name"), path),
            "mode_strength": (("time", "mode"), modes, {"long_name": "strength of a mode, R/S"}),
            "strength": ("time", modes.sum(axis=1), {"long_name": "skill strength R/S"}),
            "loss": ("time", loss, {"long_name": "loss"}),
        },
        coords={
            "time": ("time", grid, {"long_name": "time", "units": "training steps"}),
            "name": list(PARAMETERS),
            "mode": list(PARAMETERS[:3]),
        },
    )
