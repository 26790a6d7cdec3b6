"""Equation (4) and Proposition 5.1: how the law of a mode evolves while it is learned, under SGD and in theory."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.mode_networks import train_chains
from dynascope.experiments.registry import Experiment
from dynascope.models.mode_equation.model import ModeEquation
from dynascope.records import attribute, with_provenance

SPREAD: dict[str, Any] = {
    "depth": 3,
    "temperature": 0.05,
    "label_noise": 0.3,
}  # noise that spreads the time of learning
SPREAD_TIMES, SPREAD_START = (1.0, 2.0, 3.0, 6.0), 0.1
EDGES = np.array([0.0, 0.12, 0.18, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0, 1.1, 1.25, 3.0])
DEPTHS, RATE, ITO = (2, 3, 4), 0.005, ("derived", "published")  # chains trained by SGD with batch size 1
START, PASSED = 0.01, (0.2, 0.5, 0.8)  # fractions of s by which to choose the times at which chains are compared


@dataclass(frozen=True)
class Config:
    """Trials of the mode equation and of SGD; points of the grid for the density (and half as many, for its error)."""

    trials: int = 20_000
    chains: int = 20_000
    points: int = 601
    dt: float = 0.01
    seed: int = 17


SCALES = {
    "smoke": Config(trials=4000, chains=2000, points=301),
    "laptop": Config(),
    "paper": Config(trials=100_000, chains=100_000),
}
PATH = Claim("mode-prop5.1", "deep-linear, Proposition 5.1", "the density follows ∂p = −∂(μ p) + ½ ∂²(D p)")
CONSERVED = Claim("mode-prop5.1-conserved", "deep-linear, Proposition 5.1", "the numerical density keeps probability 1")
SGD = Claim("mode-eq4-sgd", "deep-linear (4) with (14)", "SGD on a chain learns at the pace of the mode equation")
SPREADS = Claim("mode-eq4-sgd-spread", "deep-linear (4)", "SGD on a chain spreads as the mode equation does")

CLOCK = Claim(
    "mode-clock",
    "deep-linear (4), derived",
    "without label noise SGD only jitters a mode's time: gradient flow's clock, read off w, has variance 2 β t",
)


def _shares(points: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Probability of each bin, (time, bin), from a density on points."""
    steps = (path[:, 1:] + path[:, :-1]) / 2 * np.diff(points)
    cumulated = np.concatenate([np.zeros((len(path), 1)), np.cumsum(steps, axis=1)], axis=1)
    return np.stack([np.diff(np.interp(EDGES, points, row)) for row in cumulated])


def _spread_path(count: int) -> tuple[np.ndarray, np.ndarray]:
    mode = ModeEquation(**SPREAD)
    points = mode.amplitude_grid(0.02, EDGES[-1], count)
    return points, mode.density_path(SPREAD_TIMES, points, SPREAD_START)


def _pace(depth: int, ito: str, config: Config) -> np.ndarray:
    """Amplitudes of the mode equation at the times of comparison, (trial, time)."""
    times = _times(depth)
    mode = ModeEquation(depth=depth, temperature=RATE, ito=ito)
    run = mode.simulate(times[-1], RATE, config.chains, seed=config.seed, start=START, save_points=times)
    return np.asarray(run["amplitude"].values)


def _times(depth: int) -> np.ndarray:
    return np.asarray(np.round(ModeEquation(depth=depth).time_to_reach(PASSED, START) / RATE) * RATE)


