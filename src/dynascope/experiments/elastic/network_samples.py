"""elastic Figure D.3: Strengths of networks by number of samples."""

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.elastic.network_cases import LAPTOP, SEEN, Config, final_growth, picture, run
from dynascope.experiments.elastic.network_training import SMALL, at_end, unsettled
from dynascope.experiments.experiment import Experiment
from dynascope.experiments.sources import elastic
from dynascope.statistics.errors import over_trials


def _dominated(record: xr.Dataset) -> Judgement:
    intra, inter = (at_end(record, f"integrated_{name}") for name in ("intra", "inter"))
    return above(intra.against(inter), np.abs(inter.mean))


def _decays(record: xr.Dataset) -> Judgement:
    """At the end beside where half of the networks have it largest, on the others: no chance of a peak helps it."""
    rate = record["growth_rate"].transpose("case", "trial", "step").values
    peak = rate[:, ::2].mean(axis=1).argmax(axis=1)
    others = rate[:, 1::2]
    largest = np.take_along_axis(others, peak[:, None, None], axis=2)[..., 0]
    note = f"α − β at the end less {SEEN} of what it is where it is largest on other networks"
    return below(over_trials(others[..., -1] - SEEN * largest), 0.0, note=note)


def _alike(record: xr.Dataset) -> Judgement:
    growth = final_growth(record)
    listed = ", ".join(f"{case}: {value:.3g}" for case, value in zip(record["case"].values, growth.mean, strict=True))
    relative = growth.scaled(1 / growth.mean.mean())
    note = f"A − B at the end by samples of a class, over their mean; {listed}; rival: they differ by a fifth"
    return equal(relative, 1.0, SEEN, rival=1 + 2 * SEEN, note=note)


EXPERIMENT = Experiment(
    elastic(figure="D.3"),
    Config(),
    run,
    claims=(
        Claim("elastic-figd3-dominated", "A outgrows |B| for any number of samples, I-model", _dominated),
        unsettled("elastic-figd3-decays", "α − β dies out for any number of samples", _decays),
        unsettled("elastic-figd3-alike", "A − B does not depend on the number of samples", _alike),
    ),
    picture=picture("samples of a class"),
    model="Ensemble",
    precision="float32",
    needs=("torch",),
    smoke=SMALL | {"trials": 10, "cases": (60, 200), "steps": 700},
    laptop=LAPTOP | {"cases": (80, 600)},
    adapted="class means over a probe set, GeoMNIST alone",
)
