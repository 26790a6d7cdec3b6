"""spring-block Figure 5(c): Convolutional networks with dropout."""

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.experiment import Axes, Panels
from dynascope.experiments.phases.curves import NetworkExperiment, draw_load
from dynascope.experiments.phases.dropout_schedules import LAPTOP, OFF, SMOKE, Config, draw_courses, run, without_input
from dynascope.experiments.phases.phase_judges import RANKED
from dynascope.experiments.phases.shapes import accurate_as_straight, bend, best_where_straight
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials
from dynascope.statistics.ranks import rank_correlation

_LEARNT = 0.2  # test accuracy, twice that of chance: with a dropout of 0.64 it hardly rises above chance


def _read(record: xr.Dataset) -> xr.Dataset:
    """At the end, over (schedule, trial), compared trial by trial."""
    last = record.isel(time=-1)
    return last.assign(bend=bend(last["load"]))


def _ranked(ends: xr.Dataset) -> Judgement:
    bends = ends["bend"].transpose("schedule", "trial").values
    found = rank_correlation(bends, np.arange(len(bends))[:, None])
    return below(found, -RANKED, note="rank correlation of mean curvatures with dropout")


def _convex(ends: xr.Dataset, load: xr.DataArray) -> Judgement:
    """At the most dropout that networks learn with; not determined where there is none but the least."""
    learning = np.flatnonzero(ends["accuracy"].mean("trial").values > _LEARNT)
    most = int(learning[-1]) if learning.size else 0
    bends = bend(load.isel(schedule=most)) if most else xr.full_like(ends["bend"][0], np.nan)
    note = f"curvature at the dropout {most + 1} of {load.sizes['schedule']}"
    return below(over_trials(bends), 0.0, note=note)


def _draw_ends(record: xr.Dataset, ax: Axes) -> None:
    """The load curves at the end."""
    for colour, schedule in zip(plots.shades(record.sizes["schedule"]), record["schedule"].values, strict=True):
        end = record.sel(schedule=schedule).isel(time=-1)
        draw_load(ax, end["load"], colour=colour, label=f"{100 * float(end['accuracy'].mean()):.1f} %")
    ax.legend(frameon=False, fontsize="small", title="test accuracy", loc="lower left")


_THREE = ((0.0,), (0.1,), (0.4,))
_DROPOUTS = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)  # in the authors' script
EXPERIMENT = NetworkExperiment(
    spring_block(figure="5(c)"),
    Config(schedules=tuple((each,) for each in _DROPOUTS), epochs=2000, channels=20, depth=7, data="cifar10"),
    run,
    claims=(
        Claim(
            "fig-5c-concave",
            "without dropout a CNN's load curve is concave",
            lambda ends: above(over_trials(ends["bend"][0]), 0.0, note="curvature"),
            settles_at="laptop",
        ),
        Claim(
            "fig-5c-noise",
            "more dropout makes it less concave: rank correlation of its curvature with dropout below -0.8",
            _ranked,
            settles_at="laptop",
        ),
        Claim(
            "fig-5c-convex",
            "with the most dropout it is convex",
            lambda ends: below(over_trials(ends["bend"][-1]), 0.0, note="curvature"),
            settles_at="laptop",
            why=(f"fig-5c-inner, {OFF}",),
        ),
        Claim(
            "fig-5c-convex-learnt",
            "with the most dropout that networks learn with, to twice the accuracy of chance, it is convex",
            lambda ends: _convex(ends, ends["load"]),
            kind="derived",
            settles_at="laptop",
            why=(f"fig-5c-inner, {OFF}",),
        ),
        Claim(
            "fig-5c-inner",
            "so it is from the first layer on, as Figure S9(b) draws networks on CIFAR-10",
            lambda ends: _convex(ends, without_input(ends["load"])),
            spring_block(figure="5(c), S9"),
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "fig-5c-accuracy",
            "no dropout gives 0.005 more test accuracy than that with the straightest load curve",
            lambda ends: best_where_straight(ends["accuracy"], ends["load"]),
            settles_at="paper",
            why=(f"fig-5c-inner-rank, {OFF}",),
        ),
        Claim(
            "fig-5c-inner-accuracy",
            "none does where load curves are drawn from the first layer on",
            lambda ends: best_where_straight(ends["accuracy"], without_input(ends["load"])),
            spring_block(figure="5(c), S9"),
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "fig-5c-inner-rank",
            "from the first layer on straightness and test accuracy rank dropouts alike: beyond 0.5",
            lambda ends: accurate_as_straight(ends["accuracy"], without_input(ends["load"])),
            spring_block(figure="5(c), S9"),
            kind="own",
            settles_at="paper",
        ),
    ),
    picture=Panels(draw_courses, _draw_ends, width=5.5, height=4.5),
    read=_read,
    smoke={**SMOKE, "epochs": 20, "schedules": ((0.0,), (0.4,))},
    laptop={**LAPTOP, "epochs": 100, "schedules": _THREE},
    adapted="10 × 10 pixels and values of dropout, as in the authors' code",
)
