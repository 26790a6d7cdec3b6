"""Figures 5, D.7 to D.9: do the I- and the L-model imitate trained networks? Judged on other networks as well."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.elastic.network_training import label_steps, unsettled
from dynascope.experiments.experiment import Axes
from dynascope.experiments.sources import elastic
from dynascope.imitation import imitate
from dynascope.imitation.judging import published_paths, published_strengths
from dynascope.models.elastic.mean_path import logit_path
from dynascope.models.elastic.strengths import Sampled
from dynascope.statistics.errors import Estimate, over_trials

GEOMETRIES = ("logits", "isotropic", "mixture", "softmax")
_KEPT = ("relative_difference", "fitted_difference", "forecast_difference", "imitated_mean")
_SHARED = ("noise_floor", "baseline_difference", "forecast_baseline_difference", "forecast_time")
_TERMINAL = 4  # the last quarter of the records is the terminal stage
_SMALL = 0.1  # upper end of "of the order 1e-2 to 1e-1"
_STARTS, _START_SETS = 500, 100  # single random starts, and sets of them that are averaged
_SIMULATED = (
    ("logits", "logits"),
    ("isotropic", "logits"),
    ("null", "logits"),
    ("logits", "isotropic"),
    ("isotropic", "isotropic"),
)  # strengths, and the model that they drive
_D9, _D2 = elastic(figure="D.9"), elastic(section="D.2")
_ALIGNED = f"share of {_START_SETS} sets of random starts that end with every class at its own logit, after one scalar"


def imitations(trained: xr.Dataset, begin: float, strengths: xr.Dataset, seed: int) -> xr.Dataset:
    """Imitate the networks by several geometries from step `begin` on, and as the source does from step 0 on.

    strengths: of `read_strengths`. Variables keep the names of `imitate`, those of the published procedure are called
    printed_…; `identified` is the share of random starts, as printed, whose every class ends with its own logit the
    largest, `identified_coded` that with the strengths of the source's code, `opposite` the largest number of two
    opposite starts that do.
    """
    options: dict[str, Any] = {"resamples": 20, "seed": seed}
    ours = imitate(trained, list(GEOMETRIES), splits=4, reference_time=begin, **options)
    theirs = imitate(trained, ["logits", "isotropic"], procedure="published", splits=1, reference_time=0.0, **options)
    names = {name: f"printed_{name}" for name in ("fitted_difference", "imitated_mean")}
    found = ours[[*_KEPT, *_SHARED]].sel(equation="ode", drop=True)
    printed = theirs[list(names)].sel(equation="ode", drop=True).rename(names).reindex(geometry=list(GEOMETRIES))
    whole = found.merge(printed).drop_attrs().rename(time="step", feature="logit")
    return whole.assign(_identified(trained, strengths, seed)).merge(_published(trained, seed))


def _identified(trained: xr.Dataset, strengths: xr.Dataset, seed: int) -> dict[str, float]:
    """L-model with its strengths as read, from N(0, |X̄_k(0)|²/K): how often do all classes find their own logit?"""
    first = trained["class_mean"].isel(step=0).mean("trial").values.astype(float)
    random = np.random.default_rng([seed, 5]).standard_normal((_STARTS, *first.shape))
    starts = random * np.linalg.norm(first, axis=1, keepdims=True) / np.sqrt(len(first))
    times, shares, pairs = strengths["step"].values.astype(float), {}, []
    for name, reading in (("identified", "L-model as printed"), ("identified_coded", "L-model as coded")):
        laws = [Sampled(times, strengths[each].sel(reading=reading).values) for each in ("intra", "inter")]
        found = [_all_own(logit_path(times[-1:], turned * starts, *laws)[:, 0]) for turned in (1, -1)]
        shares[name] = float(found[0].mean())
        pairs.append(np.sum(found, axis=0))
    return shares | {"opposite": float(np.max(pairs))}


def _all_own(ends: np.ndarray) -> np.ndarray:
    """Whether every class ends with its own logit the largest, for (…, class, logit)."""
    return np.asarray((ends.argmax(axis=-1) == np.arange(ends.shape[-2])).all(axis=-1))


def _published(trained: xr.Dataset, seed: int) -> xr.Dataset:
    """The source's simulation from many sets of random starts: is every class found, and by what scalar?

    Strengths of the L- and of the I-model through the L-model (Figure 5) and through the I-model (Figure D.7); and a
    null that knows only how much α grew in all, spread evenly, and no β.
    """
    times, means = trained["step"].values.astype(float), trained["class_mean"].mean("trial").values.astype(float)
    strengths = {name: published_strengths(times, means, name) for name in ("logits", "isotropic")}
    even = np.trapezoid(strengths["logits"][0], times) / (times[-1] - times[0])
    strengths["null"] = np.stack([np.full(len(times), even), np.zeros(len(times))])
    found, scales = [], []
    for name, geometry in _SIMULATED:
        paths, scale = published_paths(
            times, means, strengths[name], geometry=geometry, seeds=range(seed, seed + _START_SETS)
        )
        found.append(_all_own(paths[:, -1]).astype(float))
        scales.append(scale)
    record = xr.Dataset({"found": (("simulated", "starts"), found), "scalar": (("simulated", "starts"), scales)})
    return record.assign_coords(simulated=[f"{name} in {geometry}" for name, geometry in _SIMULATED])


def _late(record: xr.Dataset) -> Judgement:
    along = _held_out(record, "H")
    return below(along["logits"], _SMALL, note=_listed(record, along))


def _class_mean(record: xr.Dataset) -> xr.DataArray:
    """Differences from networks not fitted to, mean over classes, where they are known."""
    return record["relative_difference"].mean("class").dropna("step")


def _better(record: xr.Dataset, *, norm: str, note: str) -> Judgement:
    """Share of the records at which the L-model is closer in the H-norm than the I-model in the given one."""
    known = _class_mean(record)
    better = known.sel(geometry="logits", norm="H") < known.sel(geometry="isotropic", norm=norm)
    return above(float(better.mean()), 0.95, note=f"share of the records, networks not fitted to{note}")


def _better_plain(record: xr.Dataset) -> Judgement:
    plain = _held_out(record, "plain")
    return below(plain["logits"], [plain["isotropic"], plain["persistence"]], note=_listed(record, plain))


def _improves(record: xr.Dataset) -> Judgement:
    ours = _class_mean(record).sel(geometry="logits", norm="H")
    third = ours.sizes["step"] // 3
    first, last = (float(ours.isel(step=part).mean()) for part in (slice(third), slice(-third, None)))
    return below(last, first, note="mean over last and first third")


def _wrong(record: xr.Dataset) -> Judgement:
    plain = _held_out(record, "plain")
    return above(plain["logits"], 2 * plain["noise floor"], note="twice the noise floor")


def _printed_end(record: xr.Dataset, geometry: str) -> np.ndarray:
    """Class means at the end, (class, logit), simulated as in the source."""
    return np.asarray(record["printed_imitated_mean"].sel(geometry=geometry).isel(step=-1).values)


def _shares(record: xr.Dataset, *simulated: str) -> xr.DataArray:
    """Whether every class was found, (simulated, trial): a trial is a set of random starts."""
    return record["found"].sel(simulated=list(simulated)).rename(starts="trial")


def _listed_shares(record: xr.Dataset) -> str:
    shares = record["found"].mean("starts")
    return f"{_ALIGNED}: " + ", ".join(
        f"{each.item()} {float(share):.2f}" for each, share in zip(shares["simulated"], shares, strict=True)
    )


def _beats_null(record: xr.Dataset) -> Judgement:
    lead = _shares(record, "logits in logits").values - _shares(record, "null in logits").values
    return above(over_trials(lead), 0.0, note=_listed_shares(record))


def _misses(record: xr.Dataset, *simulated: str) -> Judgement:
    return below(over_trials(_shares(record, *simulated)), 0.95, note=_listed_shares(record))


def _scalar(record: xr.Dataset) -> Judgement:
    scalar = record["scalar"].sel(simulated="logits in logits").values
    share = Estimate(float((scalar > 0).mean()), 0.5 / np.sqrt(len(scalar)))
    low, middle, high = np.quantile(np.abs(scalar), [0.1, 0.5, 0.9])
    sizes = f"its size: {low:.3g}, {middle:.3g}, {high:.3g} (10, 50, 90 %)"
    note = f"share of {len(scalar)} sets of random starts with a positive scalar; {sizes}"
    return equal(share, 0.5, rival=1.0, note=note)


def _opposite(record: xr.Dataset) -> Judgement:
    note = (
        f"number of a start and its opposite that end right, largest of {_STARTS} pairs; share of single starts with "
        f"strengths as printed {float(record['identified']):.3f}, as coded {float(record['identified_coded']):.3f}"
    )
    return below(float(record["opposite"]), 2.0, note=note)


def _keeps_ratios(record: xr.Dataset) -> Judgement:
    genuine = record["class_mean"].isel(step=-1).mean("trial").values.astype(float)
    ends = np.stack([_printed_end(record, geometry) for geometry in ("logits", "isotropic")])
    lengths = np.linalg.norm(ends, axis=-1) * np.linalg.norm(genuine, axis=-1)
    return above((ends * genuine).sum(axis=-1) / lengths, 0.9, note="cosine with the networks' class means, L then I")


def _from_random(record: xr.Dataset) -> Judgement:
    coded = float(record["identified_coded"])
    note = (
        f"share of {_STARTS} starts with mean 0, of which a start and its opposite end opposite; as coded {coded:.3f}"
    )
    return above(float(record["identified"]), 0.95, note=note)


def _held_out(record: xr.Dataset, norm: str) -> dict[str, float]:
    """Terminal differences from networks that were not fitted to, by geometry, with floor and baselines."""
    late = record.sel(norm=norm).isel(step=slice(-(record.sizes["step"] // _TERMINAL), None))
    found = {name: float(late["relative_difference"].sel(geometry=name).mean()) for name in GEOMETRIES}
    found["noise floor"] = float(late["noise_floor"].mean())
    found["persistence"] = float(late["baseline_difference"].sel(baseline="persistence").mean())
    for name in GEOMETRIES:
        found[f"forecast by {name}"] = float(late["forecast_difference"].sel(geometry=name).mean())
    for name in ("persistence", "trend"):
        found[f"forecast by {name}"] = float(late["forecast_baseline_difference"].sel(baseline=name).mean())
    return found


def _listed(record: xr.Dataset, found: dict[str, float]) -> str:
    ahead = (
        f"held-out networks, last quarter of the records (forecasts from step {float(record['forecast_time']):.0f} on)"
    )
    return f"{ahead}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items())


def draw_paths(record: xr.Dataset, ax: Axes) -> None:
    """Draw networks and imitations of one class over training steps."""
    genuine = record["class_mean"].isel({"class": 0}).mean("trial")
    for logit, colour in zip(range(record.sizes["logit"]), plots.PALETTE, strict=False):
        label = f"networks, logit {logit}"
        ax.plot(record["step"], genuine.isel(logit=logit), ".", ms=2, color=colour, label=label)
        for geometry, style, name in (("logits", "-", "L-model"), ("mixture", "--", "mixture (D.20)")):
            shown = record["imitated_mean"].sel(geometry=geometry).isel({"class": 0, "logit": logit})
            ax.plot(record["step"], shown, style, color=colour, linewidth=1, label=None if logit else name)
    label_steps(ax, "mean logits of class 0")


def draw_differences(record: xr.Dataset, ax: Axes) -> None:
    """Draw how far imitations are from networks that they were not fitted to, over training steps."""
    missed = record["relative_difference"].mean("class")
    for geometry, colour in zip(GEOMETRIES, plots.PALETTE, strict=False):
        plain = missed.sel(geometry=geometry, norm="plain")
        ax.plot(record["step"], plain, color=colour, label=f"{geometry}, all logits")
    along = missed.sel(geometry="logits", norm="H")
    ax.plot(record["step"], along, ":", color=plots.PALETTE[0], label="logits, H-norm")
    floor = record["noise_floor"].sel(norm="plain").mean("class")
    ax.plot(record["step"], floor, color="black", label="noise floor")
    label_steps(ax, "relative difference, held out")
    ax.set_yscale("log")


IMITATION = (
    unsettled("figd9-terminal", "in the terminal stage RD of the L-model, H-norm, is below 0.1", _late, _D9),
    unsettled(
        "figd9-better",
        "the L-model has the smaller RD throughout, each model in its own norm",
        partial(_better, norm="plain", note="; the I-model's norm counts more"),
        _D9,
    ),
    unsettled(
        "figd9-fair",
        "the L-model has the smaller RD throughout, both models in the H-norm",
        partial(_better, norm="H", note=""),
        _D9,
        kind="own",
    ),
    unsettled(
        "fig5-better",
        "over all logits the L-model beats the I-model and no change",
        _better_plain,
        elastic(figure="5"),
        kind="derived",
    ),
    Claim("figd9-improves", "RD of the L-model, H-norm, falls as training goes on", _improves, _D9),
    unsettled(
        "figd8-wrong",
        "the L-model misses wrong classes: RD over all logits exceeds noise",
        _wrong,
        elastic(figure="D.8", section="D.2"),
    ),
    unsettled(
        "fig5-class",
        "the L-model, simulated as in the source, finds every class more often than with strengths that only grow",
        _beats_null,
        elastic(figure="5, D.8"),
    ),
    unsettled(
        "fig5-isotropic",
        "with strengths of the I-model it misses classes",
        lambda r: _misses(r, "isotropic in logits"),
        elastic(figure="5, D.8"),
    ),
    unsettled(
        "figd7-class",
        "the I-model, simulated as in the source, misses classes with either strengths",
        lambda r: _misses(r, "logits in isotropic", "isotropic in isotropic"),
        elastic(figure="D.7"),
    ),
    Claim(
        "fig5-scalar",
        "the scalar that aligns the simulation with networks is chance",
        _scalar,
        elastic(figure="5"),
        "own",
    ),
    Claim(
        "figd8-opposite",
        "of a random start and its opposite one at most finds the right classes: at most half of all starts do",
        _opposite,
        _D2,
        "derived",
    ),
    unsettled("figd8-ratios", "both, simulated as in the source, keep the ratios of the logits", _keeps_ratios, _D2),
    unsettled("figd8-start", "from random starts as printed the L-model finds the right classes", _from_random, _D2),
)
