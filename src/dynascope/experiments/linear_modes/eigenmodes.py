"""Chapter 1: eigenmodes of linear models, their learning curves, and the solution that gradient flow finds."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import minimum_norm, mode_curves, training_path
from dynascope.records import with_provenance

TIMES = tuple(np.linspace(0.0, 3.0, 13))
_EXACT = 1e-8  # the solver's error, with room
COVARIANCE = ((1.5, 0.5), (0.5, 1.5))  # the example below (1.29), with eigenvalues 2 and 1


@dataclass(frozen=True)
class Config:
    """Correlated features of random covariance, a training set smaller than their number, and a sample for (1.33)."""

    features: int = 8
    samples: int = 4
    draws: int = 4000
    seed: int = 13


SCALES = {
    "smoke": Config(),
    "laptop": Config(features=12, samples=8, draws=100_000),
    "paper": Config(40, 16, 1_000_000),
}
CURVES = Claim("eq1.26-curves", "layerwise (1.26), (3.10)", "mode k is learned as 1 − exp(−η ρ_k t)")
WEIGHTS = Claim("eq1.28-weights", "layerwise (1.28)", "f = Σ θ_k √ρ_k e_k with θ = O w")
NORM = Claim("eq1.28-norm", "layerwise, below (1.28)", "the change of basis keeps the norm of the weights")
SPECTRUM = Claim("alg1-spectrum", "layerwise Algorithm 1", "ρ_k is the squared singular value of the sampled features")
FLOW = Claim("eqA.9-flow", "layerwise (A.9)", "on n samples the weights follow (A.9), which has no 1/n")
END = Claim("eqA.8-minimum-norm", "layerwise A.2", "gradient flow from 0 ends at the minimum-norm solution")


def population_loss(weights: Any, data: Any) -> Any:
    """(1.11) for features of the given covariance."""
    covariance, truth = data
    error = weights["w"] - truth
    return error @ covariance @ error / 2


def training_loss(weights: Any, data: Any) -> Any:
    """The loss of (1.12), 1/(2n) of the squared error on n samples."""
    features, labels = data
    return jnp.sum((features @ weights["w"] - labels) ** 2) / (2 * labels.shape[0])


def run(config: Config) -> xr.Dataset:
    """Integrate the gradient flow of both losses, and decompose a random sample."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    size = config.features
    mixing = random.normal(size=(size, size))
    covariance, truth = mixing @ mixing.T / size, random.normal(size=size)
    eigenvalues, vectors = np.linalg.eigh(covariance)  # vectors are the O of (1.27)
    flow = gradient_flow(population_loss, {"w": np.zeros(size)}, TIMES, data=(covariance, truth))["w"]
    target = np.sqrt(eigenvalues) * (vectors.T @ truth)  # ⟨e_k|f*⟩
    sample = random.normal(size=(4 * size, size)) @ mixing.T / np.sqrt(size)
    basis = sample @ vectors  # √ρ_k e_k(x)
    few, labels = sample[: config.samples], random.normal(size=config.samples)
    long = 25 / np.linalg.svd(few, compute_uv=False).min() ** 2 * config.samples
    trained = gradient_flow(training_loss, {"w": np.zeros(size)}, (*TIMES, long), data=(few, labels))["w"]
    drawn = random.multivariate_normal(np.zeros(2), COVARIANCE, config.draws)
    record = xr.Dataset(
        {
            "coefficient_flow": (("mode", "time"), (np.sqrt(eigenvalues) * (flow @ vectors)).T),
            "coefficient": (("mode", "time"), mode_curves(TIMES, eigenvalues, target)),
            "theta_measured": ("mode", np.linalg.lstsq(basis, sample @ truth)[0]),
            "theta": ("mode", vectors.T @ truth),
            "theta_printed": ("mode", vectors @ truth),
            "norm": float(np.linalg.norm(truth)),
            "singular": ("pair", np.linalg.svd(drawn, compute_uv=False) ** 2),
            "draws": float(config.draws),
            "weights_flow": (("time", "feature"), trained[:-1]),
            "weights": (("time", "feature"), training_path(TIMES, few, labels)),
            "weights_printed": (("time", "feature"), training_path(config.samples * np.array(TIMES), few, labels)),
            "weights_end": ("feature", trained[-1]),
            "weights_minimum": ("feature", minimum_norm(few, labels)),
        },
        coords={"time": ("time", list(TIMES), {"long_name": "time", "units": "steps × learning rate"})},
    )
    return with_provenance(
        record, "linear model", asdict(config), options={}, seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Hold chapter 1 against the integrated flows."""
    gap = float(abs(record["coefficient"] - record["coefficient_flow"]).max())
    exact = np.array([2.0, 1.0])  # eigenvalues of COVARIANCE
    draws = float(record["draws"])
    error = exact * np.sqrt(2 / draws)
    measured = np.sqrt((record["theta_measured"] ** 2).sum())
    names = ("weights_flow", "weights", "weights_printed")
    flowed, solved, printed = (np.linalg.norm(record[name].isel(time=[4, 12]), axis=-1) for name in names)
    return (
        CURVES.equals(gap, 0.0, _EXACT, note=f"largest error over {record.sizes['mode']} modes"),
        WEIGHTS.corrects(
            record["theta_measured"].values, record["theta"].values, _EXACT,
            published=record["theta_printed"].values, note="θ = Oᵀ w, since Φ = O √ρ e by (1.27)",
        ),
        NORM.equals(float(measured), float(record["norm"]), _EXACT),
        SPECTRUM.corrects(
            record["singular"].values / draws, exact, three_errors(error) + 4 / draws,
            published=record["singular"].values, standard_error=error,
            note=f"the squared singular values must be divided by the {draws:.0f} samples, e_k multiplied by √n",
        ),
        FLOW.corrects(
            flowed, solved, _EXACT, published=printed,
            note="norm of the weights at t = 1 and 3; (1.12) with the loss above it has the factor 1/n",
        ),
        END.equals(float(abs(record["weights_end"] - record["weights_minimum"]).max()), 0.0, _EXACT),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the learning curves of the modes."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    for colour, mode in zip(PALETTE, range(record.sizes["mode"]), strict=False):
        ax.plot(record["time"], record["coefficient_flow"].isel(mode=mode), "o", color=colour)
        ax.plot(record["time"], record["coefficient"].isel(mode=mode), color=colour, label=f"mode {mode + 1}")
    ax.set_xlabel(axis_label(record["time"]))
    ax.set_ylabel("coefficient ⟨e|f⟩")
    ax.set_title("points: gradient flow, lines: (1.26)", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Eigenmodes of linear models",
    source="layerwise chapter 1, appendix A",
    kind="equation",
    claims=(CURVES, WEIGHTS, NORM, SPECTRUM, FLOW, END),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
