"""Figures 7.1 to 7.4 and Table 2.2: data size, learning rate, weight decay, batch norm and architecture move κ."""

import time
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.regimes.recipe import (
    LAPTOP,
    MINIMAL,
    PAPER,
    SMOKE,
    Recipe,
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

_SIZES = (0.05, 0.25, 1.0)  # parts of the training set
_RATES = (1.0, 0.3, 0.01)  # of the recipe's learning rate
_ORIGINAL = "the original needs {}, which is not at hand"


# --- figure 7.1: size of the training set -------------------------------------------------------------------------

MORE_DATA = Claim("fig-7.1-kappa", "layerwise figure 7.1", "more data bring features closer to minimal (κ falls)")
LEARNS = Claim("fig-7.1-accuracy", "layerwise figure 7.1", "more data make the network generalize better")


def run_sizes(config: Recipe) -> xr.Dataset:
    """Parts of the training set, as many steps on each."""
    begun = time.perf_counter()
    cases = {}
    for part in _SIZES:
        few = max(1, round(part * config.train_per_class))
        own = smaller(config, batch_size=min(config.batch_size, 10 * few))
        cases[f"{10 * few} images"] = train(own, load(config, train_per_class=few))
    return gather("figure 7.1", config, cases, time.perf_counter() - begun)


def check_sizes(record: xr.Dataset) -> tuple[Claim, ...]:
    """The smallest part beside the whole."""
    least, *_, most = record["case"].values
    return (
        exceeds(
            MORE_DATA, final(record, "kappa", least), final(record, "kappa", most), note=f"κ of {least} and {most}"
        ),
        exceeds(LEARNS, final(record, "accuracy", most), final(record, "accuracy", least), note="test accuracies"),
    )


# --- figure 7.2: learning rate and weight decay -------------------------------------------------------------------

SLOW = Claim(
    "fig-7.2a-kappa", "layerwise figure 7.2(a)", "the lowest learning rate leaves the features furthest from minimal"
)
SLOW_ACCURACY = Claim("fig-7.2a-accuracy", "layerwise figure 7.2(a)", "the lowest learning rate performs worst")
DECAY = Claim("fig-7.2b-kappa", "layerwise figure 7.2(b)", "weight decay brings features closer to minimal (κ falls)")


def run_rates(config: Recipe) -> xr.Dataset:
    """Three learning rates with the recipe's weight decay, and the highest without any."""
    begun = time.perf_counter()
    data = load(config)
    cases = {
        f"rate {config.learning_rate * part:g}": train(
            config, data, ensemble={"learning_rate": config.learning_rate * part}
        )
        for part in _RATES
    }
    cases["no weight decay"] = train(config, data, ensemble={"weight_decay": 0.0})
    return gather("figure 7.2", config, cases, time.perf_counter() - begun)


def check_rates(record: xr.Dataset) -> tuple[Claim, ...]:
    """The lowest rate beside the others; with and without weight decay."""
    high, middle, low, plain = record["case"].values
    kappa = {case: final(record, "kappa", case) for case in record["case"].values}
    accuracy = {case: final(record, "accuracy", case) for case in record["case"].values}
    return (
        each_exceeds(SLOW, (kappa[low], kappa[middle]), (kappa[low], kappa[high]), note="κ of the lowest, and others"),
        each_exceeds(SLOW_ACCURACY, (accuracy[middle], accuracy[low]), (accuracy[high], accuracy[low])),
        exceeds(DECAY, kappa[plain], kappa[high], note="κ without weight decay, beside that with it"),
    )


# --- figures 7.3 and 7.4, Table 2.2: batch norm and architecture ----------------------------------------------------

NORM = Claim("fig-7.3-kappa", "layerwise figure 7.3", "batch norm brings features closer to minimal (κ falls)")
RESIDUAL = Claim(
    "fig-7.4-architecture", "layerwise figure 7.4", "ResNet18 is closer to minimal features than the MLP (κ)"
)
EARLY = Claim(
    "fig-7.4-early",
    "layerwise figure 7.4(a)",
    "features of ResNet18 concentrate early: κ falls most in the first tenth",
    note="needs larger images than digits",
)
TABLE = {
    name: Claim(
        f"table-2.2-{name.lower()[:-2]}",
        "layerwise Table 2.2",
        f"{name} on MNIST ends in the minimum feature regime, κ < 0.1",
        note="needs MNIST",
    )
    for name in ("ResNet18", "VGG16")
}
FEATURES = Claim(
    "table-2.2-features",
    "layerwise Table 2.2",
    "both use and have as many features as there are classes, up to two: D_eff(Q̂) ≈ D_eff(ρ) ≈ C",
    note="needs MNIST",
)
CIFAR = Claim(
    "table-2.2-cifar", "layerwise Table 2.2, figures 7.1–7.5", "the same on CIFAR-10 and CIFAR-100",
    note=_ORIGINAL.format("50,000 images of CIFAR"))  # fmt: skip


def run_architectures(config: Recipe) -> xr.Dataset:
    """The MLP with and without batch norm, ResNet18 and VGG16, on the same images."""
    begun = time.perf_counter()
    plain = smaller(config, network="mlp", width=64 if config.data == "digits" else 128)
    images = load(plain)
    cases = {"MLP": train(smaller(plain, batch_norm=False), images), "MLP with batch norm": train(plain, images)}
    # the thesis trains VGG16 at a fifth of the learning rate of ResNet18
    for name, network, part in (("ResNet18", "resnet", 1.0), ("VGG16", "vgg", 0.2)):
        own = smaller(config, network=network, learning_rate=part * config.learning_rate)
        cases[name] = train(own, load(own))
    return gather("figures 7.3, 7.4, Table 2.2", config, cases, time.perf_counter() - begun)


def check_architectures(record: xr.Dataset) -> tuple[Claim, ...]:
    """κ of all at the end, and that of ResNet18 on the way."""
    plain, normed, residual, _ = (final(record, "kappa", case) for case in record["case"].values)
    judged = (
        exceeds(NORM, plain, normed, note="κ without batch norm, beside that with it"),
        exceeds(RESIDUAL, plain, residual, note="κ of the MLP, beside that of ResNet18"),
    )
    if record.attrs.get("data") == "digits":  # the statements on single networks are about larger images
        return *judged, EARLY, *TABLE.values(), FEATURES, CIFAR
    path = record["kappa"].sel(case="ResNet18", probe="test")
    early = path.sel(step=path["step"][-1] / 10, method="nearest").values
    note = "fall of κ in the first tenth, beside what it changes in the rest"
    tables = [below(claim, MINIMAL, final(record, "kappa", name)) for name, claim in TABLE.items()]
    excess = [np.abs(final(record, kind, name) - 10) for name in TABLE for kind in _DIMENSIONS]
    return (
        *judged,
        exceeds(EARLY, path.isel(step=0).values - early, np.abs(early - residual), note=note),
        *tables,
        below(FEATURES, 2.0, *excess, note="distance from 10 of D_eff(ρ), D_eff(Q̂) of ResNet18, then of VGG16"),
        CIFAR,
    )


_DIMENSIONS = ("effective_dimension", "dimension_utilization")
_LARGE: dict[str, Any] = {"laptop": LAPTOP, "paper": smaller(PAPER, data="fashion", train_per_class=900)}
DATA_SIZE = Experiment(
    title="More data, fewer features",
    source="layerwise figure 7.1",
    kind="figure",
    claims=(MORE_DATA, LEARNS),
    scales={"smoke": SMOKE} | _LARGE,
    run=run_sizes,
    check=check_sizes,
    plot=plot,
)
LEARNING_RATE = Experiment(
    title="Learning rate and weight decay",
    source="layerwise figure 7.2",
    kind="figure",
    claims=(SLOW, SLOW_ACCURACY, DECAY),
    scales={"smoke": SMOKE} | _LARGE,
    run=run_rates,
    check=check_rates,
    plot=plot,
)
# without batch norm the squared loss would leave the network untrained; this is the thesis's loss and weight decay
_CROSS_ENTROPY: dict[str, Any] = {"loss": "cross_entropy", "learning_rate": 0.05, "weight_decay": 1e-3}
ARCHITECTURE = Experiment(
    title="Batch norm and architecture",
    source="layerwise figures 7.3, 7.4, Table 2.2",
    kind="figure",
    claims=(NORM, RESIDUAL, EARLY, *TABLE.values(), FEATURES, CIFAR),
    scales={
        "smoke": smaller(SMOKE, width=2, steps=120, batch_size=32, **_CROSS_ENTROPY),
        "laptop": smaller(LAPTOP, width=4, steps=400, batch_size=64, **_CROSS_ENTROPY),
        "paper": smaller(PAPER, **_CROSS_ENTROPY),
    },
    run=run_architectures,
    check=check_architectures,
    plot=plot,
)
