"""layerwise Figure C.2: Modes of a small network.

A ReLU network whose skill is the sum of three modes with their own times, (C.7)–(C.18).
"""

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, corrected, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import layerwise
from dynascope.models.multilinear.emergence import over_time
from dynascope.models.multilinear.toy_network import (
    PARITY,
    mode_rates,
    mode_strengths,
    network_loss,
    network_output,
    train_toy_network,
)

TARGET = 1.0
FINAL = np.array([0.5, 0.25, 0.25])  # shares of the modes in the parity
DELAYS = np.array([25 / 18, 25 / 18, 11 / 6])  # of the modes, in units of log(1/start²)/(η S); derived in `_delays`
_RATES = {
    "alpha": ("C.15", "(α²)' = 2 η α² (−S − (−2α² + 2β² + c))"),
    "beta": ("C.16", "(β²)' = −η β² (S − (−2α² + 5β² + 5c))"),
    "gamma": ("C.17", "(γ²)' = −η γ² (S − (γ² + c))"),
    "constant": ("C.18", "c' = −η (2α² − 5β² − γ² − 8c)"),
}


@dataclass(frozen=True)
class Config:
    """Random weights for the gradients; equal small starts for the modes; S = 1, η = 1."""

    cases: int = 30
    start: float = 0.01
    smaller: tuple[float, float] = (1e-8, 1e-10)
    seed: int = 3


def run(config: Config) -> xr.Dataset:
    """Differentiate at random weights, and train from small starts."""
    random = np.random.default_rng(config.seed)
    places = np.column_stack([random.uniform(0.1, 2.0, (config.cases, 3)), random.normal(size=config.cases)])
    times = np.append(np.linspace(0.0, 60.0, 1501), 400.0)
    path = train_toy_network(times, [config.start] * 3 + [0.0], TARGET)
    some = path["parameter"].values[::50]
    with jax.enable_x64(True):
        slope = -np.asarray(jax.jit(jax.vmap(jax.grad(network_loss), in_axes=(0, None)))(places, TARGET))
        outputs = np.asarray(jax.jit(jax.vmap(network_output))(some))
    slope[:, :3] *= 2 * places[:, :3]  # of the squares
    half, begin = float(np.interp(0.5, path["strength"], times)), float(path["strength"][0])
    factor = (np.log(1 / begin - 1)) / (2 * half)  # one sigmoid that passes one half at the same time
    return xr.Dataset(
        {
            "rate": (("case", "name"), slope),
            "corrected_rate": (("case", "name"), mode_rates(places.T, TARGET).T),
            "printed_rate": (("case", "name"), mode_rates(places.T, TARGET, published=True).T),
            "mode_strength": path["mode_strength"],
            "strength": path["strength"],
            "parameter": path["parameter"],
            "summed_strength": ("moment", (PARITY * outputs).mean(axis=1) / TARGET),
            "mode_sum": ("moment", mode_strengths(some.T, TARGET).sum(axis=0)),
            "sigmoid": ("time", over_time(times, 1.0, factor, rate=2.0, start=begin)),
            "sigmoid_factor": factor,
            "delay": ("mode", _delays(config.smaller)),
        }
    )


def _delays(starts: tuple[float, float]) -> np.ndarray:
    """How much later each mode passes half of its share when the start is smaller, per unit of log(1/start²).

    Small modes grow by themselves: first α² at rate S (to 4/7 S, with c = S/7), meanwhile β² and γ² at S/2, then β² at
    9/7 S and γ² at 3/7 S, and after β has come (β² = 3/2 S, α² = 7/4 S, c = −S/2) γ² at 3/4 S. In units of
    log(1/start²)/S α² begins at 1, but passes half of its share only with β at 1 + (1/2)(7/9) = 25/18; γ follows at
    25/18 + (1/2 − 1/6)(4/3) = 11/6.
    """
    passed = []
    for start in starts:
        until = 2.2 * np.log(1 / start**2)
        times = np.linspace(0.0, until, 6001)
        modes = train_toy_network(times, [start] * 3 + [0.0], TARGET)["mode_strength"].values / FINAL
        passed.append([times[int(np.argmax(mode > 0.5))] for mode in modes.T])
    later = np.diff(passed, axis=0)[0]
    return np.asarray(later / np.log((starts[0] / starts[1]) ** 2))


