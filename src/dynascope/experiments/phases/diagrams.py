"""FIG. 1 and its variants: load curves and test accuracy of networks over nonlinearity and one source of noise."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.phases.load_curves import phase_training, run_grid
from dynascope.experiments.phases.shapes import best_where_straight
from dynascope.experiments.registry import Experiment
from dynascope.measure.separation import curvature, straightness
from dynascope.networks.arguments import device, device_name
from dynascope.records import attribute, with_provenance
from dynascope.statistics.errors import over_trials

NAMES = {
    "dropout": "dropout",
    "data_noise": "data noise",
    "learning_rate": "learning rate",
    "batch_size": "batch size",
}


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


_LOADS = ("load", "load_pinv")
_TRAINED = ("data", "size", "samples", "epochs", "batch_size", "learning_rate", "depth", "width", "optimizer")


def run(config: Config) -> xr.Dataset:
    """Train the whole grid and keep what `training.train` measures at the end."""
    begun = time.perf_counter()
    fixed = {name: getattr(config, name) for name in (*_TRAINED, "normalisation") if name != config.noise}
    grid = {"slope": config.slopes, config.noise: config.values}
    record = run_grid(grid, seeds=config.seeds, fixed=fixed)
    record["slope"].attrs["long_name"] = "slope of the leaky ReLU"
    record[config.noise].attrs["long_name"] = NAMES[config.noise]
    record["accuracy"].attrs["long_name"] = "accuracy"
    parameters = vars(config) | {"values": list(config.values), "slopes": list(config.slopes)}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record, "PhaseDiagram", parameters, options={}, seed=0, precision="float32", wall_time=wall_time,
        device=device_name(device(None)),
    )  # fmt: skip


_ALWAYS = {
    "concave": ("", "most nonlinear network, least noise: the load curve is concave"),
    "convex": ("", "least nonlinear network, most noise: the load curve is convex"),
    "noise": ("", "for every slope, the strongest noise leaves a more convex curve than the weakest"),
    "nonlinearity": (
        "",
        "at the weakest noise, the most nonlinear network has a more concave curve than the linear one",
    ),
    "accuracy": (", S5", "in the row with the best test accuracy, it is reached where the load curve is straightest"),
}
_BEST_CONCAVE = {"accuracy": ("", "the load curve with the best test accuracy is concave")}
_THOROUGH = {
    "linear": ("", "for the most nonlinear network, some noise in between gives the straightest curve"),
    "test": (", S4, S19, S20", "test load curves bend as training ones do: correlation over cells above 0.9"),
    "pinv": (", S13", "both definitions of separation rank the cells of nonlinear networks alike (above 0.8)"),
    "pinv-linear": (
        ", S14",
        "in linear networks log tr(Σw Σb⁺) falls less than half as far over the layers as (3) does",
    ),
}


def claims_of(figure: str, *, thorough: bool = False, best: str = "straight") -> dict[str, Claim]:
    """What a phase diagram claims; a thorough one also holds train against test and two measures of separation.

    >>> claims_of("FIG. 1(c)")["concave"].id
    'fig-1c-concave'
    """
    prefix = figure.lower().replace(". ", "-").replace("(", "").replace(")", "")
    chosen = _ALWAYS | (_THOROUGH if thorough else {}) | (_BEST_CONCAVE if best == "concave" else {})
    return {
        name: Claim(f"{prefix}-{name}", f"spring-block {figure}{where}", text) for name, (where, text) in chosen.items()
    }


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge by runs: run i starts alike in every cell, so cells are compared run by run."""
    settings = attribute(record, "parameters")
    claims = claims_of(settings["figure"], thorough=settings["thorough"], best=settings["best"])
    order = ("slope", settings["noise"], "trial", "probe", "layer")
    loads, pinv = (record[name].transpose(*order).values[..., settings["first_layer"] :] for name in _LOADS)
    accuracy = record["accuracy"].transpose(*order[:-1]).values[..., 1].astype(float)
    nonlinear = record["slope"].values < 1
    bend = curvature(loads[..., 0, :])
    judged = _corners(claims, bend, nonlinear)
    if settings["best"] == "concave":
        judged["accuracy"] = _best_where_concave(claims["accuracy"], accuracy, bend)
    else:
        row = int(accuracy.mean(axis=-1).max(axis=-1).argmax())
        straight = straightness(loads[row, ..., 0, :])
        judged["accuracy"] = best_where_straight(claims["accuracy"], accuracy[row], straight)
    if settings["thorough"]:
        judged |= _train_against_test(claims, loads, pinv[..., 0, :], nonlinear)
    return tuple(judged[name] for name in claims)


