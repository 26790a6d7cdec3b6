"""layerwise Figure 6.4: Division modulo a prime, before and after grokking.

A transformer that groks goes from extended to minimal features.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import xarray as xr

from dynascope import networks, plots
from dynascope.data import modular_arithmetic
from dynascope.experiments.claims import Claim, Judgement, above, below, not_run
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.regimes.grokking import FITTED, when_fitted
from dynascope.experiments.sources import layerwise
from dynascope.statistics.errors import over_trials


@dataclass(frozen=True)
class Config:
    """Two layers of width 128 with four heads, AdamW with weight decay 1, as in Power et al. (2022).

    The thesis names the task and the steps 200 and 3000, before and after grokking, not the optimizer.
    """

    modulus: int = 97
    train_share: float = 0.5
    width: int = 128
    seeds: int = 3
    steps: int = 5000
    batch_size: int = 512
    learning_rate: float = 1e-3
    weight_decay: float = 1.0
    records: int = 40
    seed: int = 64


_JUDGED_FROM = 97  # the thesis's modulus; smaller ones grok too, but its statements on features are not about them
_REASON = f"needs a modulus of {_JUDGED_FROM} or more, scale paper"


def run(config: Config) -> xr.Dataset:
    """Train some transformers on a part of all equations and follow both parts on log-spaced steps."""
    x, y, xt, yt = modular_arithmetic(config.modulus, train_share=config.train_share, seed=config.seed)
    shared = ("learning_rate", "weight_decay", "batch_size", "seed")
    ensemble = networks.Ensemble(
        networks.ModularTransformer(config.modulus, width=config.width),
        trials=config.seeds,
        optimizer="adamw",
        sampling="shuffled",
        **{name: getattr(config, name) for name in shared},
    )
    steps = np.unique(np.geomspace(5, config.steps, config.records).round().astype(int))
    probe, recorded = {"train": (x, y), "test": (xt, yt)}, [0, *steps.tolist()]
    measures = ("kappa", "effective_dimension")
    found = ensemble.train(x, y, config.steps, probe=probe, record_every=recorded, measures=measures)
    return found.drop_vars("class_mean")


class Seen(NamedTuple):
    """Test equations when the training set is fitted, and at the best test accuracy; whether features are judged."""

    before: xr.Dataset
    after: xr.Dataset
    judged: bool


def read(record: xr.Dataset) -> Seen:
    """Compare the moment at which the training set is fitted with that of the best test accuracy.

    Not with the end: at constant learning rate and strong weight decay training keeps falling back for a while.
    """
    best = record["accuracy"].sel(probe="test", drop=True).argmax("step")
    before, after = (each.sel(probe="test") for each in (when_fitted(record), record.isel(step=best)))
    return Seen(before, after, settings(record).modulus >= _JUDGED_FROM)


def _grokked(seen: Seen) -> Judgement:
    note = (
        f"best accuracy less that at training accuracy {FITTED}, test equations, {seen.after.sizes['trial']} networks"
    )
    return above(over_trials(seen.after["accuracy"] - seen.before["accuracy"]), 0.05, note=note)


def _falls(seen: Seen, name: str, symbol: str) -> Judgement:
    if not seen.judged:
        return not_run(_REASON)
    fall = over_trials(seen.before[name] - seen.after[name])
    return above(
        fall,
        0.0,
        note=f"fall of {symbol} from training accuracy {FITTED} to the best test accuracy, "
        f"{seen.after.sizes['trial']} networks",
    )


def _draw(record: xr.Dataset, ax: Axes, name: str, label: str) -> None:
    """A quantity over training, on training and test equations."""
    steps = np.maximum(record["step"].values, 1)
    for probe, which, colour in zip(("train", "test"), ("training", "test"), plots.PALETTE, strict=False):
        lines = ax.plot(steps, record[name].sel(probe=probe).T, color=colour, linewidth=1)
        lines[0].set_label(f"{which} equations")
    if name == "kappa":
        ax.axhline(0.1, color="0.5", linestyle=":")
    ax.set(xscale="log", xlabel="step", ylabel=label)


_FEATURES = layerwise(figure="6.4(b)")
EXPERIMENT = Experiment(
    layerwise(figure="6.4"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-6.4-grokking",
            "test accuracy is low when the training set is fitted, and rises much later",
            _grokked,
            layerwise(figure="6.4(a)"),
            settles_at="laptop",  # of three small networks one may not grok, which is error enough
        ),
        Claim(
            "fig-6.4-fewer",
            "fewer features are significant after grokking than in the overfitting phase: D_eff(ρ) falls",
            partial(_falls, name="effective_dimension", symbol="D_eff(ρ)"),
            _FEATURES,
        ),
        Claim(
            "fig-6.4-extended",
            "before grokking the features are extended, κ > 0.1",
            lambda seen: above(over_trials(seen.before["kappa"]), 0.1),
            _FEATURES,
        ),
        Claim(
            "fig-6.4-nearer",
            "after grokking the features are nearer to minimal: κ falls",
            partial(_falls, name="kappa", symbol="κ"),
            _FEATURES,
        ),
        Claim(
            "fig-6.4-minimal",
            "after grokking the features are minimal, κ < 0.1",
            lambda seen: below(over_trials(seen.after["kappa"]), 0.1) if seen.judged else not_run(_REASON),
            _FEATURES,
        ),
    ),
    picture=Panels(
        partial(_draw, name="accuracy", label="accuracy"),
        partial(_draw, name="kappa", label="κ"),
        partial(_draw, name="effective_dimension", label="effective dimension of the features"),
    ),
    read=read,
    smoke={
        "modulus": 23,
        "train_share": 0.8,
        "width": 32,
        "steps": 1100,
        "batch_size": 200,
        "learning_rate": 5e-3,
        "records": 10,
        "seed": 0,
    },
    laptop={
        "modulus": 31,
        "train_share": 0.7,
        "width": 48,
        "steps": 1500,
        "batch_size": 256,
        "learning_rate": 4e-3,
        "records": 20,
    },
    precision="float32",
    needs=("torch",),
    adapted="the optimizer, which the source leaves out",
)
