"""Figure 4.3 and (4.37)–(4.44): the best split of compute C = T·N between training steps and skills."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from dynascope import grid
from dynascope.experiments.claims import Claim
from dynascope.experiments.multilinear.recorded import recorded
from dynascope.experiments.registry import Experiment
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.scaling import estimate_exponent

ALPHAS = (0.3, 0.6, 0.9)
TARGET, INITIAL, RATE = 5.0, 0.01, 0.25


@dataclass(frozen=True)
class Config:
    """Settings of the figure: 50,000 skills, S = 5; η = 0.25 (η S P(1) below 1), R(0) = 0.01; N up to `known`."""

    skills: int = 50_000
    known: int = 640
    steps: int = 100_000
    seed: int = 0


SCALES = {
    "smoke": Config(skills=20_000, known=160, steps=8_000),
    "laptop": Config(),
    "paper": Config(known=3_000, steps=1_000_000),
}
EXPONENT = Claim("fig-4.3-exponent", "layerwise (4.44), FIG. 4.3", "the loss at the best split falls as C^(−α/(α+2))")
SPLIT = Claim("eq4.43-split", "layerwise (4.43)", "the best number of skills grows as C^(1/(α+2))")
UNFINISHED = Claim(
    "fig-4.3-plateau",
    "layerwise FIG. 4.3, caption",
    "the best split is where T is sufficient to fit all N skills: the last of them is learned, R_N = S",
)
ADDED = Claim(
    "eq4.39-added",
    "layerwise (4.39)",
    "the loss of N skills after T steps is the law of time plus the law of parameters",
)
DECAY = Claim(
    "eq4.39-decay",
    "layerwise, below (4.38)",
    "once the N skills are nearly learned, what is left to learn of them falls as T^−2",
)


def run(config: Config) -> xr.Dataset:
    """Train the largest model once: skills are decoupled, so that its first N skills are the model with N of them."""
    begun = time.perf_counter()
    model = Multilinear(
        config.skills, **grid(skill_exponent=ALPHAS), target=TARGET, initial=INITIAL, learning_rate=RATE
    )
    moments = np.unique(np.geomspace(10, config.steps, 150).round())
    ranks = np.arange(1, config.known + 1)
    trained = model.simulate(config.steps, 0, 1, parameters=config.known, save_points=moments, track=ranks)
    strength = trained["strength"].isel(trial=0).values.transpose(0, 2, 1)  # (exponent, skill, time)
    missing = np.cumsum(model.frequency(ranks)[..., None] * (TARGET - strength) ** 2 / 2, axis=1)
    withheld = model.loss(parameters=ranks)
    pair = ("skill_exponent", "known_skills")
    record = xr.Dataset(
        {
            "learnable": ((*pair, "time"), missing),  # what is left to learn of the first N skills
            "last_strength": ((*pair, "time"), strength / TARGET),
            "withheld": (pair, withheld),
            "loss": ((*pair, "time"), missing + withheld[..., None]),
            "absent": ("skill_exponent", model.absent_loss("compute")),
            "table": ("skill_exponent", model.exponent("compute")),
            "time_law": (("skill_exponent", "time"), model.scaling_law("time", moments, finite=False)),
            "parameter_law": (pair, model.scaling_law("parameters", ranks, finite=False)),
            "slowest_rate": (pair, 2 * RATE * TARGET * model.frequency(ranks)),
        },
        coords={"skill_exponent": list(ALPHAS), "known_skills": ranks, "time": moments},
    )
    record["form"] = ((*pair, "time"), model.loss(time=moments, parameters=ranks[:, None]))
    return recorded(xr.merge([record, _frontier(record, model)]), config, begun)


def _frontier(record: xr.Dataset, model: Multilinear) -> xr.Dataset:
    """The best whole N at each of several budgets, from the trained losses; and what the closed form chooses."""
    ranks, moments = record["known_skills"].values, record["time"].values
    budgets = np.geomspace(2e3, ranks[-1] * moments[-1], 60)
    found = np.full((3, len(ALPHAS), len(budgets)), np.nan)  # loss, skills, strength of the last skill
    for i in range(len(ALPHAS)):
        read = {
            name: [CubicSpline(np.log(moments), row, extrapolate=False) for row in values]
            for name, values in (
                ("loss", np.log(record["loss"].values[i])),
                ("last", record["last_strength"].values[i]),
            )
        }
        for b, budget in enumerate(budgets):
            at = np.log(budget / ranks)
            losses = np.array([float(curve(x)) for curve, x in zip(read["loss"], at, strict=True)])
            best = int(np.argmin(np.where(np.isnan(losses), np.inf, losses)))
            if 10 < ranks[best] < ranks[-1] / 2 and at[best] < np.log(moments[-1] / 2):
                found[:, i, b] = np.exp(losses[best]), ranks[best], float(read["last"][best](at[best]))
    chosen = model.optimal_compute(budgets)["last_strength"].values
    names = ("frontier_loss", "frontier_skills", "frontier_last_strength")
    values = {name: (("skill_exponent", "budget"), each) for name, each in zip(names, found, strict=True)}
    return xr.Dataset(
        {**values, "best_last_strength": (("skill_exponent", "budget"), chosen)}, coords={"budget": budgets}
    )


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Fit the corners of the frontier and look at what the source says about the optimum."""
    fits, splits, strengths = [], [], []
    for index in range(len(ALPHAS)):
        one = record.isel(skill_exponent=index)
        one = one.isel(budget=np.flatnonzero(np.isfinite(one["frontier_loss"].values)))
        fits.append(float(estimate_exponent(one["budget"], one["frontier_loss"], float(one["absent"]))["exponent"]))
        splits.append(float(np.polyfit(np.log(one["budget"]), np.log(one["frontier_skills"]), 1)[0]))
        strengths.append([float(one[f"{which}_last_strength"].mean()) for which in ("frontier", "best")])
    table, alphas = record["table"].values, np.array(ALPHAS)
    trained, chosen = np.transpose(strengths)
    return (
        EXPONENT.equals(
            fits, table, 0.02 * abs(table), rival=-alphas / (alphas + 1), standard_error=0.0,
            note=f"fits of the loss plus that of absent skills, α = {ALPHAS}, within 2 %; rival: the exponent in time",
        ),
        SPLIT.equals(splits, 1 / (alphas + 2), 0.03 / (alphas + 2), note="within 3 %: N is a whole number from 11 on"),
        UNFINISHED.corrects(
            trained, chosen, 0.02, published=1.0,
            note="mean of R_N/S over the best splits of many budgets; 0.02: interpolation in time, the size of a step",
        ),
        _added(record),
        _decay(record),
    )  # fmt: skip


