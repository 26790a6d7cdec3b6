"""A run in a terminal: what was measured when, what each layer does, and what it means."""

import numpy as np
import xarray as xr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dynascope.monitor.health import examine
from dynascope.monitor.judging import finite_steps, newest, verdicts
from dynascope.records import attribute

_ROWS = 12
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


def print_run(record: xr.Dataset, console: Console) -> None:
    """Print a run: its health, a table over steps, one over layers, one sentence per verdict, and what was left out.

    >>> run = xr.Dataset({"load": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> print_run(run, Console(width=60))
    health: not judged: ...
    """
    steps = record.sizes.get("step", 0)
    if steps == 0:
        console.print("a run without a finished measurement yet", highlight=False)
        return
    health = examine(record)
    console.print(Text("health: ", style="bold") + Text(health.line, style="not bold"))
    for finding in health.findings:
        console.print(finding.sentence, highlight=False)
    console.print(
        f"a run of {steps} measurement{'s' if steps > 1 else ''} up to step {int(record['step'][-1])}, "
        f"{record.sizes['layer']} layers",
        highlight=False,
    )
    console.print(_over_steps(record))
    if newest(record, "load") is not None:
        console.print(_over_layers(record))
    for each in verdicts(record):
        console.print(Text(f"{each.subject}: ", style="bold") + Text(each.sentence, style="not bold"))
    for name, reason in _left_out(record).items():
        console.print(Text(f"not measured: {name} ({reason})", style="dim"))


def _left_out(record: xr.Dataset) -> dict[str, str]:
    if not {"parameters", "options"} <= set(record.attrs):
        return {}
    options, reasons = attribute(record, "options"), dict(attribute(record, "parameters").get("skipped", {}))
    if options.get("max_overhead") and options.get("slow") and "minimum_feature_distance" not in record:
        reasons["features and elasticity"] = "no time for them within max_overhead; allow more, or give every"
    return reasons


def _over_steps(record: xr.Dataset) -> Table:
    shown = np.unique(np.linspace(0, record.sizes["step"] - 1, _ROWS).round().astype(int))
    columns = {title: name for title, name in _COLUMNS.items() if name in record}
    table = Table("step", *columns, box=None, pad_edge=False)
    if "shape" in record:
        table.add_column("shape")
    for place in shown:
        row = [str(int(record["step"][place]))] + [_short(float(record[name][place])) for name in columns.values()]
        table.add_row(*row, *([str(record["shape"].values[place])] if "shape" in record else []))
    return table


def _over_layers(record: xr.Dataset) -> Table:
    """Loads at the start and at the last step where all are finite, and what the layer contributes, with a bar."""
    whole = finite_steps(record["load"])
    first, last = record["load"].values[whole[0]], record["load"].values[whole[-1]]
    work = np.concatenate([[np.nan], -np.diff(last)])
    largest = np.nanmax(np.abs(work)) if len(work) > 1 else 1.0
    when = "now" if whole[-1] == len(record["step"]) - 1 else f"at step {int(record['step'][whole[-1]])}"
    table = Table("layer", "load at first", f"load {when}", f"work {when}", "", box=None, pad_edge=False)
    for name, *values in zip(record["layer"].values, first, last, work, strict=True):
        share = values[-1] / largest if largest > 0 and np.isfinite(values[-1]) else 0.0
        bar = ("█" if share >= 0 else "░") * round(20 * abs(share))
        table.add_row(str(name), *map(_short, values), bar)
    return table


def _short(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}"
