"""spring-block Section S6: How long noise takes to settle the chain.

Weak unbounded noise does bring the chain to (7), but only after exponentially long time.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import ndtr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, equal, three_errors
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded, settings
from dynascope.experiments.sources import spring_block
from dynascope.models.spring_block import SpringBlock
from dynascope.statistics.errors import over_trials

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


def run(config: Config) -> xr.Dataset:
    """Let both starts relax for about one expected decay time under the same noise, one noise level after another."""
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
        mean, error = over_trials(left_over)
        rates.append((-np.log(mean) / duration, error / mean / duration))
    rate, error = np.transpose(rates)
    values = {"rate": ("barrier", rate), "rate_error": ("barrier", error)}
    return xr.Dataset(values, coords={"barrier": list(config.barriers)})


def _rate(barrier: np.ndarray | float) -> np.ndarray:
    return np.asarray(2 * SLOWEST * ndtr(-np.asarray(barrier)))


def _left_out(record: xr.Dataset) -> np.ndarray:
    """What the closed form leaves out: springs that fluctuate, and a start that is not close.

    With variance up to k ε² springs act like noise stronger by √(1 + k dt).
    """
    barrier, config = record["barrier"].values, settings(record)
    stronger = _rate(barrier / np.sqrt(1 + config.dt)) - _rate(barrier)
    offset = SLOWEST * config.amplitude / MEAN_FRICTION * barrier  # force at the start, in units of the noise force
    curved = _rate(barrier) * offset**2 * np.abs(barrier**2 - 1) / 6  # what the third derivative of g adds
    return np.asarray(stronger + curved)


def _relaxes(record: xr.Dataset) -> Judgement:
    barrier = record["barrier"].values
    note = f"mean friction / noise force = {tuple(barrier.tolist())}; rival: a chain without friction"
    return equal(recorded(record, "rate"), _rate(barrier), _left_out(record), rival=SLOWEST, note=note)


def _slow(record: xr.Dataset) -> Judgement:
    rate, error = recorded(record, "rate")
    slack = (three_errors(error) + _left_out(record)) / rate**2
    return above(1 / rate, _bound(record["barrier"].values), slack, note="times, at the same noise levels")


def _bound(barrier: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(barrier**2 / 2) / SLOWEST)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """The settling time over the barrier, beside its closed form and the exponential bound."""
    fine = np.linspace(0.8, float(record["barrier"].max()), 200)
    bars = 3 * record["rate_error"] / record["rate"] ** 2
    ax.errorbar(record["barrier"], 1 / record["rate"], bars, color=plots.PALETTE[0], fmt="o", label="simulated")
    ax.plot(fine, 1 / _rate(fine), color=plots.PALETTE[0], label="1/(2 k λ Φ(−barrier))")
    ax.plot(fine, _bound(fine), color="black", linestyle="--", label="exp(c₀/ε²)/(k λ)")
    across = "mean friction / noise force, (μ→ + μ←) √dt/(2 ε)"
    ax.set(yscale="log", xlabel=across, ylabel="settling time (model time)")


EXPERIMENT = Experiment(
    spring_block(section="S6"),
    Config(),
    run,
    claims=(
        Claim(
            "s6-rate",
            "near (7) the slowest mode relaxes at the rate 2 k λ Φ(−(μ→ + μ←) √dt/(2 ε))",
            _relaxes,
            kind="derived",
        ),
        Claim("s6-slow", "the time to settle is longer than exp(c₀/ε²)/(k λ), with c₀ = (μ→ + μ←)² dt/8", _slow),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    smoke={"trials": 100},
    paper={"barriers": (1.0, 1.5, 2.0, 2.4, 2.8), "trials": 2000},
    model="SpringBlock",
)
