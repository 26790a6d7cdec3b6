"""Equation (6): where a chain without noise comes to rest, with and without blocks that stick."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.registry import Experiment
from dynascope.models.spring_block import SpringBlock


@dataclass(frozen=True)
class Config:
    """Random chains: stiffness in [½, 2], friction up to `friction_max`, target in [½, 2]."""

    chains: int = 400
    blocks: int = 7
    friction_max: float = 0.2
    dt: float = 0.25  # 1/(2k) for the stiffest chain
    duration: float = 1500.0  # the slowest mode decays as exp(−0.076 t): far below the tolerance
    seed: int = 6


SCALES = {"smoke": Config(chains=40), "laptop": Config(), "paper": Config(chains=4000)}
ALL_MOVE = Claim("eq6-all-move", "spring-block (6)", "a noiseless chain whose blocks all move comes to rest at (6)")
STICKING = Claim(
    "eq6-sticking",
    "spring-block (6), extended",
    "with n = max{i : i(i+1) μ→/(2k) < y} moving blocks, the first L − n stay at 0, the others follow (6) with n for L",
)
UNBALANCED = Claim(
    "eq6-curvature",
    "spring-block, below (6)",
    "at rest every moving block has d_{ℓ+1} − d_ℓ = μ→/k > 0: the load curve is concave",
)
_ROUNDING = 1e-10  # float64 after 6000 steps, and what is left of the slowest mode


def run(config: Config) -> xr.Dataset:
    """Simulate random chains until they rest, and note where (6) puts them."""
    random = np.random.default_rng(config.seed)
    stiffness = random.uniform(0.5, 2.0, config.chains)
    friction = random.uniform(0.0, config.friction_max, config.chains) * np.tile([0.1, 1.0], config.chains // 2)
    target = random.uniform(0.5, 2.0, config.chains)
    chains = SpringBlock(blocks=config.blocks, stiffness=stiffness, friction_right=friction, noise=0.0, target=target)
    record = chains.simulate(config.duration, config.dt, 1, save_points=2).isel(time=-1, trial=0)
    record["equilibrium"] = (("grid_0", "block"), chains.equilibrium(), {"long_name": "equilibrium"})
    record["printed"] = (
        ("grid_0", "block"),
        chains.equilibrium(published=True),
        {"long_name": "(6) as printed"},
    )
    return record


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Hold the resting chains against (6)."""
    error = abs(record["position"] - record["equilibrium"]).max("block")
    moves = (record["position"] > 0).all("block")
    misfit = abs(record["position"] - record["printed"]).max("block")
    springs = record["load"].diff("layer").values * -1  # d_1 … d_L
    springs = np.concatenate([springs, record["load"].values[:, -1:]], axis=1)
    bend = np.diff(springs, axis=1) - (record["friction_right"] / record["stiffness"]).values[:, None]
    bend = np.where(record["position"] > 0, bend, 0.0)
    return (
        ALL_MOVE.equals(float(error.where(moves).max()), 0.0, _ROUNDING, note=f"{int(moves.sum())} random chains"),
        STICKING.equals(
            float(error.where(~moves).max()),
            0.0,
            _ROUNDING,
            note=f"{int((~moves).sum())} random chains; (6) as printed is off by up to {float(misfit.max()):.2g} there",
        ),
        UNBALANCED.equals(
            float(np.abs(bend).max()), 0.0, 4 * _ROUNDING, note="largest deviation over all moving blocks"
        ),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw four resting chains over their closed form."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    layers = record["layer"].values
    for colour, index in zip(PALETTE, range(4), strict=False):
        chain = record.isel(grid_0=index)
        target, ratio = float(chain["target"]), float(chain["friction_right"] / chain["stiffness"])
        loads = target - np.concatenate([[0.0], chain["equilibrium"].values])
        ax.plot(
            layers,
            chain["load"],
            "o",
            color=colour,
            label=f"target {target:.2g}, friction/stiffness {ratio:.2g}",
        )
        ax.plot(layers, loads, color=colour, linewidth=1)
    ax.set_xlabel("layer")
    ax.set_ylabel("load at rest (points: simulated, lines: closed form)")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Where a noiseless chain comes to rest",
    source="spring-block (6)",
    kind="equation",
    claims=(ALL_MOVE, STICKING, UNBALANCED),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
