"""deep-linear (16)–(18), Proposition 5.2: Where label noise leaves a learned mode."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, corrected, equal
from dynascope.experiments.deep_linear.drawing import error_bars
from dynascope.experiments.deep_linear.mode_networks import train_chains
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded, settings
from dynascope.experiments.sources import deep_linear
from dynascope.models.mode_equation import ModeEquation
from dynascope.models.mode_equation.stationary import window_moments
from dynascope.models.parameters import grid
from dynascope.statistics.errors import Estimate, over_trials

DEPTHS, RATE, LABEL = (2, 3, 4), 0.005, float(np.sqrt(0.1))  # learning rate at batch size 1, label noise as in figure 5
BROAD: dict[str, Any] = {"depth": 4, "singular_value": 0.7, "temperature": 0.03, "label_noise": 0.6}  # visibly skewed
SETTLE, EVERY = 5.0, 0.5  # time before the window, and between samples of it
BINS = 16
COLLAPSE = (0.5, 1.5)  # temperatures at depth 2, in units of the one from which on noise unlearns a mode
NEAR_ZERO = 1e-8  # upper end of the decade that is added to the exponent of (16)
FAINT, GROWING = 1e-30, 2.0  # amplitude from which growth is measured, and for how long
_STEP = np.array(DEPTHS) * RATE  # κ β: relative size of the next order, and of one step of SGD
_BELOW = "mean s − u/2, mode s − 3u/2, zero of the drift s + u/2, with u = β (L−1) σ_q² s^((L−2)/L)"


@dataclass(frozen=True)
class Config:
    """Trials of the mode equation and of SGD on chains of scalar weights, started at s, over a window of time."""

    trials: int = 2000
    chains: int = 1000
    window: float = 60.0
    dt: float = 0.01
    seed: int = 11


def _mode(depth: int) -> ModeEquation:
    return ModeEquation(depth=depth, temperature=RATE, label_noise=LABEL)


def _moments(name: str, form: str = "exact") -> np.ndarray:
    """A moment of the stationary law, over depths."""
    return np.array([float(getattr(_mode(depth).stationary_moments(form), name)) for depth in DEPTHS])


def _edges() -> np.ndarray:
    """Bins of equal width over three standard deviations to either side of the mean."""
    law = ModeEquation(**BROAD).stationary_moments()
    return np.linspace(law.mean - 3 * np.sqrt(law.variance), law.mean + 3 * np.sqrt(law.variance), BINS + 1)


def run(config: Config) -> xr.Dataset:
    """Let modes and chains fluctuate about s; then a broad law; then growth from nearly 0."""
    times = np.arange(0.0, SETTLE + config.window + EVERY / 2, EVERY)
    found: dict[str, list[float]] = {}
    for depth in DEPTHS:
        modes = _mode(depth).simulate(
            times[-1], config.dt, config.trials, seed=config.seed, start=1.0, save_points=times
        )
        saves = np.rint(times / RATE)
        chains = train_chains(depth, RATE, 1.0, saves, trials=config.chains, seed=config.seed, label_noise=LABEL)
        trained = xr.DataArray(chains, dims=("trial", "time"), coords={"time": times})
        for prefix, values in (("", modes["amplitude"]), ("sgd_", trained)):
            for name, (value, error) in window_moments(values, SETTLE).items():
                found.setdefault(f"{prefix}{name}", []).append(float(value))
                found.setdefault(f"{prefix}{name}_error", []).append(float(error))
    broad = ModeEquation(**BROAD).simulate(
        times[-1], config.dt, config.trials, seed=config.seed, start=BROAD["singular_value"], save_points=times
    )["amplitude"]
    broad = broad.sel(time=slice(SETTLE, None))
    edges = _edges()
    counts = np.stack([np.histogram(trial, edges)[0] for trial in broad.values])
    limit = float(ModeEquation(depth=2, label_noise=LABEL).collapse_temperature())
    faint = ModeEquation(depth=2, label_noise=LABEL, **grid(temperature=[factor * limit for factor in COLLAPSE]))
    late = faint.simulate(GROWING, config.dt, config.trials, seed=config.seed, start=FAINT)["amplitude"].isel(time=-1)
    record = xr.Dataset({name: ("depth", values) for name, values in found.items()}, coords={"depth": list(DEPTHS)})
    record["share"] = (("trial", "bin"), counts / broad.sizes["time"])
    record["broad_mean"] = ("trial", broad.mean("time").values)
    record["growth"] = (("temperature", "trial"), np.log(late.values / FAINT) / GROWING)
    record["decade"] = ("depth", [_decade(depth) for depth in DEPTHS])
    return record.assign_coords(bin=(edges[1:] + edges[:-1]) / 2, temperature=late["temperature"].values)


def _variance(record: xr.Dataset) -> Judgement:
    ratio = recorded(record, "variance").scaled(1 / _moments("variance", "published"))
    return equal(ratio, 1.0, 1.5 * _STEP, note="over (18); the next order in the temperature is κ β")


def _mean(record: xr.Dataset, *, name: str) -> Judgement:
    found, mean = recorded(record, name), _moments("mean")
    weak = (np.array(DEPTHS) * settings(record).dt) ** 2  # of a step of weak order 2
    bound = (_STEP if name == "sgd_mean" else weak) * np.abs(mean - 1)
    printed = _moments("mean", "published")
    return corrected(found, mean, bound, published=printed, error=found.error, note=_BELOW)


def _under(record: xr.Dataset) -> Judgement:
    s = BROAD["singular_value"]
    half = float(ModeEquation(**BROAD).stationary_moments("small-rate").mean) - s
    return below(over_trials(record["broad_mean"] - s), 0.0, note=f"{BROAD}; −u/2 = {half:.4f}")


def _sgd_variance(record: xr.Dataset) -> Judgement:
    variance = _moments("variance")
    note = "steps of length η add about κ η/2"
    return equal(recorded(record, "sgd_variance"), variance, _STEP * variance, note=note)


def _density(record: xr.Dataset) -> Judgement:
    """∫ p dw over each bin, by Simpson's rule on 20 intervals."""
    edges = _edges()
    fine = edges[:-1, None] + np.diff(edges)[:, None] * np.linspace(0, 1, 21)
    weights = np.array([1, *[4, 2] * 9, 4, 1]) / 60
    expected = (ModeEquation(**BROAD).stationary_density(fine) @ weights) * np.diff(edges)
    share = over_trials(record["share"])
    return equal(share, expected, (BROAD["depth"] * settings(record).dt) ** 2 * share.mean, note=str(BROAD))


