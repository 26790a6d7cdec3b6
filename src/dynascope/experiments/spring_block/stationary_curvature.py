"""Equation (7): the curvature that noise settles on, for three dynamics and for bounded noise."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.records import attribute, with_provenance

BLOCKS, TARGET, FRICTION = 7, 4.0, (0.1, 0.2)  # a target far enough for all blocks to move without noise
# noise levels at which each chain settles within the run; overdamped: s/μ̄ = 0.7 … 5
LEVELS = {"overdamped": (0.023, 0.034, 0.067, 0.17), "inertial": (0.1, 0.2, 0.5), "langevin": (0.1, 0.2, 0.5)}
BOUND, REACHES = 2.0, (0.02, 0.06, 0.1, 0.25)  # |ζ| ≤ 2, and z·ε/√dt; the last reaches past the mean friction
EDGE = 0.01  # how far beside the closed form bounded chains are started


@dataclass(frozen=True)
class Config:
    """Chains started from rest and from a strongly convex curve, averaged over the second half of the run."""

    trials: int = 64
    duration: float = 2000.0
    dt: float = 0.05
    save_points: int = 201
    seed: int = 7


SCALES = {
    "smoke": Config(trials=16, duration=1000.0),
    "laptop": Config(),
    "paper": Config(trials=400, duration=4000.0),
}
NAMES = {"overdamped": "(5)", "inertial": "(4), (S2), (S3)", "langevin": "(S4), (S5) at constant noise"}
SETTLED = {
    dynamics: Claim(
        f"eq7-{dynamics}",
        "spring-block (7)",
        f"the chain {numbers} settles at Δd = (μ→ − μ←)/(2k), at every noise level",
    )
    for dynamics, numbers in NAMES.items()
}
BOUNDED = Claim(
    "eq7-bounded",
    "spring-block S6, derived",
    "bounded noise, |ζ| ≤ z: the chain from rest follows the mean path of that noise",
)
HOLDS = Claim(
    "eq7-bounded-holds",
    "spring-block S6, derived",
    "just below Δd = (μ→ − z ε/√dt)/k, noise with |ζ| ≤ z does not move the chain at all",
)
FALLS = Claim(
    "eq7-bounded-falls",
    "spring-block S6, derived",
    "just above Δd = max((μ→ − μ←)/2, μ→ − z ε/√dt)/k, noise with |ζ| ≤ z lowers the curvature",
)
INTERVAL = Claim(
    "eq7-interval", "spring-block, below (7)", "Δd* lies between (μ→ − μ←)/(2k) and μ→/k, whatever the noise"
)


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


def run(config: Config) -> xr.Dataset:
    """Run every dynamics from both sides, then bounded noise."""
    begun = time.perf_counter()
    layers = np.arange(1, BLOCKS + 1)
    bent = TARGET * layers / (BLOCKS + 1) + 0.15 * layers * (BLOCKS + 1 - layers) / 2  # curvature −0.15
    results = {}
    for dynamics, levels in LEVELS.items():
        sides = [_settled(_chain(noise=levels), config, start, dynamics=dynamics) for start in (None, bent)]
        results[dynamics] = (
            xr.concat(sides, "start").rename(noise=f"noise_{dynamics}").assign_coords(start=["rest", "convex"])
        )
    bounded = _chain(noise=tuple(reach / BOUND * config.dt**0.5 for reach in REACHES))
    resting = bounded.stationary_curvature(config.dt, BOUND)
    results["bounded"] = _settled(bounded, config, None, truncate=BOUND).rename(noise="noise_bounded")
    times = np.linspace(0.0, config.duration, config.save_points)[config.save_points // 2 :]
    path = bounded.mean_path(times, config.dt, truncate=BOUND)
    late = (TARGET - path[..., -1] - path[..., 0]).mean(axis=-1) / BLOCKS  # averaged like the simulation
    for name, offset in (("below", -EDGE), ("above", EDGE)):
        beside = TARGET * layers / (BLOCKS + 1) - (resting + offset)[:, None] * layers * (BLOCKS + 1 - layers) / 2
        moved = _settled(bounded, config, beside, truncate=BOUND) - xr.DataArray(resting + offset, dims="noise")
        results[name] = moved.rename(noise="noise_bounded")
    record = xr.Dataset(results)
    record["bounded_path"] = ("noise_bounded", late)
    parameters = {
        "blocks": BLOCKS,
        "target": TARGET,
        "friction_right": FRICTION[0],
        "friction_left": FRICTION[1],
    }
    return with_provenance(
        record,
        "SpringBlock",
        parameters,
        options=vars(config),
        seed=config.seed,
        precision="float64",
        wall_time=time.perf_counter() - begun,
    )


def _over_trials(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    return values.mean("trial").values.ravel(), (
        values.std("trial", ddof=1) / np.sqrt(values.sizes["trial"])
    ).values.ravel()


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare with (7) from both sides; the rival is the noiseless curvature μ→/k of (6)."""
    right, left = FRICTION
    high = right
    verdicts, seen = [], []
    for dynamics, claim in SETTLED.items():
        mean, error = _over_trials(record[dynamics])
        settled = np.tile(_chain(noise=LEVELS[dynamics]).stationary_curvature(attribute(record, "options")["dt"]), 2)
        note = f"ε = {LEVELS[dynamics]}, from rest and from a convex start"
        verdicts.append(claim.equals(mean, settled, three_errors(error), rival=high, standard_error=error, note=note))
        seen.append(np.stack([mean, error]))
    mean, error = _over_trials(record["bounded"])
    seen.append(np.stack([mean, error]))
    expected = record["bounded_path"].values
    # springs fluctuate with variance up to k ε², which shifts the balance of forces by ½ k ε² g''/g', about k s dt/2
    spread = np.array(REACHES) / BOUND * attribute(record, "options")["dt"] / 2
    verdicts.append(
        BOUNDED.equals(
            mean, expected, three_errors(error) + spread, rival=high, standard_error=error, note=f"z ε/√dt = {REACHES}"
        )
    )
    inner = np.array(REACHES) < (right + left) / 2
    (below, _), (above, above_error) = _over_trials(record["below"]), _over_trials(record["above"])
    verdicts.append(HOLDS.equals(below[inner], 0.0, 1e-12, note=f"started {EDGE} below"))
    verdicts.append(FALLS.falls_below(above, 0.0, three_errors(above_error), note=f"started {EDGE} above"))
    mean, error = np.concatenate(seen, axis=1)
    inside = np.minimum(mean - (right - left) / 2, high - mean)
    note = "distance inside it; true while all blocks move: one that never moves keeps Δd = 0, outside when μ→ > μ←"
    verdicts.append(INTERVAL.exceeds(inside, 0.0, -three_errors(error), note=note))
    return tuple(verdicts)


