"""Theorem 3.1 and what lies around it: the tail of α − β, the border c/t, and where the statement does not reach."""

import time
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import drift_matrix, geometry_blocks
from dynascope.models.elastic.separation import share_separable
from dynascope.models.elastic.strengths import PowerLaw
from dynascope.records import attribute, with_provenance

NOISE = 1.0


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


SCALES = {
    "smoke": Config(classes=(2,), trials=100),
    "laptop": Config(),
    "paper": Config(classes=(2, 3, 5), ratios=(0.7, 0.8, 0.9, 1.1, 1.2, 1.3), trials=2000),
}
SLOW = Claim("thm-3-1-slow-tail", "elastic Theorem 3.1 (1)", "γ(t) ≫ 1/t: classes separate with probability one")
FAST = Claim("thm-3-1-fast-tail", "elastic Theorem 3.1 (2)", "γ(t) ≪ 1/t: classes do not separate")
BORDER = Claim(
    "thm-3-1-border",
    "elastic Theorem 3.1, derived at γ = c/t",
    "the distance of class means in units of the noise grows like t^(c/K − ½)",
)
SIDES = Claim(
    "thm-3-1-sides",
    "elastic Theorem 3.1, derived at γ = c/t",
    "the probability of separation rises with time if c > K/2 and falls if c < K/2",
)
LAW = Claim("thm-3-1-law", "elastic (5), derived", "simulated shares of separated trials follow the Gaussian law")
LOG_LOG = Claim(
    "c22-log-log",
    "elastic remark after (C.22)",
    "γ(t) ≫ 1/(t log log t) gives even uniform separation, hence a probability of one",
)
GAMMA = Claim(
    "gamma-min", "elastic section 3.1", "γ = min(α − β, α + (K−1) β) ≤ 0: classes cannot be separated, even pairwise"
)
COVERED = Claim("thm-3-1-logits", "elastic Theorem 3.1", "the H of the L-model is symmetric and positive semi-definite")
LOGITS = Claim("thm-3-1-logits-part-2", "elastic Theorem 3.1 (2)", "γ(t) ≪ 1/t: classes of the L-model do not separate")


def run(config: Config) -> xr.Dataset:
    """Measure how often all pairs of classes are separable, beside the law along the line of the class means."""
    begun = time.perf_counter()
    cases = [
        (classes, index, ratio * classes / 2)
        for classes in config.classes
        for index, ratio in [*((i, 1.0) for i in config.indices), *((1.0, r) for r in config.ratios)]
    ]
    shares, laws, signals = zip(*(_follow(config, *case) for case in cases), strict=True)
    classes, index, scale = np.transpose(cases)
    record = xr.Dataset(
        {
            "separated": (("case", "time"), np.stack(shares)),
            "predicted": (("case", "time"), np.stack(laws)),
            "signal": (("case", "trial", "time"), np.stack(signals)),
        },
        coords={
            "time": list(config.times),
            "classes": ("case", classes.astype(int)),
            "index": ("case", index),
            "scale": ("case", scale),
        },
    )
    record = record.merge(_beyond_the_theorem(config))
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record, "LocallyElastic", {"noise": NOISE, "geometry": "isotropic"}, options=vars(config), seed=config.seed,
        precision="float64", wall_time=wall_time,
    )  # fmt: skip


