"""From a journal of measurements to one labelled record. Needs no PyTorch."""

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from dynascope.deprecation import warn_renamed
from dynascope.measure.separation import DEAD_BELOW, MARGIN, describe
from dynascope.monitor import findings, journal
from dynascope.records import Json, load, with_provenance
from dynascope.schema import content_of, parse_json

if TYPE_CHECKING:
    import pandas as pd

# columns in this order
_TIDY = ("step", "time", "name", "layer", "class", "source", "output", "feature", "head", "weight", "bound")
# name in journals -> name in records, where xarray has a method of that name
_NAMES = {"load": "loads"}
# old name in records -> new one
_OLD = {"load": "loads", "dead": "idle"}
# name -> (dimensions after step, what it is)
VARIABLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "loads": (("layer",), "load D = log(tr Σw/tr Σb)"),
    "loads_interval": (("layer", "bound"), "95 % interval of the load, for other samples"),
    "increment_interval": (("layer", "bound"), "95 % interval of the work, for other samples"),
    "skip_cost": (("layer",), "rise of the last load where the layer is skipped"),
    "skip_cost_interval": (("layer", "bound"), "95 % interval of that rise, for other samples"),
    "skip_loss": (("layer",), "rise of the loss where the layer is skipped"),
    "test_loads": (("layer",), "load D on the test part of the probe"),
    "nc1": ((), "NC1, spread within classes"),
    "nc2_norm": ((), "NC2, spread of the lengths of class means"),
    "nc2_angle": ((), "NC2, deviation of angles from a simplex"),
    "nc3": ((), "NC3, readout against class means"),
    "nc4": ((), "NC4, share not decided by the nearest class mean"),
    "probe_loss": ((), "loss on the probe"),
    "probe_accuracy": ((), "accuracy on the probe"),
    "test_loss": ((), "loss on the test part of the probe"),
    "test_accuracy": ((), "accuracy on the test part of the probe"),
    "belief_bend": ((), "bend of the load curve of what the network says"),
    "belief_bend_interval": (("bound",), "95 % interval of that bend, for other samples"),
    "belief_ready": ((), "whether that bend means something"),
    "confidence": ((), "mean probability of what the network says"),
    "doubt": ((), "by how much it believes in what it says more than in the label"),
    "contradicted": ((), "share of the labels that the network firmly says to be wrong"),
    "attention_entropy": (("layer", "head"), "entropy of attention"),
    "attention_logit": (("layer", "head"), "largest logit of attention"),
    "outliers": (("layer",), "kurtosis of feature strengths"),
    "norms": (("layer",), "length of features at a position"),
    "class_logits": (("class", "output"), "mean logits of a class"),
    "minimum_feature_distance": ((), "distance κ from minimal features"),
    "dimension_intensity": ((), "number of significant features"),
    "dimension_quality": ((), "number of useful features"),
    "dimension_utilization": ((), "number of used features"),
    "constant_overlap": ((), "overlap of the first feature with a constant"),
    "intensity": (("feature",), "intensity ρ"),
    "quality": (("feature",), "quality"),
    "utilization": (("feature",), "utilization"),
    "elasticity": (("class", "source"), "relative change of logits"),
    "pull": (("class", "source"), "cosine of changes"),
    "intra": ((), "elasticity within classes"),
    "inter": ((), "elasticity between classes"),
    **findings.VARIABLES,
}


