"""layerwise chapter 1, appendix A: Eigenmodes of linear models.

Their learning curves, and the solution that gradient flow finds.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, corrected, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.linear_modes.gradient_flow import EXACT, exact, gradient_flow
from dynascope.experiments.linear_modes.losses import population_loss, training_loss
from dynascope.experiments.sources import layerwise
from dynascope.models.linear_modes import minimum_norm, mode_curves, training_path
from dynascope.statistics.errors import Estimate

TIMES = tuple(np.linspace(0.0, 3.0, 13))
_ROTATED = "θ = Oᵀ w, since Φ = O √ρ e by (1.27)"
COVARIANCE = ((1.5, 0.5), (0.5, 1.5))  # the example below (1.29), with eigenvalues 2 and 1


@dataclass(frozen=True)
class Config:
    """Correlated features of random covariance, a training set smaller than their number, and a sample for (1.33)."""

    features: int = 8
    samples: int = 4
    draws: int = 4000
    seed: int = 13


def run(config: Config) -> xr.Dataset:
    """Integrate the gradient flow of both losses, and decompose a random sample."""
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
    drawn, fresh = (random.multivariate_normal(np.zeros(2), COVARIANCE, config.draws) for _ in range(2))
    _, singular, directions = np.linalg.svd(drawn, full_matrices=False)
    return xr.Dataset(
        {
            "coefficient_flow": (("mode", "time"), (np.sqrt(eigenvalues) * (flow @ vectors)).T),
            "coefficient": (("mode", "time"), mode_curves(TIMES, eigenvalues, target)),
            "theta_measured": ("mode", np.linalg.lstsq(basis, sample @ truth)[0]),
            "theta": ("mode", vectors.T @ truth),
            "theta_printed": ("mode", vectors @ truth),
            "norm": float(np.linalg.norm(truth)),
            "mean_square": ("pair", np.mean((fresh @ directions.T / singular) ** 2, axis=0)),
            "draws": float(config.draws),
            "weights_flow": (("time", "feature"), trained[:-1]),
            "weights": (("time", "feature"), training_path(TIMES, few, labels)),
            "weights_printed": (("time", "feature"), training_path(config.samples * np.array(TIMES), few, labels)),
            "weights_end": ("feature", trained[-1]),
            "weights_minimum": ("feature", minimum_norm(few, labels)),
        },
        coords={"time": ("time", list(TIMES), {"long_name": "time", "units": "steps × learning rate"})},
    )


def _normalised(record: xr.Dataset) -> Judgement:
    draws, square = float(record["draws"]), record["mean_square"].values
    note = f"n ⟨e_k|e_k⟩ on fresh samples, where it is 1: e_k must be multiplied by √n, n = {draws:.0f}"
    measured = Estimate(draws * square, 2 / np.sqrt(draws) * np.ones(2))  # of both samples, √(2/n) each
    return corrected(measured, 1.0, 4 / draws, published=draws, note=note)


def _trained(record: xr.Dataset) -> Judgement:
    names = ("weights_flow", "weights", "weights_printed")
    flowed, solved, printed = (np.linalg.norm(record[name].isel(time=[4, 12]), axis=-1) for name in names)
    note = "norm of the weights at t = 1 and 3; (1.12) with the loss above it has the factor 1/n"
    return corrected(flowed, solved, EXACT, published=printed, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """Learning curves of the modes."""
    for colour, mode in zip(plots.PALETTE, range(record.sizes["mode"]), strict=False):
        ax.plot(record["time"], record["coefficient_flow"].isel(mode=mode), "o", color=colour)
        ax.plot(record["time"], record["coefficient"].isel(mode=mode), color=colour, label=f"mode {mode + 1}")
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel="coefficient ⟨e|f⟩")
    ax.set_title("points: gradient flow, lines: (1.26)", fontsize="medium")


EXPERIMENT = Experiment(
    layerwise(place="chapter 1, appendix A"),
    Config(),
    run,
    claims=(
        Claim(
            "eq1.26-curves",
            "mode k is learned as 1 − exp(−η ρ_k t)",
            lambda r: exact(
                r["coefficient"] - r["coefficient_flow"], note=f"largest error over {r.sizes['mode']} modes"
            ),
            layerwise(equation="1.17, 1.26, 3.7, 3.10"),
        ),
        Claim(
            "eq1.28-weights",
            "f = Σ θ_k √ρ_k e_k with θ = O w",
            lambda r: corrected(r["theta_measured"], r["theta"], EXACT, published=r["theta_printed"], note=_ROTATED),
            layerwise(equation="1.28"),
        ),
        Claim(
            "eq1.28-norm",
            "the change of basis keeps the norm of the weights",
            lambda r: equal(float(np.sqrt((r["theta_measured"] ** 2).sum())), float(r["norm"]), EXACT),
            layerwise(equation="A.6", place="below (1.28)"),
        ),
        Claim(
            "alg1-spectrum",
            "the functions u_k·Φ(x)/s_k of Algorithm 1 have mean square 1",
            _normalised,
            layerwise(equation="1.33", theorem="Algorithm 1"),
            kind="own",  # the missing 1/n is counted in features/definitions
        ),
        Claim(
            "eqA.9-flow",
            "on n samples the weights follow (A.9), which has no 1/n",
            _trained,
            layerwise(equation="A.9"),
        ),
        Claim(
            "eqA.8-minimum-norm",
            "gradient flow from 0 ends at the minimum-norm solution",
            lambda r: exact(r["weights_end"] - r["weights_minimum"]),
            layerwise(equation="A.7, A.8, A.12", section="A.2"),
        ),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    laptop={"features": 12, "samples": 8, "draws": 100_000},
    paper={"features": 40, "samples": 16, "draws": 1_000_000},
    model="linear model",
)