def _corners(claims: dict[str, Claim], bend: np.ndarray, nonlinear: np.ndarray) -> dict[str, Claim]:
    """Shapes at the corners and from one side to the other; bend is (slope, noise, run)."""
    found = {}
    top, top_error = over_trials(bend[0, 0])
    found["concave"] = claims["concave"].exceeds(top, 0.0, three_errors(top_error), note="curvature of the load curve")
    low, low_error = over_trials(bend[-1, -1])
    found["convex"] = claims["convex"].falls_below(low, 0.0, three_errors(low_error))
    found["noise"] = _falls(claims["noise"], bend[nonlinear])
    up, up_error = over_trials(bend[0, 0] - bend[-1, 0])
    found["nonlinearity"] = claims["nonlinearity"].exceeds(up, 0.0, three_errors(up_error))
    return found


def _falls(claim: Claim, bend: np.ndarray) -> Claim:
    """Curvature at the strongest noise less that at the weakest, one case for each slope."""
    fall, error = over_trials(bend[:, -1] - bend[:, 0])
    return claim.falls_below(fall, 0.0, three_errors(error), note="difference of curvatures, one case for each slope")


def _best_where_concave(claim: Claim, accuracy: np.ndarray, bend: np.ndarray) -> Claim:
    """Curvature in the cell with the best mean accuracy, each over (slope, noise, run)."""
    row, column = np.unravel_index(accuracy.mean(axis=-1).argmax(), accuracy.shape[:-1])
    mean, error = over_trials(bend[row, column])
    return claim.exceeds(mean, 0.0, three_errors(error), note=f"curvature in row {row + 1}, column {column + 1}")


def _train_against_test(
    claims: dict[str, Claim], loads: np.ndarray, pinv: np.ndarray, nonlinear: np.ndarray
) -> dict[str, Claim]:
    """Train beside test, one measure of separation beside the other; loads are (slope, noise, run, probe, layer)."""
    straight = straightness(loads[0, ..., 0, :])  # (noise, run)
    inside = 1 + int(straight[1:-1].mean(axis=-1).argmax())
    gain, error = over_trials(straight[inside] - straight[[0, -1]])
    bend = curvature(loads.mean(axis=2))  # (slope, noise, probe)
    alike = float(np.corrcoef(bend[..., 0].ravel(), bend[..., 1].ravel())[0, 1])
    fall, second_fall = (each[-1, 0, :, 0] - each[-1, 0, :, -1] for each in (loads[..., 0, :], pinv))
    share, share_error = over_trials(second_fall / fall)
    return {
        "linear": claims["linear"].exceeds(gain, 0.0, three_errors(error), note="R² beyond that at either end"),
        "test": claims["test"].exceeds(alike, 0.9, 0.0, note="correlation of curvatures over cells"),
        "pinv": _falls(claims["pinv"], curvature(pinv[nonlinear])),
        "pinv-linear": claims["pinv-linear"].falls_below(share, 0.5, three_errors(share_error)),
    }


