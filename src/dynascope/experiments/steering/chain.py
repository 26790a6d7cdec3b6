"""dynascope docs/steer.md: A spring-block chain under the law that steers networks.

A chain (5) whose right end is pulled on at a constant speed v settles where the mean drift of each block is its share
of v. Noise lowers the force that this takes from about μ→ to about (μ→ − μ←)/2, so that more noise means less bend,
either way round; a chain that nothing pulls on never becomes more concave again (7). The noise is the knob, the
curvature the bend, and e-folds of training time are units of model time: what a network shows of itself.

After a turn of the knob the curvature follows late by λ = (L+1)(L+2)/(12 k g'), the mean of ℓ(L+1−ℓ)/2 over k g', with
g' the slope of the mean drift. With s, by which it falls over the knob's range, the law's bound is 1/(4 s λ).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import own
from dynascope.models.spring_block import SpringBlock
from dynascope.statistics.errors import over_trials

if TYPE_CHECKING:
    from dynascope.monitor.beliefs import Signal

BLOCKS, FRICTION, SPEED, BEGIN = 5, (0.1, 0.2), 0.06, 2.0
LIMITS = (0.06, 0.14)  # of the noise force ε/√dt, where the curvature falls about evenly
LEVELS = (0.4, 0.6, 0.8)  # of the knob, held
STEP, REST = (0.4, 0.8), 0.6  # from where to where it is turned at once; where its target is met
START, EARLY = 0.2, 16  # where loops begin, and after which piece, measured in all of them, their paths are compared
GAINS = {"slow": 0.9, "fast": 6.0}  # in units of the law's bound
SPARSE = (1, 2, 4)  # pieces between measurements, all at the gain of the bound
E_FOLD, FIRST = 10.0, 10_000  # model time for each e-fold of training time; the step at which loops begin


def _named(stride: int) -> str:
    return f"every {stride}"


LOOPS = (
    *(f"held at {level:g}" for level in LEVELS),
    "turned at once",
    *GAINS,
    *(_named(each) for each in SPARSE),
)


@dataclass(frozen=True)
class Config:
    """Chains of several loops side by side, each in pieces of model time; those of a trial see the same noise."""

    trials: int = 32
    pieces: int = 96
    piece: float = 1.25
    dt: float = 0.05


def _chain(u: np.ndarray, dt: float, target: float = BEGIN) -> SpringBlock:
    low, high = LIMITS
    noise = (low + u * (high - low)) * dt**0.5
    right, left = FRICTION
    return SpringBlock(blocks=BLOCKS, friction_right=right, friction_left=left, noise=noise, target=target)


def settled(u: Sequence[float], dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Forces on the blocks at which their mean drifts are those of a chain that is pulled on, and slopes there.

    >>> force, slope = settled([0.0, 1.0], 0.05)
    >>> force.shape, bool((force[0] > force[1]).all())
    ((2, 5), True)
    """
    grid = np.linspace(-0.3, 0.5, 4001)
    speed = SPEED * np.arange(1, BLOCKS + 1) / (BLOCKS + 1)
    forces, slopes = [], []
    for each in u:  # one at a time: compiled once, whatever their number
        drift = _chain(np.array(each), dt).mean_drift(grid, dt)
        forces.append(np.interp(speed, drift, grid))
        slopes.append(np.interp(forces[-1], grid, np.gradient(drift, grid)))
    return np.array(forces), np.array(slopes)


def theory(dt: float) -> tuple[float, float]:
    """Fall s of the curvature over the knob's range, as it is at REST, and lag λ there, in e-folds of training time.

    >>> fall, lag = theory(0.05)
    >>> round(fall, 3), round(lag, 2)
    (0.07, 0.99)
    """
    force, slope = settled([REST - 0.05, REST, REST + 0.05], dt)
    curvature = force.mean(axis=1)
    lag = (BLOCKS + 1) * (BLOCKS + 2) / 12 * (1 / slope[1]).mean() / E_FOLD
    return float(curvature[0] - curvature[2]) / 0.1, float(lag)


def run(config: Config) -> xr.Dataset:
    """Simulate all loops piece by piece; what is measured at the end of a piece turns the knob for the next."""
    knob, curvature = _paths(config)
    time = np.arange(config.pieces + 1) * config.piece / E_FOLD
    fall, lag = theory(config.dt)
    dims = ("time", "loop", "trial")
    values = {
        "knob": (dims, knob, {"long_name": "knob u"}),
        "curvature": (dims, curvature, {"long_name": "curvature (length)"}),
        "expected": ("level", settled(LEVELS, config.dt)[0].mean(axis=1)),
        "target": settled([REST], config.dt)[0].mean(),
        "fall": fall,
        "lag": lag,
    }
    coords = {"loop": list(LOOPS), "level": list(LEVELS), "time": ("time", time, {"long_name": "e-folds of training"})}
    return xr.Dataset(values, coords=coords)


