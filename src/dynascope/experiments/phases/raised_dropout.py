"""spring-block Figure 6: Dropout raised during training."""

import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.experiment import Axes, Panels
from dynascope.experiments.phases.curves import NetworkExperiment, draw_load
from dynascope.experiments.phases.dropout_schedules import LAPTOP, OFF, SMOKE, Config, draw_courses, run, without_input
from dynascope.experiments.phases.shapes import bend, straight
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials

STAGES = (1, 2, 3)


def _read(record: xr.Dataset) -> xr.Dataset:
    """At the ends of the stages, (schedule, trial, time): first with dropout raised, then without."""
    ends = record.sel(time=list(STAGES), method="nearest")
    return ends.assign(bend=bend(ends["load"]))


def _better(ends: xr.Dataset) -> Judgement:
    reached = ends["accuracy"].astype(float)
    return above(over_trials(reached[0, :, 1] - reached[1, :, 1]), 0.0, note="difference of test accuracies")


def _straightest(load: xr.DataArray) -> Judgement:
    curves = straight(load[0])
    others = curves.isel(time=[0, 2]).transpose("time", "trial").values
    note = "R² after the second stage less those after the first and third"
    return above(over_trials(curves.isel(time=1).values - others), 0.0, note=note)


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
            settles_at="laptop",
        ),
        Claim(
            "fig-6-flatter",
            "some dropout, added in training, makes it less concave than without",
            _flatter,
            settles_at="laptop",
        ),
        Claim(
            "fig-6-linear",
            "that dropout makes it linear: straighter (R²) than before it and after more of it",
            lambda ends: _straightest(ends["load"]),
            settles_at="paper",
            why=(f"fig-6-inner, {OFF}",),
        ),
        Claim(
            "fig-6-inner",
            "so it is from the first layer on",
            lambda ends: _straightest(without_input(ends["load"])),
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "fig-6-convex",
            "much dropout, added later, makes it convex",
            lambda ends: below(over_trials(ends["bend"][0, :, 2]), 0.0, note="curvature after the third stage"),
            settles_at="laptop",
        ),
        Claim(
            "fig-6-accuracy",
            "some dropout, added in training, gives a better test accuracy than training on without",
            _better,
            spring_block(figure="6", section="S2"),
            settles_at="paper",
        ),
    ),
    picture=Panels(draw_courses, _draw_stages, width=5.5, height=4.5),
    read=_read,
    smoke={**SMOKE, "schedules": ((0.0, 0.05, 0.5), (0.0, 0.0, 0.0))},
    laptop=LAPTOP,
    adapted="10 × 10 pixels, as in the authors' code",
)
