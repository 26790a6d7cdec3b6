"""From (1) and (4) to (2) and (5): the discrete process, which draws one sample at a time, becomes the SDE as h → 0."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.elastic import LocallyElastic
from dynascope.records import with_provenance

START = np.array([[1.0, -0.5, 0.2], [0.1, 0.8, -0.3], [-0.2, 0.4, 1.5]])
INTRA, INTER, NOISE, END = 1.0, 0.3, 0.1, 2.0


@dataclass(frozen=True)
class Config:
    """The same logit model at several step sizes, with and without noise."""

    step_sizes: tuple[float, ...] = (0.08, 0.04, 0.02, 0.01)
    samples: int = 4
    trials: int = 4000
    seed: int = 41


SCALES = {
    "smoke": Config(trials=1000),
    "laptop": Config(),
    "paper": Config(step_sizes=(0.08, 0.04, 0.02, 0.01, 0.005), trials=40_000),
}
MEAN = Claim(
    "eq5-mean",
    "elastic (4) to (6)",
    "class means of the discrete process follow Euler's steps of the LE-ODE on average",
)
ORDER = Claim("eq5-order", "elastic (4) to (6)", "class means of the discrete process approach (6) in proportion to h")
SPREAD = Claim(
    "eq5-spread",
    "elastic (4) to (5)",
    "drawing samples adds variance to class means in proportion to h, so that the noise of (5) alone remains",
)
LIMIT = Claim("eq5-variance", "elastic (4) to (5)", "extrapolated to h = 0 the variance is that of the SDE")


def run(config: Config) -> xr.Dataset:
    """Simulate the discrete process; keep the mean of the class means and each trial's squared distance from it."""
    begun = time.perf_counter()
    models = {"noisy": NOISE, "quiet": 0.0}
    found: dict[str, list[Any]] = {"mean": [], "error": [], "euler": [], "noisy": [], "quiet": []}
    for name, noise in models.items():
        model = LocallyElastic(3, 3, INTRA, INTER, "logits", noise=noise)
        for size in config.step_sizes:
            last = model.simulate(
                END, size, config.samples, config.trials, seed=config.seed, save_points=2, start=START, discrete=True
            )["class_mean"].isel(time=-1)
            found[name].append(((last - last.mean("trial")) ** 2).sum(["class", "feature"]).values)
            if name == "noisy":
                found["mean"].append(last.mean("trial").values)
                found["error"].append(last.std("trial", ddof=1).values / np.sqrt(config.trials))
                steps = np.linalg.matrix_power(np.eye(9) + size * model.drift(0.0), round(END / size))
                found["euler"].append((steps @ START.ravel()).reshape(3, 3))
    dims = ("step_size", "class", "feature")
    record = xr.Dataset(
        {name: (dims, np.stack(found[name])) for name in ("mean", "error", "euler")}
        | {name: (("step_size", "trial"), np.stack(found[name])) for name in models},
        coords={"step_size": ("step_size", list(config.step_sizes), {"long_name": "step size h"})},
    )
    model = LocallyElastic(3, 3, INTRA, INTER, "logits", noise=NOISE)
    record["exact_mean"] = (dims[1:], model.mean_path([END], START)[0])
    record["exact_variance"] = float(np.trace(model.covariance([END], config.samples)[0]))
    parameters = {"intra": INTRA, "inter": INTER, "noise": NOISE, "geometry": "logits"}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record, "LocallyElastic", parameters, options=vars(config), seed=config.seed, precision="float64",
        wall_time=wall_time,
    )  # fmt: skip


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Fit powers and straight lines in h; each trial's squared distance gives the error of a variance."""
    size, trials = record["step_size"].values, record.sizes["trial"]
    quiet, noisy = (record[name].mean("trial").values for name in ("quiet", "noisy"))
    quiet_error, noisy_error = (
        record[name].std("trial", ddof=1).values / np.sqrt(trials) for name in ("quiet", "noisy")
    )
    fit = np.linalg.pinv(np.vander(np.log(size), 2))[0]  # slope as a weighted sum of the points
    slope, slope_error = fit @ np.log(quiet), np.linalg.norm(fit * quiet_error / quiet)
    bias = np.linalg.norm((record["euler"] - record["exact_mean"]).values.reshape(len(size), -1), axis=1)
    line = np.linalg.pinv(np.vander(size, 3))[2]  # value at h = 0 of a parabola
    return (
        MEAN.equals(record["mean"], record["euler"], three_errors(record["error"]), note=f"all entries, h = {size}"),
        ORDER.equals(fit @ np.log(bias), 1.0, 0.05, note="slope of |Euler − exact| in h; bound 0.05: curvature"),
        SPREAD.equals(
            slope, 1.0, 3 * slope_error + 0.05, rival=0.0, standard_error=slope_error,
            note=f"slope of log variance on log h without noise; bound 0.05: curvature; variances {quiet.round(4)}",
        ),
        LIMIT.equals(
            line @ noisy, float(record["exact_variance"]), 3 * np.linalg.norm(line * noisy_error),
            note=f"parabola through the summed variances {noisy.round(4)}",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the summed variance of the class means over the step size, with and without noise."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    size = record["step_size"].values
    for colour, name, label in ((PALETTE[0], "noisy", "with noise"), (PALETTE[1], "quiet", "without")):
        total = record[name].mean("trial")
        ax.plot(size, total, "o", color=colour, label=f"discrete process, {label}")
        fine = np.linspace(0.0, size.max(), 50)
        ax.plot(fine, np.polyval(np.polyfit(size, total, 2), fine), color=colour)
    ax.axhline(float(record["exact_variance"]), color="black", linestyle="--", label="SDE, exact")
    ax.set_xlim(left=0.0)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel(axis_label(record["step_size"]))
    ax.set_ylabel("variance of class means, summed")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="The discrete process becomes the SDE",
    source="elastic (1), (4), (5)",
    kind="equation",
    claims=(MEAN, ORDER, SPREAD, LIMIT),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
