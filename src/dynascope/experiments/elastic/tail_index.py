"""elastic Theorem 3.1: The tail of α − β decides whether classes part.

And what lies around it: the border c/t, and where the statement does not reach.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, corrected, equal
from dynascope.experiments.elastic.separation import chance, follows_law, rare, share_error
from dynascope.experiments.experiment import Experiment, Figure, settings
from dynascope.experiments.sources import elastic
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import drift_matrix, geometry_blocks
from dynascope.models.elastic.separation import share_separable
from dynascope.models.elastic.strengths import PowerLaw
from dynascope.statistics.errors import Estimate, over_trials

_NOISE = 1.0
_REPELLED = "α = 0.1, β = −1, K = 3: α + 2 β = −1.9, yet differences grow with (α − β)/K"
_TIED = "α − β = 0.1/(1 + t)², β = 1: amplitudes grow with (α + β/(K−1))/K and carry the classes apart"
_PART_2 = elastic(theorem="Theorem 3.1", place="part (2)")
_BORDER = elastic(theorem="Theorem 3.1", place="at γ = c/t")


@dataclass(frozen=True)
class Config:
    """I-models with α − β = scale/(1 + t)^index, followed to very late times without stepping."""

    classes: tuple[int, ...] = (2, 3)
    indices: tuple[float, ...] = (0.8, 0.9, 1.2, 1.5)
    ratios: tuple[float, ...] = (0.7, 0.85, 1.15, 1.3)  # c/(K/2) at index 1
    times: tuple[float, ...] = (1e2, 1e4, 1e6, 1e8, 1e10)
    samples: int = 10
    trials: int = 300
    seed: int = 31


def run(config: Config) -> xr.Dataset:
    """Measure how often all pairs of classes are separable, beside the law along the line of the class means."""
    tails = [*((index, 1.0) for index in config.indices), *((1.0, ratio) for ratio in config.ratios)]
    cases = [(classes, index, ratio * classes / 2) for classes in config.classes for index, ratio in tails]
    classes, index, scale = np.transpose(cases)
    record = xr.concat([_follow(config, *case) for case in cases], "case")
    named = {"classes": ("case", classes.astype(int)), "index": ("case", index), "scale": ("case", scale)}
    return record.assign_coords(named).merge(_beyond_the_theorem(config))


def _follow(config: Config, classes: int, index: float, scale: float) -> xr.Dataset:
    """One-dimensional classes, equally far apart at the start: separable means in disjoint intervals.

    The share of separated trials and its law, and the distance between the outermost class means over the noise.
    """
    model = LocallyElastic(classes, 1, PowerLaw(scale, index), 0.0, "isotropic", noise=_NOISE)
    near = 2.0 if index < 1 or scale > classes / 2 else 20.0  # so that the probability has room to rise, or to fall
    start = near * (np.arange(classes) - (classes - 1) / 2)[:, None]
    given: dict[str, Any] = {"samples": config.samples, "start": start, "seed": config.seed}
    run = model.simulate(config.times[-1], trials=config.trials, save_points=config.times, **given)
    law = model.separation_probability(config.times, trials=40_000, direction=[1.0], **given)
    outer = run["class_mean"].isel({"feature": 0, "class": [0, -1]}).diff("class").isel({"class": 0})
    return xr.Dataset(
        {
            "separated": ("time", share_separable(np.moveaxis(run["point"].values, 0, 1))),
            "predicted": ("time", law),
            "signal": (("trial", "time"), (outer / np.sqrt(run["time"])).transpose("trial", "time").values),
        },
        coords={"time": list(config.times)},
    )


def _beyond_the_theorem(config: Config) -> xr.Dataset:
    """The remark after (C.22), the role of γ, and the L-model, which the theorem's assumption leaves out."""

    def barely(time: float) -> float:
        return float(1 / ((16 + time) * np.sqrt(np.log(np.log(16 + time)))))

    given: dict[str, Any] = {"samples": config.samples, "seed": config.seed, "trials": config.trials}
    start = np.array([[1.0, 0.2, 0.0], [0.0, 1.4, 0.1], [0.1, 0.0, 0.7]])
    times = np.array([1.0, 30.0, 60.0])
    slow = LocallyElastic(2, 1, barely, 0.0, "isotropic", noise=_NOISE)
    repelled = LocallyElastic(3, 3, 0.1, -1.0, "isotropic", noise=_NOISE)  # α + 2 β = −1.9
    logits = LocallyElastic(3, 3, lambda t: 1 + 0.1 / (1 + t) ** 2, 1.0, "logits", noise=_NOISE)
    blocks = drift_matrix(np.ones((3, 3)), np.ones((3, 3)), geometry_blocks("logits", 3, 3))
    return xr.Dataset(
        {
            "log_log": ("time", slow.separation_probability(config.times, start=[[2.0], [-2.0]], **given)),
            "negative_gamma": ("short_time", repelled.separation_probability(times, start=start, **given)),
            "logits": ("short_time", logits.separation_probability(times, start=start, **given)),
            "asymmetry": float(np.abs(blocks - blocks.T).max()),
            "least_eigenvalue": float(np.linalg.eigvalsh((blocks + blocks.T) / 2).min()),
        },
        coords={"time": list(config.times), "short_time": times},
    )


