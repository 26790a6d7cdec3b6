"""layerwise Section 3.5.2: Neural collapse of a linear network.

Small starts leave features of rank c that collapse, large ones do not.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import layerwise
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
    return apart.mT @ apart / features.shape[1], centred.mT @ centred / means.shape[1]


def _rank(record: xr.Dataset, scale: int) -> int:
    singular = record["singular"].isel(scale=scale).values
    return int((singular > 0.01 * singular[0]).sum())


def _small_rank(record: xr.Dataset) -> Judgement:
    ranks = ", ".join(f"{value:.2f}" for value in record["effective_rank"].values)
    note = f"singular values above 1 %; effective rank (1.16) by start: {ranks}"
    return equal(_rank(record, 0), record["classes"], 0.5, note=note)


def _spread(record: xr.Dataset) -> Judgement:
    blind = f"Tr Σ_W/Tr Σ_B; Tr(Σ_W Σ_B⁺)/c, blind to what lies across the means, is {float(record['nc1'][0]):.1g}"
    return below(record["within"][0], 1e-3, note=blind)


def _large(record: xr.Dataset) -> Judgement:
    measured = [float(record["within"][-1]), _rank(record, -1)]
    note = f"within-class spread; rank out of {int(record['full_rank'])}"
    return above(measured, [0.1, int(record["classes"]) + 0.5], note=note)


def _power(record: xr.Dataset) -> Judgement:
    within, scale = (np.log(record[name].values[1] / record[name].values[0]) for name in ("within", "scale"))
    return equal(within / scale, 2.0, 0.1, note="exponent of the within-class spread between the two smallest starts")


_START = {"xscale": "log", "xlabel": "standard deviation of the initial weights"}


def _draw_collapse(record: xr.Dataset, ax: Axes) -> None:
    ax.plot(record["scale"], record["within"], "o-", color=plots.PALETTE[0], label="within-class spread")
    ax.plot(record["scale"], record["frame_distance"], "s-", color=plots.PALETTE[1], label="distance from the frame")
    ax.set(**_START, yscale="log", ylabel="collapse at the end of training")


def _draw_rank(record: xr.Dataset, ax: Axes) -> None:
    ax.plot(record["scale"], record["effective_rank"], "o-", color=plots.PALETTE[2], label="effective rank")
    ax.axhline(int(record["classes"]), color="grey", linewidth=0.8, label="number of classes")
    ax.set(**_START, ylabel="effective rank of the features")


EXPERIMENT = Experiment(
    layerwise(section="3.5.2"),
    Config(),
    run,
    claims=(
        Claim(
            "sec3.5.2-fitted",
            "after training X W₁W₂ = Y, whatever the start",
            lambda r: equal(r["misfit"], 0.0, 1e-5, note="largest error of an output"),
            layerwise(equation="3.16"),
        ),
        Claim("sec3.5.2-rank", "from a small start the features have rank c, not min(n, p)", _small_rank),
        Claim("sec3.5.2-within", "from a small start features of one class coincide", _spread),
        Claim(
            "sec3.5.2-frame",
            "from a small start class means, centred, form a simplex frame",
            lambda r: below(r["frame_distance"][0], 1e-2, note="of their cosines from −1/(c − 1)"),
        ),
        Claim("sec3.5.2-large", "from a large start they do not collapse", _large, kind="derived"),
        Claim(
            "sec3.5.2-balance", "the within-class spread falls as the squared size of the start", _power, kind="derived"
        ),
    ),
    picture=Panels(_draw_collapse, _draw_rank),
    laptop={"classes": 5, "per_class": 8, "hidden": 20, "duration": 400.0},
    paper={"classes": 10, "per_class": 20, "hidden": 100, "duration": 2000.0},
    kind="figure",
)
