"""layerwise Figure 3.6: Minimal features in regression."""

import xarray as xr

from dynascope.experiments.claims import Claim, below
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import MINIMAL, Recipe, final, regime
from dynascope.experiments.sources import layerwise

MANY, ONE = "classification", "regression"


def run(config: Recipe) -> xr.Dataset:
    """The digit as a number, standardised, and as a class.

    Classes have the recipe's weight decay: with that of the number, targets of a tenth of its variance are not learned.
    """
    data = recipe.load(config)
    first, second = ((each[:, None] - data[1].mean()) / data[1].std() for each in (data[1], data[3]))
    many = recipe.train(config, data, ensemble={"weight_decay": Recipe.weight_decay})
    return recipe.gather({MANY: many, ONE: recipe.train(config, data, targets=(first, second))})


EXPERIMENT = regime(
    layerwise(figure="3.6"),
    Recipe(learning_rate=0.05, weight_decay=2e-2),
    run,
    claims=(
        Claim(
            "fig-3.6-one-feature",
            "on one target fewer features are significant than on one for each class: D_eff(ρ)",
            lambda record: recipe.exceeds(
                (final(record, "effective_dimension", MANY), final(record, "effective_dimension", ONE)),
                note="D_eff(ρ) of the classification, beside the regression's",
            ),
        ),
        Claim(
            "fig-3.6-two",
            "one target leaves a constant and one more feature: D_eff(ρ) < 3",
            lambda record: below(recipe.means(final(record, "effective_dimension", ONE)), 3.0),
        ),
        Claim(
            "fig-3.6-minimal",
            "the regression reaches the minimum feature regime, κ < 0.1",
            lambda record: below(recipe.means(final(record, "kappa", ONE)), MINIMAL),
        ),
    ),
    smoke={"train_per_class": 60, "steps": 500, "seeds": 6},
    adapted="10,000 images; ResNet18 of width 8; fewer steps, more weight decay",
)
