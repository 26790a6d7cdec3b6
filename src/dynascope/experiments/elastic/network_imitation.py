"""Figures 5, D.7 to D.9: do the I- and the L-model imitate trained networks? Judged on other networks as well."""

from functools import partial

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.elastic.network_drawn import last_updates
from dynascope.experiments.elastic.network_held_out import (
    GEOMETRIES,
    SPLITS,
    TERMINAL,
    drawn_differences,
    drawn_late,
    listed,
    missed_late,
    spread,
)
from dynascope.experiments.elastic.network_training import last_iterations, recorded, unsettled
from dynascope.experiments.sources import elastic
from dynascope.imitation import imitate
from dynascope.imitation.judging import published_strengths
from dynascope.models.elastic.difference import relative_difference
from dynascope.models.elastic.geometry import drift_matrix, geometry_blocks, margin_directions
from dynascope.models.elastic.mean_path import logit_path
from dynascope.models.elastic.strengths import Sampled
from dynascope.statistics.errors import Estimate, over_trials

_KEPT = ("relative_difference", "fitted_difference", "forecast_difference", "imitated_mean")
_SHARED = ("noise_floor", "baseline_difference", "forecast_baseline_difference", "forecast_time")
_SMALL = 0.1
_ORDER = 10**-0.5  # upper end of "of the order 1e-2 to 1e-1"
_OFTEN = 0.95  # a share of random starts that is as good as all
_ALIKE = 0.9  # a cosine that leaves ratios roughly equal
_STARTS, _START_SETS = 500, 400  # single random starts, and sets of as many that are averaged
_AVERAGED = 95  # updates on each side over which what networks do late is averaged, the window of Figure 3
_SIMULATED = (
    ("logits", "logits"),
    ("isotropic", "logits"),
    ("null", "logits"),
    ("logits", "isotropic"),
    ("isotropic", "isotropic"),
)  # strengths, and the model that they drive
_D9, _D2 = elastic(figure="D.9"), elastic(section="D.2")
_ALIGNED = f"share of {_START_SETS} sets of random starts that end with every class at its own logit, after one scalar"


def imitations(
    trained: xr.Dataset, path: Float[np.ndarray, "update class logit"], begin: float, strengths: xr.Dataset, seed: int
) -> xr.Dataset:
    """Imitate the networks by several geometries from step `begin` on, and as the source does from step 0 on.

    path: class means of the drawn samples, which the source imitates. strengths: of `read_strengths`. Variables keep
    the names of `imitate`; `identified` is the share of random starts, as printed, whose every class ends with its own
    logit the largest, `identified_coded` that with the strengths of the source's code, `opposite` the largest number of
    two opposite starts that do. For the others see `_published` and `drawn_differences`.
    """
    ours = imitate(trained, list(GEOMETRIES), splits=SPLITS, reference_time=begin, resamples=20, seed=seed)
    found = ours[[*_KEPT, *_SHARED]].sel(equation="ode", drop=True)
    whole = found.drop_attrs().rename(time="step", feature="logit")
    steps, means = trained["step"].values, trained["class_mean"].values.astype(float)
    parts = [_published(path, steps, seed), drawn_differences(steps, means, begin, seed)]
    return xr.merge([whole.assign(_identified(trained, strengths, seed)), *parts])


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


