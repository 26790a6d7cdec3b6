"""layerwise (1.35): How much of each mode few samples teach.

And the loss to expect, against Monte Carlo.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import layerwise
from dynascope.models.linear_modes import learnability
from dynascope.statistics.errors import Estimate, over_trials

CASES = ("power law", "power law, ridge", "two levels", "two levels, ridge")
_THEORY = {"share": "share", "signal": "signal_loss", "noise": "noise_loss"}  # what is measured: its theory
_OVERVIEW = layerwise(place="reference [24]")


@dataclass(frozen=True)
class Config:
    """Gaussian features with a power-law or a two-level spectrum, with and without ridge."""

    samples: int = 60
    features: int = 240
    trials: int = 2000
    exponent: float = 1.5
    low: float = 0.2  # second level of the two-level spectrum
    seed: int = 135


def run(config: Config) -> xr.Dataset:
    """Fit many random training sets by the minimum-norm or ridge solution."""
    modes, size = np.arange(1, config.features + 1.0), config.features
    target = np.zeros(size)
    target[:3] = 1.0, -0.5, 0.5
    level = np.where(modes <= config.samples / 4, 1.0, config.low)
    spectra = np.repeat([modes**-config.exponent, level], 2, axis=0)
    ridges = 0.05 * config.samples * spectra.mean(axis=-1) * np.array([0.0, 1.0, 0.0, 1.0])
    theory = learnability(spectra, samples=config.samples, ridge=ridges, noise=1.0, target=target)
    record = theory.drop_vars("ridge").rename(grid_0="case").assign_coords(case=list(CASES))
    record.attrs = {}  # they describe the theory alone
    shares = theory["learnability"].values
    record["share"] = (("case", "group"), np.stack([shares[:, g].mean(axis=-1) for g in _groups(config)], axis=-1))
    fits = [_fits(config, *case, target) for case in zip(spectra, ridges, strict=True)]
    for name in fits[0]:
        values = np.stack([fit[name] for fit in fits])
        record[name] = (("case", "group")[: values.ndim], values)
    record["samples_used"] = float(config.samples)
    return record


def _groups(config: Config) -> list[slice]:
    """Neighbouring modes whose shares are averaged: first, middle, last."""
    edge = config.samples // 4
    return [slice(0, 3), slice(3, edge), slice(edge, 2 * config.samples), slice(2 * config.samples, config.features)]


def _fits(config: Config, spectrum: np.ndarray, ridge: float, target: np.ndarray) -> dict[str, np.ndarray]:
    """Mean and standard error over training sets; the same draws for every case."""
    random = np.random.default_rng(config.seed)
    shares, sums, signal, noise = [], [], [], []
    for _ in range(config.trials):
        functions = random.standard_normal((config.samples, config.features))  # e_k(x_i)
        scaled = functions * np.sqrt(spectrum)
        kernel = scaled @ scaled.T + ridge * np.eye(config.samples)
        fit = np.linalg.solve(kernel, scaled * np.sqrt(spectrum))  # labels → coefficients ⟨e_k|f⟩, (sample, mode)
        diagonal = np.einsum("im,im->m", fit, functions)
        shares.append([diagonal[group].mean() for group in _groups(config)])
        sums.append(diagonal.sum())
        signal.append(np.sum((fit.T @ (functions @ target) - target) ** 2) / 2)
        noise.append(np.sum(fit**2) / 2)
    found = {"sum_measured": np.asarray(np.mean(sums))}
    for name, values in (("share", shares), ("signal", signal), ("noise", noise)):
        found[f"{name}_measured"], found[f"{name}_error"] = over_trials(np.array(values), axis=0)
    return found


def _agrees(record: xr.Dataset, name: str, allowed: float, note: str) -> Judgement:
    """Hold a mean over training sets against its theory; finite n leaves `allowed`/n, of a loss relative to it."""
    measured = Estimate(record[f"{name}_measured"].values, record[f"{name}_error"].values)
    theory = record[_THEORY[name]].values
    bound = allowed / float(record["samples_used"]) * (1.0 if name == "share" else theory)
    return equal(measured, theory, bound, note=f"{note} for the finite number of samples")


def _sums(record: xr.Dataset) -> Judgement:
    samples = float(record["samples_used"])
    return equal(record["sum_measured"].isel(case=[0, 2]), samples, 1e-6 * samples, note="exact for every training set")


def _draw(record: xr.Dataset, ax: Axes, **markers: str) -> None:
    """Measured over expected values, each quantity with its marker."""
    for colour, case in zip(plots.PALETTE, record["case"].values, strict=False):
        one = record.sel(case=case)
        for name, marker in markers.items():
            theory, measured, bar = (one[each] for each in (_THEORY[name], f"{name}_measured", f"{name}_error"))
            label = str(case) if name == "share" else None
            ax.errorbar(theory, measured, 3 * bar, fmt=marker, color=colour, label=label)
    ax.axline((0.1, 0.1), (1, 1), color="grey", linewidth=0.8)


def _draw_shares(record: xr.Dataset, ax: Axes) -> None:
    _draw(record, ax, share="o")
    ax.set(xlabel="learnability of a group of modes, theory", ylabel="measured (bars: 3 standard errors)")


def _draw_losses(record: xr.Dataset, ax: Axes) -> None:
    _draw(record, ax, signal="o", noise="s")
    ax.set(xlabel="loss in theory (circles: signal, squares: noise)", ylabel="measured", xscale="log", yscale="log")


EXPERIMENT = Experiment(
    layerwise(equation="1.35"),
    Config(),
    run,
    claims=(
        Claim(
            "eq1.35-learnability",
            "of mode k the share ρ_k/(ρ_k + κ) is learned on average",
            lambda r: _agrees(r, "share", 1.0, "means over groups of modes for four spectra; 1/n"),
        ),
        Claim("eq1.35-sum", "without a ridge the shares add up to the number of samples", _sums),
        Claim(
            "eq1.35-signal-loss",
            "without noise the loss is E Σ (1 − L_k)² ⟨e_k|f*⟩²/2",
            lambda r: _agrees(r, "signal", 4.0, "4/n of it"),
            _OVERVIEW,
            kind="derived",
        ),
        Claim(
            "eq1.35-noise-loss",
            "noise adds σ² (E − 1)/2, E = n/(n − Σ L_k²)",
            lambda r: _agrees(r, "noise", 1.0, "1/n of it"),
            _OVERVIEW,
            kind="derived",
        ),
    ),
    picture=Panels(_draw_shares, _draw_losses),
    smoke={"samples": 40, "features": 120, "trials": 300},
    paper={"samples": 200, "features": 1000, "trials": 5000},
    model="learnability",
)
