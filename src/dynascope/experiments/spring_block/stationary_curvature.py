"""spring-block (7), Section S6: The curvature that noise settles on.

For three dynamics and for bounded noise.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import spring_block
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.statistics.errors import Estimate, over_trials, side_by_side

BLOCKS, TARGET, FRICTION = 7, 4.0, (0.1, 0.2)  # a target far enough for all blocks to move without noise
# noise levels at which each chain settles within the run; overdamped: s/μ̄ = 0.7 … 5
LEVELS = {"overdamped": (0.023, 0.034, 0.067, 0.17), "inertial": (0.1, 0.2, 0.5), "langevin": (0.1, 0.2, 0.5)}
BOUND, REACHES = 2.0, (0.02, 0.06, 0.1, 0.25)  # |ζ| ≤ 2, and z·ε/√dt; the last reaches past the mean friction
EDGE = 0.01  # how far from the closed form bounded chains are started
_LIMIT = (FRICTION[0] - FRICTION[1]) / 2  # (7) with k = 1


@dataclass(frozen=True)
class Config:
    """Chains started from rest and from a strongly convex curve, averaged over the second half of the run."""

    trials: int = 64
    duration: float = 2000.0
    dt: float = 0.05
    save_points: int = 201
    seed: int = 7


def _chain(**levels: tuple[float, ...]) -> SpringBlock:
    right, left = FRICTION
    return SpringBlock(blocks=BLOCKS, friction_right=right, friction_left=left, target=TARGET, **grid(**levels))


def _settled(
    chain: SpringBlock,
    config: Config,
    start: np.ndarray | None,
    *,
    dynamics: str = "overdamped",
    truncate: float | None = None,
) -> xr.DataArray:
    """Curvature of each trial, averaged over the second half of the run: (noise, trial)."""
    run = chain.simulate(
        config.duration,
        config.dt,
        config.trials,
        seed=config.seed,
        save_points=config.save_points,
        start=start,
        dynamics=dynamics,
        truncate=truncate,
    )
    return run["curvature"].isel(time=slice(config.save_points // 2, None)).mean("time")


def _bent(curvature: np.ndarray | float) -> np.ndarray:
    """Positions of a chain of one curvature throughout: (..., block)."""
    layers = np.arange(1, BLOCKS + 1)
    return TARGET * layers / (BLOCKS + 1) - np.multiply.outer(curvature, layers * (BLOCKS + 1 - layers) / 2)


def run(config: Config) -> xr.Dataset:
    """Run every dynamics from both sides, then bounded noise."""
    results = {}
    for dynamics, levels in LEVELS.items():
        sides = [_settled(_chain(noise=levels), config, start, dynamics=dynamics) for start in (None, _bent(-0.15))]
        both = xr.concat(sides, xr.DataArray(["rest", "convex"], dims="start", name="start"))
        results[dynamics] = both.rename(noise=f"noise_{dynamics}")
    bounded = _chain(noise=tuple(reach / BOUND * config.dt**0.5 for reach in REACHES))
    resting = bounded.stationary_curvature(config.dt, BOUND)
    results["bounded"] = _settled(bounded, config, None, truncate=BOUND).rename(noise="noise_bounded")
    times = np.linspace(0.0, config.duration, config.save_points)[config.save_points // 2 :]
    path = bounded.mean_path(times, config.dt, truncate=BOUND)
    late = (TARGET - path[..., -1] - path[..., 0]).mean(axis=-1) / BLOCKS  # averaged like the simulation
    for name, offset in (("below", -EDGE), ("above", EDGE)):
        start = resting + offset
        moved = _settled(bounded, config, _bent(start), truncate=BOUND) - xr.DataArray(start, dims="noise")
        results[name] = moved.rename(noise="noise_bounded")
    return xr.Dataset(results).assign(bounded_path=("noise_bounded", late))


def _settles(record: xr.Dataset, *, dynamics: str) -> Judgement:
    """Compare with (7) from both sides; the rival is the noiseless curvature μ→/k of (6)."""
    levels = LEVELS[dynamics]
    note = f"ε = {levels}, from rest and from a convex start"
    expected = _chain(noise=levels).stationary_curvature(settings(record).dt)
    return equal(over_trials(record[dynamics]), expected, rival=FRICTION[0], note=note)


def _follows(record: xr.Dataset) -> Judgement:
    # springs fluctuate with variance up to k ε², which shifts the balance of forces by ½ k ε² g''/g', about k s dt/2
    spread = np.array(REACHES) / BOUND * settings(record).dt / 2
    note = f"z ε/√dt = {REACHES}"
    return equal(over_trials(record["bounded"]), record["bounded_path"], spread, rival=FRICTION[0], note=note)


def _holds(record: xr.Dataset) -> Judgement:
    inner = np.array(REACHES) < sum(FRICTION) / 2
    return equal(over_trials(record["below"]).mean[inner], 0.0, 1e-12, note=f"started {EDGE} below")


def _inside(record: xr.Dataset) -> Judgement:
    """Noise that is strong enough ends on the lower edge itself, so that no distance from it can be asked for."""
    settled = side_by_side(*(over_trials(record[name]) for name in (*LEVELS, "bounded")))
    outside = Estimate(settled.mean - np.clip(settled.mean, _LIMIT, FRICTION[0]), settled.error, settled.runs)
    note = "distance from it; 0 while all blocks move: one that never moves keeps Δd = 0, outside when μ→ > μ←"
    return equal(outside, 0.0, rival=FRICTION[0] - _LIMIT, note=f"{note}; rival: the width of the interval")


def _draw_settled(record: xr.Dataset, ax: Axes) -> None:
    """Settled curvature over noise, beside (7)."""
    for colour, dynamics in zip(plots.PALETTE, LEVELS, strict=False):
        mean = record[dynamics].mean(["trial", "start"])
        bars = 3 * record[dynamics].std("trial").max("start") / np.sqrt(record.sizes["trial"])
        ax.errorbar(record[f"noise_{dynamics}"], mean, bars, color=colour, fmt="o", label=dynamics)
    ax.axhline(_LIMIT, color="black", linewidth=1, label="(7)")
    ticks = (0.02, 0.05, 0.1, 0.2, 0.5)
    ax.set(xscale="log", xlabel="noise ε (force·√time)", ylabel="stationary curvature (length)")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def _draw_bounded(record: xr.Dataset, ax: Axes) -> None:
    ax.plot(REACHES, record["bounded"].mean("trial"), "o", color=plots.PALETTE[0], label="simulated")
    reach = np.linspace(0, max(REACHES), 200)
    ax.plot(reach, np.maximum(_LIMIT, FRICTION[0] - reach), color="black", linewidth=1, label="closed form")
    ax.set(xlabel="largest noise force z ε/√dt (force)", ylabel="stationary curvature (length)")


_SUPPLEMENT = spring_block(section="S6")
EXPERIMENT = Experiment(
    spring_block(equation="7", section="S6"),
    Config(),
    run,
    claims=(
        *(
            Claim(
                f"eq7-{dynamics}",
                f"the chain {numbers} settles at Δd = (μ→ − μ←)/(2k), at every noise level",
                partial(_settles, dynamics=dynamics),
                spring_block(equation=equations),
                kind="derived" if dynamics == "langevin" else "printed",  # there the source speaks of decaying noise
            )
            for dynamics, numbers, equations in (
                ("overdamped", "(5)", "7"),
                ("inertial", "(4), (S2), (S3)", "7, 4, S2, S3"),
                ("langevin", "(S4), (S5) at constant noise", "7, S4, S5"),
            )
        ),
        Claim(
            "eq7-bounded",
            "bounded noise, |ζ| ≤ z: the chain from rest follows the mean path of that noise",
            _follows,
            _SUPPLEMENT,
            kind="derived",
        ),
        Claim(
            "eq7-bounded-holds",
            "just below Δd = (μ→ − z ε/√dt)/k, noise with |ζ| ≤ z does not move the chain at all",
            _holds,
            _SUPPLEMENT,
            kind="derived",
        ),
        Claim(
            "eq7-bounded-falls",
            "just above Δd = max((μ→ − μ←)/2, μ→ − z ε/√dt)/k, noise with |ζ| ≤ z lowers the curvature",
            lambda record: below(over_trials(record["above"]), 0.0, note=f"started {EDGE} above"),
            _SUPPLEMENT,
            kind="derived",
        ),
        Claim(
            "eq7-interval",
            "Δd* lies between (μ→ − μ←)/(2k) and μ→/k, whatever the noise",
            _inside,
            spring_block(place="below (7)"),
        ),
    ),
    picture=Panels(_draw_settled, _draw_bounded),
    smoke={"trials": 16, "duration": 1000.0},
    paper={"trials": 400, "duration": 4000.0},
    model="SpringBlock",
)
