"""deep-linear (2), (3): Gradient flow of a depth-2 network.

Modes of a balanced, aligned depth-2 network follow a logistic curve.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, below, equal
from dynascope.experiments.deep_linear.drawing import each_mode
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import deep_linear
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
    return net.simulate(config.duration, 1, method="gd", save_points=config.save_points)


def logistic(times: np.ndarray, values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """(3), (time, mode).

    >>> logistic(np.array([0.0]), np.array([1.0]), np.array([0.2])).round(3).tolist()
    [[0.2]]
    """
    return np.asarray(values / (1 + (values / start - 1) * np.exp(-2 * values * times[:, None])))


def _read(record: xr.Dataset) -> xr.Dataset:
    """The finer of the two runs, (3), what Euler's error of first order allows, and how far modes mix or unbalance."""
    coarse, fine = (record["amplitude"].isel(trial=0, learning_rate=k) for k in (0, 1))
    expected = logistic(record["time"].values, record["singular_value"].values, fine.values[0])
    cross = record["cross_amplitude"].values - record["amplitude"].values[..., None] * np.eye(record.sizes["mode"])
    return xr.Dataset(
        {
            "amplitude": fine,
            "expected": (("time", "mode"), expected),
            "bound": 1.5 * abs(coarse.drop_vars("learning_rate") - fine) + 1e-12,
            "mixed": max(float(np.abs(cross).max()), float(record["balance"].max())),
        }
    )


def _draw(record: xr.Dataset, ax: Axes) -> None:
    for mode, colour, label in each_mode(_read(record)):
        ax.plot(record["time"], mode["amplitude"], color=colour, linewidth=3, alpha=0.5, label=label)
        ax.plot(record["time"], mode["expected"], color="black", linestyle="--", linewidth=1)
    amplitude = plots.axis_label(record["amplitude"])
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel=f"{amplitude}, dashed: (3)")


_TWO_RATES = "1.5 × difference of the runs at both learning rates"
_MIXED = "largest cross mode or relative imbalance; 0.01: Euler's step"
EXPERIMENT = Experiment(
    deep_linear(equation="2, 3"),
    Config(),
    run,
    read=_read,
    claims=(
        Claim(
            "eq3-logistic",
            "w(t) = s/(1 + (s/w(0) − 1) exp(−2 s t)) for every mode at all times",
            lambda flow: equal(flow["amplitude"], flow["expected"], flow["bound"], note=_TWO_RATES),
            deep_linear(equation="3"),
        ),
        Claim(
            "eq3-resolved",
            "the steps of gradient descent are short enough to follow gradient flow within 0.02",
            lambda flow: below(flow["bound"], 0.02, note="so that the comparison with (3) can fail"),
            deep_linear(equation="3"),
            kind="derived",
        ),
        Claim(
            "eq2-decouples",
            "modes that start aligned and balanced stay so under gradient flow",
            lambda flow: equal(flow["mixed"], 0.0, 0.01, note=_MIXED),
            deep_linear(equation="2"),
        ),
    ),
    picture=Panels(_draw),
    smoke={"learning_rate": (0.01, 0.005), "save_points": 41},
    paper={"learning_rate": (2e-4, 1e-4)},
)
