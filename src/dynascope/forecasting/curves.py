"""Learning curves from whatever was recorded: a watched run, an ensemble, the logs of trainers, or arrays."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import xarray as xr

from dynascope.checks import Given, path_of
from dynascope.forecasting.logs import Log, Series, read_log, require_increasing, table
from dynascope.forecasting.names import told_by
from dynascope.monitor.journal import is_run
from dynascope.monitor.reading import open_run
from dynascope.schema import content_of, parse_json

# quantity -> what records call it, where they have no variable of its name
_CALLED = {"loss": ("train_loss",), "accuracy": ("probe_accuracy", "train_accuracy")}
_RATES = ("learning_rate", "train_learning_rate", "train_lr")
_FACTOR = "learning_rate_factor"  # the knob that steers it
_LATE = 0.1  # of a curve, from its start, for which the first known rate may stand


@dataclass(frozen=True)
class Curve:
    """A quantity of one run over training steps.

    step: (record,), increasing
    value: (record,), NaN where it was lost or not finite
    rate: learning rate at these steps (record,), or None where it is not known
    name: of the quantity, as it was asked for
    told: 1 where it is measured on data that is not trained on, −1 on what is, 0 where that is not known

    >>> Curve(np.array([0.0, 10.0]), np.array([2.0, 1.5]), None, "loss").name
    'loss'
    """

    step: np.ndarray
    value: np.ndarray
    rate: np.ndarray | None
    name: str
    told: float = 0.0


@runtime_checkable
class _Recorded(Protocol):
    """A run that is watched."""

    @property
    def record(self) -> xr.Dataset: ...


Source = xr.Dataset | _Recorded | Mapping[str, Any] | str | os.PathLike[str]


def read_curves(run: Given[Source], quantity: Given[str | None] = None) -> list[Curve]:
    """Read a quantity of a run over steps: one curve, or one for each trial of an ensemble.

    run: a watched run, its record or its folder; the record of `Ensemble.train` or its file; a log in a .csv, .json or
        .jsonl file; TensorBoard's event files or their folder; Hugging Face's trainer_state.json; or arrays by name,
        {"step": …, "loss": …, "learning_rate": …}
    quantity: what is read, the loss by default; a column or variable by its name, or as training calls it: `loss` is
        train_loss in the record of a watched run, and may be Train/Loss in a log. The curve has the name that was asked
        for.

    Entries that are empty or null are left out, NaN and infinite ones are gaps. Learning rates are those of the nearest
    record before or at a step. Where the first is known only after a tenth of the curve, there are none.

    >>> read_curves({"step": [0, 10, 20], "train/loss": [2.0, 1.0, 0.5], "lr": [0.1, 0.1, 0.05]})[0].rate.tolist()
    [0.1, 0.1, 0.05]
    """
    asked: object = "loss" if quantity is None else quantity
    if not isinstance(asked, str) or not asked:
        raise ValueError(f"quantity must be the name of what is forecast, such as loss or accuracy, got {quantity!r}")
    if isinstance(run, xr.Dataset):
        return _of_record(run, asked, "this record")
    if isinstance(run, Mapping):
        return [_of_log(table(run, "run"), asked)]
    if isinstance(run, str | os.PathLike):
        path = path_of("run", run)
        if not is_run(path) and path.suffix != ".nc":
            return [_of_log(read_log(path), asked)]
        record = open_run(path)
        with content_of(str(path)):
            return _of_record(record, asked, repr(str(path)))
    if isinstance(run, _Recorded):
        return _of_record(run.record, asked, "this run")
    raise ValueError(
        "run must be a watched run, a record, the path of a log or run, or arrays by name such as "
        f'{{"step": …, "loss": …}}, got {type(run).__name__}'
    )


def _of_log(log: Log, asked: str) -> Curve:
    column = log.named(asked)
    curve = _curve(*log.values(column), log.rates(), asked, log.place)
    return replace(curve, told=told_by(column, log.names))


def _curve(step: np.ndarray, value: np.ndarray, rates: Series | None, name: str, place: str) -> Curve:
    if not np.isfinite(value).any():
        raise ValueError(f"{place} holds no finite value of {name!r}: there is nothing to forecast from")
    return Curve(step, value, None if rates is None else _carried(step, *rates), name)


def _carried(step: np.ndarray, known: np.ndarray, rate: np.ndarray) -> np.ndarray | None:
    """Rates at these steps, each that of the nearest step before or at it where one is known."""
    if known[0] > step[0] + _LATE * (step[-1] - step[0]):
        return None
    return np.asarray(rate[np.maximum(np.searchsorted(known, step, side="right") - 1, 0)])


def _of_record(record: xr.Dataset, asked: str, place: str) -> list[Curve]:
    """Curves of a record over step, or over trial and step."""
    if "step" not in record.coords or record["step"].dims != ("step",) or record["step"].dtype.kind not in "iuf":
        raise ValueError(f"{place} must have a coordinate step, as those of watch and Ensemble.train have")
    step = record["step"].values.astype(float)
    require_increasing(step, place)
    values = _variable(record, asked, place)
    if "trial" not in values.dims:
        values = values.expand_dims("trial")
    rates, unmeasured = _rates(record, values.sizes["trial"], place), _unmeasured(record)
    curves = []
    for value, rate in zip(values.transpose("trial", "step").values.astype(float), rates, strict=True):
        finite, known = np.isfinite(value), np.isfinite(rate)
        kept = finite | ~unmeasured
        series = (step[known], rate[known]) if known.any() else None
        curves.append(_curve(step[kept], np.where(finite, value, np.nan)[kept], series, asked, place))
    told = told_by(str(values.name), map(str, record.data_vars))
    return [replace(each, told=told) for each in curves]


def _variable(record: xr.Dataset, asked: str, place: str) -> xr.DataArray:
    """What is asked for: numbers over step, or over trial and step."""
    over_steps = [str(name) for name, each in record.data_vars.items() if "step" in each.dims]
    found = next((name for name in (asked, *_CALLED.get(asked, ())) if name in over_steps), None)
    if found is None:
        held = [name for name in over_steps if set(record[name].dims) <= {"trial", "step"} and name != "shape"]
        untold = asked == "loss" and "probe_loss" in held
        raise ValueError(
            f"quantity must be one that {place} holds over steps ({', '.join(held)}), got {asked!r}"
            + ("; run.step was not told the loss: ask for probe_loss" if untold else "")
        )
    values = record[found]
    if extra := [str(dim) for dim in values.dims if dim not in ("trial", "step")]:
        raise ValueError(
            f"quantity must have one value at each step, but {found} of {place} has the dimension {extra[0]}: choose "
            f"one of the record with .isel({extra[0]}=…)"
        )
    if values.dtype.kind not in "biuf" or not values.size:
        raise ValueError(f"{place} must hold numbers of {found}, got {values.size} of type {values.dtype}")
    return values


def _unmeasured(record: xr.Dataset) -> np.ndarray:
    """Steps (step,) at which a NaN says that nothing was measured: of a watched run that was sound there."""
    if "probe_loss" not in record or record["probe_loss"].dims != ("step",):
        return np.zeros(record.sizes["step"], bool)
    return np.asarray(np.isfinite(record["probe_loss"].values.astype(float)))


def _rates(record: xr.Dataset, trials: int, place: str) -> np.ndarray:
    """Learning rates (trial, step), NaN where they are not known, times the factor by which they were steered."""
    over = [name for name in (*_RATES, _FACTOR) if name in record.data_vars and "step" in record[name].dims]
    found = {name: np.asarray(record[name].transpose(..., "step").values, float) for name in over}
    factor = found.pop(_FACTOR, np.ones(1))
    rate = next(iter(found.values()), None)
    if rate is None:
        rate = _of_settings(record, trials, place)
    return np.broadcast_to(rate * np.where(np.isnan(factor), 1.0, factor), (trials, record.sizes["step"]))


@dataclass(frozen=True)
class _Settings:
    """What is used of the settings of an ensemble."""

    learning_rate: list[float]
    later: dict[str, dict[str, list[float]]] = field(default_factory=dict)


def _of_settings(record: xr.Dataset, trials: int, place: str) -> np.ndarray:
    """Learning rates (trial, step) that an ensemble was trained with, from a step on where they changed."""
    step = record["step"].values
    if record.attrs.get("model") != '"Ensemble"':
        return np.full((1, len(step)), np.nan)
    settings = parse_json(record.attrs["parameters"], _Settings, place.strip("'"))
    own = record["learning_rate"].values if "learning_rate" in record.coords else None  # where trials differ in it
    rates = np.repeat(_each(settings.learning_rate if own is None else own, trials)[:, None], len(step), axis=1)
    for begin, changed in sorted(settings.later.items(), key=lambda item: int(item[0])):
        if "learning_rate" in changed:
            rates[:, step >= int(begin)] = _each(changed["learning_rate"], trials)[:, None]
    return rates


def _each(values: object, trials: int) -> np.ndarray:
    """One number for each trial; NaN where it cannot be told whose they are, after trials were chosen."""
    found = np.ravel(np.asarray(values, float))
    if len(found) == trials:
        return found
    return np.full(trials, found[0] if len(set(found.tolist())) == 1 else np.nan)
