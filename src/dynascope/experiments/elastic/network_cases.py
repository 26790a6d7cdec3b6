"""Ensembles of networks that differ in one number, of samples or of classes: training, strengths and their picture."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import xarray as xr

from dynascope import plots
from dynascope.experiments.elastic.network_training import Training, growth_of_each, label_steps, read_strengths, train
from dynascope.experiments.experiment import Axes, Panels
from dynascope.statistics.errors import Estimate, over_trials

SEEN = 0.1  # what the eye sees: curves that differ by less look alike
LAPTOP: dict[str, Any] = {"probes": 40, "steps": 5000, "records": 60, "trials": 12}
_PRINTED = "I-model as printed"


@dataclass(frozen=True)
class Config(Training):
    """One ensemble for each case; a case changes either `per_class` or `classes`."""

    varied: str = "per_class"
    cases: tuple[int, ...] = (80, 480, 600, 4800)


def run(config: Config) -> xr.Dataset:
    """Train an ensemble for each case and read its strengths by the I-model, which any number of classes allows."""
    found = []
    for case in config.cases:
        changed: dict[str, Any] = {config.varied: case}
        trained = train(replace(config, **changed))
        steps, means = trained["step"].values, trained["class_mean"].values.astype(float)
        each = read_strengths(steps, means, (_PRINTED,)).squeeze("reading", drop=True)
        each = each.drop_vars("reason").merge(growth_of_each(steps, means))
        found.append(each.assign(loss=trained["loss"], accuracy=trained["accuracy"]).drop_attrs())
    return xr.concat(found, xr.Variable("case", list(config.cases)))


def final_growth(record: xr.Dataset) -> Estimate:
    """A − B at the last step, mean over networks, for each case."""
    return over_trials(record["growth"].isel(step=-1))


def picture(what: str) -> Panels:
    """Integrated strengths and the strength that is identified, one colour for each case."""
    return Panels(
        partial(_draw_strengths, what=what),
        partial(_draw_mean, what=what, name="growth", ylabel="A − B, mean over networks"),
        partial(_draw_mean, what=what, name="growth_rate", ylabel="α − β (per step)", yscale="log"),
        width=4.0,
    )


def _draw_strengths(record: xr.Dataset, ax: Axes, *, what: str) -> None:
    for colour, case in zip(plots.PALETTE, record["case"].values, strict=False):
        each = record.sel(case=case)
        ax.plot(record["step"], each["integrated_intra"], color=colour, label=f"A, {case} {what}")
        ax.plot(record["step"], each["integrated_inter"], "--", color=colour, label=f"B, {case} {what}")
    label_steps(ax, "integrated strengths, I-model as printed")


def _draw_mean(record: xr.Dataset, ax: Axes, *, what: str, name: str, ylabel: str, yscale: str = "linear") -> None:
    for colour, case in zip(plots.PALETTE, record["case"].values, strict=False):
        ax.plot(record["step"], record[name].sel(case=case).mean("trial"), color=colour, label=f"{case} {what}")
    label_steps(ax, ylabel)
    ax.set_yscale(yscale)
