"""Class means over time from whatever was recorded: an ensemble, watched runs, a simulation, or files of these."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from dynascope.checks import Given, one_of
from dynascope.imitation.drawn import by_label, contents
from dynascope.models.elastic.recorded import load_class_means, real
from dynascope.monitor.journal import is_run
from dynascope.monitor.reading import open_run
from dynascope.records import load
from dynascope.schema import content_of

OneRun = xr.Dataset | xr.DataArray | str | os.PathLike[str]  # a record, or a path to one
Recorded = OneRun | Sequence[OneRun]
_NAMES = {"step": "time", "logit": "feature", "output": "feature"}
_DIMS = ("trial", "time", "class", "feature")
_FEWEST = 20  # times: a quarter of them must still show a trend


def class_means(run: Given[Recorded], *, by: str = "class") -> xr.DataArray:
    """Class means (trial, time, class, feature) of a run; a single run has one trial.

    run: a record of `Ensemble.train` or of a simulation (class_mean), a record of `watch` (class_logits), a path to
    either, to the folder of a watched run or to an .npz file with times and class_means; or a list of these, with the
    same times, whose trials are put side by side. Time is training steps (model time for a simulation). Trials that
    left the finite numbers are left out with a warning that names them.
    by: class, of the probe; drawn label, of the samples as all networks of a record draw them, which become one trial,
    by the label that is trained on (`Ensemble.train(…, keep_drawn=True)`); or shuffled label, the same with the labels
    of each update shuffled among its networks: what chance alone gives

    >>> from dynascope import LocallyElastic
    >>> class_means(LocallyElastic().simulate(duration=1.0, trials=2, samples=3)).sizes["trial"]
    2
    """
    by = one_of("by", by, ("class", "drawn label", "shuffled label"))
    if isinstance(run, Sequence) and not isinstance(run, str | os.PathLike):
        if not run:
            raise ValueError("run must hold at least one run, got an empty list")
        return _side_by_side([class_means(each, by=by) for each in run])
    place, named = "run", "this record"
    if isinstance(run, str | os.PathLike):
        run, place, named = _read(Path(run)), str(run), repr(str(run))
    if not isinstance(run, xr.Dataset | xr.DataArray):
        raise ValueError(
            f"run must be a record of Ensemble.train, watch or simulate, or a path to one, got {type(run).__name__}"
        )
    if by != "class" and not isinstance(run, xr.Dataset):
        raise ValueError(f"run must be a record of Ensemble.train where by is {by!r}, got {type(run).__name__}")
    with content_of(place):
        if isinstance(run, xr.Dataset):
            drawn = by != "class"
            run = by_label(run, named, shuffle=by == "shuffled label") if drawn else _found(run, named)
        return _finite(_checked(run))


def _read(path: Path) -> xr.Dataset | xr.DataArray:
    if path.suffix == ".npz":
        return load_class_means(path)
    return open_run(path) if is_run(path) else load(path)


def _found(record: xr.Dataset, named: str) -> xr.DataArray:
    for name in ("class_mean", "class_logits"):
        if name in record:
            known = record[name].drop_vars("time", errors="ignore") if "step" in record[name].dims else record[name]
            return known.dropna("step", how="all") if name == "class_logits" else known
    raise ValueError(
        "run must hold class means: class_mean as Ensemble.train records it, or class_logits as "
        f"watch(…, class_logits=True) does, but {named} holds {contents(record)}"
    )


def _checked(means: xr.DataArray) -> xr.DataArray:
    means = means.rename({old: new for old, new in _NAMES.items() if old in means.dims})
    if "trial" not in means.dims:
        means = means.expand_dims("trial")
    if set(means.dims) != set(_DIMS):
        extra = [str(dim) for dim in means.dims if dim not in _DIMS]
        raise ValueError(
            f"class means must have the dimensions {', '.join(_DIMS)}, got {', '.join(map(str, means.dims))}"
            + (f"; choose one of {extra[0]} with .isel(…)" if extra else "")
        )
    if means.sizes["class"] < 2:
        raise ValueError(f"run must hold at least 2 classes, got {means.sizes['class']}")
    if "time" not in means.coords:
        raise ValueError("run must say at which times its class means were taken: it has no coordinate time or step")
    times = real(means, "a run")["time"].values.astype(float)
    if len(times) < _FEWEST or not np.all(np.diff(times) > 0):
        raise ValueError(
            f"run must hold class means at {_FEWEST} or more increasing times, got {len(times)}; record them more often"
        )
    return means.transpose(*_DIMS).assign_coords(time=("time", times, {"long_name": "time", **means["time"].attrs}))


def _finite(means: xr.DataArray) -> xr.DataArray:
    """Leave out the trials whose numbers ended on the way, and say which and when."""
    finite = np.isfinite(means.values).all(axis=(2, 3))  # (trial, time)
    whole = finite.all(axis=1)
    if whole.all():
        return means.astype(float)
    labels = means["trial"].values if "trial" in means.coords else np.arange(len(whole))
    lost = ", ".join(
        f"{label} at {means['time'].values[np.argmin(row)]:g}"
        for label, row in zip(labels, finite, strict=True)
        if not row.all()
    )
    if not whole.any():
        raise ValueError(f"run must hold a trial with finite class means throughout; they end for trials {lost}")
    warnings.warn(
        f"the class means of some trials are not finite from a time on and are left out: trial {lost}",
        RuntimeWarning,
        stacklevel=4,
    )
    return means.isel(trial=np.flatnonzero(whole)).astype(float)


def _side_by_side(runs: list[xr.DataArray]) -> xr.DataArray:
    first = runs[0]
    for each in runs[1:]:
        if each.shape[1:] != first.shape[1:] or not np.array_equal(each["time"], first["time"]):
            raise ValueError(
                f"runs must be recorded at the same times, with the same classes and features, got shapes "
                f"{first.shape[1:]} and {each.shape[1:]} or other times"
            )
    joined = np.concatenate([each.values for each in runs])
    return xr.DataArray(joined, dims=_DIMS, coords={"time": first["time"]}, name="class_mean")
