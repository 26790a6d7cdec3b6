"""layerwise Figure 3.4: Stage-like training."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.experiment import Experiment, Figure
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.experiments.linear_modes.losses import diagonal_loss
from dynascope.experiments.sources import layerwise
from dynascope.models.linear_modes import DiagonalNetwork


@dataclass(frozen=True)
class Config:
    """Five skills of frequency k^{−(α+1)}, α = 0.6, S = 5, ε = 0.05; the source does not give the start."""

    skills: int = 5
    exponent: float = 0.6
    target: float = 5.0
    starts: tuple[float, ...] = (1e-2, 1e-9)  # a(0) b(0)
    threshold: float = 0.05
    points: int = 2001


def run(config: Config) -> xr.Dataset:
    """Integrate the skills from two starts over the time that the slowest needs."""
    variance = np.arange(1, config.skills + 1.0) ** -(config.exponent + 1)
    variance /= variance.sum()
    begin = np.sqrt(np.array(config.starts))[:, None]
    network = DiagonalNetwork(variance, config.target, begin, begin)
    emerges = network.time_to_reach(config.threshold)
    last = float((emerges + network.saturation_time(config.threshold)).max())
    times = np.linspace(0.0, 1.1 * last, config.points)
    record = network.solve(times).rename(grid_0="start")
    weights = np.broadcast_to(begin, (len(config.starts), config.skills))
    flow = gradient_flow(diagonal_loss, {"first": weights, "second": weights}, times, data=(variance, config.target))
    product = np.moveaxis(flow["first"] * flow["second"], 0, -1)
    record["product_flow"] = (("start", "mode", "time"), product)
    record["loss_flow"] = (("start", "time"), (variance[:, None] * (product - config.target) ** 2).sum(axis=1) / 2)
    record["variance"], record["target"] = ("mode", variance), config.target
    record["threshold"] = config.threshold
    record["overlap"] = (("start", "pair"), network.stage_overlap())
    return record.assign_coords(start=list(config.starts))


def _moments(record: xr.Dataset, start: int) -> tuple[np.ndarray, np.ndarray]:
    """When each mode emerges and saturates, read off the integrated curves."""
    share = (record["product_flow"] / record["target"]).isel(start=start).transpose("mode", "time").values
    level, times = float(record["threshold"]), record["time"].values
    return times[(share >= level).argmax(axis=-1)], times[(share >= 1 - level).argmax(axis=-1)]


def _waits(record: xr.Dataset, start: int) -> tuple[np.ndarray, float, str]:
    """Times from the saturation of a mode to the emergence of the next, how finely they are known, and overlaps."""
    emerged, saturated = _moments(record, start)
    overlaps = ", ".join(f"{value:.2g}" for value in record["overlap"].isel(start=start).values)
    return emerged[1:] - saturated[:-1], float(record["time"][1]), f"overlaps ε {overlaps}"


def _small(record: xr.Dataset) -> Judgement:
    waits, step, overlaps = _waits(record, 1)
    return above(waits, 0.0, step, note=f"time from saturation to the next emergence; {overlaps}")


def _large(record: xr.Dataset) -> Judgement:
    waits, step, overlaps = _waits(record, 0)
    return below(waits[1:], 0.0, step, note=overlaps)


def _drops(record: xr.Dataset) -> Judgement:
    level, loss = float(record["threshold"]), record["loss_flow"].isel(start=1).values
    before, after = (np.interp(times, record["time"].values, loss) for times in _moments(record, 1))
    # between ε and 1 − ε a mode gives (1 − ε)² − ε² of its loss; its neighbours' tails may add O(ε) of theirs
    ideal = record["variance"].values * float(record["target"]) ** 2 / 2
    neighbours = level * 2 * np.maximum(np.append(ideal[1:], 0.0), np.insert(ideal[:-1], 0, 0.0))
    return equal((before - after) / ideal, 1.0, 2 * level + neighbours / ideal, note="beside E[x_k²] S²/2")


def _picture(record: xr.Dataset) -> Figure:
    """Strengths and loss for both starts."""
    figure, axes = plots.new_figure(columns=2, rows=record.sizes["start"], height=2.8)
    time = plots.axis_label(record["time"])
    for row, start in zip(axes, record["start"].values, strict=True):
        one = record.sel(start=start)
        for colour, mode in zip(plots.PALETTE, one["mode"].values, strict=False):
            share = one["product_flow"].sel(mode=mode) / one["target"]
            row[0].plot(one["time"], share, color=colour, label=f"skill {mode}")
        for level in (float(record["threshold"]), 1 - float(record["threshold"])):
            row[0].axhline(level, color="grey", linewidth=0.6)
        row[0].set(xlabel=time, ylabel=f"strength/target, start {start:g}")
        row[1].plot(one["time"], one["loss_flow"], color="black")
        row[1].set(xlabel=time, ylabel="loss", yscale="log", ylim=(1e-4, None))
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    layerwise(figure="3.4"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-3.4-small-start",
            "from a small start every mode saturates before the next emerges",
            _small,
            layerwise(equation="3.14"),
        ),
        Claim(
            "fig-3.4-large-start",
            "from a larger start late modes overlap at ε = 0.05",
            _large,
            layerwise(equation="3.14"),
            kind="derived",
        ),
        Claim(
            "fig-3.4-loss",
            "in its stage mode k lowers the loss by E[x_k²] S²/2, up to O(ε)",
            _drops,
            layerwise(figure="3.4(b)"),
        ),
    ),
    picture=_picture,
    smoke={"points": 801},
    paper={"points": 20_001},
    adapted="start, which the source leaves out",
)
