"""spring-block Figure 5(c): Convolutional networks with dropout."""

import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, above, below
from dynascope.experiments.experiment import Axes, Panels
from dynascope.experiments.phases.curves import NetworkExperiment, draw_load
from dynascope.experiments.phases.dropout_schedules import LAPTOP, Config, draw_courses, run
from dynascope.experiments.phases.shapes import bend
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials


def _draw_ends(record: xr.Dataset, ax: Axes) -> None:
    """The load curves at the end."""
    for colour, schedule in zip(plots.PALETTE, record["schedule"].values, strict=False):
        end = record.sel(schedule=schedule).isel(time=-1)
        label = f"dropout {schedule}: {100 * float(end['accuracy'].mean()):.1f} %"
        draw_load(ax, end["load"], colour=colour, label=label)
    ax.legend(frameon=False, fontsize="small", title="test accuracy")


_THREE = ((0.0,), (0.1,), (0.4,))
_CHANGE = "change of the curvature from one dropout to the next"
EXPERIMENT = NetworkExperiment(
    spring_block(figure="5(c)"),
    Config(schedules=_THREE, epochs=2000, channels=20, depth=7, data="cifar10"),
    run,
    claims=(
        Claim(
            "fig-5c-concave",
            "without dropout a CNN's load curve is concave",
            lambda ends: above(over_trials(ends[0]), 0.0, note="curvature"),
        ),
        Claim(
            "fig-5c-noise",
            "more dropout makes it less concave, step by step",
            lambda ends: below(over_trials(ends.diff("schedule")), 0.0, note=_CHANGE),
        ),
        Claim(
            "fig-5c-convex",
            "with the most dropout it is convex",
            lambda ends: below(over_trials(ends[-1]), 0.0, note="curvature"),
        ),
    ),
    picture=Panels(draw_courses, _draw_ends, width=5.5, height=4.5),
    read=lambda record: bend(record["load"].isel(time=-1)),  # (schedule, trial), compared trial by trial
    smoke={**LAPTOP, "epochs": 20, "channels": 6, "times": 1, "schedules": ((0.0,), (0.4,))},
    laptop={**LAPTOP, "epochs": 100, "schedules": _THREE},
    adapted="10 × 10 pixels, values of dropout",
)