def _decade(depth: int) -> float:
    """What the amplitudes between NEAR_ZERO/10 and NEAR_ZERO add to ∫ 2μ/D dz with (12)–(15)."""
    mode = ModeEquation(depth=depth, temperature=RATE, label_noise=LABEL, ito="published")
    z = NEAR_ZERO * np.logspace(-1, 0, 2001)
    return float(np.trapezoid(2 * z * (mode.gradient_drift(z) + mode.ito_drift(z)) / mode.diffusion(z), np.log(z)))


def _leading(depth: int) -> float:
    """The same to leading order in w."""
    power = 2 + LABEL**2  # 2 (s − w)² + σ_q² at w = 0
    below, above = NEAR_ZERO / 10, NEAR_ZERO
    rise = np.log(10) if depth == 2 else (below ** (2 / depth - 1) - above ** (2 / depth - 1)) / (1 - 2 / depth)
    gradient = 2 / (RATE * depth * power) * rise
    noise = 2 * (depth - 1) / depth * (1 + LABEL / 2) / power * (1 / below - 1 / above)
    return float(gradient + noise)


def _diverges(record: xr.Dataset) -> Judgement:
    added, leading = record["decade"].values, np.array([_leading(depth) for depth in DEPTHS])
    note = (
        f"added to the exponent by w from {NEAR_ZERO / 10:g} to {NEAR_ZERO:g}, depths {DEPTHS}; it grows without bound "
        "towards 0, where it should vanish. A lower limit above 0, as in mode-eq16, is what normalises"
    )
    return corrected(added, leading, 1e-3 * leading, published=np.zeros(len(DEPTHS)), note=note)


