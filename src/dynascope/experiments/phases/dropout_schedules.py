"""FIG. 5(c) and FIG. 6: convolutional networks, with dropout that is fixed or raised during training."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.phases.curves import recorded
from dynascope.experiments.phases.shapes import curvature, mean_error
from dynascope.experiments.phases.training import data_set
from dynascope.experiments.registry import Experiment
from dynascope.networks import CNN, Ensemble


@dataclass(frozen=True)
class Config:
    """Networks that differ in dropout, each trained in stages of `epochs` with one value of its schedule for a stage.

    FIG. 6: 6 convolutions of 16 channels on MNIST, full batches, Adam at 1e-4, 4000 epochs each stage. At 10 × 10
    pixels, which the paper's networks elsewhere see.
    """

    schedules: tuple[tuple[float, ...], ...] = ((0.0, 0.05, 0.3), (0.0, 0.0, 0.0))
    epochs: int = 4000
    channels: int = 16
    depth: int = 6
    learning_rate: float = 0.0001
    batch_size: int = 2560
    seeds: int = 4
    data: str = "mnist"
    size: int = 10
    samples: int = 256
    times: int = 10


def run(config: Config) -> xr.Dataset:
    """Train networks with all schedules from the same starts, and follow their load curves."""
    begun = time.perf_counter()
    x, y, xt, yt = data_set(config.data, config.size, config.samples)
    batch = min(config.batch_size, len(x))
    stage = len(x) // batch * config.epochs
    stages = len(config.schedules[0])
    kept = np.repeat(config.schedules, config.seeds, axis=0)  # (copy, stage)
    ensemble = Ensemble(
        CNN(x.shape[1:], int(y.max()) + 1, channels=config.channels, depth=config.depth),
        copies=list(range(config.seeds)) * len(config.schedules),
        learning_rate=config.learning_rate,
        batch_size=batch,
        optimizer="adam",
        vary={"dropout": kept[:, 0]},
        sampling="shuffled",
    )
    steps = np.unique(np.linspace(0, stages * stage, stages * config.times + 1).round().astype(int))
    path = ensemble.fit(
        x,
        y,
        stages * stage,
        probe={"train": (x, y), "test": (xt, yt)},
        record_every=steps.tolist(),
        measures=("load",),
        later={stage * index: {"dropout": kept[:, index]} for index in range(1, stages)},
        progress=False,
    )
    shape = (len(config.schedules), config.seeds, len(steps))
    dims = ("schedule", "seed", "time")
    values = {
        "load": ((*dims, "layer"), path["load"].sel(probe="train").values.reshape((*shape, -1))),
        "accuracy": (dims, path["accuracy"].sel(probe="test").values.reshape(shape)),
        "loss": (dims, path["loss"].sel(probe="train").values.reshape(shape)),
    }
    names = [f"{each[0]:g} throughout" if len(set(each)) == 1 else "raised" for each in config.schedules]
    coords = {"schedule": names, "layer": np.arange(1, config.depth + 1)}
    coords["time"] = ("time", steps / stage, {"long_name": "stages of training"})
    return recorded(values, coords, config, begun)


# --- FIG. 6: dropout raised during training --------------------------------------------------------------------------

CLAIMS = {
    "concave": Claim("fig-6-concave", "spring-block FIG. 6", "without dropout a CNN's load curve becomes concave"),
    "flatter": Claim(
        "fig-6-flatter",
        "spring-block FIG. 6",
        "some dropout, added in training, makes it less concave than without",
    ),
    "convex": Claim("fig-6-convex", "spring-block FIG. 6", "much dropout, added later, makes it convex"),
    "accuracy": Claim(
        "fig-6-accuracy",
        "spring-block FIG. 6",
        "that dropout costs no test accuracy beside training on without",
    ),
}


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge at the ends of the stages, run by run: the same starts, once with dropout raised and once without."""
    bend = curvature(record["load"].transpose("schedule", "seed", "time", "layer").values)
    accuracy = record["accuracy"].transpose("schedule", "seed", "time").values.astype(float)
    ends = [int(np.argmin(np.abs(record["time"].values - stage))) for stage in (1, 2, 3)]
    first, first_error = mean_error(bend[0, :, ends[0]])
    less, less_error = mean_error(bend[0, :, ends[1]] - bend[1, :, ends[1]])
    last, last_error = mean_error(bend[0, :, ends[2]])
    gain, gain_error = mean_error(accuracy[0, :, ends[1]] - accuracy[1, :, ends[1]])
    return (
        CLAIMS["concave"].exceeds(first, 0.0, three_errors(first_error), note="curvature after the first stage"),
        CLAIMS["flatter"].falls_below(less, 0.0, three_errors(less_error), note="difference after the second stage"),
        CLAIMS["convex"].falls_below(last, 0.0, three_errors(last_error), note="curvature after the third stage"),
        CLAIMS["accuracy"].exceeds(gain, 0.0, -three_errors(gain_error) - 1e-9, note="difference of test accuracies"),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw test accuracy over training loss, and the load curves of the first schedule after each stage."""
    from dynascope.plots import PALETTE  # noqa: PLC0415 (computing never imports plotting)

    figure, (left, right) = _courses(record)
    for index, stage in enumerate((1, 2, 3)):
        after = record.isel(schedule=0).sel(time=stage, method="nearest")["load"]
        _curve(right, after, PALETTE[index], f"after stage {stage}")
    for ax in (left, right):
        ax.legend(frameon=False, fontsize="small")
    return figure


def _courses(record: xr.Dataset) -> tuple[Any, tuple[Any, Any]]:
    """A figure with the courses of all schedules on its left and axes for load curves on its right."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2, width=5.5, height=4.5)
    mean = record.mean("seed")
    for index, schedule in enumerate(record["schedule"].values):
        chosen = mean.sel(schedule=schedule).isel(time=slice(1, None))
        axes[0, 0].plot(chosen["loss"], chosen["accuracy"], ".-", color=PALETTE[index], label=f"dropout {schedule}")
    axes[0, 0].set_xscale("log")
    axes[0, 0].invert_xaxis()
    axes[0, 0].set_xlabel("training loss")
    axes[0, 0].set_ylabel("test accuracy")
    axes[0, 1].set_xlabel("layer")
    axes[0, 1].set_ylabel("load D (natural logarithm)")
    return figure, (axes[0, 0], axes[0, 1])


def _curve(ax: Any, load: xr.DataArray, colour: str, label: str) -> None:
    ax.errorbar(load["layer"], load.mean("seed"), load.std("seed"), marker="o", color=colour, label=label)


LAPTOP = Config(data="digits", size=0, samples=40, channels=8, depth=5, learning_rate=0.001, batch_size=100, epochs=40)
RAISED = Experiment(
    title="Dropout raised during training",
    source="spring-block FIG. 6",
    kind="figure",
    claims=tuple(CLAIMS.values()),
    scales={
        "smoke": replace(LAPTOP, epochs=12, channels=6, times=1, schedules=((0.0, 0.05, 0.5), (0.0, 0.0, 0.0))),
        "laptop": LAPTOP,
        "paper": Config(),
    },
    run=run,
    check=check,
    plot=plot,
)


# --- FIG. 5(c): fixed dropout on photographs -------------------------------------------------------------------------

FIXED = {
    "concave": Claim("fig-5c-concave", "spring-block FIG. 5(c)", "without dropout a CNN's load curve is concave"),
    "noise": Claim("fig-5c-noise", "spring-block FIG. 5(c)", "more dropout makes it less concave, step by step"),
    "convex": Claim("fig-5c-convex", "spring-block FIG. 5(c)", "with the most dropout it is convex"),
}


def check_fixed(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge the load curves at the end, run by run: each schedule beside the one before it."""
    bend = curvature(record["load"].isel(time=-1).transpose("schedule", "seed", "layer").values)
    (first, *_, last), (first_error, *_, last_error) = mean_error(bend)
    change, change_error = mean_error(np.diff(bend, axis=0))
    note = "change of the curvature from one dropout to the next"
    return (
        FIXED["concave"].exceeds(first, 0.0, three_errors(first_error), note="curvature"),
        FIXED["noise"].falls_below(change, 0.0, three_errors(change_error), note=note),
        FIXED["convex"].falls_below(last, 0.0, three_errors(last_error), note="curvature"),
    )


def plot_fixed(record: xr.Dataset) -> Any:
    """Draw test accuracy over training loss, and the load curves at the end."""
    from dynascope.plots import PALETTE  # noqa: PLC0415 (computing never imports plotting)

    figure, (left, right) = _courses(record)
    for index, schedule in enumerate(record["schedule"].values):
        end = record.sel(schedule=schedule).isel(time=-1)
        _curve(right, end["load"], PALETTE[index], f"dropout {schedule}: {100 * float(end['accuracy'].mean()):.1f} %")
    left.legend(frameon=False, fontsize="small")
    right.legend(frameon=False, fontsize="small", title="test accuracy")
    return figure


_THREE = ((0.0,), (0.1,), (0.4,))
CONVOLUTIONAL = Experiment(
    title="Convolutional networks with dropout",
    source="spring-block FIG. 5(c)",
    kind="figure",
    claims=tuple(FIXED.values()),
    scales={
        "smoke": replace(LAPTOP, epochs=20, channels=6, times=1, schedules=((0.0,), (0.4,))),
        "laptop": replace(LAPTOP, epochs=100, schedules=_THREE),
        "paper": Config(schedules=_THREE, epochs=2000, channels=20, depth=7, data="cifar10"),
    },
    run=run,
    check=check_fixed,
    plot=plot_fixed,
)
