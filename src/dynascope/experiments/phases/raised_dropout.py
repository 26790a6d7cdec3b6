"""spring-block Figure 6: Dropout raised during training."""

import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.experiment import Axes, Panels
from dynascope.experiments.phases.curves import NetworkExperiment, draw_load
from dynascope.experiments.phases.dropout_schedules import LAPTOP, Config, draw_courses, run
from dynascope.experiments.phases.shapes import bend
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials

STAGES = (1, 2, 3)


def _read(record: xr.Dataset) -> xr.Dataset:
    """At the ends of the stages, (schedule, trial, time): first with dropout raised, then without."""
    ends = record.sel(time=list(STAGES), method="nearest")
    return ends.assign(bend=bend(ends["load"]))


def _costs_nothing(ends: xr.Dataset) -> Judgement:
    gain = over_trials(ends["accuracy"][0, :, 1].astype(float) - ends["accuracy"][1, :, 1].astype(float))
    return above(gain.mean, 0.0, -3 * gain.error - 1e-9, note="difference of test accuracies")


def _flatter(ends: xr.Dataset) -> Judgement:
    change = over_trials(ends["bend"][0, :, 1] - ends["bend"][1, :, 1])
    return below(change, 0.0, note="difference after the second stage")


def _draw_stages(record: xr.Dataset, ax: Axes) -> None:
    """The load curves of the first schedule after each stage."""
    for colour, stage in zip(plots.PALETTE, STAGES, strict=False):
        after = record.isel(schedule=0).sel(time=stage, method="nearest")["load"]
        draw_load(ax, after, colour=colour, label=f"after stage {stage}")


EXPERIMENT = NetworkExperiment(
    spring_block(figure="6"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-6-concave",
            "without dropout a CNN's load curve becomes concave",
            lambda ends: above(over_trials(ends["bend"][0, :, 0]), 0.0, note="curvature after the first stage"),
        ),
        Claim("fig-6-flatter", "some dropout, added in training, makes it less concave than without", _flatter),
        Claim(
            "fig-6-convex",
            "much dropout, added later, makes it convex",
            lambda ends: below(over_trials(ends["bend"][0, :, 2]), 0.0, note="curvature after the third stage"),
        ),
        Claim("fig-6-accuracy", "that dropout costs no test accuracy beside training on without", _costs_nothing),
    ),
    picture=Panels(draw_courses, _draw_stages, width=5.5, height=4.5),
    read=_read,
    smoke={**LAPTOP, "epochs": 12, "channels": 6, "times": 1, "schedules": ((0.0, 0.05, 0.5), (0.0, 0.0, 0.0))},
    laptop=LAPTOP,
    adapted="10 × 10 pixels",
)
