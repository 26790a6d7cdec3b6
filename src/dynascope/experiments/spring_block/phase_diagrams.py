"""FIG. 3, S17 and S18: load curves over friction and noise, for the three dynamics."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.records import attribute


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
    chains = SpringBlock(
        stiffness=config.stiffness,
        friction_left=config.friction_left,
        **grid(
            friction_right=np.linspace(0.0, config.friction_max, config.rows),
            noise=np.linspace(0.0, config.noise_max, config.columns),
        ),
    )
    return chains.simulate(
        config.duration, config.dt, config.trials, seed=config.seed, save_points=11,
        dynamics=config.dynamics, damping=config.damping, noise_decay=config.noise_decay,
    )  # fmt: skip


def claims_of(figure: str) -> tuple[Claim, ...]:
    """State what a phase diagram of the chain claims, at the time at which the figure is taken.

    >>> claims_of("FIG. 3")[0].id
    'fig-3-concave'
    """
    prefix = figure.lower().replace(". ", "-")
    source = f"spring-block {figure}"
    return (
        Claim(
            f"{prefix}-concave",
            source,
            "without noise and with friction the load curve is concave: curvature > 0",
        ),
        Claim(
            f"{prefix}-convex",
            source,
            "at the strongest noise, every row with μ→ < μ← has a convex load curve: curvature < 0",
        ),
        Claim(
            f"{prefix}-friction",
            source,
            "at every noise level, curvature grows with friction from row to row",
        ),
        Claim(f"{prefix}-noise", source, "in every row, no step to stronger noise raises the curvature"),
        Claim(
            f"{prefix}-energy",
            source,
            "the straighter the load curve, the lower the energy: cells are ranked alike by both",
        ),
    )


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge the orderings. Neighbouring cells share their noise, so differences are taken trial by trial."""
    last = record.isel(time=-1)
    curvature = last["curvature"].transpose("friction_right", "noise", "trial").values
    concave, convex, friction, noise, energy = claims_of(_figure_of(record))
    left = np.max(attribute(record, "parameters")["friction_left"])
    rows = (last["friction_right"] > 0).values
    still_mean, still_error = _mean_error(curvature[rows, 0])
    loud_mean, loud_error = _mean_error(curvature[last["friction_right"].values < left, -1])
    up_mean, up_error = _mean_error(np.diff(curvature, axis=0))
    step_mean, step_error = _mean_error(np.diff(curvature, axis=1))
    cost = last["energy"].mean("trial").transpose("friction_right", "noise").values
    straightness = _straightness(last["load"].mean("trial").transpose("friction_right", "noise", "layer").values)
    order = spearmanr(1 - straightness, cost, axis=None).statistic
    return (
        concave.exceeds(still_mean, 0.0, three_errors(still_error), note="rows with friction, at zero noise"),
        convex.falls_below(loud_mean, 0.0, three_errors(loud_error), note="all rows, at the strongest noise"),
        friction.exceeds(
            up_mean.min(axis=0), 0.0, three_errors(up_error).max(axis=0), note="smallest step at each noise level"
        ),
        noise.falls_below(
            step_mean.max(axis=1), 0.0, -three_errors(step_error).max(axis=1) - 1e-12, note="largest step in each row"
        ),
        energy.exceeds(order, 0.9, 0.0, note="rank correlation of 1 − R² and mean energy over all cells"),
    )


def _mean_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over trials, the last axis."""
    return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])


def _straightness(load: np.ndarray) -> np.ndarray:
    """R² of a straight line through each load curve, the measure of the source's FIG. S5."""
    load = np.concatenate(
        [load, np.zeros_like(load[..., :1])], axis=-1
    )  # the target itself, where the last spring ends
    layers = np.arange(load.shape[-1]) - (load.shape[-1] - 1) / 2
    centred = load - load.mean(axis=-1, keepdims=True)
    return np.asarray((centred @ layers) ** 2 / (layers @ layers) / (centred**2).sum(axis=-1))


def _figure_of(record: xr.Dataset) -> str:
    return {"overdamped": "FIG. 3", "inertial": "FIG. S17", "langevin": "FIG. S18"}[
        attribute(record, "options")["dynamics"]
    ]


def plot(record: xr.Dataset) -> Any:
    """Draw the load curves over the shaded grid."""
    from dynascope.plots import new_figure, plot_phase_diagram  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=9.0, height=6.0)
    ax = plot_phase_diagram(record, axes[0, 0])
    options = attribute(record, "options")
    ax.set_title(
        f"Load curves of the {options['dynamics']} chain at time {options['duration']:g} ({_figure_of(record)})"
    )
    return figure


def _experiment(title: str, config: Config, figure: str) -> Experiment:
    coarse = partial(replace, config, rows=4, columns=5)
    return Experiment(
        title=title,
        source=f"spring-block {figure}",
        kind="figure",
        claims=claims_of(figure),
        scales={
            "smoke": coarse(trials=16),
            "laptop": config,
            "paper": replace(config, rows=11, columns=15, trials=200),
        },
        run=run,
        check=check,
        plot=plot,
    )


OVERDAMPED = _experiment(
    "Phase diagram of the chain", Config(friction_max=0.15, noise_max=0.014, friction_left=0.2), "FIG. 3"
)
INERTIAL = _experiment(
    "Phase diagram of the chain with inertia",
    Config(friction_max=0.1, noise_max=0.07, friction_left=0.12, dynamics="inertial"),
    "FIG. S17",
)
LANGEVIN = _experiment(
    "Phase diagram of the chain with noise on the velocity",
    Config(
        friction_max=0.012, noise_max=0.028, friction_left=0.016, stiffness=0.1,
        dynamics="langevin", noise_decay=0.002, duration=300.0,
    ),
    "FIG. S18",
)  # fmt: skip
