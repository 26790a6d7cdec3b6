"""Step many modes at once and name the axes of the result."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.models import stepping
from dynascope.models.family import Labels
from dynascope.models.mode_equation.equations import STEPS, diffusion
from dynascope.models.parameters import Grid

RESULT_NAMES = ("trial", "time", "amplitude", "loss", "diffusion")
LABELS: Labels = {
    "amplitude": ("mode amplitude w", "output/input"),
    "loss": ("loss of the mode (s − w)²/2", "output²"),
    "diffusion": ("diffusion D of the mode", "amplitude²/time"),
    "time": ("time", "steps × learning rate"),
}


def run_modes(
    step: stepping.Step,
    points: dict[str, Float[np.ndarray, " point"]],
    depth: int,
    *,
    start: Float[np.ndarray, "..."],
    dt: float,
    saves: np.ndarray,
    trials: int,
    seed: int,
    precision: str,
    progress: bool | None,
) -> Float[np.ndarray, "point trial time"]:
    """Amplitudes at the saved steps; a step of `STEPS["weak2"]` carries log w, one of `STEPS["euler"]` w itself."""
    in_log = step in STEPS["weak2"].values()
    begin = np.log(start) if in_log else start
    fields = {name: value[:, None] for name, value in points.items()} | {"depth": np.full((1, 1), float(depth))}
    with jax.enable_x64(True):
        lanes = (1, start.size, stepping.padded_trials(trials))
        state = {"x" if in_log else "w": jnp.array(np.broadcast_to(begin.reshape(1, -1, 1), lanes), precision)}
        states = stepping.saved_states(
            step,
            state,
            fields,
            dt=dt,
            saves=saves,
            trials=trials,
            elements=1,
            seed=seed,
            precision=precision,
            label="mode equation",
            progress=progress,
        )
        saved = np.stack([next(iter(values.values()))[0] for values in states], axis=-1)
    return np.asarray(np.exp(saved) if in_log else saved)


def lay_out(
    amplitude: Float[np.ndarray, "..."], times: np.ndarray, grid: Grid, parameters: stepping.Parameters
) -> xr.Dataset:
    """The labelled result of amplitudes (…grid, trial, time), with loss and diffusion."""
    p = {name: np.asarray(value, amplitude.dtype) for name, value in parameters.items()}
    values = {
        "amplitude": amplitude,
        "loss": (p["singular_value"] - amplitude) ** 2 / 2,
        "diffusion": diffusion(amplitude, p),
    }
    dims = (*grid.dims, "trial", "time")
    coordinates: dict[str, Any] = {"trial": np.arange(amplitude.shape[-2]), "time": ("time", times)}
    return xr.Dataset({name: (dims, array) for name, array in values.items()}, coords=coordinates | grid.coordinates)