def _paths(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Knobs and curvatures, (time, loop, trial)."""
    from dynascope.steering.law import Law, Place  # noqa: PLC0415 (PyTorch, which naming claims does not need)

    fall, lag = theory(config.dt)
    target = float(settled([REST], config.dt)[0].mean())
    gains = np.array([*GAINS.values(), *[1.0] * len(SPARSE)]) / (4 * fall * lag)
    laws, every = [Law(float(gain), target) for gain in gains], [*[1] * len(GAINS), *SPARSE]
    fixed = len(LEVELS) + 1  # loops that no law turns
    begun = settled([*LEVELS, STEP[0], *[START] * len(laws)], config.dt)[0]
    position = np.repeat(_resting(begun)[:, None], config.trials, axis=1)  # (loop, trial, block)
    knob = np.repeat(np.array([*LEVELS, STEP[1], *[START] * len(laws)])[:, None], config.trials, axis=1)
    knobs, curvatures = [knob], [_curvature(position, BEGIN)]
    begin = [_signal(each) for each in curvatures[0][fixed:]]
    places = [law.turn(Place.at(u), FIRST, seen) for law, u, seen in zip(laws, knob[fixed:], begin, strict=True)]
    for piece in range(1, config.pieces + 1):
        end = BEGIN + SPEED * config.piece * piece
        middle = end - SPEED * config.piece / 2
        position = _piece(config, _chain(knobs[-1], config.dt, middle), position, piece)
        curvatures.append(_curvature(position, end))
        knob, step = knobs[-1].copy(), round(FIRST * np.exp(piece * config.piece / E_FOLD))
        for at, (law, stride) in enumerate(zip(laws, every, strict=True)):
            if piece % stride == 0:
                places[at] = law.turn(places[at], step, _signal(curvatures[-1][fixed + at]))
                knob[fixed + at] = places[at].u
        knobs.append(knob)
    return np.stack(knobs), np.stack(curvatures)


def _piece(config: Config, chain: SpringBlock, position: np.ndarray, piece: int) -> np.ndarray:
    """Positions after a piece, (loop, trial, block): trial i of the chain that was started where trial i was."""
    save = [config.piece]
    run = chain.simulate(
        config.piece, config.dt, config.trials, seed=piece, save_points=save, start=position, progress=False
    )
    own = np.arange(config.trials)
    return np.asarray(run["position"].values[:, own, own, -1])


def _resting(force: np.ndarray) -> np.ndarray:
    """Positions at which springs exert these forces, (loop, block)."""
    pull = force.copy()
    pull[:, -1] -= BEGIN
    springs = np.eye(BLOCKS, k=1) + np.eye(BLOCKS, k=-1) - 2 * np.eye(BLOCKS)
    return np.asarray(np.linalg.solve(springs, pull.T).T)


def _curvature(position: np.ndarray, end: float) -> np.ndarray:
    """Mean of d_{ℓ+1} − d_ℓ, as a chain records it."""
    return np.asarray((end - position[..., -1] - position[..., 0]) / BLOCKS)


def _signal(bend: np.ndarray) -> "Signal":
    from dynascope.monitor.beliefs import Signal  # noqa: PLC0415

    known = np.ones(len(bend))
    return Signal(bend, bend, bend, known, known, known, known > 0)


def _late(record: xr.Dataset, lags: float) -> xr.Dataset:
    """What comes after so many lags."""
    return record.isel(time=record["time"].values >= lags * float(record["lag"]))


def _spread(record: xr.Dataset) -> float:
    """What the closed form leaves out: springs fluctuate, which shifts the balance of forces by about k s dt/2."""
    return LIMITS[1] * float(settings(record).dt) / 2


def _response(record: xr.Dataset) -> Judgement:
    """The rival is (7), of a chain that nothing pulls on: the same curvature at every noise."""
    held = _late(record, 2.0)["curvature"].isel(loop=slice(len(LEVELS))).mean("time")
    rival = (FRICTION[0] - FRICTION[1]) / 2
    return equal(over_trials(held), record["expected"].values, _spread(record), rival=rival, note=f"u = {LEVELS}")


def _lag(record: xr.Dataset) -> Judgement:
    """Area between the course after a turn and that of a chain that was always there, over the height of the turn."""
    before, _, after, turned = (record["curvature"].isel(loop=loop) for loop in range(len(LEVELS) + 1))
    height = (before - after).mean()
    area = (turned - after).transpose("time", "trial").isel(time=slice(1, None)).sum("time") / height
    piece = float(record["time"][1])
    measured = over_trials(piece * (area + 0.5))  # by trapezoids: half of the first, which is 1
    expected = float(record["lag"])
    alone = 6 / ((BLOCKS + 1) * (BLOCKS + 2)) * expected  # one block between two that do not move: 1/(2 k g')
    return equal(measured, expected, 0.15 * expected, rival=alone, note="e-folds; the rival is a single block")


def _overshoot(record: xr.Dataset, loop: str) -> xr.DataArray:
    """How far the knob goes beyond where it comes to rest, over the way that it has to go; of each trial."""
    knob = record["knob"].sel(loop=loop)
    course = knob - knob.isel(time=slice(-len(knob["time"]) // 4, None)).mean("time")
    smooth = course.rolling(time=5, center=True).mean()  # what the noise of a single chain does to it is no overshoot
    return smooth.max("time") / (REST - START)


def _stays(record: xr.Dataset) -> Judgement:
    return below(
        over_trials(_overshoot(record, "slow")), _TENTH, note=f"{GAINS['slow']} of the bound, share of the way"
    )


def _overshoots(record: xr.Dataset) -> Judgement:
    note = f"{GAINS['fast']} times the bound, share of the way"
    return above(over_trials(_overshoot(record, "fast")), _TENTH, note=note)


def _stable(record: xr.Dataset) -> Judgement:
    last = _late(record, 8.0)["curvature"].sel(loop=list(GAINS)).mean("time")
    begun = float(record["curvature"].sel(loop="slow").isel(time=0).mean())
    return equal(over_trials(last), float(record["target"]), _spread(record), rival=begun, note="curvature at the end")


def _same(record: xr.Dataset) -> Judgement:
    """How far loops with fewer measurements have come; the rival turns as far at each, however few there are."""
    early = record["knob"].isel(time=EARLY).sel(loop=[_named(each) for each in SPARSE])
    way = early - START
    rarer = way.isel(loop=slice(1, None)) - way.isel(loop=0)
    full = float(way.isel(loop=0).mean())
    rival = np.array([full / each - full for each in SPARSE[1:]])
    return equal(over_trials(rarer), 0.0, 0.15 * full, rival=rival, note=f"of {full:.2f} after {EARLY} pieces")


def _draw_response(record: xr.Dataset, ax: Axes) -> None:
    """Curvature over the knob, held."""
    u = np.linspace(0, 1, 41)
    ax.plot(u, settled(u.tolist(), settings(record).dt)[0].mean(axis=1), color="black", label="closed form")
    held = _late(record, 2.0)["curvature"].isel(loop=slice(len(LEVELS))).mean("time")
    ax.errorbar(LEVELS, held.mean("trial"), held.std("trial"), fmt="o", color=plots.PALETTE[0], label="simulated")
    ax.set(xlabel="knob u", ylabel="settled curvature (length)")


def _draw_loops(record: xr.Dataset, ax: Axes, *, loops: Sequence[str]) -> None:
    """Knobs over time."""
    ax.axhline(REST, color="black", linewidth=1)
    for colour, loop in zip(plots.PALETTE, loops, strict=False):
        knob = record["knob"].sel(loop=loop)
        label = f"gain {GAINS[loop]:g}/(4 s λ)" if loop in GAINS else f"gain 1/(4 s λ), measured {loop}"
        ax.plot(record["time"], knob.mean("trial"), color=colour, label=label)
        spread = knob.std("trial")
        ax.fill_between(
            record["time"], knob.mean("trial") - spread, knob.mean("trial") + spread, color=colour, alpha=0.2
        )
    ax.set(xlabel=record["time"].attrs["long_name"], ylabel=record["knob"].attrs["long_name"])


_TENTH = 0.1  # of the way to go: less is no overshoot
EXPERIMENT = Experiment(
    own(place="docs/steer.md"),
    Config(),
    run,
    claims=(
        Claim(
            "steer-chain-response",
            "noise lowers the curvature of a chain that is pulled on, to where the mean drifts are those of the pull",
            _response,
            kind="own",
        ),
        Claim("steer-chain-lag", "it follows a turn late by λ = (L+1)(L+2)/(12 k g')", _lag, kind="own"),
        Claim("steer-chain-slow", "below the gain 1/(4 s λ) the knob does not overshoot", _stays, kind="own"),
        Claim("steer-chain-fast", "far above it does", _overshoots, kind="own"),
        Claim("steer-chain-stable", "either way the curvature comes to rest at its target", _stable, kind="own"),
        Claim(
            "steer-chain-measurements",
            "half or a quarter as many measurements turn the knob as far in the same time",
            _same,
            kind="own",
        ),
    ),
    picture=Panels(
        _draw_response,
        partial(_draw_loops, loops=tuple(GAINS)),
        partial(_draw_loops, loops=tuple(_named(each) for each in SPARSE)),
        width=5.0,
        height=4.0,
    ),
    smoke={"trials": 10, "pieces": 80},
    laptop={"trials": 16},
    model="SpringBlock",
    kind="figure",
    needs=("torch",),
)
