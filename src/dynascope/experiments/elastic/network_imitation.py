"""Figures 5, D.7 to D.9: do the I- and the L-model imitate trained networks? Judged on other networks as well."""

from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.imitation import imitate
from dynascope.models.elastic.mean_path import logit_path
from dynascope.models.elastic.strengths import Sampled

GEOMETRIES = ("logits", "isotropic", "mixture", "softmax")
_KEPT = ("relative_difference", "fitted_difference", "forecast_difference", "imitated_mean")
_SHARED = ("noise_floor", "baseline_difference", "forecast_baseline_difference", "forecast_time")
_TERMINAL = 4  # the last quarter of the records is the terminal stage
_SMALL = 0.1  # upper end of "of the order 1e-2 to 1e-1"
_STARTS = 500


def imitations(trained: xr.Dataset, begin: float, strengths: xr.Dataset, seed: int) -> xr.Dataset:
    """Imitate the networks by several geometries, and as the source does; from step `begin` on.

    strengths: as printed, by the L-model. Variables keep the names of `imitate`, those of the published procedure are
    called printed_…; `identified` is the share of random starts, as printed, whose every class ends with its own logit
    the largest.
    """
    options: dict[str, Any] = {"reference_time": begin, "resamples": 20, "seed": seed}
    ours = imitate(trained, list(GEOMETRIES), splits=4, **options)
    theirs = imitate(trained, ["logits", "isotropic"], procedure="published", splits=1, **options)
    names = {name: f"printed_{name}" for name in ("fitted_difference", "imitated_mean")}
    found = ours[[*_KEPT, *_SHARED]].sel(equation="ode", drop=True)
    printed = theirs[list(names)].sel(equation="ode", drop=True).rename(names).reindex(geometry=list(GEOMETRIES))
    whole = found.merge(printed).drop_attrs().rename(time="step", feature="logit")
    whole["identified"] = _identified(trained, strengths, seed)
    return whole


def _identified(trained: xr.Dataset, strengths: xr.Dataset, seed: int) -> float:
    """L-model with strengths as printed, from N(0, |X̄_k(0)|²/K): how often do all classes find their own logit?"""
    first = trained["class_mean"].isel(step=0).mean("trial").values.astype(float)
    random = np.random.default_rng([seed, 5]).standard_normal((_STARTS, *first.shape))
    starts = random * np.linalg.norm(first, axis=1, keepdims=True) / np.sqrt(len(first))
    times = strengths["step"].values.astype(float)
    laws = [Sampled(times, strengths[name].values) for name in ("intra", "inter")]
    ends = logit_path(times[-1:], starts, *laws)[:, 0]
    return float((ends.argmax(axis=-1) == np.arange(len(first))).all(axis=1).mean())


def statements() -> dict[str, tuple[str, str, str]]:
    """Short name -> end of the id, place in the source, statement."""
    return {
        "terminal": ("figd9-terminal", "Fig. D.9", "in the terminal stage RD of the L-model, H-norm, is below 0.1"),
        "better": ("figd9-better", "Fig. D.9", "the L-model has the smaller RD throughout, each model in its own norm"),
        "fair": ("figd9-fair", "Fig. D.9", "the L-model has the smaller RD throughout, both models in the H-norm"),
        "better-plain": ("fig5-better", "Fig. 5", "over all logits the L-model beats the I-model and no change"),
        "improves": ("figd9-improves", "Fig. D.9", "RD of the L-model, H-norm, falls as training goes on"),
        "wrong": ("figd8-wrong", "D.2, Fig. D.8", "the L-model misses wrong classes: RD over all logits exceeds noise"),
        "class": ("fig5-class", "Fig. 5, D.8", "the L-model, simulated as in the source, finds every class"),
        "isotropic": ("figd7-class", "Fig. 5, D.7", "the I-model, simulated as in the source, misses classes"),
        "ratios": ("figd8-ratios", "D.2", "both, simulated as in the source, keep the ratios of the logits"),
        "start": ("figd8-start", "D.2", "from random starts as printed the L-model finds the right classes"),
    }  # fmt: skip


