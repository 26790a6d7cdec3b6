"""Proposition 5.2, equations (16), (17), (18): where label noise leaves a learned mode."""

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
from dynascope.models.parameters import grid
from dynascope.records import attribute, with_provenance

DEPTHS, RATE, LABEL = (2, 3, 4), 0.005, float(np.sqrt(0.1))  # learning rate at batch size 1, label noise as in figure 5
BROAD: dict[str, Any] = {
    "depth": 4,
    "singular_value": 0.7,
    "temperature": 0.03,
    "label_noise": 0.6,
}  # a law that is visibly skewed
SETTLE, EVERY = 5.0, 0.5  # time before the window, and between samples of it
BINS = 16
COLLAPSE = (0.5, 1.5)  # temperatures at depth 2, in units of the one from which on noise unlearns a mode
FAINT = 1e-30  # amplitude from which growth is measured


@dataclass(frozen=True)
class Config:
    """Trials of the mode equation and of SGD on chains of scalar weights, started at s, over a window of time."""

    trials: int = 2000
    chains: int = 1000
    window: float = 60.0
    dt: float = 0.01
    seed: int = 11


SCALES = {
    "smoke": Config(trials=600, chains=600, window=30.0),
    "laptop": Config(),
    "paper": Config(trials=20_000, chains=5000),
}
VARIANCE = Claim("mode-eq18", "deep-linear (18)", "label noise leaves the variance β L σ_q² s^(2(L−1)/L)/2")
MEAN = Claim("mode-eq17-mean", "deep-linear (17)", "the mean lies above s, at s + β (L−1) s^(−2/L) σ_q/2")
UNDER = Claim("mode-mean-below", "deep-linear, Proposition 5.2, corrected", "the mean lies below s, not above it")
SGD_MEAN = Claim("mode-eq17-mean-sgd", "deep-linear (17)", "SGD on a chain: the mean lies above s, as in (17)")
SGD_VARIANCE = Claim("mode-eq18-sgd", "deep-linear (18)", "SGD on a chain: the variance is that of the mode equation")
DENSITY = Claim("mode-eq16", "deep-linear (16)", "the stationary density is exp(∫ 2μ/D dw)/D, normalised")
TOP = Claim("mode-eq17-mode", "deep-linear, Proposition 5.2", "the density peaks near the zero of the drift, (17)")
UNLEARN = Claim(
    "mode-collapse", "deep-linear (4), derived", "at depth 2 log w grows from 0 at the rate 2s − β(2s² + σ_q²)"
)
BELOW = "mean s − u/2, mode s − 3u/2, zero of the drift s + u/2, with u = β (L−1) σ_q² s^((L−2)/L)"


def _mode(depth: int, **options: Any) -> ModeEquation:
    return ModeEquation(depth=depth, temperature=RATE, label_noise=LABEL, **options)


def run(config: Config) -> xr.Dataset:
    """Let modes and chains fluctuate about s; then a broad law; then growth from nearly 0."""
    begun = time.perf_counter()
    times = np.arange(0.0, SETTLE + config.window + EVERY / 2, EVERY)
    steps = np.rint(times / RATE).astype(int)
    moments: dict[str, list[float]] = {}
    for depth in DEPTHS:
        options: dict[str, Any] = {"seed": config.seed, "start": 1.0, "save_points": times}
        run = _mode(depth).simulate(times[-1], config.dt, config.trials, **options)["amplitude"]
        chains = train_chains(
            depth, singular_value=1.0, learning_rate=RATE, label_noise=LABEL, start=1.0, saves=steps,
            trials=config.chains, seed=config.seed,
        )  # fmt: skip
        trained = xr.DataArray(chains, dims=("trial", "time"), coords={"time": times})
        for prefix, values in (("", run), ("sgd_", trained)):
            for name, (value, error) in window_moments(values, SETTLE).items():
                moments.setdefault(f"{prefix}{name}", []).append(float(value))
                moments.setdefault(f"{prefix}{name}_error", []).append(float(error))
    broad = ModeEquation(**BROAD).simulate(
        times[-1], config.dt, config.trials, seed=config.seed, start=BROAD["singular_value"], save_points=times
    )["amplitude"].sel(time=slice(SETTLE, None))  # fmt: skip
    edges = _edges()
    counts = np.stack([np.histogram(trial, edges)[0] for trial in broad.values]) / broad.sizes["time"]
    limit = float(ModeEquation(depth=2, label_noise=LABEL).collapse_temperature())
    faint = ModeEquation(depth=2, label_noise=LABEL, **grid(temperature=[factor * limit for factor in COLLAPSE]))
    late = faint.simulate(2.0, config.dt, config.trials, seed=config.seed, start=FAINT)["amplitude"].isel(time=-1)
    record = xr.Dataset(
        {name: ("depth", values) for name, values in moments.items()}
        | {
            "share": (("trial", "bin"), counts),
            "broad_mean": ("trial", broad.mean("time").values),
            "growth": (("temperature", "trial"), np.log(late.values / FAINT) / 2.0),
        },
        coords={
            "depth": list(DEPTHS),
            "bin": (edges[1:] + edges[:-1]) / 2,
            "temperature": late["temperature"].values,
        },
    )
    parameters = {"singular_value": 1.0, "temperature": RATE, "label_noise": LABEL, "broad": BROAD}
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


