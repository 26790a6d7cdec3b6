"""deep-linear (5)–(7), (14), (17): Drift, Itô drift and diffusion of a mode from sampled gradients.

One mode alone; (5), (6) and (7) count as evidence where several modes are sampled, in `aligned_modes`.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, corrected, equal
from dynascope.experiments.deep_linear.drawing import error_bars
from dynascope.experiments.deep_linear.mode_networks import sampled_coefficients
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import deep_linear
from dynascope.models.mode_equation import ModeEquation
from dynascope.statistics.errors import Estimate

COLUMNS = ("depth", "amplitude", "singular_value", "label_noise")
CASES: tuple[tuple[int, float, float, float], ...] = (
    (2, 0.3, 1.0, 0.0),
    (2, 0.6, 1.0, 0.4),
    (3, 0.2, 0.7, 0.3),
    (4, 0.6, 1.0, 0.3),
    (4, 0.1, 1.0, 0.0),
    (4, 0.8, 1.3, 0.5),
    (2, 0.7, 0.7, 0.5),
    (3, 1.3, 1.3, 0.5),
    (4, 1.0, 1.0, 0.3),
)
LEARNED = slice(6, None)  # cases at w = s, for (17)
TEMPERATURE = 0.005


@dataclass(frozen=True)
class Config:
    """How many samples of (input, label noise) to take at each point."""

    samples: int = 400_000
    seed: int = 3


def run(config: Config) -> xr.Dataset:
    """Sample the noise of one-mode networks at every case."""
    found = [
        sampled_coefficients(
            depth, amplitude, singular_value=s, label_noise=sigma, samples=config.samples, seed=config.seed + index
        )
        for index, (depth, amplitude, s, sigma) in enumerate(CASES)
    ]
    columns = zip(COLUMNS, zip(*CASES, strict=True), strict=True)
    record = xr.Dataset(coords={name: ("case", list(column)) for name, column in columns})
    for name in found[0]:
        record[name] = ("case", [float(each[name].mean) for each in found])
        record[f"{name}_error"] = ("case", [float(each[name].error) for each in found])
    return record.assign_coords(case=np.arange(len(CASES)))


def _modes(temperature: float, ito: str = "derived") -> list[ModeEquation]:
    return [ModeEquation(depth, s, temperature, label_noise=sigma, ito=ito) for depth, _, s, sigma in CASES]


def _predicted(method: str, ito: str = "derived") -> np.ndarray:
    """Coefficients at temperature 1, as they were sampled."""
    modes = _modes(1.0, ito)
    return np.array([getattr(mode, method)(case[1]) for mode, case in zip(modes, CASES, strict=True)])


def _ito(record: xr.Dataset, form: str) -> Judgement:
    ito, printed = recorded(record, "ito_drift"), _predicted("ito_drift", form)
    note = "the corrected form is β L(L−1)/2 · (2(s − w)² + σ_q²) · w^((3L−4)/L)"
    return corrected(ito, _predicted("ito_drift"), published=printed, error=ito.error, note=note)


def _zero(record: xr.Dataset) -> Judgement:
    """At w = s the zero of the drift is μ_Ito/κ above s, to first order."""
    rate = np.array([depth * s ** (2 - 2 / depth) for depth, _, s, _ in CASES[LEARNED]])
    shift, error = (TEMPERATURE * values[LEARNED] / rate for values in recorded(record, "ito_drift"))
    s, modes = np.array([case[2] for case in CASES[LEARNED]]), _modes(TEMPERATURE)[LEARNED]
    exact, printed = (
        np.array([float(mode.stationary_moments(form).drift_zero) for mode in modes]) for form in ("exact", "published")
    )
    tilt = 10 * (exact - s) ** 2  # what is left out by the first order in the temperature
    note = "it lies at s + β (L−1) σ_q² s^((L−2)/L)/2"
    return corrected(Estimate(s + shift, error), exact, tilt, published=printed, error=error, note=note)


def _draw(record: xr.Dataset, ax: Axes, name: str, label: str, forms: dict[str, str]) -> None:
    """A sampled coefficient over its closed forms."""
    for colour, (form, ito) in zip(plots.PALETTE, forms.items(), strict=False):
        error_bars(ax, _predicted(name, ito), recorded(record, name), colour, form)
    ends = [float(record[name].min()), float(record[name].max())]
    ax.plot(ends, ends, color="black", linewidth=1, label="agreement")
    unit = "amplitude²/time" if name == "diffusion" else "amplitude/time"
    ax.set(xlabel=f"{label} by formula ({unit})", ylabel=f"{label} from sampled gradients ({unit})")
    ax.set(xscale="log", yscale="log")


def _draw_diffusion(record: xr.Dataset, ax: Axes) -> None:
    _draw(record, ax, "diffusion", "D/β", {"(7)": "derived"})


def _draw_ito(record: xr.Dataset, ax: Axes) -> None:
    _draw(record, ax, "ito_drift", "Itô drift/β", {"derived": "derived", "(14) as printed": "published"})


EXPERIMENT = Experiment(
    deep_linear(equation="5–7, 14, 17"),
    Config(),
    run,
    claims=(
        Claim(
            "mode-eq5",
            "the gradient moves a mode at L (s − w) w^(2(L−1)/L)",
            lambda record: equal(record["drift"], _predicted("gradient_drift"), 1e-12, note="rounding"),
            deep_linear(equation="5"),
            kind="own",
        ),
        Claim(
            "mode-eq7",
            "the diffusion of a mode is β L² (2(s − w)² + σ_q²) w^(4(L−1)/L)",
            lambda record: equal(recorded(record, "diffusion"), _predicted("diffusion")),
            deep_linear(equation="7"),
            kind="own",
        ),
        Claim(
            "mode-eq14",
            "the Itô drift is β L(L−1) w^(2(L−2)/L) [(s − w) + σ_q/2]",
            lambda record: _ito(record, "published"),
            deep_linear(equation="14"),
        ),
        Claim(
            "mode-eq6",
            "the Itô drift is β L(L−1) w^(2(L−2)/L) [(s − w) + σ_q]",
            lambda record: _ito(record, "published-6"),
            deep_linear(equation="6"),
            kind="own",
        ),
        Claim(
            "mode-eq17-zero",
            "with label noise the drift vanishes at s + β (L−1) s^(−2/L) σ_q/2",
            _zero,
            deep_linear(equation="17"),
            kind="own",  # counted once, as eq17-network
        ),
    ),
    picture=Panels(_draw_diffusion, _draw_ito),
    smoke={"samples": 50_000},
    paper={"samples": 2_000_000},
    model="ModeEquation",
)
