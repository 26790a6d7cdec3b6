"""Equation (3): modes of a balanced, aligned depth-2 network follow a logistic curve."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.parameters import grid


@dataclass(frozen=True)
class Config:
    """Gradient descent at two small learning rates; their difference bounds the error of the step."""

    learning_rate: tuple[float, float] = (0.002, 0.001)
    duration: float = 20.0
    save_points: int = 101


SCALES = {
    "smoke": Config(learning_rate=(0.01, 0.005), save_points=41),
    "laptop": Config(),
    "paper": Config(learning_rate=(2e-4, 1e-4)),
}
LOGISTIC = Claim(
    "eq3-logistic", "deep-linear (3)", "w(t) = s/(1 + (s/w(0) − 1) exp(−2 s t)) for every mode at all times"
)
SMALL = Claim(
    "eq3-resolved", "derived", "the steps of gradient descent are short enough to follow gradient flow within 0.02"
)
ALIGNED = Claim("eq2-decouples", "deep-linear (2)", "modes that start aligned and balanced stay so under gradient flow")


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


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """The finer of the two runs against (3); Euler's error is of first order."""
    coarse, fine = (record["amplitude"].isel(trial=0, learning_rate=k).values for k in (0, 1))
    expected = logistic(record["time"].values, record["singular_value"].values, fine[0])
    bound = 1.5 * np.abs(coarse - fine) + 1e-12
    cross = record["cross_amplitude"].values - record["amplitude"].values[..., None] * np.eye(record.sizes["mode"])
    worst = max(float(np.abs(cross).max()), float(record["balance"].max()))
    note = "1.5 × difference of the runs at both learning rates"
    return (
        LOGISTIC.equals(fine, expected, bound, note=note),
        SMALL.falls_below(bound, 0.02, 0.0, note="so that the comparison with (3) can fail"),
        ALIGNED.equals(worst, 0.0, 0.01, note="largest cross mode or relative imbalance; 0.01: Euler's step"),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw modes beside (3)."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure()
    ax = axes[0, 0]
    fine = record.isel(trial=0, learning_rate=1)
    curve = logistic(record["time"].values, record["singular_value"].values, fine["amplitude"].values[0])
    for index, colour in zip(range(record.sizes["mode"]), PALETTE, strict=False):
        label = f"s = {float(record['singular_value'][index]):g}"
        ax.plot(record["time"], fine["amplitude"].isel(mode=index), color=colour, linewidth=3, alpha=0.5, label=label)
        ax.plot(record["time"], curve[:, index], color="black", linestyle="--", linewidth=1)
    ax.set_xlabel(axis_label(record["time"]))
    ax.set_ylabel(axis_label(record["amplitude"]) + ", dashed: (3)")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Gradient flow of a depth-2 network",
    source="deep-linear (2), (3)",
    kind="equation",
    claims=(LOGISTIC, SMALL, ALIGNED),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
