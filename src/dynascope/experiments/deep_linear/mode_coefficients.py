"""Equations (5), (6), (7), (14), (17): the coefficients of the one-mode equation against sampled gradients."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.mode_networks import sampled_coefficients
from dynascope.experiments.registry import Experiment
from dynascope.models.mode_equation.model import ModeEquation
from dynascope.records import with_provenance

COLUMNS = ("depth", "amplitude", "singular_value", "label_noise")  # the last cases stand at w = s, for (17)
CASES = (
    (2, 0.3, 1.0, 0.0),
    (2, 0.6, 1.0, 0.4),
    (3, 0.2, 0.7, 0.3),
    (4, 0.6, 1.0, 0.3),
    (4, 0.1, 1.0, 0.0),
    (4, 0.8, 1.3, 0.5),
)
LEARNED = ((2, 0.7, 0.7, 0.5), (3, 1.3, 1.3, 0.5), (4, 1.0, 1.0, 0.3))
TEMPERATURE = 0.005


@dataclass(frozen=True)
class Config:
    """How many samples of (input, label noise) to take at each point."""

    samples: int = 400_000
    seed: int = 3


SCALES = {"smoke": Config(samples=50_000), "laptop": Config(), "paper": Config(samples=2_000_000)}
GRADIENT = Claim("mode-eq5", "deep-linear (5)", "the gradient moves a mode at L (s − w) w^(2(L−1)/L)")
DIFFUSION = Claim("mode-eq7", "deep-linear (7)", "the diffusion of a mode is β L² (2(s − w)² + σ_q²) w^(4(L−1)/L)")
ITO = Claim("mode-eq14", "deep-linear (14)", "the Itô drift is β L(L−1) w^(2(L−2)/L) [(s − w) + σ_q/2]")
ITO_MAIN = Claim("mode-eq6", "deep-linear (6)", "the Itô drift is β L(L−1) w^(2(L−2)/L) [(s − w) + σ_q]")
ZERO = Claim("mode-eq17-zero", "deep-linear (17)", "with label noise the drift vanishes at s + β (L−1) s^(−2/L) σ_q/2")
CORRECTED = "the corrected form is β L(L−1)/2 · (2(s − w)² + σ_q²) · w^((3L−4)/L)"


def run(config: Config) -> xr.Dataset:
    """Sample the noise of one-mode networks at every case."""
    begun = time.perf_counter()
    found: dict[str, list[tuple[float, float]]] = {"drift": [], "diffusion": [], "ito_drift": []}
    for index, (depth, amplitude, s, sigma) in enumerate(CASES + LEARNED):
        sampled = sampled_coefficients(
            depth, amplitude, singular_value=s, label_noise=sigma, samples=config.samples, seed=config.seed + index
        )
        for name, value in sampled.items():
            found[name].append(value)
    columns = dict(zip(COLUMNS, zip(*CASES, *LEARNED, strict=True), strict=True))
    record = xr.Dataset(
        {name: ("case", [value for value, _ in values]) for name, values in found.items()}
        | {f"{name}_error": ("case", [error for _, error in values]) for name, values in found.items()},
        coords={"case": np.arange(len(CASES + LEARNED))}
        | {name: ("case", list(values)) for name, values in columns.items()},
    )
    parameters = {"temperature": TEMPERATURE}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record,
        "ModeEquation",
        parameters,
        options=vars(config),
        seed=config.seed,
        precision="float64",
        wall_time=wall_time,
    )


def _mode(case: tuple[float, ...], **options: Any) -> ModeEquation:
    depth, _, s, sigma = case
    return ModeEquation(depth=int(depth), singular_value=s, label_noise=sigma, **options)


def _predicted(method: str, **options: Any) -> np.ndarray:
    """Coefficients at temperature 1, as they were sampled."""
    modes = [_mode(case, temperature=1.0, **options) for case in CASES + LEARNED]
    return np.array([getattr(mode, method)(case[1]) for mode, case in zip(modes, CASES + LEARNED, strict=True)])


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare sampled with closed coefficients; at w = s the zero of the drift is μ_Ito/κ above s, to first order."""
    ito, error = record["ito_drift"].values, record["ito_drift_error"].values
    learned = [_mode(case, temperature=TEMPERATURE) for case in LEARNED]
    rate = np.array([depth * s ** (2 - 2 / depth) for depth, _, s, _ in LEARNED])
    shift, shift_error = (TEMPERATURE * values[len(CASES) :] / rate for values in (ito, error))
    s = np.array([case[2] for case in LEARNED])
    exact = np.array([float(mode.stationary_moments().drift_zero) for mode in learned])
    printed = np.array([float(mode.stationary_moments("published").drift_zero) for mode in learned])
    tilt = 10 * (exact - s) ** 2  # what is left out by the first order in the temperature
    arguments: dict[str, Any] = {"tolerance": three_errors(error), "standard_error": error, "note": CORRECTED}
    derived = _predicted("ito_drift")
    return (
        GRADIENT.equals(record["drift"].values, _predicted("gradient_drift"), 1e-12, note="rounding"),
        DIFFUSION.equals(
            record["diffusion"].values, _predicted("diffusion"), three_errors(record["diffusion_error"].values)
        ),
        ITO.corrects(ito, derived, published=_predicted("ito_drift", ito="published"), **arguments),
        ITO_MAIN.corrects(ito, derived, published=_predicted("ito_drift", ito="published-6"), **arguments),
        ZERO.corrects(
            s + shift, exact, three_errors(shift_error) + tilt, published=printed, standard_error=shift_error,
            note="it lies at s + β (L−1) σ_q² s^((L−2)/L)/2",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw sampled Itô drift and diffusion over their closed forms."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    shown: dict[str, dict[str, Any]] = {
        "diffusion": {"(7)": {}},
        "ito_drift": {"derived": {}, "(14) as printed": {"ito": "published"}},
    }
    names = {"diffusion": "D/β", "ito_drift": "Itô drift/β"}
    units = {"diffusion": "amplitude²/time", "ito_drift": "amplitude/time"}
    for ax, (name, forms) in zip(axes[0], shown.items(), strict=True):
        for colour, (label, options) in zip(PALETTE, forms.items(), strict=False):
            ax.errorbar(
                _predicted(name, **options), record[name], 3 * record[f"{name}_error"],
                color=colour, marker="o", linestyle="none", label=label,
            )  # fmt: skip
        ends = [float(record[name].min()), float(record[name].max())]
        ax.plot(ends, ends, color="black", linewidth=1, label="agreement")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel(f"{names[name]} by formula ({units[name]})")
        ax.set_ylabel(f"{names[name]} from sampled gradients ({units[name]})")
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Drift, Itô drift and diffusion of a mode from sampled gradients",
    source="deep-linear (5), (6), (7), (14), (17)",
    kind="equation",
    claims=(GRADIENT, DIFFUSION, ITO, ITO_MAIN, ZERO),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
