"""layerwise Figure 6.5, Table 6.1: Grokking, and four ways to remove it.

The network is fully connected.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import xarray as xr

from dynascope import networks, plots
from dynascope.data import images
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.experiment import Experiment, Figure
from dynascope.experiments.linear_modes.levers import TABLE
from dynascope.experiments.sources import layerwise
from dynascope.statistics.errors import Estimate, over_trials, side_by_side

FITTED = 0.95  # training accuracy at which the training set counts as fitted
LATE = 0.05  # of test accuracy, gained after that: more is a delay
WHOLLY = 0.99  # training accuracy after which it is: some test accuracy comes with the last of the training set
_SETTINGS = ("weight_scale", "target_scale", "input_scale", "output_scale")  # the columns of the table


@dataclass(frozen=True)
class Config:
    """Four layers of tanh units, half the mean square error of one-hot labels, Adam; thesis, section 6.4.3.

    The thesis uses 1000 images of MNIST, 2000 epochs of batches of 128. At `smoke` scikit-learn's digits stand in.
    procedure: text; or code, as in `CODE`: the authors' code takes the mean square error itself, which to Adam is half
    of the weight decay, and biases start as PyTorch has them
    """

    data: str = "mnist"
    train_per_class: int = 100
    test_per_class: int = 200
    width: int = 512
    seeds: int = 10
    steps: int = 14_000
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    procedure: Literal["text", "code"] = "text"
    records: int = 50
    seed: int = 65


CODE = Config(procedure="code")


def run(config: Config) -> xr.Dataset:
    """Train all rows of the table beside each other, several networks of each, and follow them on log-spaced steps."""
    x, y, xt, yt = images(config.data, per_class=(config.train_per_class, config.test_per_class), seed=config.seed)
    rows = np.repeat(np.array(list(TABLE.values())), config.seeds, axis=0)
    shared, init = ("learning_rate", "batch_size", "seed"), "lecun"
    weight_decay = config.weight_decay
    if config.procedure == "code":
        # PyTorch's weights have a third of the variance of LeCun's; its biases are not scaled
        init, weight_decay = "default", weight_decay / 2
        rows = rows * [np.sqrt(3), 1, 1, 1]
    ensemble = networks.Ensemble(
        networks.MLP(x.shape[1:], 10, width=config.width, depth=3, activation="tanh", init=init),
        trials=len(rows),
        vary=dict(zip(_SETTINGS, rows.T, strict=True)),
        loss="mse",
        optimizer="adam",
        sampling="shuffled",
        weight_decay=weight_decay,
        **{name: getattr(config, name) for name in shared},
    )
    steps = np.unique(np.geomspace(1, config.steps, config.records).round().astype(int))
    probe, recorded = {"train": (x, y), "test": (xt, yt)}, [0, *steps.tolist()]
    found = ensemble.train(x, y, config.steps, probe=probe, record_every=recorded, measures=("kappa",))
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


def when_fitted(record: xr.Dataset, share: float = FITTED) -> xr.Dataset:
    """The first recorded state in which training accuracy reaches a share; NaN where it never does.

    >>> accuracy = xr.DataArray([[[0.1, 0.1], [1.0, 0.4], [1.0, 0.9]]], dims=("row", "step", "probe"))
    >>> record = xr.Dataset({"accuracy": accuracy}, coords={"probe": ["train", "test"], "step": [0, 5, 9]})
    >>> float(when_fitted(record)["accuracy"].sel(probe="test", row=0))
    0.4
    """
    reached = record["accuracy"].sel(probe="train", drop=True) >= share
    return record.isel(step=reached.argmax("step")).where(reached.any("step"))


def delay(test: xr.DataArray, fitted: xr.Dataset) -> xr.DataArray:
    """log₂ of how many times longer than to fit its training set a network takes to half of what it gains later.

    test: test accuracy over step. fitted: the state of `when_fitted`, of the same samples

    >>> test = xr.DataArray([0.1, 0.2, 0.4, 0.8], dims="step", coords={"step": [0, 10, 20, 80]})
    >>> float(delay(test, xr.Dataset({"accuracy": 0.2}, coords={"step": 10})))
    3.0
    """
    half = test >= (fitted["accuracy"] + test.max("step")) / 2
    steps = test["step"].where(half & (test["step"] >= fitted["step"]))
    return xr.DataArray(np.log2(steps.min("step") / fitted["step"]))


class Seen(NamedTuple):
    """Over (row, trial): when the training set is fitted, test accuracy and κ; accuracy gained later, and `delay`.

    last: accuracy gained after it is wholly fitted
    """

    then: xr.DataArray
    kappa: xr.DataArray
    late: xr.DataArray
    delay: xr.DataArray
    last: xr.DataArray


def read(record: xr.Dataset) -> Seen:
    """Find the moment at which each row fits its training set."""
    fitted = when_fitted(record).sel(probe="test")
    test = record["accuracy"].sel(probe="test")
    late = test.isel(step=-1) - fitted["accuracy"]
    last = test.isel(step=-1) - when_fitted(record, WHOLLY)["accuracy"].sel(probe="test")
    return Seen(fitted["accuracy"], fitted["kappa"], late, delay(test, fitted), last)


def _grokked(seen: Seen) -> Judgement:
    late, longer = (over_trials(each.sel(row="default")) for each in (seen.late, seen.delay))
    note = (
        f"test accuracy gained after training accuracy reached {FITTED}; log₂ of how many times longer than that half "
        f"of it takes; {seen.late.sizes['trial']} networks"
    )
    return above(side_by_side(late, longer), [LATE, 1.0], note=note)


def _of_levers(values: xr.DataArray) -> Estimate:
    """Means without the default's."""
    return over_trials(values.sel(row=[name for name in TABLE if name != "default"]).transpose("row", "trial"))


