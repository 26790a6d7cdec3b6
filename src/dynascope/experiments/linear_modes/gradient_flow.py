"""Gradient flow of a loss by automatic differentiation and an adaptive solver: what closed forms are judged by.

It knows nothing of their derivation: only the loss as it is written down.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from dynascope.experiments.claims import Judgement, equal

EXACT = 1e-8  # how closely a closed form must follow the flow: the solver's error, with room

Weights = dict[str, np.ndarray]
_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


def gradient_flow(
    loss: Callable[..., jax.Array], start: Weights, times: ArrayLike, *, data: Any = None, accuracy: float = 1e-12
) -> Weights:
    """Integrate w' = −∇ loss(w, data) and return the weights at the given times, time in front.

    `loss` is a JAX function of a dict of arrays; define it once, at the top of a module, so that it is compiled once.
    The solver is of order 8 with relative accuracy `accuracy` per step.

    >>> flow = gradient_flow(lambda w, _: jnp.sum((w["x"] - 1) ** 2) / 2, {"x": np.zeros(1)}, [0.0, np.log(2)])
    >>> flow["x"].round(9).tolist()
    [[0.0], [0.5]]
    """
    times = np.asarray(times, float)
    shapes = tuple((name, np.shape(value)) for name, value in start.items())
    begin = np.concatenate([np.ravel(value) for value in start.values()]).astype(float)
    slope = _slope(loss, shapes)
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, data)
        path = solve_ivp(
            lambda _, row: -np.asarray(slope(row, data)),
            (0.0, float(times[-1])),
            begin,
            method="DOP853",
            t_eval=times,
            rtol=accuracy,
            atol=accuracy / 100,
        )
    parts = np.split(path.y, _ends(shapes))  # each (weight, time)
    return {name: part.T.reshape(-1, *shape) for (name, shape), part in zip(shapes, parts, strict=True)}


def exact(*errors: xr.DataArray, note: str = "") -> Judgement:
    """Judge that closed forms differ from the flow by no more than the solver's error; the largest difference counts.

    >>> exact(xr.DataArray([0.0, -0.1])).verdict
    'not reproduced'
    """
    return equal(max(float(abs(error).max()) for error in errors), 0.0, EXACT, note=note)


@functools.cache
def _slope(loss: Callable[..., jax.Array], shapes: _Shapes) -> Callable[..., jax.Array]:
    """∇ loss as a compiled function of all weights in one row."""

    def of_row(row: jax.Array, data: Any) -> jax.Array:
        parts = jnp.split(row, _ends(shapes))
        return loss({name: part.reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)}, data)

    return jax.jit(jax.grad(of_row))


def _ends(shapes: _Shapes) -> np.ndarray:
    """Where each array but the last ends in the row of all weights."""
    return np.cumsum([int(np.prod(shape)) for _, shape in shapes])[:-1]
