"""Equations (3), (9), (10) and the one-mode side of figure 1: a mode's diffusion peaks before the mode is learned."""

import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.signal import argrelmax

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.mode_networks import one_mode_network, population_gradient
from dynascope.experiments.registry import Experiment
from dynascope.models.mode_equation.model import ModeEquation
from dynascope.models.parameters import grid
from dynascope.records import with_provenance

TEACHER, DEPTHS, START = (1.0, 0.7, 0.4), (2, 3, 4), 0.02  # the source's singular values
FRACTIONS = (0.1, 0.5, 0.9, 0.99)  # of s, at which times of passage are compared
BESIDE = 0.1  # how far beside the bound (10) label noise is chosen, in units of the bound's root
LEARNED = 0.9  # of s


@dataclass(frozen=True)
class Config:
    """Trials of the mode equation at depth 4, and samples of one gradient's noise at which peaks are looked for."""

    trials: int = 400
    samples: int = 100_000
    batches: int = 20
    duration: float = 20.0
    seed: int = 5


SCALES = {
    "smoke": Config(trials=100, samples=40_000),
    "laptop": Config(),
    "paper": Config(trials=4000, samples=1_000_000),
}
LOGISTIC = Claim("mode-eq3", "deep-linear (3)", "at depth 2 gradient flow is w(t) = s/(1 + (s/w(0) − 1) exp(−2 s t))")
FLOW = Claim("mode-flow", "deep-linear (5), derived", "depths 3 and 4: gradient flow by quadrature meets a network's")
PEAK = Claim("mode-eq9", "deep-linear (9)", "the diffusion peaks at w* = [(a+1) s − √(s² − a(a+2) σ_q²/2)]/(a+2)")
BOUND = Claim("mode-eq10", "deep-linear (10)", "there is a peak if σ_q² is below s² L²/(4(L−1)(3L−2)), else none")
BEFORE = Claim(
    "mode-peak-precedes", "deep-linear figure 1", "a mode's diffusion peaks before the mode passes 90 %, for every mode"
)
ORDER = Claim("mode-order", "deep-linear figure 1", "modes are learned in the order of their singular values")
WHEN = Claim("mode-peak-time", "deep-linear figure 1, (9)", "the peak comes when gradient flow passes w*, within 5 %")


def _flow_of_a_network(depth: int, s: float, times: np.ndarray, seed: int) -> np.ndarray:
    """Integrate all weights of a one-mode network under its population gradient; the amplitude of its mode."""
    with jax.enable_x64(True):
        layers, u, v = one_mode_network(depth, START * s, seed)
        shapes, teacher = [layer.shape for layer in layers], s * np.outer(u, v)
        cuts = np.cumsum([layer.size for layer in layers])[:-1]
        gradient = jax.jit(lambda given: population_gradient(given, teacher))

        def unpack(flat: np.ndarray) -> list[np.ndarray]:
            return [part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes, strict=True)]

        def slope(_: float, flat: np.ndarray) -> np.ndarray:
            return -np.concatenate([np.ravel(g) for g in gradient(unpack(flat))])

        begin = np.concatenate([layer.ravel() for layer in layers])
        path = solve_ivp(slope, (0.0, times[-1]), begin, t_eval=times, method="DOP853", rtol=1e-11, atol=1e-12).y
        products = [np.linalg.multi_dot(unpack(state)[::-1]) for state in path.T]
    return np.array([u @ product @ v for product in products])


def _sampled_peak(depth: int, sigma: float, random: np.random.Generator, samples: int) -> tuple[float, bool]:
    """Where the sampled variance of a one-mode network's gradient peaks, and whether it does at all below s = 1.

    One input and one label error serve all amplitudes, so that the curve is smooth.
    """
    w = np.linspace(0.02, 1.0, 2000)
    x, error = random.standard_normal((2, samples))
    spread = np.cov(np.stack([x**2, error * x]))
    variance = (1 - w) ** 2 * spread[0, 0] + 2 * (1 - w) * sigma * spread[0, 1] + sigma**2 * spread[1, 1]
    curve = variance * w ** (4 - 4 / depth)  # the mode's derivative by the layers, summed and squared
    inside = argrelmax(curve)[0]
    return (float(w[inside[0]]), True) if len(inside) else (np.nan, False)