def _prompt(seen: Seen) -> Judgement:
    note = f"test accuracy gained after training accuracy reached {WHOLLY}; {seen.last.sizes['trial']} networks"
    return below(_of_levers(seen.last), LATE, note=note)


def _less(seen: Seen) -> Judgement:
    quarter = over_trials(seen.last.sel(row="default")).scaled(0.25)
    return below(_of_levers(seen.last).against(quarter), quarter.mean, note="test accuracy gained later, and a quarter")


def _levers(values: xr.DataArray) -> tuple[Estimate, np.ndarray]:
    """Means of the four levers, with the error of their difference to the default, and the default's mean."""
    default = over_trials(values.sel(row="default"))
    return _of_levers(values).against(default), default.mean


def plot(record: xr.Dataset) -> Figure:
    """Draw accuracies over training, and κ, a column for each row of the table."""
    figure, axes = plots.new_figure(columns=record.sizes["row"], rows=2, width=3.2, height=2.8)
    steps = np.maximum(record["step"].values, 0.5)
    for column, name in zip(axes.T, record["row"].values, strict=True):
        one = record.sel(row=name)
        for probe, label, colour in zip(("train", "test"), ("training", "test"), plots.PALETTE, strict=False):
            lines = column[0].plot(steps, one["accuracy"].sel(probe=probe).T, color=colour, linewidth=1)
            lines[0].set_label(label)
        column[0].set(title=str(name), xscale="log", ylim=(0, 1.02), xlabel="step", ylabel="accuracy")
        column[1].plot(steps, one["kappa"].sel(probe="test").T, color=plots.PALETTE[2], linewidth=1)
        column[1].axhline(0.1, color="0.5", linestyle=":")
        column[1].set(xscale="log", ylim=(0, 1), xlabel="step", ylabel="κ on test samples")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


_SMALL = {
    "data": "digits",
    "train_per_class": 20,
    "test_per_class": 30,
    "width": 64,
    "seeds": 4,
    "steps": 1300,
    "batch_size": 64,
    "learning_rate": 2e-3,
    "weight_decay": 1e-3,
    "records": 30,
}
EXPERIMENT = Experiment(
    layerwise(figure="6.5", table="6.1"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-6.5a-grokking",
            "by default the network fits its training set long before it generalizes",
            _grokked,
            layerwise(figure="6.5(a)"),
            settles_at="laptop",  # as those that follow: of four networks the spread decides
        ),
        Claim(
            "fig-6.5-removed",
            "with any of the four techniques the network generalizes better by the time that it fits its training set",
            lambda seen: above(*_levers(seen.then), note="test accuracy at that moment, beside the default's"),
            layerwise(figure="6.5(b), 6.5(c), 6.5(d), 6.5(e)", table="6.1"),
            settles_at="laptop",
        ),
        Claim(
            "fig-6.5-delay",
            "with any of the four techniques nothing is delayed: less than 0.05 of test accuracy comes later",
            _prompt,
            layerwise(figure="6.5(b), 6.5(c), 6.5(d), 6.5(e)", section="6.4.3"),
            settles_at="paper",  # digits are few enough for test accuracy to move by as much
            why=("fig-6.5-less, most of it is removed",),
        ),
        Claim(
            "fig-6.5-less",
            "with any of the four less than a quarter of the test accuracy comes so late that does by default",
            _less,
            layerwise(figure="6.5"),
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "fig-6.5-richer",
            "any of the four techniques makes features smaller in number when the training set is fitted (κ falls)",
            lambda seen: below(*_levers(seen.kappa), note="κ on test samples at that moment, beside the default's"),
            layerwise(section="6.4.3"),
            settles_at="laptop",
        ),
    ),
    picture=plot,
    read=read,
    smoke=_SMALL,
    laptop={
        "train_per_class": 50,
        "test_per_class": 100,
        "width": 100,
        "seeds": 8,
        "steps": 5000,
        "batch_size": 100,
        "records": 30,
    },
    precision="float32",
    needs=("torch", "sklearn"),
)
