"""elastic (1), (4), (5): The discrete process becomes the SDE.

It draws one sample at a time; (2) and (5) are what is left as h → 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic import LocallyElastic
from dynascope.statistics.errors import Estimate, over_trials

_START = np.array([[1.0, -0.5, 0.2], [0.1, 0.8, -0.3], [-0.2, 0.4, 1.5]])
_INTRA, _INTER, _NOISE, _END = 1.0, 0.3, 0.1, 2.0


@dataclass(frozen=True)
class Config:
    """The same logit model at several step sizes, with and without noise."""

    step_sizes: tuple[float, ...] = (0.08, 0.04, 0.02, 0.01)
    samples: int = 4
    trials: int = 4000
    seed: int = 41


def run(config: Config) -> xr.Dataset:
    """Simulate the discrete process; keep the mean of the class means and each trial's squared distance from it."""
    noisy, quiet = (LocallyElastic(3, 3, _INTRA, _INTER, "logits", noise=noise) for noise in (_NOISE, 0.0))
    found = []
    for size in config.step_sizes:
        last, still = (_last(model, size, config) for model in (noisy, quiet))
        steps = np.linalg.matrix_power(np.eye(9) + size * noisy.drift(0.0), round(_END / size))
        mean = over_trials(last)
        means = {"mean": mean.mean, "error": mean.error, "euler": (steps @ _START.ravel()).reshape(3, 3)}
        each = xr.Dataset({name: (("class", "feature"), values) for name, values in means.items()})
        found.append(each.assign(noisy=_distance(last), quiet=_distance(still)))
    record = xr.concat(found, xr.Variable("step_size", list(config.step_sizes), {"long_name": "step size h"}))
    record = record.merge(_binary(config))
    record["exact_mean"] = (("class", "feature"), noisy.mean_path([_END], _START)[0])
    record["exact_variance"] = float(np.trace(noisy.covariance([_END], config.samples)[0]))
    return record


def _binary(config: Config) -> xr.Dataset:
    """Two classes in one dimension, (1): class means over trials beside Euler's steps of (3), by a loop of its own."""
    start, size = np.array([[1.0], [0.4]]), config.step_sizes[0]
    model = LocallyElastic(2, 1, _INTRA, _INTER, "isotropic", noise=_NOISE)
    options: dict[str, Any] = {"seed": config.seed, "save_points": 2, "start": start, "discrete": True}
    run = model.simulate(_END, size, config.samples, config.trials, **options)
    mean = over_trials(run["class_mean"].isel(time=-1, feature=0))
    one, two = start[:, 0]
    for _ in range(round(_END / size)):
        one, two = one + size * (_INTRA * one + _INTER * two) / 2, two + size * (_INTER * one + _INTRA * two) / 2
    alone = (1 + size * _INTRA / 2) ** round(_END / size) * start[:, 0]
    found = {"binary_mean": mean.mean, "binary_error": mean.error, "binary_euler": [one, two], "binary_alone": alone}
    return xr.Dataset({name: ("side", values) for name, values in found.items()})


def _last(model: LocallyElastic, size: float, config: Config) -> xr.DataArray:
    """Class means at the end, (trial, class, feature)."""
    options: dict[str, Any] = {"seed": config.seed, "save_points": 2, "start": _START, "discrete": True}
    return model.simulate(_END, size, config.samples, config.trials, **options)["class_mean"].isel(time=-1, drop=True)


def _distance(last: xr.DataArray) -> tuple[str, np.ndarray]:
    return "trial", ((last - last.mean("trial")) ** 2).sum(["class", "feature"]).values


def _follows_euler(record: xr.Dataset) -> Judgement:
    mean = Estimate(record["mean"].values, record["error"].values)
    return equal(mean, record["euler"], note=f"all entries, h = {record['step_size'].values}")


def _follows_binary(record: xr.Dataset) -> Judgement:
    mean, euler = Estimate(record["binary_mean"].values, record["binary_error"].values), record["binary_euler"].values
    return equal(mean, euler, rival=record["binary_alone"].values, note="α = 1, β = 0.3; rival: classes alone, β = 0")


def _ordered(record: xr.Dataset) -> Judgement:
    bias = np.linalg.norm((record["euler"] - record["exact_mean"]).values, axis=(1, 2))
    return equal(_slope(record) @ np.log(bias), 1.0, 0.05, note="slope of |Euler − exact| in h; bound 0.05: curvature")


def _slope(record: xr.Dataset) -> np.ndarray:
    """The slope in log h of a quantity, as a weighted sum of its logarithms."""
    return np.asarray(np.linalg.pinv(np.vander(np.log(record["step_size"].values), 2))[0])


def _spreads(record: xr.Dataset) -> Judgement:
    fit, quiet = _slope(record), over_trials(record["quiet"])
    slope = Estimate(fit @ np.log(quiet.mean), np.asarray(np.linalg.norm(fit * quiet.error / quiet.mean)))
    variances = f"variances {quiet.mean.round(4)}"
    note = f"slope of log variance on log h without noise; bound 0.05: curvature; {variances}"
    return equal(slope, 1.0, 0.05, rival=0.0, note=note)


def _limit(record: xr.Dataset) -> Judgement:
    line, noisy = np.linalg.pinv(np.vander(record["step_size"].values, 3))[2], over_trials(record["noisy"])
    limit = Estimate(line @ noisy.mean, np.asarray(np.linalg.norm(line * noisy.error)))
    note = f"parabola through the summed variances {noisy.mean.round(4)}"
    return equal(limit, float(record["exact_variance"]), note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """The summed variance of the class means over the step size, with and without noise."""
    size = record["step_size"].values
    fine = np.linspace(0.0, size.max(), 50)
    for colour, name, label in zip(plots.PALETTE, ("noisy", "quiet"), ("with noise", "without"), strict=False):
        total = record[name].mean("trial")
        ax.plot(size, total, "o", color=colour, label=f"discrete process, {label}")
        ax.plot(fine, np.polyval(np.polyfit(size, total, 2), fine), color=colour)
    ax.axhline(float(record["exact_variance"]), color="black", linestyle="--", label="SDE, exact")
    ax.set(xlabel=plots.axis_label(record["step_size"]), ylabel="variance of class means, summed")
    ax.set_xlim(left=0.0)
    ax.set_ylim(bottom=0.0)


EXPERIMENT = Experiment(
    elastic("1, 4, 5"),
    Config(),
    run,
    claims=(
        Claim(
            "eq1-mean",
            "two classes that are trained on one sample at a time follow Euler's steps of (3) on average",
            _follows_binary,
            elastic("1, 3"),
            "derived",
        ),
        Claim(
            "eq5-mean",
            "class means of the discrete process follow Euler's steps of the LE-ODE on average",
            _follows_euler,
            elastic("4, 6"),
            "derived",
        ),
        Claim(
            "eq5-order",
            "class means of the discrete process approach (6) in proportion to h",
            _ordered,
            elastic("4, 6"),
            "derived",
        ),
        Claim(
            "eq5-spread",
            "drawing samples adds variance to class means in proportion to h, so that the noise of (5) alone remains",
            _spreads,
            elastic("4, 5"),
            "derived",
        ),
        Claim(
            "eq5-variance", "extrapolated to h = 0 the variance is that of the SDE", _limit, elastic("4, 5"), "derived"
        ),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    model="LocallyElastic",
    smoke={"trials": 1000},
    paper={"step_sizes": (0.08, 0.04, 0.02, 0.01, 0.005), "trials": 40_000},
)