def _follow(config: Config, classes: int, index: float, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One-dimensional classes, equally far apart at the start: separable means in disjoint intervals.

    Returns the share of separated trials and its law over time, and the distance between the outermost class means in
    units of the noise, (trial, time).
    """
    model = LocallyElastic(classes, 1, PowerLaw(scale, index), 0.0, "isotropic", noise=NOISE)
    near = 2.0 if index < 1 or scale > classes / 2 else 20.0  # so that the probability has room to rise, or to fall
    start = near * (np.arange(classes) - (classes - 1) / 2)[:, None]
    options: dict[str, Any] = {"samples": config.samples, "trials": config.trials, "start": start, "seed": config.seed}
    run = model.simulate(config.times[-1], save_points=config.times, **options)
    outer = run["class_mean"].isel({"feature": 0, "class": [0, -1]}).diff("class").isel({"class": 0})
    return (
        share_separable(np.moveaxis(run["point"].values, 0, 1)),
        model.separation_probability(config.times, direction=[1.0], **(options | {"trials": 40_000})),
        (outer / np.sqrt(run["time"])).transpose("trial", "time").values,
    )


def _beyond_the_theorem(config: Config) -> xr.Dataset:
    """The remark after (C.22), the role of γ, and the L-model, which the theorem's assumption leaves out."""
    late = np.array(config.times)
    slow = LocallyElastic(
        2, 1, lambda t: 1 / ((16 + t) * np.sqrt(np.log(np.log(16 + t)))), 0.0, "isotropic", noise=NOISE
    )
    options: dict[str, Any] = {"samples": config.samples, "seed": config.seed, "trials": config.trials}
    start = np.array([[1.0, 0.2, 0.0], [0.0, 1.4, 0.1], [0.1, 0.0, 0.7]])
    times = np.array([1.0, 30.0, 60.0])
    repelled = LocallyElastic(3, 3, 0.1, -1.0, "isotropic", noise=NOISE)  # α + 2 β = −1.9
    logits = LocallyElastic(3, 3, lambda t: 1 + 0.1 / (1 + t) ** 2, 1.0, "logits", noise=NOISE)
    blocks = drift_matrix(np.ones((3, 3)), np.ones((3, 3)), geometry_blocks("logits", 3, 3))
    return xr.Dataset(
        {
            "log_log": ("time", slow.separation_probability(late, start=[[2.0], [-2.0]], **options)),
            "negative_gamma": ("short_time", repelled.separation_probability(times, start=start, **options)),
            "logits": ("short_time", logits.separation_probability(times, start=start, **options)),
            "asymmetry": float(np.abs(blocks - blocks.T).max()),
            "least_eigenvalue": float(np.linalg.eigvalsh((blocks + blocks.T) / 2).min()),
        },
        coords={"time": late, "short_time": times},
    )


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge limits at the last time, and the direction of change at the border."""
    options = attribute(record, "options")
    trials = options["trials"]
    index, law, share = (record[name].values for name in ("index", "predicted", "separated"))
    ratio = record["scale"].values / (record["classes"].values / 2)
    rare = 3 / trials
    error = np.sqrt(law * (1 - law) / trials)
    uncertain = (law > 0.02) & (law < 0.98)
    border = index == 1.0
    above = border & (ratio > 1)
    rise = np.where(above, 1.0, -1.0)[border] * (share[border, -1] - share[border, 0])
    doubt = np.sqrt(error[border, -1] ** 2 + error[border, 0] ** 2)
    slope, slope_error = _exponents(record.isel(case=np.flatnonzero(border)))
    exponent = (record["scale"] / record["classes"]).values[border] - 0.5
    chance = 2 / comb(2 * options["samples"], options["samples"])
    late = record["log_log"].values
    return (
        SLOW.equals(share[index < 1, -1], 1.0, rare, note=f"tail indices {index[index < 1]} at t = 1e10"),
        FAST.equals(share[index > 1, -1], 0.0, chance + rare, note=f"tail indices {index[index > 1]}"),
        BORDER.equals(
            slope, exponent, three_errors(slope_error) + 1e-3, rival=0.0, standard_error=slope_error,
            note=f"slopes over t = 1e2 … 1e10, bound 1e-3: (1 + t)/t at the first time; c/(K/2) = {ratio[border]}",
        ),
        SIDES.exceeds(rise, 0.0, three_errors(doubt), note="change from t = 1e2 to 1e10, turned where c < K/2"),
        LAW.equals(share[uncertain], law[uncertain], three_errors(error[uncertain]) + rare, note="all cases"),
        LOG_LOG.corrects(
            late[-1], 0.0, chance + rare + 3 * np.sqrt(late[-1] / trials), published=1.0,
            standard_error=0.5 / np.sqrt(trials),
            note=f"γ = 1/(t √(log log t)): share of separated trials {late.round(3)} at t = {record['time'].values}; "
            "exp(Γ/K) must outgrow √(t log log t), which again takes γ = c/t with c > K/2",
        ),
        GAMMA.corrects(
            float(record["negative_gamma"][-1]), 1.0, rare, published=0.0, standard_error=0.5 / np.sqrt(trials),
            note="α = 0.1, β = −1, K = 3: α + 2 β = −1.9, yet differences grow with (α − β)/K",
        ),
        COVERED.corrects(
            float(record["asymmetry"]), 0.5, 1e-12, published=0.0,
            note=f"largest |H − Hᵀ|, K = 3; least eigenvalue of (H + Hᵀ)/2: {float(record['least_eigenvalue']):.3f}",
        ),
        LOGITS.corrects(
            float(record["logits"][-1]), 1.0, rare, published=0.0, standard_error=0.5 / np.sqrt(trials),
            note="α − β = 0.1/(1 + t)², β = 1: amplitudes grow with (α + β/(K−1))/K and carry the classes apart",
        ),
    )  # fmt: skip


def _exponents(record: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Slope of log signal over log time between the mean signals at both ends, and its standard error, by case."""
    span = np.log(float(record["time"][-1] / record["time"][0]))
    ends = record["signal"].isel(time=[0, -1]).transpose("case", "time", "trial").values
    mean, error = ends.mean(axis=2), ends.std(axis=2, ddof=1) / np.sqrt(ends.shape[2])
    with np.errstate(invalid="ignore"):  # means of the wrong sign have no slope, and no claim is reproduced by them
        return np.log(mean[:, 1] / mean[:, 0]) / span, np.hypot(*(error / mean).T) / span


def plot(record: xr.Dataset) -> Any:
    """Draw probabilities over time: for tail indices around 1, and at index 1 for constants around K/2."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    classes = np.unique(record["classes"].values)
    figure, axes = new_figure(columns=2, rows=len(classes))
    for row, number in zip(axes, classes, strict=True):
        cases = record.isel(case=np.flatnonzero(record["classes"].values == number))
        for ax, chosen in zip(row, (cases["index"].values != 1, cases["index"].values == 1), strict=True):
            part = cases.isel(case=np.flatnonzero(chosen))
            for colour, case in zip(PALETTE, range(part.sizes["case"]), strict=False):
                each = part.isel(case=case)
                ratio = float(each["scale"]) / (number / 2)
                label = f"index {float(each['index']):g}" if float(each["index"]) != 1 else f"c = {ratio:g} · K/2"
                ax.plot(record["time"], each["separated"], "o", color=colour)
                ax.plot(record["time"], each["predicted"], color=colour, label=label)
            ax.set_xscale("log")
            ax.set_title(f"{number} classes, α − β = {'scale/(1 + t)^index' if chosen[0] else 'c/(1 + t)'}")
            ax.set_xlabel("time (iterations × step size)")
            ax.set_ylabel("probability of separation")
            ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="The tail of α − β decides whether classes part",
    source="elastic Theorem 3.1",
    kind="equation",
    claims=(SLOW, FAST, BORDER, SIDES, LAW, LOG_LOG, GAMMA, COVERED, LOGITS),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
