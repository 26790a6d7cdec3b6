"""deep-linear (4)–(7), Proposition 3.5: Modes on balanced, aligned weights.

Drift and diffusion of the modes, and the erratum of (6).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, corrected, equal
from dynascope.experiments.deep_linear.drawing import error_bars
from dynascope.experiments.deep_linear.sampling import covariance_with_error, mode_responses, sample_gradients
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import Estimate

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


def _networks() -> list[DeepLinear]:
    return [DeepLinear(depth, WIDTH, TEACHER, learning_rate=1.0, label_noise=noise) for depth, _, noise in CASES]


def run(config: Config) -> xr.Dataset:
    """Let single samples act on the modes of each case."""
    rows = []
    for index, (net, (_, amplitude, _)) in enumerate(zip(_networks(), CASES, strict=True)):
        weights = net.aligned_weights(amplitude)
        drawn = sample_gradients(net, weights, samples=config.samples, seed=config.seed + index)
        first, second = mode_responses(net, weights, [g - g.mean(axis=0) for g in drawn])
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
    dims = ("case", "mode", "other_mode")
    record = xr.Dataset({name: (dims[: rows[0][name].ndim + 1], [row[name] for row in rows]) for name in rows[0]})
    return record.assign_coords(case=[f"L={d}, w={a}, σ={s:g}" for d, a, s in CASES])


def _with_forms(record: xr.Dataset) -> xr.Dataset:
    """Add the closed forms of every case, (case, mode): (5), (6) derived, printed, and of a mode alone, (7)."""
    forms: dict[str, list[np.ndarray]] = {"ito": [], "ito_printed": [], "ito_alone": [], "diffusion": [], "speed": []}
    for net, (depth, amplitude, _) in zip(_networks(), CASES, strict=True):
        w, s = np.array(amplitude), net.singular_values
        alone = [net.aligned_ito_drift(np.where(np.arange(w.size) == mode, w, 0.0))[mode] for mode in range(w.size)]
        forms["ito"].append(net.aligned_ito_drift(w))
        forms["ito_printed"].append(net.aligned_ito_drift(w, published=True))
        forms["ito_alone"].append(np.array(alone))
        forms["diffusion"].append(net.predicted_diffusion(w))
        forms["speed"].append(depth * (s - w) * w ** (2 - 2 / depth))
    return record.assign({f"{name}_form": (("case", "mode"), values) for name, values in forms.items()})


def _own_diffusion(record: xr.Dataset) -> Estimate:
    """Diffusion of each mode, without that between modes, (case, mode)."""
    modes = np.arange(record.sizes["mode"])
    return recorded(record, "diffusion")[:, modes, modes]


def _ito(seen: xr.Dataset) -> Judgement:
    ito, printed = recorded(seen, "ito"), seen["ito_printed_form"].values.ravel()
    note = "β [L(L−1)/2 (2 (s − w)² + σ_q²) w^{(3L−4)/L} + terms of other modes]; see docs/deep-linear.md"
    return corrected(ito, seen["ito_form"], published=printed, error=ito.error, note=note)


def _coupled(seen: xr.Dataset) -> Judgement:
    ito, form, alone = recorded(seen, "ito"), seen["ito_form"].values, seen["ito_alone_form"].values
    chosen = np.abs(form - alone) > 5 * ito.error  # where the other modes matter enough to be seen
    ito = ito[chosen]
    note = "the Itô drift of a mode holds terms of all others; printed: none"
    return corrected(ito, form[chosen], published=alone[chosen], error=ito.error, note=note)


def _cross(seen: xr.Dataset) -> Judgement:
    different = ~np.eye(seen.sizes["mode"], dtype=bool)
    return equal(recorded(seen, "diffusion")[:, different], 0.0)


def _draw(record: xr.Dataset, ax: Axes, *, name: str) -> None:
    """Measured Itô drift beside the derived and the printed one, or diffusion beside (7)."""
    seen, ito = _with_forms(record), name == "ito"
    place = np.arange(seen["ito"].size)
    error_bars(ax, place, recorded(seen, "ito") if ito else _own_diffusion(seen), plots.PALETTE[0], "measured")
    form = seen[f"{name}_form"].values.ravel()
    ax.plot(place, form, "_", color="black", markersize=14, label="derived" if ito else "(7)")
    if ito:
        ax.plot(place, seen["ito_printed_form"].values.ravel(), "x", color=plots.PALETTE[1], label="printed (6)")
    ax.set_xticks(place[1 :: seen.sizes["mode"]], [f"L={d}\nσ={s:g}" for d, _, s in CASES])
    ax.set(xlabel="case, modes 1–3 of each", ylabel="Itô drift / β" if ito else "diffusion / β", yscale="log")


EXPERIMENT = Experiment(
    deep_linear(equation="4–7", theorem="Proposition 3.5"),
    Config(),
    run,
    read=_with_forms,
    claims=(
        Claim(
            "eq5-gradient",
            "the gradient moves a mode by L (s − w) w^{2(L−1)/L}",
            lambda seen: equal(recorded(seen, "speed"), seen["speed_form"]),
            deep_linear(equation="5"),
        ),
        Claim(
            "eq6-ito",
            "the noise moves a mode by β L(L−1) w^{2(L−2)/L} ((s − w) + σ_q)",
            _ito,
            deep_linear(equation="6"),
        ),
        Claim(
            "eq4-independent",
            "each mode evolves independently of the others",
            _coupled,
            deep_linear(theorem="Proposition 3.5"),
        ),
        Claim(
            "eq7-diffusion",
            "D_α = β L² (2 (s − w)² + σ_q²) w^{4(L−1)/L}",
            lambda seen: equal(_own_diffusion(seen), seen["diffusion_form"], rival=0.0),
            deep_linear(equation="7"),
        ),
        Claim("eq7-cross", "on aligned weights there is no diffusion between modes", _cross, deep_linear(section="E")),
    ),
    picture=Panels(*(partial(_draw, name=name) for name in ("ito", "diffusion")), width=5.6),
    smoke={"samples": 150_000},
    paper={"samples": 4_000_000},
    model="DeepLinear",
)
