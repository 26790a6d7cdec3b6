"""Figures 3.3 and 3.4: linear models learn all modes at once, layered ones in stages."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.linear_modes.diagonal import loss as layered_loss
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import DiagonalNetwork, mode_curves

_EXACT = 1e-8  # the solver's error, with room


@dataclass(frozen=True)
class Modes:
    """FIG. 3.3: S = 1 and a few variances; the source does not give them, nor the start."""

    variances: tuple[float, ...] = (1.0, 0.4, 0.15)
    start: float = 0.01
    duration: float = 60.0
    points: int = 301


@dataclass(frozen=True)
class Stages:
    """FIG. 3.4: five skills of frequency k^{−(α+1)}, α = 0.6, S = 5, ε = 0.05; the source does not give the start."""

    skills: int = 5
    exponent: float = 0.6
    target: float = 5.0
    starts: tuple[float, ...] = (1e-2, 1e-9)  # a(0) b(0)
    threshold: float = 0.05
    points: int = 2001


MODE_SCALES = {"smoke": Modes(points=61), "laptop": Modes(), "paper": Modes(points=2001)}
STAGE_SCALES = {"smoke": Stages(points=801), "laptop": Stages(), "paper": Stages(points=20_001)}
LINEAR = Claim("fig-3.3-linear", "layerwise (3.10)", "the linear model's modes follow 1 − exp(−E[x²] t)")
LAYERED = Claim("fig-3.3-layered", "layerwise (3.9)", "the diagonal network's modes follow the sigmoid")
AT_ONCE = Claim(
    "fig-3.3-at-once", "layerwise FIG. 3.3(a)", "as the first linear mode reaches 95 %, the next is half-way"
)
SEQUENCE = Claim(
    "fig-3.3-sequence", "layerwise FIG. 3.3(b)", "as the first layered mode reaches 95 %, the next is small"
)
SMALL = Claim(
    "fig-3.4-small-start", "layerwise (3.14)", "from a small start every mode saturates before the next emerges"
)
LARGE = Claim("fig-3.4-large-start", "layerwise (3.14)", "from a larger start late modes overlap at ε = 0.05")
DROP = Claim("fig-3.4-loss", "layerwise FIG. 3.4(b)", "in its stage mode k lowers the loss by E[x_k²] S²/2, up to O(ε)")


def linear_loss(weights: Any, data: Any) -> Any:
    """½ Σ E[x²] (θ − S)²: (3.2) for the linear model (3.5)."""
    variance, target = data
    return jnp.sum(variance * (weights["theta"] - target) ** 2) / 2


def run_modes(config: Modes) -> xr.Dataset:
    """Integrate both models for S = 1."""
    times, variance = np.linspace(0.0, config.duration, config.points), np.array(config.variances)
    begin = np.full(variance.size, config.start)
    network = DiagonalNetwork(variance, 1.0, begin, begin)
    record = network.solve(times)
    flow = gradient_flow(layered_loss, {"first": begin, "second": begin}, times, data=(variance, 1.0))
    linear = gradient_flow(linear_loss, {"theta": np.zeros(variance.size)}, times, data=(variance, 1.0))
    record["product_flow"] = (("mode", "time"), (flow["first"] * flow["second"]).T)
    record["linear_flow"] = (("mode", "time"), linear["theta"].T)
    record["linear"] = (("mode", "time"), mode_curves(times, variance))
    record["variance"] = ("mode", variance)
    return record


def check_modes(record: xr.Dataset) -> tuple[Claim, ...]:
    """Curves against the flow; and how far the second mode is when the first reaches 95 %."""
    variance = record["variance"].values
    when = {name: int(np.argmax(record[name].isel(mode=0).values >= 0.95)) for name in ("linear_flow", "product_flow")}
    second = {name: float(record[name].isel(mode=1, time=index)) for name, index in when.items()}
    expected = 1 - 0.05 ** (variance[1] / variance[0])
    return (
        LINEAR.equals(float(abs(record["linear"] - record["linear_flow"]).max()), 0.0, _EXACT),
        LAYERED.equals(float(abs(record["product"] - record["product_flow"]).max()), 0.0, _EXACT),
        AT_ONCE.exceeds(second["linear_flow"], 0.5, 0.0, note=f"at that moment {expected:.2f} is expected"),
        SEQUENCE.falls_below(second["product_flow"], 0.05, 0.0),
    )


def plot_modes(record: xr.Dataset) -> Any:
    """Draw saturation curves of both models."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    panels = (("linear_flow", "linear model"), ("product_flow", "diagonal network"))
    for ax, (name, title) in zip(axes[0], panels, strict=True):
        for colour, mode in zip(PALETTE, record["mode"].values, strict=False):
            variance = float(record["variance"].sel(mode=mode))
            ax.plot(record["time"], record[name].sel(mode=mode), color=colour, label=f"E[x²] = {variance:g}")
        ax.set_title(title)
        ax.set_xlabel(axis_label(record["time"]))
        ax.set_ylabel("strength of the mode/target")
        ax.legend(frameon=False, fontsize="small")
    return figure


