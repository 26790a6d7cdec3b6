"""Equations (4.11), (4.17), (4.26), (4.28), (C.4): strengths and losses against gradient flow and gradient descent."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.multilinear.recorded import recorded
from dynascope.experiments.registry import Experiment
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.extended import scaled_skill


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


SCALES = {"smoke": Config(cases=8, steps=200, trials=100), "laptop": Config(), "paper": Config(cases=200, trials=4000)}
FLOW = Claim("eq4.11-flow", "layerwise (4.11), (B.1)", "under gradient flow the strength of a skill follows (4.11)")
LINEAR = Claim("eqC.4-flow", "layerwise (C.4)", "the strength in the linear model is S − (S − R(0)) exp(−η P(k) T)")
DESCENT = Claim(
    "eq4.17-descent", "layerwise (4.17)", "the loss of gradient descent on all skills follows (4.17) over time"
)
TOGETHER = Claim(
    "eq4.17-together",
    "layerwise (4.17), averaged over d_k",
    "the mean loss of SGD on D samples with N skills is (4.17) averaged over d_k ~ Binomial(D, P(k))",
)
ONE_SHOT = Claim(
    "eq4.26-one-shot", "layerwise (4.26), (B.12)", "after long training a skill stands at S, or at R(0) if never seen"
)
START = Claim("eq4.28-start", "layerwise (4.28)", "the loss with D samples is ½ S² Σ P(k) (1 − P(k))^D")
EXPONENT, TARGET, INITIAL, RATE = 0.6, 2.0, 0.2, 0.2


def run(config: Config) -> xr.Dataset:
    """Integrate, descend and sample, and note what the closed forms give."""
    begun = time.perf_counter()
    record = xr.merge([_flows(config), _descents(config), _long_runs(config)])
    return recorded(record, config, begun)


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
        flow = scaled_skill(1.0, frequency=share, target=target).solve(
            [steps], np.sqrt(start), [np.sqrt(start)], learning_rate=rate
        )
        straight = solve_ivp(
            lambda _, w, pull=rate * share, goal=target: pull * (goal - w), (0, steps), [start], rtol=1e-11, atol=1e-13
        )
        found[:, case] = (
            flow["strength"][0],
            Multilinear(config.skills, **options).strength(rank, time=steps),
            straight.y[0, -1],
            Multilinear(config.skills, **options, linear=True).strength(rank, time=steps),
        )
    names = ("flow", "flow_form", "linear_flow", "linear_form")
    return xr.Dataset({name: ("case", values) for name, values in zip(names, found, strict=True)})


def _model(config: Config, rate: float = RATE) -> Multilinear:
    return Multilinear(config.skills, EXPONENT, TARGET, INITIAL, rate)


def _descents(config: Config) -> xr.Dataset:
    """Losses at step sizes η and η/2 over the same exposure: whole gradient, and SGD on samples with N skills."""
    moments = np.linspace(0, config.steps, 9)[1:].round()
    both: dict[str, Any] = {}
    for halving, name in enumerate(("coarse", "fine")):
        times = moments * 2**halving
        model, steps = _model(config, RATE / 2**halving), config.steps * 2**halving
        whole = model.simulate(steps, 0, 1, save_points=times)
        some = model.simulate(
            steps, 20, config.trials, data=config.data, parameters=config.known, save_points=times, seed=config.seed
        )
        both[f"descent_{name}"] = ("moment", whole["loss"].values[0])
        both[f"sgd_{name}"] = ("moment", some["loss"].mean("trial").values)
        both[f"sgd_{name}_error"] = ("moment", some["loss"].std("trial", ddof=1).values / np.sqrt(config.trials))
    model = _model(config)
    both["descent_form"] = ("moment", model.loss(time=moments))
    both["sgd_form"] = ("moment", model.loss(time=moments, data=config.data, parameters=config.known))
    return xr.Dataset(both, coords={"moment": ("moment", moments, {"units": "training steps"})})


def _long_runs(config: Config) -> xr.Dataset:
    """Descent on D samples until every skill that occurs is learned."""
    model = _model(config, 0.45)
    steps = int(25 * config.data / TARGET)
    done = model.simulate(
        steps, 0, config.trials, data=config.data, seed=config.seed, save_points=2, track=np.arange(1, 41)
    ).isel(time=-1)
    return xr.Dataset(
        {
            "final_strength": (("trial", "skill"), done["strength"].values),
            "final_loss": ("trial", done["loss"].values),
            "final_form": model.loss(data=config.data),
        }
    )


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare; a step size's error is bounded by what halving it changes."""
    scale = float(abs(record["flow_form"]).max())
    halved = {name: abs(record[f"{name}_coarse"] - record[f"{name}_fine"]).values for name in ("descent", "sgd")}
    strength, loss = record["final_strength"].values, record["final_loss"].values
    nearest = np.minimum(abs(strength - TARGET), abs(strength - INITIAL)).max()
    error = float(loss.std(ddof=1) / np.sqrt(loss.size))
    form = float(record["final_form"])
    return (
        FLOW.equals(record["flow"], record["flow_form"], 1e-8 * scale, note="random parameters; the solver's 1e-8"),
        LINEAR.equals(record["linear_flow"], record["linear_form"], 1e-8 * scale, note="random parameters"),
        DESCENT.equals(
            record["descent_fine"], record["descent_form"], 1.5 * halved["descent"], note="bound: halving the step"
        ),
        TOGETHER.equals(
            record["sgd_fine"],
            record["sgd_form"],
            three_errors(record["sgd_fine_error"]) + halved["sgd"],
            note="three standard errors and what halving the step changes",
        ),
        ONE_SHOT.equals(nearest, 0.0, 1e-6, note="largest distance from both, over 40 skills and all trials"),
        START.corrects(
            loss.mean(),
            form,
            three_errors(error),
            published=form / (1 - INITIAL / TARGET) ** 2,
            standard_error=error,
            note="½ (S − R(0))² Σ P(k) (1 − P(k))^D: skills never seen keep R(0), here a tenth of S",
        ),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw trained losses over their closed forms."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    labels = {"descent": "all skills, unlimited data", "sgd": "SGD on D samples with N skills"}
    for colour, (name, label) in zip(PALETTE, labels.items(), strict=False):
        error = 3 * record[f"{name}_fine_error"] if name == "sgd" else None
        ax.errorbar(
            record["moment"], record[f"{name}_fine"], error, color=colour, marker="o", linestyle="none", label=label
        )
        ax.plot(record["moment"], record[f"{name}_form"], color=colour, label=f"{label}: (4.17)")
    ax.set_xlabel("time (training steps)")
    ax.set_ylabel("loss")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Strengths and losses of many skills",
    source="layerwise (4.11), (4.17), (4.26), (4.28), (C.4)",
    kind="equation",
    claims=(FLOW, LINEAR, DESCENT, TOGETHER, ONE_SHOT, START),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
