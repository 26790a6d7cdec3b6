"""Load curves over friction and noise, for the three dynamics: what the phase diagrams of the chain have in common."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, three_errors
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import spring_block
from dynascope.measure.separation import straightness
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.statistics.errors import over_trials


@dataclass(frozen=True)
class Config:
    """A grid of frictions (rows) by noise levels (columns). The source gives all but the grid's values."""

    friction_max: float
    noise_max: float
    friction_left: float
    stiffness: float = 1.0
    dynamics: str = "overdamped"
    damping: float = 1.0
    noise_decay: float = 0.0
    duration: float = 100.0
    dt: float = 0.01
    rows: int = 6
    columns: int = 8
    trials: int = 50
    seed: int = 3


def run(config: Config) -> xr.Dataset:
    """Simulate the whole grid in one call; the last save is the time of the figure."""
    axes = grid(
        friction_right=np.linspace(0.0, config.friction_max, config.rows),
        noise=np.linspace(0.0, config.noise_max, config.columns),
    )
    chains = SpringBlock(stiffness=config.stiffness, friction_left=config.friction_left, **axes)
    dynamics = {name: getattr(config, name) for name in ("dynamics", "damping", "noise_decay")}
    return chains.simulate(config.duration, config.dt, config.trials, seed=config.seed, save_points=11, **dynamics)


def _bend(record: xr.Dataset) -> np.ndarray:
    """Curvature at the time of the figure, (friction_right, noise, trial); neighbouring cells share their noise."""
    return record["curvature"].isel(time=-1).transpose("friction_right", "noise", "trial").values


def _concave(record: xr.Dataset) -> Judgement:
    rows = (record["friction_right"] > 0).values
    return above(over_trials(_bend(record)[rows, 0]), 0.0, note="rows with friction, at zero noise")


def _convex(record: xr.Dataset) -> Judgement:
    rows = record["friction_right"].values < settings(record).friction_left
    return below(over_trials(_bend(record)[rows, -1]), 0.0, note="all rows, at the strongest noise")


def _grows(record: xr.Dataset) -> Judgement:
    step = over_trials(np.diff(_bend(record), axis=0))
    slack = three_errors(step.error, step.runs).max(axis=0)
    return above(step.mean.min(axis=0), 0.0, slack, note="smallest step at each noise level")


def _falls(record: xr.Dataset) -> Judgement:
    step = over_trials(np.diff(_bend(record), axis=1))
    slack = -three_errors(step.error, step.runs).max(axis=1) - 1e-12
    return below(step.mean.max(axis=1), 0.0, slack, note="largest step in each row")


def _ranked(record: xr.Dataset) -> Judgement:
    last = record.isel(time=-1)
    cost = last["energy"].mean("trial").transpose("friction_right", "noise").values
    load = last["load"].mean("trial").transpose("friction_right", "noise", "layer").values
    load = np.concatenate([load, np.zeros_like(load[..., :1])], axis=-1)  # the target, where the last spring ends
    order = spearmanr(1 - straightness(load), cost, axis=None).statistic
    return above(order, 0.9, note="rank correlation of 1 − R² and mean energy over all cells")


def _draw(record: xr.Dataset, ax: Axes) -> None:
    plots.plot_phase_diagram(record, ax)
    config = settings(record)
    ax.set_title(f"Load curves of the {config.dynamics} chain at time {config.duration:g}")


def phase_diagram(figure: str, config: Config) -> Experiment:
    """A phase diagram of the chain, judged at the time at which the figure is taken."""
    prefix = f"fig-{figure.lower()}"
    return Experiment(
        spring_block(figure=figure),
        config,
        run,
        claims=(
            Claim(
                f"{prefix}-concave",
                "without noise and with friction the load curve is concave: curvature > 0",
                _concave,
            ),
            Claim(
                f"{prefix}-convex",
                "at the strongest noise, every row with μ→ < μ← has a convex load curve: curvature < 0",
                _convex,
            ),
            Claim(f"{prefix}-friction", "at every noise level, curvature grows with friction from row to row", _grows),
            Claim(f"{prefix}-noise", "in every row, no step to stronger noise raises the curvature", _falls),
            Claim(
                f"{prefix}-energy",
                "the straighter the load curve, the lower the energy: cells are ranked alike by both",
                _ranked,
            ),
        ),
        picture=Panels(_draw, width=9.0, height=6.0),
        smoke={"rows": 4, "columns": 5, "trials": 16},
        paper={"rows": 11, "columns": 15, "trials": 200},
        adapted="values of the grid, which the source leaves out",
    )
