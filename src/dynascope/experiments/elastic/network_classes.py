"""elastic Figure D.4: Strengths of networks by number of classes."""

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.elastic.network_cases import LAPTOP, Config, final_growth, picture, run
from dynascope.experiments.elastic.network_training import SMALL, at_end
from dynascope.experiments.experiment import Experiment
from dynascope.experiments.sources import elastic
from dynascope.statistics.errors import Estimate, over_trials


def _scaled(record: xr.Dataset) -> Judgement:
    """A − B is K times a logarithm: what is left of its change beside that factor."""
    whole = final_growth(record)
    growth = whole.scaled(1 / record["case"].values)
    note = f"largest less smallest (A − B)/K; A − B by classes {np.round(whole.mean, 2).tolist()}"
    return above(Estimate(np.ptp(growth.mean), np.linalg.norm(growth.error), growth.runs), 0.0, note=note)


def _accurate(record: xr.Dataset) -> Judgement:
    """Validation accuracy with two classes, at its best step."""
    accuracy = record["accuracy"].astype(float)
    two, best = accuracy.sel(case=2), accuracy.mean("trial").max("step").values
    found = over_trials(two.isel(step=int(two.mean("trial").argmax("step"))))
    return above(found, 0.9, note=f"at its best step; by number of classes {best.round(3).tolist()}")


EXPERIMENT = Experiment(
    elastic(figure="D.4"),
    Config(data="cifar10", varied="classes", cases=(2, 3), per_class=5000, probes=1000),
    run,
    claims=(
        Claim(
            "elastic-figd4-intra",
            "A grows for any number of classes, I-model",
            lambda r: above(at_end(r, "integrated_intra"), 0.0),
        ),
        Claim(
            "elastic-figd4-inter",
            "B falls for any number of classes, I-model",
            lambda r: below(at_end(r, "integrated_inter"), 0.0),
            settles_at="paper",
        ),
        Claim(
            "elastic-figd4-scale",
            "the number of classes changes the scale of A − B, beyond the factor K that defines it",
            _scaled,
            kind="derived",
            settles_at="paper",
        ),
        Claim(
            "elastic-sec4-two",
            "with two classes validation accuracy on photographs exceeds 0.9",
            _accurate,
            elastic(section="4.1"),
            kind="derived",
            settles_at="paper",
        ),
    ),
    picture=picture("classes"),
    model="Ensemble",
    precision="float32",
    needs=("torch", "sklearn"),
    smoke=SMALL | {"trials": 10, "data": "digits", "per_class": 100, "steps": 600},  # digits stand for photographs
    laptop=LAPTOP | {"per_class": 2000},
    adapted="a third of the steps: the curves have bent by then",
)
