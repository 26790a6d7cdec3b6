"""Load curves of a few settings side by side: regression (S15, S16) and constants in place of batch norm."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.data.tables import diabetes
from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.phases.load_curves import data_set, run_grid
from dynascope.experiments.registry import Experiment
from dynascope.measure.separation import curvature, straightness
from dynascope.networks import MLP, Ensemble
from dynascope.networks.arguments import device, device_name
from dynascope.records import with_provenance
from dynascope.statistics.errors import over_trials


@dataclass(frozen=True)
class Training:
    """What the settings have in common, by default as in the paper."""

    epochs: int = 100
    batch_size: int = 2560
    learning_rate: float = 0.001
    width: int = 100
    depth: int = 7
    seeds: int = 10
    data: str = "mnist"
    size: int = 10
    samples: int = 256


def recorded(values: dict[str, Any], coords: dict[str, Any], config: Any, begun: float) -> xr.Dataset:
    """A record of networks, with what made it.

    >>> recorded({}, {}, Regression(), time.perf_counter()).attrs["model"]
    '"NetworkCurves"'
    """
    found = xr.Dataset(values, coords=coords)
    wall_time = time.perf_counter() - begun
    return with_provenance(
        found, "NetworkCurves", vars(config), options={}, seed=0, precision="float32", wall_time=wall_time,
        device=device_name(device(None)),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the load curve of each setting, with the spread of the runs and what they reach on test data."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    kinds = [str(kind) for kind in record["kind"].values]
    figure, axes = new_figure(columns=len(kinds), width=5.5, height=4.5)
    for column, kind in enumerate(kinds):
        ax = axes[0, column]
        for index, setting in enumerate(record["setting"].values):
            chosen = record.sel(kind=kind, setting=setting)
            named = str(chosen["label"].values) if "label" in record else setting
            score = f", {record['score'].attrs['long_name']} {float(chosen['score'].mean()):.3g}"
            ax.errorbar(
                record["layer"], chosen["load"].mean("trial"), chosen["load"].std("trial"), marker="o", markersize=4,
                color=PALETTE[index % len(PALETTE)], label=f"{named}{score}",
            )  # fmt: skip
        ax.set_xlabel("layer")
        ax.set_ylabel(str(record["load"].attrs["long_name"]))
        ax.set_title(kind)
        ax.legend(frameon=False, fontsize="small")
    return figure


def _bends(record: xr.Dataset) -> np.ndarray:
    """(kind, setting, run)."""
    return curvature(record["load"].transpose("kind", "setting", "trial", "layer").values)


# --- S15, S16: regression --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Regression(Training):
    """ReLU networks at several dropouts, on the diabetes table (S15) and on images with one-hot targets (S16)."""

    dropout: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.2)


KINDS = ("diabetes", "images, one-hot")


def run_regression(config: Regression) -> xr.Dataset:
    """Train on the squared error; a load is the misfit of the best linear fit from a layer (S5)."""
    begun = time.perf_counter()
    x, y, xt, yt = data_set(config.data, config.size, config.samples)
    table, one_hot = diabetes(), np.eye(int(y.max()) + 1, dtype=np.float32)
    sets = [(table[0], table[1][:, None], table[2], table[3][:, None]), (x, one_hot[y], xt, one_hot[yt])]
    load, error = zip(*(_fitted(config, *each) for each in sets), strict=True)
    dims = ("kind", "setting", "trial")
    values = {
        "load": ((*dims, "layer"), np.stack(load), {"long_name": "load: error of the best linear fit"}),
        "score": (dims, np.stack(error), {"long_name": "test RMSE"}),
    }
    coords = {"kind": list(KINDS), "setting": [f"dropout {each:g}" for each in config.dropout]}
    return recorded(values, coords | {"layer": np.arange(config.depth + 1)}, config, begun)


def _fitted(
    config: Regression, x: np.ndarray, y: np.ndarray, xt: np.ndarray, yt: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Loads (setting, run, layer) on training data, and the root mean square error on test data (setting, run)."""
    batch, settings = min(config.batch_size, len(x)), len(config.dropout)
    steps = len(x) // batch * config.epochs
    ensemble = Ensemble(
        MLP(x.shape[1:], y.shape[1], width=config.width, depth=config.depth, batch_norm=True),
        trials=list(range(config.seeds)) * settings,
        learning_rate=config.learning_rate,
        batch_size=batch,
        optimizer="adam",
        loss="mse",
        vary={"dropout": np.repeat(config.dropout, config.seeds)},
        sampling="shuffled",
    )
    path = ensemble.train(x, y, steps, probe=(x, y), record_every=[steps], measures=("load",), progress=False)
    load = path["load"].isel(step=-1).values.reshape(settings, config.seeds, -1)
    # no loads of the test data: the table's are fewer than the features, and every linear fit to them is perfect
    missed = np.asarray(ensemble.features(xt)["logits"]) - yt  # (trial, sample, output)
    return load, np.sqrt((missed**2).mean(axis=(1, 2))).reshape(settings, config.seeds)


