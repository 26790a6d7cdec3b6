"""From a journal of measurements to one labelled record. Needs no PyTorch."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from dynascope.measure.separation import DEAD_BELOW, MARGIN, describe
from dynascope.monitor import findings, journal
from dynascope.records import Json, load, with_provenance

# name -> (dimensions after step, what it is)
VARIABLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "load": (("layer",), "load D = log(tr Σw/tr Σb)"),
    "nc1": ((), "NC1, spread within classes"),
    "nc2_norm": ((), "NC2, spread of the lengths of class means"),
    "nc2_angle": ((), "NC2, deviation of angles from a simplex"),
    "nc3": ((), "NC3, readout against class means"),
    "nc4": ((), "NC4, share not decided by the nearest class mean"),
    "probe_loss": ((), "cross entropy on the probe"),
    "probe_accuracy": ((), "accuracy on the probe"),
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


def open_run(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read a run from its folder, while it goes on, after it was killed or when it is finished; or from its record.

    >>> open_run("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: there is no run in 'nowhere': it holds no journal.jsonl
    """
    return load(path) if Path(path).is_file() else assemble(journal.read(path))


def assemble(entries: Sequence[Mapping[str, Json]]) -> xr.Dataset:
    """Make the record of a run from the entries of its journal.

    Dimensions are step, layer, class, source (class stepped on), output, feature; what was not measured at a step is
    NaN. Where a run was continued from an earlier step, the measurements that it makes again replace the old ones.

    >>> start = {"kind": "start", "layers": ["input", "fc"], "classes": [0, 1], "settings": {}, "device": "cpu"}
    >>> run = assemble([start, {"kind": "measure", "step": 0, "time": 0.1, "numbers": {"load": [1.0, 0.5]}}])
    >>> run["load"].dims, run["increment"].values.tolist()
    (('step', 'layer'), [[nan, 0.5]])
    """
    start = next((entry for entry in entries if entry.get("kind") == "start"), None)
    if start is None:
        raise ValueError("this run's journal holds no beginning: it was cut off before its first measurement")
    kept = _in_order([entry for entry in entries if entry.get("kind") == "measure"])
    found = xr.Dataset(
        coords={
            "step": (
                "step",
                np.array([entry["step"] for entry in kept], dtype=np.int64),
                {"long_name": "training step"},
            ),
            "layer": list(start["layers"]),
            "time": ("step", np.array([entry["time"] for entry in kept], dtype=float), _time_attributes()),
        }
    )
    for name in {name for entry in kept for name in entry["numbers"]}:
        dims, text = VARIABLES[name] if name in VARIABLES else ((), name.removeprefix("train_") + ", as given")
        found[name] = (("step", *dims), _stack([entry["numbers"].get(name) for entry in kept]), {"long_name": text})
    for dim in {"class", "source"} & set(found.dims):
        found = found.assign_coords({dim: list(start["classes"])})
    if "feature" in found.dims:
        found = found.assign_coords(feature=np.arange(1, found.sizes["feature"] + 1))
    if "weight" in found.dims:
        found = found.assign_coords(weight=list(start["weights"]))
    if "load" in found:
        found = found.assign(_shapes(found["load"].values))
    return with_provenance(
        found[sorted(map(str, found.data_vars))],
        "watch",
        {"layers": start["layers"], "classes": start["classes"], "skipped": start.get("skipped", {})},
        options=start["settings"],
        seed=None,
        precision="float64 measures of features in the model's own precision",
        wall_time=kept[-1]["time"] if kept else 0.0,
        device=str(start["device"]),
    )


def _time_attributes() -> dict[str, str]:
    return {"long_name": "wall time since the start", "units": "s"}


def _in_order(entries: list[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    kept: list[Mapping[str, Json]] = []
    for entry in entries:
        while kept and kept[-1]["step"] >= entry["step"]:
            kept.pop()
        kept.append(entry)
    return kept


def _stack(values: Sequence[Json]) -> np.ndarray:
    """One array over steps; what is missing or shorter is filled with NaN."""
    arrays = [None if value is None else np.asarray(value, dtype=float) for value in values]
    known = [array.shape for array in arrays if array is not None]
    shape = tuple(max(sizes) for sizes in zip(*known, strict=True))
    whole = np.full((len(arrays), *shape), np.nan)
    for place, array in enumerate(arrays):
        if array is not None:
            part: tuple[int | slice, ...] = (place, *(slice(size) for size in array.shape))
            whole[part] = array
    return whole


def _shapes(loads: np.ndarray) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """What follows from the loads (step, layer): increments and the shape of the curve."""
    names = ("increment", "dead", "linearity", "curvature", "bend", "shape")
    if loads.shape[1] < 2:
        return {}
    curves = [describe(each, None, kind="trace", margin=MARGIN, dead_below=DEAD_BELOW) for each in loads]
    found = {name: [curve[name].values for curve in curves] for name in names}
    if loads.shape[1] == 2:  # a single increment has no shape
        for name in ("linearity", "curvature", "bend"):
            found[name] = [np.array(np.nan)] * len(loads)
        found["shape"] = [np.array("undefined")] * len(loads)
    return {
        name: (("step", "layer") if name in ("increment", "dead") else ("step",), np.array(values))
        for name, values in found.items()
    }
