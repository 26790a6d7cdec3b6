"""Figures 2.3, 2.4, 3.5, 3.6 and 6.3: when features are minimal, and that labels, not images, set their number."""

import time
from dataclasses import replace
from typing import Any

import xarray as xr

from dynascope.data import corrupt_labels
from dynascope.experiments.claims import Claim
from dynascope.experiments.regimes.recipe import (
    LAPTOP,
    MINIMAL,
    PAPER,
    SMOKE,
    Recipe,
    above,
    below,
    each_exceeds,
    exceeds,
    final,
    gather,
    load,
    plot,
    smaller,
    train,
)
from dynascope.experiments.registry import Experiment

_FULL, _LAST, _LAZY = "all layers", "last layer only", "targets over 100"
_SHARES = {"true labels": 0.0, "10 % random": 0.1, "all random": 1.0}
_CLASSES = (3, 6, 10)


# --- figure 2.3: all layers, or the last one alone -----------------------------------------------------------------

FEWER = Claim(
    "fig-2.3-minimal", "layerwise figure 2.3", "trained as a whole a network is in the minimum feature regime, κ < 0.1"
)
EXTENDED = Claim(
    "fig-2.3-extended", "layerwise figure 2.3", "with its last layer trained alone its features are extended, κ > 0.1"
)
USED = Claim(
    "fig-2.3-used", "layerwise figure 2.3(b)", "trained as a whole it uses fewer features: D_eff(Q̂) is smaller"
)


def run_last(config: Recipe) -> xr.Dataset:
    """All layers or the last alone."""
    begun = time.perf_counter()
    data = load(config)
    cases = {_FULL: train(config, data), _LAST: train(config, data, ensemble={"trained": "last"})}
    return gather("figure 2.3", config, cases, time.perf_counter() - begun)


def check_last(record: xr.Dataset) -> tuple[Claim, ...]:
    """κ and the number of used features of both."""
    used = [final(record, "dimension_utilization", case) for case in (_LAST, _FULL)]
    return (
        below(FEWER, MINIMAL, final(record, "kappa", _FULL)),
        above(EXTENDED, MINIMAL, final(record, "kappa", _LAST)),
        exceeds(USED, *used, note="D_eff(Q̂) of the last layer alone, beside the whole network's"),
    )


# --- figure 6.3: small targets ---------------------------------------------------------------------------------------

RICH = Claim(
    "fig-6.3-rich", "layerwise figure 6.3", "the rich network is nearer to minimal features than the lazy one (κ)"
)
LINEAR = Claim(
    "fig-6.3-linear",
    "layerwise figure 6.3",
    "the linear model has features further from minimal than the rich network (κ)",
)
LAZY_EXTENDED = Claim(
    "fig-6.3-extended", "layerwise figure 6.3", "the lazy network and the linear model have extended features, κ > 0.1"
)


def run_lazy(config: Recipe) -> xr.Dataset:
    """All layers, all layers on targets a hundredth as large, the last layer alone."""
    begun = time.perf_counter()
    data = load(config)
    plain: dict[str, Any] = {"weight_decay": 0.0}
    cases = {
        _FULL: train(config, data, ensemble=plain),
        _LAZY: train(config, data, ensemble=plain, network={"target_scale": 0.01}),
        _LAST: train(config, data, ensemble=plain | {"trained": "last"}),
    }
    return gather("figure 6.3", config, cases, time.perf_counter() - begun)


def check_lazy(record: xr.Dataset) -> tuple[Claim, ...]:
    """κ of the three."""
    full, lazy, last = (final(record, "kappa", case) for case in (_FULL, _LAZY, _LAST))
    return (
        exceeds(RICH, lazy, full, note="κ with small targets, beside that with plain ones"),
        exceeds(LINEAR, last, full, note="κ of the last layer alone, beside the whole network's"),
        above(LAZY_EXTENDED, MINIMAL, lazy, last),
    )


# --- figure 3.5: random labels --------------------------------------------------------------------------------------

ANY_LABELS = Claim(
    "fig-3.5-random-labels",
    "layerwise figure 3.5",
    "features become minimal with true, spoilt and random labels, κ < 0.1",
)
PERFORMANCE = Claim(
    "fig-3.5-accuracy",
    "layerwise figure 3.5",
    "with random labels the network does not generalize, though it fits them",
)
FITTED = Claim("fig-3.5-fitted", "layerwise figure 3.5", "random labels are fitted")


def run_labels(config: Recipe) -> xr.Dataset:
    """Labels of which a share is drawn anew; measured on the spoilt training set and on test images."""
    begun = time.perf_counter()
    x, y, xt, yt = load(config)
    cases = {
        name: train(
            config,
            (x, corrupt_labels(y, share, method="reset", seed=config.seed), xt, yt),
        )
        for name, share in _SHARES.items()
    }
    return gather("figure 3.5", config, cases, time.perf_counter() - begun)


def check_labels(record: xr.Dataset) -> tuple[Claim, ...]:
    """κ of all three; accuracy of the extremes."""
    kappas = [record["kappa"].sel(case=case, probe="train").isel(step=-1).values for case in _SHARES]
    true, random = (final(record, "accuracy", case) for case in ("true labels", "all random"))
    fitted = record["accuracy"].sel(case="all random", probe="train").isel(step=-1).values
    return (
        below(ANY_LABELS, MINIMAL, *kappas, note=f"{', '.join(_SHARES)}; κ on training images"),
        exceeds(PERFORMANCE, true, random, margin=0.3, note="test accuracy, beside that after random labels plus 0.3"),
        above(FITTED, 0.9, fitted, note="training accuracy"),
    )


