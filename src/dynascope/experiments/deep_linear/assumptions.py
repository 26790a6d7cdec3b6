"""deep-linear Figure 6–8: Alignment and balance under SGD.

How well both hold under online SGD, from Gaussian and from balanced weights, with the source's loss: the mean over
outputs of the squared error.
"""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.experiment import Experiment, Figure
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import Estimate, over_trials

SMALL = 0.1  # a cross mode below this share of the largest singular value counts as small
WIDTH = 12
RUNS = (("gaussian", "sgd"), ("balanced", "sgd"), ("gaussian", "gd"))  # start and method, at each depth
_CURVES = {"balance": ("r (33)", "-"), "imbalance": ("numerator of r", "--"), "weight_norm": ("norm of a layer", ":")}


@dataclass(frozen=True)
class Config:
    """Depths 2 and 4, Gaussian and balanced starts with the same end-to-end map.

    durations: with the theory's loss; the mean over outputs takes outputs/2 times as long
    """

    depths: tuple[int, ...] = (2, 4)
    init_exponent: float = 2.0
    durations: tuple[float, ...] = (20.0, 60.0)
    trials: int = 32
    save_points: int = 201
    seed: int = 6


def run(config: Config) -> xr.Dataset:
    """Train from both starts at each depth, and once without noise; keep what the figures show, means over layers."""
    parts, labels = [], []
    for depth, duration in zip(config.depths, config.durations, strict=True):
        for start, method in RUNS:
            net = DeepLinear(depth, WIDTH, init_exponent=config.init_exponent, initialisation=start)
            trained = net.simulate(
                WIDTH / 2 * duration,
                config.trials,
                method=method,
                reduction="mean",
                seed=config.seed,
                save_points=config.save_points,
            )
            kept = trained[["cross_amplitude", "amplitude"]].assign(
                balance=trained["balance"].mean("layer"),
                imbalance=trained["imbalance"].mean("layer"),
                weight_norm=trained["weight_norm"].mean("matrix"),
            )
            kept = kept.rename(time="save").drop_vars("save").assign(clock=("save", trained["time"].values))
            parts.append(kept.drop_attrs(deep=False))
            labels.append(f"depth {depth}, {start}, {method}")
    return xr.concat(parts, "setting").assign_coords(setting=labels)


def _read(record: xr.Dataset) -> dict[str, Estimate]:
    """What the claims compare, one value for each depth."""
    gaussian, balanced, quiet = (
        record.isel(setting=slice(place, None, len(RUNS))).drop_vars("setting") for place in range(len(RUNS))
    )
    pairs = gaussian["cross_amplitude"].stack(pair=("mode", "other_mode"), create_index=False)
    cross = abs(pairs.isel(pair=~np.eye(record.sizes["mode"], dtype=bool).ravel()))
    largest, r, norm = cross.max("pair"), gaussian["balance"], record["weight_norm"]
    moved, unmoved = (_moved(each["imbalance"]) for each in (gaussian, quiet))
    measured = {
        "small": (cross < SMALL).mean(["save", "pair"]),
        "left": largest.isel(save=-1) / largest.max("save"),
        "fall": r.isel(save=-1) / r.isel(save=0),
        "kept": balanced["balance"].max("save") / r.min("save"),
        "change": moved,
        "share": moved / abs(np.log(r.isel(save=-1) / r.isel(save=0))),
        "quiet": unmoved / moved,
        "norm": norm.isel(save=-1) / norm.isel(save=0),
    }
    return {name: over_trials(values) for name, values in measured.items()}


def _moved(values: xr.DataArray) -> xr.DataArray:
    """Largest change on the way, as a logarithm."""
    change: xr.DataArray = abs(xr.apply_ufunc(np.log, values / values.isel(save=0)))
    return change.max("save")


def _numerator(seen: dict[str, Estimate]) -> Judgement:
    factors = ", ".join(f"{factor:.3f}" for factor in np.exp(seen["change"].mean))
    note = f"its largest change over the fall of r, logarithms; it changes by the factors {factors}"
    return below(seen["share"], 0.5, note=note)


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
    deep_linear(figure="6–8"),
    Config(),
    run,
    read=_read,
    claims=(
        Claim(
            "fig-6-small",
            f"most cross modes are small (below {SMALL:g}) for most of training: above 90 %",
            lambda seen: above(seen["small"], 0.9, note="share of cross modes and saves; depths 2 and 4"),
            deep_linear(figure="6", theorem="Assumption A2"),
        ),
        Claim(
            "fig-6-peak",
            "the largest cross mode peaks and is far smaller again at the end",
            lambda seen: below(seen["left"], 0.5, note="largest cross mode at the end over its peak"),
            deep_linear(figure="6"),
        ),
        Claim(
            "fig-7-increases",
            "from Gaussian weights r falls: balance increases",
            lambda seen: below(seen["fall"], 1.0, note="r at the end over r at the start"),
            deep_linear(equation="33", figure="7(a), 7(c)", theorem="Assumption A1"),
        ),
        Claim(
            "fig-7-kept",
            "from balanced weights r stays below what Gaussian weights ever reach",
            lambda seen: below(seen["kept"], 1.0, note="largest balanced r over least Gaussian r"),
            deep_linear(equation="33", figure="7(b), 7(d)", theorem="Assumption A1"),
        ),
        Claim(
            "fig-7-numerator",
            "the numerator of r changes little: r falls mostly, by more than half, because weights grow",
            _numerator,
            deep_linear(figure="7", section="I.2"),
            why=("fig-7-noise, single samples change it",),
        ),
        Claim(
            "fig-7-noise",
            "what changes the numerator is the noise of single samples: without it, it changes a fifth as much at most",
            lambda seen: below(seen["quiet"], 0.2, note="largest change under gradient descent over that under SGD"),
            deep_linear(figure="7"),
            kind="own",
        ),
        Claim(
            "fig-8-norms",
            "the layers' Frobenius norms grow over training",
            lambda seen: above(seen["norm"], 1.0, note="norm at the end over norm at the start"),
            deep_linear(figure="8"),
        ),
    ),
    picture=_picture,
    smoke={"init_exponent": 1.6, "durations": (12.0, 30.0), "trials": 16, "save_points": 51},
    paper={"init_exponent": 3.0, "durations": (40.0, 700.0), "save_points": 301},
    model="DeepLinear",
)
