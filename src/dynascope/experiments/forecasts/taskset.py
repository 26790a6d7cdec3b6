"""dynascope docs/forecast.md: Forecasts of TaskSet's curves, one task left out in turn."""

from collections.abc import Callable
from dataclasses import replace

import xarray as xr

from dynascope.experiments.claims import Judgement
from dynascope.experiments.experiment import Experiment, Panels
from dynascope.experiments.forecasts import pictures, sets
from dynascope.experiments.forecasts.claims_of import OwnClaim, beats_last, best_mean, best_median, covers
from dynascope.experiments.forecasts.judged import Config, crossed, lessons, read, thinned
from dynascope.experiments.sources import own

TOTALS = {"taskset": 1.5, "language": 0.6, "networks": 1.0, "planted": 0.15}


def run(config: Config) -> xr.Dataset:
    """Forecast validation losses by what the other tasks, and all other sets, taught."""
    judged = thinned(sets.taskset("valid", published=config.published), replace(config, one_in=1))
    others = [*sets.networks(), *sets.planted()]
    if config.published:
        others += [*sets.taskset("train"), *sets.language()]
    taught = lessons([*judged, *thinned(others, config)], _task, TOTALS, config)
    record = crossed(judged, taught, _task, config)
    flags = {each.name: sets.moving(each.value) for each in judged}
    places = zip(record["group"].values, record["number"].values, strict=True)
    moves = [bool(flags[str(name)][number]) for name, number in places]
    return record.assign(moving=("curve", moves))


def _task(name: str) -> str:
    return name


def _read(record: xr.Dataset) -> dict[str, xr.Dataset]:
    seen = read(record)
    return {"all": seen, "moving": seen.isel(curve=record["moving"].values)}


def _of(kind: str, judge: Callable[..., Judgement], **options: float) -> Callable[[dict[str, xr.Dataset]], Judgement]:
    return lambda seen: judge(seen[kind], **options)


EXPERIMENT = Experiment(
    source=own(place="docs/forecast.md"),
    config=Config(),
    run=run,
    read=_read,
    claims=(
        OwnClaim(
            "forecast-taskset-mean",
            "of curves that move, the mean error of the end is below that of every single candidate",
            _of("moving", best_mean),
        ),
        OwnClaim("forecast-taskset-median", "so is the median", _of("moving", best_median)),
        OwnClaim("forecast-taskset-median-all", "so is the median over all curves", _of("all", best_median)),
        OwnClaim(
            "forecast-taskset-80",
            "bands of 80 % cover 80 % of the ends of all curves, within 5",
            _of("all", covers, band=0.8),
        ),
        OwnClaim("forecast-taskset-95", "bands of 95 % cover 95 %, within 3", _of("all", covers, band=0.95)),
        OwnClaim(
            "forecast-taskset-moving-80",
            "bands of 80 % cover 80 % of the ends of those that move, within 5",
            _of("moving", covers, band=0.8),
        ),
        OwnClaim(
            "forecast-taskset-moving-95", "bands of 95 % cover 95 % of them, within 3", _of("moving", covers, band=0.95)
        ),
        OwnClaim(
            "forecast-taskset-crps",
            "their CRPS is below that of the last value with a calibrated band",
            _of("moving", beats_last),
        ),
    ),
    picture=Panels(pictures.errors, pictures.coverage, pictures.weights),
    smoke={"published": False, "most": 12, "one_in": 8, "steps": 60, "training_shares": (0.2, 0.5, 0.8)},
    laptop={"most": 200, "steps": 500},
    model="forecast",
)
