"""layerwise Figure 3.5: Minimal features with random labels."""

import numpy as np
import xarray as xr

from dynascope.data import corrupt_labels
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import LAPTOP, MINIMAL, PAPER, Recipe, final, regime
from dynascope.experiments.sources import layerwise
from dynascope.statistics.errors import side_by_side

SHARES = {"true labels": 0.0, "10 % random": 0.1, "all random": 1.0}


def run(config: Recipe) -> xr.Dataset:
    """Labels of which a share is drawn anew; measured on the spoilt training set and on test images."""
    x, y, xt, yt = recipe.load(config)
    spoilt = {name: corrupt_labels(y, share, method="reset", seed=config.seed) for name, share in SHARES.items()}
    return recipe.gather({name: recipe.train(config, (x, labels, xt, yt)) for name, labels in spoilt.items()})


def _trained(record: xr.Dataset, name: str, case: str) -> np.ndarray:
    """Values of the networks of a case at the end, on training samples."""
    return recipe.at_the_end(record, name, case, "train")


def _by_chance(record: xr.Dataset) -> Judgement:
    true, random = (recipe.means(final(record, "accuracy", case)) for case in ("true labels", "all random"))
    note = "test accuracy after random labels, beside twice that by chance and beside that after true ones less 0.3"
    return below(side_by_side(random, random.against(true)), [0.2, float(true.mean[0]) - 0.3], note=note)


EXPERIMENT = regime(
    layerwise(figure="3.5"),
    Recipe(),
    run,
    claims=(
        Claim(
            "fig-3.5-random-labels",
            "features of digits become minimal with true, spoilt and random labels, κ < 0.1",
            lambda record: below(
                recipe.means(*(_trained(record, "kappa", case) for case in SHARES)),
                MINIMAL,
                note=f"{', '.join(SHARES)}; κ on training images",
            ),
        ),
        Claim(
            "fig-3.5-accuracy",
            "with random labels of digits the network does not generalize, though it fits them",
            _by_chance,
        ),
        Claim(
            "fig-3.5-fitted",
            "random labels of digits are fitted",
            lambda record: above(
                recipe.means(_trained(record, "accuracy", "all random")), 0.9, note="training accuracy"
            ),
        ),
    ),
    # few images, else random labels are not fitted in as many steps
    smoke={"train_per_class": 10, "steps": 800},
    laptop=LAPTOP | {"train_per_class": 30, "steps": 3000},
    paper=PAPER | {"train_per_class": 100, "steps": 3000, "weight_decay": 1e-3},
    adapted="1000 images of MNIST, not 10,000 of CIFAR-10; ResNet18 of width 8",
)
