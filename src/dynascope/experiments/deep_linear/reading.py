"""What the figures read off trained networks: when modes are learned, when their diffusion peaks."""

import numpy as np
import xarray as xr

LEARNED = 0.9  # share of the singular value at which a mode counts as learned
PRINTED_SLOWDOWN = 200 / 30  # deep-linear 4.1: time to learn all modes, SGD against anisotropic Langevin dynamics


def time_to_reach(run: xr.Dataset, fraction: float = LEARNED) -> xr.DataArray:
    """First time at which each mode reaches a fraction of its singular value, between saves by interpolation.

    NaN where it never does. Dimensions: those of the amplitude without time.

    >>> amplitude = xr.DataArray([[0.0], [0.5], [1.0]], dims=("time", "mode"), coords={"time": [0.0, 1.0, 2.0]})
    >>> time_to_reach(xr.Dataset({"amplitude": amplitude, "singular_value": ("mode", [1.0])}), 0.75).values.tolist()
    [1.5]
    """
    share = (run["amplitude"] / run["singular_value"]).transpose("time", ...)
    times, values = run["time"].values, share.values
    above = values >= fraction
    last = np.maximum(np.argmax(above, axis=0), 1)
    after = np.take_along_axis(values, last[None], axis=0)[0]
    before = np.take_along_axis(values, last[None] - 1, axis=0)[0]
    part = np.clip((fraction - before) / np.where(after == before, 1.0, after - before), 0, 1)
    moment = times[last - 1] + part * (times[last] - times[last - 1])
    moment = np.where(above[0], times[0], np.where(above.any(axis=0), moment, np.nan))
    return xr.DataArray(moment, dims=share.dims[1:], coords=share.isel(time=0, drop=True).coords)


def peak_time(values: xr.DataArray) -> xr.DataArray:
    """Time of the largest value.

    >>> float(peak_time(xr.DataArray([0.0, 2.0, 1.0], dims="time", coords={"time": [0.0, 0.1, 0.2]})))
    0.1
    """
    return values.idxmax("time")