def _edges() -> np.ndarray:
    """Bins of equal width over three standard deviations to either side of the mean."""
    law = ModeEquation(**BROAD).stationary_moments()
    return np.linspace(law.mean - 3 * np.sqrt(law.variance), law.mean + 3 * np.sqrt(law.variance), BINS + 1)


def _expected_shares() -> np.ndarray:
    """∫ p dw over each bin, by Simpson's rule on 20 intervals."""
    edges = _edges()
    fine = edges[:-1, None] + np.diff(edges)[:, None] * np.linspace(0, 1, 21)
    weights = np.array([1, *[4, 2] * 9, 4, 1]) / 60
    return np.asarray((ModeEquation(**BROAD).stationary_density(fine) @ weights) * np.diff(edges))


def _top(share: np.ndarray, centres: np.ndarray) -> float:
    """Where a polynomial through the logarithm of the middle bins is highest."""
    inner = slice(BINS // 4, -BINS // 4)
    x = (centres[inner] - centres.mean()) / (centres[1] - centres[0])
    fit = np.polynomial.Polynomial.fit(x, np.log(share[inner]), 4, w=np.sqrt(share[inner]))
    fine = np.linspace(x[0], x[-1], 4001)
    return float(centres.mean() + fine[np.argmax(fit(fine))] * (centres[1] - centres[0]))


def _measured_top(record: xr.Dataset) -> tuple[float, float]:
    """The mode of all trials together, and its standard error by leaving out one tenth of the trials at a time."""
    share, centres = record["share"].values, record["bin"].values
    parts = np.array_split(np.arange(len(share)), 10)
    left_out = [_top(np.delete(share, part, axis=0).mean(axis=0), centres) for part in parts]
    return _top(share.mean(axis=0), centres), float(np.std(left_out) * np.sqrt(len(parts) - 1))


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare simulation and SGD with quadrature, and with the printed forms."""
    exact, printed = ([_mode(depth).stationary_moments(form) for depth in DEPTHS] for form in ("exact", "published"))
    mean, variance = (np.array([float(getattr(m, name)) for m in exact]) for name in ("mean", "variance"))
    printed_mean, eq18 = (np.array([float(getattr(m, name)) for m in printed]) for name in ("mean", "variance"))
    step = np.array(DEPTHS) * RATE  # κ β: relative size of the next order, and of one step of SGD
    found = {name: record[name].values for name in record.data_vars}
    share, error = found["share"].mean(axis=0), found["share"].std(axis=0, ddof=1) / np.sqrt(len(found["share"]))
    top, top_error = _measured_top(record)
    broad, broad_printed = (ModeEquation(**BROAD).stationary_moments(form) for form in ("exact", "published"))
    growth = record["growth"].mean("trial").values
    growth_error = (record["growth"].std("trial", ddof=1) / np.sqrt(record.sizes["trial"])).values
    rate = 2 - record["temperature"].values * (2 + LABEL**2)
    dt = attribute(record, "options")["dt"]
    bias = (np.array(DEPTHS) * dt) ** 2  # of a step of weak order 2
    return (
        VARIANCE.equals(
            found["variance"] / eq18, 1.0, three_errors(found["variance_error"] / eq18) + 1.5 * step,
            note="over (18); the next order in the temperature is κ β",
        ),
        MEAN.corrects(
            found["mean"], mean, three_errors(found["mean_error"]) + bias * np.abs(mean - 1), published=printed_mean,
            standard_error=found["mean_error"], note=BELOW,
        ),
        UNDER.falls_below(
            found["broad_mean"].mean() - BROAD["singular_value"], 0.0,
            three_errors(found["broad_mean"].std(ddof=1) / np.sqrt(len(found["broad_mean"]))),
            note=f"{BROAD}; −u/2 = {float(ModeEquation(**BROAD).stationary_moments('small-rate').mean) - 0.7:.4f}",
        ),
        SGD_MEAN.corrects(
            found["sgd_mean"], mean, three_errors(found["sgd_mean_error"]) + step * np.abs(mean - 1),
            published=printed_mean, standard_error=found["sgd_mean_error"], note=BELOW,
        ),
        SGD_VARIANCE.equals(
            found["sgd_variance"], variance, three_errors(found["sgd_variance_error"]) + step * variance,
            note="steps of length η add about κ η/2",
        ),
        DENSITY.equals(
            share, _expected_shares(), three_errors(error) + (BROAD["depth"] * dt) ** 2 * share, note=str(BROAD)
        ),
        TOP.corrects(
            top, float(broad.mode), three_errors(top_error) + 0.05 * float(broad.mean - broad.mode),
            published=float(broad_printed.mode), standard_error=top_error, note=f"{BELOW}; 5 %: the polynomial's bias",
        ),
        UNLEARN.equals(
            growth, rate, three_errors(growth_error), rival=np.full(2, 2.0), standard_error=growth_error,
            note=f"β = {COLLAPSE} times 2s/(2s² + σ_q²), where the rate changes sign; rival: without noise",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the broad law beside its histogram, and shifts of the mean over depth."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    ax, other = axes[0]
    centres, mode = record["bin"].values, ModeEquation(**BROAD)
    width = centres[1] - centres[0]
    fine = np.linspace(centres[0] - width, centres[-1] + width, 300)
    ax.bar(centres, record["share"].mean("trial") / width, width, color=PALETTE[5], label="simulated")
    ax.plot(fine, mode.stationary_density(fine), color="black", label="(16)")
    law, printed = mode.stationary_moments(), mode.stationary_moments("published")
    marks = {"mode": law.mode, "mean": law.mean, "zero of the drift": law.drift_zero, "(17) as printed": printed.mean}
    for colour, (label, place) in zip(PALETTE, marks.items(), strict=False):
        ax.axvline(float(place), color=colour, linestyle="--", linewidth=1, label=label)
    ax.set_xlabel("mode amplitude w")
    ax.set_ylabel("probability density (1/amplitude)")
    ax.set_title(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in BROAD.items()), fontsize="x-small")
    for colour, prefix, label in ((PALETTE[0], "", "mode equation"), (PALETTE[1], "sgd_", "SGD on a chain")):
        other.errorbar(
            record["depth"], record[f"{prefix}mean"] - 1, 3 * record[f"{prefix}mean_error"],
            color=colour, marker="o", linestyle="none", label=label,
        )  # fmt: skip
    for style, form in (("-", "exact"), (":", "published")):
        shift = [float(_mode(depth).stationary_moments(form).mean) - 1 for depth in DEPTHS]
        other.plot(DEPTHS, shift, color="black", linestyle=style, label=f"{form} mean")
    other.set_xticks(DEPTHS)
    other.set_xlabel("depth")
    other.set_ylabel("stationary mean − s (amplitude)")
    for each in (ax, other):
        each.legend(frameon=False, fontsize="x-small")
    return figure


EXPERIMENT = Experiment(
    title="Where label noise leaves a learned mode",
    source="deep-linear Proposition 5.2, (16), (17), (18)",
    kind="equation",
    claims=(VARIANCE, MEAN, UNDER, SGD_MEAN, SGD_VARIANCE, DENSITY, TOP, UNLEARN),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
