"""deep-linear (2), (3): Gradient flow of a depth-2 network.

Modes of a balanced, aligned depth-2 network follow a logistic curve.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, below, equal
from dynascope.experiments.deep_linear.drawing import each_mode
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import Source
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.parameters import grid


@dataclass(frozen=True)
class Config:
    """Gradient descent at two small learning rates; their difference bounds the error of the step."""

    learning_rate: tuple[float, float] = (0.002, 0.001)
    duration: float = 20.0
    save_points: int = 101


def run(config: Config) -> xr.Dataset:
    """Gradient descent from aligned weights."""
    net = DeepLinear(2, 12, initialisation="aligned", **grid(learning_rate=list(config.learning_rate)))
    return net.train("gd", config.duration, 1, save_points=config.save_points)


def logistic(times: np.ndarray, values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """(3), (time, mode).

    >>> logistic(np.array([0.0]), np.array([1.0]), np.array([0.2])).round(3).tolist()
    [[0.2]]
    """
    return np.asarray(values / (1 + (values / start - 1) * np.exp(-2 * values * times[:, None])))


class Flow(NamedTuple):
    """The finer of the two runs, (3), and what Euler's error of first order allows, (time, mode) each."""

    amplitude: np.ndarray
    expected: np.ndarray
    bound: np.ndarray
    misaligned: float  # largest cross mode or relative imbalance


def _read(record: xr.Dataset) -> Flow:
    coarse, fine = (record["amplitude"].isel(trial=0, learning_rate=k).values for k in (0, 1))
    expected = logistic(record["time"].values, record["singular_value"].values, fine[0])
    cross = record["cross_amplitude"].values - record["amplitude"].values[..., None] * np.eye(record.sizes["mode"])
    worst = max(float(np.abs(cross).max()), float(record["balance"].max()))
    return Flow(fine, expected, 1.5 * np.abs(coarse - fine) + 1e-12, worst)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    curves = _read(record).expected.T
    for (mode, colour, label), curve in zip(each_mode(record.isel(trial=0, learning_rate=1)), curves, strict=True):
        ax.plot(record["time"], mode["amplitude"], color=colour, linewidth=3, alpha=0.5, label=label)
        ax.plot(record["time"], curve, color="black", linestyle="--", linewidth=1)
    amplitude = plots.axis_label(record["amplitude"])
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel=f"{amplitude}, dashed: (3)")


EXPERIMENT = Experiment(
    Source("deep-linear", equation="2, 3"),
    Config(),
    run,
    read=_read,
    claims=(
        Claim(
            "eq3-logistic",
            "w(t) = s/(1 + (s/w(0) − 1) exp(−2 s t)) for every mode at all times",
            lambda flow: equal(
                flow.amplitude, flow.expected, flow.bound, note="1.5 × difference of the runs at both learning rates"
            ),
            Source("deep-linear", equation="3"),
        ),
        Claim(
            "eq3-resolved",
            "the steps of gradient descent are short enough to follow gradient flow within 0.02",
            lambda flow: below(flow.bound, 0.02, note="so that the comparison with (3) can fail"),
            Source("deep-linear", equation="3"),
            kind="derived",
        ),
        Claim(
            "eq2-decouples",
            "modes that start aligned and balanced stay so under gradient flow",
            lambda flow: equal(
                flow.misaligned, 0.0, 0.01, note="largest cross mode or relative imbalance; 0.01: Euler's step"
            ),
            Source("deep-linear", equation="2"),
        ),
    ),
    picture=Panels(_draw),
    smoke={"learning_rate": (0.01, 0.005), "save_points": 41},
    paper={"learning_rate": (2e-4, 1e-4)},
)
