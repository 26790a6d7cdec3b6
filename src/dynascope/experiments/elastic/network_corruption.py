"""elastic Figure 4, Figure D.2, Figure D.5, Figure D.6: Networks with wrong labels: learning and tail indices."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dynascope import plots
from dynascope.data import corrupt_labels
from dynascope.experiments.claims import Claim, Judgement, above, below, equal, three_errors
from dynascope.experiments.elastic.network_training import (
    SMALL,
    Training,
    at_end,
    label_steps,
    last_iterations,
    pictures,
    read_strengths,
    train,
    unsettled,
)
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic.estimate import integrated_strengths
from dynascope.models.elastic.geometry import margin_amplitudes
from dynascope.models.elastic.tails import tail_index
from dynascope.statistics.errors import Estimate, over_trials
from dynascope.statistics.resampling import bootstrap_weights

_RANDOM = 2 / 3  # share of wrong labels at which three classes are labelled at random
_LESS, _AT_RANDOM, _MORE = slice(_RANDOM - 0.05), slice(_RANDOM - 1e-9, _RANDOM + 1e-9), slice(_RANDOM + 0.05, None)
_HALF, _FROM_RANDOM = slice(0.5), slice(_RANDOM - 0.05, None)
_STRENGTHS = ("intra", "inter")
_READ = {"I-model": "isotropic", "L-model": "logits"}  # of samples as they are drawn, with the source's code
_SHOWN = (0.0, 0.3, _RANDOM, 0.8)  # shares of Figures D.5 and D.6
_RESAMPLES = 100
_LAST = 0.1  # share of the records over which the end of training is averaged
_I_MODEL = "I-model as printed"
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
    whole = train(config, data, labels=np.stack(labels), keep_drawn=True)
    trained = whole[["class_mean", "loss", "accuracy"]]
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
    drawn = (whole[name].values[:, :, 0] for name in ("drawn_output", "drawn_label"))
    logits, own = (each.reshape((*split, *each.shape[1:])) for each in drawn)
    by_label = [_by_label(*pair) for pair in zip(logits, own, strict=True)]
    return record.drop_vars("class_mean").merge(xr.concat(by_label, record["share"]))


def _by_label(logits: Float[np.ndarray, "trial update logit"], labels: Int[np.ndarray, "trial update"]) -> xr.Dataset:
    """What the source reads: class means of the samples as drawn, by the label they are trained on, at each update.

    From update 0, a single sample of each network, to the middle and to the last 1000 updates: A, B, A − B and tail
    indices over `strength`, and the rate of A − B times the length of the class means, each with its standard error.
    """
    last = np.flatnonzero(last_iterations(np.arange(logits.shape[1])))
    chosen = np.concatenate([[0], last - last[0] // 2, last])
    own = (labels[:, chosen, None] == np.arange(logits.shape[2])).astype(float)  # (trial, update, class)
    sums = (own[..., None] * logits[:, chosen, None].astype(float)).reshape(len(own), -1)
    weights = np.concatenate([np.full((1, len(own)), 1 / len(own)), bootstrap_weights(len(own), _RESAMPLES, 0)])
    with np.errstate(divide="ignore", invalid="ignore"):  # updates at which no network drew a label are left out
        counts = (weights @ own.reshape(len(own), -1)).reshape(-1, *own.shape[1:], 1)
        means = (weights @ sums).reshape(-1, *own.shape[1:], logits.shape[2]) / counts
        found = [_tails(means, chosen, geometry) for geometry in _READ.values()]
    content: dict[str, Any] = {}
    for name in found[0]:
        values = np.stack([each[name] for each in found], axis=1)  # (resample, model, …)
        dims = ("model", "strength")[: values.ndim - 1]
        content[f"label_{name}"] = (dims, values[0])
        content[f"label_{name}_error"] = (dims, np.nanstd(values[1:], axis=0, ddof=1))
    return xr.Dataset(content, coords={"model": list(_READ), "strength": [*_STRENGTHS, "gap"]})


def _tails(
    means: Float[np.ndarray, "resample update class logit"], updates: np.ndarray, geometry: str
) -> dict[str, np.ndarray]:
    """Late in training: integrated strengths and tail indices (resample, strength), the adjusted rate (resample,)."""
    curves = integrated_strengths(means, geometry, method="code")
    middle, late = np.split(np.arange(1, len(updates)), 2)
    integrated, before = (_known_mean(curves[..., part]) for part in (late, middle))
    index = 1 - _known_mean(np.log(np.abs(curves[..., late])) / np.log1p(updates[late]))
    length = _known_mean(np.linalg.norm(means[:, late], axis=-1).reshape(len(means), -1))
    rate = (integrated - before)[:, -1] / (updates[late[0]] - updates[middle[0]])
    return {"integrated": integrated, "tail": index, "adjusted": rate * length}


def _known_mean(values: np.ndarray) -> np.ndarray:
    """Mean of what is finite along the last axis; NaN where nothing is."""
    known = np.isfinite(values)
    return np.asarray(np.where(known, values, 0.0).sum(axis=-1) / known.sum(axis=-1))


def _label(record: xr.Dataset, name: str, **chosen: str | list[str]) -> Estimate:
    """A quantity that was read by training label, (share, …), with its error over networks."""
    mean, error = (record[each].sel(chosen).values for each in (f"label_{name}", f"label_{name}_error"))
    return Estimate(mean, error, record.sizes["trial"])


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
    turned = Estimate(np.append(less.mean, -more.mean), np.append(less.error, more.error), less.runs)
    note = "mean amplitude of class means along their margin directions, times −1 where it should be negative"
    return above(turned, 0.0, note=note)


def _indices(record: xr.Dataset, reading: str) -> Estimate:
    """(D.19) of A and B on the probe, (share, strength), and standard errors from their intervals at the end."""
    each = record.sel(reading=reading)
    index = np.stack([each[f"tail_{name}"].values for name in _STRENGTHS], axis=1)
    ends = [at_end(each, f"integrated_{name}") for name in _STRENGTHS]
    errors = [end.error / np.abs(end.mean) / np.log1p(float(record["step"][-1])) for end in ends]
    return Estimate(index, np.stack(errors, axis=1), ends[0].runs)


def _lesser(indices: Estimate) -> Estimate:
    """min(r_α, r_β), for each share."""
    return indices[np.arange(len(indices.mean)), indices.mean.argmin(axis=1)]


def _least(record: xr.Dataset) -> Estimate:
    """The same by training label, I-model."""
    return _lesser(_label(record, "tail", model="I-model", strength=list(_STRENGTHS)))


def _by_share(record: xr.Dataset, values: np.ndarray) -> str:
    return ", ".join(f"{share:.2g}: {value:.2f}" for share, value in zip(record["share"].values, values, strict=True))


def _crosses(record: xr.Dataset) -> Judgement:
    half, random = (_least(record.sel(share=side)) for side in (_HALF, _AT_RANDOM))
    beyond = Estimate(np.append(1 - half.mean, random.mean - 1), np.append(half.error, random.error), half.runs)
    return above(beyond, 0.0, note=f"distance from 1; by share: {_by_share(record, _least(record).mean)}")


def _noise(record: xr.Dataset) -> Judgement:
    gap = _label(record, "integrated", model="I-model", strength="gap")
    note = (
        "A − B at the end, I-model; r = 1 − log|A|/log(1 + t) exceeds 1 where |A| < 1. Rival: A − B with true labels. "
        f"By share: {_by_share(record, gap.mean)}"
    )
    return equal(gap[record["share"].values >= _FROM_RANDOM.start], 0.0, rival=gap.mean[0], note=note)


def _dominates(record: xr.Dataset) -> Judgement:
    index = _label(record, "tail", model="L-model", strength=list(_STRENGTHS))
    ahead = np.where(record["share"] < _RANDOM - 0.05, -1.0, 1.0) * (index.mean[:, 1] - index.mean[:, 0])
    note = f"r_β − r_α, times −1 below 2/3; by share: {_by_share(record, index.mean[:, 1] - index.mean[:, 0])}"
    return above(Estimate(ahead, np.linalg.norm(index.error, axis=1), index.runs), 0.0, note=note)


def _mixed(record: xr.Dataset) -> Judgement:
    gap = _label(record, "integrated", model="I-model", strength="gap")
    return _shrinks(record, gap, "A − B at the end, I-model, in units of that with true labels")


def _adjusted(record: xr.Dataset) -> Judgement:
    note = "its mean over the second half of training, in such units"
    return _shrinks(record, _label(record, "adjusted", model="I-model"), note)


def _shrinks(record: xr.Dataset, strength: Estimate, note: str) -> Judgement:
    """Of the source's shares each has less than the one before below 2/3; from there on nothing (a tenth) is left."""
    share = record["share"].values
    shown = np.flatnonzero(np.isclose(share[:, None], _SHOWN).any(axis=1))
    size = Estimate(np.abs(strength.mean), strength.error, strength.runs)[shown].scaled(1 / np.abs(strength.mean[0]))
    bound = np.where(share[shown[1:]] < _RANDOM - 0.05, size.mean[:-1], 0.1)
    return below(size[1:], bound, note=f"{note}; by share: {_by_share(record, strength.mean)}")


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


