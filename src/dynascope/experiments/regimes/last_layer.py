"""layerwise Figure 2.3: All layers, or the last alone."""

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, above, below
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import MINIMAL, Recipe, final, regime
from dynascope.experiments.sources import layerwise

FULL, LAST = "all layers", "last layer only"
_DIMENSIONS = ("effective_dimension", "dimension_utilization")


def run(config: Recipe) -> xr.Dataset:
    """All layers or the last alone."""
    data = recipe.load(config)
    whole, last = recipe.train(config, data), recipe.train(config, data, ensemble={"trained": "last"})
    return recipe.gather({FULL: whole, LAST: last})


EXPERIMENT = regime(
    layerwise(figure="2.3"),
    Recipe(),
    run,
    claims=(
        Claim(
            "fig-2.3-minimal",
            "trained as a whole a network is in the minimum feature regime, κ < 0.1",
            lambda record: below(recipe.means(final(record, "kappa", FULL)), MINIMAL),
        ),
        Claim(
            "fig-2.3-extended",
            "with its last layer trained alone its features are extended, κ > 0.1",
            lambda record: above(recipe.means(final(record, "kappa", LAST)), MINIMAL),
        ),
        Claim(
            "fig-2.3-ten",
            "trained as a whole it has and uses as many features as classes, up to two: D_eff(ρ) ≈ D_eff(Q̂) ≈ 10",
            lambda record: below(
                recipe.means(*(np.abs(final(record, name, FULL) - 10) for name in _DIMENSIONS)),
                2.0,
                note="distances of D_eff(ρ), D_eff(Q̂) from 10; the text has 11.19 and 10.5",
            ),
            layerwise(equation="2.7", figure="2.3"),
            settles_at="laptop",
        ),
        Claim(
            "fig-2.3-spread",
            "with its last layer trained alone it has and uses more than twice as many",
            lambda record: above(
                recipe.means(*(final(record, name, LAST) for name in _DIMENSIONS)),
                20.0,
                note="D_eff(ρ), D_eff(Q̂); the text has 119 and 121 of 1024 features",
            ),
            layerwise(figure="2.3"),
            settles_at="laptop",
        ),
        Claim(
            "fig-2.3-used",
            "trained as a whole it uses fewer features: D_eff(Q̂) is smaller",
            lambda record: recipe.exceeds(
                (final(record, "dimension_utilization", LAST), final(record, "dimension_utilization", FULL)),
                note="D_eff(Q̂) of the last layer alone, beside the whole network's",
            ),
            layerwise(figure="2.3(b)"),
        ),
    ),
    adapted=(
        "ResNet18 of width 8 on 10,000 images, not a CNN of width 1024 on all of MNIST; fewer steps, more weight decay"
    ),
)
