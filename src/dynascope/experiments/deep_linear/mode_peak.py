"""deep-linear (3), (9), (10), Figure 1: A mode's diffusion peaks before the mode is learned.

The one-mode side of the figure.
"""

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp
from scipy.signal import argrelmax

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, equal
from dynascope.experiments.deep_linear.gradient_flow import logistic
from dynascope.experiments.deep_linear.mode_networks import one_mode_network, population_gradient
from dynascope.experiments.deep_linear.reading import LEARNED, peak_time
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import deep_linear
from dynascope.models.mode_equation import ModeEquation
from dynascope.models.parameters import grid
from dynascope.statistics.errors import over_trials

TEACHER, DEPTHS, START = (1.0, 0.7, 0.4), (2, 3, 4), 0.02  # the source's singular values
FRACTIONS = (0.1, 0.5, 0.9, 0.99)  # of s, at which times of passage are compared
BESIDE = 0.1  # how far beside the bound (10) label noise is chosen, in units of the bound's root
LEVELS = (0.0, 0.5, 1 - BESIDE, 1 + BESIDE)  # label noise over the bound
_MESH = np.linspace(0.02, 1.0, 2000)  # amplitudes at which a peak is looked for


@dataclass(frozen=True)
class Config:
    """Trials of the mode equation at depth 4, and samples of one gradient's noise at which peaks are looked for."""

    trials: int = 400
    samples: int = 100_000
    batches: int = 20
    duration: float = 20.0
    seed: int = 5


def _bound(depth: int) -> float:
    """Root of the bound (10) at s = 1."""
    return float(depth / np.sqrt(4 * (depth - 1) * (3 * depth - 2)))


def _flow_of_a_network(depth: int, times: np.ndarray, seed: int) -> np.ndarray:
    """Integrate all weights of a one-mode network under its population gradient; the amplitude of its mode."""
    with jax.enable_x64(True):
        layers, u, v = one_mode_network(depth, START, seed)
        begin, unpack = ravel_pytree(layers)
        downhill = jax.jit(lambda flat: -ravel_pytree(population_gradient(unpack(flat), np.outer(u, v)))[0])
        options = {"t_eval": times, "method": "DOP853", "rtol": 1e-11, "atol": 1e-12}
        path = solve_ivp(lambda _, flat: np.asarray(downhill(flat)), (0.0, times[-1]), np.asarray(begin), **options).y
        states = [[np.asarray(layer) for layer in unpack(state)] for state in path.T]
    return np.array([u @ np.linalg.multi_dot(state[::-1]) @ v for state in states])


def _sampled_peak(depth: int, sigma: float, random: np.random.Generator, samples: int) -> float:
    """Where the sampled variance of a one-mode network's gradient peaks below s = 1; NaN where it does not.

    One input and one label error serve all amplitudes, so that the curve is smooth.
    """
    w = _MESH
    x, error = random.standard_normal((2, samples))
    spread = np.cov(np.stack([x**2, error * x]))
    variance = (1 - w) ** 2 * spread[0, 0] + 2 * (1 - w) * sigma * spread[0, 1] + sigma**2 * spread[1, 1]
    inside = argrelmax(variance * w ** (4 - 4 / depth))[0]  # the mode's derivative by the layers, summed and squared
    return float(w[inside[0]]) if len(inside) else np.nan


def run(config: Config) -> xr.Dataset:
    """Integrate networks, look for peaks of sampled diffusion, simulate the mode equation for three modes."""
    flows, exact, peaks = [], [], []
    random = np.random.default_rng(config.seed)
    for depth in DEPTHS:
        times = np.asarray(ModeEquation(depth=depth).time_to_reach(FRACTIONS, START))
        flows.append(_flow_of_a_network(depth, times, config.seed))
        exact.append(ModeEquation(depth=depth).gradient_flow(times, START))
        draw = partial(_sampled_peak, depth, random=random, samples=config.samples)
        peaks.append([[draw(level * _bound(depth)) for _ in range(config.batches)] for level in LEVELS])
    modes = ModeEquation(**grid(singular_value=TEACHER)).simulate(
        config.duration, 0.02, config.trials, seed=config.seed, start=START, save_points=1001
    )
    learned = modes["amplitude"] > LEARNED * modes["singular_value"]
    return xr.Dataset(
        {
            "network_flow": (("depth", "fraction"), flows),
            "gradient_flow": (("depth", "fraction"), exact),
            "peak": (("depth", "level", "batch"), peaks),
            "has_peak": (("depth", "level", "batch"), np.isfinite(peaks).astype(float)),
            "mean_amplitude": modes["amplitude"].mean("trial"),
            "mean_diffusion": modes["diffusion"].mean("trial"),
            "peak_time": peak_time(modes["diffusion"]),
            "learned_time": peak_time(learned).where(learned.any("time")),
        },
        coords={"depth": list(DEPTHS), "fraction": list(FRACTIONS), "level": list(LEVELS)},
    )


def _predicted(level: xr.DataArray) -> np.ndarray:
    """Where (9) puts the peak, NaN where (10) denies one; (depth, level)."""
    return np.array([ModeEquation(depth=d, label_noise=level.values * _bound(d)).peak().amplitude for d in DEPTHS])


