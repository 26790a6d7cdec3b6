"""deep-linear Figure 6–8: Alignment and balance under SGD.

How well both hold under online SGD, from Gaussian and from balanced weights.
"""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.deep_linear.paper import figure
from dynascope.experiments.experiment import Experiment, Figure
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import over_trials

SMALL = 0.1  # a cross mode below this share of the largest singular value counts as small
_CURVES = {"balance": ("r (33)", "-"), "imbalance": ("numerator of r", "--"), "weight_norm": ("norm of a layer", ":")}


@dataclass(frozen=True)
class Config:
    """Depths 2 and 4, Gaussian and balanced starts with the same end-to-end map."""

    depths: tuple[int, ...] = (2, 4)
    init_exponent: float = 2.0
    durations: tuple[float, ...] = (20.0, 60.0)
    trials: int = 32
    save_points: int = 201
    seed: int = 6


def run(config: Config) -> xr.Dataset:
    """Train from both starts at each depth; keep what the figures show, averaged over layers."""
    parts, labels = [], []
    for depth, duration in zip(config.depths, config.durations, strict=True):
        for start in ("gaussian", "balanced"):
            net = DeepLinear(depth, 12, init_exponent=config.init_exponent, initialisation=start)
            trained = net.train("sgd", duration, config.trials, seed=config.seed, save_points=config.save_points)
            kept = trained[["cross_amplitude", "amplitude"]].assign(
                balance=trained["balance"].mean("layer"),
                imbalance=trained["imbalance"].mean("layer"),
                weight_norm=trained["weight_norm"].mean("matrix"),
            )
            kept = kept.rename(time="save").drop_vars("save").assign(clock=("save", trained["time"].values))
            parts.append(kept.drop_attrs(deep=False))
            labels.append(f"depth {depth}, {start}")
    return xr.concat(parts, "setting").assign_coords(setting=labels)


def _gaussian(record: xr.Dataset) -> xr.Dataset:
    """The settings that start from Gaussian weights, one for each depth; they stand in front of balanced ones."""
    return record.isel(setting=slice(0, None, 2)).drop_vars("setting")


def _cross(record: xr.Dataset) -> xr.DataArray:
    """Sizes of the cross modes, (…, pair of different modes)."""
    pairs = record["cross_amplitude"].stack(pair=("mode", "other_mode"), create_index=False)
    different = ~np.eye(record.sizes["mode"], dtype=bool).ravel()
    return abs(pairs.isel(pair=different))


def _small(record: xr.Dataset) -> Judgement:
    share = (_cross(_gaussian(record)) < SMALL).mean(["save", "pair"])
    return above(over_trials(share), 0.9, note="share of cross modes and saves; depths 2 and 4")


def _passing(record: xr.Dataset) -> Judgement:
    largest = _cross(_gaussian(record)).max("pair")
    left = over_trials(largest.isel(save=-1) / largest.max("save"))
    return below(left, 0.5, note="largest cross mode at the end over its peak")


def _growth(values: xr.DataArray) -> xr.DataArray:
    return values.isel(save=-1) / values.isel(save=0)


def _kept(record: xr.Dataset) -> Judgement:
    balanced = record["balance"].isel(setting=slice(1, None, 2)).drop_vars("setting")
    ratio = balanced.max("save") / _gaussian(record)["balance"].min("save")
    return below(over_trials(ratio), 1.0, note="largest balanced r over least Gaussian r")


def _numerator(record: xr.Dataset) -> Judgement:
    numerator = _gaussian(record)["imbalance"]
    change = abs(numerator / numerator.isel(save=0) - 1).max("save")
    return below(over_trials(change), 0.1, note="largest relative change on the way")


def _picture(record: xr.Dataset) -> Figure:
    """Cross modes of one network, and r, its numerator and layer norms averaged over trials."""
    figure, axes = plots.new_figure(columns=record.sizes["setting"], rows=2, width=3.4, height=2.8)
    for column, (top, bottom) in enumerate(axes.T):
        chosen = record.isel(setting=column)
        for (a, b), colour in zip(permutations(range(record.sizes["mode"]), 2), plots.PALETTE, strict=False):
            values = chosen["cross_amplitude"].isel(trial=0, mode=a, other_mode=b)
            top.plot(chosen["clock"], values, color=colour, linewidth=0.9, label=f"{a + 1}–{b + 1}")
        for (name, (label, style)), colour in zip(_CURVES.items(), plots.PALETTE, strict=False):
            bottom.plot(chosen["clock"], chosen[name].mean("trial"), color=colour, linestyle=style, label=label)
        top.set_title(str(chosen["setting"].values), fontsize="medium")
        bottom.set(xlabel="time (steps × step size)", yscale="log")
        bottom.set_ylim(bottom=1e-3)  # balanced weights start at rounding
    axes[0, 0].set_ylabel("cross-mode amplitude, one trial")
    axes[1, 0].set_ylabel("mean over layers and trials")
    axes[0, 0].legend(frameon=False, fontsize="x-small", ncols=2)
    axes[1, 0].legend(frameon=False, fontsize="x-small")
    return figure


EXPERIMENT = Experiment(
    figure("6–8"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-6-small",
            f"most cross modes are small (below {SMALL:g}) for most of training: above 90 %",
            _small,
            figure("6"),
        ),
        Claim("fig-6-peak", "the largest cross mode peaks and is far smaller again at the end", _passing, figure("6")),
        Claim(
            "fig-7-increases",
            "from Gaussian weights r falls: balance increases",
            lambda record: below(
                over_trials(_growth(_gaussian(record)["balance"])), 1.0, note="r at the end over r at the start"
            ),
            figure("7(a), 7(c)"),
        ),
        Claim(
            "fig-7-kept",
            "from balanced weights r stays below what Gaussian weights ever reach",
            _kept,
            figure("7(b), 7(d)"),
        ),
        Claim("fig-7-numerator", "the numerator of r changes little: by less than 10 %", _numerator, figure("7")),
        Claim(
            "fig-8-norms",
            "the layers' Frobenius norms grow over training",
            lambda record: above(
                over_trials(_growth(record["weight_norm"])), 1.0, note="norm at the end over norm at the start"
            ),
            figure("8"),
        ),
    ),
    picture=_picture,
    smoke={"init_exponent": 1.6, "durations": (12.0, 30.0), "trials": 8, "save_points": 101},
    paper={"init_exponent": 3.0, "durations": (40.0, 700.0), "trials": 64, "save_points": 701},
    model="DeepLinear",
)
