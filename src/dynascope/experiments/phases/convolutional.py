"""FIG. 6 and FIG. 5(c): convolutional networks, with dropout that is raised during training or fixed."""

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
    """Three stages of `epochs` each with `dropout` raised from one to the next; `fixed` networks keep theirs.

    FIG. 6: 6 convolutions of 16 channels on MNIST, full batches, Adam at 1e-4, 4000 epochs each stage. At 10 × 10
    pixels, which the paper's networks elsewhere see.
    """

    dropout: tuple[float, ...] = (0.0, 0.05, 0.3)
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
    """Train with dropout raised twice, and beside it networks that keep the first and the last for just as long."""
    begun = time.perf_counter()
    x, y, xt, yt = data_set(config.data, config.size, config.samples)
    batch = min(config.batch_size, len(x))
    stage = len(x) // batch * config.epochs
    schedules = np.array([config.dropout, [config.dropout[0]] * 3, [config.dropout[-1]] * 3])  # (schedule, stage)
    kept = np.repeat(schedules, config.seeds, axis=0)
    ensemble = Ensemble(
        CNN(x.shape[1:], int(y.max()) + 1, channels=config.channels, depth=config.depth),
        copies=list(range(config.seeds)) * len(schedules),
        learning_rate=config.learning_rate,
        batch_size=batch,
        optimizer="adam",
        vary={"dropout": kept[:, 0]},
        sampling="shuffled",
    )
    steps = np.unique(np.linspace(0, 3 * stage, 3 * config.times + 1).round().astype(int))
    path = ensemble.fit(
        x,
        y,
        3 * stage,
        probe={"train": (x, y), "test": (xt, yt)},
        record_every=steps.tolist(),
        measures=("load",),
        later={stage * (1 + index): {"dropout": kept[:, 1 + index]} for index in range(2)},
        progress=False,
    )
    shape = (len(schedules), config.seeds, len(steps))
    dims = ("schedule", "seed", "time")
    values = {
        "load": ((*dims, "layer"), path["load"].sel(probe="train").values.reshape((*shape, -1))),
        "accuracy": (dims, path["accuracy"].sel(probe="test").values.reshape(shape)),
        "loss": (dims, path["loss"].sel(probe="train").values.reshape(shape)),
    }
    names = ["raised", f"{config.dropout[0]:g} throughout", f"{config.dropout[-1]:g} throughout"]
    coords = {"schedule": names, "layer": np.arange(1, config.depth + 1)}
    coords["time"] = ("time", steps / stage, {"long_name": "stages of training"})
    return recorded(values, coords, config, begun)


CLAIMS = {
    "concave": Claim("fig-6-concave", "spring-block FIG. 6", "without dropout a CNN's load curve becomes concave"),
    "flatter": Claim(
        "fig-6-flatter",
        "spring-block FIG. 6",
        "some dropout, added in training, makes it less concave than without",
    ),
    "convex": Claim("fig-6-convex", "spring-block FIG. 6", "much dropout, added later, makes it convex"),
    "cnn": Claim(
        "fig-5c-noise",
        "spring-block FIG. 5(c)",
        "with much dropout throughout a CNN's load curve is convex",
    ),
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
    noisy, noisy_error = mean_error(bend[2, :, ends[2]])
    gain, gain_error = mean_error(accuracy[0, :, ends[1]] - accuracy[1, :, ends[1]])
    return (
        CLAIMS["concave"].exceeds(first, 0.0, three_errors(first_error), note="curvature after the first stage"),
        CLAIMS["flatter"].falls_below(less, 0.0, three_errors(less_error), note="difference after the second stage"),
        CLAIMS["convex"].falls_below(last, 0.0, three_errors(last_error), note="curvature after the third stage"),
        CLAIMS["cnn"].falls_below(noisy, 0.0, three_errors(noisy_error), note="curvature at the end"),
        CLAIMS["accuracy"].exceeds(gain, 0.0, -three_errors(gain_error) - 1e-9, note="difference of test accuracies"),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw test accuracy over training loss, and the load curves after each stage."""
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
    for index, stage in enumerate((1, 2, 3)):
        after = record.sel(schedule="raised").sel(time=stage, method="nearest")["load"]
        axes[0, 1].errorbar(
            record["layer"], after.mean("seed"), after.std("seed"), marker="o", color=PALETTE[index],
            label=f"after stage {stage}",
        )  # fmt: skip
    axes[0, 1].set_xlabel("layer")
    axes[0, 1].set_ylabel("load D (natural logarithm)")
    for ax in axes[0]:
        ax.legend(frameon=False, fontsize="small")
    return figure


LAPTOP = Config(data="digits", size=0, samples=40, channels=8, depth=5, learning_rate=0.001, batch_size=100, epochs=40)
EXPERIMENT = Experiment(
    title="Dropout raised during training",
    source="spring-block FIG. 6, 5(c)",
    kind="figure",
    claims=tuple(CLAIMS.values()),
    scales={
        "smoke": replace(LAPTOP, epochs=12, channels=6, seeds=4, times=2, dropout=(0.0, 0.05, 0.4)),
        "laptop": LAPTOP,
        "paper": Config(),
    },
    run=run,
    check=check,
    plot=plot,
)
