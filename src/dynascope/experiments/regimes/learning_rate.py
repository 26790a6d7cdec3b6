"""layerwise Figure 7.2: Learning rate and weight decay."""

import xarray as xr

from dynascope.experiments.claims import Claim, Judgement
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import PAPER, Recipe, final, regime
from dynascope.experiments.sources import layerwise

RATES = (1.0, 0.3, 0.01)  # of the recipe's learning rate


def run(config: Recipe) -> xr.Dataset:
    """Three learning rates with the recipe's weight decay, and the highest without any."""
    data, cases = recipe.load(config), {}
    for part in RATES:
        rate = config.learning_rate * part
        cases[f"rate {rate:g}"] = recipe.train(config, data, ensemble={"learning_rate": rate})
    cases["no weight decay"] = recipe.train(config, data, ensemble={"weight_decay": 0.0})
    return recipe.gather(cases)


def _slow(record: xr.Dataset) -> Judgement:
    high, middle, low, _ = (final(record, "kappa", case) for case in record["case"].values)
    return recipe.exceeds((low, middle), (low, high), note="κ of the lowest, and others")


def _slow_accuracy(record: xr.Dataset) -> Judgement:
    high, middle, low, _ = (final(record, "accuracy", case) for case in record["case"].values)
    return recipe.exceeds((middle, low), (high, low))


def _decay(record: xr.Dataset) -> Judgement:
    high, *_, plain = (final(record, "kappa", case) for case in record["case"].values)
    return recipe.exceeds((plain, high), note="κ without weight decay, beside that with it")


EXPERIMENT = regime(
    layerwise(figure="7.2"),
    Recipe(),
    run,
    claims=(
        Claim(
            "fig-7.2a-kappa",
            "the lowest learning rate leaves the features furthest from minimal",
            _slow,
            layerwise(figure="7.2(a)"),
        ),
        Claim(
            "fig-7.2a-accuracy",
            "the lowest learning rate performs worst",
            _slow_accuracy,
            layerwise(figure="7.2(a)"),
        ),
        Claim(
            "fig-7.2b-kappa",
            "weight decay brings features closer to minimal (κ falls)",
            _decay,
            layerwise(figure="7.2(b)"),
        ),
    ),
    paper=PAPER | {"data": "fashion", "train_per_class": 900},
)
