"""What a run shows as tables, for terminals, notebooks and pages. Needs neither PyTorch nor a terminal."""

import html
from collections.abc import Sequence

import numpy as np
import xarray as xr

from dynascope.monitor.judging import finite_steps, newest, verdicts
from dynascope.records import Json, attribute

ROWS = 12
# column -> variable
_COLUMNS = {
    "accuracy": "probe_accuracy",
    "loss": "probe_loss",
    "R² of load": "linearity",
    "bend": "bend",
    "NC1": "nc1",
    "NC2": "nc2_angle",
    "NC3": "nc3",
    "κ": "minimum_feature_distance",
    "within": "intra",
    "between": "inter",
}
LAYER_HEAD = ("layer", "load at first", "load now", "work now")
Rows = list[tuple[str, ...]]


def heading(record: xr.Dataset) -> str:
    """Say in a line how much of a run there is.

    >>> heading(xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0]}))
    'a run of 1 measurement up to step 0, 2 layers'
    """
    steps = record.sizes.get("step", 0)
    if steps == 0:
        return "a run without a finished measurement yet"
    plural = "s" if steps > 1 else ""
    return f"a run of {steps} measurement{plural} up to step {int(record['step'][-1])}, {record.sizes['layer']} layers"


def over_steps(record: xr.Dataset) -> tuple[tuple[str, ...], Rows]:
    """Head and rows of the main numbers, at up to twelve moments.

    >>> over_steps(xr.Dataset({"nc1": ("step", [0.5])}, coords={"step": [10]}))
    (('step', 'NC1'), [('10', '0.5')])
    """
    shown = np.unique(np.linspace(0, record.sizes["step"] - 1, ROWS).round().astype(int))
    columns = {title: record[name].values for title, name in _COLUMNS.items() if name in record}
    shapes = record["shape"].values if "shape" in record else None
    rows = []
    for place in shown:
        row = (str(int(record["step"][place])), *(short(float(each[place])) for each in columns.values()))
        rows.append(row if shapes is None else (*row, str(shapes[place])))
    return ("step", *columns, *(() if shapes is None else ("shape",))), rows


def over_layers(record: xr.Dataset) -> tuple[Rows, np.ndarray]:
    """Rows of `LAYER_HEAD`, one per layer, and each layer's work now as a share of the largest; none if not measured.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> over_layers(run)[0][1]
    ('fc', '1', '1', '1')
    """
    if newest(record, "loads") is None:
        return [], np.zeros(0)
    whole = finite_steps(record["loads"])
    first, last = record["loads"].values[whole[0]], record["loads"].values[whole[-1]]
    work = np.concatenate([[np.nan], -np.diff(last)])
    largest = np.nanmax(np.abs(work)) if len(work) > 1 else 0.0
    rows = [
        (str(name), *map(short, values))
        for name, *values in zip(record["layer"].values, first, last, work, strict=True)
    ]
    return rows, np.nan_to_num(work / largest) if largest > 0 else np.zeros(len(work))


def left_out(record: xr.Dataset) -> dict[str, str]:
    """What was not measured, and why.

    >>> left_out(xr.Dataset())
    {}
    """
    if not {"parameters", "options"} <= set(record.attrs):
        return {}
    options, reasons = attribute(record, "options"), dict(attribute(record, "parameters").get("skipped", {}))
    if options.get("max_overhead") and options.get("slow") and "skip_cost" not in record:
        reasons["features and elasticity"] = "no time for them within max_overhead; allow more, or give every"
    return reasons


def asides(record: xr.Dataset) -> list[str]:
    """What was guessed, and what was not measured, one line each.

    >>> asides(xr.Dataset())
    []
    """
    known = attribute(record, "parameters") if "parameters" in record.attrs else {}
    missing = [f"not measured: {name} ({reason})" for name, reason in left_out(record).items()]
    return [f"note: {each}" for each in known.get("notes", [])] + missing


def remark(record: xr.Dataset) -> str:
    """What is to be known about the run: damage, and what its last line is; empty if nothing.

    >>> remark(xr.Dataset())
    ''
    """
    known = attribute(record, "parameters") if "parameters" in record.attrs else {}
    said = [known["damaged"]] if "damaged" in known else []
    return "; ".join(
        [*said, *([f"the last line is the final state: {known['final_state']}"] if "final_state" in known else [])]
    )


def final_values(record: xr.Dataset) -> dict[str, Json]:
    """Read the newest finite value of everything: a number, a text, or numbers by label.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> final_values(run)
    {'loads': {'input': 2.0, 'fc': 1.0}}
    """
    found: dict[str, Json] = {}
    for name, variable in record.data_vars.items():
        if variable.dtype.kind not in "bf":
            found[str(name)] = str(variable.values[-1])
            continue
        known = variable.dropna("step", how="all")
        if known.sizes["step"]:
            found[str(name)] = _by_label(known.isel(step=-1))
    return found


def _by_label(values: xr.DataArray) -> Json:
    if values.ndim == 0:
        return values.item()
    dim = values.dims[0]
    labels = values[dim].values if dim in values.coords else range(values.sizes[dim])
    return {str(label): _by_label(values.isel({dim: place})) for place, label in enumerate(labels)}


def short(value: float) -> str:
    """Write a number in three digits, NaN as nothing.

    >>> short(0.000123456), short(np.nan)
    ('0.000123', '')
    """
    return "" if np.isnan(value) else f"{value:.3g}"


def to_html(record: xr.Dataset) -> str:
    """Write a run as it is shown in notebooks: heading, findings, layers, and what was not measured.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> "<td>fc</td>" in to_html(run)
    True
    """
    if record.sizes.get("step", 0) == 0 or "layer" not in record.sizes:
        return f"<p>{html.escape(heading(record))}</p>" if "step" in record.sizes else ""
    sentences = [each.finding for each in verdicts(record)] + [remark(record)] * bool(remark(record))
    lines = [*sentences, *asides(record)]
    return (
        f"<p><b>{html.escape(heading(record))}</b></p>"
        + "<ul>" * bool(lines) + "".join(f"<li>{html.escape(each)}</li>" for each in lines) + "</ul>" * bool(lines)
        + _html_table(LAYER_HEAD, over_layers(record)[0])
        + _html_table(*over_steps(record))
    )  # fmt: skip


def _html_table(head: Sequence[str], rows: Rows) -> str:
    lines = [("th", head), *(("td", row) for row in rows)]
    cells = ("".join(f"<{kind}>{html.escape(each)}</{kind}>" for each in row) for kind, row in lines)
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"
