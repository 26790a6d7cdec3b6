"""Proposition 3.5: drift and diffusion of the modes on balanced, aligned weights, and the erratum of (6)."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.sampling import covariance_with_error, mode_responses, sample_gradients
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.records import with_provenance

TEACHER, WIDTH = (1.0, 0.7, 0.4), 4
# depth, amplitudes, label noise
CASES = (
    (2, (0.6, 0.3, 0.1), 0.3),
    (2, (0.3, 0.5, 0.2), 0.0),
    (3, (0.5, 0.4, 0.2), 0.5),
    (4, (0.6, 0.3, 0.1), 0.3),
    (4, (0.7, 0.2, 0.3), 0.0),
    (5, (0.6, 0.5, 0.3), 0.2),
)


@dataclass(frozen=True)
class Config:
    """Gradients of single samples on balanced, aligned weights, at learning rate 1."""

    samples: int = 600_000
    seed: int = 5


SCALES = {"smoke": Config(samples=150_000), "laptop": Config(), "paper": Config(samples=4_000_000)}
SPEED = Claim("eq5-gradient", "deep-linear (5)", "the gradient moves a mode by L (s − w) w^{2(L−1)/L}")
ITO = Claim("eq6-ito", "deep-linear (6)", "the noise moves a mode by β L(L−1) w^{2(L−2)/L} ((s − w) + σ_q)")
COUPLED = Claim("eq4-independent", "deep-linear Proposition 3.5", "each mode evolves independently of the others")
DIFFUSION = Claim("eq7-diffusion", "deep-linear (7)", "D_α = β L² (2 (s − w)² + σ_q²) w^{4(L−1)/L}")
CROSS = Claim("eq7-cross", "deep-linear Appendix E", "on aligned weights there is no diffusion between modes")


def run(config: Config) -> xr.Dataset:
    """Let single samples act on the modes of each case."""
    begun = time.perf_counter()
    rows = []
    for index, (depth, amplitude, label_noise) in enumerate(CASES):
        net = DeepLinear(depth, WIDTH, TEACHER, learning_rate=1.0, label_noise=label_noise)
        weights = net.aligned_weights(amplitude)
        drawn = sample_gradients(net, weights, samples=config.samples, seed=config.seed + index)
        noise = [g - g.mean(axis=0) for g in drawn]
        first, second = mode_responses(net, weights, noise)
        covariance, error = covariance_with_error(first)
        rows.append(
            {
                "ito": second.mean(axis=0),
                "ito_error": second.std(axis=0) / np.sqrt(len(second)),
                "diffusion": covariance,
                "diffusion_error": error,
                "speed": -mode_responses(net, weights, drawn)[0].mean(axis=0),
                "speed_error": first.std(axis=0) / np.sqrt(len(first)),
            }
        )
    dims = {1: ("case", "mode"), 2: ("case", "mode", "other_mode")}
    record = xr.Dataset({name: (dims[rows[0][name].ndim], np.stack([row[name] for row in rows])) for name in rows[0]})
    record = record.assign_coords(case=[f"L={d}, w={a}, σ={s:g}" for d, a, s in CASES])
    return with_provenance(
        record, "DeepLinear", {"width": WIDTH, "teacher": TEACHER}, options=vars(config), seed=config.seed,
        precision="float64", wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def _forms() -> dict[str, np.ndarray]:
    """Closed forms of every case, (case, mode)."""
    found: dict[str, list[np.ndarray]] = {"ito": [], "printed": [], "own": [], "diffusion": [], "speed": []}
    for depth, amplitude, label_noise in CASES:
        net = DeepLinear(depth, WIDTH, TEACHER, learning_rate=1.0, label_noise=label_noise)
        w, s = np.array(amplitude), net.singular_values
        found["ito"].append(net.aligned_ito_drift(w))
        found["printed"].append(net.aligned_ito_drift(w, published=True))
        alone = [net.aligned_ito_drift(np.where(np.arange(3) == mode, w, 0.0))[mode] for mode in range(3)]
        found["own"].append(np.array(alone))
        found["diffusion"].append(net.predicted_diffusion(w))
        found["speed"].append(depth * (s - w) * w ** (2 - 2 / depth))
    return {name: np.stack(values) for name, values in found.items()}


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare with (5), (6) and (7), and with what a mode would do alone."""
    forms, modes = _forms(), np.arange(record.sizes["mode"])
    ito, error = record["ito"].values, record["ito_error"].values
    chosen = np.abs(forms["ito"] - forms["own"]) > 5 * error  # where the other modes matter enough to be seen
    spread, spread_error = record["diffusion"].values, record["diffusion_error"].values
    beside = ~np.eye(len(modes), dtype=bool)
    speed_error = record["speed_error"].values
    return (
        SPEED.equals(record["speed"].values, forms["speed"], three_errors(speed_error)),
        ITO.corrects(
            ito, forms["ito"], three_errors(error), published=forms["printed"].ravel(), standard_error=error.ravel(),
            note="β [L(L−1)/2 (2 (s − w)² + σ_q²) w^{(3L−4)/L} + terms of other modes]; see docs/deep-linear.md",
        ),
        COUPLED.corrects(
            ito[chosen], forms["ito"][chosen], three_errors(error[chosen]), published=forms["own"][chosen],
            standard_error=error[chosen], note="the Itô drift of a mode holds terms of all others; printed: none",
        ),
        DIFFUSION.equals(
            spread[:, modes, modes], forms["diffusion"], three_errors(spread_error[:, modes, modes]),
            rival=0.0, standard_error=spread_error[:, modes, modes],
        ),
        CROSS.equals(spread[:, beside], 0.0, three_errors(spread_error[:, beside])),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the measured Itô drift beside the derived and the printed one, and the diffusion beside (7)."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    forms, modes = _forms(), np.arange(record.sizes["mode"])
    figure, (row,) = new_figure(columns=2, width=5.6)
    place = np.arange(record["ito"].size)
    own = {name: record[name].values[:, modes, modes] for name in ("diffusion", "diffusion_error")}
    panels = (
        ("ito", record["ito"].values, record["ito_error"].values),
        ("diffusion", own["diffusion"], own["diffusion_error"]),
    )
    for ax, (name, values, error) in zip(row, panels, strict=True):
        ax.errorbar(
            place, values.ravel(), 3 * error.ravel(), color=PALETTE[0], marker="o", linestyle="none", label="measured"
        )
        ax.plot(
            place, forms[name].ravel(), "_", color="black", markersize=14, label="derived" if name == "ito" else "(7)"
        )
        if name == "ito":
            ax.plot(place, forms["printed"].ravel(), "x", color=PALETTE[1], label="printed (6)")
        ax.set_yscale("log")
        ax.set_xticks(place[1 :: len(modes)], [f"L={d}\nσ={s:g}" for d, _, s in CASES])
        ax.set_xlabel("case, modes 1–3 of each")
        ax.set_ylabel("Itô drift / β" if name == "ito" else "diffusion / β")
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Modes on balanced, aligned weights",
    source="deep-linear Proposition 3.5, (4)–(7)",
    kind="equation",
    claims=(SPEED, ITO, COUPLED, DIFFUSION, CROSS),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
