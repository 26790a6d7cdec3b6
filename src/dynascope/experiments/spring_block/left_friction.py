"""FIG. 5(b): friction to the left alone, which only noise can feel."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock


@dataclass(frozen=True)
class Config:
    """Chains without friction to the right; the source gives the left friction, not the noise levels."""

    friction_left: float = 0.1
    noise: tuple[float, ...] = (0.0, 0.001, 0.002, 0.003, 0.004)
    duration: float = 100.0
    dt: float = 0.01
    trials: int = 200
    seed: int = 5


LAPTOP = Config()
SCALES = {"smoke": replace(LAPTOP, trials=64), "laptop": LAPTOP, "paper": replace(LAPTOP, trials=4000)}
LINEAR = Claim(
    "fig-5b-linear",
    "spring-block FIG. 5(b)",
    "with μ→ = 0 and no noise the load curve is straight, whatever μ←",
)
CONVEX = Claim(
    "fig-5b-convex",
    "spring-block FIG. 5(b)",
    "with μ→ = 0 and any noise the load curve is convex: curvature < 0",
)
ORDER = Claim("fig-5b-order", "spring-block FIG. 5(b)", "more noise makes the load curve more convex at t = 100")


def run(config: Config) -> xr.Dataset:
    """Simulate all noise levels in one call."""
    chains = SpringBlock(friction_right=0.0, friction_left=config.friction_left, **grid(noise=config.noise))
    return chains.simulate(config.duration, config.dt, config.trials, seed=config.seed)


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge the shapes at the time of the figure; noise is shared between levels, so steps are paired."""
    last = record["curvature"].isel(time=-1).transpose("noise", "trial").values
    root = np.sqrt(last.shape[1])
    steps = np.diff(last, axis=0)
    slowest = 4 * np.sin(np.pi / (2 * (record.sizes["block"] + 1))) ** 2  # decay rate of what is not yet straight
    left_over = np.exp(-slowest * float(record["time"][-1]))
    return (
        LINEAR.equals(
            float(np.abs(last[0]).max()), 0.0, left_over, note="tolerance: what the slowest mode still holds"
        ),
        CONVEX.falls_below(last[1:].mean(axis=1), 0.0, three_errors(last[1:].std(axis=1, ddof=1) / root)),
        ORDER.falls_below(
            steps.mean(axis=1), 0.0, three_errors(steps.std(axis=1, ddof=1) / root), note="change from level to level"
        ),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw one load curve per noise level."""
    from dynascope.plots import new_figure, plot_load_curves  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = plot_load_curves(record, axes[0, 0], along="noise")
    ax.set_title("Friction to the left alone (FIG. 5(b))")
    return figure


EXPERIMENT = Experiment(
    title="Friction to the left alone",
    source="spring-block FIG. 5(b)",
    kind="figure",
    claims=(LINEAR, CONVEX, ORDER),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
