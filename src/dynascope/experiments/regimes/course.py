"""layerwise Figure 7.5–7.7, Figure C.3: Features in the course of training.

Which features are used early and late, by a residual and by a fully connected network.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

from dynascope.experiments.claims import Claim, Judgement, above, below, not_run
from dynascope.experiments.experiment import settings
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import LAPTOP, MINIMAL, Recipe, final, regime
from dynascope.experiments.sources import layerwise
from dynascope.statistics.errors import over_trials

PARTS = (0.4, 1.0)  # of the steps, at which features are decomposed: 1600 are 4 epochs of the thesis, which says 5
RESIDUAL, SLOW, FCN = "ResNet18", "ResNet18, slower", "FCN"
MNIST, ENTROPY = "FCN on MNIST", "FCN on MNIST, cross-entropy"
SHOWN = 20  # features of the figures
_REASON = "needs CIFAR-10 and MNIST"


def run(config: Recipe) -> xr.Dataset:
    """Train every network for two lengths of time, at one learning rate; the FCN on MNIST five times as long.

    Residual networks differ most among themselves: there are twice as many.

    The latter has all images and a rate that falls at the end: the thesis trains it for some 100,000 steps. Its loss is
    the squared one unless it says otherwise (chapter 1); cross-entropy is run beside it.
    """
    plain: dict[str, Any] = {"network": "mlp", "width": 512, "batch_norm": False}
    many = replace(config, seeds=2 * config.seeds)
    if config.data == "digits":  # an MLP with batch norm, which has few features too, stands in
        cases = {RESIDUAL: config, FCN: replace(config, batch_norm=False)}
    else:
        cases = {
            RESIDUAL: many,
            SLOW: replace(many, learning_rate=config.learning_rate / 5),
            FCN: replace(config, **plain),
        }
        digits = replace(config, data="mnist", steps=5 * config.steps, train_per_class=5400, cool=0.3, **plain)
        cases |= {MNIST: replace(digits, loss="mse", learning_rate=2 * config.learning_rate), ENTROPY: digits}
    return recipe.gather({name: _course(own) for name, own in cases.items()})


def _course(config: Recipe) -> xr.Dataset:
    data = recipe.load(config)
    lengths = [max(1, round(part * config.steps)) for part in PARTS[:-1]]
    runs = [recipe.train(own, data) for own in (*(recipe.shortened(config, each) for each in lengths), config)]
    kept = [run[["cumulative_utilization", "cumulative_quality"]] for run in runs]
    return (
        runs[-1]
        .assign({f"early_{name}": xr.concat([each[name] for each in kept], "part") for name in kept[0]})
        .assign_coords(part=list(PARTS))
    )


def _held(record: xr.Dataset, case: str) -> np.ndarray:
    """Share of the outputs that the first ten features express, (part, trial)."""
    held = record["early_cumulative_utilization"].sel(case=case, feature=10).dropna("trial")
    return np.asarray(held.transpose("part", "trial"))


def _known(record: xr.Dataset) -> bool:
    return bool(settings(record).data != "digits")


def _first_ten(record: xr.Dataset, case: str) -> Judgement:
    if not _known(record):
        return not_run(_REASON)
    note = f"share of the outputs in the first 10 features after {PARTS} of the steps"
    return above(over_trials(_held(record, case)), 0.9, note=note)


def _more_features(record: xr.Dataset) -> Judgement:
    if not _known(record):
        return not_run(_REASON)
    early, end = _held(record, FCN)
    note = f"fall of the share in the first 10 features from {PARTS[0]} of the steps on"
    return above(over_trials(early - end), 0.0, note=note)


def _minimal(record: xr.Dataset) -> Judgement:
    if not _known(record):
        return not_run(_REASON)
    note = "four layers of width 512, squared loss, the thesis's own where it names none; with another: fig-7.6-loss"
    return below(recipe.means(final(record, "kappa", MNIST)), MINIMAL, note=note)


def _loss(record: xr.Dataset) -> Judgement:
    if not _known(record):
        return not_run(_REASON)
    note = "κ with cross-entropy, which leaves the outputs faint in some directions"
    return above(recipe.means(final(record, "kappa", ENTROPY)), MINIMAL, note=note)


def _together(record: xr.Dataset) -> Judgement:
    """Rank correlation of intensity with single quality and with utilization, over the first 20 features."""
    found = []
    for name in ("cumulative_quality", "cumulative_utilization"):
        own = record[name].sel(case=RESIDUAL, feature=slice(1, SHOWN))
        shares = own.dropna("trial", how="all").transpose("trial", "feature").values  # other cases have more trials
        single = np.nan_to_num(np.diff(shares, axis=1, prepend=0.0))  # features that do not exist have no share
        order = -np.arange(single.shape[1])
        found.append([float(spearmanr(order, each).statistic) for each in single])
    note = f"rank correlation with quality, with utilization, first {SHOWN} features; none: 0"
    return above(recipe.means(*map(np.array, found)), 0.5, note=note)


EXPERIMENT = regime(
    layerwise(figure="7.5–7.7, C.3"),
    Recipe(loss="cross_entropy", learning_rate=0.05, weight_decay=1e-3, cool=0.0),
    run,
    claims=(
        Claim(
            "fig-7.5a-ten",
            "ResNet18 on CIFAR-10 uses its first 10 features only, from early on",
            lambda record: _first_ten(record, RESIDUAL),
            layerwise(figure="7.4(a), 7.5(a)"),
            settles_at="paper",
        ),
        Claim(
            "fig-7.5b-more",
            "a fully connected network on CIFAR-10 uses more features later on",
            _more_features,
            layerwise(figure="7.5(b)"),
            settles_at="laptop",
        ),
        Claim(
            "fig-7.6-minimal",
            "the fully connected network reaches the minimum feature regime on MNIST, κ < 0.1",
            _minimal,
            layerwise(figure="7.6"),
            settles_at="laptop",
        ),
        Claim(
            "fig-7.6-loss",
            "with cross-entropy it does not get there, κ > 0.1",
            _loss,
            layerwise(figure="7.6"),
            kind="own",
            settles_at="laptop",
        ),
        Claim(
            "fig-7.7-together",
            "more intense features have more quality and utilization: rank correlation above 0.5",
            _together,
            layerwise(figure="7.7"),
            settles_at="laptop",
        ),
        Claim(
            "fig-C.3-ten",
            "at a slower learning rate ResNet18 on CIFAR-10, too, uses its first 10 features only",
            lambda record: _first_ten(record, SLOW),
            layerwise(figure="C.3"),
            settles_at="paper",
        ),
    ),
    smoke={"seeds": 4},
    laptop=LAPTOP
    | {"data": "cifar10", "network": "resnet", "width": 8, "train_per_class": 1000, "steps": 1600, "seeds": 5},
    paper=LAPTOP
    | {"data": "cifar10", "network": "resnet", "width": 16, "train_per_class": 1000, "steps": 4000, "seeds": 9},
    adapted=(
        "10,000 images of CIFAR-10, averaged to 10 × 10 pixels, also for CIFAR-100; ResNet18 of width 16, also for "
        "VGG16; fewer steps"
    ),
)
