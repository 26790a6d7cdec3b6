"""Figure 6.4: a transformer that groks division modulo a prime goes from extended to minimal features."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.data import modular_arithmetic
from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.regimes.grokking import FITTED, when_fitted
from dynascope.experiments.registry import Experiment


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


SCALES = {
    "smoke": Config(
        modulus=23, train_share=0.8, width=32, steps=1100, batch_size=200, learning_rate=5e-3, records=10, seed=0
    ),
    "laptop": Config(modulus=31, train_share=0.7, width=48, steps=1500, batch_size=256, learning_rate=4e-3, records=20),
    "paper": Config(),
}
LATE = Claim(
    "fig-6.4-grokking",
    "layerwise figure 6.4(a)",
    "test accuracy is low when the training set is fitted, and rises much later",
)
FEWER = Claim(
    "fig-6.4-fewer",
    "layerwise figure 6.4(b)",
    "fewer features are significant after grokking than in the overfitting phase: D_eff(ρ) falls",
)
EXTENDED = Claim("fig-6.4-extended", "layerwise figure 6.4(b)", "before grokking the features are extended, κ > 0.1")
NEARER = Claim(
    "fig-6.4-nearer", "layerwise figure 6.4(b)", "after grokking the features are nearer to minimal: κ falls"
)
MINIMAL = Claim("fig-6.4-minimal", "layerwise figure 6.4(b)", "after grokking the features are minimal, κ < 0.1")
_JUDGED_FROM = 97  # the thesis's modulus; smaller ones grok too, but its statements on features are not about them


def run(config: Config) -> xr.Dataset:
    """Train some transformers on a part of all equations and follow both parts on log-spaced steps."""
    from dynascope.networks import Ensemble, ModularTransformer  # noqa: PLC0415 (PyTorch only where it is used)

    x, y, xt, yt = modular_arithmetic(config.modulus, train_share=config.train_share, seed=config.seed)
    ensemble = Ensemble(
        ModularTransformer(config.modulus, width=config.width),
        trials=config.seeds,
        optimizer="adamw",
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        batch_size=config.batch_size,
        sampling="shuffled",
        seed=config.seed,
    )
    steps = np.unique(np.geomspace(5, config.steps, config.records).round().astype(int))
    found = ensemble.train(
        x, y, config.steps, probe={"train": (x, y), "test": (xt, yt)}, record_every=[0, *steps.tolist()],
        measures=("kappa", "effective_dimension"),
    )  # fmt: skip
    return found.drop_vars("class_mean").assign_attrs(modulus=str(config.modulus))


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare the moment at which the training set is fitted with that of the best test accuracy.

    Not with the end: at constant learning rate and strong weight decay training keeps falling back for a while.
    """
    best = record["accuracy"].sel(probe="test", drop=True).argmax("step")
    before, after = (each.sel(probe="test") for each in (when_fitted(record), record.isel(step=best)))
    count = record.sizes["trial"]

    def error(values: xr.DataArray) -> Any:
        return three_errors(float(values.std(ddof=1)) / np.sqrt(count))

    gain, fewer, nearer = (
        after["accuracy"] - before["accuracy"],
        before["effective_dimension"] - after["effective_dimension"],
        before["kappa"] - after["kappa"],
    )
    note = f"from training accuracy {FITTED} to the best test accuracy, {count} networks"
    judged = (
        LATE.exceeds(
            float(gain.mean()),
            0.05,
            error(gain),
            note=f"best accuracy less that at training accuracy {FITTED}, test equations, {count} networks",
        ),
        EXTENDED.exceeds(float(before["kappa"].mean()), 0.1, error(before["kappa"])),
    )
    if int(record.attrs["modulus"]) < _JUDGED_FROM:
        reason = f"needs a modulus of {_JUDGED_FROM} or more, scale paper"
        return *judged, *(replace(claim, note=reason) for claim in (FEWER, NEARER, MINIMAL))
    return (
        *judged,
        FEWER.exceeds(float(fewer.mean()), 0.0, error(fewer), note=f"fall of D_eff(ρ) {note}"),
        NEARER.exceeds(float(nearer.mean()), 0.0, error(nearer), note=f"fall of κ {note}"),
        MINIMAL.falls_below(float(after["kappa"].mean()), 0.1, error(after["kappa"])),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw accuracies, κ and the effective dimension over training."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=3)
    steps = np.maximum(record["step"].values, 1)
    shown = {"accuracy": "accuracy", "kappa": "κ", "effective_dimension": "effective dimension of the features"}
    for ax, (name, label) in zip(axes[0], shown.items(), strict=True):
        for probe, colour in zip(("train", "test"), PALETTE, strict=False):
            lines = ax.plot(steps, record[name].sel(probe=probe).T, color=colour, linewidth=1)
            lines[0].set_label({"train": "training equations", "test": "test equations"}[probe])
        ax.set(xscale="log", xlabel="step", ylabel=label)
    axes[0, 1].axhline(0.1, color="0.5", linestyle=":")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Division modulo a prime, before and after grokking",
    source="layerwise figure 6.4",
    kind="figure",
    claims=(LATE, FEWER, EXTENDED, NEARER, MINIMAL),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
