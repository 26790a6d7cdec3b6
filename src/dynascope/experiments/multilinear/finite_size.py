"""layerwise Figure C.1: A finite number of skills bends the scaling law.

The law is that of time, and (C.2) corrects it.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, corrected, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import layerwise
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.scaling import estimate_exponent
from dynascope.models.parameters import grid

ALPHAS = (0.1, 0.3, 0.6, 0.9)


@dataclass(frozen=True)
class Config:
    """50,000 skills as in the figure; η = 1, S = 1, R(0) = 0.01, and 0.1 where the start has to be seen."""

    skills: int = 50_000
    steps: int = 3_000
    initial: tuple[float, ...] = (0.01, 0.1)
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    """Gradient descent on all skills for every α and both starts in one call."""
    model = Multilinear(config.skills, **grid(skill_exponent=ALPHAS, initial=config.initial), learning_rate=1.0)
    moments = np.unique(np.geomspace(50, config.steps, 20).round())
    loss = model.simulate(config.steps, 0, 1, save_points=moments)["loss"].isel(trial=0).values
    absent, dims = model.absent_loss(), ("skill_exponent", "initial")
    amplitude = model.prefactor("time")[..., None] * moments ** model.exponent("time")[..., None]
    return xr.Dataset(
        {
            "loss": ((*dims, "time"), loss),
            "law": ((*dims, "time"), model.scaling_law("time", moments)),
            "plain": ((*dims, "time"), amplitude),
            "fit": (dims, _exponents(moments, loss, absent)),
            "plain_fit": (dims, _exponents(moments, loss, np.zeros_like(absent))),
            "table": (dims, model.exponent("time")),
            "measured_absent": (dims, amplitude[..., 0] - loss[..., 0]),
            "absent": (dims, absent),
            "printed_absent": (dims, model.absent_loss(published=True)),
            "last_exposure": (dims, 2 * model.frequency(config.skills) * moments[0]),
        },
        coords={"skill_exponent": list(ALPHAS), "initial": list(config.initial), "time": moments},
    )


def _exponents(times: np.ndarray, loss: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Fitted exponents (skill_exponent, initial) of loss + absent."""
    places = np.ndindex(*absent.shape)
    fits = [float(estimate_exponent(times, loss[place], float(absent[place]))["exponent"]) for place in places]
    return np.reshape(fits, absent.shape)


def _straightened(record: xr.Dataset) -> Judgement:
    small = record.isel(initial=0)
    table, note = small["table"], f"fits for α = {ALPHAS} within 2 %; rival: −α/(α+1) − α"
    return equal(small["fit"], table, 0.02 * abs(table), rival=table - small["skill_exponent"], error=0.0, note=note)


def _bent(record: xr.Dataset) -> Judgement:
    slow = record.isel(initial=0).sel(skill_exponent=0.1)
    return below(slow["plain_fit"], slow["table"], 0.02, note="fit of the plain power law")


def _absent(record: xr.Dataset) -> Judgement:
    far = record.isel(initial=1).sel(skill_exponent=[0.1, 0.3])
    # what is read off is short of L_C by what the last skills have learned and by the step of η = 1
    return corrected(
        far["measured_absent"],
        far["absent"],
        far["absent"] * (far["last_exposure"] + 0.01),
        published=far["printed_absent"],
        note="½ (S − R(0))² A ζ(α+1, N+1): absent skills would stand at R(0), here a tenth of S; α = 0.1, 0.3",
    )


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """The trained loss, the plain power law and the corrected one."""
    for colour, alpha in zip(plots.PALETTE, ALPHAS, strict=False):
        one = record.isel(initial=0).sel(skill_exponent=alpha)
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
