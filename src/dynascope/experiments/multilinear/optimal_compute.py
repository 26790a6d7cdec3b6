"""layerwise Figure 4.3: The best split of compute.

Compute is C = T·N, of training steps and skills; the split follows (4.37)–(4.44).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, corrected, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import layerwise
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.scaling import estimate_exponent
from dynascope.models.parameters import grid

ALPHAS = (0.3, 0.6, 0.9)
TARGET, INITIAL, RATE = 5.0, 0.01, 0.25


@dataclass(frozen=True)
class Config:
    """Settings of the figure: 50,000 skills, S = 5; η = 0.25 (η S P(1) below 1), R(0) = 0.01; N up to `known`."""

    skills: int = 50_000
    known: int = 640
    steps: int = 100_000
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    """Train the largest model once: skills are decoupled, so that its first N skills are the model with N of them."""
    axis = grid(skill_exponent=ALPHAS)
    model = Multilinear(config.skills, **axis, target=TARGET, initial=INITIAL, learning_rate=RATE)
    moments = np.unique(np.geomspace(10, config.steps, 150).round())
    ranks = np.arange(1, config.known + 1)
    trained = model.simulate(config.steps, 0, 1, parameters=config.known, save_points=moments, track=ranks)
    strength = trained["strength"].isel(trial=0).values.transpose(0, 2, 1)  # (skill_exponent, skill, time)
    missing = np.cumsum(model.frequency(ranks)[..., None] * (TARGET - strength) ** 2 / 2, axis=1)
    withheld = model.loss(parameters=ranks)
    pair = ("skill_exponent", "known_skills")
    record = xr.Dataset(
        {
            "learnable": ((*pair, "time"), missing),  # what is left to learn of the first N skills
            "last_strength": ((*pair, "time"), strength / TARGET),
            "withheld": (pair, withheld),
            "loss": ((*pair, "time"), missing + withheld[..., None]),
            "form": ((*pair, "time"), model.loss(time=moments, parameters=ranks[:, None])),
            "absent": ("skill_exponent", model.absent_loss("compute")),
            "table": ("skill_exponent", model.exponent("compute")),
            "time_law": (("skill_exponent", "time"), model.scaling_law("time", moments, finite=False)),
            "parameter_law": (pair, model.scaling_law("parameters", ranks, finite=False)),
            "slowest_rate": (pair, 2 * RATE * TARGET * model.frequency(ranks)),
        },
        coords={"skill_exponent": list(ALPHAS), "known_skills": ranks, "time": moments},
    )
    return xr.merge([record, _frontier(record, model)])


def _frontier(record: xr.Dataset, model: Multilinear) -> xr.Dataset:
    """The best whole N at each of several budgets, from the trained losses; and what the closed form chooses."""
    ranks, moments = record["known_skills"].values, record["time"].values
    budgets = np.geomspace(2e3, ranks[-1] * moments[-1], 60)
    found = np.full((3, len(ALPHAS), len(budgets)), np.nan)  # loss, skills, strength of the last skill
    for i in range(len(ALPHAS)):
        losses, strengths = (
            [CubicSpline(np.log(moments), row, extrapolate=False) for row in values[i]]
            for values in (np.log(record["loss"].values), record["last_strength"].values)
        )
        for b, budget in enumerate(budgets):
            at = np.log(budget / ranks)
            loss = np.array([float(curve(x)) for curve, x in zip(losses, at, strict=True)])
            best = int(np.argmin(np.where(np.isnan(loss), np.inf, loss)))
            if 10 < ranks[best] < ranks[-1] / 2 and at[best] < np.log(moments[-1] / 2):
                found[:, i, b] = np.exp(loss[best]), ranks[best], float(strengths[best](at[best]))
    names = ("frontier_loss", "frontier_skills", "frontier_last_strength", "best_last_strength")
    each = (*found, model.optimal_compute(budgets)["last_strength"].values)
    values = {name: (("skill_exponent", "budget"), value) for name, value in zip(names, each, strict=True)}
    return xr.Dataset(values, coords={"budget": budgets})


def _best(record: xr.Dataset, alpha: float) -> xr.Dataset:
    """The budgets whose best split was found."""
    one = record.sel(skill_exponent=alpha)
    return one.isel(budget=np.flatnonzero(np.isfinite(one["frontier_loss"].values)))


def _exponents(record: xr.Dataset) -> Judgement:
    fits = []
    for one in (_best(record, alpha) for alpha in ALPHAS):
        fits.append(float(estimate_exponent(one["budget"], one["frontier_loss"], float(one["absent"]))["exponent"]))
    table, rival = record["table"].values, -np.array(ALPHAS) / (np.array(ALPHAS) + 1)
    note = f"fits of the loss plus that of absent skills, α = {ALPHAS}, within 2 %; rival: the exponent in time"
    return equal(fits, table, 0.02 * abs(table), rival=rival, error=0.0, note=note)


def _skills(record: xr.Dataset) -> Judgement:
    best, form = [_best(record, alpha) for alpha in ALPHAS], 1 / (np.array(ALPHAS) + 2)
    splits = [np.polyfit(np.log(one["budget"]), np.log(one["frontier_skills"]), 1)[0] for one in best]
    return equal(splits, form, 0.03 * form, note="within 3 %: N is a whole number from 11 on")


def _unfinished(record: xr.Dataset) -> Judgement:
    best = [_best(record, alpha) for alpha in ALPHAS]
    trained, chosen = ([float(one[f"{who}_last_strength"].mean()) for one in best] for who in ("frontier", "best"))
    note = "mean of R_N/S over the best splits of many budgets; 0.02: interpolation in time, the size of a step"
    return corrected(trained, chosen, 0.02, published=1.0, note=note)


def _added(record: xr.Dataset) -> Judgement:
    """Loss of a model when its last skill is half learned, beside the sum of the two laws."""
    one = record.sel(known_skills=20)
    at = abs(one["last_strength"] - 0.5).argmin("time")
    loss, form, law = (one[name].isel(time=at) for name in ("loss", "form", "time_law"))
    published = law + one["parameter_law"] - one["absent"]
    note = "(4.37), N = 20, when the last skill is half learned; the sum counts skills beyond N twice"
    return corrected(loss, form, 0.01 * form, published=published, note=f"{note}; 1 %: the size of a step")


def _decay(record: xr.Dataset) -> Judgement:
    """Slope of log(loss − loss of withheld skills) on log T, when the last skill is learned to within 1 in 1000."""
    slopes, expected = [], []
    for alpha in ALPHAS:
        one = record.sel(known_skills=10, skill_exponent=alpha)
        at = int(np.argmax(one["last_strength"].values > 1 - 1e-3))
        left, times = (np.log(one[name].values[[at - 1, at + 1]]) for name in ("learnable", "time"))
        slopes.append(np.diff(left)[0] / np.diff(times)[0])
        expected.append(-2 * float(one["slowest_rate"]) * float(one["time"][at]))
    note = "−4 η S P(N) T: exponentially fast; 15 %: the other skills that are still being learned"
    return corrected(slopes, expected, 0.15 * np.abs(expected), published=-2.0, note=note)


def _draw(record: xr.Dataset, ax: Axes, alpha: float) -> None:
    """Loss over compute for every number of skills, and the frontier's power law."""
    one = _best(record, alpha)
    for known in np.unique(np.geomspace(10, one["known_skills"][-1], 13).round()).astype(int):
        ax.plot(known * one["time"], one["loss"].sel(known_skills=known), color=plots.PALETTE[0], linewidth=0.8)
    compute, loss = one["budget"].values, one["frontier_loss"].values
    slope, absent = float(one["table"]), float(one["absent"])
    law = (loss[-1] + absent) * (compute / compute[-1]) ** slope
    ax.plot(compute, loss, "o", color=plots.PALETTE[1], markersize=3, label="best split")
    ax.plot(compute, law - absent, "--", color="black", label=f"C^{slope:.3f}, finite number of skills")
    ax.plot(compute, law, ":", color="black", label=f"C^{slope:.3f}")
    ax.set(xscale="log", yscale="log", xlabel="compute C = T·N (steps × skills)", title=f"α = {alpha}")
    ax.set_ylabel("loss (one line for each number of skills N)")


