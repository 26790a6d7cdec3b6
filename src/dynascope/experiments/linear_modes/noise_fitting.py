"""layerwise Figure 1.4: What fitted noise looks like.

It becomes a set of spikes as features outnumber samples.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, corrected, equal
from dynascope.experiments.experiment import Experiment, Figure
from dynascope.experiments.linear_modes.sines import fit_sines, sines
from dynascope.experiments.sources import layerwise
from dynascope.statistics.errors import Estimate, over_trials


@dataclass(frozen=True)
class Config:
    """50 standard normal labels at random inputs, fitted by 100, 400 and 2000 sine features of equal intensity."""

    samples: int = 50
    features: tuple[int, ...] = (100, 400, 2000)
    sets: int = 200
    seed: int = 14


def run(config: Config) -> xr.Dataset:
    """Fit pure noise, and see where in x the learned function has its energy."""
    random = np.random.default_rng(config.seed)
    inputs = random.uniform(size=(config.sets, config.samples))
    labels = random.standard_normal((config.sets, config.samples, 1))
    shown = np.linspace(0.0, 1.0, 4001)
    shares, curves = np.empty((3, len(config.features), config.sets)), []
    for row, size in enumerate(config.features):
        fine = (np.arange(4 * size) + 0.5) / (4 * size)
        functions = sines(fine, size)
        fits = [fit_sines(sines(inputs[one], size), np.ones(size), labels[one])[:, 0] for one in range(config.sets)]
        curves.append(sines(shown, size) @ fits[0])
        for one, fitted in enumerate(fits):
            near, own = _shares((functions @ fitted) ** 2, fine, inputs[one], reach=1 / size)
            shares[:, row, one] = np.sum(fitted**2), near, own
    return xr.Dataset(
        {name: (("features", "trial"), values) for name, values in zip(("energy", "near", "own"), shares, strict=True)}
        | {"learned": (("features", "x"), np.array(curves)), "labels": ("sample", labels[0, :, 0])},
        coords={"features": list(config.features), "x": shown, "inputs": ("sample", inputs[0])},
    )


def _shares(square: np.ndarray, places: np.ndarray, inputs: np.ndarray, *, reach: float) -> tuple[float, float]:
    """Share of the energy near inputs or their mirror images, and the inputs' own share where these lie apart."""
    square = square / np.sum(square)
    at_data = np.abs(places[:, None] - inputs).min(axis=1) < reach
    at_mirror = np.abs(1 - places[:, None] - inputs).min(axis=1) < reach
    own = square[at_data & ~at_mirror].sum() / square[at_data ^ at_mirror].sum()
    return square[at_data | at_mirror].sum(), own


def _median_error(values: xr.DataArray) -> np.ndarray:
    """Standard error of a median over trials, from the quartiles, as of Gaussian values."""
    low, high = values.quantile([0.25, 0.75], "trial").values
    return np.asarray(1.25 * (high - low) / 1.35 / np.sqrt(values.sizes["trial"]))


def _shrinks(record: xr.Dataset) -> Judgement:
    logs: xr.DataArray = np.log(record["energy"])  # type: ignore[assignment]
    median, error = logs.median("trial").values, _median_error(logs)  # the mean diverges
    listed = ", ".join(f"{value:.3g}" for value in np.exp(median))
    falls = Estimate(np.diff(median), np.hypot(error[1:], error[:-1]), record.sizes["trial"])
    return below(falls, 0.0, note=f"changes of its logarithm; medians {listed} for unit noise")


def _benign(record: xr.Dataset) -> Judgement:
    energy, samples = record["energy"].isel(features=-1), record.sizes["sample"]
    *others, gaussian = samples / (record["features"].values - samples - 1)
    note = (
        "15 %: inputs or mirror images that come close raise it; with 100 and 400 features they dominate "
        f"(Gaussian features would give {', '.join(f'{value:.3g}' for value in others)})"
    )
    median = Estimate(energy.median("trial").values, _median_error(energy), energy.sizes["trial"])
    return equal(median, gaussian, 0.15 * gaussian, note=note)


def _mirrored(record: xr.Dataset) -> Judgement:
    note = "energy at training points beside that at their mirror images 1 − x: sines are odd about ½"
    return corrected(record["own"].isel(features=-1).mean(), 0.5, 1e-9, published=1.0, note=note)


def _picture(record: xr.Dataset) -> Figure:
    """One fit for each number of features."""
    figure, axes = plots.new_figure(columns=record.sizes["features"])
    for ax, size in zip(axes[0], record["features"].values, strict=True):
        learned = record["learned"].sel(features=size)
        ax.plot(record["x"], learned, color=plots.PALETTE[0], linewidth=0.7, label="learned")
        ax.plot(record["inputs"], record["labels"], ".", color=plots.PALETTE[1], label="noise at the samples")
        ax.set(xlabel="x", ylabel="f(x)", ylim=(-4, 4), title=f"{size} features")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    layerwise(figure="1.4"),
    Config(),
    run,
    claims=(
        Claim("fig-1.4-energy", "fitted noise carries less energy the more features there are", _shrinks),
        Claim("fig-1.4-benign", "with 2000 features it is n/(p − n − 1), as if Gaussian", _benign, kind="derived"),
        Claim(
            "fig-1.4-spikes",
            "with 2000 features nearly all of it lies within 1/p of a spike",
            lambda r: above(over_trials(r["near"].isel(features=-1)), 0.85, note="share of the energy"),
        ),
        Claim(
            "fig-1.4-places",
            "the spikes are at the training points only",
            _mirrored,
            layerwise(section="1.6.1"),
        ),
    ),
    picture=_picture,
    smoke={"sets": 24},
    paper={"sets": 2000},
    model="linear model",
)
