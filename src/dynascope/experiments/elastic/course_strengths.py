"""Claims on the strengths that Figure 3 reads off one training: A, B and what both models agree on."""

from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above, below, equal, three_errors
from dynascope.experiments.elastic.network_training import at_end, unsettled
from dynascope.experiments.sources import elastic
from dynascope.models.elastic.estimate import PRINTED_VECTORS
from dynascope.statistics.errors import Estimate, over_trials

SEEN = 0.1  # what the eye sees: less is "similar", or "not perceivable"
_EXACT, PRINTED = ["L-model", "I-model"], ["L-model as printed", "I-model as printed", "L-model as coded"]
_EQ_11, _FIG_3 = elastic("11", figure="3"), elastic(figure="3")


def _begin(record: xr.Dataset) -> str:
    return f"from step {float(record['reference_time'].sel(reading='L-model')):.0f} on"


def _gap(record: xr.Dataset) -> Estimate:
    return at_end(record.sel(reading=_EXACT), "integrated_gap")


def _inter_isotropic(record: xr.Dataset) -> Judgement:
    """B of the I-model, with an error that allows for all three readings."""
    inter = at_end(record.sel(reading=PRINTED), "integrated_inter")
    return below(inter.mean[1], 0.0, three_errors(inter.error, inter.runs)[1])


def _inter(record: xr.Dataset, reading: str) -> Judgement:
    """Is B below 0 more often than by chance, and than with shuffled labels? Over the updates that may be X̄(0)."""
    seen, null = (record[name].sel(as_read=reading).values for name in ("inter_below", "inter_below_shuffled"))
    note = (
        f"share of the last 1000 updates with B < 0, drawn samples, {len(seen)} updates as X̄(0) in turn:"
        f" {seen.mean():.2f}, with shuffled labels {null.mean():.2f}; less 1/2, less the latter"
    )
    return above(over_trials(np.stack([seen - 0.5, seen - null])), 0.0, note=note)


def _pole(record: xr.Dataset) -> Judgement:
    """X̄ᵀv₁ of the probe at the start below 1, at the end above."""
    ends = record["class_mean"].isel(step=[0, -1]).transpose("step", "trial", "class", "logit").values.astype(float)
    along = ends.reshape((*ends.shape[:2], -1)) @ PRINTED_VECTORS[0]
    start, end = along.mean(axis=1)
    note = f"distance from 1, below at the start and above at the end: {start:.2g}, {end:.2g}"
    return above(over_trials(np.stack([1 - along[0], along[1] - 1])), 0.0, note=note)


def _identified(record: xr.Dataset) -> Judgement:
    reasons = {each: record["reason"].sel(reading=each).item() or "nothing doubtful" for each in _EXACT}
    note = "; ".join(f"{each}: {reason}" for each, reason in reasons.items())
    return equal(record["ok"].sel(reading=_EXACT), 1.0, note=note)


def _similar(record: xr.Dataset) -> Judgement:
    logits, isotropic = _gap(record).mean
    return equal(isotropic / logits, 1.0, SEEN, note=f"growth of A − B {_begin(record)}, I-model over L-model")


def _similar_intra(record: xr.Dataset) -> Judgement:
    found = at_end(record.sel(reading=PRINTED[:2]), "integrated_intra")
    size, apart = found.mean.mean(), abs(found.mean[1] - found.mean[0])
    note = f"difference over the mean of both; L-model {found.mean[0]:.3g}, I-model {found.mean[1]:.3g}"
    return below(Estimate(apart / size, np.hypot(*found.error) / size, found.runs), SEEN, note=note)


STRENGTHS = (
    Claim(
        "fig3-gap",
        "A − B grows, by the I-model and by the L-model",
        lambda r: above(_gap(r), 0.0, note=_begin(r)),
        _FIG_3,
    ),
    unsettled(
        "fig3-intra",
        "A grows, by both models as printed",
        lambda r: above(at_end(r.sel(reading=PRINTED[:2]), "integrated_intra"), 0.0, note="L-model, I-model"),
        _EQ_11,
    ),
    unsettled("fig3-inter-isotropic", "B falls, by the I-model as printed", _inter_isotropic, _EQ_11),
    unsettled(
        "fig3-inter-logits",
        "B falls, by the L-model as printed",
        partial(_inter, reading="L-model as printed"),
        _EQ_11,
        why=("fig3-inter-code, without the −1 it does", "fig3-pole, (11) has a pole there"),
    ),
    unsettled(
        "fig3-inter-code",
        "B falls, by the L-model as the source computes it, without the −1 of (11)",
        partial(_inter, reading="L-model as coded"),
        _FIG_3,
    ),
    unsettled(
        "fig3-pole",
        "X̄ᵀv₁ grows past 1 on the way, where the printed A' has a pole: it counts growth from 1, not from the start",
        _pole,
        _EQ_11,
        "own",
    ),
    unsettled(
        "fig3-identified", "A and B can be told apart, by the L-model and by the I-model", _identified, _FIG_3, "own"
    ),
    unsettled(
        "fig3-similar-intra",
        "late in training both models, as printed, give similar A",
        _similar_intra,
        _FIG_3,
        why=("fig3-similar, it is A − B that they agree on",),
    ),
    Claim("fig3-similar", "late in training both models give similar A − B", _similar, _FIG_3, "derived"),
)
