"""layerwise Figure C.1: A finite number of skills bends the scaling law.

The law is that of time, and (C.2) corrects it.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import layerwise
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.scaling import estimate_exponent
from dynascope.models.parameters import grid

ALPHAS = (0.1, 0.3, 0.6, 0.9)
_FINER = 10  # times shorter steps where L_C is read off: a small difference of losses
_READ = 200.0  # time at which it is: several skills are learned, so that their sum is the law's integral


@dataclass(frozen=True)
class Config:
    """50,000 skills as in the figure; η = 1, S = 1, R(0) = 0.01."""

    skills: int = 50_000
    steps: int = 3_000
    initial: float = 0.01
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    """Gradient descent on all skills for every α in one call."""
    model = Multilinear(config.skills, **grid(skill_exponent=ALPHAS), initial=config.initial, learning_rate=1.0)
    moments = np.unique(np.geomspace(50, config.steps, 20).round())
    loss = model.simulate(config.steps, 0, 1, save_points=moments)["loss"].isel(trial=0).values
    fine, finer = (_missing(config, parts) for parts in (_FINER // 2, _FINER))
    absent, dims = model.absent_loss(), ("skill_exponent",)
    amplitude = model.prefactor("time")[..., None] * moments ** model.exponent("time")[..., None]
    return xr.Dataset(
        {
            "loss": ((*dims, "time"), loss),
            "law": ((*dims, "time"), model.scaling_law("time", moments)),
            "plain": ((*dims, "time"), amplitude),
            "fit": (dims, _exponents(moments, loss, absent)),
            "plain_fit": (dims, _exponents(moments, loss, np.zeros_like(absent))),
            "table": (dims, model.exponent("time")),
            "measured_absent": (dims, finer),
            "step_error": (dims, np.abs(finer - fine)),  # of the first order: what is left is as large
            "printed_absent": (dims, model.absent_loss(published=True)),
            "last_exposure": (dims, 2 * model.frequency(config.skills) * _READ),
            "initial": config.initial,
        },
        coords={"skill_exponent": list(ALPHAS), "time": moments},
    )


def _missing(config: Config, parts: int) -> np.ndarray:
    """Power law less loss at the time `_READ` (skill_exponent,), with as many times shorter steps up to it."""
    axis = grid(skill_exponent=ALPHAS)
    model = Multilinear(config.skills, **axis, initial=config.initial, learning_rate=1 / parts)
    at = np.array([parts * _READ])
    loss = model.simulate(int(at[0]), 0, 1, save_points=at)["loss"].isel(trial=0, time=0).values
    return np.asarray(model.prefactor("time") * at[0] ** model.exponent("time") - loss)


def _exponents(times: np.ndarray, loss: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Fitted exponents (skill_exponent,) of loss + absent."""
    pairs = zip(loss, absent, strict=True)
    return np.array([float(estimate_exponent(times, row, float(each))["exponent"]) for row, each in pairs])


def _straightened(record: xr.Dataset) -> Judgement:
    table, note = record["table"], f"fits for α = {ALPHAS} within 2 %; rival: −α/(α+1) − α"
    return equal(record["fit"], table, 0.02 * abs(table), rival=table - record["skill_exponent"], error=0.0, note=note)


def _bent(record: xr.Dataset) -> Judgement:
    slow = record.sel(skill_exponent=0.1)
    return below(slow["plain_fit"], slow["table"], 0.02, note="fit of the plain power law")


def _absent(record: xr.Dataset) -> Judgement:
    few = record.sel(skill_exponent=[0.1, 0.3])
    printed = few["printed_absent"]
    # absent skills would have grown to at most R(0) exp(exposure of the last one), which takes twice that off (S − R)²
    bound = 2 * few["initial"] * np.exp(few["last_exposure"]) * printed + few["step_error"]
    note = (
        "power law less loss, α = 0.1, 0.3; bound: what absent skills would have learned, and the step's error. "
        "Rival: all of the skills that there are, ½ S²"
    )
    return equal(few["measured_absent"], printed, bound, rival=0.5, error=0.0, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """The trained loss, the plain power law and the corrected one."""
    for colour, alpha in zip(plots.PALETTE, ALPHAS, strict=False):
        one = record.sel(skill_exponent=alpha)
        ax.plot(one["time"], one["loss"], color=colour, linewidth=3, alpha=0.5, label=f"α = {alpha}, trained")
        ax.plot(one["time"], one["plain"], ":", color=colour, linewidth=1.2)
        ax.plot(one["time"], one["law"], "--", color=colour, linewidth=1.2)
    label = "loss (dotted: power law, dashed: corrected)"
    ax.set(xscale="log", yscale="log", xlabel="time T (training steps)", ylabel=label)


EXPERIMENT = Experiment(
    layerwise(figure="C.1"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-C.1-corrected",
            "loss plus the loss of absent skills is a power law in time",
            _straightened,
            layerwise(equation="C.2", figure="C.1"),
        ),
        Claim("fig-C.1-bent", "for α = 0.1 the loss itself falls faster than its power law", _bent),
        Claim(
            "eqC.2-absent",
            "the loss of absent skills is L_C = ½ S² A N^−α/α",
            _absent,
            layerwise(equation="C.2"),
        ),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    smoke={"skills": 10_000, "steps": 500},
    paper={"steps": 30_000},
    model="Multilinear",
)
