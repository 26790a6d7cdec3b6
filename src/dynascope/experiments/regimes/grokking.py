"""Figure 6.5 and Table 6.1: grokking of a fully connected network, and four ways to remove it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.data import images
from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.linear_modes.levers import TABLE
from dynascope.experiments.registry import Experiment

FITTED = 0.95  # training accuracy at which the training set counts as fitted
_SETTINGS = ("weight_scale", "target_scale", "input_scale", "output_scale")  # the columns of the table


@dataclass(frozen=True)
class Config:
    """Four layers of tanh units, half the mean square error of one-hot labels, Adam; thesis, section 6.4.3.

    The thesis uses 1000 images of MNIST, 2000 epochs of batches of 128. At `smoke` scikit-learn's digits stand in.
    """

    data: str = "mnist"
    train_per_class: int = 100
    test_per_class: int = 200
    width: int = 512
    seeds: int = 4
    steps: int = 14_000
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    records: int = 50
    seed: int = 65


SCALES = {
    "smoke": Config(
        "digits", train_per_class=20, test_per_class=30, width=64, seeds=3, steps=1300, batch_size=64,
        learning_rate=2e-3, weight_decay=1e-3, records=30,
    ),
    "laptop": Config(train_per_class=50, test_per_class=100, width=100, seeds=3, steps=5000, batch_size=100,
        records=30),
    "paper": Config(),
}  # fmt: skip
DELAY = Claim(
    "fig-6.5a-grokking",
    "layerwise figure 6.5(a)",
    "by default the network fits its training set long before it generalizes",
)
REMOVED = Claim(
    "fig-6.5-removed",
    "layerwise figure 6.5(b–e), Table 6.1",
    "with any of the four techniques the network generalizes better by the time that it fits its training set",
)
RICHER = Claim(
    "fig-6.5-richer",
    "layerwise section 6.4.3",
    "any of the four techniques makes features smaller in number when the training set is fitted (κ falls)",
)


def run(config: Config) -> xr.Dataset:
    """Train all rows of the table beside each other, several networks of each, and follow them on log-spaced steps."""
    from dynascope.networks import MLP, Ensemble  # noqa: PLC0415 (PyTorch only where it is used)

    x, y, xt, yt = images(config.data, per_class=(config.train_per_class, config.test_per_class), seed=config.seed)
    rows = np.repeat(np.array(list(TABLE.values())), config.seeds, axis=0)
    network = MLP(x.shape[1:], 10, width=config.width, depth=3, activation="tanh", init="lecun")
    ensemble = Ensemble(
        network,
        trials=len(rows),
        vary=dict(zip(_SETTINGS, rows.T, strict=True)),
        loss="mse",
        optimizer="adam",
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        batch_size=config.batch_size,
        sampling="shuffled",
        seed=config.seed,
    )
    steps = np.unique(np.geomspace(1, config.steps, config.records).round().astype(int))
    found = ensemble.train(
        x, y, config.steps, probe={"train": (x, y), "test": (xt, yt)}, record_every=[0, *steps.tolist()],
        measures=("kappa",),
    )  # fmt: skip
    return by_row(found.drop_vars("class_mean"), list(TABLE), config.seeds)


def by_row(found: xr.Dataset, rows: list[str], seeds: int) -> xr.Dataset:
    """Split trials into (row, trial).

    >>> by_row(xr.Dataset({"a": ("trial", np.arange(4))}), ["x", "y"], 2)["a"].values.tolist()
    [[0, 1], [2, 3]]
    """
    plain = found.drop_vars([name for name in found.coords if "trial" in found[name].dims])
    cells = xr.DataArray(
        np.zeros((len(rows), seeds)), dims=("row", "trial"), coords={"row": rows, "trial": range(seeds)}
    )
    places = xr.Coordinates.from_pandas_multiindex(cells.stack(place=("row", "trial")).indexes["place"], "place")
    return (
        plain.rename(trial="place")
        .assign_coords(places)
        .unstack("place")
        .transpose("row", "trial", ...)
        .reindex(row=rows)
    )


def when_fitted(record: xr.Dataset) -> xr.Dataset:
    """The first recorded state in which training accuracy reaches FITTED; the last where it never does.

    >>> accuracy = xr.DataArray([[[0.1, 0.1], [1.0, 0.4], [1.0, 0.9]]], dims=("row", "step", "probe"))
    >>> record = xr.Dataset({"accuracy": accuracy}, coords={"probe": ["train", "test"], "step": [0, 5, 9]})
    >>> float(when_fitted(record)["accuracy"].sel(probe="test", row=0))
    0.4
    """
    reached = record["accuracy"].sel(probe="train", drop=True) >= FITTED
    last = xr.DataArray(np.arange(reached.sizes["step"]) == reached.sizes["step"] - 1, dims="step")
    return record.isel(step=(reached | last).argmax("step"))


def _spread(values: xr.DataArray) -> Any:
    """Standard error over networks."""
    return (values.std("trial", ddof=1) / np.sqrt(values.sizes["trial"])).values


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare the moment at which each row fits its training set with the end, and with the default row."""
    fitted = when_fitted(record)
    then = fitted["accuracy"].sel(probe="test")
    final = record["accuracy"].sel(probe="test").isel(step=-1)
    late = final - then
    kappa = fitted["kappa"].sel(probe="test")
    levers = [name for name in TABLE if name != "default"]
    count = record.sizes["trial"]

    def gap(values: xr.DataArray) -> tuple[Any, Any, Any]:
        mean, error = values.mean("trial"), dict(zip(values["row"].values, _spread(values), strict=True))
        both = np.hypot([error[name] for name in levers], error["default"])
        return mean.sel(row=levers).values, float(mean.sel(row="default")), three_errors(both)

    return (
        DELAY.exceeds(
            float(late.sel(row="default").mean()),
            0.05,
            three_errors(float(_spread(late.sel(row="default")))),
            note=f"test accuracy gained after training accuracy reached {FITTED}, {count} networks",
        ),
        REMOVED.exceeds(*gap(then), note="test accuracy at that moment, beside the default's"),
        RICHER.falls_below(*gap(kappa), note="κ on test samples at that moment, beside the default's"),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw accuracies over training, and κ, a column for each row of the table."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=record.sizes["row"], rows=2, width=3.2, height=2.8)
    steps = np.maximum(record["step"].values, 0.5)
    for column, name in zip(axes.T, record["row"].values, strict=True):
        one = record.sel(row=name)
        for probe, colour in zip(("train", "test"), PALETTE, strict=False):
            for network in range(one.sizes["trial"]):
                values = one["accuracy"].sel(probe=probe).isel(trial=network)
                label = {"train": "training", "test": "test"}[probe] if network == 0 else None
                column[0].plot(steps, values, color=colour, linewidth=1, label=label)
        column[0].set(title=str(name), xscale="log", ylim=(0, 1.02), xlabel="step", ylabel="accuracy")
        column[1].plot(steps, one["kappa"].sel(probe="test").T, color=PALETTE[2], linewidth=1)
        column[1].axhline(0.1, color="0.5", linestyle=":")
        column[1].set(xscale="log", ylim=(0, 1), xlabel="step", ylabel="κ on test samples")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Grokking, and four ways to remove it",
    source="layerwise figure 6.5, Table 6.1",
    kind="figure",
    claims=(DELAY, REMOVED, RICHER),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