def run_stages(config: Stages) -> xr.Dataset:
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
    flow = gradient_flow(layered_loss, {"first": weights, "second": weights}, times, data=(variance, config.target))
    product = np.moveaxis(flow["first"] * flow["second"], 0, -1)
    record["product_flow"] = (("start", "mode", "time"), product)
    record["loss_flow"] = (("start", "time"), (variance[:, None] * (product - config.target) ** 2).sum(axis=1) / 2)
    record["variance"], record["target"] = ("mode", variance), config.target
    record["threshold"] = config.threshold
    record["overlap"] = (("start", "pair"), network.stage_overlap())
    return record.assign_coords(start=list(config.starts))


def check_stages(record: xr.Dataset) -> tuple[Claim, ...]:
    """Read emergence and saturation off the integrated curves."""
    share = record["product_flow"] / record["target"]
    level, times = float(record["threshold"]), record["time"].values
    emerged = times[(share.values >= level).argmax(axis=-1)]  # (start, mode)
    saturated = times[(share.values >= 1 - level).argmax(axis=-1)]
    waits = emerged[:, 1:] - saturated[:, :-1]
    step = float(times[1])
    loss = record["loss_flow"].isel(start=1).values
    drops = np.interp(emerged[1], times, loss) - np.interp(saturated[1], times, loss)
    # between ε and 1 − ε a mode gives (1 − ε)² − ε² of its loss; its neighbours' tails may add O(ε) of theirs
    ideal = record["variance"].values * float(record["target"]) ** 2 / 2
    neighbours = level * 2 * np.maximum(np.append(ideal[1:], 0.0), np.insert(ideal[:-1], 0, 0.0))
    overlaps = ", ".join(f"{v:.2g}" for v in record["overlap"].isel(start=0).values)
    tiny = ", ".join(f"{v:.2g}" for v in record["overlap"].isel(start=1).values)
    return (
        SMALL.exceeds(waits[1], 0.0, step, note=f"time from saturation to the next emergence; overlaps ε {tiny}"),
        LARGE.falls_below(waits[0, 1:], 0.0, step, note=f"overlaps ε {overlaps}"),
        DROP.equals(drops / ideal, 1.0, 2 * level + neighbours / ideal, note="beside E[x_k²] S²/2"),
    )


def plot_stages(record: xr.Dataset) -> Any:
    """Draw strengths and loss for both starts."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2, rows=record.sizes["start"], height=2.8)
    for row, start in zip(axes, record["start"].values, strict=True):
        one = record.sel(start=start)
        for colour, mode in zip(PALETTE, one["mode"].values, strict=False):
            share = one["product_flow"].sel(mode=mode) / one["target"]
            row[0].plot(one["time"], share, color=colour, label=f"skill {mode}")
        for level in (float(record["threshold"]), 1 - float(record["threshold"])):
            row[0].axhline(level, color="grey", linewidth=0.6)
        row[0].set_ylabel(f"strength/target, start {start:g}")
        row[1].plot(one["time"], one["loss_flow"], color="black")
        row[1].set_ylabel("loss")
        row[1].set_yscale("log")
        row[1].set_ylim(1e-4, None)
        for ax in row:
            ax.set_xlabel(axis_label(record["time"]))
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


MODES = Experiment(
    title="All modes at once, or one after the other",
    source="layerwise FIG. 3.3",
    kind="figure",
    claims=(LINEAR, LAYERED, AT_ONCE, SEQUENCE),
    scales=MODE_SCALES,
    run=run_modes,
    check=check_modes,
    plot=plot_modes,
)
STAGES = Experiment(
    title="Stage-like training",
    source="layerwise FIG. 3.4",
    kind="figure",
    claims=(SMALL, LARGE, DROP),
    scales=STAGE_SCALES,
    run=run_stages,
    check=check_stages,
    plot=plot_stages,
)