def _draw_tails(record: xr.Dataset, ax: Axes, *, model: str) -> None:
    index = _label(record, "tail", model=model, strength=list(_STRENGTHS))
    curves = {f"r of {symbol}": index[:, row] for row, symbol in enumerate("αβ")}
    _draw_over_shares(record, ax, curves, 1.0, f"tail index (D.19) by training label, {model}")
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
            "elastic-fig4c-beyond",
            "min(r_α, r_β), I-model, stays above 1 beyond 2/3 wrong labels",
            lambda r: above(_least(r.sel(share=_MORE)), 1.0, note=_by_share(r, _least(r).mean)),
            _TAILS,
        ),
        unsettled(
            "elastic-fig4c-noise",
            "r > 1 is noise: grouped by training label, A − B from 2/3 wrong labels on is zero within its errors",
            _noise,
            _TAILS,
            "own",
        ),
        unsettled(
            "elastic-fig4c-probe",
            "on a probe, by true class, min(r_α, r_β) is below 1 beyond 2/3 wrong labels: classes part again, swapped",
            lambda r: below(_lesser(_indices(r.sel(share=_MORE), _I_MODEL)), 1.0),
            _TAILS,
            "own",
        ),
        unsettled(
            "elastic-figd2-dominates",
            "from about 2/3 wrong labels on r_β exceeds r_α, L-model, and only there",
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
        partial(_draw_tails, model="I-model"),
        partial(_draw_tails, model="L-model"),
        width=3.9,
    ),
    model="Ensemble",
    precision="float32",
    needs=("torch",),
    smoke=SMALL | {"shares": (0.0, _RANDOM, 0.9), "per_class": 60, "steps": 900, "trials": 12},
    laptop={"shares": (0.0, 0.5, _RANDOM, 0.8), "probes": 40, "steps": 8000, "records": 40, "trials": 8},
    adapted="50 networks at each share of wrong labels",
)