# --- figure 3.6: regression -----------------------------------------------------------------------------------------

ONE_FEATURE = Claim(
    "fig-3.6-one-feature",
    "layerwise figure 3.6",
    "on one target fewer features are significant than on one for each class: D_eff(ρ)",
)
NEAR_TWO = Claim(
    "fig-3.6-two", "layerwise figure 3.6", "one target leaves a constant and one more feature: D_eff(ρ) < 3"
)
REGRESSION = Claim(
    "fig-3.6-minimal", "layerwise figure 3.6", "the regression reaches the minimum feature regime, κ < 0.1"
)


def run_regression(config: Recipe) -> xr.Dataset:
    """The digit as a number, standardised, and as a class."""
    begun = time.perf_counter()
    data = load(config)
    numbers = tuple((each[:, None] - data[1].mean()) / data[1].std() for each in (data[1], data[3]))
    cases = {
        "classification": train(config, data),
        "regression": train(config, data, targets=(numbers[0], numbers[1])),
    }
    return gather("figure 3.6", config, cases, time.perf_counter() - begun)


def check_regression(record: xr.Dataset) -> tuple[Claim, ...]:
    """Effective dimensions of both, κ of the regression."""
    many, one = (final(record, "effective_dimension", case) for case in ("classification", "regression"))
    return (
        exceeds(ONE_FEATURE, many, one, note="D_eff(ρ) of the classification, beside the regression's"),
        below(NEAR_TWO, 3.0, one),
        below(REGRESSION, MINIMAL, final(record, "kappa", "regression")),
    )


# --- figure 2.4: number of classes ----------------------------------------------------------------------------------

MORE_CLASSES = Claim(
    "fig-2.4-classes", "layerwise figure 2.4", "the more classes, the more features are significant: D_eff(ρ) grows"
)
EACH_MINIMAL = Claim(
    "fig-2.4-minimal", "layerwise figure 2.4", "features are minimal for any number of classes, κ < 0.1"
)
CIFAR_100 = Claim(
    "fig-2.4-cifar100", "layerwise figure 2.4", "ResNet18 on 10, 20 and 100 classes of CIFAR-100: κ < 0.1"
)


def run_classes(config: Recipe) -> xr.Dataset:
    """Some, most and all of the ten classes."""
    begun = time.perf_counter()
    cases = {f"{n} classes": train(config, load(config, classes=n)) for n in _CLASSES}
    return gather("figure 2.4", config, cases, time.perf_counter() - begun)


def check_classes(record: xr.Dataset) -> tuple[Claim, ...]:
    """Effective dimensions against the number of classes."""
    few, more, all_ten = (final(record, "effective_dimension", f"{n} classes") for n in _CLASSES)
    kappas = [final(record, "kappa", f"{n} classes") for n in _CLASSES]
    return (
        each_exceeds(MORE_CLASSES, (more, few), (all_ten, more)),
        below(EACH_MINIMAL, MINIMAL, *kappas),
        replace(CIFAR_100, note="needs CIFAR-100, which is not at hand"),
    )


def _scales(smoke: dict[str, Any] | None = None, **changes: Any) -> dict[str, Recipe]:
    """The three scales with changes at all of them, and some at the smallest alone."""
    small = smaller(SMOKE, **(changes | (smoke or {})))
    return {"smoke": small, "laptop": smaller(LAPTOP, **changes), "paper": smaller(PAPER, **changes)}


LAST_LAYER = Experiment(
    title="All layers, or the last alone",
    source="layerwise figure 2.3",
    kind="figure",
    claims=(FEWER, EXTENDED, USED),
    scales=_scales(),
    run=run_last,
    check=check_last,
    plot=plot,
)
LAZY = Experiment(
    title="Small targets make a network lazy",
    source="layerwise figure 6.3",
    kind="figure",
    claims=(RICH, LINEAR, LAZY_EXTENDED),
    scales={  # four layers, fully connected, no batch norm
        "smoke": smaller(SMOKE, batch_norm=False, learning_rate=0.5, steps=1300, cool=0.2),
        "laptop": smaller(LAPTOP, batch_norm=False, learning_rate=0.3),
        "paper": smaller(PAPER, network="mlp", width=256, batch_norm=False, learning_rate=0.3, steps=5000),
    },
    run=run_lazy,
    check=check_lazy,
    plot=plot,
)
LABELS = Experiment(
    title="Minimal features with random labels",
    source="layerwise figure 3.5",
    kind="figure",
    claims=(ANY_LABELS, PERFORMANCE, FITTED),
    scales={  # few images, else random labels are not fitted in as many steps
        "smoke": smaller(SMOKE, train_per_class=10, steps=800),
        "laptop": smaller(LAPTOP, train_per_class=30, steps=3000),
        "paper": smaller(PAPER, train_per_class=100, steps=3000, weight_decay=1e-3),
    },
    run=run_labels,
    check=check_labels,
    plot=plot,
)
REGRESSIONS = Experiment(
    title="Minimal features in regression",
    source="layerwise figure 3.6",
    kind="figure",
    claims=(ONE_FEATURE, NEAR_TWO, REGRESSION),
    scales=_scales({"train_per_class": 60, "steps": 500}, learning_rate=0.05, weight_decay=2e-2),
    run=run_regression,
    check=check_regression,
    plot=plot,
)
CLASSES = Experiment(
    title="Minimal features for any number of classes",
    source="layerwise figure 2.4",
    kind="figure",
    claims=(MORE_CLASSES, EACH_MINIMAL, CIFAR_100),
    scales=_scales(),
    run=run_classes,
    check=check_classes,
    plot=plot,
)
