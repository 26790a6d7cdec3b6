"""spring-block Figure 5(b): Friction to the left alone.

Only noise can feel it.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, equal
from dynascope.experiments.experiment import Experiment, Panels
from dynascope.experiments.sources import spring_block
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.statistics.errors import over_trials


@dataclass(frozen=True)
class Config:
    """Chains without friction to the right; the source gives the left friction, not the noise levels."""

    friction_left: float = 0.1
    noise: tuple[float, ...] = (0.0, 0.001, 0.002, 0.003, 0.004)
    duration: float = 100.0
    dt: float = 0.01
    trials: int = 200
    seed: int = 5


def run(config: Config) -> xr.Dataset:
    """Simulate all noise levels in one call."""
    chains = SpringBlock(friction_right=0.0, friction_left=config.friction_left, **grid(noise=config.noise))
    return chains.simulate(config.duration, config.dt, config.trials, seed=config.seed)


def _bend(record: xr.Dataset) -> np.ndarray:
    """Curvature at the time of the figure, (noise, trial)."""
    return record["curvature"].isel(time=-1).transpose("noise", "trial").values


def _straight(record: xr.Dataset) -> Judgement:
    slowest = 4 * np.sin(np.pi / (2 * (record.sizes["block"] + 1))) ** 2  # decay rate of what is not yet straight
    left_over = np.exp(-slowest * float(record["time"][-1]))
    note = "tolerance: what the slowest mode still holds"
    return equal(float(np.abs(_bend(record)[0]).max()), 0.0, left_over, note=note)


EXPERIMENT = Experiment(
    spring_block(figure="5(b)"),
    Config(),
    run,
    claims=(
        Claim("fig-5b-linear", "with μ→ = 0 and no noise the load curve is straight, whatever μ←", _straight),
        Claim(
            "fig-5b-convex",
            "with μ→ = 0 and any noise the load curve is convex: curvature < 0",
            lambda record: below(over_trials(_bend(record)[1:]), 0.0),
        ),
        Claim(  # noise is shared between levels, so steps are paired
            "fig-5b-order",
            "more noise makes the load curve more convex at t = 100",
            lambda record: below(over_trials(np.diff(_bend(record), axis=0)), 0.0, note="change from level to level"),
        ),
    ),
    picture=Panels(lambda record, ax: plots.plot_load_curves(record, ax, along="noise"), width=5.5, height=4.0),
    smoke={"trials": 64},
    paper={"trials": 4000},
    adapted="noise levels, which the source leaves out",
)
