"""Convolutional networks with dropout that is fixed or raised during training: their runs and pictures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope import networks, plots
from dynascope.experiments.experiment import Axes
from dynascope.experiments.phases.load_curves import batches, data_set, follow, shape_of


@dataclass(frozen=True)
class Config:
    """Networks that differ in dropout, each trained in stages of `epochs` with one value of its schedule for a stage.

    Figure 6: 6 convolutions of 16 channels on MNIST, full batches, Adam at 1e-4, 4000 epochs each stage. At 10 × 10
    pixels, with batch norm on the input and the input as layer 0, as in the authors' code. `begin` is the first seed,
    where networks that were not seen before shall judge.
    """

    schedules: tuple[tuple[float, ...], ...] = ((0.0, 0.05, 0.3), (0.0, 0.0, 0.0))
    epochs: int = 4000
    channels: int = 16
    depth: int = 6
    learning_rate: float = 0.0001
    batch_size: int = 2560
    seeds: int = 10
    begin: int = 0
    data: str = "mnist"
    size: int = 10
    samples: int = 256
    times: int = 10


OFF = "the input lies off the curve: the first layer does no work"
_DIGITS: Mapping[str, Any] = {"data": "digits", "size": 0, "samples": 40, "batch_size": 100, "epochs": 40}
LAPTOP = {**_DIGITS, "channels": 8, "depth": 5, "learning_rate": 0.001, "seeds": 8}
SMOKE = {**LAPTOP, "epochs": 12, "channels": 6, "times": 1, "seeds": 4}


def run(config: Config) -> xr.Dataset:
    """Train networks with all schedules from the same starts, and follow their load curves."""
    data = data_set(config.data, config.size, config.samples)
    batch, stage = batches(len(data[0]), config.batch_size, config.epochs)
    stages = len(config.schedules[0])
    kept = np.repeat(config.schedules, config.seeds, axis=0)  # (trial, stage)
    ensemble = networks.Ensemble(
        networks.CNN(*shape_of(data), channels=config.channels, depth=config.depth, input_norm=True),
        trials=list(range(config.begin, config.begin + config.seeds)) * len(config.schedules),
        learning_rate=config.learning_rate,
        batch_size=batch,
        optimizer="adam",
        vary={"dropout": kept[:, 0]},
        sampling="shuffled",
    )
    steps = np.unique(np.linspace(0, stages * stage, stages * config.times + 1).round().astype(int))
    later = {stage * index: {"dropout": kept[:, index]} for index in range(1, stages)}
    path = follow(ensemble, data, steps.tolist(), later)
    shape, dims = (len(config.schedules), config.seeds, len(steps)), ("schedule", "trial", "time")
    values = {
        "load": ((*dims, "layer"), path["load"].sel(probe="train").values.reshape((*shape, -1))),
        "accuracy": (dims, path["accuracy"].sel(probe="test").values.reshape(shape)),
        "loss": (dims, path["loss"].sel(probe="train").values.reshape(shape)),
    }
    names = [f"{each[0]:g} throughout" if len(set(each)) == 1 else "raised" for each in config.schedules]
    times = ("time", steps / stage, {"long_name": "stages of training"})
    return xr.Dataset(values, coords={"schedule": names, "layer": np.arange(config.depth + 1), "time": times})


def without_input(load: xr.DataArray) -> xr.DataArray:
    """Load curves from the first layer on.

    >>> without_input(xr.DataArray([3.0, 2.0, 1.0], dims="layer")).values.tolist()
    [2.0, 1.0]
    """
    return load.isel(layer=slice(1, None))


def draw_courses(record: xr.Dataset, ax: Axes) -> None:
    """Test accuracy over training loss, of all schedules."""
    mean = record.mean("trial").isel(time=slice(1, None))
    for colour, schedule in zip(plots.shades(record.sizes["schedule"]), record["schedule"].values, strict=True):
        chosen = mean.sel(schedule=schedule)
        ax.plot(chosen["loss"], chosen["accuracy"], ".-", color=colour, label=f"dropout {schedule}")
    ax.set(xscale="log", xlabel="training loss", ylabel="test accuracy")
    ax.invert_xaxis()