def _last(record: xr.Dataset, chosen: xr.DataArray, expected: float, bound: float, when: str = "") -> Judgement:
    """Shares of separated trials at the last time, in the chosen cases."""
    cases = record.sel(case=chosen)
    return equal(cases["separated"].values[:, -1], expected, bound, note=f"tail indices {cases['index'].values}{when}")


def _border(record: xr.Dataset) -> xr.Dataset:
    """The cases with γ = c/t, each with its c/(K/2)."""
    return record.assign(ratio=record["scale"] / (record["classes"] / 2)).sel(case=record["index"] == 1)


def _grows(record: xr.Dataset) -> Judgement:
    """Slope of log signal over log time, between the mean signals at both ends."""
    border = _border(record)
    span = np.log(float(record["time"][-1] / record["time"][0]))
    first, last = (over_trials(border["signal"].isel(time=end)) for end in (0, -1))
    with np.errstate(invalid="ignore"):  # means of the wrong sign have no slope, and no claim is reproduced by them
        slope = np.log(last.mean / first.mean) / span
        error = np.hypot(first.error / first.mean, last.error / last.mean) / span
    ratios = border["ratio"].values
    note = f"slopes over t = 1e2 … 1e10, bound 1e-3: (1 + t)/t at the first time; c/(K/2) = {ratios}"
    return equal(Estimate(slope, error), (border["scale"] / border["classes"]).values - 0.5, 1e-3, rival=0.0, note=note)


def _sides(record: xr.Dataset) -> Judgement:
    border = _border(record)
    turned = np.where(border["ratio"] > 1, 1.0, -1.0)
    rise = turned * (border["separated"].isel(time=-1) - border["separated"].isel(time=0)).values
    doubt = np.hypot(*(share_error(border["predicted"].isel(time=end), record) for end in (0, -1)))
    return above(Estimate(rise, doubt), 0.0, note="change from t = 1e2 to 1e10, turned where c < K/2")


def _log_log(record: xr.Dataset) -> Judgement:
    late, trials = record["log_log"].values, settings(record).trials
    return corrected(
        late[-1],
        0.0,
        chance(record) + rare(record) + 3 * np.sqrt(late[-1] / trials),
        published=1.0,
        error=0.5 / np.sqrt(trials),
        note=f"γ = 1/(t √(log log t)): share of separated trials {late.round(3)} at t = {record['time'].values}; "
        "exp(Γ/K) must outgrow √(t log log t), which again takes γ = c/t with c > K/2",
    )


def _part(record: xr.Dataset, name: str, note: str) -> Judgement:
    """Classes part where the statement has them mixed for ever."""
    doubt = 0.5 / np.sqrt(settings(record).trials)
    return corrected(float(record[name][-1]), 1.0, rare(record), published=0.0, error=doubt, note=note)


