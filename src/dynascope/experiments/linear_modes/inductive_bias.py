"""layerwise Figure 1.2: Eigenvalues decide what is preferred.

Two models with the same functions and opposite eigenvalues fit four points differently.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.linear_modes.sines import sines
from dynascope.experiments.sources import layerwise
from dynascope.models.linear_modes import minimum_norm
from dynascope.statistics.errors import Estimate, over_trials


@dataclass(frozen=True)
class Config:
    """Ten sine features with eigenvalues k^{2α}; four random points with standard normal labels, many times over."""

    features: int = 10
    samples: int = 4
    exponents: tuple[float, ...] = (-4.0, 4.0)
    sets: int = 400
    seed: int = 12


def run(config: Config) -> xr.Dataset:
    """Fit random training sets with both models and note how much of each mode the fit uses."""
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
    return xr.Dataset(
        {
            "utilisation": (("model", "trial", "mode"), used),
            "misfit": (("model", "trial"), misfit),
            "fit": (("model", "x"), coefficients[:, 0] @ sines(fine, config.features).T),
            "point": ("sample", inputs[0]),
            "label": ("sample", labels[0]),
        },
        coords={"model": list(config.exponents), "mode": modes, "x": fine},
    )


def _prefers(record: xr.Dataset) -> Judgement:
    low, high = (record["utilisation"] * record["mode"]).sum("mode").transpose("model", "trial").values
    note = f"share of sets; mean utilised frequency {low.mean():.2f} against {high.mean():.2f}"
    return above(Estimate(np.mean(low < high), np.sqrt(0.25 / low.size)), 0.5, note=note)


def _intense(record: xr.Dataset) -> Judgement:
    used, half = record["utilisation"], record.sizes["mode"] // 2
    strong = (used.isel(model=0, mode=slice(0, half)), used.isel(model=1, mode=slice(half, None)))
    shares = over_trials(np.array([part.sum("mode") for part in strong]))
    return above(shares, 0.5, note="k ≤ 5 for α = −4, k > 5 for α = 4")


def _draw_intensities(record: xr.Dataset, ax: Axes) -> None:
    for colour, alpha in zip(plots.PALETTE, record["model"].values, strict=False):
        ax.plot(record["mode"], record["mode"] ** (2 * alpha), "o-", color=colour, label=f"α = {alpha:g}")
    ax.set(xlabel="mode k", ylabel="intensity ρ = k^{2α}", yscale="log")


def _draw_fit(record: xr.Dataset, ax: Axes) -> None:
    for colour, alpha in zip(plots.PALETTE, record["model"].values, strict=False):
        ax.plot(record["x"], record["fit"].sel(model=alpha), color=colour, label=f"α = {alpha:g}")
    ax.plot(record["point"], record["label"], "ko", label="training points")
    reach = 3 * float(abs(record["label"]).max())
    ax.set(xlabel="x", ylabel="f(x)", ylim=(-reach, reach))


EXPERIMENT = Experiment(
    layerwise(figure="1.2"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-1.2-fit",
            "both models pass through all four points",
            lambda r: equal(r["misfit"].quantile(0.95), 0.0, 1e-6, note="largest misfit in 95 % of the sets"),
        ),
        Claim("fig-1.2-bias", "the utilised frequency is lower with α = −4 than with α = 4", _prefers),
        Claim(
            "fig-1.2-intensity",
            "the more intense half of the modes carries most of the learned function",
            _intense,
            layerwise(section="1.6"),
        ),
    ),
    picture=Panels(_draw_intensities, _draw_fit),
    smoke={"sets": 60},
    paper={"sets": 10_000},
    model="linear model",
    adapted="training points, which the source leaves out",
)
