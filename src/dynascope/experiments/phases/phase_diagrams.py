"""Load curves and test accuracy of networks over nonlinearity and one source of noise: Figure 1 and its variants."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.phases.load_curves import phase_training, run_grid
from dynascope.experiments.phases.shapes import bend, best_where_straight, straight
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials


@dataclass(frozen=True)
class Config:
    """Slopes (rows) by values of one source of noise (columns, the weakest first), for several seeds.

    `depth` counts hidden layers: a network that the paper calls 8-layer has 7. `first_layer` is where load curves
    begin: the paper leaves the input out on CIFAR. `best` is the shape of the load curve where the test accuracy is
    best: straight, or concave as the paper sees it for learning rates on CIFAR.
    """

    figure: str
    noise: str
    values: tuple[float, ...]
    slopes: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    seeds: int = 10
    data: str = "mnist"
    size: int = 10
    samples: int = 256
    epochs: int = 100
    batch_size: int = 2560
    learning_rate: float = 0.001
    depth: int = 7
    width: int = 100
    optimizer: str = "adam"
    normalisation: str = "batch"
    first_layer: int = 0
    best: str = "straight"
    thorough: bool = False


_GRID_AND_CLAIMS = ("figure", "noise", "values", "slopes", "seeds", "first_layer", "best", "thorough")


def run(config: Config) -> xr.Dataset:
    """Train the whole grid and keep what `training.train` measures at the end."""
    fixed = {name: value for name, value in vars(config).items() if name not in (*_GRID_AND_CLAIMS, config.noise)}
    record = run_grid({"slope": config.slopes, config.noise: config.values}, seeds=config.seeds, fixed=fixed)
    record["slope"].attrs["long_name"] = "slope of the leaky ReLU"
    record[config.noise].attrs["long_name"] = config.noise.replace("_", " ")
    record["accuracy"].attrs["long_name"] = "accuracy"
    return record


def _read(record: xr.Dataset) -> xr.Dataset:
    """What claims look at, over (slope, noise, trial); trial i starts alike in every cell, so cells are compared by it.

    Adds bend and straight of training curves, and reached: the test accuracy.
    """
    config = settings(record)
    cells = record.isel(layer=slice(config.first_layer, None)).transpose("slope", config.noise, "trial", ...)
    train, reached = cells["load"].sel(probe="train", drop=True), cells["accuracy"].sel(probe="test", drop=True)
    return cells.assign(bend=bend(train), straight=straight(train), reached=reached.astype(float))


def _best_row(seen: xr.Dataset) -> int:
    """The slope with the best test accuracy."""
    return int(seen["reached"].values.mean(axis=-1).max(axis=-1).argmax())


def _nonlinear(values: xr.DataArray) -> xr.DataArray:
    return values[values["slope"].values < 1]


def _falls(bends: xr.DataArray) -> Judgement:
    """Curvature at the strongest noise less that at the weakest."""
    bends = _nonlinear(bends)
    note = "difference of curvatures, one case for each slope"
    return below(over_trials(bends[:, -1] - bends[:, 0]), 0.0, note=note)


def _best_straight(seen: xr.Dataset) -> Judgement:
    row = seen.isel(slope=_best_row(seen))
    return best_where_straight(row["reached"], row["load"].sel(probe="train"))


def _best_concave(seen: xr.Dataset) -> Judgement:
    """Curvature in the cell with the best mean accuracy."""
    cells = seen["reached"].values.mean(axis=-1)
    row, column = np.unravel_index(cells.argmax(), cells.shape)
    note = f"curvature in row {row + 1}, column {column + 1}"
    return above(over_trials(seen["bend"][row, column]), 0.0, note=note)


def _straightest_inside(seen: xr.Dataset) -> Judgement:
    curves = seen["straight"][0].values  # (noise, trial)
    inside = 1 + int(curves[1:-1].mean(axis=-1).argmax())
    return above(over_trials(curves[inside] - curves[[0, -1]]), 0.0, note="R² beyond that at either end")


def _test_alike(seen: xr.Dataset) -> Judgement:
    bends = bend(seen["load"].mean("trial"))  # (slope, noise, probe)
    train, test = (bends.sel(probe=each).values.ravel() for each in ("train", "test"))
    return above(np.corrcoef(train, test)[0, 1], 0.9, note="correlation of curvatures over cells")


def _falls_less(seen: xr.Dataset) -> Judgement:
    corner = seen.isel({settings(seen).noise: 0, "slope": -1}).sel(probe="train")
    fall, other = (corner[name][:, 0] - corner[name][:, -1] for name in ("load", "load_pinv"))
    return below(over_trials(other / fall), 0.5)


def _claims(figure: str, config: Config) -> tuple[Claim, ...]:
    """What a phase diagram claims; a thorough one also holds train against test and two measures of separation."""
    prefix = f"fig-{figure.lower()}".replace("(", "").replace(")", "")
    if config.best == "concave":
        text = "the load curve with the best test accuracy is concave"
        best = Claim(f"{prefix}-accuracy", text, _best_concave, settles_at="paper")
    else:
        best = Claim(
            f"{prefix}-accuracy",
            "in the row with the best test accuracy, it is reached where the load curve is straightest",
            _best_straight,
            spring_block(figure=f"{figure}, S5"),
        )
    claims = (
        Claim(
            f"{prefix}-concave",
            "most nonlinear network, least noise: the load curve is concave",
            lambda seen: above(over_trials(seen["bend"][0, 0]), 0.0, note="curvature of the load curve"),
        ),
        Claim(
            f"{prefix}-convex",
            "least nonlinear network, most noise: the load curve is convex",
            lambda seen: below(over_trials(seen["bend"][-1, -1]), 0.0),
        ),
        Claim(
            f"{prefix}-noise",
            "for every slope, the strongest noise leaves a more convex curve than the weakest",
            lambda seen: _falls(seen["bend"]),
        ),
        Claim(
            f"{prefix}-nonlinearity",
            "at the weakest noise, the most nonlinear network has a more concave curve than the linear one",
            lambda seen: above(over_trials(seen["bend"][0, 0] - seen["bend"][-1, 0]), 0.0),
        ),
        best,
    )
    return claims + _thorough(prefix, figure) if config.thorough else claims


def _thorough(prefix: str, figure: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{prefix}-linear",
            "for the most nonlinear network, some noise in between gives the straightest curve",
            _straightest_inside,
        ),
        Claim(
            f"{prefix}-test",
            "test load curves bend as training ones do: correlation over cells above 0.9",
            _test_alike,
            spring_block(figure=f"{figure}, S4, S19, S20"),
        ),
        Claim(
            f"{prefix}-pinv",
            "both definitions of separation rank the cells of nonlinear networks alike (above 0.8)",
            lambda seen: _falls(bend(seen["load_pinv"].sel(probe="train"))),
            spring_block(figure=f"{figure}, S13"),
        ),
        Claim(
            f"{prefix}-pinv-linear",
            "in linear networks log tr(Σw Σb⁺) falls less than half as far over the layers as (3) does",
            _falls_less,
            spring_block(figure=f"{figure}, S14"),
        ),
    )


def _draw_cells(record: xr.Dataset, ax: Axes) -> None:
    """Load curves of training and test data over a shade of the test accuracy."""
    config = settings(record)
    plots.plot_network_phases(record, ax, noise=config.noise, first_layer=config.first_layer)
    ax.set_title(f"Load curves of networks on {config.data} ({config.figure.replace('FIG.', 'Figure')})")


def _draw_best_row(record: xr.Dataset, ax: Axes) -> None:
    """R² and accuracy along the row with the best accuracy."""
    seen, noise = _read(record), record[settings(record).noise]
    row, columns = _best_row(seen), np.arange(noise.size)
    ax.plot(columns, seen["reached"][row].mean("trial"), "k-o")
    other = ax.twinx()
    other.plot(columns, seen["straight"][row].mean("trial"), "-s", color="#C1272D")
    other.set_ylabel("R² of the load curve", color="#C1272D")
    ax.set_xticks(columns, [f"{value:g}" for value in noise.values])
    title = f"slope {float(record['slope'][row]):g}, the row with the best accuracy (S5)"
    across = f"{noise.attrs['long_name']}, the weakest noise first"
    ax.set(xlabel=across, ylabel="test accuracy", title=title)


# --- scales: digits, which need no download, or a part of the data set itself ---------------------------------------

DIGITS: Mapping[str, Any] = {"data": "digits", "size": 0, "samples": 0, "width": 64, "batch_size": 32, "epochs": 12}
COARSE = {**DIGITS, "slopes": (0.0, 0.2, 0.6, 1.0), "seeds": 4}
COARSER = {**COARSE, "slopes": (0.0, 0.4, 1.0)}
PART = {"samples": 64, "batch_size": 32, "epochs": 20, "slopes": (0.0, 0.4, 1.0), "seeds": 4}
TWO_BATCHES = {"values": (100, 5), "samples": 40, "learning_rate": 0.003}
_SMOKE = {**DIGITS, "seeds": 4, "slopes": (0.0, 1.0), "epochs": 8, "depth": 7}
_NOISES: Mapping[str, Mapping[str, Any]] = {
    "dropout": {"values": (0.0, 0.1, 0.3)},
    "data_noise": {"values": (0.0, 0.2, 0.6)},
    "learning_rate": {"values": (5e-4, 3e-3, 2e-2)},
    "batch_size": {"values": (100, 12, 4), "samples": 60, "learning_rate": 0.002},
}


def evenly(last: float, count: int) -> tuple[float, ...]:
    """Values from 0 on.

    >>> evenly(0.3, 4)
    (0.0, 0.1, 0.2, 0.3)
    """
    return tuple(float(value) for value in np.linspace(0.0, last, count).round(4))


DROPOUTS, DATA_NOISES = evenly(0.3, 16), evenly(0.8, 9)
RATES = tuple(float(value) for value in np.geomspace(1e-4, 0.5, 12))
BATCH_SIZES = tuple(5 * 2**j for j in range(9, -1, -1))


def phase_diagram(
    config: Config, *, laptop: Mapping[str, Any], smoke: Mapping[str, Any] | None = None, adapted: str = ""
) -> Experiment:
    """A phase diagram of networks; `config` is its paper scale.

    adapted: what is ours at that scale, beyond what all diagrams do otherwise than the paper
    """
    figure = config.figure.removeprefix("FIG. ")
    always = "images standardised and drawn by class; no early stopping"
    return Experiment(
        spring_block(figure=figure),
        config,
        run,
        claims=_claims(figure, config),
        picture=Panels(_draw_cells, _draw_best_row, width=7.5, height=5.5),
        read=_read,
        smoke={**_SMOKE, **_NOISES[config.noise], **(smoke or {})},
        laptop=laptop,
        model="PhaseDiagram",
        precision="float32",
        needs=("torch", "sklearn"),
        adapted="; ".join(part for part in (always, adapted) if part),
        sweep=phase_training,
    )
