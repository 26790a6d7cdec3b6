"""layerwise Figure 6.4: Division modulo a prime, before and after grokking.

A transformer that groks goes from extended to minimal features.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from dynascope import networks, plots
from dynascope.data import modular_arithmetic
from dynascope.experiments.claims import Claim, Judgement, above, below, not_run
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.regimes.grokking import FITTED, delay, when_fitted
from dynascope.experiments.sources import layerwise
from dynascope.measure import minimum_feature_distance
from dynascope.statistics.errors import over_trials, side_by_side


@dataclass(frozen=True)
class Config:
    """Two layers of width 128 with four heads, AdamW with weight decay 1, as in Power et al. (2022), and a final norm.

    The thesis names the task and the steps 200 and 3000, before and after grokking, not the optimizer. κ is taken at
    these two. Grokked outputs lie in 10 to 25 directions of 97, and the rest of them is faint but above rounding. Which
    of them count the thesis leaves out: κ is taken twice, over the fewest principal directions that hold
    `variance_share` of the outputs' variance, and over all of them, the less the further below `least_share`.
    """

    modulus: int = 97
    train_share: float = 0.5
    width: int = 128
    seeds: int = 40
    early: int = 200
    steps: int = 3000
    batch_size: int = 512
    learning_rate: float = 1e-3
    weight_decay: float = 1.0
    variance_share: float = 0.99
    least_share: float = 0.01
    records: int = 40
    seed: int = 64


COUNTED = ["held", "weighted"]  # directions: those that hold a share of the variance, or all by their shares
SETTLED = 0.999  # test accuracy below which a network that has grokked is falling back at that moment
_JUDGED_FROM = 97  # the thesis's modulus; smaller ones grok too, but its statements on features are not about them
_REASON = f"needs a modulus of {_JUDGED_FROM} or more, scale paper"


def run(config: Config) -> xr.Dataset:
    """Train some transformers on a part of all equations and follow both parts on log-spaced steps."""
    x, y, xt, yt = modular_arithmetic(config.modulus, train_share=config.train_share, seed=config.seed)
    shared = ("learning_rate", "weight_decay", "batch_size", "seed")
    ensemble = networks.Ensemble(
        networks.ModularTransformer(config.modulus, width=config.width, final_norm=True),
        trials=config.seeds,
        optimizer="adamw",
        sampling="shuffled",
        **{name: getattr(config, name) for name in shared},
    )
    ensemble.train(x, y, config.early, record_every=config.early)
    early = _distances(ensemble, xt, config)
    steps = np.unique(np.geomspace(5, config.steps, config.records).round().astype(int))
    probe, recorded = {"train": (x, y), "test": (xt, yt)}, [0, *steps.tolist()]
    measures = ("kappa", "effective_dimension")
    found = ensemble.train(x, y, config.steps, probe=probe, record_every=recorded, measures=measures)
    both = np.stack([early, _distances(ensemble, xt, config)])
    return found.drop_vars("class_mean").assign(
        strong_kappa=(("moment", "counted", "trial"), both), moment=[config.early, config.steps], counted=COUNTED
    )


def _distances(ensemble: Any, x: np.ndarray, config: Config) -> np.ndarray:
    """κ of each network as it is now, on test equations, (counted, trial)."""
    found = ensemble.features(x)
    pairs = list(zip(found["norm"], found["logits"], strict=True))
    held = [minimum_feature_distance(seen, strongest(logits, config.variance_share)) for seen, logits in pairs]
    weighted = [minimum_feature_distance(seen, logits, least_share=config.least_share) for seen, logits in pairs]
    return np.array([held, weighted], float)


def strongest(outputs: np.ndarray, share: float) -> np.ndarray:
    """The fewest principal directions (sample, direction) that hold a share of the outputs' variance.

    >>> strongest(np.array([[2.0, 0.1], [-2.0, 0.0], [0.0, -0.1]]), 0.99).shape
    (3, 1)
    """
    left, sizes, _ = np.linalg.svd(np.asarray(outputs, float) - np.mean(outputs, axis=0), full_matrices=False)
    held = np.cumsum(sizes**2) / np.sum(sizes**2)
    return np.asarray(left[:, : 1 + int(np.searchsorted(held, share))])


class Seen(NamedTuple):
    """Test equations when the training set is fitted, and at the best test accuracy; whether features are judged."""

    before: xr.Dataset
    after: xr.Dataset
    kappa: xr.DataArray  # (moment, trial), over the directions that hold most of the outputs' variance
    weighted: xr.DataArray  # (moment, trial), over all directions by their shares
    late: xr.DataArray  # (trial), test accuracy at the later moment
    delay: xr.DataArray  # (trial), from the training set to the test equations
    judged: bool
    counted: str  # when, and which directions


def read(record: xr.Dataset) -> Seen:
    """Compare the moment at which the training set is fitted with that of the best test accuracy.

    Not with the end: at constant learning rate and strong weight decay training keeps falling back for a while. Of the
    later moment at which κ is taken, only networks that generalize at it are after grokking, and of these some have
    just fallen back.
    """
    best = record["accuracy"].sel(probe="test", drop=True).argmax("step")
    before, after = (each.sel(probe="test") for each in (when_fitted(record), record.isel(step=best)))
    early, late = record["moment"].values
    config = settings(record)
    counted = (
        f"steps {early} and {late}; directions that hold {100 * config.variance_share:g} % of the outputs' variance"
    )
    judged = config.modulus >= _JUDGED_FROM
    test = record["accuracy"].sel(probe="test")
    end = test.isel(step=-1)
    counted += f", fig-6.4-all-directions has all; {int((end >= FITTED).sum())} of {end.size} networks have grokked"
    held, weighted = (record["strong_kappa"].sel(counted=each, drop=True) for each in COUNTED)
    return Seen(before, after, held, weighted, end, delay(test, before), judged, counted)


def _grokked(seen: Seen) -> Judgement:
    """Low is below half of the best accuracy; much later is after twice as many steps."""
    low = over_trials(seen.after["accuracy"] / 2 - seen.before["accuracy"])
    note = (
        f"half of the best accuracy less that at training accuracy {FITTED}, test equations; log₂ of how many times "
        f"longer than that half of the rest takes; {seen.after.sizes['trial']} networks"
    )
    return above(side_by_side(low, over_trials(seen.delay)), [0.0, 1.0], note=note)


def _change(seen: Seen, name: str, sign: float, what: str) -> Judgement:
    if not seen.judged:
        return not_run(_REASON)
    change = over_trials(sign * (seen.after[name] - seen.before[name]))
    note = f"{what} from training accuracy {FITTED} to the best test accuracy, {seen.after.sizes['trial']} networks"
    return above(change, 0.0, note=note)


def _nearer(seen: Seen) -> Judgement:
    if not seen.judged:
        return not_run(_REASON)
    grokked = seen.kappa.isel(trial=seen.late.values >= FITTED)
    return above(over_trials(grokked.isel(moment=0) - grokked.isel(moment=1)), 0.0, note=f"fall of κ; {seen.counted}")


def _minimal(seen: Seen) -> Judgement:
    if not seen.judged:
        return not_run(_REASON)
    late = seen.kappa.isel(moment=1, trial=seen.late.values >= FITTED)
    return below(over_trials(late), 0.1, note=seen.counted)


def _by_weights(seen: Seen) -> Judgement:
    grokked = seen.weighted.isel(trial=seen.late.values >= FITTED)
    fall = over_trials(grokked.isel(moment=0) - grokked.isel(moment=1))
    note = "κ before grokking, and its fall; all directions of the outputs count, faint ones by their shares"
    return above(side_by_side(over_trials(seen.weighted.isel(moment=0)), fall), [0.1, 0.0], note=note)


def _settled(seen: Seen) -> Judgement:
    if not seen.judged:
        return not_run(_REASON)
    right = seen.late.values >= SETTLED
    late = seen.kappa.isel(moment=1)
    others = late.values[~right & (seen.late.values >= FITTED)]
    note = f"{seen.counted}; {int(right.sum())} with a test accuracy of {SETTLED} or more"
    note += f", the others have κ = {others.mean():.3f}" if others.size else ""
    return below(over_trials(late.isel(trial=right)), 0.1, note=note)


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
            partial(_change, name="effective_dimension", sign=-1.0, what="fall of D_eff(ρ)"),
            _FEATURES,
        ),
        Claim(
            "fig-6.4-extended",
            "before grokking the features are extended, κ > 0.1",
            lambda seen: above(over_trials(seen.kappa.isel(moment=0)), 0.1, note=seen.counted),
            _FEATURES,
            settles_at="laptop",
        ),
        Claim(
            "fig-6.4-nearer",
            "after grokking the features are nearer to minimal: κ falls",
            _nearer,
            _FEATURES,
        ),
        Claim(
            "fig-6.4-minimal",
            "after grokking the features are minimal, κ < 0.1",
            _minimal,
            _FEATURES,
            why=("fig-6.4-settled, those that fall back are not",),
        ),
        Claim(
            "fig-6.4-settled",
            "those that get all test equations right at that step, and do not fall back just then, have κ < 0.1",
            _settled,
            _FEATURES,
            kind="derived",  # Figure 6.4(a) shows a network that gets all of them right
        ),
        Claim(
            "fig-6.4-weighted",
            "counted with every direction, faint ones by their shares, κ > 0.1 before grokking, and falls",
            lambda seen: _by_weights(seen) if seen.judged else not_run(_REASON),
            _FEATURES,
            kind="own",
        ),
        Claim(
            "fig-6.4-all-directions",
            "counted with every direction of the outputs above rounding, κ rises after grokking",
            partial(_change, name="kappa", sign=1.0, what="rise of κ"),
            _FEATURES,
            kind="own",
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
        "seeds": 3,
        "early": 100,
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
        "seeds": 6,
        "early": 150,
        "steps": 1500,
        "batch_size": 256,
        "learning_rate": 4e-3,
        "records": 20,
    },
    precision="float32",
    needs=("torch",),
    adapted="the optimizer, which the source leaves out",
)
