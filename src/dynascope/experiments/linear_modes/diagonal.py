"""Equations (3.6)–(3.14): the diagonal network from any start, its times and its stages."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from dynascope.experiments.claims import Claim
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import DiagonalNetwork

TIMES = tuple(np.linspace(0.0, 6.0, 25))
_EXACT = 1e-8  # the solver's error, with room
_SPLINE = 1e-7  # interpolation between the integrated points


@dataclass(frozen=True)
class Config:
    """Random modes from random starts; a threshold ε; two-mode networks whose stages overlap."""

    modes: int = 200
    threshold: float = 0.07
    variances: tuple[float, ...] = (0.8, 0.5, 0.25)  # of the second mode; the first has 1
    start: float = 0.03  # a(0) = b(0)
    seed: int = 36


SCALES = {"smoke": Config(modes=40), "laptop": Config(), "paper": Config(modes=2000)}
ANY_START = Claim("eq3.6-any-start", "layerwise (3.6), solved", "weights from any a(0), b(0) follow the closed form")
SIGMOID = Claim("eq3.9-sigmoid", "layerwise (3.9)", "with a(0) = b(0) the product is the sigmoid (3.9)")
CONSERVED = Claim("eq3.8-conserved", "layerwise (3.8)", "a² − b² does not change")
TIMES_MET = Claim("eq3.12-times", "layerwise (3.12)", "a mode reaches ε at τ_e(ε) and 1 − ε at τ_e + τ_s")
OVERLAP = Claim("eq3.13-overlap", "layerwise (3.13)", "stages overlap by the ε of (3.13), where the ratio multiplies")


def loss(weights: Any, data: Any) -> Any:
    """½ Σ E[x²] (a b − S)²: (3.2) for the diagonal network on independent inputs."""
    variance, target = data
    return jnp.sum(variance * (weights["first"] * weights["second"] - target) ** 2) / 2


def run(config: Config) -> xr.Dataset:
    """Random modes: every fourth with a(0) = b(0), the others free; and pairs of modes for the overlap."""
    random = np.random.default_rng(config.seed)
    variance, target = random.uniform(0.3, 2.0, config.modes), random.uniform(0.5, 2.0, config.modes)
    first, second = random.uniform(-0.8, 0.8, (2, config.modes))
    equal = np.arange(config.modes) % 4 == 0
    first[equal] = second[equal] = np.abs(first[equal]) + 0.05
    target = target * np.where(equal, 1.0, random.choice([-1.0, 1.0], config.modes))
    network = DiagonalNetwork(variance, target, first, second)
    record = network.solve(TIMES)
    start = {"first": first, "second": second}
    flow = gradient_flow(loss, start, TIMES, data=(variance, target))
    for name, path in flow.items():
        record[f"{name}_flow"] = (("mode", "time"), path.T)
    a0b0 = (first * second)[:, None]
    with np.errstate(over="ignore"):
        growth = np.exp(-2 * (target * variance)[:, None] * np.array(TIMES))
        record["sigmoid"] = (("mode", "time"), target[:, None] / (1 + (target[:, None] / a0b0 - 1) * growth))
    record["equal"] = ("mode", equal)
    record["reached"] = (("mode", "level"), _reached(network, start, (variance, target), config.threshold))
    record["wanted"] = ("level", np.array([config.threshold, 1 - config.threshold]))
    return record.merge(_overlaps(config), combine_attrs="override")


def _reached(network: DiagonalNetwork, start: dict[str, np.ndarray], data: Any, threshold: float) -> np.ndarray:
    """What share of its target the flow of each mode has reached when (3.12) says ε and 1 − ε."""
    emerged = network.time_to_reach(threshold)
    moments = np.stack([emerged, emerged + network.saturation_time(threshold)], axis=-1)  # (mode, level)
    known = np.isfinite(moments).all(axis=-1)
    times, place = np.unique(np.concatenate([[0.0], moments[known].ravel()]), return_inverse=True)
    flow = gradient_flow(loss, start, times, data=data)
    share = (flow["first"] * flow["second"] / data[1])[:, known]  # (time, mode)
    reached = np.full(moments.shape, np.nan)
    reached[known] = share[place[1:].reshape(-1, 2), np.arange(known.sum())[:, None]]
    return reached


def _overlaps(config: Config) -> xr.Dataset:
    """The ε at which the first mode has 1 − ε left to the second's ε, read off integrated paths."""
    times = np.linspace(0.0, 25.0, 1001)
    weights = np.full(2 * len(config.variances), config.start)
    variance = np.array([[1.0, other] for other in config.variances])
    flow = gradient_flow(loss, {"first": weights, "second": weights}, times, data=(variance.ravel(), 1.0))
    share = (flow["first"] * flow["second"]).reshape(times.size, -1, 2)
    measured = []
    for pair in range(variance.shape[0]):
        meet = CubicSpline(times, share[:, pair].sum(axis=-1) - 1).roots(extrapolate=False)[0]
        measured.append(float(CubicSpline(times, share[:, pair, 1])(meet)))
    network = DiagonalNetwork(variance, 1.0, config.start, config.start)
    ratio, gap = 1 / config.start**2 - 1, (variance[:, 1] - variance[:, 0]) / variance.sum(axis=1)
    return xr.Dataset(
        {
            "overlap_flow": ("pair", measured),
            "overlap": ("pair", network.stage_overlap()[:, 0]),
            "overlap_printed": ("pair", network.stage_overlap(published=True)[:, 0]),
            "overlap_as_power": ("pair", 1 / (1 + ratio**gap)),
        }
    )


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Hold the closed forms against the integrated flow."""
    gap = max(float(abs(record[name] - record[f"{name}_flow"]).max()) for name in ("first", "second"))
    product = record["first_flow"] * record["second_flow"]
    equal = abs(product - record["sigmoid"]).where(record["equal"])
    kept = record["first_flow"] ** 2 - record["second_flow"] ** 2
    reached = record["reached"].dropna("mode")
    power = ", ".join(f"{v:.3g}" for v in record["overlap_as_power"].values)
    return (
        ANY_START.equals(gap, 0.0, _EXACT, note=f"largest error over {record.sizes['mode']} modes"),
        SIGMOID.equals(float(equal.max()), 0.0, _EXACT, note="largest error over modes with a(0) = b(0)"),
        CONSERVED.equals(float(abs(kept - kept.isel(time=0)).max()), 0.0, _EXACT),
        TIMES_MET.equals(
            [float(reached.isel(level=k).isel(mode=index)) for k in (0, 1) for index in (0, 1, 2, -1)],
            np.repeat(record["wanted"].values, 4), _EXACT,
            note=f"largest error of all {reached.sizes['mode']}: {float(abs(reached - record['wanted']).max()):.1g}",
        ),
        OVERLAP.corrects(
            record["overlap_flow"].values, record["overlap"].values, _SPLINE,
            published=record["overlap_printed"].values,
            note=f"the ratio is an exponent and has the other sign; as an exponent with the printed sign: {power}",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw a few modes from unequal starts, and the overlap of stages."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    for colour, index in zip(PALETTE, range(5), strict=False):
        mode = record.isel(mode=index)
        axes[0, 0].plot(mode["time"], mode["first_flow"] * mode["second_flow"], "o", color=colour, markersize=3)
        axes[0, 0].plot(mode["time"], mode["product"], color=colour, linewidth=1)
    axes[0, 0].set_xlabel(axis_label(record["time"]))
    axes[0, 0].set_ylabel("a b (points: flow, lines: closed form)")
    for name, marker, label in (
        ("overlap_flow", "o", "gradient flow"),
        ("overlap", "x", "corrected (3.13)"),
        ("overlap_printed", "v", "(3.13) as printed"),
        ("overlap_as_power", "^", "printed ratio as exponent"),
    ):
        axes[0, 1].plot(record["pair"], record[name], marker, label=label, fillstyle="none")
    axes[0, 1].set_xticks(record["pair"].values)
    axes[0, 1].set_xlabel("pair of modes")
    axes[0, 1].set_ylabel("overlap ε of stages")
    axes[0, 1].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Diagonal networks from any start, and their stages",
    source="layerwise (3.6)–(3.14)",
    kind="equation",
    claims=(ANY_START, SIGMOID, CONSERVED, TIMES_MET, OVERLAP),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
