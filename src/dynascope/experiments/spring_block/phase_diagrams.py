"""Load curves over friction and noise, for the three dynamics: what the phase diagrams of the chain have in common."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, Kind, Scale, above, below, three_errors
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import spring_block
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.statistics.errors import over_trials, side_by_side

BLOCKS = 7


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
    summed_noise: bool = False  # every block feels the sum of one process per block, √L times as strong as its own
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
        noise=np.linspace(0.0, config.noise_max, config.columns) * (np.sqrt(BLOCKS) if config.summed_noise else 1.0),
    )
    chains = SpringBlock(BLOCKS, config.stiffness, friction_left=config.friction_left, **axes)
    moved = config.dynamics != "overdamped"  # which has no damping
    dynamics = {name: getattr(config, name) for name in ("dynamics", *(["damping"] if moved else []), "noise_decay")}
    dynamics["shared_noise"] = config.summed_noise
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
    """No step may rise by more than its own errors, nor by as much as a step of its row falls on average."""
    bend = _bend(record)
    step, fall = over_trials(np.diff(bend, axis=1)), over_trials(bend[:, -1] - bend[:, 0])
    both = side_by_side(step, fall)
    steps, whole = np.split(three_errors(both.error, both.runs), [step.mean.size])
    usual = np.repeat(-fall.mean / step.mean.shape[1], step.mean.shape[1])
    slack = np.concatenate([-np.minimum(steps, usual) - 1e-12, whole])
    return below(both.mean, 0.0, slack, note="every step in each row, then each row's last cell less its first")


def _fluctuation(record: xr.Dataset) -> np.ndarray:
    """Energy of the springs about their means over trials, (friction_right, noise, trial)."""
    load = record["load"].isel(time=-1).transpose("friction_right", "noise", "trial", "layer").values
    springs = np.diff(load, append=0.0)
    spread = springs - springs.mean(axis=2, keepdims=True)
    return np.asarray(settings(record).stiffness / 2 * np.sum(spread**2, axis=-1))


def _valley(record: xr.Dataset) -> Judgement:
    """A valley all the way, and not by bending alone.

    With its ends held a chain has the least energy where it is straight, if it does not fluctuate. Noise makes it
    fluctuate: that must cost energy, more with every step, and yet less than what straightening saves. A curve is
    straight somewhere between two cells, so that the steps to and from the straightest cell are left out.
    """
    friction = record["friction_right"].values
    rows = (friction > 0) & (friction < settings(record).friction_left)
    cost = record["energy"].isel(time=-1).transpose("friction_right", "noise", "trial").values[rows]
    straightest = np.abs(_bend(record).mean(axis=-1))[rows].argmin(axis=1)[:, None]
    ends = cost[:, [0, -1]] - np.take_along_axis(cost, straightest[..., None], axis=1)
    step, place = np.diff(cost, axis=1), np.arange(cost.shape[1] - 1)
    walls = np.concatenate([-step[place < straightest - 1], step[place > straightest]])
    spread = np.diff(_fluctuation(record)[rows], axis=1)
    note = (
        "energy of the first and the last cell of each row, less that of its straightest; then every step up a side "
        "of the valley; then what every step of noise adds to the energy of fluctuations"
    )
    return above(side_by_side(*map(over_trials, (ends, walls, spread))), 0.0, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    plots.plot_phase_diagram(record, ax)
    config = settings(record)
    ax.set_title(f"Load curves of the {config.dynamics} chain at time {config.duration:g}")


_JUDGES = {
    "concave": ("without noise and with friction the load curve is concave: curvature > 0", _concave),
    "convex": ("at the strongest noise, every row with μ→ < μ← has a convex load curve: curvature < 0", _convex),
    "friction": ("at every noise level, curvature grows with friction from row to row", _grows),
    "noise": ("in every row, no step to stronger noise raises the curvature", _falls),
    "energy": (
        "in every row with 0 < μ→ < μ← the energy is lower at the noise with the straightest load curve than without "
        "noise and at the strongest: the shading has a valley, whose sides rise all the way, though fluctuations cost "
        "more with every step of noise",
        _valley,
    ),
}


def phase_diagram(figure: str, config: Config, *, variant: str = "") -> Experiment:
    """A phase diagram of the chain, judged at the time at which the figure is taken; a variant's claims are own."""
    prefix = f"fig-{figure.lower()}{variant}"
    kind: Kind = "own" if variant else "printed"
    settles: dict[str, Scale] = {}
    if variant:  # shared noise averages out less, and least where single steps of the energy decide
        settles = {id: "paper" if id == "energy" else "laptop" for id in _JUDGES}
    return Experiment(
        spring_block(figure=figure),
        config,
        run,
        claims=tuple(
            Claim(f"{prefix}-{id}", text, judge, kind=kind, settles_at=settles.get(id, "smoke"))
            for id, (text, judge) in _JUDGES.items()
        ),
        picture=Panels(_draw, width=9.0, height=6.0),
        smoke={"rows": 4, "columns": 5, "trials": 32},
        paper={"rows": 11, "columns": 15, "trials": 200},
        adapted="values of the grid, which the source leaves out",
    )