def plot(record: xr.Dataset) -> Any:
    """Draw the load curves of training and test data over a shade of the test accuracy, and R² beside accuracy."""
    from dynascope.plots import new_figure, plot_network_phases  # noqa: PLC0415 (computing never imports plotting)

    settings = attribute(record, "parameters")
    figure, axes = new_figure(columns=2, width=7.5, height=5.5)
    plot_network_phases(record, axes[0, 0], noise=settings["noise"], first_layer=settings["first_layer"])
    axes[0, 0].set_title(f"Load curves of networks on {settings['data']} ({settings['figure']})")
    loads = record["load"].sel(probe="train").transpose("slope", settings["noise"], "trial", "layer").values
    accuracy = record["accuracy"].sel(probe="test").transpose("slope", settings["noise"], "trial").values.mean(axis=-1)
    row, columns = int(accuracy.max(axis=1).argmax()), np.arange(accuracy.shape[1])
    straight = straightness(loads[row, ..., settings["first_layer"] :]).mean(axis=-1)
    axes[0, 1].plot(columns, accuracy[row], "k-o", label="test accuracy")
    axes[0, 1].set_ylabel("test accuracy")
    other = axes[0, 1].twinx()
    other.plot(columns, straight, "-s", color="#C1272D", label="R² of the load curve")
    other.set_ylabel("R² of the load curve", color="#C1272D")
    axes[0, 1].set_xticks(columns, [f"{value:g}" for value in record[settings["noise"]].values])
    axes[0, 1].set_xlabel(NAMES[settings["noise"]] + ", the weakest noise first")
    axes[0, 1].set_title(f"slope {float(record['slope'][row]):g}, the row with the best accuracy (S5)")
    return figure


# --- the figures -----------------------------------------------------------------------------------------------------

_DIGITS: dict[str, Any] = {"data": "digits", "size": 0, "samples": 0, "width": 64, "batch_size": 32, "epochs": 12}
_SMALL: dict[str, Any] = _DIGITS | {"seeds": 4, "slopes": (0.0, 1.0), "epochs": 8}
_COARSE: dict[str, Any] = _DIGITS | {"slopes": (0.0, 0.2, 0.6, 1.0), "seeds": 4}


def _experiment(
    title: str, paper: Config, *, laptop: dict[str, Any], smoke: dict[str, Any] | None = None
) -> Experiment:
    return Experiment(
        title=title,
        source=f"spring-block {paper.figure}",
        kind="figure",
        claims=tuple(claims_of(paper.figure, thorough=paper.thorough, best=paper.best).values()),
        scales={
            "smoke": replace(paper, **(_QUICK[paper.noise] | {"depth": 7} | (smoke or {}))),
            "laptop": replace(paper, **laptop),
            "paper": paper,
        },
        run=run,
        check=check,
        plot=plot,
        sweep=phase_training,
    )


def _steps(first: float, last: float, count: int) -> tuple[float, ...]:
    return tuple(float(value) for value in np.linspace(first, last, count).round(4))


_QUICK = {  # digits, for each source of noise
    "dropout": _SMALL | {"values": (0.0, 0.1, 0.3)},
    "data_noise": _SMALL | {"values": (0.0, 0.2, 0.6)},
    "learning_rate": _SMALL | {"values": (5e-4, 3e-3, 2e-2)},
    "batch_size": _SMALL | {"values": (100, 12, 4), "samples": 60, "learning_rate": 0.002},
}
_TWO_BATCHES: dict[str, Any] = {"values": (100, 5), "samples": 40, "learning_rate": 0.003}
# the data set itself, but fewer images and cells
_PART: dict[str, Any] = {"samples": 64, "batch_size": 32, "epochs": 20, "slopes": (0.0, 0.4, 1.0), "seeds": 4}
_ALL_DROPOUTS, _ALL_NOISES = _steps(0.0, 0.3, 16), _steps(0.0, 0.8, 9)
_ALL_RATES = tuple(float(value) for value in np.geomspace(1e-4, 0.5, 12))
_ALL_BATCHES = tuple(5 * 2**j for j in range(9, -1, -1))

