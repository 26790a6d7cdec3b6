"""deep-linear (4), Proposition 5.1: The law of a mode while it is learned.

Under SGD and in theory.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, corrected, equal
from dynascope.experiments.deep_linear.mode_networks import train_chains
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import deep_linear
from dynascope.models.mode_equation import ModeEquation
from dynascope.statistics.errors import Estimate, over_trials

SPREAD: dict[str, Any] = {"depth": 3, "temperature": 0.05, "label_noise": 0.3}  # times of learning that spread
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


def _times(depth: int) -> np.ndarray:
    """When chains are compared, in whole steps of SGD."""
    return np.asarray(np.round(ModeEquation(depth=depth).time_to_reach(PASSED, START) / RATE) * RATE)


def _spread_path(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, the density on them at each time, and the probability of each bin, (time, bin)."""
    mode = ModeEquation(**SPREAD)
    points = mode.amplitude_grid(0.02, EDGES[-1], count)
    path = mode.density_path(SPREAD_TIMES, points, SPREAD_START)
    steps = (path[:, 1:] + path[:, :-1]) / 2 * np.diff(points)
    cumulated = np.concatenate([np.zeros((len(path), 1)), np.cumsum(steps, axis=1)], axis=1)
    return points, path, np.stack([np.diff(np.interp(EDGES, points, row)) for row in cumulated])


