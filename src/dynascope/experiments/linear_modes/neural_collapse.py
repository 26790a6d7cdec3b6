"""Section 3.5.2: small starts leave features of rank c that collapse, large ones do not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.registry import Experiment
from dynascope.measure.collapse import etf_distance
from dynascope.models.linear_modes import TwoLayerLinear


@dataclass(frozen=True)
class Config:
    """Unconstrained features: n one-hot inputs in c classes, hidden width p, Gaussian starts of several sizes."""

    classes: int = 4
    per_class: int = 5
    hidden: int = 12
    scales: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 0.3)
    duration: float = 200.0
    seed: int = 352


SCALES = {
    "smoke": Config(),
    "laptop": Config(classes=5, per_class=8, hidden=20, duration=400.0),
    "paper": Config(classes=10, per_class=20, hidden=100, duration=2000.0),
}
FITTED = Claim("sec3.5.2-fitted", "layerwise (3.16)", "after training X W₁W₂ = Y, whatever the start")
RANK = Claim("sec3.5.2-rank", "layerwise 3.5.2", "from a small start the features have rank c, not min(n, p)")
SPREAD = Claim("sec3.5.2-within", "layerwise 3.5.2", "from a small start features of one class coincide")
FRAME = Claim("sec3.5.2-frame", "layerwise 3.5.2", "from a small start class means, centred, form a simplex frame")
LARGE = Claim("sec3.5.2-large", "layerwise 3.5.2", "from a large start they do not collapse")
BALANCE = Claim("sec3.5.2-balance", "layerwise 3.5.2", "the within-class spread falls as the squared size of the start")


def run(config: Config) -> xr.Dataset:
    """Train from every size of start, the same directions each time, and measure the features at the end."""
    random = np.random.default_rng(config.seed)
    samples = config.classes * config.per_class
    labels = np.repeat(np.eye(config.classes), config.per_class, axis=0)
    drawn = random.standard_normal((samples, config.hidden)), random.standard_normal((config.hidden, config.classes))
    sizes = np.array(config.scales)[:, None, None]
    # inputs √n e_i are white: E[x xᵀ] = I, E[x yᵀ] = Y/√n
    network = TwoLayerLinear(labels / np.sqrt(samples), sizes * drawn[0], sizes * drawn[1])
    record = network.solve_numerically([0.0, config.duration], accuracy=1e-9).isel(time=-1).rename(grid_0="scale")
    features = np.sqrt(samples) * record["first"].values  # (scale, sample, hidden)
    outputs = features @ record["second"].values
    means = features.reshape(len(sizes), config.classes, config.per_class, -1).mean(axis=2)
    singular = np.linalg.svd(features, compute_uv=False)
    shares = singular**2 / np.sum(singular**2, axis=-1, keepdims=True)
    record["misfit"] = ("scale", np.abs(outputs - labels).max(axis=(1, 2)))
    record["singular"] = (("scale", "direction"), singular)
    entropy = -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=-1)
    record["effective_rank"] = ("scale", np.exp(entropy))  # (1.16)
    within, between = _covariances(features, means, config.per_class)
    record["within"] = ("scale", np.trace(within, axis1=1, axis2=2) / np.trace(between, axis1=1, axis2=2))
    inverse = np.linalg.pinv(between, rcond=1e-8)
    record["nc1"] = ("scale", np.trace(within @ inverse, axis1=1, axis2=2) / config.classes)
    record["frame_distance"] = ("scale", etf_distance(means, centre=True))
    record["classes"], record["full_rank"] = config.classes, min(samples, config.hidden)
    return record.drop_vars(["first", "second", "first_gram"]).assign_coords(scale=list(config.scales))


def _covariances(features: np.ndarray, means: np.ndarray, per_class: int) -> tuple[np.ndarray, np.ndarray]:
    """Σ_W and Σ_B of the features, (scale, hidden, hidden)."""
    apart = features - np.repeat(means, per_class, axis=1)
    centred = means - means.mean(axis=1, keepdims=True)
    within = np.swapaxes(apart, 1, 2) @ apart / features.shape[1]
    return within, np.swapaxes(centred, 1, 2) @ centred / means.shape[1]


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge the smallest and the largest start, and the trend between small ones."""
    classes, full = int(record["classes"]), int(record["full_rank"])
    small, large = record.isel(scale=0), record.isel(scale=-1)
    rank = int((small["singular"] > 0.01 * small["singular"][0]).sum())
    many = int((large["singular"] > 0.01 * large["singular"][0]).sum())
    ranks = ", ".join(f"{v:.2f}" for v in record["effective_rank"].values)
    slope = np.log(record["within"].values[1] / record["within"].values[0]) / np.log(
        record["scale"].values[1] / record["scale"].values[0]
    )
    blind = f"Tr Σ_W/Tr Σ_B; Tr(Σ_W Σ_B⁺)/c, blind to what lies across the means, is {float(small['nc1']):.1g}"
    return (
        FITTED.equals(record["misfit"].values, 0.0, 1e-5, note="largest error of an output"),
        RANK.equals(rank, classes, 0.5, note=f"singular values above 1 %; effective rank (1.16) by start: {ranks}"),
        SPREAD.falls_below(float(small["within"]), 1e-3, 0.0, note=blind),
        FRAME.falls_below(float(small["frame_distance"]), 1e-2, 0.0, note="of their cosines from −1/(c − 1)"),
        LARGE.exceeds(
            [float(large["within"]), many],
            [0.1, classes + 0.5],
            0.0,
            note=f"within-class spread; rank out of {full}",
        ),
        BALANCE.equals(slope, 2.0, 0.1, note="exponent of the within-class spread between the two smallest starts"),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw collapse measures over the size of the start."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    axes[0, 0].plot(record["scale"], record["within"], "o-", color=PALETTE[0], label="within-class spread")
    axes[0, 0].plot(record["scale"], record["frame_distance"], "s-", color=PALETTE[1], label="distance from the frame")
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylabel("collapse at the end of training")
    axes[0, 0].legend(frameon=False, fontsize="small")
    axes[0, 1].plot(record["scale"], record["effective_rank"], "o-", color=PALETTE[2], label="effective rank")
    axes[0, 1].axhline(int(record["classes"]), color="grey", linewidth=0.8, label="number of classes")
    axes[0, 1].set_ylabel("effective rank of the features")
    axes[0, 1].legend(frameon=False, fontsize="small")
    for ax in axes[0]:
        ax.set_xscale("log")
        ax.set_xlabel("standard deviation of the initial weights")
    return figure


EXPERIMENT = Experiment(
    title="Neural collapse of a linear network",
    source="layerwise 3.5.2",
    kind="figure",
    claims=(FITTED, RANK, SPREAD, FRAME, LARGE, BALANCE),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
