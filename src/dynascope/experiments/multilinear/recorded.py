"""Sign a record that was put together from several runs."""

import time
from dataclasses import asdict
from typing import Any

import xarray as xr

from dynascope.records import with_provenance


def recorded(dataset: xr.Dataset, config: Any, begun: float) -> xr.Dataset:
    """The dataset with its provenance; `begun` is when the work started, by `time.perf_counter`."""
    return with_provenance(
        dataset,
        "Multilinear",
        {},
        options=asdict(config),
        seed=config.seed,
        precision="float64",
        wall_time=time.perf_counter() - begun,
    )
