"""March many trials and grid points forward in time at once.

A model gives one pure function `step(state, noise, time, parameters, dt) -> state`. States are dicts of
arrays shaped (core…, grid, trial); parameters are dicts of arrays that broadcast against (grid, trial);
the noise of a step is shaped (element, 1, trial), the same at every grid point.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Int

from dynascope.budget import require_room
from dynascope.checks import Given, SavePoints, as_float, require
from dynascope.models.noise import normals
from dynascope.progress import progress_bar

Array = np.ndarray | jax.Array  # formulas are evaluated with NumPy and stepped with JAX
Numeric = Given[float | Array]  # or one of NumPy's single numbers
State = dict[str, Any]
Parameters = Mapping[str, Any]
Step = Callable[[State, Any, Any, Parameters, Any], State]

TRIAL_BLOCK = 16  # trials run in blocks of 16: whole vector registers, the same arithmetic for every trial
_NOISE_BATCH = 2**18  # noise numbers drawn at once: few calls, and they stay in the cache


def padded_trials(trials: int) -> int:
    """Round the number of trials up to whole blocks of 16.

    >>> padded_trials(50)
    64
    """
    return -(-trials // TRIAL_BLOCK) * TRIAL_BLOCK


def save_steps(duration: float, dt: float, save_points: SavePoints) -> Int[np.ndarray, " time"]:
    """Steps at which to save: `save_points` evenly spaced moments from 0 to `duration`, or given times.

    The duration is rounded up to whole steps, and every step is saved if there are fewer than asked for. Given times
    fall on the nearest step; two that fall on the same one are refused.

    >>> save_steps(1.0, 0.1, 3)
    array([ 0,  5, 10])
    >>> save_steps(1.0, 0.1, [0.2, 0.7])
    array([2, 7])
    """
    total = math.ceil(min(duration / dt - 1e-9, 2.0**32))  # more may be infinite
    if not 1 <= total < 2**32:
        raise ValueError(f"duration / dt must be from 1 to 2**32 - 1 steps, got {duration} / {dt}")
    if isinstance(save_points, int | np.integer) and not isinstance(save_points, bool):
        if save_points < 2:
            raise ValueError(f"save_points must be at least 2 (start and end) or a list of times, got {save_points}")
        points = min(int(save_points), total + 1)
        require_room({"save_points": points}, points)
        return np.rint(np.linspace(0, total, points)).astype(np.int64)
    times = as_float("save_points", save_points)
    if times.ndim != 1 or times.size == 0:
        raise ValueError(f"save_points must be a whole number or a list of times, got {save_points!r}")
    require("save_points", times, (times >= 0) & (times <= duration), f"lie between 0 and duration = {duration}")
    steps = np.rint(times / dt).astype(np.int64)
    if np.any(np.diff(steps) <= 0):
        raise ValueError(f"save_points must increase by at least one step of dt = {dt}, got {save_points!r}")
    return steps


def follow(
    step: Step, state: State, noise: Array, *, parameters: Parameters, dt: Numeric, first_step: Numeric = 0
) -> State:
    """Step once per row of `noise` and return the state after every step, stacked in front.

    Pure, compiled and differentiable in state, noise, parameters and dt: what fits and gradients use.

    >>> drift = lambda state, noise, time, parameters, dt: {"x": state["x"] + dt * parameters["speed"]}
    >>> path = follow(drift, {"x": jnp.zeros(())}, jnp.zeros((3, 1)), parameters={"speed": 2.0}, dt=0.5)
    >>> path["x"].tolist()
    [1.0, 2.0, 3.0]
    """

    def advance(carry: State, row: tuple[Array, Array]) -> tuple[State, State]:
        index, kick = row
        after = step(carry, kick, (first_step + index) * dt, parameters, dt)
        return after, after

    path: State = lax.scan(advance, state, (jnp.arange(len(noise)), noise))[1]
    return path


@partial(jax.jit, static_argnames=("step",))
def _advance(
    step: Step,
    state: State,
    noise: Array,
    begin: Numeric,
    end: Numeric,
    first_step: Numeric,
    parameters: Parameters,
    dt: Array,
) -> State:
    """Rows `begin` to `end` of the batch of noise; only the last state is kept."""

    def one(index: Array, carry: State) -> State:
        kick = lax.dynamic_index_in_dim(noise, index, keepdims=False)
        return step(carry, kick, (first_step + index).astype(dt.dtype) * dt, parameters, dt)

    after: State = lax.fori_loop(begin, end, one, state)
    return after


def saved_states(
    step: Step,
    state: State,
    parameters: Parameters,
    *,
    dt: float,
    saves: Int[np.ndarray, " time"],
    trials: int,
    elements: int,
    seed: int,
    bound: float | None = None,
    precision: str = "float64",
    label: str = "simulating",
    progress: bool | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the state at each save step, for the first `trials` of its lanes; nothing in between is kept.

    The state has `padded_trials(trials)` lanes. `elements` normals per step and trial are drawn in batches (one is
    shared by all if `elements` is 1).
    A state that stops being finite raises FloatingPointError naming step, time, trial and parameters.
    The caller holds JAX's x64 context when `precision` is float64, and may stop iterating early.

    >>> drift = lambda state, noise, time, parameters, dt: {"x": state["x"] + dt + 0 * noise}
    >>> saved = saved_states(drift, {"x": jnp.zeros((1, 1, 16))}, {}, dt=0.5, saves=np.array([0, 2]),
    ...               trials=2, elements=1, seed=0, precision="float32")
    >>> [float(state["x"][0, 0, 0]) for state in saved]
    [0.0, 1.0]
    """
    dtype = np.dtype(precision)
    lanes = padded_trials(trials)
    pairs = np.clip(_NOISE_BATCH // (2 * elements * lanes), 1, saves[-1] // 2 + 1)
    length = 2 * int(pairs)  # steps drawn at once; float32 noise comes in pairs
    step_size = jnp.asarray(dt, dtype)
    parameters = {name: jnp.asarray(value, dtype) for name, value in parameters.items()}  # moved once, not per call
    draw = partial(normals, seed, steps=length, elements=elements, trials=lanes, dtype=dtype, bound=bound)
    now, drawn, noise = 0, -1, None
    with progress_bar(label, int(saves[-1]), progress) as report:
        for save in saves:
            before, since = state, now
            while now < save:
                first = now - now % length
                if first != drawn:
                    noise, drawn = draw(first), first
                end = min(int(save), first + length)
                state = _advance(
                    step,
                    state,
                    noise,
                    np.int32(now - first),
                    np.int32(end - first),
                    np.uint32(first),
                    parameters,
                    step_size,
                )
                now = end
                report(now)
            saved = {name: np.asarray(value)[..., :trials] for name, value in state.items()}
            if not all(np.isfinite(value).all() for value in saved.values()):
                raise _first_failure(
                    step, before, since, draw, parameters=parameters, dt=step_size, length=length, trials=trials
                )
            yield saved


def _first_failure(
    step: Step,
    state: State,
    now: int,
    draw: Callable[[int], Array],
    *,
    parameters: Parameters,
    dt: Array,
    length: int,
    trials: int,
) -> FloatingPointError:
    """Run the failed stretch again, keeping every state, to name where it began."""
    while True:
        first = now - now % length
        rows = draw(first)[now - first :]
        path = follow(step, state, rows, parameters=parameters, dt=dt, first_step=now)
        broken = ~np.all(
            [np.isfinite(value).all(axis=tuple(range(1, value.ndim - 2))) for value in map(np.asarray, path.values())],
            axis=0,
        )[..., :trials]  # (step, grid, trial)
        if broken.any():
            index, point, trial = np.argwhere(broken)[0]
            at = {
                name: float(np.broadcast_to(value, broken.shape[1:])[point, trial])
                for name, value in parameters.items()
                if np.ndim(value) <= 2  # tables and matrices have no value at a grid point
            }
            listing = ", ".join(f"{name}={value:g}" for name, value in at.items())
            after = now + int(index) + 1
            return FloatingPointError(
                f"the state stopped being finite at step {after} (time {after * float(dt):g}) in trial {trial} "
                f"with {listing}; use a smaller dt or smaller parameters"
            )
        state = {name: value[-1] for name, value in path.items()}
        now += len(rows)
