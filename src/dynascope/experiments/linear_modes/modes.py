"""layerwise Figure 3.3: All modes at once, or one after the other."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.linear_modes.gradient_flow import exact, gradient_flow
from dynascope.experiments.linear_modes.losses import diagonal_loss, population_loss
from dynascope.experiments.sources import layerwise
from dynascope.models.linear_modes import DiagonalNetwork, mode_curves


@dataclass(frozen=True)
class Config:
    """S = 1 and a few variances; the source does not give them, nor the start."""

    variances: tuple[float, ...] = (1.0, 0.4, 0.15)
    start: float = 0.01
    duration: float = 60.0
    points: int = 301


def run(config: Config) -> xr.Dataset:
    """Integrate both models for S = 1."""
    times, variance = np.linspace(0.0, config.duration, config.points), np.array(config.variances)
    begin = np.full(variance.size, config.start)
    record = DiagonalNetwork(variance, 1.0, begin, begin).solve(times)
    flow = gradient_flow(diagonal_loss, {"first": begin, "second": begin}, times, data=(variance, 1.0))
    data = (np.diag(variance), np.ones(variance.size))  # covariance of independent inputs, and S
    linear = gradient_flow(population_loss, {"w": np.zeros(variance.size)}, times, data=data)
    record["product_flow"] = (("mode", "time"), (flow["first"] * flow["second"]).T)
    record["linear_flow"] = (("mode", "time"), linear["w"].T)
    record["linear"] = (("mode", "time"), mode_curves(times, variance))
    record["variance"] = ("mode", variance)
    return record


def _second(record: xr.Dataset, name: str) -> float:
    """How far the second mode is when the first reaches 95 %."""
    when = int(np.argmax(record[name].isel(mode=0).values >= 0.95))
    return float(record[name].isel(mode=1, time=when))


def _at_once(record: xr.Dataset) -> Judgement:
    variance = record["variance"].values
    expected = 1 - 0.05 ** (variance[1] / variance[0])
    return above(_second(record, "linear_flow"), 0.5, note=f"at that moment {expected:.2f} is expected")


def _draw(record: xr.Dataset, ax: Axes, *, name: str, title: str) -> None:
    """Saturation curves of one of the models."""
    for colour, mode in zip(plots.PALETTE, record["mode"].values, strict=False):
        variance = float(record["variance"].sel(mode=mode))
        ax.plot(record["time"], record[name].sel(mode=mode), color=colour, label=f"E[x²] = {variance:g}")
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel="strength of the mode/target", title=title)


EXPERIMENT = Experiment(
    layerwise(figure="3.3"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-3.3-linear",
            "the linear model's modes follow 1 − exp(−E[x²] t)",
            lambda r: exact(r["linear"] - r["linear_flow"]),
            layerwise(equation="3.10"),
            kind="own",  # (3.10) counts once, as eq1.26-curves
        ),
        Claim(
            "fig-3.3-layered",
            "the diagonal network's modes follow the sigmoid",
            lambda r: exact(r["product"] - r["product_flow"]),
            layerwise(equation="3.9"),
            kind="own",  # (3.9) counts once, as eq3.9-sigmoid
        ),
        Claim(
            "fig-3.3-at-once",
            "as the first linear mode reaches 95 %, the next is half-way",
            _at_once,
            layerwise(figure="3.3(a)"),
            kind="derived",
        ),
        Claim(
            "fig-3.3-sequence",
            "as the first layered mode reaches 95 %, the next is small",
            lambda r: below(_second(r, "product_flow"), 0.05),
            layerwise(figure="3.3(b)"),
            kind="derived",
        ),
    ),
    picture=Panels(
        partial(_draw, name="linear_flow", title="linear model"),
        partial(_draw, name="product_flow", title="diagonal network"),
    ),
    smoke={"points": 61},
    paper={"points": 2001},
    adapted="variances and start, which the source leaves out",
)
