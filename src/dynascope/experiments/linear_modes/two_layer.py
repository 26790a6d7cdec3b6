"""Two-layer linear networks: (3.15), (A.39), the conserved matrix, and general balanced starts."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import TwoLayerLinear, balanced_weights

TIMES = tuple(np.linspace(0.0, 6.0, 13))
# input, hidden, output sizes and imbalance: narrow, wide, first layer larger, second layer larger
CASES = ((5, 3, 4, 0.0), (3, 8, 2, 0.0), (6, 4, 3, 0.8), (3, 3, 5, -0.6), (4, 2, 2, 3.0))
_EXACT = 1e-8  # the solver's error, with room


@dataclass(frozen=True)
class Config:
    """Random correlations and starts of each shape; and one start along the singular vectors."""

    repeats: int = 10
    scale: float = 0.3
    start: float = 0.02  # α_i²(0) of the aligned start
    small: float = 1e-4  # standard deviation of the small random start
    seed: int = 315


SCALES = {"smoke": Config(repeats=2), "laptop": Config(), "paper": Config(repeats=100)}
ALIGNED = Claim("eqA.39-aligned", "layerwise (A.39), (A.40)", "from W₁ = U A R, W₂ = Rᵀ A V the modes are sigmoids")
STRENGTH = Claim("eq3.15-strength", "layerwise (3.15)", "u_iᵀ W₁W₂ v_i is the α_i of (3.15), its square a sigmoid")
BALANCED = Claim("balanced-gram", "layerwise references [63], [79]", "λ-balanced starts follow P' = FP + PF − P²")
SMALL = Claim(
    "secA.2.3-small-start",
    "layerwise A.2.3",
    "a small start is as an aligned one with α_i²(0) = u_iᵀ W₁W₂ v_i",
)
CONSERVED = Claim("eqA.29-conserved", "layerwise (A.29)", "W₁ᵀW₁ − W₂W₂ᵀ does not change, for any input covariance")


def loss(weights: Any, data: Any) -> Any:
    """½ E|xᵀW₁W₂ − y|² for E[x yᵀ] = covariance·teacher, summed over networks and without its constant."""
    covariance, teacher = data
    error = weights["first"] @ weights["second"] - teacher
    return jnp.sum(error * (covariance @ error)) / 2


def run(config: Config) -> xr.Dataset:
    """Solve and integrate every case."""
    random = np.random.default_rng(config.seed)
    gaps, drift = [], []
    for case, (inputs, hidden, outputs, level) in enumerate(CASES):
        seeds = range(case * config.repeats, (case + 1) * config.repeats)
        sizes, options = (inputs, hidden, outputs), {"scale": config.scale, "imbalance": level}
        starts = [balanced_weights(*sizes, **options, seed=seed) for seed in seeds]
        start = dict(zip(("first", "second"), map(np.stack, zip(*starts, strict=True)), strict=True))
        teacher = random.normal(size=(config.repeats, inputs, outputs))
        solved = TwoLayerLinear(teacher, **start).solve(TIMES)
        flow = gradient_flow(loss, start, TIMES, data=(np.eye(inputs), teacher))
        grams = {
            "product": flow["first"] @ flow["second"],
            "first_gram": flow["first"] @ flow["first"].swapaxes(-1, -2),
            "second_gram": flow["second"].swapaxes(-1, -2) @ flow["second"],
        }
        gaps.append([np.abs(solved[name].values - np.moveaxis(gram, 0, 1)).max() for name, gram in grams.items()])
        mixing = random.normal(size=(inputs, inputs))
        skewed = gradient_flow(loss, start, TIMES[:5], data=(mixing @ mixing.T / inputs, teacher))
        kept = skewed["first"].swapaxes(-1, -2) @ skewed["first"] - skewed["second"] @ skewed["second"].swapaxes(-1, -2)
        drift.append(np.abs(kept - kept[0]).max())
    record = _aligned(config, random)
    for name, values in _small_start(config).items():
        record[name] = ("mode", values)
    record["gap"] = (("case", "matrix"), np.array(gaps))
    record["drift"] = ("case", np.array(drift))
    return record


def _aligned(config: Config, random: np.random.Generator) -> xr.Dataset:
    """A start along the singular vectors of the correlation: (3.15) in its own setting."""
    left, _, right = np.linalg.svd(random.normal(size=(5, 3)), full_matrices=False)
    correlation = (left * np.array([2.0, 1.2, 0.6])) @ right
    turn = np.linalg.qr(random.normal(size=(7, 3)))[0]
    size = np.sqrt(config.start)
    start = {"first": left * size @ turn.T, "second": turn * size @ right}
    network = TwoLayerLinear(correlation, **start)
    record = network.solve(TIMES)
    flow = gradient_flow(loss, start, TIMES, data=(np.eye(5), correlation))
    product = flow["first"] @ flow["second"]
    record["strength_flow"] = (("mode", "time"), np.einsum("im,tio,mo->mt", left, product, right))
    record["strength_sigmoid"] = (("mode", "time"), network.aligned_strength(TIMES))
    # (3.15) read as printed: α_i itself is the product, and α_i² follows the sigmoid from α_i(0)²
    values, begin = record["singular_value"].values[:, None], config.start**2
    sigmoid = values / (1 + (values / begin - 1) * np.exp(-2 * values * np.array(TIMES)))
    record["strength_printed"] = (("mode", "time"), np.sqrt(sigmoid))
    return record


def _small_start(config: Config) -> dict[str, np.ndarray]:
    """When the modes of a small random start are half learned: integrated, derived, and as the source argues."""
    random = np.random.default_rng(config.seed)
    left, right = (np.linalg.qr(random.normal(size=(size, 3)))[0] for size in (5, 3))
    values = np.array([2.0, 1.2, 0.6])
    correlation = (left * values) @ right.T
    start = {"first": config.small * random.normal(size=(5, 6)), "second": config.small * random.normal(size=(6, 3))}
    times = np.linspace(0.0, 30.0, 1201)
    flow = gradient_flow(loss, start, times, data=(np.eye(5), correlation), accuracy=1e-10)
    network = TwoLayerLinear(correlation, **start)
    u, _, v = np.linalg.svd(correlation, full_matrices=False)
    paths = np.einsum("im,tio,mo->mt", u, flow["first"] @ flow["second"], v)
    literal = np.abs(np.einsum("im,io,mo->m", u, start["first"] @ start["second"], v))
    return {
        "half_flow": np.array([np.interp(0.5, path / value, times) for path, value in zip(paths, values, strict=True)]),
        "half": np.log(values / network.small_start() - 1) / (2 * values),
        "half_printed": np.log(values / literal - 1) / (2 * values),
    }


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Hold the closed forms against the integrated flow."""
    gap = float(abs(record["strength_sigmoid"] - record["strength_flow"]).max())
    chosen = record.isel(time=4)
    return (
        ALIGNED.equals(gap, 0.0, _EXACT, note="largest error over modes and times"),
        STRENGTH.corrects(
            chosen["strength_flow"].values, chosen["strength_sigmoid"].values, _EXACT,
            published=chosen["strength_printed"].values,
            note=f"α_i² = u_iᵀ W₁W₂ v_i, as in (A.40); three modes at t = {float(chosen['time']):g}",
        ),
        BALANCED.equals(
            record["gap"].max("matrix").values, 0.0, _EXACT,
            note="largest error of W₁W₂, W₁W₁ᵀ and W₂ᵀW₂ for λ = " + ", ".join(f"{case[3]:g}" for case in CASES),
        ),
        SMALL.corrects(
            record["half_flow"].values, record["half"].values, 0.02, published=record["half_printed"].values,
            note="time at which a mode is half learned; its start is |q_i|², q_i = (u_iᵀW₁ + v_iᵀW₂ᵀ)/2 less what lies "
            "along earlier q's. The gap does not close as the start shrinks; 0.02 for its size",
        ),
        CONSERVED.equals(record["drift"].values, 0.0, _EXACT, note="random input covariances"),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the modes of the aligned start."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    for colour, mode in zip(PALETTE, record["mode"].values, strict=False):
        one = record.sel(mode=mode)
        ax.plot(one["time"], one["strength_flow"], "o", color=colour)
        ax.plot(one["time"], one["strength_sigmoid"], color=colour, label=f"ρ = {float(one['singular_value']):.2g}")
        ax.plot(one["time"], one["strength_printed"], ":", color=colour)
    ax.set_xlabel(axis_label(record["time"]))
    ax.set_ylabel("strength uᵀ W₁W₂ v")
    ax.set_title("points: gradient flow, lines: (A.39), dotted: (3.15) as printed", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Two-layer linear networks",
    source="layerwise (3.15), (A.29)–(A.40)",
    kind="equation",
    claims=(ALIGNED, STRENGTH, BALANCED, SMALL, CONSERVED),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
