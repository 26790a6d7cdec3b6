"""Figures 4, 5 and 12 for one mode: the distribution at the end of training, and how the step length changes it."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.mode_networks import train_chains
from dynascope.experiments.registry import Experiment
from dynascope.models.mode_equation.model import ModeEquation
from dynascope.models.mode_equation.stationary import window_moments
from dynascope.records import attribute, with_provenance

DEPTH, RATE, START = 4, 0.005, 0.02  # of the network and its learning rate, as in the source; s = 1
LABEL = float(np.sqrt(0.1))  # figure 5: label noise of variance 0.1
STEPS = (0.2, 0.1, 0.05, 0.025)  # Δt of figure 12, up to 0.8/κ
SETTLE, EVERY = 5.0, 0.4


@dataclass(frozen=True)
class Config:
    """Trials of every kind of noise until the mode is learned, and a window with label noise for every step length."""

    trials: int = 1000
    duration: float = 30.0
    window: float = 100.0
    seed: int = 23


SCALES = {
    "smoke": Config(trials=300, window=60.0),
    "laptop": Config(),
    "paper": Config(trials=10_000, window=200.0),
}
SGD = Claim("mode-fig4a", "deep-linear figure 4(a)", "without label noise SGD ends at s: distance to s at the end")
EULER = Claim(
    "mode-fig4b",
    "deep-linear Proposition 5.2(i), K",
    "without label noise the stepped mode equation ends at s for every Δt: discretisation does not spread figure 4(b)",
)
ISOTROPIC = Claim(
    "mode-fig4c", "deep-linear figure 4(c)", "isotropic noise ends with more variance than state-dependent noise"
)
LABELLED = Claim("mode-fig5", "deep-linear figure 5", "with label noise SGD ends with the variance of (18)")
GAUSSIAN = Claim("mode-fig5-gaussian", "deep-linear figure 5", "and a nearly Gaussian distribution: skewness near 0")
FINER = Claim("mode-fig12", "deep-linear figure 12", "with label noise the variance falls as Δt becomes finer")
STEPPED = Claim(
    "mode-fig12-law",
    "deep-linear figure 12, derived",
    "Euler's variance over that of the equation is (1 − κ β)/(1 − κ β − κ Δt/2), κ = L s^(2−2/L)",
)


def run(config: Config) -> xr.Dataset:
    """Train chains and step the mode equation without label noise, then with it."""
    begun = time.perf_counter()
    last = round(config.duration / RATE)
    common: dict[str, Any] = {"singular_value": 1.0, "learning_rate": RATE, "start": START, "saves": [last]}
    ends = {
        "sgd": train_chains(DEPTH, label_noise=0.0, trials=config.trials, seed=config.seed, **common)[:, 0],
        "sgd_label": train_chains(DEPTH, label_noise=LABEL, trials=config.trials, seed=config.seed, **common)[:, 0],
        "isotropic": train_chains(
            DEPTH, label_noise=0.0, trials=config.trials, seed=config.seed, isotropic=RATE, **common
        )[:, 0],
    }
    options: dict[str, Any] = {"scheme": "euler", "seed": config.seed}
    silent, moments = [], []
    for dt in STEPS:
        run = ModeEquation(depth=DEPTH).simulate(
            config.duration, dt, config.trials, start=START, save_points=2, **options
        )
        silent.append(run["amplitude"].isel(time=-1).values)
        times = np.arange(0.0, SETTLE + config.window + EVERY / 2, EVERY)
        noisy = ModeEquation(depth=DEPTH, label_noise=LABEL).simulate(
            times[-1], dt, config.trials, start=1.0, save_points=times, **options
        )
        moments.append([float(value) for value in window_moments(noisy["amplitude"], SETTLE)["variance"]])
    variance, error = np.transpose(moments)
    record = xr.Dataset(
        {name: ("trial", values) for name, values in ends.items()}
        | {"euler": (("step", "trial"), silent), "variance": ("step", variance), "variance_error": ("step", error)},
        coords={"step": ("step", list(STEPS), {"long_name": "step Δt", "units": "time"})},
    )
    parameters = {"depth": DEPTH, "singular_value": 1.0, "temperature": RATE, "label_noise": LABEL}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record,
        "ModeEquation",
        parameters,
        options=vars(config),
        seed=config.seed,
        precision="float64",
        wall_time=wall_time,
    )


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge the ends of training and the law of figure 12."""
    trials = attribute(record, "options")["trials"]
    sampling = np.sqrt(2 / (trials - 1))  # relative standard error of a Gaussian variance
    labelled, isotropic = float(record["sgd_label"].var(ddof=1)), float(record["isotropic"].var(ddof=1))
    euler = float(record["euler"].var("trial", ddof=1).max())
    law = ModeEquation(depth=DEPTH, label_noise=LABEL).stationary_moments()
    eq18 = float(ModeEquation(depth=DEPTH, label_noise=LABEL).stationary_moments("published").variance)
    rate = float(DEPTH)  # κ at s = 1
    ratio, error = (record[name].values / float(law.variance) for name in ("variance", "variance_error"))
    expected = (1 - rate * RATE) / (1 - rate * RATE - rate * np.array(STEPS) / 2)
    centred = record["sgd_label"] - record["sgd_label"].mean()
    skewness = float((centred**3).mean() / (centred**2).mean() ** 1.5)
    drop, errors = -np.diff(record["variance"].values), record["variance_error"].values
    return (
        SGD.falls_below(np.abs(record["sgd"].values - 1).max(), 1e-6, 0.0, note="largest over trials"),
        EULER.falls_below(np.abs(record["euler"].values - 1).max(axis=1), 1e-6, 0.0, note=f"Δt = {STEPS}, largest"),
        ISOTROPIC.exceeds(isotropic, euler, three_errors(isotropic * sampling), note="variances"),
        LABELLED.equals(
            labelled / eq18, 1.0, three_errors(sampling) + 3 * rate * RATE / 2, note="over (18); next order: 3 κ η/2"
        ),
        GAUSSIAN.equals(skewness, 0.0, three_errors(np.sqrt(6 / trials)) + 0.1, note="0.1: what counts as Gaussian"),
        FINER.exceeds(
            drop, 0.0, three_errors(np.hypot(errors[1:], errors[:-1])), note=f"drop from one to the next Δt of {STEPS}"
        ),
        STEPPED.equals(
            ratio, expected, three_errors(error) + rate * RATE * (expected - 1), rival=np.ones_like(ratio),
            standard_error=error, note="rival: no effect of Δt",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the ends of training as histograms, and the variance over the step."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=3)
    panels = {
        "figure 4: no label noise": {
            "SGD": record["sgd"],
            "state-dependent noise": record["euler"].isel(step=-1),
            "isotropic noise": record["isotropic"],
        },
        "figure 5: label noise of variance 0.1": {"SGD": record["sgd_label"]},
    }
    for ax, (title, kinds) in zip(axes[0], panels.items(), strict=False):
        for colour, (label, values) in zip(PALETTE, kinds.items(), strict=False):
            ax.hist(values.values, np.linspace(0.8, 1.2, 61), color=colour, alpha=0.6, density=True, label=label)
        ax.set_title(title)
        ax.set_xlabel("mode amplitude w at the end")
        ax.set_ylabel("probability density (1/amplitude)")
    fine = np.linspace(0.8, 1.2, 300)
    mode = ModeEquation(depth=DEPTH, label_noise=LABEL)
    axes[0, 1].plot(fine, mode.stationary_density(fine), color="black", label="(16)")
    axes[0, 0].set_yscale("log")
    last, rate, law = axes[0, 2], float(DEPTH), mode.stationary_moments()
    last.errorbar(
        record["step"], record["variance"], 3 * record["variance_error"],
        color=PALETTE[0], marker="o", linestyle="none", label="Euler–Maruyama",
    )  # fmt: skip
    steps = np.linspace(0, max(STEPS), 100)
    left = 1 - rate * RATE
    last.plot(steps, law.variance * left / (left - rate * steps / 2), color="black", label="closed form")
    last.set_title("figure 12, with label noise")
    last.set_xlabel("step Δt (time)")
    last.set_ylabel("variance (amplitude²)")
    for ax in axes[0]:
        ax.legend(frameon=False, fontsize="x-small")
    return figure


EXPERIMENT = Experiment(
    title="The end of training for one mode",
    source="deep-linear figures 4, 5, 12 (one-mode equation)",
    kind="figure",
    claims=(SGD, EULER, ISOTROPIC, LABELLED, GAUSSIAN, FINER, STEPPED),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
