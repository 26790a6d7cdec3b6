"""Claims on one training of networks: that it converges, what its strengths say, its two stages and its imitations."""

from dataclasses import replace
from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above, below, equal, not_run, three_errors
from dynascope.experiments.elastic.course_strengths import SEEN, STRENGTHS
from dynascope.experiments.elastic.network_imitation import IMITATION, MARGINS
from dynascope.experiments.elastic.network_training import (
    last_iterations,
    rate_of_change,
    recorded,
    unsettled,
)
from dynascope.experiments.experiment import settings
from dynascope.experiments.sources import elastic
from dynascope.models.elastic.tails import tail_index
from dynascope.statistics.errors import Estimate, over_trials, side_by_side
from dynascope.statistics.resampling import bootstrap_weights

_STATED = 0.9  # validation accuracy on CIFAR that the source states a lower bound for
_FIG_1, _D10 = (elastic(figure=number) for number in ("1", "D.10"))


def _final(values: xr.DataArray) -> Estimate:
    return over_trials(values.isel(step=-1).astype(float))


def _trained(record: xr.Dataset) -> str:
    return f"{record.sizes['trial']} networks, {int(record['step'][-1])} steps"


def _loss_vanishes(record: xr.Dataset) -> Judgement:
    begin = float(record["loss"].isel(step=0).mean())
    return below(_final(record["loss"]), SEEN * begin, note=_trained(record))


def _separated(record: xr.Dataset) -> Judgement:
    """Samples in the wrong order along the best direction (C.24) of each network, worst two classes."""
    seen, unseen = (record[name].max("pair").min("direction") for name in ("misplaced", "misplaced_unseen"))
    note = (
        "share of samples of two classes in the wrong order, worst two classes, two class means chosen for each"
        f" network; of pictures not trained on {float(unseen.mean()):.2f}"
    )
    return below(over_trials(seen), SEEN, note=note)


def _pairwise(record: xr.Dataset) -> Judgement:
    """The same along the direction of the two classes themselves."""
    wrong = record["misplaced"].transpose("trial", "direction", "pair").values
    return below(over_trials(np.diagonal(wrong, axis1=1, axis2=2).T), SEEN, note="for each two classes")


def _onset(record: xr.Dataset) -> float:
    """First step at which the mean validation loss has done a tenth of its fall to its lowest; NaN without a fall.

    Whether it falls is tested where half of the networks have it lowest, on the others, so that no chance helps it.
    """
    loss = record["loss"].transpose("step", "trial").values.astype(float)
    lowest = int(np.argmin(loss[:, ::2].mean(axis=1)))
    fall, mean = over_trials(loss[0, 1::2] - loss[lowest, 1::2]), loss.mean(axis=1)
    if not fall.mean > three_errors(fall.error, fall.runs):
        return np.nan
    return float(record["step"][int(np.argmax(mean <= mean[0] - SEEN * (mean[0] - mean.min())))])


def _at_onset(record: xr.Dataset, name: str) -> xr.DataArray:
    """A quantity when the validation loss begins to fall, NaN if it never does."""
    onset = _onset(record)
    return record[name].isel(step=0) * np.nan if np.isnan(onset) else record[name].sel(step=onset)


def _tail(record: xr.Dataset) -> Judgement:
    """(D.19) for A − B of the mean over networks, over the last 1000 iterations, with an error by bootstrap."""
    late = last_iterations(record["step"].values)
    log_time = np.log1p(record["step"].values[late])

    def index(growth: xr.DataArray) -> np.ndarray:
        return np.asarray(1 - (np.log(np.abs(growth.values[..., late])) / log_time).mean(axis=-1))

    growth, drawn = (record[name].values[..., late].mean(axis=-1) for name in ("mean_growth", "drawn_growth"))
    values = np.stack([index(record["mean_growth"]) - 1, -growth])
    errors = np.stack([index(record["drawn_growth"]).std(ddof=1), drawn.std(ddof=1)])
    note = (
        "1 − log|A − B|/log(1 + t), mean over the last 1000 iterations, less 1: it says that |A − B| > 1; then the "
        "negative of A − B, which falls where classes merge"
    )
    return below(Estimate(values, errors, record.sizes["trial"]), 0.0, note=note)


def _fitted_tail(record: xr.Dataset) -> Judgement:
    """Tail index of α − β from A − B, mean over networks, with an error by bootstrap over networks."""
    growth, steps = record["growth"].values, record["step"].values
    drawn = tail_index(steps, bootstrap_weights(len(growth), 100, 0) @ growth, "integrated")
    index = np.asarray(tail_index(steps, growth.mean(axis=0), "integrated"))
    found = Estimate(index, np.asarray(np.std(drawn, ddof=1)), len(growth))
    note = "fit to A − B of the last third of the records; logits that grow as log t give α − β ∝ 1/(t log t)"
    return below(found, 1.0, note=note)


