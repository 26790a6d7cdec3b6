"""dynascope docs/forecast.md: Forecasts of TaskSet's curves, one or two tasks left out in turn."""

from collections.abc import Callable

import xarray as xr

from dynascope.experiments.claims import Judgement
from dynascope.experiments.experiment import Experiment, Panels
from dynascope.experiments.forecasts import pictures, sets
from dynascope.experiments.forecasts.claims_of import OwnClaim, beats_last, best_mean, best_median, covers
from dynascope.experiments.forecasts.judged import Config, crossed, lessons, read, thinned
from dynascope.experiments.forecasts.teachers import TOTALS, quarters, taught
from dynascope.experiments.sources import own


def run(config: Config) -> xr.Dataset:
    """Forecast validation losses by what other tasks, and all other sets, taught."""
    groups, judged = taught(config), thinned(sets.taskset("valid", published=config.published), config)
    fold = quarters([*groups, *judged])
    record = crossed(judged, lessons(groups, fold, TOTALS, config), fold, config)
    flags = {each.name: sets.moving(each.value) for each in judged}
    places = zip(record["group"].values, record["number"].values, strict=True)
    moves = [bool(flags[str(name)][number]) for name, number in places]
    return record.assign(moving=("curve", moves))


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
        OwnClaim(
            "forecast-taskset-mean-all",
            "so is the mean over all curves, which a few that explode decide",
            _of("all", best_mean),
        ),
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
