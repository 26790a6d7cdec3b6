"""Figures 4, D.2, D.5, D.6 on real networks: what wrong labels do to learning and to the strengths of elasticity."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.data import corrupt_labels
from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.elastic.network_training import Training, pictures, read_strengths, train
from dynascope.experiments.registry import Experiment
from dynascope.models.elastic.geometry import margin_amplitudes
from dynascope.models.elastic.tails import tail_index
from dynascope.records import attribute, with_provenance

RANDOM = 2 / 3  # share of wrong labels at which three classes are labelled at random
_STRENGTHS = ("intra", "inter")
_LAST = 0.1  # share of the records over which the end of training is averaged


@dataclass(frozen=True)
class Config(Training):
    """Networks at several shares of wrong labels, all in one ensemble; `trials` of them at each share."""

    shares: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, RANDOM, 0.7, 0.8)
    per_class: int = 500
    trials: int = 50


SCALES = {
    "smoke": Config(
        shares=(0.0, RANDOM, 0.9), per_class=60, probes=20, size=8, network="mlp", learning_rate=0.05, steps=900,
        records=40, trials=8,
    ),
    "laptop": Config(shares=(0.0, 0.5, RANDOM, 0.8), probes=40, steps=8000, records=40, trials=8),
    "paper": Config(),
}  # fmt: skip
ABOVE = Claim("elastic-fig4b-learnt", "elastic Fig. 4(b)", "validation accuracy is above chance below 2/3 wrong labels")
CHANCE = Claim("elastic-fig4b-chance", "elastic Fig. 4(b)", "validation accuracy is 1/3 at 2/3 wrong labels")
BELOW = Claim("elastic-fig4b-below", "elastic Fig. 4(b)", "validation accuracy is below chance beyond 2/3 wrong labels")
FALLS = Claim("elastic-fig4a-falls", "elastic Fig. 4(a)", "validation loss falls with up to half of the labels wrong")
STAYS = Claim("elastic-fig4a-stays", "elastic Fig. 4(a)", "validation loss does not fall from 2/3 wrong labels on")
MARGIN = Claim(
    "elastic-fig4-margin", "elastic Fig. 4", "class means move towards their labels below 2/3 wrong labels, away beyond"
)
CROSSES = Claim(
    "elastic-fig4c-crosses", "elastic Fig. 4(c), (D.19)", "min(r_α, r_β), I-model, crosses 1 between 1/2 and 2/3"
)
BEYOND = Claim(
    "elastic-fig4c-beyond", "elastic Fig. 4(c), (D.19)", "min(r_α, r_β), I-model, stays above 1 beyond 2/3 wrong labels"
)
DOMINATES = Claim(
    "elastic-figd2-dominates", "elastic Fig. D.2(b)", "from about 2/3 wrong labels on r_β exceeds r_α, L-model"
)
MIXED = Claim("elastic-figd5-mixed", "elastic Fig. D.5", "A − B shrinks as labels get worse, to nothing at 0.8")
ADJUSTED = Claim("elastic-figd6-mixed", "elastic Fig. D.6", "so does α − β times the length of the class means")


def run(config: Config) -> xr.Dataset:
    """Train all shares of wrong labels at once; read strengths and tail indices at each share."""
    begun = time.perf_counter()
    data = pictures(config)
    labels = [corrupt_labels(data[1], share, seed=trial) for share in config.shares for trial in range(config.trials)]
    trained = train(config, data, labels=np.stack(labels), trials=len(labels))
    split = (len(config.shares), config.trials)
    record = xr.Dataset(
        {
            name: (("share", "trial", *each.dims[1:]), each.values.reshape((*split, *each.shape[1:])))
            for name, each in trained[["class_mean", "loss", "accuracy"]].items()
        },
        coords={"share": list(config.shares), "step": trained["step"]},
    )
    means = record["class_mean"].values.astype(float)
    found = [read_strengths(record["step"].values, each) for each in means]
    record = record.merge(xr.concat(found, record["share"]))
    for name in _STRENGTHS:  # with the absolute value that (D.19) needs where B is negative
        size = np.abs(record[f"integrated_{name}"].transpose("share", "reading", "step").values)
        record[f"tail_{name}"] = (("share", "reading"), tail_index(record["step"].values, size, "published"))
    amplitude = margin_amplitudes(means).mean(axis=-1)
    record["margin"] = (("share", "trial", "step"), amplitude)
    return with_provenance(
        record.drop_vars("class_mean"), "Ensemble", asdict(config), options={}, seed=config.seed, precision="float32",
        wall_time=time.perf_counter() - begun, device=attribute(trained, "device"),
    )  # fmt: skip


def _end(record: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean over trials and its standard error at the end of training, for each share."""
    late = record[name].isel(step=slice(-max(1, round(_LAST * record.sizes["step"])), None)).mean("step")
    trials = record.sizes["trial"]
    return late.mean("trial").values.astype(float), late.std("trial", ddof=1).values / np.sqrt(trials)


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge learning, margins, strengths and tail indices on both sides of random labels."""
    share = record["share"].values
    less, random, more = share < RANDOM - 0.05, np.isclose(share, RANDOM), share > RANDOM + 0.05
    return (*_check_learning(record, less, random, more), *_check_strengths(record, less, random, more))


def _check_learning(record: xr.Dataset, less: np.ndarray, random: np.ndarray, more: np.ndarray) -> tuple[Claim, ...]:
    trials = f"{record.sizes['trial']} networks at each share, {int(record['step'][-1])} steps"
    accuracy, error = _end(record, "accuracy")
    loss, loss_error = _end(record, "loss")
    begin = record["loss"].isel(step=0).mean("trial").values
    margin, margin_error = _end(record, "margin")
    half, sided = record["share"].values <= 0.5, less | more
    sign = np.where(less, 1.0, -1.0)[sided]
    return (
        ABOVE.exceeds(accuracy[less], 1 / 3, three_errors(error[less]), note=trials),
        CHANCE.equals(accuracy[random], 1 / 3, three_errors(error[random]), note=trials),
        BELOW.falls_below(accuracy[more], 1 / 3, three_errors(error[more]), note=trials),
        FALLS.falls_below(loss[half], begin[half], three_errors(loss_error[half]), note=trials),
        STAYS.exceeds(loss[~less], begin[~less], -three_errors(loss_error[~less]), note=trials),
        MARGIN.exceeds(
            sign * margin[sided], 0.0, three_errors(margin_error[sided]),
            note="mean amplitude of class means along their margin directions, times −1 where it should be negative",
        ),
    )  # fmt: skip


def _check_strengths(record: xr.Dataset, less: np.ndarray, random: np.ndarray, more: np.ndarray) -> tuple[Claim, ...]:
    half = record["share"].values <= 0.5
    index, error = _indices(record, "I-model as printed")
    least = index.min(axis=1)
    error = np.take_along_axis(error, index.argmin(axis=1)[:, None], 1)[:, 0]
    wanted = np.where(half, 1.0, -1.0) * (1 - least)  # positive on the right side of 1
    near = half | random
    logits, logits_error = _indices(record, "L-model as printed")
    ahead = np.where(less, -1.0, 1.0) * (logits[:, 1] - logits[:, 0])
    mixed, adjusted = (_shrinks(record, name) for name in ("integrated_gap", "adjusted_gap"))
    listed = ", ".join(f"{share:.2g}: {value:.2f}" for share, value in zip(record["share"].values, least, strict=True))
    return (
        CROSSES.exceeds(wanted[near], 0.0, three_errors(error[near]), note=f"distance from 1; by share: {listed}"),
        BEYOND.exceeds(least[more], 1.0, three_errors(error[more]), note="classes part again, with labels swapped"),
        DOMINATES.exceeds(
            ahead, 0.0, three_errors(np.linalg.norm(logits_error, axis=1)),
            note="r_β − r_α, times −1 below 2/3; as printed, where a factor changes sign",
        ),
        MIXED.falls_below(*mixed, 0.0, note="A − B at the end, I-model as printed, in units of that with true labels"),
        ADJUSTED.falls_below(*adjusted, 0.0, note="its mean over the second half of the records, in such units"),
    )  # fmt: skip


def _indices(record: xr.Dataset, reading: str) -> tuple[np.ndarray, np.ndarray]:
    """(D.19) of A and B, (share, strength), and standard errors from the intervals of A and B at the end."""
    each = record.sel(reading=reading)
    index = np.stack([each[f"tail_{name}"].values for name in _STRENGTHS], axis=1)
    errors = []
    for name in _STRENGTHS:
        low, value, high = (each[f"integrated_{name}{end}"].values[:, -1] for end in ("_low", "", "_high"))
        errors.append((high - low) / 3.92 / np.abs(value) / np.log1p(float(record["step"][-1])))
    return index, np.stack(errors, axis=1)


def _shrinks(record: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A strength at each share after the first in units of the first, and the bounds that the statement sets.

    At 2/3 wrong labels or more nothing (a tenth) is left; below, each share has less than the one before.
    """
    curve = record[name].sel(reading="I-model as printed").transpose("share", "step").values
    size = np.abs(curve[:, -1] if name == "integrated_gap" else curve[:, curve.shape[1] // 2 :].mean(axis=1))
    size = size / size[0]
    share = record["share"].values[1:]
    return size[1:], np.where(share < RANDOM - 0.05, size[:-1], 0.1)


def plot(record: xr.Dataset) -> Any:
    """Draw Fig. 4: validation loss over time, accuracy, and tail indices over the share of wrong labels."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=4, width=3.9, height=3.4)
    share = record["share"].values
    for index, value in enumerate(share):
        colour = (0.0, 0.45, 0.7, 1 - 0.8 * index / len(share)) if value < RANDOM - 0.01 else PALETTE[1]
        axes[0, 0].plot(record["step"], record["loss"][index].mean("trial"), color=colour, label=f"{value:.2g} wrong")
    axes[0, 0].axhline(float(record["loss"].isel(step=0).mean()), color="black", linestyle=":")
    axes[0, 0].set(xlabel="training step", ylabel="validation loss")
    accuracy, error = _end(record, "accuracy")
    axes[0, 1].errorbar(share, accuracy, 2 * error, fmt="o-", color=PALETTE[0], label="with two standard errors")
    axes[0, 1].axhline(1 / 3, color="black", linestyle=":")
    axes[0, 1].set_ylabel("validation accuracy at the end")
    for ax, reading in zip(axes[0, 2:], ("I-model as printed", "L-model as printed"), strict=True):
        indices, spread = _indices(record, reading)
        for row, symbol in enumerate("αβ"):
            ax.errorbar(
                share, indices[:, row], 2 * spread[:, row], fmt="o-", color=PALETTE[row], label=f"r of {symbol}"
            )
        ax.axhline(1.0, color="black", linestyle=":")
        ax.set_ylabel(f"tail index (D.19), {reading}")
        ax.set_ylim(0.4, 1.6)
    for ax in axes[0, 1:]:
        ax.axvline(RANDOM, color="grey", linestyle="--")
        ax.set_xlabel("share of wrong labels")
    for ax in axes[0]:
        ax.legend(frameon=False, fontsize="x-small")
    return figure


EXPERIMENT = Experiment(
    title="Networks with wrong labels: learning and tail indices",
    source="elastic Fig. 4, D.2, D.5, D.6",
    kind="figure",
    claims=(ABOVE, CHANCE, BELOW, FALLS, STAYS, MARGIN, CROSSES, BEYOND, DOMINATES, MIXED, ADJUSTED),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
