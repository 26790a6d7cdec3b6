"""Figure 4.3 and (4.37)–(4.44): the best split of compute C = T·N between training steps and skills."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope import grid
from dynascope.experiments.claims import Claim
from dynascope.experiments.multilinear.recorded import recorded
from dynascope.experiments.registry import Experiment
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.scaling import best_exposure, fit_exponent

ALPHAS = (0.3, 0.6, 0.9)


@dataclass(frozen=True)
class Config:
    """Settings of the figure: 50,000 skills, S = 5; η = 0.25 (η S P(1) below 1), R(0) = 0.01."""

    skills: int = 50_000
    known: tuple[int, ...] = (10, 14, 20, 28, 40, 56, 80, 113, 160, 226, 320, 452, 640)
    steps: int = 100_000
    seed: int = 0


SCALES = {
    "smoke": Config(skills=20_000, known=(10, 14, 20, 28, 40, 56, 80, 113, 160), steps=8_000),
    "laptop": Config(),
    "paper": Config(known=(10, 18, 32, 56, 100, 178, 316, 562, 1000, 1778, 3162, 5623, 10_000), steps=300_000),
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
    """Train every number of skills and α, and read losses off at common amounts of compute."""
    begun = time.perf_counter()
    model = Multilinear(config.skills, **grid(exponent=ALPHAS), target=5.0, learning_rate=0.25)
    moments = np.unique(np.geomspace(10, config.steps, 150).round())
    runs = [
        model.simulate(config.steps, 0, 1, parameters=known, save_points=moments, track=[known]).isel(trial=0)
        for known in config.known
    ]
    loss = np.stack([each["loss"].values for each in runs], axis=1)  # (exponent, known, time)
    last = np.stack([each["strength"].values[..., 0] for each in runs], axis=1) / 5.0
    forms = model.loss(time=moments, parameters=np.array(config.known)[:, None])
    record = xr.Dataset(
        {
            "loss": (("exponent", "known_skills", "time"), loss),
            "last_strength": (("exponent", "known_skills", "time"), last),
            "form": (("exponent", "known_skills", "time"), forms),
            "absent": ("exponent", model.absent_loss("compute")),
            "table": ("exponent", model.exponent("compute")),
            "withheld": (("exponent", "known_skills"), model.loss(parameters=config.known)),
            "time_law": (("exponent", "time"), model.scaling_law("time", moments, finite=False)),
            "parameter_law": (
                ("exponent", "known_skills"),
                model.scaling_law("parameters", config.known, finite=False),
            ),
            "best_last_strength": (
                "exponent",
                [1 - float(t.gap(np.array(best_exposure(t)[0]))) for t in model._tasks()],
            ),
            "slowest_rate": (("exponent", "known_skills"), 2 * 0.25 * 5.0 * model.frequency(config.known)),
        },
        coords={"exponent": list(ALPHAS), "known_skills": list(config.known), "time": moments},
    )
    return recorded(xr.merge([record, _frontier(record)]), config, begun)


def _frontier(record: xr.Dataset) -> xr.Dataset:
    """For each number of skills the compute at which it is as good as the next larger one: the corners of the frontier.

    Between two corners that number is the best of those tried; the loss there is read off by interpolation.
    """
    known, moments = record["known_skills"].values, record["time"].values
    corner = np.full((len(ALPHAS), len(known) - 1, 3), np.nan)  # compute, loss, strength of the last skill
    for i, j in np.ndindex(*corner.shape[:2]):
        compute = np.geomspace(known[j + 1] * moments[0], known[j] * moments[-1], 4000)
        pair = [
            np.interp(np.log(compute / known[k]), np.log(moments), np.log(record["loss"].values[i, k]))
            for k in (j, j + 1)
        ]
        better = pair[1] < pair[0]
        if better[-1] and not better[0]:
            at = len(better) - int(np.argmin(better[::-1]))  # from here on more skills are better
            strengths = [
                np.interp(np.log(compute[at] / known[k]), np.log(moments), record["last_strength"].values[i, k])
                for k in (j, j + 1)
            ]
            corner[i, j] = compute[at], np.exp(pair[0][at]), np.mean(strengths)
    names = ("corner_compute", "corner_loss", "corner_last_strength")
    return xr.Dataset({name: (("exponent", "corner"), corner[..., n]) for n, name in enumerate(names)})


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Fit the corners of the frontier and look at what the source says about the optimum."""
    fits, splits, strengths = [], [], []
    for index in range(len(ALPHAS)):
        one = record.isel(exponent=index)
        found = np.isfinite(one["corner_compute"].values)
        compute, loss = one["corner_compute"].values[found], one["corner_loss"].values[found]
        between = np.sqrt(one["known_skills"].values[:-1] * one["known_skills"].values[1:])[found]
        fits.append(float(fit_exponent(compute, loss, float(one["absent"]))["exponent"]))
        splits.append(float(np.polyfit(np.log(compute), np.log(between), 1)[0]))
        strengths.append(float(one["corner_last_strength"].values[found][-1]))
    table, alphas = record["table"].values, np.array(ALPHAS)
    return (
        EXPONENT.equals(
            fits, table, 0.02 * abs(table), rival=-alphas / (alphas + 1), standard_error=0.0,
            note=f"fits of the loss plus that of absent skills, α = {ALPHAS}, within 2 %; rival: the exponent in time",
        ),
        SPLIT.equals(splits, 1 / (alphas + 2), 0.03 / (alphas + 2), note="within 3 %: N takes a few values only"),
        UNFINISHED.corrects(
            strengths, record["best_last_strength"], 0.06, published=1.0,
            note="R_N/S at the best split (mean of the two numbers of skills that are equally good); 0.06: N in steps",
        ),
        _added(record),
        _decay(record),
    )  # fmt: skip


