"""elastic (B.1)–(B.4): One step of a real network to first order.

What a step of SGD on one sample does to the logits of others, and what is left of it for class means.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import softmax

from dynascope import networks, plots
from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.elastic.network_training import Training, ensemble, pictures, unsettled
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic.softmax import margins
from dynascope.statistics.errors import over_trials

_RATES = (1e-5, 1e-6)  # of the steps whose order is measured, over |e − softmax X|: a trained network moves as far
_STAGES = ("start", "trained")
_SMALL = 0.1  # what ≈ may hide
_ROUNDING = 1e-8  # of weights that move by a millionth of themselves or more, in double precision


@dataclass(frozen=True)
class Config(Training):
    """`trials` networks in double precision, after one step and after `steps`; `draws` samples are stepped on."""

    probes: int = 20
    steps: int = 20_000
    trials: int = 10
    draws: int = 20


def run(config: Config) -> xr.Dataset:
    """Train networks, and compare real steps with their first order at both ends of the training."""
    x, y, probe, own = pictures(config)
    stages = []
    for steps in (1, config.steps):
        trained = ensemble(config, x, precision="float64")
        trained.train(x, y, steps=steps, probe=(probe, own), record_every=[steps])
        picked = np.random.default_rng([config.seed, 3]).integers(len(x), size=config.draws)
        rows = []
        for trial in range(config.trials):
            network = trained.trained(trial)
            sizes = np.linalg.norm(_each_margin(networks.first_order.logits(network, x[picked]), y[picked]), axis=1)
            steps_on = [
                networks.first_order.step_errors(
                    network, x[i], int(y[i]), probe, (*(rate / size for rate in _RATES), config.learning_rate)
                )
                for i, size in zip(picked, sizes, strict=True)
            ]
            weights, logits = (np.stack(each) for each in zip(*steps_on, strict=True))
            content = {
                "weight_error": ("draw", weights[:, -1]),
                "step_error": (("draw", "rate", "sample"), logits),
            }
            rows.append(xr.Dataset(content).assign(_class_means(network, probe, own)))
        stages.append(xr.concat(rows, "trial"))
    found = xr.concat(stages, xr.Variable("stage", list(_STAGES)))
    return found.assign_coords(rate=[*map(str, _RATES), "training"])


def _each_margin(logits: np.ndarray, own: np.ndarray) -> np.ndarray:
    """What cross-entropy still asks of each sample, e − softmax X; `margins` has one sample for each class."""
    return np.asarray(np.eye(logits.shape[1])[own] - softmax(logits, axis=1))


def _class_means(network: Any, probe: np.ndarray, own: np.ndarray) -> dict[str, float]:
    """Two ways to decouple the drift of class means, relative to the drift itself, and the size of the margins.

    mean_error: (B.4), with the softmax of class means; margin_error: with the mean margin of each class instead;
    margin_ratio: length of the mean margins over that of the margins of class means.
    """
    exact = networks.first_order.mean_drift(network, probe, own)
    logits, gram = networks.first_order.logits_and_gram(network, probe, own)
    classes = np.unique(own)
    each = _each_margin(logits, own)
    of_mean = margins(np.stack([logits[own == k].mean(axis=0) for k in classes]))
    mean_of = np.stack([each[own == k].mean(axis=0) for k in classes])
    errors = [
        np.linalg.norm(np.einsum("kilj,lj->ki", gram, used) / len(classes) - exact) / np.linalg.norm(exact)
        for used in (of_mean, mean_of)
    ]
    ratio = np.linalg.norm(mean_of) / np.linalg.norm(of_mean)
    return {"mean_error": float(errors[0]), "margin_error": float(errors[1]), "margin_ratio": float(ratio)}


def _weights(record: xr.Dataset) -> Judgement:
    note = f"|change of weights − (B.3)|/|(B.3)|, of steps made by an optimizer, median of samples; {_listed()}"
    return equal(record["weight_error"].median("draw").max("trial"), 0.0, _ROUNDING, note=note)


def _order(record: xr.Dataset) -> Judgement:
    """Order in h of what (B.1) leaves out, median of the samples, for each stage."""
    large, small = (record["step_error"].sel(rate=str(rate), drop=True) for rate in _RATES)
    order = 1 + xr.apply_ufunc(np.log10, large / small).median(["draw", "sample"])
    note = f"between h |e − softmax X| = {_RATES}, median of samples, {_listed()}; bound 0.1: steps over a kink"
    return equal(over_trials(order), 2.0, 0.1, rival=1.0, note=note)


def _listed() -> str:
    return " and ".join(_STAGES)


def _rate(record: xr.Dataset) -> Judgement:
    error = over_trials(record["step_error"].sel(rate="training").median(["draw", "sample"]))
    return below(error, _SMALL, note=f"|change − (B.1)|/|(B.1)|, median of samples; {_listed()}")


def _means(record: xr.Dataset, stage: str) -> Judgement:
    at = record.sel(stage=stage)
    note = (
        "|(B.4) − mean of (B.1)| over the latter; with the mean of margins for the margin of the mean "
        f"{float(at['margin_error'].mean()):.3f}"
    )
    return below(over_trials(at["mean_error"]), _SMALL, note=note)


def _margins(record: xr.Dataset) -> Judgement:
    ratio = over_trials(np.log(record["margin_ratio"].sel(stage="trained")))
    return above(ratio, np.log1p(_SMALL), note="logarithm of |mean of e − softmax X|/|e − softmax X̄| after training")


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """Errors of the first order, and of class means."""
    for colour, stage in zip(plots.PALETTE, _STAGES, strict=False):
        at = record.sel(stage=stage)
        ax.semilogy(
            record["rate"].values, at["step_error"].median(["trial", "draw", "sample"]), "o-", color=colour, label=stage
        )
        ax.axhline(float(at["mean_error"].mean()), color=colour, linestyle=":")
    ax.set(xlabel="learning rate", ylabel="relative error of (B.1), of (B.4) dotted")


EXPERIMENT = Experiment(
    elastic("B.1–B.4"),
    Config(),
    run,
    claims=(
        Claim("b3-weights", "a step changes weights by h ∂X/∂wᵀ (e − softmax X)", _weights, elastic("B.3")),
        Claim("b1-order", "what (B.1) leaves out of a real step is of second order in h", _order, elastic("B.1, B.2")),
        unsettled(
            "b1-rate", "at the learning rate of training (B.1) holds up to a tenth", _rate, elastic("B.1"), "own"
        ),
        Claim(
            "b4-start",
            "at the start the drift of class means is Θ (e − softmax X̄)/K up to a tenth",
            partial(_means, stage="start"),
            elastic("B.4"),
        ),
        unsettled(
            "b4-trained",
            "so it is after training",
            partial(_means, stage="trained"),
            elastic("B.4"),
            why=("b4-margins, few samples still learn",),
        ),
        unsettled(
            "b4-margins",
            "after training the mean of the samples' margins exceeds the margin of their mean: few samples still learn",
            _margins,
            elastic("B.4"),
            "own",
        ),
    ),
    picture=Panels(_draw, width=5.0, height=4.0),
    model="Ensemble",
    needs=("torch",),
    smoke={"network": "mlp", "size": 8, "per_class": 60, "steps": 500, "learning_rate": 0.02, "trials": 6, "draws": 5},
    laptop={"per_class": 100, "steps": 1500, "learning_rate": 0.02, "trials": 6},
    adapted="10 networks, a fifth of the steps",
)
