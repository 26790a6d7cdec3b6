"""dynascope docs/forecast.md: Forecasts of networks of our own, one task left out in turn."""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Judgement, above
from dynascope.experiments.experiment import Experiment, Panels
from dynascope.experiments.forecasts import pictures
from dynascope.experiments.forecasts.claims_of import (
    OwnClaim,
    beats_last,
    best_mean,
    best_median,
    covers,
    theory_weight,
)
from dynascope.experiments.forecasts.judged import Config, crossed, lessons, read
from dynascope.experiments.forecasts.teachers import TOTALS, quarters, taught
from dynascope.experiments.sources import own

KINDS = ("train/loss", "test/loss", "batch/loss", "train/accuracy", "test/accuracy")


def run(config: Config) -> xr.Dataset:
    """Forecast losses and accuracies of networks by what other tasks, and all other sets, taught."""
    groups = taught(config)
    fold = quarters(groups)
    judged = [each for each in groups if each.name.startswith("networks/")]
    return crossed(judged, lessons(groups, fold, TOTALS, config), fold, config)


def _read(record: xr.Dataset) -> dict[str, xr.Dataset]:
    seen = read(record)
    groups = record["group"].values.astype(str)
    return {kind: seen.isel(curve=np.char.endswith(groups, kind)) for kind in KINDS}


def _every(judge: Callable[..., Judgement], **options: float) -> Callable[[dict[str, xr.Dataset]], Judgement]:
    """The quantity that stands worst decides."""

    def judged(seen: dict[str, xr.Dataset]) -> Judgement:
        found = {kind: judge(each, **options) for kind, each in seen.items()}
        order = ("not reproduced", "not determined", "reproduced")
        kind = min(found, key=lambda each: order.index(found[each].verdict))
        worst = found[kind]
        return Judgement(
            worst.verdict, f"{kind}: {worst.note}", worst.relation, worst.expected, worst.measured, worst.tolerance
        )

    return judged


def _covered(seen: dict[str, xr.Dataset], band: float) -> Judgement:
    """All quantities together."""
    return covers(xr.concat([each[["inside"]] for each in seen.values()], "curve"), band)


def _theory(seen: dict[str, xr.Dataset]) -> Judgement:
    found = {kind: theory_weight(each) for kind, each in seen.items()}
    best = max(found, key=lambda kind: float(found[kind].mean))
    note = "mode and skills together; " + ", ".join(f"{kind} {float(each.mean):.2f}" for kind, each in found.items())
    return above(found[best], 0.5, note=f"{best}; {note}")


EXPERIMENT = Experiment(
    source=own(place="docs/forecast.md"),
    config=Config(),
    run=run,
    read=_read,
    claims=(
        OwnClaim(
            "forecast-networks-mean",
            "the mean error of the end is below that of every single candidate, for losses and accuracies",
            _every(best_mean),
        ),
        OwnClaim("forecast-networks-median", "so is the median", _every(best_median)),
        OwnClaim(
            "forecast-networks-80",
            "bands of 80 % cover 80 % of all ends, within 5",
            partial(_covered, band=0.8),
        ),
        OwnClaim("forecast-networks-95", "bands of 95 % cover 95 %, within 3", partial(_covered, band=0.95)),
        OwnClaim("forecast-networks-each-80", "those of 80 % do for each quantity", _every(covers, band=0.8)),
        OwnClaim("forecast-networks-each-95", "so do those of 95 %", _every(covers, band=0.95)),
        OwnClaim(
            "forecast-networks-crps",
            "the CRPS is below that of the last value with a calibrated band",
            _every(beats_last),
        ),
        OwnClaim(
            "forecast-networks-theory",
            "for one quantity a candidate of the theory earns more than half of the weight",
            _theory,
        ),
    ),
    picture=Panels(pictures.errors, pictures.coverage, pictures.weights),
    smoke={"published": False, "most": 3, "one_in": 7, "steps": 60, "training_shares": (0.2, 0.5, 0.8)},
    laptop={"published": False, "most": 8, "steps": 500},
    model="forecast",
)