def _peak_on_flow(s: float) -> tuple[float, float]:
    """When gradient flow passes the peak of (9), and the diffusion there."""
    mode = ModeEquation(singular_value=s)
    peak = mode.peak()
    return float(mode.time_to_reach(peak.amplitude / mode.singular_value, START)), float(peak.diffusion)


def _logistic(record: xr.Dataset) -> Judgement:
    passed = np.asarray(ModeEquation(depth=2).time_to_reach(FRACTIONS, START))
    expected = logistic(passed, np.ones(1), np.full(1, START)).ravel()
    return equal(record["network_flow"][0], expected, 1e-8, note="solver's tolerance")


def _flow(record: xr.Dataset) -> Judgement:
    note = f"depths {DEPTHS[1:]}, at the times of passage of {FRACTIONS}"
    return equal(record["network_flow"][1:], record["gradient_flow"][1:], 1e-8, note=note)


def _peak(record: xr.Dataset) -> Judgement:
    found = record["peak"].isel(level=[0, 1])
    place, mesh = over_trials(found.rename(batch="trial")), _MESH[1] - _MESH[0]
    return equal(place, _predicted(found["level"]), mesh, rival=np.ones(place.mean.shape), note="rival: a peak at s")


def _has_peak(record: xr.Dataset) -> Judgement:
    there = record["has_peak"].isel(level=[2, 3]).mean("batch")
    expected = np.isfinite(_predicted(there["level"]))
    return equal(there, expected, 0.05, note=f"σ_q {BESIDE:.0%} below and above; share that has a peak")


def _before(record: xr.Dataset) -> Judgement:
    lead = (record["learned_time"] - record["peak_time"]).min("trial")
    return above(lead, 0.0, note="smallest lead over all trials")


def _when(record: xr.Dataset) -> Judgement:
    ratio = record["peak_time"].median("trial") / np.array([_peak_on_flow(s)[0] for s in TEACHER])
    return equal(ratio, 1.0, 0.05, note="median over trials, over the time of gradient flow")


def _draw(record: xr.Dataset, ax: Axes, *, name: str) -> None:
    """Mean amplitude or diffusion over time, with the time of the predicted peak."""
    for index, (colour, s) in enumerate(zip(plots.PALETTE, TEACHER, strict=False)):
        when, height = _peak_on_flow(s)
        ax.plot(record["time"], record[name].isel(singular_value=index), color=colour, label=f"s = {s:g}")
        ax.axvline(when, color=colour, linewidth=1, linestyle=":")
        if name == "mean_diffusion":
            ax.plot(when, height, marker="*", markersize=11, color=colour)
    ax.set(xlabel="time (steps × learning rate)", ylabel="mode amplitude w, mean over trials")
    if name == "mean_diffusion":
        ax.set(ylabel="diffusion D (amplitude²/time)", yscale="log", ylim=(1e-7, 1e-2))
        ax.set_title("★ peak by (9), on gradient flow")


EXPERIMENT = Experiment(
    deep_linear(equation="3, 9, 10", figure="1"),
    Config(),
    run,
    claims=(
        Claim(
            "mode-eq3",
            "at depth 2 gradient flow is w(t) = s/(1 + (s/w(0) − 1) exp(−2 s t))",
            _logistic,
            deep_linear(equation="3"),
            kind="own",  # counted in gradient_flow
        ),
        Claim(
            "mode-flow",
            "depths 3 and 4: gradient flow by quadrature meets a network's",
            _flow,
            deep_linear(equation="5"),
            kind="derived",
        ),
        Claim(
            "mode-eq9",
            "the diffusion peaks at w* = [(a+1) s − √(s² − a(a+2) σ_q²/2)]/(a+2)",
            _peak,
            deep_linear(equation="9"),
        ),
        Claim(
            "mode-eq10",
            "there is a peak if σ_q² is below s² L²/(4(L−1)(3L−2)), else none",
            _has_peak,
            deep_linear(equation="10"),
        ),
        Claim(
            "mode-peak-precedes",
            "a mode's diffusion peaks before the mode passes 90 %, for every mode",
            _before,
            deep_linear(figure="1"),
            kind="own",  # on the one-mode equation; networks judge the figure
        ),
        Claim(
            "mode-order",
            "modes are learned in the order of their singular values",
            lambda record: above(
                record["learned_time"].median("trial").diff("singular_value"), 0.0, note="medians over trials"
            ),
            deep_linear(figure="1"),
            kind="own",  # on the one-mode equation; networks judge the figure
        ),
        Claim(
            "mode-peak-time",
            "the peak comes when gradient flow passes w*, within 5 %",
            _when,
            deep_linear(equation="9", figure="1"),
            kind="own",  # on the one-mode equation; networks judge the figure
        ),
    ),
    picture=Panels(partial(_draw, name="mean_amplitude"), partial(_draw, name="mean_diffusion")),
    smoke={"trials": 100, "samples": 40_000},
    paper={"trials": 4000, "samples": 1_000_000},
    model="ModeEquation",
    kind="equation",
    adapted="the one-mode equation in place of a network",
)
