"""layerwise Figure 4.2: Scaling laws in time, data and parameters.

Power laws of the loss (Table 4.1), read off gradient descent.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import layerwise
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.scaling import estimate_exponent
from dynascope.models.parameters import grid
from dynascope.statistics.errors import Estimate, over_trials

LABELS = {"time": "time T (training steps)", "data": "data D (samples)", "parameters": "parameters N (skills)"}
ALPHAS = (0.3, 0.6, 0.9)
_OTHER = {"time": "parameters", "data": "parameters", "parameters": "time"}  # another row of the table
_FORMS = {"time": "−α/(α+1)", "data": "−α/(α+1)", "parameters": "−α"}


@dataclass(frozen=True)
class Config:
    """Target, initial strength and learning rate of the figure (settings: S = 1, R(0) = 0.01, η = 1); all are trained.

    Data sets are learned with η = 0.95, just below what no data set can make diverge.
    """

    skills: int = 100_000
    steps: int = 5_000
    samples: tuple[int, ...] = (30, 60, 125, 250, 500)
    trials: int = 1600
    known: tuple[int, ...] = (30, 50, 90, 160, 280)
    seed: int = 42


def run(config: Config) -> xr.Dataset:
    """Train at every α, once for each resource that is short."""
    whole, careful = (
        Multilinear(config.skills, **grid(skill_exponent=ALPHAS), learning_rate=rate) for rate in (1.0, 0.95)
    )
    moments = np.unique(np.geomspace(100, config.steps, 12).round())
    in_time = whole.simulate(config.steps, 0, 1, save_points=moments)["loss"].isel(trial=0).values
    in_data = np.stack([_after_data(careful, size, config) for size in config.samples], axis=-1)
    in_parameters = np.stack([_after_skills(whole, known) for known in config.known], axis=-1)
    parts = (
        _laws(whole, "time", moments, in_time),
        _laws(careful, "data", np.array(config.samples, float), in_data),
        _laws(whole, "parameters", np.array(config.known, float), in_parameters),
    )
    return xr.merge(parts)


def _after_data(model: Multilinear, size: int, config: Config) -> np.ndarray:
    """Losses (skill_exponent, trial) once every skill that occurs among `size` samples is learned."""
    done = model.simulate(12 * size, 0, config.trials, data=size, seed=config.seed + size, save_points=2)
    return np.asarray(done["loss"].isel(time=-1).values)


def _after_skills(model: Multilinear, known: int) -> np.ndarray:
    """Losses (skill_exponent,) once the first `known` skills are learned."""
    slowest = float(model.frequency(known).min())
    done = model.simulate(int(8 / slowest), 0, 1, parameters=known, save_points=2)
    return np.asarray(done["loss"].isel(time=-1, trial=0).values)


def _laws(model: Multilinear, name: str, amounts: np.ndarray, losses: np.ndarray) -> xr.Dataset:
    """Losses (skill_exponent, [trial,] amount), their law, and exponents fitted with and without absent skills."""
    fits = [estimate_exponent(amounts, *each) for each in zip(losses, model.absent_loss(name), strict=True)]
    trials = ("trial",) if losses.ndim == 3 else ()
    values: dict[str, Any] = {
        "loss": (("skill_exponent", *trials, name), losses),
        "law": (("skill_exponent", name), model.scaling_law(name, amounts)),
        "plain": (("skill_exponent", name), model.scaling_law(name, amounts, finite=False)),
        "fit": ("skill_exponent", [float(fit["exponent"]) for fit in fits]),
        "fit_error": ("skill_exponent", [float(fit["standard_error"]) for fit in fits]),
        "slope": ("skill_exponent", [float(estimate_exponent(amounts, loss)["exponent"]) for loss in losses]),
        "exponent": ("skill_exponent", model.exponent(name)),
    }
    coordinates = {"skill_exponent": list(ALPHAS), name: amounts}
    return xr.Dataset({f"{name}_{key}": value for key, value in values.items()}, coords=coordinates)


def _exponents(record: xr.Dataset, name: str) -> Judgement:
    fit, expected = recorded(record, f"{name}_fit"), record[f"{name}_exponent"].values
    slopes = ", ".join(f"{slope:.3f}" for slope in record[f"{name}_slope"].values)
    note = f"fits of the loss plus that of absent skills (C.2); without it {slopes}"
    rival = record[f"{_OTHER[name]}_exponent"]
    if name == "data":  # 1 %: the law holds up to terms of order 1/D
        return equal(fit, expected, 0.01 * abs(expected), rival=rival, note=note)
    return equal(fit.mean, expected, 0.02 * abs(expected), rival=rival, error=0.0, note=note)


def _prefactors(record: xr.Dataset) -> Judgement:
    """Loss over law at the largest amount of each resource where it is furthest from 1, and what is allowed there."""
    worst = []
    for name in LABELS:
        last = record.isel({name: -1})
        loss, law = last[f"{name}_loss"], last[f"{name}_law"].values
        # only data are sampled; the laws of data and parameters themselves hold up to terms of order 1/amount
        mean, error = over_trials(loss) if "trial" in loss.dims else Estimate(loss.values, np.zeros_like(law))
        allowed = (2e-3 if name == "time" else 1 / float(last[name])) + 3.8 * error / law
        place = int(np.argmax(abs(mean / law - 1) / allowed))
        worst.append((mean[place] / law[place], allowed[place]))
    ratio, allowed = np.transpose(worst)
    note = "trained loss over the law, at the largest amount and worst α, in time, data and parameters"
    return equal(ratio, 1.0, allowed, note=note)


def _steeper(record: xr.Dataset) -> Judgement:
    small = record.sel(skill_exponent=0.3)
    plain, table = ([float(small[f"{name}_{kind}"]) for name in LABELS] for kind in ("slope", "exponent"))
    return below(plain, table, 0.01, note="fits of the plain power law, in time, data and parameters")


def _draw(record: xr.Dataset, ax: Axes, name: str) -> None:
    """Trained losses over the corrected and the plain power law."""
    for colour, alpha in zip(plots.PALETTE, ALPHAS, strict=False):
        one = record.sel(skill_exponent=alpha)
        loss, label = one[f"{name}_loss"], f"α = {alpha}: exponent {float(one[f'{name}_fit']):.3f}"
        ax.plot(one[name], loss.mean("trial") if "trial" in loss.dims else loss, "o", color=colour, label=label)
        ax.plot(one[name], one[f"{name}_law"], color=colour, linewidth=1)
        (plain,) = ax.plot(one[name], one[f"{name}_plain"], ":", color=colour, linewidth=1)
    plain.set_label("infinitely many skills")
    ax.set(xscale="log", yscale="log", xlabel=LABELS[name], ylabel="loss (points: trained, lines: law)")
    if name != "time":  # a range too short for powers of ten
        ax.set_xticks(record[name].values, [f"{value:g}" for value in record[name].values])
        ax.tick_params(axis="x", which="minor", labelbottom=False)


EXPERIMENT = Experiment(
    layerwise(figure="4.2"),
    Config(),
    run,
    claims=(
        *(
            Claim(
                f"fig-4.2-{name}",
                f"the loss falls with {name} as a power law with exponent {form}, for α = 0.3, 0.6, 0.9",
                partial(_exponents, name=name),
                layerwise(equation=number, figure="4.2", table="4.1"),
            )
            for (name, form), number in zip(_FORMS.items(), ("4.25", "4.34", "4.36"), strict=True)
        ),
        Claim(
            "table-4.1-prefactors",
            "the constants that the source leaves out follow from (4.17): loss ≈ prefactor·x^exponent − absent loss",
            _prefactors,
            layerwise(equation="4.38", table="4.1"),
            kind="derived",
        ),
        Claim(
            "fig-4.2-finite",
            "for α = 0.3 a finite number of skills makes the loss fall faster than the power law",
            _steeper,
            layerwise(figure="4.2", section="4.4"),
        ),
    ),
    picture=Panels(*(partial(_draw, name=name) for name in LABELS)),
    smoke={"skills": 10_000, "steps": 600, "samples": (30, 60, 120), "trials": 160, "known": (25, 50, 100)},
    paper={"steps": 50_000, "samples": (30, 60, 125, 250, 500, 1000, 2000), "known": (30, 60, 120, 250, 500, 1000)},
    model="Multilinear",
    adapted="η = 0.95 on data sets",
)
