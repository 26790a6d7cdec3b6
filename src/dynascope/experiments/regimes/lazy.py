"""layerwise Figure 6.3: Small targets make a network lazy."""

import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.last_layer import FULL, LAST
from dynascope.experiments.regimes.recipe import LAPTOP, MINIMAL, PAPER, Recipe, final, regime
from dynascope.experiments.sources import layerwise

LAZY = "targets over 100"


def run(config: Recipe) -> xr.Dataset:
    """All layers, all layers on targets a hundredth as large, the last layer alone."""
    data, plain = recipe.load(config), {"weight_decay": 0.0}
    return recipe.gather(
        {
            FULL: recipe.train(config, data, ensemble=plain),
            LAZY: recipe.train(config, data, ensemble=plain, network={"target_scale": 0.01}),
            LAST: recipe.train(config, data, ensemble=plain | {"trained": "last"}),
        }
    )


def _further(record: xr.Dataset, case: str, note: str) -> Judgement:
    """κ of a case, beyond that of the network whose layers are all trained on plain targets."""
    return recipe.exceeds((final(record, "kappa", case), final(record, "kappa", FULL)), note=note)


def _extended(record: xr.Dataset) -> Judgement:
    return above(recipe.means(*(final(record, "kappa", case) for case in (LAZY, LAST))), MINIMAL)


def _constant(record: xr.Dataset) -> Judgement:
    overlaps = recipe.means(*(final(record, "constant_overlap", case) for case in (FULL, LAZY, LAST)))
    return above(overlaps, 0.95, note="⟨e₁|1⟩ on test samples, 1 at most; the linear model has untrained features")


EXPERIMENT = regime(
    layerwise(figure="6.3"),
    Recipe(batch_norm=False),  # four layers, fully connected, no batch norm
    run,
    claims=(
        Claim(
            "fig-6.3-rich",
            "the rich network is nearer to minimal features than the lazy one (κ)",
            lambda record: _further(record, LAZY, "κ with small targets, beside that with plain ones"),
        ),
        Claim(
            "fig-6.3-linear",
            "the linear model has features further from minimal than the rich network (κ)",
            lambda record: _further(record, LAST, "κ of the last layer alone, beside the whole network's"),
            settles_at="laptop",  # as the next ones: three networks are too few for the linear model's spread
        ),
        Claim(
            "fig-6.3-extended",
            "the lazy network and the linear model have extended features, κ > 0.1",
            _extended,
            settles_at="laptop",
        ),
        Claim(
            "sec-2.5.1-constant",
            "the first feature is nearly constant, ⟨e₁|1⟩ > 0.95, in rich and lazy networks and the linear model",
            _constant,
            layerwise(section="2.5.1"),
            settles_at="laptop",
        ),
    ),
    smoke={"learning_rate": 0.5, "steps": 1300, "cool": 0.2},
    laptop=LAPTOP | {"learning_rate": 0.3},
    paper=PAPER | {"network": "mlp", "width": 256, "learning_rate": 0.3, "steps": 5000},
    adapted="learning rate, steps and weight decay, which the source leaves out for this figure",
)
