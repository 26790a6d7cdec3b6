"""layerwise Figure 7.1: More data, fewer features."""

from dataclasses import replace

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import PAPER, Recipe, final, regime
from dynascope.experiments.sources import layerwise

SIZES = (1 / 64, 1 / 16, 1 / 4, 1.0)  # parts of the training set


def run(config: Recipe) -> xr.Dataset:
    """Parts of the training set, as many steps on each."""
    cases = {}
    for part in SIZES:
        few = max(1, round(part * config.train_per_class))
        own = replace(config, batch_size=min(config.batch_size, 10 * few))
        cases[f"{10 * few} images"] = recipe.train(own, recipe.load(config, train_per_class=few))
    return recipe.gather(cases)


def _falls(record: xr.Dataset) -> Judgement:
    least, *_, most = record["case"].values
    pair = (final(record, "kappa", least), final(record, "kappa", most))
    note = f"κ of {least} and {most}; sizes are quarters of each other, fixed before CIFAR-10 was tried"
    return recipe.exceeds(pair, note=note)


def _learns(record: xr.Dataset) -> Judgement:
    least, *_, most = record["case"].values
    return recipe.exceeds((final(record, "accuracy", most), final(record, "accuracy", least)), note="test accuracies")


def _faster(record: xr.Dataset) -> Judgement:
    """Slopes of log error on log size: those between the two smallest and between the two largest sets."""
    errors = [np.log(1 - np.minimum(final(record, "accuracy", case), 1 - 1e-3)) for case in record["case"].values]
    less, more = (errors[0] - errors[1], errors[-2] - errors[-1])
    note = "fall of log(test error) from a quarter of all images to all, beside that from the smallest set to the next"
    return recipe.exceeds((more, less), note=note)


EXPERIMENT = regime(
    layerwise(figure="7.1"),
    Recipe(),
    run,
    claims=(
        Claim("fig-7.1-kappa", "more data bring features closer to minimal (κ falls)", _falls),
        Claim("fig-7.1-accuracy", "more data make the network generalize better", _learns),
        Claim(
            "fig-7.1-faster",
            "the test error falls by a faster power law where there are more data",
            _faster,
            layerwise(figure="7.1(a)"),
            settles_at="laptop",
        ),
    ),
    smoke={"seeds": 6},
    paper=PAPER | {"data": "cifar10", "seeds": 20, "steps": 3000},
)
