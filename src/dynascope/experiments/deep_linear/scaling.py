"""deep-linear Figure 9, Figure 10: Diffusion over learning rate and batch size.

The largest diffusion grows linearly with the learning rate and with 1/batch. It is read off the steps of SGD itself:
their variance over their length, in which neither the learning rate nor the batch size is put in by hand.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.deep_linear.drawing import each_mode, error_bars
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import over_trials

_LARGEST = {"learning_rate": "largest_by_rate", "batch_size": "largest_by_batch"}


@dataclass(frozen=True)
class Config:
    """Depth 4, width 12; one of the two parameters varies."""

    learning_rate: tuple[float, ...] = (0.0025, 0.005, 0.0075, 0.01, 0.0125)
    batch_size: tuple[float, ...] = (1, 2, 4, 8, 16)
    init_exponent: float = 2.0
    duration: float = 60.0
    trials: int = 32
    save_points: int = 301
    steps: int = 128  # of which the variance is taken, from each network and for each mode
    seed: int = 9


def _increments(net: DeepLinear, config: Config) -> xr.DataArray:
    """Variance of one step of SGD over its length, where the diffusion of each mode is largest, (trial, mode).

    Many steps with batches of their own start at the weights that SGD had reached there.
    """
    trained = net.simulate(
        config.duration, config.trials, seed=config.seed, save_points=config.save_points, keep_weights=True
    )
    when = trained["diffusion"].argmax("time")  # (trial, mode)
    reached = [
        trained[f"weight_{layer}"].isel(time=when).transpose("trial", "mode", ...) for layer in trained["matrix"].values
    ]
    start = [np.repeat(w.values.reshape(-1, *w.shape[2:]), config.steps, axis=0) for w in reached]
    rate = float(net.learning_rate)
    stepped = net.simulate(rate, len(start[0]), seed=config.seed + 1, save_points=[rate], start=start)
    moved = stepped["amplitude"].isel(time=0).values.reshape(*when.shape, config.steps, -1)  # (…, step, mode)
    own = np.diagonal(moved, axis1=1, axis2=3)  # (trial, step, mode)
    return when.copy(data=own.var(axis=1, ddof=1) / rate)


def run(config: Config) -> xr.Dataset:
    """Two sweeps of SGD, one network after another."""
    found = {}
    for axis, name in _LARGEST.items():
        nets = (DeepLinear(init_exponent=config.init_exponent, **{axis: each}) for each in getattr(config, axis))
        values = xr.DataArray(list(getattr(config, axis)), dims=axis)
        found[name] = xr.concat([_increments(net, config) for net in nets], values.rename(axis))
        found[name].attrs.update(long_name="variance of steps over their length", units="amplitude²/time")
    return xr.Dataset(found)


def _proportional(record: xr.Dataset, *, axis: str, slope: float) -> Judgement:
    """Proportional: a slope of ±1 on doubly logarithmic axes; the rival is no dependence."""
    x = np.log(record[axis].astype(float))
    x = x - x.mean()
    slopes = (x * np.log(record[_LARGEST[axis]])).sum(axis) / (x**2).sum()  # of every trial and mode
    note = f"slope per mode over {axis} {record[axis].values.tolist()}; 0.1: SGD's path itself moves with the noise"
    return equal(over_trials(slope * slopes), 1.0, 0.1, rival=0.0, note=note)


def _draw(record: xr.Dataset, ax: Axes, *, axis: str) -> None:
    x = record[axis] if axis == "learning_rate" else 1 / record[axis]
    for mode, colour, label in each_mode(record):
        error_bars(ax, x, over_trials(mode[_LARGEST[axis]]), colour, label, line="-")
    ax.set(xlabel="learning rate (time)" if axis == "learning_rate" else "1/batch size")
    ax.set(ylabel="largest diffusion along the mode", xlim=(0, None), ylim=(0, None))


EXPERIMENT = Experiment(
    deep_linear(figure="9, 10"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-9-linear",
            "the largest variance of a mode's increments over time is proportional to the learning rate",
            partial(_proportional, axis="learning_rate", slope=1.0),
            deep_linear(figure="9"),
        ),
        Claim(
            "fig-10-linear",
            "the largest variance of a mode's increments over time is proportional to 1/batch",
            partial(_proportional, axis="batch_size", slope=-1.0),
            deep_linear(figure="10"),
        ),
    ),
    picture=Panels(*(partial(_draw, axis=axis) for axis in _LARGEST)),
    smoke={
        "learning_rate": (0.0025, 0.01),
        "batch_size": (1, 4),
        "init_exponent": 1.5,
        "duration": 24.0,
        "trials": 16,
        "save_points": 81,
        "steps": 64,
    },
    paper={"trials": 100, "duration": 100.0, "save_points": 501},
    model="DeepLinear",
    adapted="values of the axes, which the source leaves out, and initial weights with γ = 2 for its 3",
)
