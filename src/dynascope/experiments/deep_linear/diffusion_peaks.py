"""Figures 1 and 11, J.3: the diffusion along a mode peaks before the mode is learned."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.reading import LEARNED, over_trials, peak_time, time_to_reach
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.records import attribute


@dataclass(frozen=True)
class Config:
    """Online SGD on the paper's task: teacher 1.0/0.7/0.4, learning rate 0.005, batch 1, γ = 2."""

    width: tuple[int, ...] = (12, 12, 12, 12, 12)
    data_size: int | None = None
    init_exponent: float = 2.0
    duration: float = 60.0
    trials: int = 32
    save_points: int = 401
    seed: int = 1


FIGURE = Config()
HIDDEN = replace(FIGURE, width=(12, 24, 24, 24, 12))
FINITE = replace(FIGURE, data_size=1000)


def _scales(laptop: Config) -> dict[str, Config]:
    smoke = replace(laptop, init_exponent=1.6, trials=16, duration=30.0, save_points=201)
    return {"smoke": smoke, "laptop": laptop, "paper": replace(laptop, trials=200, duration=100.0, save_points=1001)}


def _claims(prefix: str, source: str, setting: str) -> dict[str, Claim]:
    statements = {
        "order": f"{setting}: larger modes are learned earlier (mean over trials)",
        "precedes": f"{setting}: the diffusion along each mode peaks before the mode is learned",
        "time": f"{setting}: (7) peaks at the time at which the diffusion does",
        "amplitude": f"{setting}: the diffusion peaks where (9) says, at w = s a/(a + 2), a = 4(L − 1)/L",
        "height": f"{setting}: observed and predicted peaks agree within a factor of two",
        "vanishes": f"{setting}: once a mode is learned its diffusion falls towards zero",
    }
    return {name: Claim(f"{prefix}-{name}", source, text) for name, text in statements.items()}


CLAIMS = {
    "figure": _claims("fig-1", "deep-linear Figure 1", "depth 4, width 12"),
    "hidden": _claims("fig-11", "deep-linear Figure 11", "hidden width 24"),
    "finite": _claims("j3", "deep-linear J.3", "a data set of 1000 samples"),
}


def run(config: Config) -> xr.Dataset:
    """Train by SGD, recording amplitudes and diffusion."""
    net = DeepLinear(
        len(config.width) - 1, list(config.width), init_exponent=config.init_exponent, data_size=config.data_size
    )
    return net.simulate(config.duration, config.trials, method="sgd", seed=config.seed, save_points=config.save_points)


def _check(record: xr.Dataset, claims: dict[str, Claim]) -> tuple[Claim, ...]:
    learned, peak = time_to_reach(record), peak_time(record["diffusion"])
    predicted = peak_time(record["predicted_diffusion"])
    spacing = float(np.diff(record["time"]).max())
    depth = len(attribute(record, "parameters")["widths"]) - 1
    exponent = 4 * (depth - 1) / depth
    height = record["diffusion"].max("time") / record["predicted_diffusion"].max("time")
    share = (record["amplitude"] / record["singular_value"]).sel(time=peak)
    last = record["diffusion"].isel(time=-1) / record["diffusion"].max("time")
    gaps, gap_error = over_trials(learned.diff("mode"))
    lead, lead_error = over_trials(learned - peak)
    lag, lag_error = over_trials(peak - predicted)
    where, where_error = over_trials(share)
    ratio, ratio_error = over_trials(np.log2(height))
    left, left_error = over_trials(last)
    in_order = float((learned.diff("mode") > 0).all("mode").mean())
    return (
        claims["order"].exceeds(gaps, 0.0, three_errors(gap_error), note=f"all in order in {in_order:.0%} of trials"),
        claims["precedes"].exceeds(lead, 0.0, three_errors(lead_error), note=f"learned: {LEARNED:.0%} of s"),
        claims["time"].equals(
            lag, 0.0, three_errors(lag_error) + 2 * spacing, note=f"saves are {spacing:.2g} apart; lag per mode"
        ),
        claims["amplitude"].equals(
            where,
            exponent / (exponent + 2),
            three_errors(where_error) + 0.05,
            rival=1.0,
            standard_error=where_error,
            note="0.05: weights are neither balanced nor aligned, and a peak is flat",
        ),
        claims["height"].falls_below(
            np.abs(ratio), 1.0, three_errors(ratio_error), note=f"log2 ratio {ratio.round(2)}"
        ),
        claims["vanishes"].falls_below(left, 0.1, three_errors(left_error), note="last over largest diffusion"),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw one trial: modes with the times of the predicted peaks, and diffusion beside its prediction."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    modes, diffusion = axes[0]
    one = record.isel(trial=0)
    predicted = peak_time(one["predicted_diffusion"])
    for index, colour in zip(range(one.sizes["mode"]), PALETTE, strict=False):
        mode = one.isel(mode=index)
        name = f"s = {float(mode['singular_value']):g}"
        modes.plot(one["time"], mode["amplitude"], color=colour, label=name)
        modes.axhline(float(mode["singular_value"]), color=colour, linewidth=0.6, linestyle=":")
        modes.axvline(float(predicted[index]), color=colour, linewidth=1, linestyle="--")
        diffusion.plot(one["time"], mode["diffusion"], color=colour, label=f"{name}, observed")
        diffusion.plot(one["time"], mode["predicted_diffusion"], color=colour, linestyle="--", label="predicted by (7)")
        top = float(predicted[index])
        diffusion.plot(top, float(mode["predicted_diffusion"].sel(time=top)), "*", color=colour, markersize=10)
    modes.set_ylabel(axis_label(record["amplitude"]))
    diffusion.set_ylabel(axis_label(record["diffusion"]))
    modes.set_title("modes; dashed: predicted peak of diffusion")
    diffusion.set_title("diffusion along modes")
    for ax in (modes, diffusion):
        ax.set_xlabel(axis_label(record["time"]))
        ax.legend(frameon=False, fontsize="small")
    return figure


def _experiment(name: str, title: str, source: str, laptop: Config) -> Experiment:
    claims = CLAIMS[name]
    return Experiment(
        title=title,
        source=source,
        kind="figure",
        claims=tuple(claims.values()),
        scales=_scales(laptop),
        run=run,
        check=lambda record: _check(record, claims),
        plot=plot,
    )


PEAKS = _experiment("figure", "Diffusion peaks before a mode is learned", "deep-linear Figure 1", FIGURE)
WIDE = _experiment("hidden", "Diffusion with hidden layers of width 24", "deep-linear Figure 11", HIDDEN)
DATA_SET = _experiment("finite", "Diffusion peaks on a finite data set", "deep-linear J.3", FINITE)
