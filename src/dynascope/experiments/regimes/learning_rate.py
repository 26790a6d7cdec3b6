"""layerwise Figure 7.2: Learning rate and weight decay."""

from dataclasses import replace

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import PAPER, Recipe, final, regime
from dynascope.experiments.sources import layerwise

RATES = (1.0, 0.3, 0.1)  # of the recipe's learning rate
SHORT = "lowest rate, as many steps"
_EQUALLY = "steps × learning rate are the same; networks that fit their training set"
FITTED = 0.95  # training accuracy from which on a network counts as trained


def run(config: Recipe) -> xr.Dataset:
    """Three learning rates with the recipe's weight decay, the lower the longer, and the highest without any.

    Once more the lowest, for no longer than the highest.
    """
    data, cases = recipe.load(config), {}
    for part in RATES:
        rate = config.learning_rate * part
        longer = replace(config, steps=round(config.steps / part))
        cases[f"rate {rate:g}"] = recipe.train(longer, data, ensemble={"learning_rate": rate})
    cases["no weight decay"] = recipe.train(config, data, ensemble={"weight_decay": 0.0})
    cases[SHORT] = recipe.train(config, data, ensemble={"learning_rate": config.learning_rate * RATES[-1]})
    return recipe.gather(cases)


def _trained(record: xr.Dataset, name: str) -> list[np.ndarray]:
    """Values of each case at its end, but the short one, of the networks that have fitted their training set."""
    cases = record["case"].values[:-1]
    reached = [recipe.at_the_end(record, "accuracy", case, "train") >= FITTED for case in cases]
    return [final(record, name, case)[fit] for fit, case in zip(reached, cases, strict=True)]


def _slow(record: xr.Dataset) -> Judgement:
    high, middle, low, _ = _trained(record, "kappa")
    return recipe.exceeds((low, middle), (low, high), note=f"κ of the lowest, and others; {_EQUALLY}")


def _slow_accuracy(record: xr.Dataset) -> Judgement:
    high, middle, low, _ = _trained(record, "accuracy")
    return recipe.exceeds((middle, low), (high, low), note=f"test accuracies; {_EQUALLY}")


def _short(record: xr.Dataset) -> Judgement:
    high = record["case"].values[0]
    pair = (final(record, "kappa", SHORT), final(record, "kappa", high))
    return recipe.exceeds(pair, note=f"κ of {SHORT}, beside the highest's")


def _short_accuracy(record: xr.Dataset) -> Judgement:
    high = record["case"].values[0]
    pair = (final(record, "accuracy", high), final(record, "accuracy", SHORT))
    return recipe.exceeds(pair, note=f"test accuracy of the highest rate, beside that of {SHORT}")


def _decay(record: xr.Dataset) -> Judgement:
    high, *_, plain = _trained(record, "kappa")
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
            settles_at="laptop",  # as most here: digits are fitted at any rate, by few networks
            why=("fig-7.2a-steps, less training does it",),
        ),
        Claim(
            "fig-7.2a-accuracy",
            "the lowest learning rate performs worst",
            _slow_accuracy,
            layerwise(figure="7.2(a)"),
            settles_at="laptop",
            why=("fig-7.2a-steps-accuracy, less training does it",),
        ),
        Claim(
            "fig-7.2a-steps",
            "after as many steps, that is less training, the lowest learning rate is further from minimal (κ)",
            _short,
            layerwise(figure="7.2(a)"),
            kind="own",
            settles_at="laptop",
        ),
        Claim(
            "fig-7.2a-steps-accuracy",
            "after as many steps the lowest learning rate performs worse than the highest",
            _short_accuracy,
            layerwise(figure="7.2(a)"),
            kind="own",
            settles_at="paper",  # digits are soon learned
        ),
        Claim(
            "fig-7.2b-kappa",
            "weight decay brings features closer to minimal (κ falls)",
            _decay,
            layerwise(figure="7.2(b)"),
            settles_at="laptop",
        ),
    ),
    smoke={"steps": 100},
    # few images and as much decay in all, over more steps: so that networks fit their images at the highest rate, too
    # more networks, and all test images, since accuracies at these rates differ by a hundredth
    paper=PAPER
    | {"data": "cifar10", "train_per_class": 300, "test_per_class": 1000, "seeds": 60}
    | {"steps": 3000, "weight_decay": 2e-3},
    adapted=(
        "3000 images of CIFAR-10, averaged to 10 × 10 pixels, also for CIFAR-100; ResNet18 of width 8; twice the "
        "weight decay"
    ),
)