def run(config: Config) -> xr.Dataset:
    """Integrate networks, look for peaks of sampled diffusion, simulate the mode equation for three modes."""
    begun = time.perf_counter()
    flows, exact = [], []
    for depth in DEPTHS:
        mode = ModeEquation(depth=depth)
        times = np.asarray(mode.time_to_reach(FRACTIONS, START))
        flows.append(_flow_of_a_network(depth, 1.0, times, config.seed))
        exact.append(mode.gradient_flow(times, START))
    random = np.random.default_rng(config.seed)
    levels = np.array([0.0, 0.5, 1 - BESIDE, 1 + BESIDE])  # label noise over the bound (10)
    peaks = np.array(
        [
            [
                [_sampled_peak(depth, level * _bound(depth), random, config.samples) for _ in range(config.batches)]
                for level in levels
            ]
            for depth in DEPTHS
        ]
    )  # fmt: skip  (depth, level, batch, (place, exists))
    run = ModeEquation(**grid(singular_value=TEACHER)).simulate(
        config.duration, 0.02, config.trials, seed=config.seed, start=START, save_points=1001
    )
    record = xr.Dataset(
        {
            "network_flow": (("depth", "fraction"), flows),
            "gradient_flow": (("depth", "fraction"), exact),
            "peak": (("depth", "level", "batch"), peaks[..., 0]),
            "has_peak": (("depth", "level", "batch"), peaks[..., 1]),
            "mean_amplitude": run["amplitude"].mean("trial"),
            "mean_diffusion": run["diffusion"].mean("trial"),
            "peak_time": run["time"][run["diffusion"].argmax("time")].drop_vars("time"),
            "learned_time": _first_time(run["amplitude"] > LEARNED * run["singular_value"]),
        },
        coords={"depth": list(DEPTHS), "fraction": list(FRACTIONS), "level": levels},
    )
    parameters = {"depth": 4, "temperature": 0.005, "singular_value": TEACHER, "start": START}
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


def _first_time(reached: xr.DataArray) -> xr.DataArray:
    return reached["time"][reached.argmax("time")].drop_vars("time").where(reached.any("time"))


def _bound(depth: int) -> float:
    """Root of the bound (10) at s = 1."""
    return float(depth / np.sqrt(4 * (depth - 1) * (3 * depth - 2)))


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge flows, peaks and their order."""
    flow, exact = record["network_flow"].values, record["gradient_flow"].values
    passed = np.asarray(ModeEquation(depth=2).time_to_reach(FRACTIONS, START))
    logistic = 1 / (1 + (1 / START - 1) * np.exp(-2 * passed))
    found = record["peak"].isel(level=[0, 1])
    place, error = found.mean("batch").values, (found.std("batch", ddof=1) / np.sqrt(found.sizes["batch"])).values
    predicted = [
        ModeEquation(depth=int(d), label_noise=found["level"].values * _bound(int(d))).peak().amplitude for d in DEPTHS
    ]
    mesh, late = 0.98 / 1999, np.ones_like(place)
    there = record["has_peak"].mean("batch").values[:, 2:]
    beside = record["level"].values[2:]
    predicted_there = [
        np.isfinite(ModeEquation(depth=d, label_noise=beside * _bound(d)).peak().amplitude) for d in DEPTHS
    ]
    lead = (record["learned_time"] - record["peak_time"]).min("trial").values
    median = record["learned_time"].median("trial").values
    modes = [ModeEquation(singular_value=s) for s in TEACHER]
    expected = np.array(
        [float(mode.time_to_reach(mode.peak().amplitude / mode.singular_value, START)) for mode in modes]
    )
    peak_time = record["peak_time"].median("trial").values
    return (
        LOGISTIC.equals(flow[0], logistic, 1e-8, note="solver's tolerance"),
        FLOW.equals(flow[1:], exact[1:], 1e-8, note=f"depths {DEPTHS[1:]}, at the times of passage of {FRACTIONS}"),
        PEAK.equals(
            place, predicted, three_errors(error) + mesh, rival=late, standard_error=error, note="rival: a peak at s"
        ),
        BOUND.equals(there, predicted_there, 0.05, note=f"σ_q {BESIDE:.0%} below and above; share that has a peak"),
        BEFORE.exceeds(lead, 0.0, 0.0, note="smallest lead over all trials"),
        ORDER.exceeds(np.diff(median), 0.0, 0.0, note="medians over trials"),
        WHEN.equals(peak_time / expected, 1.0, 0.05, note="median over trials, over the time of gradient flow"),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw mean amplitudes and diffusions over time, with the predicted peaks."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    for index, (colour, s) in enumerate(zip(PALETTE, TEACHER, strict=False)):
        mode = ModeEquation(singular_value=s)
        peak = mode.peak()
        when = float(mode.time_to_reach(peak.amplitude / s, START))
        chosen = record.isel(singular_value=index)
        axes[0, 0].plot(record["time"], chosen["mean_amplitude"], color=colour, label=f"s = {s:g}")
        axes[0, 1].plot(record["time"], chosen["mean_diffusion"], color=colour, label=f"s = {s:g}")
        axes[0, 1].plot(when, peak.diffusion, marker="*", markersize=11, color=colour)
        for ax in axes[0]:
            ax.axvline(when, color=colour, linewidth=1, linestyle=":")
    axes[0, 0].set_ylabel("mode amplitude w, mean over trials")
    axes[0, 1].set_ylabel("diffusion D (amplitude²/time)")
    axes[0, 1].set_title("★ peak by (9), on gradient flow")
    axes[0, 1].set_yscale("log")
    axes[0, 1].set_ylim(1e-7, 1e-2)
    for ax in axes[0]:
        ax.set_xlabel("time (steps × learning rate)")
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="A mode's diffusion peaks before the mode is learned",
    source="deep-linear (3), (9), (10), figure 1 (one-mode equation)",
    kind="equation",
    claims=(LOGISTIC, FLOW, PEAK, BOUND, BEFORE, ORDER, WHEN),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