def plot(record: xr.Dataset) -> Any:
    """Draw settled curvature over noise, beside (7) and the bounds."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    right, left = FRICTION
    figure, axes = new_figure(columns=2)
    ax, other = axes[0]
    for colour, dynamics in zip(PALETTE, SETTLED, strict=False):
        mean = record[dynamics].mean(["trial", "start"])
        error = 3 * record[dynamics].std("trial").max("start") / np.sqrt(record.sizes["trial"])
        ax.errorbar(
            record[f"noise_{dynamics}"],
            mean,
            error,
            color=colour,
            marker="o",
            linestyle="none",
            label=dynamics,
        )
    ax.axhline((right - left) / 2, color="black", linewidth=1, label="(7)")
    ax.set_xscale("log")
    ticks = (0.02, 0.05, 0.1, 0.2, 0.5)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    other.plot(REACHES, record["bounded"].mean("trial"), "o", color=PALETTE[0], label="simulated")
    reach = np.linspace(0, max(REACHES), 200)
    other.plot(reach, np.maximum((right - left) / 2, right - reach), color="black", linewidth=1, label="closed form")
    ax.set_xlabel("noise ε (force·√time)")
    other.set_xlabel("largest noise force z ε/√dt (force)")
    for each in (ax, other):
        each.set_ylabel("stationary curvature (length)")
        each.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="The curvature that noise settles on",
    source="spring-block (7), S6",
    kind="equation",
    claims=(*SETTLED.values(), BOUNDED, HOLDS, FALLS, INTERVAL),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
