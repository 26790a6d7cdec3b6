"""Run the chain's steps over a grid of parameters and many trials: plain arrays in, plain arrays out."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dynascope.models import stepping
from dynascope.models.spring_block.equations import STEPS


@dataclass(frozen=True)
class Options:
    """How to simulate; every value has been checked. See `SpringBlock.simulate` for what they mean."""

    duration: float
    dt: float
    trials: int
    dynamics: str
    damping: float
    noise_decay: float
    shared_noise: bool
    truncate: float | None
    stop_tolerance: float | None
    precision: str


def run_chains(
    parameters: dict[str, Float[np.ndarray, "point 1"]],
    start: Float[np.ndarray, "point block"],
    options: Options,
    *,
    saves: np.ndarray,
    seed: int,
    progress: bool | None,
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Positions (and velocities) at the saved steps, (time, block, point, trial), and the stopping times if wanted."""
    dtype, blocks = np.dtype(options.precision), start.shape[1]
    constants = {name: np.full((1, 1), getattr(options, name)) for name in ("damping", "noise_decay")}
    with jax.enable_x64(True):
        lanes = (blocks, len(start), stepping.padded_trials(options.trials))
        state = {"position": jnp.array(np.broadcast_to(start.T[..., None], lanes), dtype)}
        if options.dynamics != "overdamped":
            state["velocity"] = jnp.zeros_like(state["position"])
        states = stepping.saved_states(
            STEPS[options.dynamics],
            state,
            parameters | constants,
            dt=options.dt,
            saves=saves,
            trials=options.trials,
            elements=1 if options.shared_noise else blocks,
            seed=seed,
            bound=options.truncate,
            precision=options.precision,
            label="spring-block chain",
            progress=progress,
        )
        saved = {name: np.empty((len(saves), *lanes[:2], options.trials), dtype) for name in state}
        rule = _StoppingRule(options.stop_tolerance, np.abs(parameters["target"]))
        for index, values in enumerate(states):
            for name, value in values.items():
                saved[name][index] = value
            if rule.all_held(saved, index, saves[index] * options.dt):
                for value in saved.values():
                    value[index:] = value[index]
                break
    return saved, rule.stop_time


class _StoppingRule:
    """Hold each trial from the first save at which no block moved by more than the tolerance."""

    def __init__(self, tolerance: float | None, scale: Float[np.ndarray, "point 1"]):
        self.limit = None if tolerance is None else tolerance * scale
        self.stop_time: np.ndarray | None = None

    def all_held(self, saved: dict[str, np.ndarray], index: int, now: float) -> bool:
        """Freeze what has stopped in the newest save; True when nothing is left to run."""
        if self.limit is None:
            return False
        position = saved["position"]
        if self.stop_time is None:
            self.stop_time = np.full(position.shape[2:], np.nan)
        if index == 0:
            return False
        held = ~np.isnan(self.stop_time)
        for value in saved.values():
            value[index] = np.where(held, value[index - 1], value[index])
        moved = np.abs(position[index] - position[index - 1]).max(axis=0)
        self.stop_time[~held & (moved <= self.limit)] = now
        return bool(np.all(~np.isnan(self.stop_time)))