class RunRecord(xr.Dataset):  # type: ignore[no-untyped-call]  # of xarray's __init_subclass__
    """The record of a watched run: a Dataset whose former names still work, with a warning.

    >>> run = RunRecord({"loads": ("layer", [2.0, 1.0])})
    >>> run.loads.values.tolist()
    [2.0, 1.0]
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        """Read a variable, by its old name too."""
        if isinstance(key, str) and key in _OLD and key not in self._variables:
            warn_renamed(f"the variable {key!r} of watched runs", repr(_OLD[key]))
            key = _OLD[key]
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_OLD.get(key, key) if isinstance(key, str) else key)

    def to_pandas(self) -> "pd.DataFrame":
        """One row per number: step, time, name, the labels of layer, class, … where it has them, and value."""
        return tidy(self)

    def _repr_html_(self) -> str:
        return str(import_module("dynascope.monitor.tables").to_html(self)) + super()._repr_html_()


def tidy(record: xr.Dataset) -> "pd.DataFrame":
    """All numbers of a run as one table, a row each; what was not measured has none.

    Columns are step, time, name, then layer, class, source, output, feature as far as the run has them, and value.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> tidy(run)[["step", "name", "layer", "value"]].values.tolist()
    [[0, 'loads', 'input', 2.0], [0, 'loads', 'fc', 1.0]]
    """
    parts = [
        variable.astype(float).to_dataframe(name="value").dropna(subset="value").reset_index().assign(name=str(name))
        for name, variable in record.data_vars.items()
        if variable.dtype.kind in "bf"
    ]
    table = import_module("pandas").concat(parts, ignore_index=True)
    first = [name for name in _TIDY if name in table]
    return table[[*first, *(name for name in table if name not in (*first, "value")), "value"]]


def open_run(path: str | os.PathLike[str]) -> RunRecord:
    """Read a run from its folder, while it goes on, after it was killed or when it is finished; or from its record.

    >>> open_run("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: there is no run in 'nowhere': it holds no journal.jsonl
    """
    with content_of(str(path)):
        if Path(path).is_file():
            return as_run(load(path), str(path))
        return assemble(journal.read(path), repr(str(Path(path) / journal.NAME)))


@dataclass(frozen=True)
class _Parameters:
    """What is used of the parameters of a run's record."""

    layers: list[str] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damaged: str = ""
    final_state: str = ""


def as_run(record: xr.Dataset, place: str) -> RunRecord:
    """Give the record of a file the names of now; that of a watched run is held to its schema.

    >>> as_run(xr.Dataset(attrs={"model": '"watch"', "options": "[]"}), "run.nc")
    Traceback (most recent call last):
    ValueError: 'run.nc' is damaged, or dynascope did not write it: Expected `object`, got `array`
    """
    run = of_now(record)
    if journal.watched(run):
        with content_of(place):
            _require_run(run, place)
    return run


def _require_run(record: xr.Dataset, place: str) -> None:
    parse_json(record.attrs.get("parameters", "{}"), _Parameters, place)
    parse_json(record.attrs.get("options", "{}"), journal.Settings, place)
    if missing := {"step", "layer"} - set(map(str, record.indexes)):
        raise ValueError(f"it must have the coordinate {min(missing)}")
    if record["step"].dtype.kind not in "iu":
        raise ValueError(f"its steps must be whole numbers, got {record['step'].dtype}")
    for name, variable in record.data_vars.items():
        dims = ("step", *VARIABLES.get(str(name), (variable.dims[1:], ""))[0])
        if variable.dims != dims or (name != "shape" and variable.dtype.kind not in "biuf"):
            held = f"{variable.dtype} over {', '.join(map(str, variable.dims))}"
            raise ValueError(f"{name} must hold numbers over {', '.join(map(str, dims))}, got {held}")


def of_now(record: xr.Dataset) -> RunRecord:
    """Give the record of a watched run the names that it has now.

    >>> of_now(xr.Dataset({"dead": ("layer", [False])})).idle.values.tolist()
    [False]
    """
    old = {name: new for name, new in _OLD.items() if name in record.data_vars and new not in record.variables}
    renamed = record.rename_vars(old)
    return RunRecord(renamed.data_vars, coords=renamed.coords, attrs=renamed.attrs)


def assemble(entries: Sequence[Mapping[str, Json]], place: str = "this run's journal") -> RunRecord:
    """Make the record of a run from the entries of its journal.

    place: where they lie, for messages

    Dimensions are step, layer, class, source (class stepped on), output, feature; what was not measured at a step is
    NaN. Where a run was continued from an earlier step, the measurements that it makes again replace the old ones.

    >>> start = {"kind": "start", "layers": ["input", "fc"], "classes": [0, 1], "settings": {}, "device": "cpu"}
    >>> run = assemble([start, {"kind": "measure", "step": 0, "time": 0.1, "numbers": {"load": [1.0, 0.5]}}])
    >>> run["loads"].dims, run["increment"].values.tolist()
    (('step', 'layer'), [[nan, 0.5]])
    """
    starts = [entry for entry in entries if entry.get("kind") == "start"]
    if not starts:
        raise ValueError(
            f"{place} holds no beginning: it was cut off before its first measurement, or is damaged there"
        )
    start = dict(starts[0]) | {"weights": starts[-1].get("weights", [])}  # runs of version 0.1.0 began without them
    kept = _in_order([entry for entry in entries if entry.get("kind") == "measure"])
    parameters = {"layers": start["layers"], "classes": start["classes"], "skipped": start.get("skipped", {})}
    parameters |= {"kinds": start.get("kinds", []), "notes": start.get("notes", [])}
    damaged = next((entry["lines"] for entry in entries if entry.get("kind") == journal.DAMAGED), 0)
    if damaged:
        parameters["damaged"] = f"{damaged} of its journal's lines are damaged and left out"
    if kept and kept[-1].get("changed"):
        parameters["final_state"] = "weights were changed after the last step, as averaging does"
    try:
        labelled = _with_turns(_labelled(start, kept), [entry for entry in entries if entry.get("kind") == "turn"])
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ValueError(f"{place} holds measurements that do not fit together: {error}") from error
    record = with_provenance(
        labelled,
        "watch",
        parameters,
        options=start["settings"],
        seed=None,
        precision="float64 measures of features in the model's own precision",
        wall_time=kept[-1]["time"] if kept else 0.0,
        device=str(start["device"]),
    )
    return cast(RunRecord, record)


def flat(start: Mapping[str, Json], numbers: Mapping[str, Json]) -> dict[str, float]:
    """One number per name, such as "loads/fc", of all that a measurement holds and what follows from it.

    >>> flat({"layers": ["input", "fc"], "classes": []}, {"load": [2.0, 0.5], "nc1": 0.1})["increment/fc"]
    1.5
    """
    found = _labelled(start, [{"step": 0, "time": 0.0, "numbers": numbers}]).isel(step=0)
    values: dict[str, float] = {}
    for name, variable in found.data_vars.items():
        if variable.dtype.kind not in "bf":
            continue
        labels = [[str(each) for each in _labels(variable, dim)] for dim in variable.dims]
        for place, value in np.ndenumerate(variable.values):
            if np.isfinite(value):
                values["/".join([str(name), *(each[i] for each, i in zip(labels, place, strict=True))])] = float(value)
    return values


def _labels(variable: xr.DataArray, dim: Hashable) -> np.ndarray:
    return np.asarray(variable[dim].values if dim in variable.coords else np.arange(variable.sizes[dim]))


def _labelled(start: Mapping[str, Json], kept: Sequence[Mapping[str, Json]]) -> RunRecord:
    steps = np.array([entry["step"] for entry in kept], dtype=np.int64)
    times = np.array([entry["time"] for entry in kept], dtype=float)
    found = RunRecord(
        coords={
            "step": ("step", steps, {"long_name": "training step"}),
            "layer": list(start["layers"]),
            "time": ("step", times, {"long_name": "wall time since the start", "units": "s"}),
        }
    )
    for name in {name for entry in kept for name in entry["numbers"]}:
        values = _stack(name, [entry["numbers"].get(name) for entry in kept])
        called = _NAMES.get(name, name)
        dims, text = VARIABLES[called] if called in VARIABLES else ((), name.removeprefix("train_") + ", as given")
        found[called] = (("step", *dims), values, {"long_name": text})
    for dim in {"class", "source"} & set(found.dims):
        found = found.assign_coords({dim: list(start.get("class_names") or start["classes"])})
    if "bound" in found.dims:
        found = found.assign_coords(bound=["low", "high"])
    if "feature" in found.dims:
        found = found.assign_coords(feature=np.arange(1, found.sizes["feature"] + 1))
    if "weight" in found.dims:
        found = found.assign_coords(weight=list(start.get("weights") or range(found.sizes["weight"])))
    if "loads" in found:
        if start.get("settings", {}).get("task", "classification") not in ("classification", "binary"):
            found["loads"].attrs["long_name"] = "load D, error of a linear map on rows held out"
        found = found.assign(_shapes(found["loads"].values))
    if {"skip_cost", "idle"} <= set(found):
        work = found["loads"].isel(layer=0) - found["loads"].isel(layer=-1)
        found["idle"] = found["idle"] & ~(found["skip_cost"] > DEAD_BELOW * work)
    return cast(RunRecord, found[sorted(map(str, found.data_vars))])


def _with_turns(record: RunRecord, turns: Sequence[Mapping[str, Json]]) -> RunRecord:
    """Add every knob as it stood at each step, after it was turned there, and the bend that it was turned by."""
    for knob in dict.fromkeys(str(entry["knob"]) for entry in turns):
        own = _in_order([entry for entry in turns if entry["knob"] == knob])
        place = np.searchsorted([entry["step"] for entry in own], record["step"].values, side="right") - 1
        for name, key in ((knob, "value"), (f"{knob}_bend", "bend")):
            values = np.array([np.nan if (each := entry.get(key)) is None else each for entry in own], dtype=float)
            text = (
                f"{knob.replace('_', ' ')}, as it was turned" if key == "value" else f"bend that {knob} was turned by"
            )
            record[name] = ("step", np.where(place >= 0, values[place], np.nan), {"long_name": text})
    return record


def _in_order(entries: list[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """Later measurements of a step replace earlier ones; averaged weights do so only at the very end."""
    kept: list[Mapping[str, Json]] = []
    for entry in [each for each in entries[:-1] if not each.get("changed")] + entries[-1:]:
        while kept and kept[-1]["step"] >= entry["step"]:
            kept.pop()
        kept.append(entry)
    return kept


def _stack(name: str, values: Sequence[Json]) -> np.ndarray:
    """One array over steps; what is missing or shorter is filled with NaN."""
    try:
        arrays = [None if value is None else np.asarray(value, dtype=float) for value in values]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers, or lists of them ({error})") from error
    known = [array.shape for array in arrays if array is not None]
    if len({len(shape) for shape in known}) > 1:
        raise ValueError(f"{name} must have as many axes at every step, got shapes {known[0]} to {known[-1]}")
    shape = tuple(max(sizes) for sizes in zip(*known, strict=True))
    whole = np.full((len(arrays), *shape), np.nan)
    for place, array in enumerate(arrays):
        if array is not None:
            part: tuple[int | slice, ...] = (place, *(slice(size) for size in array.shape))
            whole[part] = array
    return whole


def _shapes(loads: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """What follows from the loads (step, layer): increments, idle layers and the shape of the curve."""
    if loads.shape[1] < 2:
        return {}
    curves = [describe(each, None, kind="trace", margin=MARGIN, dead_below=DEAD_BELOW) for each in loads]
    per_layer = {"increment": "increment", "idle": "dead"}  # name here -> name in a load curve
    found = {name: [curve[old].values for curve in curves] for name, old in per_layer.items()}
    for name in ("linearity", "curvature", "bend", "shape"):
        found[name] = [curve[name].values for curve in curves]
    if loads.shape[1] == 2:  # a single increment has no shape
        for name in ("linearity", "curvature", "bend"):
            found[name] = [np.array(np.nan)] * len(loads)
        found["shape"] = [np.array("undefined")] * len(loads)
    return {
        name: (("step", "layer") if name in per_layer else ("step",), np.array(values))
        for name, values in found.items()
    }
