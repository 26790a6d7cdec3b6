"""Figure 3: how long SGD takes beside its continuous limit, with the theory's loss and with the mean-reduced one."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.reading import over_trials, peak_time, time_to_reach
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.records import attribute, with_provenance

PRINTED = 200 / 30  # time to learn all modes, SGD against anisotropic Langevin dynamics
METHODS = ("gd", "sgd", "langevin", "sgd, mean loss")


@dataclass(frozen=True)
class Config:
    """Depth 4, width 12, learning rate 0.005, batch 1; all methods start from the same weights."""

    depth: int = 4
    width: int = 12
    init_exponent: float = 2.0
    duration: float = 60.0
    trials: int = 64
    dt: float = 0.0025
    save_points: int = 301
    seed: int = 3


LAPTOP = Config()
SCALES = {
    "smoke": replace(LAPTOP, init_exponent=1.5, duration=26.0, trials=32, dt=0.005, save_points=131),
    "laptop": LAPTOP,
    "paper": replace(LAPTOP, trials=256, dt=1e-4, duration=80.0),
}
SAME = Claim(
    "fig-3-same-time",
    "deep-linear Figure 3, section 4.1",
    "SGD learns all modes several times slower than anisotropic Langevin dynamics (200 against 30 time units)",
)
MEAN = Claim(
    "fig-3-mean-loss",
    "derived; deep-linear H.1",
    "with the loss averaged over outputs SGD is slower by outputs/2, which is what the figure shows",
)
MODES = Claim("fig-3-modes", "derived", "gd, SGD and Langevin dynamics learn each mode at the same time, within 5 %")
PEAKS = Claim(
    "fig-3-peaks",
    "deep-linear Figure 3",
    "under SGD and under Langevin dynamics the diffusion peaks before the mode is learned",
)


def run(config: Config) -> xr.Dataset:
    """Train the same networks by every method."""
    begun = time.perf_counter()
    net = DeepLinear(config.depth, config.width, init_exponent=config.init_exponent)
    slower = config.width / 2
    parts = []
    for method in METHODS:
        mean = method.endswith("mean loss")
        trained = net.simulate(
            config.duration * (slower if mean else 1),
            config.trials,
            method=method.split(",")[0],
            seed=config.seed,
            save_points=config.save_points,
            reduction="mean" if mean else "sum",
            dt=config.dt if method == "langevin" else None,
        )
        peak = peak_time(trained["diffusion"]).reset_coords(drop=True)
        one = trained[["amplitude", "diffusion", "predicted_diffusion"]].isel(trial=0, drop=True)
        clock = xr.DataArray(trained["time"].values, dims="save")
        learned = time_to_reach(trained).reset_coords(drop=True)
        part = one.rename(time="save").drop_vars("save").assign(clock=clock, learned=learned, peak=peak)
        parts.append(part)
    record = xr.concat(parts, "optimiser").assign_coords(optimiser=list(METHODS))
    record["learned"].attrs.update(long_name="time at which the mode is learned", units="steps × step size")
    facts = {"width": config.width, "depth": config.depth, "teacher": net.singular_values}
    return with_provenance(
        record, "DeepLinear", facts, options=vars(config), seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def _ratio(record: xr.Dataset, above: str, below: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean over trials of the logarithm of paired learning times: same weights, so that most of the spread cancels."""
    learned = record["learned"]
    mean, error = over_trials(np.log(learned.sel(optimiser=above) / learned.sel(optimiser=below)))
    return np.exp(mean), error * np.exp(mean)


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare learning times of the same networks."""
    last = record["learned"].max("mode")
    mean, error = over_trials(np.log(last.sel(optimiser="sgd") / last.sel(optimiser="langevin")))
    whole, spread = np.exp(mean), error * np.exp(mean)
    pairs = [_ratio(record, *names) for names in (("sgd", "gd"), ("langevin", "gd"), ("sgd", "langevin"))]
    ratios, errors = np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])
    slower, slower_error = _ratio(record, "sgd, mean loss", "gd")
    outputs = attribute(record, "parameters")["width"]
    lead = (record["learned"] - record["peak"]).sel(optimiser=["sgd", "langevin"])
    ahead, ahead_error = over_trials(lead)
    note = "the printed difference is that of the loss normalisation; ratio of times until all modes are learned"
    return (
        SAME.corrects(whole, 1.0, 0.05, published=PRINTED, standard_error=spread, note=note),
        MEAN.equals(
            slower / (outputs / 2), 1.0, 0.05, rival=2 / outputs, standard_error=slower_error / (outputs / 2),
            note="mean-reduced SGD over gd, divided by outputs/2; per mode",
        ),
        MODES.equals(ratios, 1.0, 0.05, rival=PRINTED, standard_error=errors, note="sgd/gd, langevin/gd, sgd/langevin"),
        PEAKS.exceeds(ahead, 0.0, three_errors(ahead_error), note="learned minus peak, per method and mode"),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw amplitudes and diffusion of one network under each method."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    methods = [str(name) for name in record["optimiser"].values]
    figure, axes = new_figure(columns=len(methods), rows=2, width=3.6, height=2.8)
    for column, method in enumerate(methods):
        one = record.sel(optimiser=method)
        for index, colour in zip(range(one.sizes["mode"]), PALETTE, strict=False):
            name = f"s = {float(one['singular_value'][index]):g}"
            axes[0, column].plot(one["clock"], one["amplitude"].isel(mode=index), color=colour, label=name)
            axes[1, column].plot(
                one["clock"], one["diffusion"].isel(mode=index), color=colour, label=f"{name}, observed"
            )
            axes[1, column].plot(
                one["clock"], one["predicted_diffusion"].isel(mode=index), color=colour, linestyle="--", linewidth=0.9
            )
        axes[0, column].set_title(method)
        axes[1, column].set_xlabel("time (steps × step size)")
    axes[0, 0].set_ylabel("mode amplitude")
    axes[1, 0].set_ylabel("diffusion; dashed: (7)")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="SGD beside its continuous limit",
    source="deep-linear Figure 3",
    kind="figure",
    claims=(SAME, MEAN, MODES, PEAKS),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
