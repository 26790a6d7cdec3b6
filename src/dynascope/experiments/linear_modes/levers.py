"""Table 6.1 on the scalar network: how far weights, target, input and output move γ₊."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.experiments.linear_modes.theorem_1 import loss
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import ScalarNetwork

# the rows of Table 6.1: factors on weights, target, input and output
TABLE = {
    "default": (5.0, 3.0, 1.0, 1.0),
    "weight downscaling": (1.0, 3.0, 1.0, 1.0),
    "target upscaling": (5.0, 30.0, 1.0, 1.0),
    "input downscaling": (5.0, 3.0, 0.01, 1.0),
    "output downscaling": (5.0, 3.0, 1.0, 0.1),
}


@dataclass(frozen=True)
class Config:
    """Standard normal weights over √width, times the weight scale; gradient flow until settled."""

    width: int = 20
    draws: int = 40
    seed: int = 65


SCALES = {"smoke": Config(width=5, draws=6), "laptop": Config(), "paper": Config(width=100, draws=200)}
FOLLOWS = Claim("table-6.1-flow", "layerwise (6.14)", "gradient flow ends at the γ₊ that the levers predict")
RAISES = Claim("table-6.1-raises", "layerwise Table 6.1", "each of the four levers raises γ₊ above the default's")
SAME = Claim("table-6.1-one-lever", "layerwise 6.3.1", "levers act only through target/(input·output·weight²)")
REGIME = Claim("table-6.1-regime", "layerwise 6.4.3", "each of the four makes training richer than the default")
_EXACT = 1e-8  # the solver's error, with room


def run(config: Config) -> xr.Dataset:
    """Integrate the flow for every row and draw, with the scales put where the network has them."""
    random = np.random.default_rng(config.seed)
    first, second = random.standard_normal((2, config.draws, config.width)) / np.sqrt(config.width)
    plain = ScalarNetwork(first, second, 1.0)
    record = plain.solve([0.0]).isel(time=0).drop_vars(["first", "second"]).rename(grid_0="draw")
    rows = np.array(list(TABLE.values()))
    weight, target, entry, output = rows.T[:, :, None]  # each (row, 1)
    lift = target / (entry * output * weight**2)
    measured = np.stack([_settled_growth(first, second, *row) for row in rows])
    record["measured"] = (("row", "draw"), measured)
    record["predicted"] = (
        ("row", "draw"),
        plain.amplification(weight=weight, target=target, input=entry, output=output),
    )
    record["through_target"] = (("row", "draw"), plain.amplification(target=lift))
    record["lift"] = ("row", lift[:, 0])
    return record.assign_coords(row=list(TABLE))


def _settled_growth(first: np.ndarray, second: np.ndarray, *row: float) -> np.ndarray:
    """γ₊ of each draw, measured: Σ(a + b)² at the end over Σ(a + b)² at the start.

    The input c·x has variance c² and needs the slope S/c; the output is multiplied by dividing Z.
    """
    weight, target, entry, output = row
    start = {"first": weight * first, "second": weight * second}
    slowest = float(np.sum(start["first"] ** 2 + start["second"] ** 2, axis=-1).min()) * (entry * output) ** 2
    draws = np.ones(len(first))
    data = (target / entry * draws, draws / output, entry**2 * draws)
    end = gradient_flow(loss, start, [0.0, 30.0 / slowest], data=data)
    sums = np.sum((end["first"] + end["second"]) ** 2, axis=-1)  # (time, draw)
    return np.asarray(sums[1] / sums[0])


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Measured against predicted growth, and against the default row."""
    measured = record["measured"]
    medians = ", ".join(f"{name} {float(v):.3g}" for name, v in zip(TABLE, measured.median("draw"), strict=True))
    gain = (measured / measured.isel(row=0)).isel(row=slice(1, None))
    error = abs(measured / record["predicted"] - 1).max("draw")
    other = abs(measured / record["through_target"] - 1).max("draw")
    change: Any = np.sqrt(measured)
    return (
        FOLLOWS.equals(error.values, 0.0, _EXACT, note=f"largest relative error; medians: {medians}"),
        RAISES.exceeds(gain.min("draw").values, 1.0, 0.0, note="smallest ratio to the default over draws"),
        SAME.equals(other.values, 0.0, _EXACT, note="the same γ₊ from the target alone; largest relative error"),
        REGIME.exceeds(
            change.isel(row=slice(1, None)).median("draw").values, float(change.isel(row=0).median()), 0.1,
            note="median √γ₊, by which paired weights grow, against the default's "
            f"{float(change.isel(row=0).median()):.3f}",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw measured and predicted γ₊ of every row."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=6.5, height=3.6)
    ax = axes[0, 0]
    places = np.arange(record.sizes["row"])
    ax.plot(places, record["measured"], "o", color=PALETTE[0], markersize=3, fillstyle="none")
    ax.plot(places, record["predicted"].median("draw"), "_", color=PALETTE[1], markersize=24, label="median, (6.14)")
    ax.set_xticks(places, [str(name).replace(" ", "\n") for name in record["row"].values])
    ax.set_yscale("log")
    ax.set_ylabel("amplification γ₊ (circles: gradient flow)")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Four levers on the amplification",
    source="layerwise Table 6.1",
    kind="figure",
    claims=(FOLLOWS, RAISES, SAME, REGIME),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
