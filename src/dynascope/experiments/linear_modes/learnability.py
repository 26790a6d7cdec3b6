"""Equation (1.35): how much of each mode few samples teach, and the loss to expect, against Monte Carlo."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import learnability
from dynascope.records import with_provenance

CASES = ("power law", "power law, ridge", "two levels", "two levels, ridge")


@dataclass(frozen=True)
class Config:
    """Gaussian features with a power-law or a two-level spectrum, with and without ridge."""

    samples: int = 60
    features: int = 240
    trials: int = 2000
    exponent: float = 1.5
    low: float = 0.2  # second level of the two-level spectrum
    seed: int = 135


SCALES = {"smoke": Config(samples=40, features=120, trials=300), "laptop": Config(), "paper": Config(200, 1000, 5000)}
LEARNED = Claim("eq1.35-learnability", "layerwise (1.35)", "of mode k the share ρ_k/(ρ_k + κ) is learned on average")
SUM = Claim("eq1.35-sum", "layerwise (1.35)", "without a ridge the shares add up to the number of samples")
SIGNAL = Claim("eq1.35-signal-loss", "layerwise reference [24]", "without noise the loss is E Σ (1 − L_k)² ⟨e_k|f*⟩²/2")
NOISE = Claim("eq1.35-noise-loss", "layerwise reference [24]", "noise adds σ² (E − 1)/2, E = n/(n − Σ L_k²)")


def run(config: Config) -> xr.Dataset:
    """Fit many random training sets by the minimum-norm or ridge solution."""
    begun = time.perf_counter()
    modes, size = np.arange(1, config.features + 1.0), config.features
    target = np.zeros(size)
    target[:3] = 1.0, -0.5, 0.5
    level = np.where(modes <= config.samples / 4, 1.0, config.low)
    spectra = np.repeat([modes**-config.exponent, level], 2, axis=0)
    ridges = 0.05 * config.samples * spectra.mean(axis=-1) * np.array([0.0, 1.0, 0.0, 1.0])
    parts = [_fits(config, *case, target) for case in zip(spectra, ridges, strict=True)]
    measured = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    theory = learnability(spectra, samples=config.samples, ridge=ridges, noise=1.0, target=target)
    record = theory.drop_vars("ridge").rename(grid_0="case").assign_coords(case=list(CASES))
    groups = _groups(config)
    shares = theory["learnability"].values
    record["share"] = (("case", "group"), np.stack([shares[:, g].mean(axis=-1) for g in groups], axis=-1))
    for name, values in measured.items():
        dims = ("case", "group") if values.ndim == 2 else ("case",)
        record[name] = (dims, values)
    record["samples_used"] = float(config.samples)
    return with_provenance(
        record, "learnability", asdict(config), options={}, seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def _groups(config: Config) -> list[slice]:
    """Neighbouring modes whose shares are averaged: first, middle, last."""
    edge = config.samples // 4
    return [slice(0, 3), slice(3, edge), slice(edge, 2 * config.samples), slice(2 * config.samples, config.features)]


def _fits(config: Config, spectrum: np.ndarray, ridge: float, target: np.ndarray) -> dict[str, Any]:
    """Mean and standard error over training sets; the same draws for every case."""
    random = np.random.default_rng(config.seed)
    shares, signal, noise = [], [], []
    for _ in range(config.trials):
        functions = random.standard_normal((config.samples, config.features))  # e_k(x_i)
        scaled = functions * np.sqrt(spectrum)
        kernel = scaled @ scaled.T + ridge * np.eye(config.samples)
        fit = np.linalg.solve(kernel, scaled * np.sqrt(spectrum))  # labels → coefficients ⟨e_k|f⟩, (sample, mode)
        diagonal = np.einsum("im,im->m", fit, functions)
        shares.append([diagonal[group].mean() for group in _groups(config)] + [diagonal.sum()])
        signal.append(np.sum((fit.T @ (functions @ target) - target) ** 2) / 2)
        noise.append(np.sum(fit**2) / 2)
    split, root = np.array(shares), np.sqrt(config.trials)
    return {
        "share_measured": split[:, :-1].mean(axis=0),
        "share_error": split[:, :-1].std(axis=0, ddof=1) / root,
        "sum_measured": split[:, -1].mean(),
        "signal_measured": np.mean(signal),
        "signal_error": np.std(signal, ddof=1) / root,
        "noise_measured": np.mean(noise),
        "noise_error": np.std(noise, ddof=1) / root,
    }


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Within three standard errors and what finite n leaves: 1/n of a share or of the noise, 4/n of the signal."""
    n = float(record["samples_used"])
    bare = record.isel(case=[0, 2])
    return (
        LEARNED.equals(
            record["share_measured"].values, record["share"].values, three_errors(record["share_error"].values) + 1 / n,
            note="means over groups of modes for four spectra; 1/n for the finite number of samples",
        ),
        SUM.equals(bare["sum_measured"].values, n, 1e-6 * n, note="exact for every training set"),
        SIGNAL.equals(
            record["signal_measured"].values, record["signal_loss"].values,
            three_errors(record["signal_error"].values) + 4 / n * record["signal_loss"].values,
            note="4/n of it for the finite number of samples",
        ),
        NOISE.equals(
            record["noise_measured"].values, record["noise_loss"].values,
            three_errors(record["noise_error"].values) + record["noise_loss"].values / n,
            note="1/n of it for the finite number of samples",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw learnability over modes with the measured shares of groups, and the losses."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    for colour, case in zip(PALETTE, record["case"].values, strict=False):
        one = record.sel(case=case)
        axes[0, 0].errorbar(
            one["share"], one["share_measured"], 3 * one["share_error"], fmt="o", color=colour, label=str(case)
        )
        axes[0, 1].errorbar(one["signal_loss"], one["signal_measured"], 3 * one["signal_error"], fmt="o", color=colour)
        axes[0, 1].errorbar(one["noise_loss"], one["noise_measured"], 3 * one["noise_error"], fmt="s", color=colour)
    axes[0, 0].set_xlabel("learnability of a group of modes, theory")
    axes[0, 0].set_ylabel("measured (bars: 3 standard errors)")
    axes[0, 0].legend(frameon=False, fontsize="small")
    axes[0, 1].set_xlabel("loss in theory (circles: signal, squares: noise)")
    axes[0, 1].set_ylabel("measured")
    axes[0, 1].set_xscale("log")
    axes[0, 1].set_yscale("log")
    for ax in axes[0]:
        ax.axline((0.1, 0.1), (1, 1), color="grey", linewidth=0.8)
    return figure


EXPERIMENT = Experiment(
    title="How much of each mode few samples teach",
    source="layerwise (1.35)",
    kind="equation",
    claims=(LEARNED, SUM, SIGNAL, NOISE),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
