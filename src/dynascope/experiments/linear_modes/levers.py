"""layerwise Table 6.1: Four levers on the amplification.

How far weights, target, input and output move γ₊ of the scalar network.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.linear_modes.gradient_flow import EXACT, gradient_flow
from dynascope.experiments.linear_modes.losses import scalar_loss
from dynascope.experiments.sources import layerwise
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


def run(config: Config) -> xr.Dataset:
    """Integrate the flow for every row and draw, with the scales put where the network has them."""
    random = np.random.default_rng(config.seed)
    first, second = random.standard_normal((2, config.draws, config.width)) / np.sqrt(config.width)
    plain = ScalarNetwork(first, second, 1.0)
    record = plain.solve([0.0]).isel(time=0).drop_vars(["first", "second"]).rename(grid_0="draw")
    rows = np.array(list(TABLE.values()))
    weight, target, entry, output = rows.T[:, :, None]  # each (row, 1)
    lift = target / (entry * output * weight**2)
    predicted = plain.amplification(weight=weight, target=target, input=entry, output=output)
    record["measured"] = (("row", "draw"), np.stack([_settled_growth(first, second, *row) for row in rows]))
    record["predicted"] = (("row", "draw"), predicted)
    alone = [_settled_growth(first, second, 1.0, float(each), 1.0, 1.0) for each in lift[:, 0]]
    record["through_target"] = (("row", "draw"), np.stack(alone))
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
    end = gradient_flow(scalar_loss, start, [0.0, 30.0 / slowest], data=data)
    sums = np.sum((end["first"] + end["second"]) ** 2, axis=-1)  # (time, draw)
    return np.asarray(sums[1] / sums[0])


def _off(record: xr.Dataset, name: str) -> xr.DataArray:
    """Largest relative error of a prediction over draws."""
    return abs(record["measured"] / record[name] - 1).max("draw")


def _predicted(record: xr.Dataset) -> Judgement:
    medians = zip(TABLE, record["measured"].median("draw").values, strict=True)
    listed = ", ".join(f"{name} {value:.3g}" for name, value in medians)
    return equal(_off(record, "predicted"), 0.0, EXACT, note=f"largest relative error; medians: {listed}")


def _raised(record: xr.Dataset) -> Judgement:
    gain = (record["measured"] / record["measured"].isel(row=0)).isel(row=slice(1, None))
    return above(gain.min("draw"), 1.0, note="smallest ratio to the default over draws")


def _richer(record: xr.Dataset) -> Judgement:
    default, *others = np.median(np.sqrt(record["measured"].values), axis=1)
    note = f"median √γ₊, by which paired weights grow, against the default's {default:.3f}"
    return above(others, default, 0.1, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """Measured and predicted γ₊ of every row."""
    places = np.arange(record.sizes["row"])
    median = record["predicted"].median("draw")
    ax.plot(places, record["measured"], "o", color=plots.PALETTE[0], markersize=3, fillstyle="none")
    ax.plot(places, median, "_", color=plots.PALETTE[1], markersize=24, label="median, (6.14)")
    ax.set_xticks(places, [str(name).replace(" ", "\n") for name in record["row"].values])
    ax.set(yscale="log", ylabel="amplification γ₊ (circles: gradient flow)")


EXPERIMENT = Experiment(
    layerwise(table="6.1"),
    Config(),
    run,
    claims=(
        Claim(
            "table-6.1-flow",
            "gradient flow ends at the γ₊ that the levers predict",
            _predicted,
            layerwise(equation="6.14"),
            kind="derived",
        ),
        Claim("table-6.1-raises", "each of the four levers raises γ₊ above the default's", _raised),
        Claim(
            "table-6.1-one-lever",
            "levers act only through target/(input·output·weight²)",
            lambda r: equal(
                _off(r, "through_target"), 0.0, EXACT, note="two flows, one with the target alone; largest relative gap"
            ),
            layerwise(section="6.3.1"),
            kind="own",  # follows from the same flows as table-6.1-flow
        ),
        Claim(
            "table-6.1-regime",
            "each of the four makes training richer than the default",
            _richer,
            layerwise(section="6.4.3"),
            kind="own",  # of MLPs, as in that section: fig-6.5-richer
        ),
    ),
    picture=Panels(_draw, width=6.5, height=3.6),
    smoke={"width": 5, "draws": 6},
    paper={"width": 100, "draws": 200},
    adapted="the scalar network in place of an MLP on MNIST",
)
