"""Gradient descent and SGD on the weights of the scalar network: steps, initial weights, and many runs at once."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dynascope.models import stepping
from dynascope.models.noise import normals
from dynascope.models.stepping import Array, Numeric, Parameters, State

_START_ROW = 2**32 - 1  # initial weights come from a row of the noise that no step reaches


def _total(values: Array) -> Array:
    """Sum over the first axis by halves: in an order that does not depend on how many trials stand behind it."""
    while len(values) > 1:
        half = len(values) // 2
        values = jnp.concatenate([values[:half] + values[half : 2 * half], values[2 * half :]])
    return values[0]


def _update(
    state: State,
    p: Parameters,
    learning_rate: Numeric,
    *,
    power: Numeric,
    chance: Numeric,
) -> State:
    """W ← w − η ∂/∂w of ½⟨(θx − Sx − ξ)²⟩, given ⟨x²⟩ (`power`) and ⟨xξ⟩ (`chance`); θ = Σ a b/Z."""
    a, b = state["first"], state["second"]  # (unit, grid, trial)
    output = _total(a * b) / p["output_scale"]
    pull = learning_rate * ((output - p["target"]) * power - chance) / p["output_scale"]
    return {"first": a - pull * b, "second": b - pull * a}


def descent_step(state: State, noise: object, time: Numeric, p: Parameters, dt: Numeric) -> State:
    """One step of gradient descent on the loss of (6.1), ½ E[x²] (θ − S)²; `dt` is the learning rate.
    Source: layerwise (6.1).

    >>> p = {"target": 1.0, "output_scale": 1.0, "variance": 1.0, "label_noise": 0.0}
    >>> state = {"first": jnp.full((1, 1, 1), 0.5), "second": jnp.full((1, 1, 1), 0.5)}
    >>> round(float(descent_step(state, None, 0.0, p, 0.1)["first"][0, 0, 0]), 4)
    0.5375
    """
    return _update(state, p, dt, power=p["variance"], chance=0.0)


def sampled_step(state: State, noise: Array, time: Numeric, p: Parameters, dt: Numeric) -> State:
    """One step of SGD on a fresh batch of Gaussian inputs with noisy labels y = Sx + σ ξ.

    `noise` holds the batch's inputs, then its label noise: (2·batch, 1, trial).

    >>> p = {"target": 1.0, "output_scale": 1.0, "variance": 1.0, "label_noise": 0.0}
    >>> state = {"first": jnp.full((1, 1, 1), 0.5), "second": jnp.full((1, 1, 1), 0.5)}
    >>> batch = jnp.array([1.0, -1.0, 0.3, 0.2]).reshape(4, 1, 1)
    >>> round(float(sampled_step(state, batch, 0.0, p, 0.1)["first"][0, 0, 0]), 4)
    0.5375
    """
    inputs, labels = jnp.split(noise, 2)
    power = p["variance"] * _total(inputs**2) / len(inputs)
    chance = jnp.sqrt(p["variance"]) * p["label_noise"] * _total(inputs * labels) / len(inputs)
    return _update(state, p, dt, power=power, chance=chance)


def drawn_weights(width: int, trials: int, seed: int) -> Float[np.ndarray, "2 {width} {trials}"]:
    """Standard normal weights of both layers, (layer, unit, trial); a trial's do not depend on the others.

    >>> few, many = drawn_weights(3, 2, 0), drawn_weights(3, 40, 0)
    >>> few.shape, bool((few == many[..., :2]).all())
    ((2, 3, 2), True)
    """
    with jax.enable_x64(True):
        drawn = normals(seed, _START_ROW, steps=1, elements=2 * width, trials=stepping.padded_trials(trials))
        return np.asarray(drawn)[0, :, 0, :trials].reshape(2, width, trials)


def run_descent(
    start: Mapping[str, Float[np.ndarray, "unit point trial"]],
    parameters: Mapping[str, Float[np.ndarray, "#point 1"]],
    *,
    learning_rate: float,
    batch_size: int | None,
    saves: Int[np.ndarray, " time"],
    seed: int,
    precision: str,
    progress: bool | None,
) -> dict[str, Float[np.ndarray, "point trial unit time"]]:
    """March all trials of all grid points and return their weights at the save steps."""
    trials = start["first"].shape[-1]
    empty = ((0, 0), (0, 0), (0, stepping.padded_trials(trials) - trials))
    with jax.enable_x64(precision == "float64"):
        state = {name: jnp.asarray(np.pad(weights, empty), precision) for name, weights in start.items()}
        path = stepping.saved_states(
            descent_step if batch_size is None else sampled_step,
            state,
            parameters,
            dt=learning_rate,
            saves=saves,
            trials=trials,
            elements=1 if batch_size is None else 2 * batch_size,
            seed=seed,
            precision=precision,
            label="scalar network",
            progress=progress,
        )
        states = list(path)
    return {name: np.stack([state[name] for state in states], axis=-1).transpose(1, 2, 0, 3) for name in start}