def _hump(record: xr.Dataset, values: np.ndarray, what: str) -> Judgement:
    """Judge that the mean curve (trial, step) rises from its start to a peak, and falls from there to its end."""
    peak = int(np.argmax(values.mean(axis=0)))
    rise = over_trials(np.stack([values[:, peak] - values[:, 0], values[:, peak] - values[:, -1]]))
    return above(rise, 0.0, note=f"{what}, peak at step {int(record['step'][peak])} less start, less end")


def _mean_hump(record: xr.Dataset, name: str) -> Judgement:
    """The same of a curve read off the mean over networks, with an error by bootstrap."""
    curve, drawn = record[f"mean_{name}"].values, record[f"drawn_{name}"].transpose("resample", "step").values
    peak = int(np.argmax(curve))
    rise = curve[peak] - curve[[0, -1]]
    error = (drawn[:, peak, None] - drawn[:, [0, -1]]).std(axis=0, ddof=1)
    note = f"of the mean logits, peak at step {int(record['step'][peak])} less start, less end"
    return above(Estimate(rise, error, record.sizes["trial"]), 0.0, note=note)


def _rises(record: xr.Dataset, name: str, note: str = "") -> Judgement:
    rise, error, peak = (record[f"{name}{each}"].values for each in ("_rise", "_rise_error", "_peak"))
    at = (
        f"drawn samples, I-model, over {settings(record).window} updates, less the first and the last: at update"
        f" {int(peak)}, where half of the networks have their peak, measured on the others{note}"
    )
    return above(Estimate(rise, error, record.sizes["trial"] // 2), 0.0, note=at)


def _floor(record: xr.Dataset) -> Judgement:
    """On the probe α − β of the mean is larger at the start than where the drawn samples have their peak."""
    peak = int(np.abs(record["step"].values - int(record["drawn_peak"])).argmin())
    fall = record["mean_rate"].values[0] - record["mean_rate"].values[peak]
    drawn = record["drawn_rate"].transpose("resample", "step").values
    note = f"α − β of the mean logits of the probe at the start, less that at step {int(record['step'][peak])}"
    found = Estimate(fall, (drawn[:, 0] - drawn[:, peak]).std(ddof=1), record.sizes["trial"])
    return above(found, 0.0, note=f"{note}; the chance of some 33 samples hides it until class means have outgrown it")


def _sigmoid(record: xr.Dataset) -> Judgement:
    speed = rate_of_change(record["step"].values, record["length"].values)
    return _hump(record, speed, "speed of growth")


def _stages(record: xr.Dataset) -> Judgement:
    end, onset, found = float(record["amplification_time"]), _onset(record), bool(record["stages_found"])
    stages = f"turning ends at step {end:.0f}, the loss has fallen by a tenth at {onset:.0f}"
    return equal(float(found), 1.0, note=stages if found else record["stages_reason"].item())


def _turned(record: xr.Dataset) -> Judgement:
    first, last = (record["each_angle"].isel(step=end, drop=True) for end in (0, -1))
    onset = _at_onset(record, "each_angle").drop_vars("step")
    before, after = first - onset, onset - last
    note = f"radians, {float(before.mean()):.3g} before and {float(after.mean()):.3g} after, mean over networks"
    return above(over_trials(before - after), 0.0, note=note)


def _amplified(record: xr.Dataset) -> Judgement:
    growth = np.log(record["length"].isel(step=-1, drop=True) / _at_onset(record, "length"))
    return above(over_trials(growth), np.log(10.0), note="logarithm of the growth in length")


def _onset_step(record: xr.Dataset) -> Judgement:
    if (settings(record).network, settings(record).learning_rate) != ("lenet", 0.005):
        return not_run("judged with the source's network and learning rate only")
    onset = _onset(record)
    note = f"at step {onset:.0f}, a tenth of the fall; tolerance: a factor of 2"
    return equal(np.log2(onset / 1200), 0.0, 1.0, note=note)


def _window(record: xr.Dataset) -> Judgement:
    trend = record["trend"].values
    listed = ", ".join(f"{int(size)}: {value:.2f}" for size, value in zip(record["window_size"], trend, strict=True))
    note = f"correlation with α − β on the probe by window: {listed}"
    return above([0.5 - trend[0], trend[-1] - 0.5], 0.0, note=note)


def _overfits(record: xr.Dataset) -> Judgement:
    """Accuracy on what is trained on above what the paper states for other pictures, and the best on those below."""
    best = record["accuracy"].mean("trial").argmax("step")
    seen, unseen = over_trials(record["drawn_accuracy"]), over_trials(record["accuracy"].isel(step=best).astype(float))
    note = (
        f"training accuracy over the last 1000 updates less {_STATED}, that less the best validation accuracy,"
        f" {float(unseen.mean):.3f} at step {int(record['step'][best])}"
    )
    seen, unseen = Estimate(seen.mean - _STATED, seen.error, seen.runs), Estimate(_STATED - unseen.mean, unseen.error)
    return above(side_by_side(seen, unseen), 0.0, note=note)


FIGURE_1 = (
    unsettled(
        "fig1-separated",
        "along the difference of some two class means all classes part",
        _separated,
        _FIG_1,
        why=("fig1-pairwise, they do along their own",),
    ),
    unsettled(
        "fig1-pairwise", "along the difference of their own class means any two classes part", _pairwise, _FIG_1, "own"
    ),
)
_COURSE = (
    *STRENGTHS,
    unsettled(
        "fig4c-separable",
        "classes that part have α − β with a tail index below 1",
        _tail,
        elastic("D.19", figure="4(c)", theorem="Theorem 3.1"),
    ),
    unsettled(
        "fig4c-fitted",
        "a power law fitted to A − B of classes that part has a tail index below 1",
        _fitted_tail,
        elastic("D.17", theorem="Theorem 3.1"),
        "own",
    ),
    unsettled(
        "figd3-rises",
        "α − β of the mean over networks rises, then decays",
        partial(_rises, name="drawn", note="; why it rises: figd3-floor"),
        elastic(section="D.3", place="(ii)"),
    ),
    unsettled(
        "figd3-floor",
        "the rise is where class means outgrow the chance of few samples: on a probe α − β of the mean falls at once",
        _floor,
        elastic(section="D.3", place="(ii)"),
        "own",
    ),
    unsettled(
        "figd6-rises",
        "α − β times the length of the class means rises, then decays",
        partial(_mean_hump, name="adjusted_rate"),
        elastic(figure="D.6"),
    ),
    Claim("figd10-stages", "class means first turn, then only grow", _stages, _D10),
    Claim(
        "figd10-turned", "class means turn more before the loss falls than after", recorded(_turned, "each_angle"), _D10
    ),
    unsettled("figd10-amplified", "once the loss falls, class means grow at least tenfold", _amplified, _D10),
    unsettled(
        "figd3-sigmoid",
        "the length of class means grows fastest between start and end",
        _sigmoid,
        elastic(section="D.3", place="(iii)"),
    ),
    *IMITATION,
)
_SETUP = elastic(section="4.1")
GEOMNIST = (
    unsettled("sec4-converged", "validation loss goes to zero", _loss_vanishes, _SETUP),
    *_COURSE,
    MARGINS,
    unsettled(
        "fig3-drawn",
        "α of the drawn samples' logits rises, then decays",
        recorded(partial(_rises, name="drawn_intra"), "drawn_intra_rise"),
        elastic(figure="3, D.1"),
    ),
    unsettled("figd10-onset", "validation loss starts to fall at about iteration 1200", _onset_step, _D10),
    Claim(
        "figd1-window", "a window of 11 hides the trend of the strengths, 301 shows it", _window, elastic(figure="D.1")
    ),
)
CIFAR = (
    unsettled(
        "sec4-converged",
        "validation accuracy exceeds 0.9",
        lambda r: above(
            _final(r["accuracy"]),
            _STATED,
            note=f"{_trained(r)}; with two classes: elastic-sec4-two",
        ),
        _SETUP,
        why=("sec4-overfits, they learn the photographs by heart",),
    ),
    unsettled(
        "sec4-overfits",
        "networks have learnt the photographs, and at no step exceed 0.9 on others",
        _overfits,
        _SETUP,
        "own",
    ),
    *FIGURE_1,
    *_COURSE,
)


def claims_on(data: str, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Name the data in ids and statements, and in those that show why a claim fails, as far as they are among them.

    >>> claims_on("CIFAR", CIFAR[:1])[0].statement
    'CIFAR: validation accuracy exceeds 0.9'
    """
    named = {claim.id: f"elastic-{claim.id}-{data.lower()}" for claim in claims}

    def whys(claim: Claim) -> tuple[str, ...]:
        return tuple(f"{named[cause]}, {words}" for cause, words in claim.causes.items() if cause in named)

    return tuple(
        replace(claim, id=named[claim.id], statement=f"{data}: {claim.statement}", why=whys(claim)) for claim in claims
    )
