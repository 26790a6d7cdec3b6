"""Figure 4.2 and Table 4.1: power laws of the loss in time, data and parameters, read off gradient descent."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope import grid
from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.multilinear.recorded import recorded
from dynascope.experiments.registry import Experiment
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.scaling import estimate_exponent

RESOURCES = ("time", "data", "parameters")
ALPHAS = (0.3, 0.6, 0.9)


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


SCALES = {
    "smoke": Config(skills=10_000, steps=600, samples=(30, 60, 120), trials=160, known=(25, 50, 100)),
    "laptop": Config(),
    "paper": Config(steps=50_000, samples=(30, 60, 125, 250, 500, 1000, 2000), known=(30, 60, 120, 250, 500, 1000)),
}
LAWS = {
    name: Claim(
        f"fig-4.2-{name}",
        "layerwise FIG. 4.2, Table 4.1",
        f"the loss falls with {name} as a power law with exponent {form}, for α = 0.3, 0.6, 0.9",
    )
    for name, form in (("time", "−α/(α+1)"), ("data", "−α/(α+1)"), ("parameters", "−α"))
}
PREFACTORS = Claim(
    "table-4.1-prefactors",
    "layerwise Table 4.1, constants derived",
    "the constants that the source leaves out follow from (4.17): loss ≈ prefactor·x^exponent − absent loss",
)
STEEPER = Claim(
    "fig-4.2-finite",
    "layerwise FIG. 4.2, section 4.4",
    "for α = 0.3 a finite number of skills makes the loss fall faster than the power law",
)
_RIVALS = {  # what another row of the table says
    "time": lambda alpha: -alpha,
    "data": lambda alpha: -alpha,
    "parameters": lambda alpha: -alpha / (alpha + 1),
}


def run(config: Config) -> xr.Dataset:
    """Train at every α, once for each resource that is short."""
    begun = time.perf_counter()
    axis = grid(skill_exponent=ALPHAS)
    whole, careful = (Multilinear(config.skills, **axis, learning_rate=rate) for rate in (1.0, 0.95))
    moments = np.unique(np.geomspace(100, config.steps, 12).round())
    in_time = whole.simulate(config.steps, 0, 1, save_points=moments)["loss"].isel(trial=0)
    in_data = np.stack([_after_data(careful, size, config) for size in config.samples], axis=-1)
    in_parameters = np.stack([_after_skills(whole, known) for known in config.known], axis=-1)
    places = {"time": moments, "data": config.samples, "parameters": config.known}
    losses = {"time": in_time.values[:, None], "data": in_data, "parameters": in_parameters[:, None]}
    variables: dict[str, Any] = {}
    for name in RESOURCES:
        trials = (f"{name}_trial",) if name == "data" else ()
        values = losses[name] if trials else losses[name][:, 0]
        variables[f"{name}_loss"] = (("skill_exponent", *trials, name), values)
        model = careful if name == "data" else whole
        variables[f"{name}_law"] = (("skill_exponent", name), model.scaling_law(name, places[name]))
        variables[f"{name}_plain"] = (("skill_exponent", name), model.scaling_law(name, places[name], finite=False))
        fits = [
            estimate_exponent(places[name], loss, absent)
            for loss, absent in zip(losses[name], model.absent_loss(name), strict=True)
        ]
        variables[f"{name}_fit"] = ("skill_exponent", [float(fit["exponent"]) for fit in fits])
        variables[f"{name}_fit_error"] = ("skill_exponent", [float(fit["standard_error"]) for fit in fits])
        variables[f"{name}_slope"] = (
            "skill_exponent",
            [float(estimate_exponent(places[name], loss)["exponent"]) for loss in losses[name]],
        )
        variables[f"{name}_exponent"] = ("skill_exponent", model.exponent(name))
    coordinates = {name: (name, np.asarray(values, float)) for name, values in places.items()}
    return recorded(xr.Dataset(variables, coords={"skill_exponent": list(ALPHAS), **coordinates}), config, begun)


def _after_data(model: Multilinear, size: int, config: Config) -> np.ndarray:
    """Losses (exponent, trial) once every skill that occurs among `size` samples is learned."""
    done = model.simulate(12 * size, 0, config.trials, data=size, seed=config.seed + size, save_points=2)
    return np.asarray(done["loss"].isel(time=-1).values)


def _after_skills(model: Multilinear, known: int) -> np.ndarray:
    """Losses (exponent,) once the first `known` skills are learned."""
    slowest = float(model.frequency(known).min())
    done = model.simulate(int(8 / slowest), 0, 1, parameters=known, save_points=2)
    return np.asarray(done["loss"].isel(time=-1, trial=0).values)


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare fitted exponents with the table, and whole curves with the law and its constant."""
    claims = []
    for name in RESOURCES:
        expected, error = record[f"{name}_exponent"].values, record[f"{name}_fit_error"].values
        slopes = ", ".join(f"{slope:.3f}" for slope in record[f"{name}_slope"].values)
        sampled = three_errors(error) + 0.01 * abs(expected)  # 1 %: the law holds up to terms of order 1/D
        claims.append(
            LAWS[name].equals(
                record[f"{name}_fit"],
                expected,
                sampled if name == "data" else 0.02 * abs(expected),
                rival=_RIVALS[name](record["skill_exponent"].values),
                standard_error=error if name == "data" else np.zeros_like(error),
                note=f"fits of the loss plus that of absent skills (C.2); without it {slopes}",
            )
        )
    ratios = {name: _worst_ratio(record, name) for name in RESOURCES}
    measured, tolerance = np.transpose(list(ratios.values()))
    plain = np.array([float(record[f"{name}_slope"].sel(skill_exponent=0.3)) for name in RESOURCES])
    table = np.array([float(record[f"{name}_exponent"].sel(skill_exponent=0.3)) for name in RESOURCES])
    return (
        *claims,
        PREFACTORS.equals(
            measured,
            1.0,
            tolerance,
            note="trained loss over the law, at the largest amount and worst α, in time, data and parameters",
        ),
        STEEPER.falls_below(plain, table, 0.01, note="fits of the plain power law, in time, data and parameters"),
    )


