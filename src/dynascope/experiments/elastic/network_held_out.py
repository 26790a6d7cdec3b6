"""How far imitations are from networks that they were not fitted to, when networks are drawn anew: for its errors.

A network that is drawn twice counts twice in the half that it is in: no network is on both sides.
"""

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.imitation import judging
from dynascope.statistics.resampling import bootstrap_weights

GEOMETRIES = ("logits", "isotropic", "mixture", "softmax")
SPLITS = 4
TERMINAL = 4  # the last quarter of the records is the terminal stage
_MODELS = ("logits", "isotropic", "mixture")
_BESIDE = (*_MODELS, "persistence", "noise floor")
_RESAMPLES = 100
_HORIZON = 40  # as `imitate` follows a path


def drawn_differences(
    steps: np.ndarray, means: Float[np.ndarray, "trial step class logit"], begin: float, seed: int
) -> xr.Dataset:
    """`drawn_difference`: (D.21), mean over classes, from networks not fitted to, of resampled networks.

    By the L- and the I-model and their mixture, by no change since `begin`, and of the halves themselves; NaN before
    `begin`.
    """
    drawn = held_out(steps, means, begin, seed, bootstrap_weights(len(means), _RESAMPLES, 0))
    dims = ("redrawn", "beside", "norm", "step")
    return xr.Dataset({"drawn_difference": (dims, drawn)}, coords={"beside": list(_BESIDE)})


def held_out(
    steps: np.ndarray,
    means: Float[np.ndarray, "trial step class logit"],
    begin: float,
    seed: int,
    weights: Float[np.ndarray, "resample trial"],
) -> Float[np.ndarray, "known beside norm step"]:
    """The same for given weights of the networks, without those that leave half of them empty."""
    first = int(np.searchsorted(steps, begin))
    pairs = weights[:, None, None] * judging.halves(len(means), SPLITS, seed)  # (resample, fit, 2, trial)
    total = pairs.sum(axis=-1, keepdims=True)
    known = (total > 0).all(axis=(1, 2, 3))
    sides = np.tensordot(pairs[known] / total[known], means[:, first:], axes=1)
    fitted, judged = sides[:, :, 0], sides[:, :, 1]
    late, ahead = np.asarray(steps[first:], float), max(1, len(steps) // _HORIZON)
    paths = [judging.chosen_fit(late, fitted, model, horizon=ahead)[2] for model in _MODELS]
    missed = [judging.differences(judged, path).mean(axis=(2, -1)) for path in (*paths, fitted[:, :, :1], fitted)]
    found = np.moveaxis(np.stack(missed), 2, 0)
    return np.pad(found, [(0, 0), (0, 0), (0, 0), (first, 0)], constant_values=np.nan)


def spread(drawn: xr.DataArray) -> np.ndarray:
    """Standard error of what was read off resampled networks."""
    return np.asarray(drawn.std("redrawn", ddof=1).values)


def drawn_late(record: xr.Dataset, norm: str) -> xr.DataArray:
    """Terminal differences of resampled networks, (redrawn, beside)."""
    late = slice(-(record.sizes["step"] // TERMINAL), None)
    return record["drawn_difference"].sel(norm=norm).isel(step=late).mean("step")


def missed_late(record: xr.Dataset, norm: str) -> dict[str, float]:
    """Terminal differences from networks that were not fitted to, by geometry, with floor and baselines."""
    late = record.sel(norm=norm).isel(step=slice(-(record.sizes["step"] // TERMINAL), None))
    found = {name: float(late["relative_difference"].sel(geometry=name).mean()) for name in GEOMETRIES}
    found["noise floor"] = float(late["noise_floor"].mean())
    found["persistence"] = float(late["baseline_difference"].sel(baseline="persistence").mean())
    for name in GEOMETRIES:
        found[f"forecast by {name}"] = float(late["forecast_difference"].sel(geometry=name).mean())
    for name in ("persistence", "trend"):
        found[f"forecast by {name}"] = float(late["forecast_baseline_difference"].sel(baseline=name).mean())
    return found


def listed(record: xr.Dataset, found: dict[str, float]) -> str:
    """Write them out."""
    ahead = (
        f"held-out networks, last quarter of the records (forecasts from step {float(record['forecast_time']):.0f} on)"
    )
    return f"{ahead}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items())
