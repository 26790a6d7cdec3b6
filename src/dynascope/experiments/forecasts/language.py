"""dynascope docs/forecast.md: Forecasts of published language models, one size or one schedule left out."""

from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Judgement, below
from dynascope.experiments.experiment import Experiment, Panels
from dynascope.experiments.forecasts import pictures, sets
from dynascope.experiments.forecasts.claims_of import OwnClaim, at_most, best_mean, covers
from dynascope.experiments.forecasts.judged import Config, crossed_all, lessons, read, task_of
from dynascope.experiments.forecasts.teachers import TOTALS, all_known_beside, quarters, taught
from dynascope.experiments.sources import own
from dynascope.forecasting.learning import Group

COSINE, WSD = ("cosine",), ("wsd", "wsdld")
_BRANCH = ("constant", "wsd")  # runs that share their beginning
_STILL = "constant_24000"
TOLD = ("size", "schedule", "alone")


def run(config: Config) -> xr.Dataset:
    """Forecast each run where the other size is known, where other schedules of its size are, and where nothing is."""
    groups = sets.language(published=config.published)
    beside = {
        "size": all_known_beside(groups),
        "schedule": [
            known
            for each in groups
            for known in sets.known_beside([each], [other for other in groups if _apart(each, other)])
        ],
        "alone": groups,
    }
    lesson = taught(config)
    fold = quarters([*lesson, *groups])
    found = crossed_all(beside, lessons(lesson, fold, TOTALS, config), fold, config)
    return xr.concat(
        [found[told] for told in TOLD], xr.Variable("told", list(TOLD)), data_vars="all", combine_attrs="drop"
    )


def _apart(run: Group, other: Group) -> bool:
    """Whether another run has the same size and no part of its course."""
    same = task_of(run.name) == task_of(other.name)
    branches = [each.name.split("/")[2].startswith(_BRANCH) for each in (run, other)]
    schedule = run.name.split("/")[2].split("_")[0] != other.name.split("/")[2].split("_")[0]
    return same and schedule and not all(branches)


def _read(record: xr.Dataset) -> dict[str, xr.Dataset]:
    return {told: read(record.sel(told=told)) for told in TOLD}


def _what_if(seen: dict[str, xr.Dataset]) -> Judgement:
    """What a decay brings beside a constant rate, forecast before it began, against what it brought."""
    ends = seen["size"]["end"].sel(share=0.8).transpose("of", "curve").values
    places = {str(name): number for number, name in enumerate(seen["size"]["group"].values)}
    errors, notes = [], []
    for name, number in places.items():
        size, schedule = name.split("/")[1:]
        if schedule.split("_")[0] in WSD:
            said, came = ends[:, places[f"language/{size}/{_STILL}"]] - ends[:, number]
            errors.append(abs(said / came - 1))
            notes.append(f"{size} {schedule} {said:.4f}, {came:.4f} came")
    return below(np.array(errors), 0.25, note="; ".join(notes))


def _at_most(seen: dict[str, xr.Dataset], told: str, names: tuple[str, ...], bounds: dict[float, float]) -> Judgement:
    return at_most(seen[told], names, bounds)


EXPERIMENT = Experiment(
    source=own(place="docs/forecast.md"),
    config=Config(ends=5),
    run=run,
    read=_read,
    claims=(
        OwnClaim(
            "forecast-language-cosine",
            "where the other size is known, the final loss of cosine runs is met to .015 after 30 %, .010 after 50 %",
            partial(_at_most, told="size", names=COSINE, bounds={0.3: 0.015, 0.5: 0.010}),
        ),
        OwnClaim(
            "forecast-language-wsd",
            "that of runs with a late decay within .030 and .025",
            partial(_at_most, told="size", names=WSD, bounds={0.3: 0.030, 0.5: 0.025}),
        ),
        OwnClaim(
            "forecast-language-alone",
            "without any other run the mean error is below that of every single candidate",
            lambda seen: best_mean(seen["alone"]),
        ),
        OwnClaim(
            "forecast-language-schedule",
            "where only other schedules of its size are known, a run with a late decay is met within .03 after 50 %",
            partial(_at_most, told="schedule", names=WSD, bounds={0.5: 0.03}),
        ),
        OwnClaim(
            "forecast-language-what-if",
            "what a late decay brings beside a constant rate is met within a quarter before it begins",
            _what_if,
        ),
        OwnClaim(
            "forecast-language-80",
            "bands of 80 % hold within two binomial errors",
            lambda seen: covers(seen["size"], 0.8),
        ),
        OwnClaim("forecast-language-95", "so do those of 95 %", lambda seen: covers(seen["size"], 0.95)),
        OwnClaim(
            "forecast-language-alone-80",
            "without any other run bands of 80 % hold within two binomial errors",
            lambda seen: covers(seen["alone"], 0.8),
        ),
        OwnClaim("forecast-language-alone-95", "so do those of 95 %", lambda seen: covers(seen["alone"], 0.95)),
    ),
    picture=Panels(
        lambda record, ax: pictures.errors(record.sel(told="size"), ax, title="runs of another size are known"),
        lambda record, ax: pictures.errors(record.sel(told="alone"), ax, title="nothing else is known"),
        lambda record, ax: pictures.weights(record.sel(told="size"), ax),
    ),
    smoke={"published": False, "most": 4, "one_in": 12, "steps": 60, "training_shares": (0.3, 0.5, 0.8)},
    laptop={"most": 100, "steps": 500},
    model="forecast",
)