def _added(record: xr.Dataset) -> Claim:
    """Loss of the largest model when its last skill is half learned, beside the sum of the two laws."""
    one = record.isel(known_skills=2)
    at = abs(one["last_strength"] - 0.5).argmin("time")
    loss, form, law = (one[name].isel(time=at) for name in ("loss", "form", "time_law"))
    published = law + one["parameter_law"] - one["absent"]
    note = f"(4.37) itself, with N = {int(one['known_skills'])} when the last skill is half learned; the sum counts skills beyond N twice"
    return ADDED.corrects(loss, form, 0.01 * form, published=published, note=note + "; 1 %: the step of η = 0.25")


def _decay(record: xr.Dataset) -> Claim:
    """Slope of log(loss − loss of withheld skills) on log T, when the last skill is learned to within 1 in 1000."""
    one = record.isel(known_skills=0)
    left = (one["loss"] - one["withheld"]).values
    slopes, expected = [], []
    for index in range(len(ALPHAS)):
        strength = one["last_strength"].values[index]
        at = int(np.argmax(strength > 1 - 1e-3))
        two = slice(at - 1, at + 2, 2)
        slopes.append(np.diff(np.log(left[index, two]))[0] / np.diff(np.log(one["time"].values[two]))[0])
        expected.append(-2 * float(one["slowest_rate"][index]) * one["time"].values[at])
    expected = np.array(expected)
    return DECAY.corrects(
        slopes, expected, 0.15 * abs(expected), published=-2.0,
        note="−4 η S P(N) T: exponentially fast; 15 %: the other skills that are still being learned",
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw loss over compute for every number of skills, and the frontier's power law."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=len(ALPHAS))
    for ax, alpha in zip(axes[0], ALPHAS, strict=True):
        one = record.sel(exponent=alpha)
        for known in one["known_skills"].values:
            ax.plot(known * one["time"], one["loss"].sel(known_skills=known), color=PALETTE[0], linewidth=0.8)
        found = np.isfinite(one["corner_compute"].values)
        compute, loss = one["corner_compute"].values[found], one["corner_loss"].values[found]
        slope, absent = float(one["table"]), float(one["absent"])
        law = (loss[-1] + absent) * (compute / compute[-1]) ** slope
        ax.plot(compute, loss, "o", color=PALETTE[1], markersize=4, label="frontier")
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
