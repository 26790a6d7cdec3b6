"""S6: weak unbounded noise does bring the chain to (7), but only after exponentially long time."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import ndtr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.spring_block import SpringBlock
from dynascope.records import attribute, with_provenance

BLOCKS, RIGHT, LEFT = 7, 0.1, 0.2
MEAN_FRICTION = (RIGHT + LEFT) / 2
SLOWEST = 4 * np.sin(np.pi / (2 * (BLOCKS + 1))) ** 2  # smallest eigenvalue of the springs, k = 1


@dataclass(frozen=True)
class Config:
    """Chains a little off their stationary state, along the slowest mode, on either side of it."""

    barriers: tuple[float, ...] = (1.0, 1.5, 2.0, 2.4)  # mean friction in units of the noise force ε/√dt
    amplitude: float = 0.03
    dt: float = 0.01
    trials: int = 400
    seed: int = 13


SCALES = {
    "smoke": Config(trials=100),
    "laptop": Config(),
    "paper": Config(barriers=(1.0, 1.5, 2.0, 2.4, 2.8), trials=2000),
}
RATE = Claim(
    "s6-rate", "spring-block S6, derived", "near (7) the slowest mode relaxes at the rate 2 k λ Φ(−(μ→ + μ←) √dt/(2 ε))"
)
SLOW = Claim(
    "s6-slow", "spring-block S6", "the time to settle is longer than exp(c₀/ε²)/(k λ), with c₀ = (μ→ + μ←)² dt/8"
)


def run(config: Config) -> xr.Dataset:
    """Let both starts relax for about one expected decay time under the same noise, one noise level after another."""
    begun = time.perf_counter()
    layers = np.arange(1, BLOCKS + 1)
    mode = np.sin(np.pi * layers / (BLOCKS + 1))
    rest = layers / (BLOCKS + 1) - (RIGHT - LEFT) / 4 * layers * (BLOCKS + 1 - layers)
    rates = []
    for barrier in config.barriers:
        noise = MEAN_FRICTION / barrier * np.sqrt(config.dt)
        pair = SpringBlock(blocks=BLOCKS, friction_right=[RIGHT, RIGHT], friction_left=LEFT, noise=noise)
        duration = round(float(1 / _rate(barrier)) / config.dt) * config.dt
        start = np.stack([rest + config.amplitude * mode, rest - config.amplitude * mode])
        last = pair.simulate(duration, config.dt, config.trials, seed=config.seed, save_points=2, start=start)
        apart = last["position"].isel(time=-1).diff("grid_0").isel(grid_0=0).dot(xr.DataArray(mode, dims="block"))
        left_over = -apart / (2 * config.amplitude * float(mode @ mode))  # (trial,)
        error = float(left_over.std(ddof=1)) / np.sqrt(config.trials) / float(left_over.mean())
        rates.append((-np.log(float(left_over.mean())) / duration, error / duration))
    rate, error = np.transpose(rates)
    record = xr.Dataset(
        {"rate": ("barrier", rate), "rate_error": ("barrier", error)}, coords={"barrier": list(config.barriers)}
    )
    parameters = {"blocks": BLOCKS, "stiffness": 1.0, "friction_right": RIGHT, "friction_left": LEFT, "target": 1.0}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record,
        "SpringBlock",
        parameters,
        options=vars(config),
        seed=config.seed,
        precision="float64",
        wall_time=wall_time,
    )


def _rate(barrier: np.ndarray | float) -> np.ndarray:
    return np.asarray(2 * SLOWEST * ndtr(-np.asarray(barrier)))


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare rates; springs that fluctuate with variance up to k ε² act like noise stronger by √(1 + k dt)."""
    barrier, rate, error = (record[name].values for name in ("barrier", "rate", "rate_error"))
    options = attribute(record, "options")
    expected = _rate(barrier)
    stronger = _rate(barrier / np.sqrt(1 + options["dt"])) - expected
    offset = SLOWEST * options["amplitude"] / MEAN_FRICTION * barrier  # force at the start, in units of the noise force
    curved = expected * offset**2 * np.abs(barrier**2 - 1) / 6  # what the third derivative of g adds
    tolerance = three_errors(error) + stronger + curved
    note = f"mean friction / noise force = {tuple(barrier.tolist())}; rival: a chain without friction"
    return (
        RATE.equals(rate, expected, tolerance, rival=np.full_like(rate, SLOWEST), standard_error=error, note=note),
        SLOW.exceeds(
            1 / rate, np.exp(barrier**2 / 2) / SLOWEST, tolerance / rate**2, note="times, at the same noise levels"
        ),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw the settling time over the barrier, beside its closed form and the exponential bound."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    fine = np.linspace(0.8, float(record["barrier"].max()), 200)
    ax.errorbar(
        record["barrier"], 1 / record["rate"], 3 * record["rate_error"] / record["rate"] ** 2,
        color=PALETTE[0], marker="o", linestyle="none", label="simulated",
    )  # fmt: skip
    ax.plot(fine, 1 / _rate(fine), color=PALETTE[0], label="1/(2 k λ Φ(−barrier))")
    ax.plot(fine, np.exp(fine**2 / 2) / SLOWEST, color="black", linestyle="--", label="exp(c₀/ε²)/(k λ)")
    ax.set_yscale("log")
    ax.set_xlabel("mean friction / noise force, (μ→ + μ←) √dt/(2 ε)")
    ax.set_ylabel("settling time (model time)")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="How long noise takes to settle the chain",
    source="spring-block S6",
    kind="equation",
    claims=(RATE, SLOW),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
