"""From a file of measured class means to a labelled estimate of the strengths."""

import time
from pathlib import Path
from typing import Any

import xarray as xr

from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.records import digest, load, with_provenance
from dynascope.schema import read_arrays

_DIMS = ("trial", "time", "class", "feature")


def load_class_means(file: Path) -> xr.DataArray:
    """Read class means over time from a record, or from an .npz file with `times` and `class_means`.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/run.npz", times=np.arange(5.0), class_means=np.ones((5, 3, 3)))
    ...     load_class_means(Path(folder) / "run.npz").dims
    ('time', 'class', 'feature')
    """
    if file.suffix != ".npz":
        record = load(file)
        dims = set(record["class_mean"].dims) if "class_mean" in record else set()
        if dims not in (set(_DIMS), set(_DIMS[1:])):
            held = ", ".join(f"{name} over {', '.join(map(str, each.dims))}" for name, each in record.data_vars.items())
            raise ValueError(
                f"{file} must hold class_mean over time, class, feature, with trial or not, it holds {held or 'none'}"
            )
        if "time" not in record["class_mean"].coords:
            raise ValueError(f"{file} must hold the coordinate time of class_mean, without which no rate is known")
        return real(record["class_mean"].transpose(*(dim for dim in _DIMS if dim in dims)), str(file))
    arrays = read_arrays(file)
    if not {"times", "class_means"} <= set(arrays):
        raise ValueError(f"{file} must hold the arrays times and class_means, it holds {sorted(arrays)}")
    times, means = arrays["times"], arrays["class_means"]
    if means.ndim not in (3, 4) or times.shape != means.shape[-3:-2]:
        raise ValueError(
            f"class_means of {file} must be (time, class, feature), with trials in front or not, and times as long, "
            f"got shapes {means.shape} and {times.shape}"
        )
    return real(xr.DataArray(means, dims=_DIMS[-means.ndim :], coords={"time": times}, name="class_mean"), str(file))


def real(means: xr.DataArray, of: str) -> xr.DataArray:
    """Refuse class means or times that are no real numbers.

    >>> real(xr.DataArray([1j], dims="time", coords={"time": [0.0]}), "a run")
    Traceback (most recent call last):
    ValueError: class means of a run must be real numbers, got the type complex128
    """
    for name, values in (("class means", means), ("times", means["time"])):
        if values.dtype.kind not in "iuf":
            raise ValueError(f"{name} of {of} must be real numbers, got the type {values.dtype}")
    return means


def estimate_recorded(means: xr.DataArray, **options: Any) -> xr.Dataset:
    """Estimate the strengths of class means with labels, and keep where they came from; see `estimate_strengths`.

    >>> from dynascope import LocallyElastic
    >>> run = LocallyElastic(noise=0.01).simulate(duration=5.0, samples=5, trials=6)
    >>> estimate_recorded(run["class_mean"])["integrated_gap"].dims
    ('time',)
    """
    begun = time.perf_counter()
    found = estimate_strengths(means["time"].values, means.values, **options)
    found["time"].attrs.update(means["time"].attrs)
    source = {"class_means": digest(means.to_dataset(name="class_mean"))}
    given = {name: value for name, value in options.items() if value is not None}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        found, "estimate_strengths", source, options=given, seed=0, precision="float64", wall_time=wall_time
    )