DROPOUT = _experiment(
    "Phase diagram of networks: dropout",
    Config("FIG. 1(c)", "dropout", _ALL_DROPOUTS, thorough=True),
    laptop=_DIGITS | {"values": _steps(0.0, 0.3, 7), "seeds": 4},
)
DATA_NOISE = _experiment(
    "Phase diagram of networks: noise in data and labels",
    Config("FIG. 1(a)", "data_noise", _ALL_NOISES, thorough=True),
    laptop=_COARSE | {"values": (0.0, 0.1, 0.2, 0.4, 0.6)},
)
LEARNING_RATE = _experiment(
    "Phase diagram of networks: learning rate",
    Config("FIG. 1(b)", "learning_rate", _ALL_RATES, epochs=200, thorough=True),
    laptop=_COARSE | {"values": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)},
)
BATCH_SIZE = _experiment(
    "Phase diagram of networks: batch size",
    Config("FIG. 1(d)", "batch_size", _ALL_BATCHES, thorough=True),
    laptop=_COARSE | {"values": (240, 96, 32, 12, 6), "learning_rate": 0.002},
)
SHALLOW = _experiment(
    "Phase diagram of networks: learning rate, 6 layers",
    Config("FIG. S6(a)", "learning_rate", _ALL_RATES[::2], epochs=200, depth=5, seeds=4),
    laptop=_COARSE | {"values": (3e-4, 1e-3, 3e-3, 1e-2), "slopes": (0.0, 0.4, 1.0)},
)
DEEP = _experiment(
    "Phase diagram of networks: learning rate, 12 layers",
    Config("FIG. S6(b)", "learning_rate", _ALL_RATES[::2], epochs=200, depth=11, seeds=4),
    laptop=_COARSE | {"values": (3e-4, 1e-3, 3e-3, 1e-2), "depth": 11, "slopes": (0.0, 0.4, 1.0)},
)
WIDE = _experiment(
    "Phase diagram of networks: batch size, width 400",
    Config("FIG. S7(a)", "batch_size", _ALL_BATCHES[1:8:2], learning_rate=0.0005, width=400, seeds=4),
    laptop=_COARSE | {"values": (240, 64, 16), "width": 128, "slopes": (0.0, 0.4, 1.0)},
    smoke=_TWO_BATCHES,
)
WIDEST = _experiment(
    "Phase diagram of networks: batch size, width 2500",
    Config(
        "FIG. S7(b)", "batch_size", (640, 160, 40), learning_rate=0.0001, width=2500, seeds=2, slopes=(0.0, 0.4, 1.0)
    ),
    laptop=_COARSE | {"values": (240, 64, 16), "width": 256, "slopes": (0.0, 0.4, 1.0), "learning_rate": 0.0005},
    smoke=_TWO_BATCHES,
)
FASHION = _experiment(
    "Phase diagram of networks on Fashion-MNIST: noise in data and labels",
    Config("FIG. S8(a)", "data_noise", _ALL_NOISES, data="fashion"),
    laptop=_PART | {"values": (0.0, 0.2, 0.4, 0.6)},
)
SGD = _experiment(
    "Phase diagram of networks on Fashion-MNIST: noise in data and labels, SGD",
    Config(
        "FIG. S8(b)", "data_noise", _ALL_NOISES, data="fashion", optimizer="sgd", batch_size=64, epochs=1000, depth=5,
        seeds=4,
    ),
    laptop=_PART | {"values": (0.0, 0.2, 0.4, 0.6), "epochs": 60, "batch_size": 16, "learning_rate": 0.01},
    smoke={"learning_rate": 0.05},
)  # fmt: skip
CIFAR = _experiment(
    "Phase diagram of networks on CIFAR-10: dropout",
    Config("FIG. S9", "dropout", _ALL_DROPOUTS, data="cifar10", first_layer=1),
    laptop=_PART | {"values": (0.0, 0.05, 0.1, 0.2, 0.3)},
)
CIFAR_RATES = _experiment(
    "Phase diagram of networks on CIFAR-10: learning rate, 12 layers",
    Config(
        "FIG. S10(a)", "learning_rate", _ALL_RATES[::2], data="cifar10", epochs=200, depth=11, seeds=4, first_layer=1,
        best="concave",
    ),
    laptop=_PART | {"values": (3e-4, 1e-3, 3e-3, 1e-2)},
)  # fmt: skip
CIFAR_DEEP = _experiment(
    "Phase diagram of networks on CIFAR-10: learning rate, 20 layers",
    Config(
        "FIG. S10(b)", "learning_rate", _ALL_RATES[::2], data="cifar10", epochs=200, depth=19, seeds=4, first_layer=1,
        best="concave",
    ),
    laptop=_PART | {"values": (3e-4, 1e-3, 3e-3, 1e-2)},
)  # fmt: skip
WHOLE = _experiment(
    "Phase diagram of networks on all of MNIST: dropout",
    Config("FIG. S11", "dropout", _steps(0.0, 0.3, 6), samples=0, seeds=2, first_layer=1),
    laptop=_PART | {"values": (0.0, 0.1, 0.2, 0.3), "samples": 128, "epochs": 10},
)
