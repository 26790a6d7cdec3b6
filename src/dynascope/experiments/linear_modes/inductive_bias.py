"""Figure 1.2: two models with the same functions and opposite eigenvalues fit four points differently."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.linear_modes.sines import sines
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import minimum_norm
from dynascope.records import with_provenance


@dataclass(frozen=True)
class Config:
    """Ten sine features with eigenvalues k^{2α}; four random points with standard normal labels, many times over."""

    features: int = 10
    samples: int = 4
    exponents: tuple[float, ...] = (-4.0, 4.0)
    sets: int = 400
    seed: int = 12


SCALES = {"smoke": Config(sets=60), "laptop": Config(), "paper": Config(sets=10_000)}
FITS = Claim("fig-1.2-fit", "layerwise FIG. 1.2", "both models pass through all four points")
PREFERS = Claim(
    "fig-1.2-bias",
    "layerwise FIG. 1.2",
    "the utilised frequency is lower with α = −4 than with α = 4",
)
INTENSE = Claim(
    "fig-1.2-intensity", "layerwise 1.6", "the more intense half of the modes carries most of the learned function"
)


def run(config: Config) -> xr.Dataset:
    """Fit random training sets with both models and note how much of each mode the fit uses."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    modes = np.arange(1, config.features + 1)
    inputs = random.uniform(size=(config.sets, config.samples))
    labels = random.standard_normal((config.sets, config.samples))
    scales = modes ** np.array(config.exponents)[:, None]  # k^α, (model, mode)
    shape = (len(config.exponents), config.sets)
    coefficients, misfit = np.empty((*shape, config.features)), np.empty(shape)
    for one in range(config.sets):
        functions = sines(inputs[one], config.features)
        for model, scale in enumerate(scales):
            coefficients[model, one] = scale * minimum_norm(functions * scale, labels[one])
            misfit[model, one] = np.abs(functions @ coefficients[model, one] - labels[one]).max()
    used = coefficients**2 / np.sum(coefficients**2, axis=-1, keepdims=True)  # utilisation (1.31)
    fine = np.linspace(0.0, 1.0, 501)
    record = xr.Dataset(
        {
            "utilisation": (("model", "trial", "mode"), used),
            "misfit": (("model", "trial"), misfit),
            "fit": (("model", "x"), coefficients[:, 0] @ sines(fine, config.features).T),
            "point": ("sample", inputs[0]),
            "label": ("sample", labels[0]),
        },
        coords={"model": list(config.exponents), "mode": modes, "x": fine},
    )
    return with_provenance(
        record, "linear model", asdict(config), options={}, seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare what the two models use, training set by training set."""
    frequency = (record["utilisation"] * record["mode"]).sum("mode")
    low, high = frequency.isel(model=0), frequency.isel(model=1)
    lower = float((low < high).mean())
    error = np.sqrt(0.25 / record.sizes["trial"])
    half = record.sizes["mode"] // 2
    strong = [
        record["utilisation"].isel(model=0, mode=slice(0, half)),
        record["utilisation"].isel(model=1, mode=slice(half, None)),
    ]
    shares = [share.sum("mode") for share in strong]
    spread = [float(share.std("trial", ddof=1)) / np.sqrt(record.sizes["trial"]) for share in shares]
    return (
        FITS.equals(float(record["misfit"].quantile(0.95)), 0.0, 1e-6, note="largest misfit in 95 % of the sets"),
        PREFERS.exceeds(
            lower, 0.5, 3 * error,
            note=f"share of sets; mean utilised frequency {float(low.mean()):.2f} against {float(high.mean()):.2f}",
        ),
        INTENSE.exceeds(
            [float(share.mean()) for share in shares], 0.5, 3 * np.array(spread),
            note="k ≤ 5 for α = −4, k > 5 for α = 4",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw intensities and one fit."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    for colour, alpha in zip(PALETTE, record["model"].values, strict=False):
        axes[0, 0].plot(record["mode"], record["mode"] ** (2 * alpha), "o-", color=colour, label=f"α = {alpha:g}")
        axes[0, 1].plot(record["x"], record["fit"].sel(model=alpha), color=colour, label=f"α = {alpha:g}")
    axes[0, 1].plot(record["point"], record["label"], "ko", label="training points")
    reach = 3 * float(abs(record["label"]).max())
    axes[0, 1].set_ylim(-reach, reach)
    axes[0, 0].set_yscale("log")
    for ax, x, y in ((axes[0, 0], "mode k", "intensity ρ = k^{2α}"), (axes[0, 1], "x", "f(x)")):
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Eigenvalues decide what is preferred",
    source="layerwise FIG. 1.2",
    kind="figure",
    claims=(FITS, PREFERS, INTENSE),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
