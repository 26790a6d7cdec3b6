"""elastic Figure 4, Figure D.2, Figure D.5, Figure D.6: Networks with wrong labels: learning and tail indices."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.data import corrupt_labels
from dynascope.experiments.claims import Claim, Judgement, Kind, above, below, equal
from dynascope.experiments.elastic.network_labels import STRENGTHS, averaged, by_share
from dynascope.experiments.elastic.network_training import (
    SMALL,
    Data,
    Training,
    at_end,
    label_steps,
    pictures,
    read_strengths,
    train,
    unsettled,
)
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import Source, elastic
from dynascope.models.elastic.geometry import margin_amplitudes
from dynascope.models.elastic.tails import tail_index
from dynascope.statistics.errors import Estimate, over_trials, side_by_side

_RANDOM = 2 / 3  # share of wrong labels at which three classes are labelled at random
_LESS, _AT_RANDOM, _MORE = slice(_RANDOM - 0.05), slice(_RANDOM - 1e-9, _RANDOM + 1e-9), slice(_RANDOM + 0.05, None)
_HALF, _FROM_RANDOM = slice(0.5), slice(_RANDOM - 0.05, None)
_LENGTHS = ("text", "code")  # as many updates as the source's text states, or its code makes
_MEMORISED = ("elastic-fig4c-memorised, labels are learnt by heart in part",)
_NOISE = ("elastic-fig4c-noise, what is above 1 is noise",)
_BY_HEART = (*_MEMORISED, "elastic-fig4c-probe, beyond 2/3 classes part again")
_SWAPPED = ("elastic-fig4c-swapped, beyond 2/3 labels tell what a picture is not",)
_ORDERED = (
    "elastic-figd2-size, planted |B| < |A| does so without a wrong label",
    "elastic-figd2-clean, it does so with true labels",
)
_SHOWN = (0.0, 0.3, _RANDOM, 0.8)  # shares of Figures D.5 and D.6
_NOTHING = 0.1  # of the value with true labels: as good as none
_LAST = 0.1  # share of the records over which the end of training is averaged
_I_MODEL = "I-model as printed"
_ACCURACY, _LOSS = elastic(figure="4(b)"), elastic(figure="4(a)")
_TAILS = elastic("D.19", figure="4(c)")


@dataclass(frozen=True)
class Config(Training):
    """Networks at several shares of wrong labels, all in one ensemble; `trials` of them at each share.

    coded_steps: after how many updates the source's code ends; its text says `steps`
    ensembles: as many are read after `coded_steps`, each as the source reads its one, and averaged
    """

    shares: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, _RANDOM, 0.7, 0.8)
    per_class: int = 500
    records: int = 100
    coded_steps: int = 10_000
    ensembles: int = 4


def run(config: Config) -> xr.Dataset:
    """Train all shares of wrong labels at once; read strengths and tail indices at each share."""
    data = pictures(config)
    whole = _train(config, data)
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
    for name in STRENGTHS:  # with the absolute value that (D.19) needs where B is negative
        size = np.abs(record[f"integrated_{name}"].transpose("share", "reading", "step").values)
        record[f"tail_{name}"] = (("share", "reading"), tail_index(steps, size, "published"))
    record["margin"] = (("share", "trial", "step"), margin_amplitudes(means).mean(axis=-1))
    read = partial(by_share, shares=config.shares, seed=config.seed)
    coded = [read(whole, config.coded_steps)]
    for number in range(1, config.ensembles):
        again = replace(config, steps=config.coded_steps, seed=config.seed + number)
        coded.append(read(_train(again, data, number), config.coded_steps))
    parts = [read(whole, config.steps), averaged(coded)]
    return record.drop_vars("class_mean").merge(xr.concat(parts, xr.Variable("until", list(_LENGTHS))))


def _train(config: Config, data: Data, number: int = 0) -> xr.Dataset:
    """All shares at once, (share × trial, …); each network of each ensemble has wrong labels of its own."""
    seeds = range(number * config.trials, (number + 1) * config.trials)
    labels = [corrupt_labels(data[1], share, seed=seed) for share in config.shares for seed in seeds]
    return train(config, data, labels=np.stack(labels), keep_drawn=True)


def _label(record: xr.Dataset, name: str, until: str = "text", **chosen: str | list[str]) -> Estimate:
    """A quantity that was read by training label, (share, …), with its error over networks."""
    found = record.sel({"until": until, **chosen})
    return Estimate(found[f"label_{name}"].values, found[f"label_{name}_error"].values, record.sizes["trial"])


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
    return above(_end(record, "loss", _FROM_RANDOM), _begin(record, _FROM_RANDOM), note=_trials(record))


def _chance(record: xr.Dataset) -> Judgement:
    rival = _end(record, "accuracy", _LESS).mean[-1]
    note = f"{_trials(record)}; rival: the accuracy with the share of wrong labels next below, {rival:.3f}"
    return equal(_end(record, "accuracy", _AT_RANDOM), 1 / 3, rival=rival, note=note)


def _margin(record: xr.Dataset) -> Judgement:
    less, more = (_end(record, "margin", side) for side in (_LESS, _MORE))
    turned = side_by_side(less, more.scaled(-1.0))
    note = "mean amplitude of class means along their margin directions, times −1 where it should be negative"
    return above(turned, 0.0, note=note)


def _indices(record: xr.Dataset, reading: str) -> Estimate:
    """(D.19) of A and B on the probe, (share, strength), and standard errors from their intervals at the end."""
    each = record.sel(reading=reading)
    index = np.stack([each[f"tail_{name}"].values for name in STRENGTHS], axis=1)
    ends = [at_end(each, f"integrated_{name}") for name in STRENGTHS]
    errors = [end.error / np.abs(end.mean) / np.log1p(float(record["step"][-1])) for end in ends]
    return Estimate(index, np.stack(errors, axis=1), ends[0].runs)


def _lesser(indices: Estimate) -> Estimate:
    """min(r_α, r_β), for each share."""
    return indices[np.arange(len(indices.mean)), indices.mean.argmin(axis=1)]


def _least(record: xr.Dataset, until: str) -> Estimate:
    """The same by training label, I-model."""
    return _lesser(_label(record, "tail", until, model="I-model", strength=list(STRENGTHS)))


def _by_share(record: xr.Dataset, values: np.ndarray) -> str:
    return ", ".join(f"{share:.2g}: {value:.2f}" for share, value in zip(record["share"].values, values, strict=True))


def _crosses(record: xr.Dataset, until: str) -> Judgement:
    half, random = (_least(record.sel(share=side), until) for side in (_HALF, _AT_RANDOM))
    beyond = side_by_side(Estimate(1 - half.mean, half.error, half.runs), Estimate(random.mean - 1, random.error))
    listed = _by_share(record, _least(record, until).mean)
    return above(beyond, 0.0, note=f"distance from 1; by share: {listed}")


def _beyond(record: xr.Dataset, until: str) -> Judgement:
    listed = _by_share(record, _least(record, until).mean)
    return above(_least(record.sel(share=_MORE), until), 1.0, note=f"{listed}")


def _noise(record: xr.Dataset) -> Judgement:
    """A − B beyond that with shuffled labels, from random labels on, in units of A − B with true labels."""
    whole = _label(record, "integrated", "code", model="I-model", strength="gap").mean
    excess = _label(record, "excess", "code", model="I-model")
    note = (
        "I-model, in units of A − B with true labels; r = 1 − log|A|/log(1 + t) exceeds 1 where |A| < 1. A − B"
        f" {_by_share(record, whole)}, of which labels {_by_share(record, excess.mean)}"
    )
    return below(excess[record["share"].values >= _FROM_RANDOM.start].scaled(1 / whole[0]), _NOTHING, note=note)


def _memorised(record: xr.Dataset) -> Judgement:
    """Samples that networks have right by their training label, beside the most that their class could tell."""
    found = record.sel(until="text", share=_FROM_RANDOM)
    wrong = found["share"].values
    told = np.maximum(1 - wrong, wrong / (settings(record).classes - 1)) + 1 / settings(record).per_class
    known = Estimate(found["memorised"].values, found["memorised_error"].values, record.sizes["trial"])
    coded = _by_share(record, record["memorised"].sel(until="code").values)
    return above(known, told, note=f"share of samples; after as many iterations as the code makes {coded}")


def _swapped(record: xr.Dataset) -> Judgement:
    then = record["accuracy"].sel(share=_MORE).sel(step=settings(record).coded_steps, method="nearest")
    return below(over_trials(then), 1 / 3, note=f"validation accuracy at step {int(then['step'])}")


def _swapped_on_probe(record: xr.Dataset) -> Judgement:
    index, margin = _lesser(_indices(record.sel(share=_MORE), _I_MODEL)), _end(record, "margin", _MORE)
    note = "min(r_α, r_β), and the amplitude of class means along their margin directions"
    return below(side_by_side(index, margin), [*np.ones(index.mean.size), *np.zeros(margin.mean.size)], note=note)


def _order(record: xr.Dataset, until: str) -> Estimate:
    """r_β − r_α of the L-model, for each share."""
    index = _label(record, "tail", until, model="L-model", strength=list(STRENGTHS))
    return Estimate(index.mean[:, 1] - index.mean[:, 0], np.linalg.norm(index.error, axis=1), index.runs)


def _dominates(record: xr.Dataset, until: str) -> Judgement:
    order = _order(record, until)
    sides = np.where(record["share"] < _RANDOM - 0.05, -1.0, 1.0)
    note = f"r_β − r_α, times −1 below 2/3; by share: {_by_share(record, order.mean)}"
    return above(order.scaled(sides), 0.0, note=note)


def _clean(record: xr.Dataset) -> Judgement:
    found = side_by_side(*(_order(record, until)[0] for until in _LENGTHS))
    return above(found, 0.0, note="r_β − r_α with true labels, after as many updates as in the text and in the code")


def _mixed(record: xr.Dataset, until: str) -> Judgement:
    gap = _label(record, "integrated", until, model="I-model", strength="gap")
    return _shrinks(record, gap, "A − B at the end, I-model, in units of that with true labels")


def _adjusted(record: xr.Dataset) -> Judgement:
    note = "its mean over the second half of training, in such units"
    return _shrinks(record, _label(record, "adjusted", model="I-model"), note)


def _shrinks(record: xr.Dataset, strength: Estimate, note: str) -> Judgement:
    """Of the source's shares each has less than the one before below 2/3; from there on nothing (a tenth) is left."""
    share = record["share"].values
    shown = np.flatnonzero(np.isclose(share[:, None], _SHOWN).any(axis=1))
    size = Estimate(np.abs(strength.mean), strength.error, strength.runs)[shown].scaled(1 / np.abs(strength.mean[0]))
    bound = np.where(share[shown[1:]] < _RANDOM - 0.05, size.mean[:-1], _NOTHING)
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
    index = _label(record, "tail", model=model, strength=list(STRENGTHS))
    curves = {f"r of {symbol}": index[:, row] for row, symbol in enumerate("αβ")}
    _draw_over_shares(record, ax, curves, 1.0, f"tail index (D.19) by training label, {model}")
    ax.set_ylim(0.4, 1.6)