def run(config: Config) -> xr.Dataset:
    """Simulate the mode equation and train chains; the densities that they are held against are part of the record."""
    begun = time.perf_counter()
    simulated = ModeEquation(**SPREAD).simulate(
        SPREAD_TIMES[-1], config.dt, config.trials, seed=config.seed, start=SPREAD_START, save_points=list(SPREAD_TIMES)
    )["amplitude"].values  # fmt: skip
    counts = np.stack([np.histogram(column, EDGES)[0] for column in simulated.T]) / config.trials
    (coarse_points, coarse), (points, path) = _spread_path(config.points // 2 + 1), _spread_path(config.points)
    trained, simulated_pace = [], []
    for depth in DEPTHS:
        trained.append(
            train_chains(
                depth, singular_value=1.0, learning_rate=RATE, label_noise=0.0, start=START,
                saves=np.rint(_times(depth) / RATE), trials=config.chains, seed=config.seed,
            )
        )  # fmt: skip
        simulated_pace.append([_pace(depth, ito, config) for ito in ITO])
    record = xr.Dataset(
        {
            "share": (("time", "bin"), counts),
            "predicted_share": (("time", "bin"), _shares(points, path)),
            "grid_error": (("time", "bin"), _shares(coarse_points, coarse) - _shares(points, path)),
            "density": (("time", "amplitude"), path),
            "trained": (("depth", "chain", "passage"), np.stack(trained)),
            "amplitude_of_trial": (("depth", "ito", "trial", "passage"), np.array(simulated_pace)),
        },
        coords={
            "time": ("time", list(SPREAD_TIMES), {"units": "steps × learning rate"}),
            "amplitude": points,
            "bin_left": ("bin", EDGES[:-1]),
            "bin_right": ("bin", EDGES[1:]),
            "depth": list(DEPTHS),
            "passage": list(PASSED),
            "ito": list(ITO),
        },
    )
    parameters = {"spread": SPREAD, "temperature": RATE, "start": START}
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
    """Compare shares of trials with the density, and SGD with the density under both Itô drifts."""
    options = attribute(record, "options")
    share, expected = record["share"].values, record["predicted_share"].values
    error = np.sqrt(np.maximum(expected, 1 / options["trials"]) / options["trials"])
    coarse = np.abs(record["grid_error"].values)
    mean, mean_error, spread, spread_error = _over("chain", record["trained"])
    derived, printed = (record["amplitude_of_trial"].sel(ito=ito) for ito in ITO)
    expected_mean, theory_error, expected_spread, theory_spread_error = _over("trial", derived)
    mean_error, spread_error = np.hypot(mean_error, theory_error), np.hypot(spread_error, theory_spread_error)
    modes = [ModeEquation(depth=depth) for depth in DEPTHS]
    speed = np.stack([mode.gradient_drift(values) for mode, values in zip(modes, expected_mean, strict=True)])
    # Euler's method lags behind its flow by about (η/2) log(speed now / speed at the start)
    begin = np.stack([mode.gradient_drift(START) for mode in modes])[:, None]
    lag = RATE / 2 * np.log(speed / begin)
    late = speed * (np.abs(lag) + RATE)
    clock, clock_error, clock_times = _clock(record["trained"])
    mass = np.trapezoid(record["density"].values, record["amplitude"].values)
    return (
        PATH.equals(
            share, expected, three_errors(error) + 2 * coarse, note=f"{SPREAD}; twice the change on half the points"
        ),
        CONSERVED.equals(
            [*mass, 1 + min(float(record["density"].min()), 0.0)], 1.0, 1e-10, note="last: 1 + least density, if < 0"
        ),
        SGD.corrects(
            mean, expected_mean, three_errors(mean_error) + late, published=printed.mean("trial").values.ravel(),
            standard_error=mean_error, note="mean amplitude, derived Itô drift; bound: SGD's steps lag behind the flow",
        ),
        SPREADS.equals(
            spread, expected_spread, three_errors(spread_error) + 0.05 * expected_spread,
            note="standard deviation of the amplitude; 5 %: SGD's steps, of order η κ",
        ),
        CLOCK.equals(
            clock / clock_times, 2 * RATE, three_errors(clock_error / clock_times) + 0.05 * 2 * RATE,
            note=f"variance over time t, when gradient flow passes {PASSED[:2]} of s; 5 %: SGD's steps, of order η κ",
        ),
    )  # fmt: skip


def _clock(trained: xr.DataArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Variance over chains of the time at which gradient flow would be where a chain is, its error, and the time."""
    early = trained.isel(passage=slice(0, 2))  # later, chains are too near to s for the clock to be read
    modes = [ModeEquation(depth=depth) for depth in DEPTHS]
    readings = np.stack([mode.time_to_reach(at, START) for mode, at in zip(modes, early.values, strict=True)])
    _, _, spread, error = _over("chain", xr.DataArray(readings, dims=("depth", "chain", "passage")))
    return spread**2, 2 * spread * error, np.stack([_times(depth)[:2] for depth in DEPTHS])


def _over(dim: str, values: xr.DataArray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and standard deviation over independent runs, each with its standard error."""
    mean, spread, runs = values.mean(dim), values.std(dim, ddof=1), values.sizes[dim]
    fourth = ((values - mean) ** 4).mean(dim)
    spread_error = ((fourth - spread**4) / runs) ** 0.5 / (2 * spread)
    return mean.values, (spread / runs**0.5).values, spread.values, spread_error.values


def plot(record: xr.Dataset) -> Any:
    """Draw densities over simulated shares at each time, and SGD's mean beside both Itô drifts."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    ax, other = axes[0]
    width = record["bin_right"] - record["bin_left"]
    for index, colour in enumerate(PALETTE[: record.sizes["time"]]):
        chosen = record.isel(time=index)
        edges = np.append(record["bin_left"].values, record["bin_right"].values[-1])
        ax.stairs((chosen["share"] / width).values, edges, color=colour, linewidth=1)
        ax.plot(record["amplitude"], chosen["density"], color=colour, label=f"t = {float(chosen['time']):g}")
    ax.set_xlim(0, 1.6)
    ax.set_ylim(0, 8)
    ax.set_xlabel("mode amplitude w")
    ax.set_ylabel("probability density (1/amplitude)")
    ax.set_title("density (lines) and simulation (steps)")
    for index, (colour, depth) in enumerate(zip(PALETTE, DEPTHS, strict=False)):
        chosen = record.isel(depth=index)
        other.plot(_times(depth), chosen["trained"].mean("chain"), "o", color=colour, label=f"SGD, depth {depth}")
        for style, ito in zip(("-", ":"), ITO, strict=True):
            mean = chosen["amplitude_of_trial"].sel(ito=ito).mean("trial")
            other.plot(_times(depth), mean, style, color=colour, label=None if index else f"{ito} drift")
    other.set_xlabel("time (steps × learning rate)")
    other.set_ylabel("mean mode amplitude")
    ax.legend(frameon=False, fontsize="x-small")
    other.legend(frameon=False, fontsize="x-small", loc="lower right")
    return figure


EXPERIMENT = Experiment(
    title="The law of a mode while it is learned",
    source="deep-linear (4), Proposition 5.1",
    kind="equation",
    claims=(PATH, CONSERVED, SGD, SPREADS, CLOCK),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
