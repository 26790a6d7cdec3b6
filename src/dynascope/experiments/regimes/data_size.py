"""layerwise Figure 7.1: More data, fewer features."""

from dataclasses import replace

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
    return recipe.exceeds(pair, note=f"κ of {least} and {most}")


def _learns(record: xr.Dataset) -> Judgement:
    least, *_, most = record["case"].values
    return recipe.exceeds((final(record, "accuracy", most), final(record, "accuracy", least)), note="test accuracies")


EXPERIMENT = regime(
    layerwise(figure="7.1"),
    Recipe(),
    run,
    claims=(
        Claim("fig-7.1-kappa", "more data bring features closer to minimal (κ falls)", _falls),
        Claim("fig-7.1-accuracy", "more data make the network generalize better", _learns),
    ),
    smoke={"seeds": 6},
    paper=PAPER | {"data": "cifar10", "seeds": 20, "steps": 3000},
)
