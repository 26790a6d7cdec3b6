"""Figures 9 and 10: the largest diffusion grows linearly with the learning rate and with 1/batch."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.reading import over_trials
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.parameters import grid
from dynascope.records import with_provenance


@dataclass(frozen=True)
class Config:
    """Depth 4, width 12; one of the two parameters varies."""

    learning_rate: tuple[float, ...] = (0.0025, 0.005, 0.0075, 0.01, 0.0125)
    batch_size: tuple[float, ...] = (1, 2, 4, 8, 16)
    init_exponent: float = 2.0
    duration: float = 60.0
    trials: int = 32
    save_points: int = 301
    seed: int = 9


LAPTOP = Config()
SCALES = {
    "smoke": replace(
        LAPTOP,
        learning_rate=(0.0025, 0.01),
        batch_size=(1, 4),
        init_exponent=1.5,
        duration=24.0,
        trials=16,
        save_points=121,
    ),
    "laptop": LAPTOP,
    "paper": replace(LAPTOP, trials=100, duration=100.0, save_points=1001),
}
RATE = Claim(
    "fig-9-linear", "deep-linear Figure 9", "the largest diffusion along each mode is proportional to the learning rate"
)
BATCH = Claim(
    "fig-10-linear", "deep-linear Figure 10", "the largest diffusion along each mode is proportional to 1/batch"
)
_AXES = {"learning_rate": "largest_by_rate", "batch_size": "largest_by_batch"}


def run(config: Config) -> xr.Dataset:
    """Two sweeps of SGD, each in one call."""
    begun = time.perf_counter()
    found = {}
    for axis, name in _AXES.items():
        net = DeepLinear(init_exponent=config.init_exponent, **grid(**{axis: getattr(config, axis)}))
        trained = net.simulate(
            config.duration, config.trials, method="sgd", seed=config.seed, save_points=config.save_points
        )
        found[name] = trained["diffusion"].max("time", keep_attrs=True)
    facts = {"width": 12, "depth": 4, "teacher": net.singular_values}
    return with_provenance(
        xr.Dataset(found), "DeepLinear", facts, options=vars(config),
        seed=config.seed, precision="float64", wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def _slopes(values: xr.DataArray, axis: str) -> Any:
    """Slope of log(largest diffusion) over log(parameter), for every trial and mode."""
    x = np.log(values[axis].astype(float))
    x = x - x.mean()
    return (x * np.log(values)).sum(axis) / (x**2).sum()


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Proportional: a slope of 1 on doubly logarithmic axes; the rival is no dependence."""
    verdicts = []
    for claim, (axis, name), sign in zip((RATE, BATCH), _AXES.items(), (1.0, -1.0), strict=True):
        slope, error = over_trials(sign * _slopes(record[name], axis))
        note = f"slope per mode over {axis} {record[axis].values.tolist()}; 0.1: SGD's path itself moves with the noise"
        verdicts.append(claim.equals(slope, 1.0, three_errors(error) + 0.1, rival=0.0, standard_error=error, note=note))
    return tuple(verdicts)


def plot(record: xr.Dataset) -> Any:
    """Draw the largest diffusion over the learning rate and over 1/batch."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    for ax, (axis, name) in zip(axes[0], _AXES.items(), strict=True):
        mean, spread = record[name].mean("trial"), record[name].std("trial", ddof=1) / np.sqrt(record.sizes["trial"])
        x = record[axis] if axis == "learning_rate" else 1 / record[axis]
        for index, colour in zip(range(record.sizes["mode"]), PALETTE, strict=False):
            label = f"s = {float(record['singular_value'][index]):g}"
            ax.errorbar(x, mean.isel(mode=index), 3 * spread.isel(mode=index), color=colour, marker="o", label=label)
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("learning rate (time)" if axis == "learning_rate" else "1/batch size")
        ax.set_ylabel("largest diffusion along the mode")
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Diffusion over learning rate and batch size",
    source="deep-linear Figures 9 and 10",
    kind="figure",
    claims=(RATE, BATCH),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