def _top(share: np.ndarray, centres: np.ndarray) -> float:
    """Where a polynomial through the logarithm of the middle bins is highest."""
    inner = slice(BINS // 4, -BINS // 4)
    x = (centres[inner] - centres.mean()) / (centres[1] - centres[0])
    fit = np.polynomial.Polynomial.fit(x, np.log(share[inner]), 4, w=np.sqrt(share[inner]))
    fine = np.linspace(x[0], x[-1], 4001)
    return float(centres.mean() + fine[np.argmax(fit(fine))] * (centres[1] - centres[0]))


def _measured_top(record: xr.Dataset) -> Estimate:
    """The mode of all trials together, and its standard error by leaving out one tenth of the trials at a time."""
    share, centres = record["share"].values, record["bin"].values
    parts = np.array_split(np.arange(len(share)), 10)
    left_out = [_top(np.delete(share, part, axis=0).mean(axis=0), centres) for part in parts]
    error = np.std(left_out) * np.sqrt(len(parts) - 1)
    return Estimate(np.asarray(_top(share.mean(axis=0), centres)), np.asarray(error), len(parts))


def _highest(record: xr.Dataset) -> Judgement:
    law, printed = (ModeEquation(**BROAD).stationary_moments(form) for form in ("exact", "published"))
    top, bound = _measured_top(record), 0.05 * float(law.mean - law.mode)
    note = f"{_BELOW}; 5 %: the polynomial's bias"
    return corrected(top, float(law.mode), bound, published=float(printed.mode), error=top.error, note=note)


def _unlearn(record: xr.Dataset) -> Judgement:
    rate = 2 - record["temperature"].values * (2 + LABEL**2)
    note = f"β = {COLLAPSE} times 2s/(2s² + σ_q²), where the rate changes sign; rival: without noise"
    return equal(over_trials(record["growth"]), rate, rival=np.full(2, 2.0), note=note)


def _draw_law(record: xr.Dataset, ax: Axes) -> None:
    """The broad law beside its histogram."""
    centres, mode = record["bin"].values, ModeEquation(**BROAD)
    width = centres[1] - centres[0]
    fine = np.linspace(centres[0] - width, centres[-1] + width, 300)
    ax.bar(centres, record["share"].mean("trial") / width, width, color=plots.PALETTE[5], label="simulated")
    ax.plot(fine, mode.stationary_density(fine), color="black", label="(16)")
    law, printed = mode.stationary_moments(), mode.stationary_moments("published")
    marks = {"mode": law.mode, "mean": law.mean, "zero of the drift": law.drift_zero, "(17) as printed": printed.mean}
    for colour, (label, place) in zip(plots.PALETTE, marks.items(), strict=False):
        ax.axvline(float(place), color=colour, linestyle="--", linewidth=1, label=label)
    ax.set(xlabel="mode amplitude w", ylabel="probability density (1/amplitude)")
    ax.set_title(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in BROAD.items()), fontsize="x-small")
    ax.legend(frameon=False, fontsize="x-small")


def _draw_shift(record: xr.Dataset, ax: Axes) -> None:
    """Shifts of the mean over depth."""
    shown = {"mean": "mode equation", "sgd_mean": "SGD on a chain"}
    for colour, (name, label) in zip(plots.PALETTE, shown.items(), strict=False):
        mean, error = recorded(record, name)
        error_bars(ax, DEPTHS, Estimate(mean - 1, error), colour, label)
    for style, form in (("-", "exact"), (":", "published")):
        ax.plot(DEPTHS, _moments("mean", form) - 1, color="black", linestyle=style, label=f"{form} mean")
    ax.set(xlabel="depth", ylabel="stationary mean − s (amplitude)", xticks=DEPTHS)
    ax.legend(frameon=False, fontsize="x-small")


EXPERIMENT = Experiment(
    deep_linear(equation="16–18", theorem="Proposition 5.2"),
    Config(),
    run,
    claims=(
        Claim(
            "mode-eq18",
            "label noise leaves the variance β L σ_q² s^(2(L−1)/L)/2",
            _variance,
            deep_linear(equation="18"),
            kind="own",  # counted in label_noise, where networks judge it
        ),
        Claim(
            "mode-eq17-mean",
            "the mean lies above s, at s + β (L−1) s^(−2/L) σ_q/2",
            partial(_mean, name="mean"),
            deep_linear(equation="17"),
            kind="own",  # counted in label_noise, where networks judge it
        ),
        Claim(
            "mode-mean-below",
            "the mean lies below s, not above it",
            _under,
            deep_linear(theorem="Proposition 5.2"),
            kind="derived",
        ),
        Claim(
            "mode-eq17-mean-sgd",
            "SGD on a chain: the mean lies above s, as in (17)",
            partial(_mean, name="sgd_mean"),
            deep_linear(equation="17"),
            kind="own",
        ),
        Claim(
            "mode-eq18-sgd",
            "SGD on a chain: the variance is that of the mode equation",
            _sgd_variance,
            deep_linear(equation="18"),
            kind="own",
        ),
        Claim(
            "mode-eq16",
            "the stationary density is exp(∫ 2μ/D dw)/D, normalised, with an integral from any amplitude above 0",
            _density,
            deep_linear(equation="16"),
        ),
        Claim(
            "mode-eq16-limit",
            "the exponent of (16) is an integral from 0: what amplitudes near 0 add to it vanishes",
            _diverges,
            deep_linear(equation="12–16"),
        ),
        Claim(
            "mode-eq17-mode",
            "the density peaks near the zero of the drift, (17)",
            _highest,
            deep_linear(theorem="Proposition 5.2"),
        ),
        Claim(
            "mode-collapse",
            "at depth 2 log w grows from 0 at the rate 2s − β(2s² + σ_q²)",
            _unlearn,
            deep_linear(equation="4"),
            kind="derived",
        ),
    ),
    picture=Panels(_draw_law, _draw_shift),
    smoke={"trials": 600, "chains": 600, "window": 30.0},
    paper={"trials": 20_000, "chains": 5000},
    model="ModeEquation",
)
