"""spring-block Figure 6, Section S2: What much dropout, added late, costs in test accuracy.

By itself, since it is little once the networks are used to it: the 10 networks of the whole figure leave it open. These
are others.
"""

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below
from dynascope.experiments.experiment import Axes, Panels
from dynascope.experiments.phases.curves import NetworkExperiment
from dynascope.experiments.phases.dropout_schedules import LAPTOP, SMOKE, Config, draw_courses, run
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials

_BEFORE = 2  # stages of training, until much dropout is added
_RAISED = ((0.0, 0.05, 0.3),)


def _read(record: xr.Dataset) -> xr.DataArray:
    """What test accuracy changes from the end of the second stage on, over (trial, time)."""
    reached = record["accuracy"].isel(schedule=0).astype(float)
    return (reached - reached.sel(time=_BEFORE, method="nearest")).sel(time=record["time"] > _BEFORE)


def _worse(change: xr.DataArray) -> Judgement:
    return below(over_trials(change.isel(time=-1)), 0.0, note="change of test accuracy in the third stage")


def _worse_early(change: xr.DataArray) -> Judgement:
    return below(over_trials(change.isel(time=0)), 0.0, note="change of test accuracy as dropout is raised")


def _draw_changes(record: xr.Dataset, ax: Axes) -> None:
    """What each network's test accuracy changes in the third stage, sorted: at first, and at the end."""
    change = _read(record)
    for index, colour, label in ((-1, plots.PALETTE[0], "at the end"), (0, plots.PALETTE[1], "at first")):
        values = np.sort(change.isel(time=index).values)
        ax.plot(np.arange(1, values.size + 1), values, ".", color=colour, label=f"{label}: mean {values.mean():.4f}")
    ax.axhline(0.0, color="grey", linewidth=0.8)
    ax.set(xlabel="network, the most changed first", ylabel="change of test accuracy in the third stage")
    ax.legend(frameon=False, fontsize="small")


EXPERIMENT = NetworkExperiment(
    spring_block(figure="6", section="S2"),
    Config(schedules=_RAISED, seeds=48, begin=1000),
    run,
    claims=(
        Claim(
            "fig-6-worse",
            "much dropout, added later, makes the test accuracy worse again",
            _worse,
            settles_at="paper",
            why=("fig-6-worse-early, it is so at first and comes back",),
        ),
        Claim(
            "fig-6-worse-early",
            "it does so at once: a tenth of a stage after it is added",
            _worse_early,
            settles_at="paper",
        ),
    ),
    picture=Panels(draw_courses, _draw_changes, width=5.5, height=4.5),
    read=_read,
    smoke={**SMOKE, "schedules": ((0.0, 0.05, 0.5),), "begin": 0},
    laptop={**LAPTOP, "schedules": _RAISED},
    adapted="10 × 10 pixels, as in the authors' code; 48 runs, not 10: it is little",
)
