"""spring-block (5): The mean path at finite time.

x' = g(k Lx): the force law against single steps, the path against simulated chains.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from scipy.special import ndtr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, equal, three_errors
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import spring_block
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.statistics.errors import over_trials

TIMES = (2.0, 10.0, 30.0, 100.0)
_UNSEEN = 1e-6  # mean displacements so small come from jumps too rare to occur in these trials


@dataclass(frozen=True)
class Config:
    """Chains of Figure 3: a few frictions by a few noise levels; and random forces for the force law."""

    frictions: tuple[float, ...] = (0.0, 0.05, 0.1, 0.15)
    noises: tuple[float, ...] = (0.002, 0.006, 0.01, 0.02)
    friction_left: float = 0.2
    dt: float = 0.01
    trials: int = 1000
    forces: int = 25
    seed: int = 5


def run(config: Config) -> xr.Dataset:
    """Simulate the chains, and many one-step chains that are pulled by random forces."""
    chains = SpringBlock(
        friction_left=config.friction_left, **grid(friction_right=config.frictions, noise=config.noises)
    )
    record = chains.simulate(TIMES[-1], config.dt, config.trials, seed=config.seed, save_points=(0.0, *TIMES))
    times, dims = record["time"].values, ("friction_right", "noise", "time", "block")
    coarse, bound = _euler_and_bound(chains, times, config.dt, config.dt)
    fine, _ = _euler_and_bound(chains, times, config.dt, config.dt / 2)
    record["mean_path"] = (dims, chains.mean_path(times, config.dt))
    # Euler's error at the step of the simulation is twice what halving the step changes; half as much again for safety
    record["path_bound"] = (dims, bound + 3 * np.abs(coarse - fine))
    return record.merge(_one_step(config), combine_attrs="override")


def _one_step(config: Config) -> xr.Dataset:
    """One block, one step: stretched to feel the force m, it moves by dt·σ(m + s ζ)."""
    random = np.random.default_rng(config.seed)
    right, left, strength = random.uniform(0.02, 0.3, (3, config.forces))
    force = random.uniform(-0.5, 0.5, config.forces)
    pulled = SpringBlock(
        blocks=1, friction_right=right, friction_left=left, noise=strength * np.sqrt(config.dt), target=force
    )
    step = pulled.simulate(config.dt, config.dt, 40 * config.trials, seed=config.seed, save_points=2)
    speed, error = over_trials(step["position"].isel(time=-1, block=0, drop=True) / config.dt)
    drift = np.diagonal(pulled.mean_drift(force, config.dt))
    return xr.Dataset({"speed": ("pull", speed), "speed_error": ("pull", error), "mean_drift": ("pull", drift)})


def _euler_and_bound(chains: SpringBlock, times: np.ndarray, window: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean map x ← x + dt g(k Lx), and what the fluctuations can add to it; noise of the given window.

    Written out again in NumPy on purpose: it judges the library's own g and path.

    Averaging g over a force that fluctuates with variance V adds ½ g'' V to the speed; V ≤ k ε², the value of a
    frictionless chain. The error e then obeys e' ≤ k g' Le + ½ |g''| k ε².
    """
    strength = (chains.noise / np.sqrt(window))[..., None]
    right, left = chains.friction_right[..., None], chains.friction_left[..., None]
    stiffness, target = chains.stiffness[..., None], chains.target[..., None]
    variance = stiffness * chains.noise[..., None] ** 2
    x = np.zeros((*chains.grid.shape, chains.blocks))
    error = np.zeros_like(x)
    saved = []
    for step in range(round(times[-1] / dt) + 1):
        if np.any(np.isclose(step * dt, times)):
            saved.append((x, error))
        force = stiffness * _second_difference(x, target)
        a, b = (force - right) / strength, (force + left) / strength
        density_a, density_b = (np.exp(-(v**2) / 2) / np.sqrt(2 * np.pi) for v in (a, b))
        speed = strength * (a * ndtr(a) + density_a + b * ndtr(-b) - density_b)
        bend = np.abs(density_a - density_b) / strength
        damping = ndtr(a) + ndtr(-b)
        error = error + dt * (stiffness * damping * _second_difference(error, 0.0) + bend * variance / 2)
        x = x + dt * speed
    path, bound = (np.stack(values, axis=-2) for values in zip(*saved, strict=True))
    return path, bound


def _second_difference(x: np.ndarray, target: np.ndarray | float) -> np.ndarray:
    edge = np.zeros_like(x[..., :1])
    padded = np.concatenate([edge, x, edge + target], axis=-1)
    return np.asarray(padded[..., 2:] - 2 * x + padded[..., :-2])


def _follows(record: xr.Dataset) -> Judgement:
    """Compare the worst block of each chain and time, in units of its own tolerance."""
    late = record.isel(time=slice(1, None)).transpose("friction_right", "noise", "time", "block", "trial", ...)
    moved = over_trials(late["position"])
    gap = np.abs(moved.mean - late["mean_path"].values)
    tolerance = three_errors(moved.error, moved.runs) + late["path_bound"].values + _UNSEEN
    chains = (0, 1, 3)
    largest, allowed = (", ".join(f"{v:.2g}" for v in each.max(axis=chains)) for each in (gap, tolerance))
    note = (
        f"largest gap / tolerance at each time; gaps up to {largest} where up to {allowed} is allowed "
        "(standard errors, the step dt and the fluctuations)"
    )
    return below((gap / tolerance).max(axis=chains), 1.0, note=note)


def _draw(record: xr.Dataset, ax: Axes, *, level: int) -> None:
    """Simulated load curves over the mean path, at one noise level."""
    chosen = record.isel(noise=level, friction_right=2)
    for colour, time in zip(plots.PALETTE, TIMES, strict=False):
        load = chosen["load"].sel(time=time).mean("trial")
        theory = float(load[0]) - np.concatenate([[0.0], chosen["mean_path"].sel(time=time).values])
        ax.plot(load["layer"], load, "o", color=colour, label=f"time {time:g}")
        ax.plot(load["layer"], theory, color=colour, linewidth=1)
    title = f"noise {float(chosen['noise']):g}, friction {float(chosen['friction_right']):g}"
    ax.set(xlabel="layer", ylabel="load (points: simulated, lines: mean path)", title=title)


EXPERIMENT = Experiment(
    spring_block(equation="5"),
    Config(),
    run,
    claims=(
        Claim(
            "g-law",
            "a block pulled by the force m moves at the mean speed g(m)",
            lambda record: equal(recorded(record, "speed"), record["mean_drift"], note="random forces and frictions"),
            kind="derived",
        ),
        Claim(
            "mean-path", "simulated load curves follow x' = g(k Lx) at t = 2, 10, 30 and 100", _follows, kind="derived"
        ),
    ),
    picture=Panels(partial(_draw, level=0), partial(_draw, level=-2)),
    smoke={"trials": 200},
    paper={"trials": 10_000},
)