def _published(path: Float[np.ndarray, "update class logit"], steps: np.ndarray, seed: int) -> xr.Dataset:
    """The source's simulation of what it reads, from many sets of random starts.

    Strengths of the L- and of the I-model through the L-model (Figure 5) and through the I-model (Figure D.7); and a
    null that knows only how much α grew in all, spread evenly, and no β. found: whether every class ends at its own
    logit once one `scalar` has aligned logit 0 of class 0, as in Figure 5. aligned_difference: (D.21) along the margins
    over the last quarter of the records once each class has been aligned by its own logit, as in the source's D.2;
    aligned_cosine: of what is simulated with the networks' class means at the end; margin_cosine: of both with d_k.
    """
    updates, classes = np.arange(len(path), dtype=float), path.shape[1]
    read = {name: published_strengths(updates, path, name) for name in ("logits", "isotropic")}
    read["null"] = np.stack([np.full(len(path), read["logits"][0].mean()), np.zeros(len(path))])
    at = np.minimum(steps, len(path) - 1)
    flows = _flows(np.stack([read[name] for name, _ in _SIMULATED]), [model for _, model in _SIMULATED], at)
    lengths = np.linalg.norm(path[0], axis=-1, keepdims=True) / np.sqrt(classes * _STARTS)  # of averages of starts
    random = np.random.default_rng([seed, 11]).standard_normal((_START_SETS, *path.shape[1:])) * lengths
    paths = np.einsum("mrab,sb->msra", flows, random.reshape(len(random), -1))
    paths = paths.reshape((*paths.shape[:3], *path.shape[1:]))  # (simulated, starts, record, class, logit)
    late = last_iterations(at)
    ends, end = paths[:, :, late].mean(axis=2), path[last_updates(len(path))].mean(axis=0)
    scalar, own = end[0, 0] / ends[..., 0, 0], np.arange(classes)
    aligned = paths * (end[own, own] / ends[..., own, own])[:, :, None, :, None]
    quarter = slice(-(len(at) // TERMINAL), None)
    genuine = np.stack([path[max(0, u - _AVERAGED) : u + _AVERAGED + 1].mean(axis=0) for u in at[quarter]])
    shown = aligned[:, :, quarter]
    missed = relative_difference(np.broadcast_to(genuine, shown.shape), shown, "logits").mean(axis=(-1, -2))
    last, margins = aligned[:, :, late].mean(axis=2), margin_directions(*path.shape[1:])
    record = xr.Dataset(
        {
            "found": (("simulated", "starts"), _all_own(scalar[..., None, None] * ends).astype(float)),
            "scalar": (("simulated", "starts"), scalar),
            "aligned_difference": (("simulated", "starts"), missed),
            "aligned_cosine": (("simulated", "starts", "class"), _cosine(last, end)),
            "margin_cosine": (
                ("what", "class"),
                np.stack([_cosine(last[0], margins).mean(axis=0), _cosine(end, margins)]),
            ),
        }
    )
    names = [f"{name} in {model}" for name, model in _SIMULATED]
    return record.assign_coords(simulated=names, what=["simulated", "networks"])


def _flows(
    strengths: Float[np.ndarray, "simulated 2 update"], models: list[str], at: np.ndarray
) -> Float[np.ndarray, "simulated record state state"]:
    """What each linear model makes of any start by the given updates: forward Euler, one step per update."""
    classes, even = 3, np.full((3, 3), 1 / 3)  # (11) is for three classes
    own, other = (
        np.stack([drift_matrix(kept, even, geometry_blocks(model, classes, classes)) for model in models])
        for kept in (np.eye(classes), 1 - np.eye(classes))
    )
    state = np.broadcast_to(np.eye(classes**2), own.shape)
    intra, inter = strengths.transpose(1, 2, 0)[..., None, None]  # (update, simulated, 1, 1)
    wanted, kept = set(at.tolist()), {}
    for update in range(int(at[-1]) + 1):
        if update in wanted:
            kept[update] = state
        state = state + (intra[update] * own + inter[update] * other) @ state
    return np.stack([kept[update] for update in at.tolist()], axis=1)


def _cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    return np.asarray((one * other).sum(axis=-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1))


def _terminal(record: xr.Dataset) -> Judgement:
    missed = record["aligned_difference"].rename(starts="trial")
    means = missed.mean("trial")
    listed = ", ".join(
        f"{each.item()} {float(value):.3f}" for each, value in zip(means["simulated"], means, strict=True)
    )
    note = (
        f"last quarter, mean of {_START_SETS} sets of random starts, which make the error, each class aligned by hand"
    )
    return below(over_trials(missed.sel(simulated="logits in logits")), _ORDER, note=f"{note}: {listed}")


def _unseen(record: xr.Dataset) -> Judgement:
    along = missed_late(record, "H")
    error = spread(drawn_late(record, "H").sel(beside="logits"))
    return below(Estimate(along["logits"], error, record.sizes["trial"]), _SMALL, note=listed(record, along))


def _class_mean(record: xr.Dataset) -> xr.DataArray:
    """Differences from networks not fitted to, mean over classes, where they are known."""
    return record["relative_difference"].mean("class").dropna("step")


def _better(record: xr.Dataset, *, norm: str, note: str) -> Judgement:
    """Share of the records at which the L-model is closer in the H-norm than the I-model in the given one."""
    known = _class_mean(record)
    drawn = record["drawn_difference"].sel(step=known["step"])

    def share(missed: xr.DataArray, models: str) -> xr.DataArray:
        ours, other = (
            missed.sel({models: model, "norm": each}) for model, each in (("logits", "H"), ("isotropic", norm))
        )
        return (ours < other).mean("step")

    found = Estimate(float(share(known, "geometry")), spread(share(drawn, "beside")), record.sizes["trial"])
    return above(found, 0.95, note=f"share of the records, networks not fitted to{note}")


def _better_plain(record: xr.Dataset) -> Judgement:
    plain, drawn = missed_late(record, "plain"), drawn_late(record, "plain")
    others = ["isotropic", "persistence"]
    error = spread(drawn.sel(beside="logits") - drawn.sel(beside=others))
    found = Estimate(np.full(len(others), plain["logits"]), error, record.sizes["trial"])
    return below(found, [plain[name] for name in others], note=listed(record, plain))


def _mixture(record: xr.Dataset) -> Judgement:
    plain, drawn = missed_late(record, "plain"), drawn_late(record, "plain")
    error = spread(drawn.sel(beside="mixture") - drawn.sel(beside="logits"))
    behind = Estimate(plain["mixture"] - plain["logits"] + plain["noise floor"], error, record.sizes["trial"])
    note = f"difference of the mixture less that of the L-model and the noise floor; {listed(record, plain)}"
    return below(behind, 0.0, note=note)


def _improves(record: xr.Dataset) -> Judgement:
    ours = _class_mean(record).sel(geometry="logits", norm="H")
    drawn = record["drawn_difference"].sel(beside="logits", norm="H", step=ours["step"])
    third = ours.sizes["step"] // 3
    parts = slice(third), slice(-third, None)
    first, last = (float(ours.isel(step=part).mean()) for part in parts)
    before, after = (drawn.isel(step=part).mean("step") for part in parts)
    found = Estimate(last, spread(after - before), record.sizes["trial"])
    return below(found, first, note="mean over last and first third")


def _wrong(record: xr.Dataset) -> Judgement:
    plain, drawn = missed_late(record, "plain"), drawn_late(record, "plain")
    error = spread(drawn.sel(beside="logits") - 2 * drawn.sel(beside="noise floor"))
    found = Estimate(plain["logits"], error, record.sizes["trial"])
    return above(found, 2 * plain["noise floor"], note="twice the noise floor")


def _shares(record: xr.Dataset, *simulated: str) -> xr.DataArray:
    """Whether every class was found, (simulated, trial): a trial is a set of random starts."""
    return record["found"].sel(simulated=list(simulated)).rename(starts="trial")


def _listed_shares(record: xr.Dataset) -> str:
    shares = record["found"].mean("starts")
    return f"{_ALIGNED}: " + ", ".join(
        f"{each.item()} {float(share):.2f}" for each, share in zip(shares["simulated"], shares, strict=True)
    )


def _beats_null(record: xr.Dataset) -> Judgement:
    ours, null = (_shares(record, f"{each} in logits")[0].values for each in ("logits", "null"))
    return above(over_trials(np.stack([ours - null, ours - _OFTEN])), 0.0, note=_listed_shares(record))


def _misses(record: xr.Dataset, *simulated: str) -> Judgement:
    """Less often than all, and than with the strengths of the L-model in that model."""
    ours, shares = _shares(record, "logits in logits").values, _shares(record, *simulated).values
    return below(over_trials(np.concatenate([shares - _OFTEN, shares - ours])), 0.0, note=_listed_shares(record))


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
    cosine = record["aligned_cosine"].sel(simulated=["logits in logits", "isotropic in logits"]).rename(starts="trial")
    return above(over_trials(cosine), _ALIKE, note="cosine with the networks' class means, strengths of L, then I")


def _margins(record: xr.Dataset) -> Judgement:
    """Cosines with d_k: of simulated class means above, of networks' below what counts as alike."""
    simulated, networks = record["margin_cosine"].transpose("what", "class").values
    note = f"cosine with d_k less {_ALIKE}, of what is simulated, then that less the networks' cosine, for each class"
    return above(np.concatenate([simulated - _ALIKE, _ALIKE - networks]), 0.0, note=note)


def _from_random(record: xr.Dataset) -> Judgement:
    coded = float(record["identified_coded"])
    return above(
        float(record["identified"]), _OFTEN, note=f"share of {_STARTS} starts with mean 0; as coded {coded:.3f}"
    )


IMITATION = (
    unsettled(
        "figd9-terminal",
        "in the terminal stage RD of the L-model, H-norm, is of the order 1e-1 or less",
        _terminal,
        _D9,
    ),
    unsettled(
        "figd9-unseen",
        "on networks not fitted to, with nothing aligned, RD of the L-model, H-norm, is below 0.1 late in training",
        recorded(_unseen, "drawn_difference"),
        _D9,
        "own",
    ),
    unsettled(
        "figd9-better",
        "the L-model has the smaller RD throughout, each model in its own norm",
        recorded(partial(_better, norm="plain", note="; the I-model's norm counts more"), "drawn_difference"),
        _D9,
        kind="derived",  # on networks that the imitation was not fitted to, with nothing aligned by hand
    ),
    unsettled(
        "figd9-fair",
        "the L-model has the smaller RD throughout, both models in the H-norm",
        recorded(partial(_better, norm="H", note=""), "drawn_difference"),
        _D9,
        kind="own",
    ),
    unsettled(
        "fig5-better",
        "over all logits the L-model beats the I-model and no change",
        recorded(_better_plain, "drawn_difference"),
        elastic(figure="5"),
        kind="derived",
    ),
    unsettled(
        "d20-better",
        "over all logits (D.20) is closer to networks than the L-model, by more than their halves differ",
        recorded(_mixture, "drawn_difference", beside="mixture"),
        elastic("D.20, E.1"),
        kind="derived",
    ),
    unsettled(
        "figd9-improves",
        "RD of the L-model, H-norm, falls as training goes on",
        recorded(_improves, "drawn_difference"),
        _D9,
        kind="derived",  # on networks that the imitation was not fitted to, with nothing aligned by hand
    ),
    unsettled(
        "figd8-wrong",
        "the L-model misses wrong classes: RD over all logits exceeds noise",
        recorded(_wrong, "drawn_difference"),
        elastic(figure="D.8", section="D.2"),
        kind="derived",  # on networks that the imitation was not fitted to, with nothing aligned by hand
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
        "derived",
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
    unsettled(
        "figd8-ratios",
        "both, simulated as in the source, keep the ratios of the logits",
        _keeps_ratios,
        _D2,
        why=(
            "figd8-margins, networks have turned from there",
            "fig5-isotropic, by those of I classes are missed",
        ),
    ),
    unsettled(
        "figd8-start",
        "from random starts as printed the L-model finds the right classes",
        _from_random,
        _D2,
        why=("figd8-opposite, a start and its opposite end opposite",),
    ),
)
MARGINS = unsettled(  # of networks whose class means have turned from there
    "figd8-margins",
    "simulated class means end along the margin directions, from which those of networks have turned away",
    _margins,
    _D2,
    "own",
)
