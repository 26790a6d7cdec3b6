"""layerwise Figure 2.4: Minimal features for any number of classes."""

import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, below, not_run
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import MINIMAL, Recipe, final, regime
from dynascope.experiments.sources import layerwise

CLASSES = (3, 6, 10)


def run(config: Recipe) -> xr.Dataset:
    """Some, most and all of the ten classes."""
    return recipe.gather({f"{n} classes": recipe.train(config, recipe.load(config, classes=n)) for n in CLASSES})


def _grows(record: xr.Dataset) -> Judgement:
    few, more, all_ten = (final(record, "effective_dimension", f"{n} classes") for n in CLASSES)
    return recipe.exceeds((more, few), (all_ten, more))


EXPERIMENT = regime(
    layerwise(figure="2.4"),
    Recipe(),
    run,
    claims=(
        Claim(
            "fig-2.4-classes",
            "the more classes of digits (3, 6, 10), the more features are significant: D_eff(ρ) grows",
            _grows,
        ),
        Claim(
            "fig-2.4-minimal",
            "features are minimal for any number of classes of digits (3, 6, 10), κ < 0.1",
            lambda record: below(recipe.means(*(final(record, "kappa", f"{n} classes") for n in CLASSES)), MINIMAL),
        ),
        Claim(
            "fig-2.4-cifar100",
            "ResNet18 on 10, 20 and 100 classes of CIFAR-100: κ < 0.1",
            lambda record: not_run("needs CIFAR-100, which is not at hand"),
        ),
    ),
    smoke={"seeds": 6},
    adapted=(
        "3, 6 and 10 classes of MNIST, not 10, 20 and 100 of CIFAR-100; ResNet18 of width 8; fewer images and "
        "steps, more weight decay"
    ),
)
