"""layerwise (4.11), (4.17), (4.26), (4.28), (C.4): Strengths and losses of many skills.

Closed forms against gradient flow and gradient descent.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from dynascope import plots
from dynascope.data.parity import SparseParity
from dynascope.experiments.claims import Claim, Judgement, Measured, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import layerwise
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.extended import scaled_skill
from dynascope.statistics.errors import over_trials

EXPONENT, TARGET, INITIAL, RATE = 0.6, 2.0, 0.2, 0.2
_NETWORK_NOTE = "a random ReLU network on all inputs of three skills; rival: (4.10), which needs f = R g"
SMALL = 1e-3 * TARGET  # R(0) where S/R(0) ≫ 1 is assumed


@dataclass(frozen=True)
class Config:
    """Random models for the flow; one model trained by descent on a finite training set, with a part of the skills."""

    cases: int = 40
    skills: int = 300
    steps: int = 400
    data: int = 60
    known: int = 20
    trials: int = 400
    seed: int = 4


def run(config: Config) -> xr.Dataset:
    """Integrate, descend and sample, and note what the closed forms give."""
    return xr.merge([_flows(config), _descents(config), _long_runs(config), _known(config), _network(config)])


def _flows(config: Config) -> xr.Dataset:
    """Final strengths of random skills, by solvers of a' = −η ∂loss/∂a and of w' = η P (S − w), and by closed form."""
    random = np.random.default_rng(config.seed)
    found = np.empty((4, config.cases))
    for case in range(config.cases):
        alpha, target, rate = random.uniform([0.1, 0.5, 0.01], [2.0, 5.0, 0.5])
        start, rank = target * 10 ** random.uniform(-4, -0.1), int(random.integers(1, 50))
        options = {"skill_exponent": alpha, "target": target, "learning_rate": rate, "initial": start}
        share = rank ** -(alpha + 1) / np.sum(np.arange(1.0, config.skills + 1) ** -(alpha + 1))
        steps = random.uniform(0.1, 1.5) * np.log(target / start) / (rate * share * target)
        skill, root = scaled_skill(1.0, frequency=share, target=target), np.sqrt(start)
        straight = solve_ivp(
            lambda _, w, pull=rate * share, goal=target: pull * (goal - w), (0, steps), [start], rtol=1e-11, atol=1e-13
        )
        found[:, case] = (
            skill.solve([steps], root, [root], learning_rate=rate)["strength"][0],
            Multilinear(config.skills, **options).strength(rank, time=steps),
            straight.y[0, -1],
            Multilinear(config.skills, **options, linear=True).strength(rank, time=steps),
        )
    names = ("flow", "flow_form", "linear_flow", "linear_form")
    return xr.Dataset({name: ("case", values) for name, values in zip(names, found, strict=True)})


def _model(config: Config, rate: float = RATE, initial: float = INITIAL) -> Multilinear:
    return Multilinear(config.skills, EXPONENT, TARGET, initial, rate)


def _descents(config: Config) -> xr.Dataset:
    """Losses at step sizes η and η/2 over the same exposure: whole gradient, and SGD on samples with N skills."""
    moments = np.linspace(0, config.steps, 9)[1:].round()
    limits: dict[str, Any] = {"data": config.data, "parameters": config.known}
    found: dict[str, np.ndarray] = {}
    for halving, name in enumerate(("coarse", "fine")):
        times, steps = moments * 2**halving, config.steps * 2**halving
        model = _model(config, RATE / 2**halving)
        some = model.simulate(steps, 20, config.trials, **limits, save_points=times, seed=config.seed)["loss"]
        found[f"descent_{name}"] = model.simulate(steps, 0, 1, save_points=times)["loss"].values[0]
        found[f"sgd_{name}"], found[f"sgd_{name}_error"] = over_trials(some)
    found["descent_form"] = _model(config).loss(time=moments)
    found["sgd_form"] = _model(config).loss(time=moments, **limits)
    values = {name: ("moment", value) for name, value in found.items()}
    return xr.Dataset(values, coords={"moment": ("moment", moments, {"units": "training steps"})})


def _long_runs(config: Config) -> xr.Dataset:
    """Descent on D samples until every skill that occurs is learned."""
    model = _model(config, 0.45, SMALL)
    options: dict[str, Any] = {"data": config.data, "seed": config.seed, "track": np.arange(1, 41)}
    done = model.simulate(int(32 * config.data / TARGET), 0, config.trials, save_points=2, **options).isel(time=-1)
    share = model.frequency(np.arange(1, config.skills + 1))
    absent, once = (1 - share) ** config.data, config.data * share * (1 - share) ** (config.data - 1)
    return xr.Dataset(
        {
            "final_strength": (("trial", "skill"), done["strength"].values),
            "final_loss": ("trial", done["loss"].values),
            "final_form": TARGET**2 / 2 * np.sum(share * absent),  # (4.28)
            "final_rival": TARGET**2 / 2 * np.sum(share * (absent + once)),
        }
    )


def _known(config: Config) -> xr.Dataset:
    """Losses of single skills after descent on unlimited data, of a model that has the first `known` of them."""
    model = _model(config, 0.45, SMALL)
    ranks = np.arange(1, 2 * config.known + 1)
    rate = 2 * 0.45 * float(model.frequency(config.known)) * TARGET  # at which the last known skill grows and settles
    steps = int(2 * np.log(TARGET / SMALL) / rate + np.log(1e9) / rate)
    done = model.simulate(steps, 0, 1, parameters=config.known, save_points=2, track=ranks).isel(time=-1, trial=0)
    return xr.Dataset({"known_loss": ("rank", (TARGET - done["strength"].values) ** 2 / 2)}, {"rank": ranks})


def _network(config: Config) -> xr.Dataset:
    """Losses of the skills in a random two-layer network on all inputs: by definition, by (4.8) and by (4.10)."""
    task, random = SparseParity(3, 9), np.random.default_rng(config.seed)
    bits = (np.arange(2**task.bits)[:, None] >> np.arange(task.bits)) & 1
    hidden, readout = random.standard_normal((task.skills + task.bits, 30)), random.standard_normal(30)
    found = np.empty((3, task.skills))
    for skill in range(task.skills):
        x = np.concatenate([np.broadcast_to(np.eye(task.skills)[skill], (len(bits), task.skills)), bits], axis=1)
        output, sign = np.maximum(x @ hidden, 0) @ readout, task.parity(x).astype(float)
        strength = np.mean(sign * output)  # (4.7)
        found[:, skill] = (
            np.mean((output - TARGET * sign) ** 2) / 2,
            (TARGET**2 + np.mean(output**2) - 2 * TARGET * strength) / 2,
            (TARGET - strength) ** 2 / 2,
        )
    names = ("skill_loss", "skill_form", "skill_rival")
    return xr.Dataset({name: ("asked", values) for name, values in zip(names, found, strict=True)})


def _solved(record: xr.Dataset, solver: str, form: str, note: str) -> Judgement:
    """Hold a flow against its closed form, within the error of the solver."""
    return equal(record[solver], record[form], 1e-8 * float(abs(record["flow_form"]).max()), note=note)


def _followed(record: xr.Dataset, name: str, losses: Measured, *, share: float = 1.0, note: str) -> Judgement:
    """Hold losses against (4.17); what halving the step size changes bounds its error."""
    halved = abs(record[f"{name}_coarse"] - record[f"{name}_fine"])
    return equal(losses, record[f"{name}_form"], share * halved, note=note)


def _one_shot(record: xr.Dataset) -> Judgement:
    strength = record["final_strength"].values
    nearest = np.minimum(abs(strength - TARGET), abs(strength - SMALL)).max()
    return equal(nearest, 0.0, 1e-6, note="largest distance from both, over 40 skills and all trials")


def _all_known(record: xr.Dataset) -> Judgement:
    losses = record["known_loss"].values
    expected = np.where(np.arange(losses.size) < losses.size // 2, 0.0, TARGET**2 / 2)
    note = f"skills 1 … {losses.size}, of which the model has the first half; rival: all are learned, or none"
    return equal(losses, expected, 1e-6, rival=TARGET**2 / 2 - expected, error=0.0, note=note)


def _start(record: xr.Dataset) -> Judgement:
    form, rival = float(record["final_form"]), float(record["final_rival"])
    note = "R(0) = S/1000, whose part is allowed for; rival: two samples are needed to learn a skill"
    return equal(over_trials(record["final_loss"]), form, 2 * SMALL / TARGET * form, rival=rival, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """Trained losses over their closed forms."""
    labels = {"descent": "all skills, unlimited data", "sgd": "SGD on D samples with N skills"}
    for colour, (name, label) in zip(plots.PALETTE, labels.items(), strict=False):
        error = 3 * record[f"{name}_fine_error"] if name == "sgd" else None
        ax.errorbar(record["moment"], record[f"{name}_fine"], error, color=colour, fmt="o", label=label)
        ax.plot(record["moment"], record[f"{name}_form"], color=colour, label=f"{label}: (4.17)")
    ax.set(xlabel="time (training steps)", ylabel="loss")


EXPERIMENT = Experiment(
    layerwise(equation="4.11, 4.17, 4.26, 4.28, C.4"),
    Config(),
    run,
    claims=(
        Claim(
            "eq4.11-flow",
            "under gradient flow the strength of a skill follows (4.11)",
            lambda r: _solved(r, "flow", "flow_form", note="random parameters; the solver's 1e-8"),
            layerwise(equation="4.11, B.1, B.6, B.7", theorem="Lemma 1"),
        ),
        Claim(
            "eqC.4-flow",
            "the strength in the linear model is S − (S − R(0)) exp(−η P(k) T)",
            lambda r: _solved(r, "linear_flow", "linear_form", note="random parameters"),
            layerwise(equation="C.3, C.4"),
        ),
        Claim(
            "eq4.17-descent",
            "the loss of gradient descent on all skills follows (4.17) over time",
            lambda r: _followed(r, "descent", r["descent_fine"], share=1.5, note="bound: halving the step"),
            layerwise(equation="4.17"),
        ),
        Claim(
            "eq4.17-together",
            "the mean loss of SGD on D samples with N skills is (4.17) averaged over d_k ~ Binomial(D, P(k))",
            lambda r: _followed(
                r, "sgd", recorded(r, "sgd_fine"), note="three standard errors and what halving the step changes"
            ),
            layerwise(equation="4.17"),
            kind="derived",
        ),
        Claim(
            "eq4.26-one-shot",
            "after long training a skill stands at S, or at R(0) if never seen",
            _one_shot,
            layerwise(equation="4.26, B.12", theorem="Corollary B.1.1"),
        ),
        Claim(
            "corB.1.2-known",
            "with unlimited time and data the loss of a skill is 0 if it is among the N known ones, else S²/2",
            _all_known,
            layerwise(equation="4.35, B.13", theorem="Corollary B.1.2"),
        ),
        Claim(
            "eq4.8-loss",
            "the loss of a skill is ½ (S² + E[f²] − 2 S R), for any function f",
            lambda r: equal(
                r["skill_loss"], r["skill_form"], 1e-9, rival=r["skill_rival"], error=0.0, note=_NETWORK_NOTE
            ),
            layerwise(equation="4.7, 4.8"),
        ),
        Claim(
            "eq4.28-start",
            "the loss with D samples is ½ S² Σ P(k) (1 − P(k))^D",
            _start,
            layerwise(equation="4.28"),
        ),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    smoke={"cases": 8, "steps": 200, "trials": 100},
    paper={"cases": 200, "trials": 4000},
    model="Multilinear",
)
