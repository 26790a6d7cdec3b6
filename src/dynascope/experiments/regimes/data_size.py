"""layerwise Figure 7.1: More data, fewer features."""

from dataclasses import replace

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import PAPER, Recipe, final, regime
from dynascope.experiments.sources import layerwise

SIZES = (1 / 64, 1 / 16, 1 / 4, 1.0)  # parts of the training set
CHANCE = 0.9  # error on ten classes
LONGER = "fewest images, as many steps as the most"


def run(config: Recipe) -> xr.Dataset:
    """Parts of the training set, as many epochs on each as in section 2.4 of the thesis; once more the smallest.

    That one then has as many steps as the largest.
    """
    cases, epochs = {}, config.steps * config.batch_size / config.train_per_class
    few = [max(1, round(part * config.train_per_class)) for part in SIZES]
    for name, each, steps in [*((f"{10 * n} images", n, None) for n in few), (LONGER, few[0], config.steps)]:
        batch = min(config.batch_size, 10 * each)
        own = replace(config, batch_size=batch, steps=steps or max(1, round(epochs * each / batch)))
        cases[name] = recipe.train(own, recipe.load(config, train_per_class=each))
    return recipe.gather(cases)


def _falls(record: xr.Dataset) -> Judgement:
    least, *_, most, _ = record["case"].values
    pair = (final(record, "kappa", least), final(record, "kappa", most))
    note = f"κ of {least} and {most}; as many epochs on each"
    return recipe.exceeds(pair, note=note)


def _learns(record: xr.Dataset) -> Judgement:
    least, *_, most, _ = record["case"].values
    return recipe.exceeds((final(record, "accuracy", most), final(record, "accuracy", least)), note="test accuracies")


def _faster(record: xr.Dataset) -> Judgement:
    """Slopes of log error on log size, as the source draws it: between the two smallest and the two largest sets."""
    errors = [np.log(np.maximum(1 - final(record, "accuracy", case), 1e-3)) for case in record["case"].values[:-1]]
    less, more = (errors[0] - errors[1], errors[-2] - errors[-1])
    note = "fall of log(test error) from a quarter of all images to all, beside that from the smallest set to the next"
    return recipe.exceeds((more, less), note=note)


def _beyond_chance(record: xr.Dataset) -> Judgement:
    """All images, beside one power law through the smaller sets.

    A law under the ceiling of chance bends there by itself: it is one of the odds (chance − error)/error, of which the
    error is the inverse where it is small. Sets on which networks are no better than by chance leave it undetermined.
    """
    odds = [_log_odds(1 - final(record, "accuracy", case)) for case in record["case"].values[:-1]]
    single = odds[-2] + odds[1] - odds[0]
    note = "log((chance − test error)/test error) with all images, beside what one power law through the others gives"
    return recipe.exceeds((odds[-1], single), note=note)


def _log_odds(error: np.ndarray) -> np.ndarray:
    error = np.maximum(error, 1e-3)
    return np.asarray(np.log(np.where(error < CHANCE, CHANCE - error, np.nan) / error))


def _steps(record: xr.Dataset) -> Judgement:
    least = record["case"].values[0]
    pair = (final(record, "kappa", least), final(record, "kappa", LONGER))
    return recipe.exceeds(pair, note=f"κ of {least} after as many epochs as the others, beside {LONGER}")


EXPERIMENT = regime(
    layerwise(figure="7.1"),
    Recipe(),
    run,
    claims=(
        Claim("fig-7.1-kappa", "more data bring features closer to minimal (κ falls)", _falls),
        Claim("fig-7.1-accuracy", "more data make the network generalize better", _learns),
        Claim(
            "fig-7.1-steps",
            "it takes no data: as many steps as the most images have bring the fewest closer to minimal, too (κ falls)",
            _steps,
            kind="own",
            settles_at="paper",  # two digits of a class are too few for any number of steps
        ),
        Claim(
            "fig-7.1-faster",
            "the test error falls by a faster power law where there are more data",
            _faster,
            layerwise(figure="7.1(a)"),
            settles_at="laptop",
        ),
        Claim(
            "fig-7.1-odds",
            "the nearness of chance, where any power law is slow, is not all of it: the odds rise faster, too",
            _beyond_chance,
            layerwise(figure="7.1(a)"),
            kind="own",
            settles_at="laptop",
        ),
    ),
    smoke={"seeds": 6},
    # 100 epochs, with the thesis's weight decay: more keeps networks from fitting as many images
    paper=PAPER | {"data": "cifar10", "seeds": 16, "steps": 7800, "weight_decay": 1e-3},
    adapted="at most 10,000 images of CIFAR-10, averaged to 10 × 10 pixels, not augmented; ResNet18 of width 8",
)