def run(config: Config) -> xr.Dataset:
    """Simulate the mode equation and train chains; the densities that they are held against are part of the record."""
    simulated = ModeEquation(**SPREAD).simulate(
        SPREAD_TIMES[-1], config.dt, config.trials, seed=config.seed, start=SPREAD_START, save_points=list(SPREAD_TIMES)
    )
    counts = [np.histogram(column, EDGES)[0] for column in simulated["amplitude"].values.T]
    points, path, shares = _spread_path(config.points)
    trained, paces = [], []
    for depth in DEPTHS:
        times = _times(depth)
        saves = np.rint(times / RATE)
        trained.append(train_chains(depth, RATE, START, saves, trials=config.chains, seed=config.seed))
        modes = [ModeEquation(depth=depth, temperature=RATE, ito=ito) for ito in ITO]
        runs = [
            mode.simulate(times[-1], RATE, config.chains, seed=config.seed, start=START, save_points=times)
            for mode in modes
        ]
        paces.append([each["amplitude"].values for each in runs])
    return xr.Dataset(
        {
            "share": (("time", "bin"), np.stack(counts) / config.trials),
            "predicted_share": (("time", "bin"), shares),
            "grid_error": (("time", "bin"), _spread_path(config.points // 2 + 1)[2] - shares),
            "density": (("time", "amplitude"), path),
            "trained": (("depth", "chain", "passage"), np.stack(trained)),
            "amplitude_of_trial": (("depth", "ito", "trial", "passage"), np.array(paces)),
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


def _path(record: xr.Dataset) -> Judgement:
    trials, expected = settings(record).trials, record["predicted_share"].values
    share = Estimate(record["share"].values, np.sqrt(np.maximum(expected, 1 / trials) / trials))
    bound = 2 * np.abs(record["grid_error"].values)
    return equal(share, expected, bound, note=f"{SPREAD}; twice the change on half the points")


def _conserved(record: xr.Dataset) -> Judgement:
    mass = np.trapezoid(record["density"].values, record["amplitude"].values)
    least = min(float(record["density"].min()), 0.0)
    return equal([*mass, 1 + least], 1.0, 1e-10, note="last: 1 + least density, if < 0")


def _pace(record: xr.Dataset) -> Judgement:
    derived, printed = (over_trials(record["amplitude_of_trial"].sel(ito=ito)) for ito in ITO)
    mean, error = over_trials(record["trained"].rename(chain="trial"))
    modes = zip(DEPTHS, derived.mean, strict=True)
    speed = np.stack([ModeEquation(depth=depth).gradient_drift([START, *at]) for depth, at in modes])
    # Euler's method lags behind its flow by about (η/2) log(speed now / speed at the start)
    lag = RATE / 2 * np.log(speed[:, 1:] / speed[:, :1])
    late = speed[:, 1:] * (np.abs(lag) + RATE)
    found = Estimate(mean, np.hypot(error, derived.error))
    note = "mean amplitude, derived Itô drift; bound: SGD's steps lag behind the flow"
    return corrected(found, derived.mean, late, published=printed.mean.ravel(), error=found.error, note=note)


def _deviation(values: xr.DataArray) -> Estimate:
    """Standard deviation over trials, and its standard error."""
    spread = values.std("trial", ddof=1)
    fourth = ((values - values.mean("trial")) ** 4).mean("trial")
    error = ((fourth - spread**4) / values.sizes["trial"]) ** 0.5 / (2 * spread)
    return Estimate(spread.values, error.values)


def _spread(record: xr.Dataset) -> Judgement:
    spread, error = _deviation(record["trained"].rename(chain="trial"))
    expected = _deviation(record["amplitude_of_trial"].sel(ito="derived"))
    found = Estimate(spread, np.hypot(error, expected.error))
    note = "standard deviation of the amplitude; 5 %: SGD's steps, of order η κ"
    return equal(found, expected.mean, 0.05 * expected.mean, note=note)


def _clock(record: xr.Dataset) -> Judgement:
    """Variance over chains of the time at which gradient flow would be where a chain is."""
    early = record["trained"].isel(passage=slice(0, 2))  # later, chains are too near to s for the clock to be read
    readings = [ModeEquation(depth=d).time_to_reach(at, START) for d, at in zip(DEPTHS, early.values, strict=True)]
    spread, error = _deviation(xr.DataArray(np.stack(readings), dims=("depth", "trial", "passage")))
    times = np.stack([_times(depth)[:2] for depth in DEPTHS])
    rate = Estimate(spread**2 / times, 2 * spread * error / times)
    note = f"variance over time t, when gradient flow passes {PASSED[:2]} of s; 5 %: SGD's steps, of order η κ"
    return equal(rate, 2 * RATE, 0.05 * 2 * RATE, note=note)


def _draw_density(record: xr.Dataset, ax: Axes) -> None:
    for index, colour in enumerate(plots.PALETTE[: record.sizes["time"]]):
        chosen = record.isel(time=index)
        ax.stairs(chosen["share"].values / np.diff(EDGES), EDGES, color=colour, linewidth=1)
        ax.plot(record["amplitude"], chosen["density"], color=colour, label=f"t = {float(chosen['time']):g}")
    ax.set(xlabel="mode amplitude w", ylabel="probability density (1/amplitude)", xlim=(0, 1.6), ylim=(0, 8))
    ax.set_title("density (lines) and simulation (steps)")


def _draw_pace(record: xr.Dataset, ax: Axes) -> None:
    for index, (colour, depth) in enumerate(zip(plots.PALETTE, DEPTHS, strict=False)):
        times, chosen = _times(depth), record.isel(depth=index)
        ax.plot(times, chosen["trained"].mean("chain"), "o", color=colour, label=f"SGD, depth {depth}")
        for style, ito in zip(("-", ":"), ITO, strict=True):
            mean = chosen["amplitude_of_trial"].sel(ito=ito).mean("trial")
            ax.plot(times, mean, style, color=colour, label=None if index else f"{ito} drift")
    ax.set(xlabel="time (steps × learning rate)", ylabel="mean mode amplitude")
    ax.legend(frameon=False, fontsize="x-small", loc="lower right")


EXPERIMENT = Experiment(
    deep_linear(equation="4", theorem="Proposition 5.1"),
    Config(),
    run,
    claims=(
        Claim(
            "mode-prop5.1",
            "the density follows ∂p = −∂(μ p) + ½ ∂²(D p)",
            _path,
            deep_linear(equation="31", theorem="Proposition 5.1"),
        ),
        Claim(
            "mode-prop5.1-conserved",
            "the numerical density keeps probability 1",
            _conserved,
            deep_linear(theorem="Proposition 5.1"),
            kind="own",  # of our numerics
        ),
        Claim(
            "mode-eq4-sgd",
            "SGD on a chain learns at the pace of the mode equation",
            _pace,
            deep_linear(equation="4, 14"),
        ),
        Claim(
            "mode-eq4-sgd-spread",
            "SGD on a chain spreads as the mode equation does",
            _spread,
            deep_linear(equation="4"),
        ),
        Claim(
            "mode-clock",
            "without label noise SGD only jitters a mode's time: gradient flow's clock, read off w, has variance 2 β t",
            _clock,
            deep_linear(equation="4"),
            kind="derived",
        ),
    ),
    picture=Panels(_draw_density, _draw_pace),
    smoke={"trials": 4000, "chains": 2000, "points": 301},
    paper={"trials": 100_000, "chains": 100_000},
    model="ModeEquation",
)
