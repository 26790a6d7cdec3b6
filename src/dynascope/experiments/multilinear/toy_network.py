"""Figure C.2 and (C.7)–(C.18): a ReLU network whose skill is the sum of three modes with their own times."""

import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.multilinear.recorded import recorded
from dynascope.experiments.registry import Experiment
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


@dataclass(frozen=True)
class Config:
    """Random weights for the gradients; equal small starts for the modes; S = 1, η = 1."""

    cases: int = 30
    start: float = 0.01
    smaller: tuple[float, float] = (1e-8, 1e-10)
    seed: int = 3


SCALES = {"smoke": Config(cases=8), "laptop": Config(), "paper": Config(cases=300, smaller=(1e-20, 1e-24))}
ALPHA = Claim("eqC.15-alpha", "layerwise (C.15)", "(α²)' = 2 η α² (−S − (−2α² + 2β² + c))")
BETA = Claim("eqC.16-beta", "layerwise (C.16)", "(β²)' = −η β² (S − (−2α² + 5β² + 5c))")
GAMMA = Claim("eqC.17-gamma", "layerwise (C.17)", "(γ²)' = −η γ² (S − (γ² + c))")
CONSTANT = Claim("eqC.18-constant", "layerwise (C.18)", "c' = −η (2α² − 5β² − γ² − 8c)")
SOLUTION = Claim("eqC.9-solution", "layerwise, below (C.9)", "α = β = γ = √(2S), c = −S is the parity, and is reached")
SHARES = Claim("eqC.14-shares", "layerwise (C.13), (C.14)", "the strengths of the three modes add up to the skill's")
ALIKE = Claim("fig-C.2-alike", "layerwise, below (C.18)", "the first two modes take about the same time to saturate")
THIRD = Claim("fig-C.2-third", "layerwise, below (C.18)", "the third mode takes twice as long as the first")
TAIL = Claim(
    "fig-C.2-tail",
    "layerwise FIG. C.2",
    "from half to 95 % of the skill the network takes longer than one sigmoid",
)


def run(config: Config) -> xr.Dataset:
    """Differentiate at random weights, and train from small starts."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    places = np.column_stack([random.uniform(0.1, 2.0, (config.cases, 3)), random.normal(size=config.cases)])
    with jax.enable_x64(True):
        slope = -np.asarray(jax.jit(jax.vmap(jax.grad(network_loss), in_axes=(0, None)))(places, TARGET))
    slope[:, :3] *= 2 * places[:, :3]  # of the squares
    times = np.append(np.linspace(0.0, 60.0, 1501), 400.0)
    path = train_toy_network(times, [config.start] * 3 + [0.0], TARGET)
    some = path["parameter"].values[::50]
    with jax.enable_x64(True):
        outputs = np.asarray(jax.jit(jax.vmap(network_output))(some))
    half = float(np.interp(0.5, path["strength"], times))
    begin = float(path["strength"][0])
    factor = (np.log(1 / begin - 1)) / (2 * half)  # one sigmoid that passes one half at the same time
    record = xr.Dataset(
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
    return recorded(record, config, begun)


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


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare printed rates with differentiation, and the times of the modes with what follows from the right ones."""
    judged = []
    for index, claim in enumerate((ALPHA, BETA, GAMMA, CONSTANT)):
        names = ("rate", "corrected_rate", "printed_rate")
        measured, corrected, printed = (record[name].isel(name=index).values for name in names)
        judged.append(
            claim.corrects(
                measured, corrected, 1e-9 * np.abs(measured).max(), published=printed,
                note="against automatic differentiation at random weights; see mode_rates for the right form",
            )
        )  # fmt: skip
    delay = record["delay"].values
    end = record["parameter"].isel(time=-1).values
    time_axis, strength = record["time"].values, record["strength"].values
    tail, sigmoid = (
        float(np.interp(0.95, values, time_axis) - np.interp(0.5, values, time_axis))
        for values in (strength, record["sigmoid"].values)
    )
    return (
        *judged,
        SOLUTION.equals(end, [*np.sqrt([2 * TARGET] * 3), -TARGET], 1e-6, note="α, β, γ, c at the end of training"),
        SHARES.equals(record["mode_sum"], record["summed_strength"], 1e-9, note="against E[parity·f]/S of the network"),
        ALIKE.equals(delay[1] / delay[0], 1.0, 0.02, note="delays per log(1/start²), for starts → 0"),
        THIRD.corrects(
            delay[2] / delay[0], DELAYS[2] / DELAYS[0], 0.02, published=2.0,
            note="33/25 for starts → 0, from the right rates; 0.02: starts that are not yet small, steps of time",
        ),
        TAIL.exceeds(tail, sigmoid, 0.1 * sigmoid, note="steps from half to 95 % of S, both passing half together"),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the strength of each mode, their sum and one sigmoid."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    for colour, mode, sign in zip(PALETTE, record["mode"].values, "αβγ", strict=False):
        ax.plot(record["time"], record["mode_strength"].sel(mode=mode), color=colour, label=f"mode of {sign}")
    ax.plot(record["time"], record["strength"], color="black", linewidth=2, label="skill, the sum")
    label = f"one sigmoid, rate factor {float(record['sigmoid_factor']):.2f}"
    ax.plot(record["time"], record["sigmoid"], "--", color="black", linewidth=1, label=label)
    ax.set_xlim(0, 40)
    ax.set_xlabel("time (training steps, η = 1)")
    ax.set_ylabel("strength R/S")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Modes of a small network",
    source="layerwise FIG. C.2",
    kind="figure",
    claims=(ALPHA, BETA, GAMMA, CONSTANT, SOLUTION, SHARES, ALIKE, THIRD, TAIL),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