def _twice(
    name: str,
    statement: str,
    judge: Callable[..., Judgement],
    source: Source = _TAILS,
    whys: tuple[tuple[str, ...], ...] = (_BY_HEART, _SWAPPED + _NOISE),
) -> list[Claim]:
    """A claim on as many updates as the source's text states, and one on as many as its code makes."""
    stated = {name: statement, f"{name}-code": "so it does after as many iterations as the source's code makes"}
    kinds: tuple[Kind, Kind] = ("printed", "own")
    parts = zip(stated.items(), _LENGTHS, kinds, whys, strict=True)
    return [unsettled(*each, partial(judge, until=until), source, kind, why=why) for each, until, kind, why in parts]


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
            _chance,
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
        unsettled("elastic-fig4a-stays", "validation loss does not fall from 2/3 wrong labels on", _loss_stays, _LOSS),
        Claim(
            "elastic-fig4-margin",
            "class means move towards their labels below 2/3 wrong labels, away beyond",
            _margin,
            elastic(figure="4"),
            "own",
        ),
        *_twice(
            "elastic-fig4c-crosses",
            "min(r_α, r_β), I-model, crosses 1 between 1/2 and 2/3",
            _crosses,
            whys=(_MEMORISED, _NOISE),  # others speak of shares beyond 2/3
        ),
        *_twice(
            "elastic-fig4c-beyond",
            "min(r_α, r_β), I-model, stays above 1 beyond 2/3 wrong labels",
            _beyond,
        ),
        unsettled(
            "elastic-fig4c-noise",
            "r > 1 is noise: after as many iterations as the source's code makes shuffled labels give the same A − B "
            "from 2/3 wrong labels on, up to a tenth of that with true labels",
            _noise,
            _TAILS,
            "own",
        ),
        unsettled(
            "elastic-fig4c-memorised",
            "after as many iterations as the text states labels part that no class tells: from 2/3 wrong labels on "
            "networks know more of them than their classes could",
            _memorised,
            _TAILS,
            "own",
        ),
        unsettled(
            "elastic-fig4c-swapped",
            "beyond 2/3 wrong labels tell what a picture is not: after as many iterations as the source's code makes "
            "networks are right less often than by chance",
            _swapped,
            _TAILS,
            "own",
        ),
        unsettled(
            "elastic-fig4c-probe",
            "on a probe, by true class, min(r_α, r_β) is below 1 beyond 2/3 wrong labels: classes part again, swapped",
            _swapped_on_probe,
            _TAILS,
            "own",
        ),
        *_twice(
            "elastic-figd2-dominates",
            "from about 2/3 wrong labels on r_β exceeds r_α, L-model, and only there",
            _dominates,
            elastic(figure="D.2(b)"),
            (_ORDERED, _ORDERED),
        ),
        unsettled(
            "elastic-figd2-clean",
            "r_β exceeds r_α with true labels too, L-model: that |B| < |A| tells no wrong labels",
            _clean,
            elastic(figure="D.2(b)"),
            "own",
        ),
        *_twice(
            "elastic-figd5-mixed",
            "A − B shrinks as labels get worse, to nothing at 0.8",
            _mixed,
            elastic(figure="D.5"),
            (_BY_HEART, _SWAPPED),
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
    smoke=SMALL
    | {"shares": (0.0, _RANDOM, 0.9), "per_class": 60, "steps": 900, "coded_steps": 600, "trials": 12}
    | {"ensembles": 2},
    laptop={
        "shares": (0.0, 0.5, _RANDOM, 0.8),
        "probes": 40,
        "steps": 8000,
        "coded_steps": 4000,
        "ensembles": 1,
        "records": 40,
        "trials": 8,
    },
    adapted="losses, accuracies and margins over a probe set",
)