EXPERIMENT = Experiment(
    layerwise(figure="4.3"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-4.3-exponent",
            "the loss at the best split falls as C^(−α/(α+2))",
            _exponents,
            layerwise(equation="4.44", figure="4.3"),
        ),
        Claim(
            "eq4.43-split",
            "the best number of skills grows as C^(1/(α+2))",
            _skills,
            layerwise(equation="4.43"),
        ),
        Claim(
            "fig-4.3-plateau",
            "the best split is where T is sufficient to fit all N skills: the last of them is learned, R_N = S",
            _unfinished,
            layerwise(figure="4.3", place="caption"),
        ),
        Claim(
            "eq4.39-added",
            "the loss of N skills after T steps is the law of time plus the law of parameters",
            _added,
            layerwise(equation="4.39"),
        ),
        Claim(
            "eq4.39-decay",
            "once the N skills are nearly learned, what is left to learn of them falls as T^−2",
            _decay,
            layerwise(place="below (4.38)"),
        ),
    ),
    picture=Panels(*(partial(_draw, alpha=alpha) for alpha in ALPHAS)),
    smoke={"skills": 20_000, "known": 160, "steps": 8_000},
    paper={"known": 3_000, "steps": 1_000_000},
    model="Multilinear",
    adapted="up to 3,000 skills, not 10,000; η and R(0), which the source leaves out",
)