def _added(record: xr.Dataset) -> Claim:
    """Loss of a model when its last skill is half learned, beside the sum of the two laws."""
    one = record.sel(known_skills=20)
    at = abs(one["last_strength"] - 0.5).argmin("time")
    loss, form, law = (one[name].isel(time=at) for name in ("loss", "form", "time_law"))
    published = law + one["parameter_law"] - one["absent"]
    note = "(4.37), N = 20, when the last skill is half learned; the sum counts skills beyond N twice"
    return ADDED.corrects(loss, form, 0.01 * form, published=published, note=f"{note}; 1 %: the size of a step")


def _decay(record: xr.Dataset) -> Claim:
    """Slope of log(loss − loss of withheld skills) on log T, when the last skill is learned to within 1 in 1000."""
    one = record.sel(known_skills=10)
    left = one["learnable"].values
    slopes, expected = [], []
    for index in range(len(ALPHAS)):
        strength = one["last_strength"].values[index]
        at = int(np.argmax(strength > 1 - 1e-3))
        two = slice(at - 1, at + 2, 2)
        slopes.append(np.diff(np.log(left[index, two]))[0] / np.diff(np.log(one["time"].values[two]))[0])
        expected.append(-2 * float(one["slowest_rate"][index]) * one["time"].values[at])
    return DECAY.corrects(
        slopes, expected, 0.15 * np.abs(expected), published=-2.0,
        note="−4 η S P(N) T: exponentially fast; 15 %: the other skills that are still being learned",
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw loss over compute for every number of skills, and the frontier's power law."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=len(ALPHAS))
    for ax, alpha in zip(axes[0], ALPHAS, strict=True):
        one = record.sel(skill_exponent=alpha)
        for known in np.unique(np.geomspace(10, one["known_skills"][-1], 13).round()).astype(int):
            ax.plot(known * one["time"], one["loss"].sel(known_skills=known), color=PALETTE[0], linewidth=0.8)
        one = one.isel(budget=np.flatnonzero(np.isfinite(one["frontier_loss"].values)))
        compute, loss = one["budget"].values, one["frontier_loss"].values
        slope, absent = float(one["table"]), float(one["absent"])
        law = (loss[-1] + absent) * (compute / compute[-1]) ** slope
        ax.plot(compute, loss, "o", color=PALETTE[1], markersize=3, label="best split")
        ax.plot(compute, law - absent, "--", color="black", label=f"C^{slope:.3f}, finite number of skills")
        ax.plot(compute, law, ":", color="black", label=f"C^{slope:.3f}")
        ax.set_title(f"α = {alpha}", fontsize="small")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("compute C = T·N (steps × skills)")
        ax.legend(frameon=False, fontsize="small", loc="lower left")
    axes[0, 0].set_ylabel("loss (one line for each number of skills N)")
    return figure


EXPERIMENT = Experiment(
    title="The best split of compute",
    source="layerwise FIG. 4.3",
    kind="figure",
    claims=(EXPONENT, SPLIT, UNFINISHED, ADDED, DECAY),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
