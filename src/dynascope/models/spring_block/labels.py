"""Name the axes of a simulated chain and derive what is read off its positions."""

from typing import Any

import numpy as np
import xarray as xr

from dynascope.models.family import Labels
from dynascope.models.parameters import Grid

LABELS: Labels = {
    "position": ("position of the block", "length"),
    "load": ("load D = target − position", "length"),
    "energy": ("elastic energy", "force·length"),
    "force": ("force on the last block", "force"),
    "curvature": ("mean curvature of the positions", "length"),
    "velocity": ("velocity of the block", "length/time"),
    "stop_time": ("time at which the trial stopped", "model time"),
    "time": ("time", "model time"),
}
RESULT_NAMES = ("trial", "block", "layer", *LABELS)


def lay_out(
    saved: dict[str, np.ndarray],
    stop_time: np.ndarray | None,
    times: np.ndarray,
    *,
    grid: Grid,
    stiffness: np.ndarray,
    target: np.ndarray,
) -> xr.Dataset:
    """The result of arrays (time, block, point, trial); stiffness and target have the grid's axes."""
    run = (*grid.dims, "trial", "time")
    values = {name: _unfold(array, grid.shape) for name, array in saved.items()}
    values |= derived(values["position"], stiffness, target)
    blocks, trials = values["position"].shape[-1], values["position"].shape[-3]
    last = {"position": ("block",), "velocity": ("block",), "load": ("layer",)}
    variables: dict[str, Any] = {name: ((*run, *last.get(name, ())), array) for name, array in values.items()}
    if stop_time is not None:
        variables["stop_time"] = (run[:-1], stop_time.reshape((*grid.shape, trials)))
    coordinates: dict[str, Any] = {
        "trial": np.arange(trials),
        "time": ("time", times),
        "block": np.arange(1, blocks + 1),
        "layer": np.arange(blocks + 1),
    }
    return xr.Dataset(variables, coords=coordinates | grid.coordinates)


def derived(position: np.ndarray, stiffness: np.ndarray, target: np.ndarray) -> dict[str, np.ndarray]:
    """Load, energy, force on the last block and mean curvature from positions (…grid, trial, time, block).

    >>> read = derived(np.array([[[0.25, 0.5]]]), np.array(1.0), np.array(1.0))
    >>> read["load"].tolist(), read["curvature"].tolist()
    ([[[1.0, 0.75, 0.5]]], [[0.125]])
    """
    stiffness = stiffness.astype(position.dtype)[..., None, None]
    anchored = np.concatenate([np.zeros_like(position[..., :1]), position], axis=-1)  # layers 0 … blocks
    load = target.astype(position.dtype)[..., None, None, None] - anchored
    springs = np.concatenate([np.diff(anchored, axis=-1), load[..., -1:]], axis=-1)
    return {
        "load": load,
        "energy": stiffness / 2 * np.sum(springs**2, axis=-1),
        "force": stiffness * load[..., -1],
        "curvature": (springs[..., -1] - springs[..., 0]) / position.shape[-1],
    }


def _unfold(values: np.ndarray, grid_shape: tuple[int, ...]) -> np.ndarray:
    """(time, block, point, trial) -> (…grid, trial, time, block)."""
    folded = np.ascontiguousarray(values.transpose(2, 3, 0, 1))
    return folded.reshape((*grid_shape, *folded.shape[1:]))
