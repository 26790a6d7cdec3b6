"""deep-linear Section G.1: Batches of a finite data set.

Batches without replacement have less noise than fresh samples, by (N − b)/(b (N − 1)).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.deep_linear.drawing import error_bars
from dynascope.experiments.deep_linear.sampling import covariance_with_error
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.parameters import grid
from dynascope.statistics.errors import Estimate

SIZE, BATCHES = 12, (1, 4, 8, 12)
RATE = 1e-5  # gradients are some 20 in size: at 0.01 the second order of a step would add several per cent


@dataclass(frozen=True)
class Config:
    """One step of SGD from the same weights, for many batches of a small data set."""

    trials: int = 32_768
    seed: int = 8


def _steps(config: Config, data_size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Variance of the modes after one step over its length squared, and the standard error, (batch size, mode)."""
    net = DeepLinear(
        2,
        3,
        (1.0, 0.5),
        learning_rate=RATE,
        label_noise=0.3,
        init_exponent=0.5,
        data_size=data_size,
        **grid(batch_size=BATCHES),
    )
    start = [w[0] for w in net.initial_weights()]
    stepped = net.simulate(RATE, config.trials, seed=config.seed, start=start, save_points=[RATE])
    moved = stepped["amplitude"].isel(time=0).values / RATE  # (batch, trial, mode)
    found = [[each.diagonal() for each in covariance_with_error(one)] for one in moved]
    variance, error = np.transpose(found, (1, 0, 2))
    return variance, error


def run(config: Config) -> xr.Dataset:
    """Variance of the modes after one step for each batch size, with batches of the data set and of fresh samples."""
    dims = ("batch_size", "mode")
    measured: dict[str, Any] = {}
    for prefix, size in (("", SIZE), ("online_", None)):
        variance, error = _steps(config, size)
        measured |= {f"{prefix}variance": (dims, variance), f"{prefix}variance_error": (dims, error)}
    return xr.Dataset(measured, coords={"batch_size": list(BATCHES)})


def _factor(batch_size: np.ndarray) -> np.ndarray:
    return np.asarray((SIZE - batch_size) / (batch_size * (SIZE - 1)))


def _judge(record: xr.Dataset, *, name: str, online: bool) -> Judgement:
    """Ratio to batches of one sample; rivals are sampling with replacement and without."""
    variance, error = recorded(record, name)
    ratio = variance[1:] / variance[:1]
    spread = ratio * np.hypot(error[1:] / np.maximum(variance[1:], 1e-300), error[:1] / variance[:1])
    b = np.repeat(np.array(BATCHES[1:], float)[:, None], ratio.shape[1], axis=1)
    expected, rival = (1 / b, _factor(b)) if online else (_factor(b), 1 / b)
    second_order = RATE * np.sqrt(variance[0].max())  # relative size of what a step adds beyond its gradient
    bound = 3 * second_order * expected + 1e-12
    note = f"variance of modes after one step over that for b = 1; N = {SIZE}, b = {BATCHES[1:]}"
    return equal(Estimate(ratio, spread), expected, bound, rival=rival, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    variance, error = recorded(record, "variance")
    for index, colour in zip(range(record.sizes["mode"]), plots.PALETTE, strict=False):
        share = Estimate(variance[:, index] / variance[0, index], error[:, index] / variance[0, index])
        error_bars(ax, BATCHES, share, colour, f"mode {index + 1}")
    b = np.linspace(1, SIZE, 200)
    ax.plot(b, _factor(b), color="black", label="(N − b)/(b (N − 1))")
    ax.plot(b, 1 / b, color="black", linestyle=":", label="1/b")
    ax.set(xlabel="batch size b (samples)", ylabel="variance of one step over that for b = 1")


EXPERIMENT = Experiment(
    deep_linear(section="G.1"),
    Config(),
    run,
    claims=(
        Claim(
            "g1-factor",
            "the covariance of a batch's gradient is (N − b)/(b (N − 1)) times that of one sample of the data set",
            partial(_judge, name="variance", online=False),
            deep_linear(equation="32", section="G.1"),
        ),
        Claim(
            "sec-2.2-batches",
            "online, the covariance of a batch's gradient is Σ/b",
            partial(_judge, name="online_variance", online=True),
            deep_linear(section="2.2, A.1"),
        ),
    ),
    picture=Panels(_draw),
    smoke={"trials": 12_288},
    paper={"trials": 65_000},
    model="DeepLinear",
)
