"""elastic Figure 4, Figure D.2, Figure D.5, Figure D.6: Networks with wrong labels: learning and tail indices."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.data import corrupt_labels
from dynascope.experiments.claims import Claim, Judgement, above, below, equal, three_errors
from dynascope.experiments.elastic.network_training import (
    SMALL,
    Training,
    at_end,
    label_steps,
    pictures,
    read_strengths,
    train,
    unsettled,
)
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic.geometry import margin_amplitudes
from dynascope.models.elastic.tails import tail_index
from dynascope.statistics.errors import Estimate, over_trials

_RANDOM = 2 / 3  # share of wrong labels at which three classes are labelled at random
_LESS, _AT_RANDOM, _MORE = slice(_RANDOM - 0.05), slice(_RANDOM - 1e-9, _RANDOM + 1e-9), slice(_RANDOM + 0.05, None)
_HALF, _FROM_RANDOM = slice(0.5), slice(_RANDOM - 0.05, None)
_STRENGTHS = ("intra", "inter")
_LAST = 0.1  # share of the records over which the end of training is averaged
_I_MODEL, _L_MODEL = "I-model as printed", "L-model as printed"
_ACCURACY, _LOSS = elastic(figure="4(b)"), elastic(figure="4(a)")
_TAILS = elastic("D.19", figure="4(c)")


@dataclass(frozen=True)
class Config(Training):
    """Networks at several shares of wrong labels, all in one ensemble; `trials` of them at each share."""

    shares: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, _RANDOM, 0.7, 0.8)
    per_class: int = 500
    trials: int = 50


def run(config: Config) -> xr.Dataset:
    """Train all shares of wrong labels at once; read strengths and tail indices at each share."""
    data = pictures(config)
    labels = [corrupt_labels(data[1], share, seed=trial) for share in config.shares for trial in range(config.trials)]
    trained = train(config, data, labels=np.stack(labels))[["class_mean", "loss", "accuracy"]]
    split = (len(config.shares), config.trials)
    record = xr.Dataset(
        {
            name: (("share", "trial", *each.dims[1:]), each.values.reshape((*split, *each.shape[1:])))
            for name, each in trained.items()
        },
        coords={"share": list(config.shares), "step": trained["step"]},
    )
    means, steps = record["class_mean"].values.astype(float), record["step"].values
    record = record.merge(xr.concat([read_strengths(steps, each) for each in means], record["share"]))
    for name in _STRENGTHS:  # with the absolute value that (D.19) needs where B is negative
        size = np.abs(record[f"integrated_{name}"].transpose("share", "reading", "step").values)
        record[f"tail_{name}"] = (("share", "reading"), tail_index(steps, size, "published"))
    record["margin"] = (("share", "trial", "step"), margin_amplitudes(means).mean(axis=-1))
    return record.drop_vars("class_mean")


def _end(record: xr.Dataset, name: str, share: slice = slice(None)) -> Estimate:
    """Mean over trials at the end of training, for each of the shares."""
    late = record[name].isel(step=slice(-max(1, round(_LAST * record.sizes["step"])), None))
    return over_trials(late.sel(share=share).mean("step"))


def _begin(record: xr.Dataset, share: slice) -> np.ndarray:
    """Validation loss at the start."""
    return np.asarray(record["loss"].sel(share=share).isel(step=0).mean("trial").values)


def _trials(record: xr.Dataset) -> str:
    return f"{record.sizes['trial']} networks at each share, {int(record['step'][-1])} steps"


def _loss_stays(record: xr.Dataset) -> Judgement:
    loss = _end(record, "loss", _FROM_RANDOM)
    return above(loss.mean, _begin(record, _FROM_RANDOM), -three_errors(loss.error, loss.runs), note=_trials(record))


def _margin(record: xr.Dataset) -> Judgement:
    less, more = (_end(record, "margin", side) for side in (_LESS, _MORE))
    turned = Estimate(np.append(less.mean, -more.mean), np.append(less.error, more.error))
    note = "mean amplitude of class means along their margin directions, times −1 where it should be negative"
    return above(turned, 0.0, note=note)


def _indices(record: xr.Dataset, reading: str) -> Estimate:
    """(D.19) of A and B, (share, strength), and standard errors from the intervals of A and B at the end."""
    each = record.sel(reading=reading)
    index = np.stack([each[f"tail_{name}"].values for name in _STRENGTHS], axis=1)
    ends = [at_end(each, f"integrated_{name}") for name in _STRENGTHS]
    errors = [end.error / np.abs(end.mean) / np.log1p(float(record["step"][-1])) for end in ends]
    return Estimate(index, np.stack(errors, axis=1), ends[0].runs)


def _least(record: xr.Dataset) -> Estimate:
    """min(r_α, r_β) of the I-model, for each share."""
    indices = _indices(record, _I_MODEL)
    return indices[np.arange(len(indices.mean)), indices.mean.argmin(axis=1)]


def _crosses(record: xr.Dataset) -> Judgement:
    half, random = (_least(record.sel(share=side)) for side in (_HALF, _AT_RANDOM))
    named = zip(record["share"].values, _least(record).mean, strict=True)
    listed = ", ".join(f"{share:.2g}: {value:.2f}" for share, value in named)
    beyond = Estimate(np.append(1 - half.mean, random.mean - 1), np.append(half.error, random.error))
    return above(beyond, 0.0, note=f"distance from 1; by share: {listed}")


def _beyond(record: xr.Dataset) -> Judgement:
    return above(_least(record.sel(share=_MORE)), 1.0, note="classes part again, with labels swapped")


def _dominates(record: xr.Dataset) -> Judgement:
    index, error = _indices(record, _L_MODEL)
    ahead = np.where(record["share"] < _RANDOM - 0.05, -1.0, 1.0) * (index[:, 1] - index[:, 0])
    note = "r_β − r_α, times −1 below 2/3; as printed, where a factor changes sign"
    return above(Estimate(ahead, np.linalg.norm(error, axis=1)), 0.0, note=note)


def _mixed(record: xr.Dataset) -> Judgement:
    end = record["integrated_gap"].isel(step=-1)
    return _shrinks(record, end, "A − B at the end, I-model as printed, in units of that with true labels")


def _adjusted(record: xr.Dataset) -> Judgement:
    late = record["adjusted_gap"].isel(step=slice(record.sizes["step"] // 2, None)).mean("step", skipna=False)
    return _shrinks(record, late, "its mean over the second half of the records, in such units")


def _shrinks(record: xr.Dataset, strength: xr.DataArray, note: str) -> Judgement:
    """Below 2/3 wrong labels each share has less than the one before; from there on nothing (a tenth) is left."""
    size = np.abs(strength.sel(reading=_I_MODEL).values)
    size = size / size[0]
    return below(size[1:], np.where(record["share"][1:] < _RANDOM - 0.05, size[:-1], 0.1), note=note)


def _draw_loss(record: xr.Dataset, ax: Axes) -> None:
    """Validation loss over time."""
    share = record["share"].values
    for index, value in enumerate(share):
        colour = (0.0, 0.45, 0.7, 1 - 0.8 * index / len(share)) if value < _RANDOM - 0.01 else plots.PALETTE[1]
        ax.plot(record["step"], record["loss"][index].mean("trial"), color=colour, label=f"{value:.2g} wrong")
    ax.axhline(float(record["loss"].isel(step=0).mean()), color="black", linestyle=":")
    label_steps(ax, "validation loss")


def _draw_over_shares(record: xr.Dataset, ax: Axes, curves: dict[str, Estimate], level: float, ylabel: str) -> None:
    """Quantities over the share of wrong labels, with two standard errors."""
    for colour, (label, curve) in zip(plots.PALETTE, curves.items(), strict=False):
        ax.errorbar(record["share"], curve.mean, 2 * curve.error, fmt="o-", color=colour, label=label)
    ax.axhline(level, color="black", linestyle=":")
    ax.axvline(_RANDOM, color="grey", linestyle="--")
    ax.set(xlabel="share of wrong labels", ylabel=ylabel)
    ax.legend(frameon=False, fontsize="x-small")


def _draw_accuracy(record: xr.Dataset, ax: Axes) -> None:
    curves = {"with two standard errors": _end(record, "accuracy")}
    _draw_over_shares(record, ax, curves, 1 / 3, "validation accuracy at the end")


def _draw_tails(record: xr.Dataset, ax: Axes, *, reading: str) -> None:
    index, error = _indices(record, reading)
    curves = {f"r of {symbol}": Estimate(index[:, row], error[:, row]) for row, symbol in enumerate("αβ")}
    _draw_over_shares(record, ax, curves, 1.0, f"tail index (D.19), {reading}")
    ax.set_ylim(0.4, 1.6)


EXPERIMENT = Experiment(
    elastic(figure="4, D.2, D.5, D.6"),
    Config(),
    run,
    claims=(
        Claim(
            "elastic-fig4b-learnt",
            "validation accuracy is above chance below 2/3 wrong labels",
            lambda r: above(_end(r, "accuracy", _LESS), 1 / 3, note=_trials(r)),
            _ACCURACY,
        ),
        Claim(
            "elastic-fig4b-chance",
            "validation accuracy is 1/3 at 2/3 wrong labels",
            lambda r: equal(_end(r, "accuracy", _AT_RANDOM), 1 / 3, note=_trials(r)),
            _ACCURACY,
        ),
        Claim(
            "elastic-fig4b-below",
            "validation accuracy is below chance beyond 2/3 wrong labels",
            lambda r: below(_end(r, "accuracy", _MORE), 1 / 3, note=_trials(r)),
            _ACCURACY,
        ),
        Claim(
            "elastic-fig4a-falls",
            "validation loss falls with up to half of the labels wrong",
            lambda r: below(_end(r, "loss", _HALF), _begin(r, _HALF), note=_trials(r)),
            _LOSS,
        ),
        Claim("elastic-fig4a-stays", "validation loss does not fall from 2/3 wrong labels on", _loss_stays, _LOSS),
        Claim(
            "elastic-fig4-margin",
            "class means move towards their labels below 2/3 wrong labels, away beyond",
            _margin,
            elastic(figure="4"),
        ),
        unsettled("elastic-fig4c-crosses", "min(r_α, r_β), I-model, crosses 1 between 1/2 and 2/3", _crosses, _TAILS),
        unsettled(
            "elastic-fig4c-beyond", "min(r_α, r_β), I-model, stays above 1 beyond 2/3 wrong labels", _beyond, _TAILS
        ),
        unsettled(
            "elastic-figd2-dominates",
            "from about 2/3 wrong labels on r_β exceeds r_α, L-model",
            _dominates,
            elastic(figure="D.2(b)"),
        ),
        unsettled(
            "elastic-figd5-mixed", "A − B shrinks as labels get worse, to nothing at 0.8", _mixed, elastic(figure="D.5")
        ),
        unsettled(
            "elastic-figd6-mixed", "so does α − β times the length of the class means", _adjusted, elastic(figure="D.6")
        ),
    ),
    picture=Panels(
        _draw_loss,
        _draw_accuracy,
        partial(_draw_tails, reading=_I_MODEL),
        partial(_draw_tails, reading=_L_MODEL),
        width=3.9,
    ),
    model="Ensemble",
    precision="float32",
    needs=("torch",),
    smoke=SMALL | {"shares": (0.0, _RANDOM, 0.9), "per_class": 60, "steps": 900, "trials": 12},
    laptop={"shares": (0.0, 0.5, _RANDOM, 0.8), "probes": 40, "steps": 8000, "records": 40, "trials": 8},
    adapted="50 networks at each share of wrong labels, class means over a probe set",
)
