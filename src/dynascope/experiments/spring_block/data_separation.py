"""spring-block (2), (3): Data separation of known classes.

Gaussian classes of unequal size and spread, whose covariances are known: what (2) and (3) say of samples and of them.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import spring_block
from dynascope.measure.separation import data_separation
from dynascope.statistics.errors import over_trials

SHARES = np.array([0.6, 0.3, 0.1])  # n_k
FEATURES = 5


@dataclass(frozen=True)
class Config:
    """Data sets of `samples` examples; classes and their spreads are drawn once."""

    trials: int = 200
    samples: int = 1000
    seed: int = 21


def _classes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the classes, (class, feature); a small class lies far away and is wide."""
    random = np.random.default_rng(seed)
    size = np.array([0.5, 1.0, 3.0])[:, None]
    return size * random.normal(size=(len(SHARES), FEATURES)), size * random.uniform(0.5, 1.5, (len(SHARES), FEATURES))


def _separation(within: np.ndarray, means: np.ndarray, weights: np.ndarray) -> float:
    """(3) from the classes' traces of covariance, their means and the weights of (2)."""
    apart = ((means - weights @ means) ** 2).sum(axis=1)
    return float(np.log((weights @ within) / (weights @ apart)))


def run(config: Config) -> xr.Dataset:
    """Draw data sets; the package's measure of each, and that of explicit class covariances."""
    means, deviations = _classes(config.seed)
    labels = np.repeat(np.arange(len(SHARES)), np.rint(SHARES * config.samples).astype(int))
    random, even = np.random.default_rng([config.seed, 1]), np.full(len(SHARES), 1 / len(SHARES))
    found: dict[str, list[float]] = {"measured": [], "weighted": [], "unweighted": []}
    for _ in range(config.trials):
        drawn = means[labels] + deviations[labels] * random.normal(size=(len(labels), FEATURES))
        classes = [drawn[labels == each] for each in range(len(SHARES))]
        within = np.array([np.trace(np.cov(each.T, bias=True)) for each in classes])
        centres = np.array([each.mean(axis=0) for each in classes])
        found["measured"].append(float(data_separation(drawn, labels)))
        found["weighted"].append(_separation(within, centres, SHARES))
        found["unweighted"].append(_separation(within, centres, even))
    return xr.Dataset({name: ("trial", values) for name, values in found.items()})


def _limit(record: xr.Dataset, weights: np.ndarray = SHARES) -> float:
    """(3) of the classes themselves."""
    means, deviations = _classes(settings(record).seed)
    return _separation((deviations**2).sum(axis=1), means, weights)


def _weights(record: xr.Dataset) -> Judgement:
    note = "largest difference from (3) with explicit covariances; rival: classes that count alike"
    rival = abs(record["unweighted"] - record["weighted"]).min()
    return equal(abs(record["measured"] - record["weighted"]).max(), 0.0, 1e-9, rival=rival, error=0.0, note=note)


def _converges(record: xr.Dataset) -> Judgement:
    even = np.full(len(SHARES), 1 / len(SHARES))
    bias = 2 * len(SHARES) * (1 + np.exp(_limit(record))) / settings(record).samples  # means are known to 1/N_k only
    note = f"mean over data sets of {settings(record).samples} samples; rival: classes that count alike"
    return equal(over_trials(record["measured"]), _limit(record), bias, rival=_limit(record, even), note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    ax.hist(record["measured"], bins=30, color=plots.PALETTE[0], alpha=0.6, label="data sets")
    ax.axvline(_limit(record), color="black", label="classes themselves, (3)")
    even = np.full(len(SHARES), 1 / len(SHARES))
    ax.axvline(_limit(record, even), color="black", linestyle=":", label="classes that count alike")
    ax.set(xlabel="data separation D", ylabel="data sets")


EXPERIMENT = Experiment(
    spring_block(equation="2, 3"),
    Config(),
    run,
    claims=(
        Claim(
            "eq2-weights",
            "Σw averages the classes' covariances and Σb is that of their means, both with the weights N_k/N",
            _weights,
            spring_block(equation="2"),
        ),
        Claim(
            "eq3-limit",
            "D = log(tr Σw / tr Σb) of a sample tends to that of the classes it is drawn from",
            _converges,
            spring_block(equation="3"),
            kind="derived",
        ),
    ),
    picture=Panels(_draw),
    smoke={"trials": 50},
    paper={"trials": 2000, "samples": 10_000},
    model="GaussianClasses",
)
