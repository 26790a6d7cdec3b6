"""spring-block (6): Where a noiseless chain comes to rest.

With and without blocks that stick.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import spring_block
from dynascope.models.spring_block import SpringBlock

_ROUNDING = 1e-10  # float64 after 6000 steps, and what is left of the slowest mode


@dataclass(frozen=True)
class Config:
    """Random chains: stiffness in [½, 2], friction up to `friction_max`, target in [½, 2]."""

    chains: int = 400
    blocks: int = 7
    friction_max: float = 0.2
    dt: float = 0.25  # 1/(2k) for the stiffest chain
    duration: float = 1500.0  # the slowest mode decays as exp(−0.076 t): far below the tolerance
    seed: int = 6


def run(config: Config) -> xr.Dataset:
    """Simulate random chains until they rest, and note where (6) puts them."""
    random = np.random.default_rng(config.seed)
    stiffness = random.uniform(0.5, 2.0, config.chains)
    friction = random.uniform(0.0, config.friction_max, config.chains) * np.tile([0.1, 1.0], config.chains // 2)
    target = random.uniform(0.5, 2.0, config.chains)
    chains = SpringBlock(blocks=config.blocks, stiffness=stiffness, friction_right=friction, noise=0.0, target=target)
    record = chains.simulate(config.duration, config.dt, 1, save_points=2).isel(time=-1, trial=0)
    dims = ("grid_0", "block")
    record["equilibrium"] = (dims, chains.equilibrium(), {"long_name": "equilibrium"})
    record["printed"] = (dims, chains.equilibrium(published=True), {"long_name": "(6) as printed"})
    return record


def _resting(record: xr.Dataset, *, all_move: bool) -> Judgement:
    """Distance of the chains whose blocks do, or do not, all move from where (6) puts them."""
    error, misfit = (abs(record["position"] - record[name]).max("block") for name in ("equilibrium", "printed"))
    chosen = (record["position"] > 0).all("block") == all_move
    printed = "" if all_move else f"; (6) as printed is off by up to {float(misfit.max()):.2g} there"
    note = f"{int(chosen.sum())} random chains{printed}"
    return equal(float(error.where(chosen).max()), 0.0, _ROUNDING, note=note)


def _unbalanced(record: xr.Dataset) -> Judgement:
    springs = record["load"].diff("layer").values * -1  # d_1 … d_L
    springs = np.concatenate([springs, record["load"].values[:, -1:]], axis=1)
    bend = np.diff(springs, axis=1) - (record["friction_right"] / record["stiffness"]).values[:, None]
    bend = np.where(record["position"] > 0, bend, 0.0)
    return equal(float(np.abs(bend).max()), 0.0, 4 * _ROUNDING, note="largest deviation over all moving blocks")


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """Four resting chains over their closed form."""
    for colour, index in zip(plots.PALETTE, range(4), strict=False):
        chain = record.isel(grid_0=index)
        target, ratio = float(chain["target"]), float(chain["friction_right"] / chain["stiffness"])
        loads = target - np.concatenate([[0.0], chain["equilibrium"].values])
        name = f"target {target:.2g}, friction/stiffness {ratio:.2g}"
        ax.plot(record["layer"], chain["load"], "o", color=colour, label=name)
        ax.plot(record["layer"], loads, color=colour, linewidth=1)
    ax.set(xlabel="layer", ylabel="load at rest (points: simulated, lines: closed form)")


EXPERIMENT = Experiment(
    spring_block(equation="6"),
    Config(),
    run,
    claims=(
        Claim(
            "eq6-all-move",
            "a noiseless chain whose blocks all move comes to rest at (6)",
            partial(_resting, all_move=True),
        ),
        Claim(
            "eq6-sticking",
            "with n = max{i : i(i+1) μ→/(2k) < y} moving blocks, the first L − n stay at 0, "
            "the others follow (6) with n for L",
            partial(_resting, all_move=False),
            kind="derived",
        ),
        Claim(
            "eq6-curvature",
            "at rest every moving block has d_{ℓ+1} − d_ℓ = μ→/k > 0: the load curve is concave",
            _unbalanced,
            spring_block(place="below (6)"),
        ),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    smoke={"chains": 40},
    paper={"chains": 4000},
)
