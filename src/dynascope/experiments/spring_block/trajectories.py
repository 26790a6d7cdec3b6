"""FIG. 4, the chain's side: three characteristic dynamics, with noise shared by all blocks."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.registry import Experiment
from dynascope.models.spring_block import SpringBlock

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


LAPTOP = Config()
SCALES = {"smoke": replace(LAPTOP, trials=64), "laptop": LAPTOP, "paper": replace(LAPTOP, trials=4000)}
CONCAVE = Claim(
    "fig-4b-concave", "spring-block FIG. 4(b)", "strong friction, weak noise: concave load curve at t = 100"
)
LINEAR = Claim(
    "fig-4c-linear",
    "spring-block FIG. 4(c)",
    "balanced friction and noise: straight load curve at t = 100, curvature 0",
)
CONVEX = Claim("fig-4d-convex", "spring-block FIG. 4(d)", "weak friction, strong noise: convex load curve at t = 100")
SHARED = Claim(
    "fig-4-shared",
    "spring-block S3",
    "noise shared by all blocks ends in load curves like those of independent noise",
)


def run(config: Config) -> xr.Dataset:
    """Simulate the three chains with shared noise, and again with independent noise for comparison."""
    named: dict[str, Any] = {
        name: xr.DataArray(list(getattr(config, name)), dims="panel", coords={"panel": list(PANELS)})
        for name in ("friction_right", "friction_left", "noise")
    }
    chains = SpringBlock(**named)
    shared = chains.simulate(config.duration, config.dt, config.trials, seed=config.seed, shared_noise=True)
    alone = chains.simulate(config.duration, config.dt, config.trials, seed=config.seed, save_points=2)
    shared["independent_load"] = alone["load"].isel(time=-1, drop=True)
    return shared


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge the three shapes at the end, and shared against independent noise."""
    last = record["curvature"].isel(time=-1)
    mean, error = last.mean("trial").values, (last.std("trial", ddof=1) / np.sqrt(last.sizes["trial"])).values
    difference = abs(record["load"].isel(time=-1).mean("trial") - record["independent_load"].mean("trial")).max("layer")
    spring = float(record["load"].isel(time=0, layer=0).max()) / record.sizes["layer"]
    noiseless = float(record["friction_right"].values[1])  # (6) with k = 1
    return (
        CONCAVE.exceeds(mean[0], 0.0, 3 * error[0]),
        LINEAR.equals(
            mean[1], 0.0, 3 * error[1], rival=noiseless, standard_error=error[1], note="rival: (6), without noise"
        ),
        CONVEX.falls_below(mean[2], 0.0, 3 * error[2]),
        SHARED.falls_below(
            difference.values / spring,
            0.1,
            0.0,
            note="largest difference of mean loads per panel, in spring lengths; alike: below a tenth",
        ),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw the load curves at the end and one trial's trajectories for each parameter set."""
    from dynascope.plots import PALETTE, new_figure, plot_load_curves, plot_trajectories  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2, rows=2, width=4.6)
    overview, *panels = axes.ravel()
    for index, (panel, ax) in enumerate(zip(PANELS, panels, strict=True)):
        chosen = record.isel(panel=index)
        plot_load_curves(chosen, overview, label=f"({panel})", colours=PALETTE[index:])
        plot_trajectories(chosen, ax)
        right, left, noise = (float(chosen[name]) for name in ("friction_right", "friction_left", "noise"))
        ax.set_title(f"({panel}) μ→ {right:g}, μ← {left:g}, ε {noise:g}", pad=22)
    overview.set_title(f"(a) load curves at time {float(record['time'][-1]):g}")
    return figure


EXPERIMENT = Experiment(
    title="Three characteristic dynamics",
    source="spring-block FIG. 4",
    kind="figure",
    claims=(CONCAVE, LINEAR, CONVEX, SHARED),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
