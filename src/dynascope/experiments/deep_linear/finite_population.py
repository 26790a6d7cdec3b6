"""Appendix G.1: batches without replacement from a finite data set have less noise, by (N − b)/(b (N − 1))."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.sampling import covariance_with_error
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.parameters import grid
from dynascope.records import with_provenance

SIZE, BATCHES = 12, (1, 4, 8, 12)
RATE = 1e-5  # gradients are some 20 in size: at 0.01 the second order of a step would add several per cent


@dataclass(frozen=True)
class Config:
    """One step of SGD from the same weights, for many batches of a small data set."""

    trials: int = 16_384
    seed: int = 8


SCALES = {"smoke": Config(trials=4096), "laptop": Config(), "paper": Config(trials=65_000)}
FACTOR = Claim(
    "g1-factor",
    "deep-linear G.1",
    "the covariance of a batch's gradient is (N − b)/(b (N − 1)) times that of one sample of the data set",
)


def _network(**batches: Any) -> DeepLinear:
    return DeepLinear(
        2, [3, 3, 3], (1.0, 0.5), learning_rate=RATE, label_noise=0.3, data_size=SIZE, init_exponent=0.5, **batches
    )


def run(config: Config) -> xr.Dataset:
    """Variance of the modes after one step, over batches, for each batch size."""
    begun = time.perf_counter()
    net = _network(**grid(batch_size=BATCHES))
    start = [w[0] for w in net.initial_weights()]
    rate = float(net.learning_rate.ravel()[0])
    stepped = net.simulate(rate, config.trials, method="sgd", seed=config.seed, start=start, save_points=[rate])
    moved = stepped["amplitude"].isel(time=0).values  # (batch, trial, mode)
    parts = [covariance_with_error(each) for each in moved]
    record = xr.Dataset(
        {
            "variance": (("batch_size", "mode"), np.stack([c.diagonal() for c, _ in parts]) / rate**2),
            "variance_error": (("batch_size", "mode"), np.stack([e.diagonal() for _, e in parts]) / rate**2),
        },
        coords={"batch_size": list(BATCHES)},
    )
    return with_provenance(
        record, "DeepLinear", {"data_size": SIZE}, options=vars(config), seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Ratio to batches of one sample; the rival is 1/b, of sampling with replacement."""
    variance, error = record["variance"].values, record["variance_error"].values
    ratio = variance[1:] / variance[:1]
    spread = ratio * np.hypot(error[1:] / np.maximum(variance[1:], 1e-300), error[:1] / variance[:1])
    b = np.array(BATCHES[1:], float)
    expected = np.repeat(((SIZE - b) / (b * (SIZE - 1)))[:, None], ratio.shape[1], axis=1)
    rival = np.repeat((1 / b)[:, None], ratio.shape[1], axis=1)
    second_order = RATE * np.sqrt(variance[0].max())  # relative size of what a step adds beyond its gradient
    tolerance = three_errors(spread) + 3 * second_order * expected + 1e-12
    note = f"variance of modes after one step over that for b = 1; N = {SIZE}, b = {BATCHES[1:]}"
    return (FACTOR.equals(ratio, expected, tolerance, rival=rival, standard_error=spread, note=note),)


def plot(record: xr.Dataset) -> Any:
    """Draw variance over batch size, beside both factors."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure()
    ax, b = axes[0, 0], np.linspace(1, SIZE, 200)
    for index, colour in zip(range(record.sizes["mode"]), PALETTE, strict=False):
        one = float(record["variance"][0, index])
        error = 3 * record["variance_error"].isel(mode=index) / one
        ax.errorbar(record["batch_size"], record["variance"].isel(mode=index) / one, error, color=colour, marker="o",
                    linestyle="none", label=f"mode {index + 1}")  # fmt: skip
    ax.plot(b, (SIZE - b) / (b * (SIZE - 1)), color="black", label="(N − b)/(b (N − 1))")
    ax.plot(b, 1 / b, color="black", linestyle=":", label="1/b")
    ax.set_xlabel("batch size b (samples)")
    ax.set_ylabel("variance of one step over that for b = 1")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Batches of a finite data set",
    source="deep-linear G.1",
    kind="equation",
    claims=(FACTOR,),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