def _asymmetric(record: xr.Dataset) -> Judgement:
    least = float(record["least_eigenvalue"])
    note = f"largest |H − Hᵀ|, K = 3, rival 0; least eigenvalue of (H + Hᵀ)/2: {least:.3f}"
    return equal(float(record["asymmetry"]), 0.5, 1e-12, rival=0.0, error=0.0, note=note)


def _draw(record: xr.Dataset) -> Figure:
    """Probabilities over time: for tail indices around 1, and at index 1 for constants around K/2."""
    classes = np.unique(record["classes"].values)
    figure, axes = plots.new_figure(columns=2, rows=len(classes))
    for row, number in zip(axes, classes, strict=True):
        for ax, at_border in zip(row, (False, True), strict=True):
            part = record.sel(case=(record["classes"] == number) & ((record["index"] == 1) == at_border))
            for colour, case in zip(plots.PALETTE, range(part.sizes["case"]), strict=False):
                each = part.isel(case=case)
                ratio = float(each["scale"]) / (number / 2)
                label = f"c = {ratio:g} · K/2" if at_border else f"index {float(each['index']):g}"
                ax.plot(record["time"], each["separated"], "o", color=colour)
                ax.plot(record["time"], each["predicted"], color=colour, label=label)
            law = "c/(1 + t)" if at_border else "scale/(1 + t)^index"
            ax.set(xscale="log", xlabel="time (iterations × step size)", ylabel="probability of separation")
            ax.set_title(f"{number} classes, α − β = {law}")
            ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    elastic(theorem="Theorem 3.1"),
    Config(),
    run,
    claims=(
        Claim(
            "thm-3-1-slow-tail",
            "γ(t) ≫ 1/t: classes separate with probability one",
            lambda r: _last(r, r["index"] < 1, 1.0, rare(r), " at t = 1e10"),
            elastic(theorem="Theorem 3.1", place="part (1)"),
        ),
        Claim(
            "thm-3-1-fast-tail",
            "γ(t) ≪ 1/t: classes do not separate",
            lambda r: _last(r, r["index"] > 1, 0.0, chance(r) + rare(r)),
            _PART_2,
        ),
        Claim(
            "thm-3-1-border",
            "the distance of class means in units of the noise grows like t^(c/K − ½)",
            _grows,
            _BORDER,
            kind="derived",
        ),
        Claim(
            "thm-3-1-sides",
            "the probability of separation rises with time if c > K/2 and falls if c < K/2",
            _sides,
            _BORDER,
            kind="derived",
        ),
        Claim(
            "thm-3-1-law",
            "simulated shares of separated trials follow the Gaussian law",
            partial(follows_law, note="all cases"),
            elastic("5"),
            kind="derived",
        ),
        Claim(
            "c22-log-log",
            "γ(t) ≫ 1/(t log log t) gives even uniform separation, hence a probability of one",
            _log_log,
            elastic(place="remark after (C.22)"),
        ),
        Claim(
            "gamma-min",
            "intuitively, when γ = min(α − β, α + (K−1) β) ≤ 0, classes cannot be separated, even pairwise",
            lambda r: _part(r, "negative_gamma", _REPELLED),
            elastic(section="3.1"),
        ),
        Claim(
            "thm-3-1-logits",
            "the H of the L-model is not symmetric: Theorem 3.1 does not cover it",
            _asymmetric,
            elastic(place="below (8)"),
        ),
        Claim(
            "thm-3-1-logits-part-2",
            "γ(t) ≪ 1/t: classes of the L-model do not separate, as said below (9)",
            lambda r: _part(r, "logits", _TIED),
            elastic(place="below (9)"),
        ),
    ),
    picture=_draw,
    model="LocallyElastic",
    smoke={"classes": (2,), "trials": 100},
    paper={"classes": (2, 3, 5), "ratios": (0.7, 0.8, 0.9, 1.1, 1.2, 1.3), "trials": 2000},
)