REGRESSION_CLAIMS = {
    name: Claim(f"fig-{figure}-{name.split('-')[1]}", f"spring-block FIG. {figure.upper()}", text)
    for figure, name, text in (
        ("s15", "table-concave", "on the diabetes data, without dropout, the regression load curve is concave"),
        ("s15", "table-convex", "on the diabetes data, with the most dropout, it is convex"),
        (
            "s15",
            "table-error",
            "on the diabetes data the straightest curve has a lower test error than without dropout",
        ),
        ("s16", "images-concave", "on images with one-hot targets, without dropout, it is concave"),
        ("s16", "images-noise", "on images with one-hot targets, dropout makes it less concave"),
        ("s16", "images-convex", "on images with one-hot targets, with the most dropout, it is convex"),
        (
            "s16",
            "images-error",
            "on images with one-hot targets the straightest curve has a lower test error than without dropout",
        ),
    )
}


def check_regression(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge run by run."""
    table, pictures = _bends(record)  # each (setting, run)
    loads = record["load"].transpose("kind", "setting", "trial", "layer").values
    score = record["score"].transpose("kind", "setting", "trial").values
    straightest = straightness(loads).mean(axis=-1).argmax(axis=-1)
    above = {"table-concave": table[0], "images-concave": pictures[0]}
    below = {"table-convex": table[-1], "images-noise": pictures[-1] - pictures[0], "images-convex": pictures[-1]}
    notes = {}
    for kind, name in enumerate(("table-error", "images-error")):
        below[name] = score[kind, straightest[kind]] - score[kind, 0]
        notes[name] = f"the straightest is at {record['setting'].values[straightest[kind]]}"
    judged = {}
    for name, values in above.items():
        mean, error = over_trials(values)
        judged[name] = REGRESSION_CLAIMS[name].exceeds(mean, 0.0, three_errors(error))
    for name, values in below.items():
        mean, error = over_trials(values)
        judged[name] = REGRESSION_CLAIMS[name].falls_below(mean, 0.0, three_errors(error), note=notes.get(name, ""))
    return tuple(judged[name] for name in REGRESSION_CLAIMS)


_LAPTOP = Regression(data="digits", size=0, samples=60, width=64, batch_size=64, epochs=60, seeds=6)
REGRESSION = Experiment(
    title="Load curves in regression",
    source="spring-block FIG. S15, S16",
    kind="figure",
    claims=tuple(REGRESSION_CLAIMS.values()),
    scales={
        "smoke": replace(_LAPTOP, width=32, epochs=50, dropout=(0.0, 0.04, 0.2), samples=30),
        "laptop": _LAPTOP,
        "paper": Regression(),
    },
    run=run_regression,
    check=check_regression,
    plot=plot,
)


# --- batch norm against the constants of (1) -------------------------------------------------------------------------


@dataclass(frozen=True)
class Normalisation(Training):
    """ReLU networks at several dropouts, with batch norm and with the fixed constants c_ℓ of (1)."""

    dropout: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.3)
    slope: float = 0.0


NORMALISED = ("batch", "constant")
CONSTANTS = (
    Claim(
        "s3-constants-concave", "spring-block (1), S3", "with constants c_ℓ, without dropout, the load curve is concave"
    ),
    Claim(
        "s3-constants-spread",
        "spring-block S3",
        "without batch norm the curvature varies more between runs: its variance, over all settings, is larger",
    ),
    Claim("s3-constants-noise", "spring-block (1), S3", "with constants c_ℓ, too, dropout bends load curves to convex"),
)


def run_normalisation(config: Normalisation) -> xr.Dataset:
    """Train both kinds over the same dropouts and seeds."""
    begun = time.perf_counter()
    own = ("dropout", "seeds")
    fixed = {name: value for name, value in vars(config).items() if name not in own}
    grid: dict[str, list[Any]] = {"normalisation": list(NORMALISED), "dropout": list(config.dropout)}
    trained = run_grid(grid, seeds=config.seeds, fixed=fixed)
    dims = ("kind", "setting", "trial")
    load = {"long_name": "load D (natural logarithm)"}
    values = {
        "load": ((*dims, "layer"), trained["load"].sel(probe="train").values, load),
        "score": (dims, trained["accuracy"].sel(probe="test").values, {"long_name": "test accuracy"}),
    }
    names = ["batch norm", "constants c_ℓ"]
    coords = {"kind": names, "setting": [f"dropout {each:g}" for each in config.dropout]}
    return recorded(values, coords | {"layer": trained["layer"].values}, config, begun)


def check_normalisation(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge run by run; the logarithm of a variance from n free runs errs by √(2/n)."""
    bends = _bends(record)
    (first, first_error), (fall, fall_error) = over_trials(bends[1, 0]), over_trials(bends[1, -1] - bends[1, 0])
    spread = np.log(bends.var(axis=-1, ddof=1).mean(axis=-1))
    free = bends.shape[1] * (bends.shape[2] - 1)
    concave, varies, noise = CONSTANTS
    return (
        concave.exceeds(first, 0.0, three_errors(first_error), note="curvature"),
        varies.exceeds(spread[1] - spread[0], 0.0, three_errors(2 / np.sqrt(free)), note="logarithm of the ratio"),
        noise.falls_below(fall, 0.0, three_errors(fall_error), note="curvature at the most dropout less that at none"),
    )


_CONSTANT = Normalisation(data="digits", size=0, samples=0, width=64, batch_size=32, epochs=12, seeds=6)
NORMALISATION = Experiment(
    title="Batch norm against fixed constants",
    source="spring-block (1), S3",
    kind="figure",
    claims=CONSTANTS,
    scales={
        "smoke": replace(_CONSTANT, epochs=8, dropout=(0.0, 0.3), seeds=6),
        "laptop": _CONSTANT,
        "paper": Normalisation(),
    },
    run=run_normalisation,
    check=check_normalisation,
    plot=plot,
)
