"""spring-block Figure 4: Three characteristic dynamics.

The chain's side, with noise shared by all blocks.
"""

from dataclasses import dataclass
from functools import partial

import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import spring_block
from dynascope.models.spring_block import SpringBlock
from dynascope.statistics.errors import Estimate, over_trials

PANELS = ("b", "c", "d")


@dataclass(frozen=True)
class Config:
    """The parameter sets of the supplement, S3."""

    friction_right: tuple[float, ...] = (0.11, 0.04, 0.04)
    friction_left: tuple[float, ...] = (0.03, 0.04, 0.12)
    noise: tuple[float, ...] = (0.006, 0.01, 0.011)
    duration: float = 100.0
    dt: float = 0.01
    trials: int = 200
    seed: int = 4


def run(config: Config) -> xr.Dataset:
    """Simulate the three chains with shared noise, and again with independent noise for comparison."""
    right, left, noise = (
        xr.DataArray(list(values), dims="panel", coords={"panel": list(PANELS)})
        for values in (config.friction_right, config.friction_left, config.noise)
    )
    chains = SpringBlock(friction_right=right, friction_left=left, noise=noise)
    shared = chains.simulate(config.duration, config.dt, config.trials, seed=config.seed, shared_noise=True)
    alone = chains.simulate(config.duration, config.dt, config.trials, seed=config.seed, save_points=2)
    shared["independent_load"] = alone["load"].isel(time=-1, drop=True)
    return shared


def _bend(record: xr.Dataset, panel: int) -> Estimate:
    return over_trials(record["curvature"].isel(time=-1, panel=panel))


def _straight(record: xr.Dataset) -> Judgement:
    noiseless = float(record["friction_right"][1])  # (6) with k = 1
    return equal(_bend(record, 1), 0.0, rival=noiseless, note="rival: (6), without noise")


def _alike(record: xr.Dataset) -> Judgement:
    shared, alone = record["load"].isel(time=-1).mean("trial"), record["independent_load"].mean("trial")
    spring = float(record["load"].isel(time=0, layer=0).max()) / record.sizes["layer"]
    note = "largest difference of mean loads per panel, in spring lengths; alike: below a tenth"
    return below(abs(shared - alone).max("layer") / spring, 0.1, note=note)


def _draw_ends(record: xr.Dataset, ax: Axes) -> None:
    for index, panel in enumerate(PANELS):
        plots.plot_load_curves(record.isel(panel=index), ax, label=f"({panel})", colours=plots.PALETTE[index:])
    ax.set_title(f"(a) load curves at time {float(record['time'][-1]):g}")


def _draw_path(record: xr.Dataset, ax: Axes, *, panel: str) -> None:
    """One trial's trajectories."""
    chosen = record.sel(panel=panel)
    plots.plot_trajectories(chosen, ax)
    right, left, noise = (float(chosen[name]) for name in ("friction_right", "friction_left", "noise"))
    ax.set_title(f"({panel}) μ→ {right:g}, μ← {left:g}, ε {noise:g}", pad=22)


EXPERIMENT = Experiment(
    spring_block(figure="4"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-4b-concave",
            "strong friction, weak noise: concave load curve at t = 100",
            lambda record: above(_bend(record, 0), 0.0),
            spring_block(figure="4(b)"),
        ),
        Claim(
            "fig-4c-linear",
            "balanced friction and noise: straight load curve at t = 100, curvature 0",
            _straight,
            spring_block(figure="4(c)"),
        ),
        Claim(
            "fig-4d-convex",
            "weak friction, strong noise: convex load curve at t = 100",
            lambda record: below(_bend(record, 2), 0.0),
            spring_block(figure="4(d)"),
        ),
        Claim(
            "fig-4-shared",
            "noise shared by all blocks ends in load curves like those of independent noise",
            _alike,
            spring_block(section="S3"),
        ),
    ),
    picture=Panels(_draw_ends, *(partial(_draw_path, panel=panel) for panel in PANELS), columns=2, width=4.6),
    smoke={"trials": 64},
    paper={"trials": 4000},
)