def _rate(record: xr.Dataset, index: int) -> Judgement:
    names = ("rate", "corrected_rate", "printed_rate")
    measured, right, printed = (record[name].isel(name=index).values for name in names)
    note = "against automatic differentiation at random weights; see mode_rates for the right form"
    return corrected(measured, right, 1e-9 * np.abs(measured).max(), published=printed, note=note)


def _solution(record: xr.Dataset) -> Judgement:
    parity = [*np.sqrt([2 * TARGET] * 3), -TARGET]
    return equal(record["parameter"].isel(time=-1), parity, 1e-6, note="α, β, γ, c at the end of training")


def _third(record: xr.Dataset) -> Judgement:
    delay = record["delay"].values
    note = "33/25 for starts → 0, from the right rates; 0.02: starts that are not yet small, steps of time"
    return corrected(delay[2] / delay[0], DELAYS[2] / DELAYS[0], 0.02, published=2.0, note=note)


def _tail(record: xr.Dataset) -> Judgement:
    times, names = record["time"].values, ("strength", "sigmoid")
    half, end = (np.array([np.interp(level, record[name], times) for name in names]) for level in (0.5, 0.95))
    taken, sigmoid = end - half
    return above(taken, sigmoid, 0.1 * sigmoid, note="steps from half to 95 % of S, both passing half together")


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """The strength of each mode, their sum and one sigmoid."""
    for colour, mode, sign in zip(plots.PALETTE, record["mode"].values, "αβγ", strict=False):
        ax.plot(record["time"], record["mode_strength"].sel(mode=mode), color=colour, label=f"mode of {sign}")
    ax.plot(record["time"], record["strength"], color="black", linewidth=2, label="skill, the sum")
    label = f"one sigmoid, rate factor {float(record['sigmoid_factor']):.2f}"
    ax.plot(record["time"], record["sigmoid"], "--", color="black", linewidth=1, label=label)
    ax.set(xlim=(0, 40), xlabel="time (training steps, η = 1)", ylabel="strength R/S")


_BELOW = layerwise(place="below (C.18)")
EXPERIMENT = Experiment(
    layerwise(figure="C.2"),
    Config(),
    run,
    claims=(
        *(
            Claim(f"eq{number}-{name}", statement, partial(_rate, index=index), layerwise(equation=number))
            for index, (name, (number, statement)) in enumerate(_RATES.items())
        ),
        Claim(
            "eqC.9-solution",
            "α = β = γ = √(2S), c = −S is the parity, and is reached",
            _solution,
            layerwise(equation="C.7–C.9", place="below (C.9)"),
        ),
        Claim(
            "eqC.14-shares",
            "the strengths of the three modes add up to the skill's",
            lambda r: equal(r["mode_sum"], r["summed_strength"], 1e-9, note="against E[parity·f]/S of the network"),
            layerwise(equation="C.10–C.14"),
        ),
        Claim(
            "fig-C.2-alike",
            "the first two modes take about the same time to saturate",
            lambda r: equal(r["delay"][1] / r["delay"][0], 1.0, 0.02, note="delays per log(1/start²), for starts → 0"),
            _BELOW,
        ),
        Claim("fig-C.2-third", "the third mode takes twice as long as the first", _third, _BELOW),
        Claim("fig-C.2-tail", "from half to 95 % of the skill the network takes longer than one sigmoid", _tail),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    smoke={"cases": 8},
    paper={"cases": 300, "smaller": (1e-20, 1e-24)},
    model="Multilinear",
)