def check_imitation(claim: dict[str, Claim], record: xr.Dataset) -> dict[str, Claim]:
    """Judge held-out differences beside their noise floor and baselines, and the published procedure."""
    along, plain = (_held_out(record, norm) for norm in ("H", "plain"))
    known = record["relative_difference"].mean("class").dropna("step")
    ours = known.sel(geometry="logits", norm="H")
    better = {norm: float((ours < known.sel(geometry="isotropic", norm=norm)).mean()) for norm in ("plain", "H")}
    third = known.sizes["step"] // 3
    falls = [float(ours.isel(step=part).mean()) for part in (slice(third), slice(-third, None))]
    share = "share of the records, networks not fitted to"
    judged = {
        "terminal": claim["terminal"].falls_below(along["logits"], _SMALL, 0.0, note=_listed(record, along)),
        "better": claim["better"].exceeds(better["plain"], 0.95, 0.0, note=f"{share}; the I-model's norm counts more"),
        "fair": claim["fair"].exceeds(better["H"], 0.95, 0.0, note=share),
        "better-plain": claim["better-plain"].falls_below(
            plain["logits"], [plain["isotropic"], plain["persistence"]], 0.0, note=_listed(record, plain)
        ),
        "improves": claim["improves"].falls_below(falls[1], falls[0], 0.0, note="mean over last and first third"),
        "wrong": claim["wrong"].exceeds(plain["logits"], 2 * plain["noise floor"], 0.0, note="twice the noise floor"),
    }
    return judged | _check_printed(claim, record)


def _check_printed(claim: dict[str, Claim], record: xr.Dataset) -> dict[str, Claim]:
    genuine = record["class_mean"].isel(step=-1).mean("trial").values.astype(float)
    shares, cosines = {}, []
    for geometry in ("logits", "isotropic"):
        end = record["printed_imitated_mean"].sel(geometry=geometry).isel(step=-1).values
        shares[geometry] = float((end.argmax(axis=-1) == np.arange(len(end))).mean())
        lengths = np.linalg.norm(end, axis=-1) * np.linalg.norm(genuine, axis=-1)
        cosines += ((end * genuine).sum(axis=-1) / lengths).tolist()
    aligned = "share of classes; each is scaled by hand so that its own logit ends right, sign included"
    return {
        "class": claim["class"].equals(shares["logits"], 1.0, 0.0, note=aligned),
        "isotropic": claim["isotropic"].falls_below(shares["isotropic"], 1.0, 0.0, note=aligned),
        "ratios": claim["ratios"].exceeds(cosines, 0.9, 0.0, note="cosine with the networks' class means, L then I"),
        "start": claim["start"].exceeds(
            float(record["identified"]), 0.95, 0.0,
            note=f"share of {_STARTS} starts with mean 0; the model is linear: a start and its opposite end opposite",
        ),
    }  # fmt: skip


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


def draw_imitation(record: xr.Dataset, paths: Any, differences: Any) -> None:
    """Draw networks and imitations of one class, and differences over time, on two axes."""
    from dynascope.plots import PALETTE  # noqa: PLC0415 (computing never imports plotting)

    step = record["step"]
    genuine = record["class_mean"].isel({"class": 0}).mean("trial")
    for logit in range(record.sizes["logit"]):
        paths.plot(step, genuine.isel(logit=logit), ".", ms=2, color=PALETTE[logit], label=f"networks, logit {logit}")
        for geometry, style, name in (("logits", "-", "L-model"), ("mixture", "--", "mixture (D.20)")):
            shown = record["imitated_mean"].sel(geometry=geometry).isel({"class": 0, "logit": logit})
            label = name if logit == 0 else None
            paths.plot(step, shown, style, color=PALETTE[logit], linewidth=1, label=label)
    paths.set_ylabel("mean logits of class 0")
    for geometry, colour in zip(GEOMETRIES, PALETTE, strict=False):
        missed = record["relative_difference"].sel(geometry=geometry, norm="plain").mean("class")
        differences.plot(step, missed, color=colour, label=f"{geometry}, all logits")
    shown = record["relative_difference"].sel(geometry="logits", norm="H").mean("class")
    differences.plot(step, shown, ":", color=PALETTE[0], label="logits, H-norm")
    differences.plot(step, record["noise_floor"].sel(norm="plain").mean("class"), color="black", label="noise floor")
    differences.set(ylabel="relative difference, held out", yscale="log")