def _worst_ratio(record: xr.Dataset, name: str) -> tuple[float, float]:
    """Loss over law at the largest amount where it is furthest from 1, and what is allowed there."""
    last = record.isel({name: -1})
    loss, law = last[f"{name}_loss"], last[f"{name}_law"]
    amount = float(record[name][-1])
    allowed = np.full(len(ALPHAS), {"time": 2e-3, "data": 1 / amount, "parameters": 1 / amount}[name])
    if name == "data":  # sampled; the law itself holds up to terms of order 1/D
        trials = loss.sizes["data_trial"]
        allowed = allowed + 3.8 * (loss.std("data_trial", ddof=1) / np.sqrt(trials) / law).values
        loss = loss.mean("data_trial")
    ratio = (loss / law).values
    worst = int(np.argmax(abs(ratio - 1) / allowed))
    return float(ratio[worst]), float(allowed[worst])


def plot(record: xr.Dataset) -> Any:
    """Draw the trained losses over the corrected and the plain power laws, one panel for each resource."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=3)
    labels = {"time": "time T (training steps)", "data": "data D (samples)", "parameters": "parameters N (skills)"}
    for ax, name in zip(axes[0], RESOURCES, strict=True):
        loss = record[f"{name}_loss"]
        loss = loss.mean("data_trial") if name == "data" else loss
        for colour, alpha in zip(PALETTE, ALPHAS, strict=False):
            fit = float(record[f"{name}_fit"].sel(skill_exponent=alpha))
            ax.plot(
                record[name],
                loss.sel(skill_exponent=alpha),
                "o",
                color=colour,
                label=f"α = {alpha}: exponent {fit:.3f}",
            )
            ax.plot(record[name], record[f"{name}_law"].sel(skill_exponent=alpha), color=colour, linewidth=1)
            ax.plot(record[name], record[f"{name}_plain"].sel(skill_exponent=alpha), ":", color=colour, linewidth=1)
        ax.set_xscale("log")
        ax.set_yscale("log")
        if name != "time":  # a range too short for powers of ten
            ax.set_xticks(record[name].values, [f"{value:g}" for value in record[name].values])
            ax.tick_params(axis="x", which="minor", labelbottom=False)
        ax.set_xlabel(labels[name])
        ax.legend(frameon=False, fontsize="small", loc="lower left")
    axes[0, 0].set_ylabel("loss (points: trained, lines: law)")
    figure.suptitle("dotted: power law of infinitely many skills", fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Scaling laws in time, data and parameters",
    source="layerwise FIG. 4.2",
    kind="figure",
    claims=(*LAWS.values(), PREFACTORS, STEEPER),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
