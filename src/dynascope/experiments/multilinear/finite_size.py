"""Figure C.1 and (C.2): how a finite number of skills bends the scaling law in time."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope import grid
from dynascope.experiments.claims import Claim
from dynascope.experiments.multilinear.recorded import recorded
from dynascope.experiments.registry import Experiment
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.scaling import estimate_exponent

ALPHAS = (0.1, 0.3, 0.6, 0.9)


@dataclass(frozen=True)
class Config:
    """50,000 skills as in the figure; η = 1, S = 1, R(0) = 0.01, and 0.1 where the start has to be seen."""

    skills: int = 50_000
    steps: int = 3_000
    initial: tuple[float, ...] = (0.01, 0.1)
    seed: int = 0


SCALES = {"smoke": Config(skills=10_000, steps=500), "laptop": Config(), "paper": Config(steps=30_000)}
LAW = Claim(
    "fig-C.1-corrected", "layerwise (C.2), FIG. C.1", "loss plus the loss of absent skills is a power law in time"
)
BENT = Claim("fig-C.1-bent", "layerwise FIG. C.1", "for α = 0.1 the loss itself falls faster than its power law")
ABSENT = Claim("eqC.2-absent", "layerwise (C.2)", "the loss of absent skills is L_C = ½ S² A N^−α/α")


def run(config: Config) -> xr.Dataset:
    """Gradient descent on all skills for every α and both starts in one call."""
    begun = time.perf_counter()
    model = Multilinear(config.skills, **grid(skill_exponent=ALPHAS, initial=config.initial), learning_rate=1.0)
    moments = np.unique(np.geomspace(50, config.steps, 20).round())
    loss = model.simulate(config.steps, 0, 1, save_points=moments)["loss"].isel(trial=0).drop_attrs()
    absent, dims = model.absent_loss(), ("skill_exponent", "initial")
    both = [
        [
            float(estimate_exponent(moments, loss.values[i, j], extra)["exponent"])
            for extra in (float(absent[i, j]), 0.0)
        ]
        for i, j in np.ndindex(*absent.shape)
    ]
    fits = np.reshape(both, (*absent.shape, 2))
    amplitude = model.prefactor("time")[..., None] * moments ** model.exponent("time")[..., None]
    record = xr.Dataset(
        {
            "loss": loss.reset_coords(drop=True),
            "law": ((*dims, "time"), model.scaling_law("time", moments)),
            "plain": ((*dims, "time"), amplitude),
            "fit": (dims, fits[..., 0]),
            "plain_fit": (dims, fits[..., 1]),
            "table": (dims, model.exponent("time")),
            "measured_absent": (dims, amplitude[..., 0] - loss.values[..., 0]),
            "absent": (dims, absent),
            "printed_absent": (dims, model.absent_loss(published=True)),
            "last_exposure": (dims, 2 * model.frequency(config.skills) * moments[0]),
        },
        coords={"skill_exponent": list(ALPHAS), "initial": list(config.initial), "time": moments},
    )
    return recorded(record, config, begun)


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare exponents at the small start, and the absent loss at the larger one."""
    small, large = record.isel(initial=0), record.isel(initial=1)
    slow = small.sel(skill_exponent=0.1)
    far = large.sel(skill_exponent=[0.1, 0.3])
    # what is read off is short of L_C by what the last skills have learned and by the step of η = 1
    tolerance = far["absent"].values * (far["last_exposure"].values + 0.01)
    return (
        LAW.equals(
            small["fit"],
            small["table"],
            0.02 * abs(small["table"]),
            rival=small["table"] - small["skill_exponent"],
            standard_error=0.0,
            note=f"fits for α = {ALPHAS} within 2 %; rival: −α/(α+1) − α",
        ),
        BENT.falls_below(float(slow["plain_fit"]), float(slow["table"]), 0.02, note="fit of the plain power law"),
        ABSENT.corrects(
            far["measured_absent"],
            far["absent"],
            tolerance,
            published=far["printed_absent"],
            note="½ (S − R(0))² A ζ(α+1, N+1): absent skills would stand at R(0), here a tenth of S; α = 0.1, 0.3",
        ),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw the trained loss, the plain power law and the corrected one."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax, small = axes[0, 0], record.isel(initial=0)
    for colour, alpha in zip(PALETTE, ALPHAS, strict=False):
        chosen = small.sel(skill_exponent=alpha)
        ax.plot(chosen["time"], chosen["loss"], color=colour, linewidth=3, alpha=0.5, label=f"α = {alpha}, trained")
        ax.plot(chosen["time"], chosen["plain"], ":", color=colour, linewidth=1.2)
        ax.plot(chosen["time"], chosen["law"], "--", color=colour, linewidth=1.2)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("time T (training steps)")
    ax.set_ylabel("loss (dotted: power law, dashed: corrected)")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="A finite number of skills bends the scaling law",
    source="layerwise FIG. C.1",
    kind="figure",
    claims=(LAW, BENT, ABSENT),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
