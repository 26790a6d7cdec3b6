"""FIG. S3: load curves of ReLU networks of growing depth, layers that do no work, and networks cut before them."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.phases.curves import recorded
from dynascope.experiments.phases.load_curves import data_set
from dynascope.experiments.registry import Experiment
from dynascope.networks import MLP, Ensemble
from dynascope.statistics.errors import over_trials

RETRAINED = ("new layer", "all layers")
_DEAD = (0.65, 0.9)  # shares of the depth between which layers are said to be dead: the 14th to the 18th of 20
_IDLE = 0.1  # layers do no work that do less than this part of a layer's share in the whole range of loads
_COST = 0.01  # of test accuracy, that pruning may cost


@dataclass(frozen=True)
class Config:
    """Networks of each depth in small batches, the deepest also in full ones, as the paper's default says (S3).

    All else is the paper's default. With its full batches of 2560 samples networks of 20 layers reach a test accuracy
    of 0.4, not the 0.9 that the text reports; small batches, which it does not mention, are ours. So is the time for
    which cut networks are trained.
    """

    depths: tuple[int, ...] = (4, 8, 12, 20)
    batch_size: int = 100
    learning_rate: float = 0.001
    epochs: int = 100
    retrained_epochs: int = 100
    full_learning_rate: float = 0.001
    full_epochs: int = 100
    width: int = 100
    seeds: int = 10
    data: str = "mnist"
    size: int = 10
    samples: int = 256


def run(config: Config) -> xr.Dataset:
    """Train all depths; cut the deepest network before its dead layers and train what is left, in two ways."""
    begun = time.perf_counter()
    depths = sorted(config.depths)
    deepest = depths[-1]
    ensembles, loads, scores = zip(*(_trained(config, depth, full=False) for depth in depths), strict=True)
    cut = first_idle(loads[-1].mean(axis=0))
    again = [_again(config, ensembles[-1].cut(f"act_{cut}", trained=which)) for which in ("last", "all")]
    _, load, accuracy = _trained(config, deepest, full=True)
    padded = [np.pad(each, ((0, 0), (0, deepest + 1 - each.shape[1])), constant_values=np.nan) for each in loads]
    names = [f"{depth} layers" for depth in depths] + [f"{deepest} layers, full batches"]
    values = {
        "load": (("case", "trial", "layer"), np.stack([*padded, load])),
        "accuracy": (("case", "trial"), np.stack([*scores, accuracy])),
        "pruned_accuracy": (("retrained", "trial"), np.stack(again)),
        "cut_after": ((), cut, {"long_name": "layers that were kept"}),
    }
    coords = {"case": names, "retrained": list(RETRAINED), "layer": np.arange(deepest + 1)}
    return recorded(values, coords | {"depth": ("case", [*depths, deepest])}, config, begun)


def first_idle(load: np.ndarray) -> int:
    """The first layer, from 1, after which the load does not fall; the last one if it always does.

    >>> first_idle(np.array([3.0, 2.0, 1.0, 1.5, 0.0]))
    2
    """
    rising = np.flatnonzero(np.diff(load)[1:] >= 0)
    return int(rising[0]) + 1 if rising.size else len(load) - 1


def _trained(config: Config, depth: int, *, full: bool) -> tuple[Ensemble, np.ndarray, np.ndarray]:
    """An ensemble, its loads on training data (run, layer) and its test accuracies (run,)."""
    x, y, _, _ = data_set(config.data, config.size, config.samples)
    ensemble = Ensemble(
        MLP(x.shape[1:], int(y.max()) + 1, width=config.width, depth=depth, batch_norm=True),
        trials=config.seeds,
        learning_rate=config.full_learning_rate if full else config.learning_rate,
        batch_size=len(x) if full else config.batch_size,
        optimizer="adam",
        sampling="shuffled",
    )
    last = _fitted(config, ensemble, config.full_epochs if full else config.epochs)
    return ensemble, last["load"].sel(probe="train").values, last["accuracy"].sel(probe="test").values.astype(float)


def _again(config: Config, ensemble: Ensemble) -> np.ndarray:
    return _fitted(config, ensemble, config.retrained_epochs)["accuracy"].sel(probe="test").values.astype(float)


def _fitted(config: Config, ensemble: Ensemble, epochs: int) -> xr.Dataset:
    x, y, xt, yt = data_set(config.data, config.size, config.samples)
    steps = len(x) // ensemble.settings.batch_size * epochs
    probe = {"train": (x, y), "test": (xt, yt)}
    path = ensemble.train(x, y, steps, probe=probe, record_every=[steps], measures=("load",), progress=False)
    return path.isel(step=-1)


CLAIMS = {
    name: Claim(f"fig-s3-{name}", "spring-block FIG. S3", text)
    for name, text in (
        ("shallow", "in networks of up to 8 layers every layer improves the separation"),
        ("dead", "in a very deep network late layers (14th to 18th of 20) improve it by next to nothing"),
        ("dead-full", "so they do at the stated batch size, all samples"),
        ("pruned", "cut before them and with a new last layer, trained alone, it loses next to no test accuracy"),
        ("retrained", "training all layers that are left raises the test accuracy further"),
    )
}


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge work d_ℓ = D_{ℓ−1} − D_ℓ and test accuracies run by run."""
    load = record["load"].transpose("case", "trial", "layer").values
    depths, deep = record["depth"].values, len(record["case"]) - 2
    shallow = [over_trials(-np.diff(load[i, :, : d + 1]).T) for i, d in enumerate(depths[:-1]) if d <= 8]
    mean, error = (np.concatenate(each) for each in zip(*shallow, strict=True))
    first, last = (round(share * int(depths[-1])) for share in _DEAD)
    share = np.ptp(load[deep:], axis=-1) / depths[-1]  # of a layer in the whole range of loads
    idle, idle_error = over_trials((load[deep:, :, first] - load[deep:, :, last]) / (last - first) / share)
    accuracy = record["accuracy"].transpose("case", "trial").values
    alone, whole = record["pruned_accuracy"].transpose("retrained", "trial").values
    cost, cost_error = over_trials(alone - accuracy[deep])
    gain, gain_error = over_trials(whole - alone)
    layers = f"work of layers {first + 1} to {last} over a layer's share in the range of loads; test accuracy"
    kept = f"{int(record['cut_after'])} layers kept; test accuracy {alone.mean():.4f}"
    notes = {
        "dead": f"{layers} {accuracy[deep].mean():.4f}",
        "dead-full": f"{layers} {accuracy[-1].mean():.4f}",
        "pruned": f"{kept}, of the whole network {accuracy[deep].mean():.4f} (paper: 0.896)",
        "retrained": f"test accuracy {whole.mean():.4f} (paper: 0.901)",
    }
    dead, dead_full = (
        CLAIMS[name].falls_below(idle[i], _IDLE, three_errors(idle_error[i]), note=notes[name])
        for i, name in enumerate(("dead", "dead-full"))
    )
    return (
        CLAIMS["shallow"].exceeds(mean, 0.0, three_errors(error), note="work of each layer"),
        dead,
        dead_full,
        CLAIMS["pruned"].exceeds(cost, -_COST, three_errors(cost_error), note=notes["pruned"]),
        CLAIMS["retrained"].exceeds(gain, 0.0, three_errors(gain_error), note=notes["retrained"]),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw load curves of all depths, and test accuracies of the whole and the cut networks."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2, width=6, height=4.5)
    for index, case in enumerate(record["case"].values):
        chosen = record["load"].sel(case=case)
        full = "full" in str(case)
        axes[0, 0].errorbar(
            record["layer"], chosen.mean("trial"), chosen.std("trial"), marker="o", markersize=3,
            ls="--" if full else "-", color=PALETTE[index % len(PALETTE)], label=str(case),
        )  # fmt: skip
    cut = int(record["cut_after"])
    axes[0, 0].axvline(cut, color="grey", ls=":", label=f"cut after layer {cut}")
    axes[0, 0].set_xlabel("layer")
    axes[0, 0].set_ylabel("load D on training data (natural logarithm)")
    axes[0, 0].legend(frameon=False, fontsize="small")
    scores = {str(case): record["accuracy"].sel(case=case) for case in record["case"].values}
    scores |= {f"cut, {each} trained": record["pruned_accuracy"].sel(retrained=each) for each in RETRAINED}
    places = np.arange(len(scores))
    for place, values in zip(places, scores.values(), strict=True):
        axes[0, 1].plot([place] * values.size, values, ".", color="grey")
        axes[0, 1].errorbar(place, values.mean(), values.std(), marker="o", color=PALETTE[0], capsize=3)
    axes[0, 1].set_xticks(places, list(scores), rotation=30, ha="right", fontsize="small")
    axes[0, 1].set_ylabel("test accuracy")
    return figure


LAPTOP = Config(
    depths=(4, 8, 20),
    batch_size=20,
    learning_rate=0.002,
    epochs=16,
    retrained_epochs=10,
    full_learning_rate=0.003,
    full_epochs=30,
    width=64,
    seeds=8,
    data="digits",
    size=0,
    samples=140,
)
SMOKE = replace(
    LAPTOP,
    depths=(4, 14),
    learning_rate=0.02,
    epochs=8,
    retrained_epochs=5,
    full_learning_rate=0.008,
    full_epochs=20,
    width=32,
    seeds=6,
    samples=60,
)
EXPERIMENT = Experiment(
    title="Depth, layers that do no work, and pruning",
    source="spring-block FIG. S3",
    kind="figure",
    claims=tuple(CLAIMS.values()),
    scales={
        "smoke": SMOKE,
        "laptop": LAPTOP,
        "paper": Config(),  # 2500 steps of 10 networks six times: about 30 s on a GPU
    },
    run=run,
    check=check,
    plot=plot,
)
