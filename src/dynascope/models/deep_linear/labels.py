"""Name the axes of trained networks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from dynascope.models.family import Labels
from dynascope.models.parameters import Grid

_MODES, _PAIRS = ("mode",), ("mode", "other_mode")
_DIMS: dict[str, tuple[str, ...]] = {
    "loss": (),
    "train_loss": (),
    "rank": (),
    "amplitude": _MODES,
    "cross_amplitude": _PAIRS,
    "diffusion": _MODES,
    "cross_diffusion": _PAIRS,
    "predicted_diffusion": _MODES,
    "isotropic_diffusion": _MODES,
    "gradient_drift": _MODES,
    "ito_drift": _MODES,
    "balance": ("layer",),
    "imbalance": ("layer",),
    "weight_norm": ("matrix",),
    "tangent_kernel": ("matrix", *_PAIRS),
}
RESULT_NAMES = ("trial", "time", "mode", "other_mode", "layer", "matrix", "singular_value", *_DIMS)
LABELS: Labels = {
    "time": ("time", "steps × step size"),
    "loss": ("loss E|y − Wx|²/2", "output²"),
    "train_loss": ("loss on the data set", "output²"),
    "rank": ("numerical rank", "modes"),
    "amplitude": ("mode amplitude", "output/input"),
    "cross_amplitude": ("cross-mode amplitude", "output/input"),
    "diffusion": ("diffusion along the mode", "amplitude²/time"),
    "cross_diffusion": ("diffusion between modes", "amplitude²/time"),
    "predicted_diffusion": ("diffusion predicted by (7)", "amplitude²/time"),
    "isotropic_diffusion": ("diffusion under isotropic noise", "amplitude²/time"),
    "gradient_drift": ("drift by the gradient", "amplitude/time"),
    "ito_drift": ("drift by the noise", "amplitude/time"),
    "balance": ("imbalance r, relative", "1"),
    "imbalance": ("imbalance |WWᵀ − WᵀW|", "weight²"),
    "weight_norm": ("Frobenius norm of the layer", "weight"),
    "tangent_kernel": ("tangent kernel between modes", "weight^(2L−2)"),
    "singular_value": ("teacher's singular value", "output/input"),
}


def lay_out(
    seen: Sequence[Sequence[dict[str, np.ndarray]]], times: np.ndarray, *, grid: Grid, values: np.ndarray
) -> xr.Dataset:
    """The labelled result of observations [point][save][name] (trial, …); `values` are the singular values."""
    run = (*grid.dims, "trial", "time")
    variables: dict[str, Any] = {}
    for name in seen[0][0]:
        stacked = np.stack(
            [np.stack([save[name] for save in point], axis=1) for point in seen]
        )  # (point, trial, time, …)
        core = _DIMS.get(name) or (_weight_dims(name) if name.startswith("weight_") and name not in _DIMS else ())
        variables[name] = ((*run, *core), stacked.reshape((*grid.shape, *stacked.shape[1:])))
    sizes = xr.Dataset(variables).sizes
    coordinates: dict[str, Any] = {
        "trial": np.arange(sizes["trial"]),
        "time": ("time", times),
        "mode": np.arange(1, values.size + 1),
        "other_mode": np.arange(1, values.size + 1),
        "singular_value": ("mode", values),
        "matrix": np.arange(1, sizes["matrix"] + 1),
    }
    if "layer" in sizes:
        coordinates["layer"] = np.arange(1, sizes["layer"] + 1)
    return xr.Dataset(variables, coords=coordinates | grid.coordinates)


def _weight_dims(name: str) -> tuple[str, str]:
    layer = int(name.removeprefix("weight_"))
    return f"width_{layer}", f"width_{layer - 1}"
