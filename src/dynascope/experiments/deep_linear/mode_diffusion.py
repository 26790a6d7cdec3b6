"""The diffusion along a mode peaks before the mode is learned: what its figures for several networks have in common."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, Kind, above, below, equal
from dynascope.experiments.deep_linear.drawing import each_mode
from dynascope.experiments.deep_linear.reading import LEARNED, peak_time, time_to_reach
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import Source
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import Estimate, over_trials


@dataclass(frozen=True)
class Config:
    """Online SGD on the paper's task: teacher 1.0/0.7/0.4, learning rate 0.005, batch 1, γ = 2."""

    width: tuple[int, ...] = (12, 12, 12, 12, 12)
    data_size: int | None = None
    whitened: bool = False
    init_exponent: float = 2.0
    duration: float = 60.0
    trials: int = 32
    save_points: int = 401
    seed: int = 1


def run(config: Config) -> xr.Dataset:
    """Train by SGD, recording amplitudes and diffusion."""
    depth, width = len(config.width) - 1, list(config.width)
    data: dict[str, Any] = {"data_size": config.data_size, "whitened": config.whitened}
    net = DeepLinear(depth, width, init_exponent=config.init_exponent, **data)
    return net.simulate(config.duration, config.trials, seed=config.seed, save_points=config.save_points)


def _order(record: xr.Dataset) -> Judgement:
    gaps = time_to_reach(record).diff("mode")
    in_order = float((gaps > 0).all("mode").mean())
    return above(over_trials(gaps), 0.0, note=f"all in order in {in_order:.0%} of trials")


def _precedes(record: xr.Dataset) -> Judgement:
    lead = time_to_reach(record) - peak_time(record["diffusion"])
    return above(over_trials(lead), 0.0, note=f"learned: {LEARNED:.0%} of s")


def _same_time(record: xr.Dataset) -> Judgement:
    lag = peak_time(record["diffusion"]) - peak_time(record["predicted_diffusion"])
    spacing = float(np.diff(record["time"]).max())
    return equal(over_trials(lag), 0.0, 2 * spacing, note=f"saves are {spacing:.2g} apart; lag per mode")


def _amplitude(record: xr.Dataset) -> Judgement:
    share = (record["amplitude"] / record["singular_value"]).sel(time=peak_time(record["diffusion"]))
    depth = len(settings(record).width) - 1
    exponent = 4 * (depth - 1) / depth
    note = "0.05: weights are neither balanced nor aligned, and a peak is flat"
    return equal(over_trials(share), exponent / (exponent + 2), 0.05, rival=1.0, note=note)


def _height(record: xr.Dataset) -> Judgement:
    ratio = over_trials(np.log2(record["diffusion"].max("time") / record["predicted_diffusion"].max("time")))
    return below(Estimate(np.abs(ratio.mean), ratio.error, ratio.runs), 1.0, note=f"log2 ratio {ratio.mean.round(2)}")


def _vanishes(record: xr.Dataset) -> Judgement:
    left = record["diffusion"].isel(time=-1) / record["diffusion"].max("time")
    return below(over_trials(left), 0.1, note="last over largest diffusion")


_JUDGES = {
    "order": ("larger modes are learned earlier (mean over trials)", _order),
    "precedes": ("the diffusion along each mode peaks before the mode is learned", _precedes),
    "time": ("(7) peaks at the time at which the diffusion does", _same_time),
    "amplitude": ("the diffusion peaks where (9) says, at w = s a/(a + 2), a = 4(L − 1)/L", _amplitude),
    "height": ("observed and predicted peaks agree within a factor of two", _height),
    "vanishes": ("once a mode is learned its diffusion falls towards zero", _vanishes),
}


def _draw_modes(record: xr.Dataset, ax: Axes) -> None:
    for mode, colour, label in each_mode(record.isel(trial=0)):
        ax.plot(record["time"], mode["amplitude"], color=colour, label=label)
        ax.axhline(float(mode["singular_value"]), color=colour, linewidth=0.6, linestyle=":")
        ax.axvline(float(peak_time(mode["predicted_diffusion"])), color=colour, linewidth=1, linestyle="--")
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel=plots.axis_label(record["amplitude"]))
    ax.set_title("modes; dashed: predicted peak of diffusion")


def _draw_diffusion(record: xr.Dataset, ax: Axes) -> None:
    for mode, colour, label in each_mode(record.isel(trial=0)):
        predicted = mode["predicted_diffusion"]
        ax.plot(record["time"], mode["diffusion"], color=colour, label=f"{label}, observed")
        ax.plot(record["time"], predicted, color=colour, linestyle="--", label="predicted by (7)")
        ax.plot(float(peak_time(predicted)), float(predicted.max()), "*", color=colour, markersize=10)
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel=plots.axis_label(record["diffusion"]))
    ax.set_title("diffusion along modes")


def diffusion_experiment(
    prefix: str, setting: str, source: Source, config: Config, adapted: str = "", kind: Kind = "printed"
) -> Experiment:
    """Train one kind of network and hold the peaks of its diffusion against (7) and (9); ids begin with the prefix."""
    return Experiment(
        source,
        config,
        run,
        claims=tuple(
            Claim(f"{prefix}-{id}", f"{setting}: {text}", judge, kind=kind) for id, (text, judge) in _JUDGES.items()
        ),
        picture=Panels(_draw_modes, _draw_diffusion),
        smoke={"init_exponent": 1.6, "trials": 16, "duration": 30.0, "save_points": 201},
        paper={"trials": 200, "duration": 100.0, "save_points": 1001},
        kind="figure",
        adapted=adapted,
    )
