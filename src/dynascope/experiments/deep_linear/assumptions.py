"""Figures 6, 7 and 8: how well alignment and balance hold under online SGD."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.reading import over_trials
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.records import with_provenance

SMALL = 0.1  # a cross mode below this share of the largest singular value counts as small


@dataclass(frozen=True)
class Config:
    """Depths 2 and 4, Gaussian and balanced starts with the same end-to-end map."""

    depths: tuple[int, ...] = (2, 4)
    init_exponent: float = 2.0
    durations: tuple[float, ...] = (20.0, 60.0)
    trials: int = 32
    save_points: int = 201
    seed: int = 6


LAPTOP = Config()
SCALES = {
    "smoke": replace(LAPTOP, init_exponent=1.6, durations=(12.0, 30.0), trials=8, save_points=101),
    "laptop": LAPTOP,
    "paper": replace(LAPTOP, init_exponent=3.0, durations=(40.0, 700.0), trials=64, save_points=701),
}
CROSS = Claim(
    "fig-6-small",
    "deep-linear Figure 6",
    f"most cross modes are small (below {SMALL:g}) for most of training: above 90 %",
)
PASSING = Claim(
    "fig-6-peak", "deep-linear Figure 6", "the largest cross mode peaks and is far smaller again at the end"
)
BALANCE = Claim("fig-7-increases", "deep-linear Figure 7(a), (c)", "from Gaussian weights r falls: balance increases")
KEPT = Claim(
    "fig-7-kept",
    "deep-linear Figure 7(b), (d)",
    "from balanced weights r stays below what Gaussian weights ever reach",
)
NUMERATOR = Claim("fig-7-numerator", "deep-linear Figure 7", "the numerator of r changes little: by less than 10 %")
NORMS = Claim("fig-8-norms", "deep-linear Figure 8", "the layers' Frobenius norms grow over training")


def run(config: Config) -> xr.Dataset:
    """Train from both starts at each depth; keep what the figures show, averaged over layers."""
    begun = time.perf_counter()
    parts = []
    for depth, duration in zip(config.depths, config.durations, strict=True):
        for start in ("gaussian", "balanced"):
            net = DeepLinear(depth, 12, init_exponent=config.init_exponent, initialisation=start)
            trained = net.simulate(
                duration, config.trials, method="sgd", seed=config.seed, save_points=config.save_points
            )
            kept = trained[["cross_amplitude", "amplitude"]].assign(
                balance=trained["balance"].mean("layer"),
                imbalance=trained["imbalance"].mean("layer"),
                weight_norm=trained["weight_norm"].mean("matrix"),
                clock=("save", trained["time"].values),
            )
            parts.append(kept.rename(time="moment").drop_vars("moment").rename(moment="save").drop_attrs(deep=False))
    labels = [f"depth {depth}, {start}" for depth in config.depths for start in ("gaussian", "balanced")]
    record = xr.concat(parts, "setting").assign_coords(setting=labels)
    return with_provenance(
        record, "DeepLinear", {"width": 12, "teacher": net.singular_values}, options=vars(config), seed=config.seed,
        precision="float64", wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge each depth; Gaussian starts stand in front of balanced ones."""
    gaussian, balanced = record.isel(setting=slice(0, None, 2)), record.isel(setting=slice(1, None, 2))
    off = 1 - np.eye(record.sizes["mode"])
    cross = abs(gaussian["cross_amplitude"]) * xr.DataArray(off, dims=("mode", "other_mode"))
    pairs = off.sum()
    small = (cross < SMALL).sum(["mode", "other_mode"]) - (off.size - pairs)
    share, share_error = over_trials(small.mean("save") / pairs)
    largest = cross.max(["mode", "other_mode"])
    left, left_error = over_trials(largest.isel(save=-1) / largest.max("save"))
    fall, fall_error = over_trials(gaussian["balance"].isel(save=-1) / gaussian["balance"].isel(save=0))
    lowest, highest = gaussian["balance"].min("save"), balanced["balance"].max("save")
    kept, kept_error = over_trials(highest.drop_vars("setting") / lowest.drop_vars("setting"))
    drift = abs(gaussian["imbalance"] / gaussian["imbalance"].isel(save=0) - 1).max("save")
    change, change_error = over_trials(drift)
    norm, norm_error = over_trials(record["weight_norm"].isel(save=-1) / record["weight_norm"].isel(save=0))
    return (
        CROSS.exceeds(share, 0.9, three_errors(share_error), note="share of cross modes and saves; depths 2 and 4"),
        PASSING.falls_below(left, 0.5, three_errors(left_error), note="largest cross mode at the end over its peak"),
        BALANCE.falls_below(fall, 1.0, three_errors(fall_error), note="r at the end over r at the start"),
        KEPT.falls_below(kept, 1.0, three_errors(kept_error), note="largest balanced r over least Gaussian r"),
        NUMERATOR.falls_below(change, 0.1, three_errors(change_error), note="largest relative change on the way"),
        NORMS.exceeds(norm, 1.0, three_errors(norm_error), note="norm at the end over norm at the start"),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw cross modes of one network, and r, its numerator and layer norms averaged over trials."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=record.sizes["setting"], rows=2, width=3.4, height=2.8)
    for column in range(record.sizes["setting"]):
        chosen = record.isel(setting=column)
        top, bottom = axes[:, column]
        modes = record.sizes["mode"]
        colours = iter(PALETTE)
        for a in range(modes):
            for b in range(modes):
                if a != b:
                    values = chosen["cross_amplitude"].isel(trial=0, mode=a, other_mode=b)
                    top.plot(chosen["clock"], values, color=next(colours), linewidth=0.9, label=f"{a + 1}–{b + 1}")
        for name, colour, style in zip(
            ("balance", "imbalance", "weight_norm"), PALETTE, ("-", "--", ":"), strict=False
        ):
            label = {"balance": "r (33)", "imbalance": "numerator of r", "weight_norm": "norm of a layer"}[name]
            bottom.plot(chosen["clock"], chosen[name].mean("trial"), color=colour, linestyle=style, label=label)
        bottom.set_yscale("log")
        bottom.set_ylim(bottom=1e-3)  # balanced weights start at rounding
        top.set_title(str(chosen["setting"].values), fontsize="medium")
        bottom.set_xlabel("time (steps × step size)")
    axes[0, 0].set_ylabel("cross-mode amplitude, one trial")
    axes[1, 0].set_ylabel("mean over layers and trials")
    axes[0, 0].legend(frameon=False, fontsize="x-small", ncols=2)
    axes[1, 0].legend(frameon=False, fontsize="x-small")
    return figure


EXPERIMENT = Experiment(
    title="Alignment and balance under SGD",
    source="deep-linear Figures 6–8",
    kind="figure",
    claims=(CROSS, PASSING, BALANCE, KEPT, NUMERATOR, NORMS),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
