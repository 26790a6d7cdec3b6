"""A run in a terminal: what was measured when, what each layer does, and what it means; or several side by side."""

from collections.abc import Mapping, Sequence

import xarray as xr
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dynascope.monitor.health import examine
from dynascope.monitor.judging import verdicts
from dynascope.monitor.tables import (
    LAYER_HEAD,
    Rows,
    asides,
    final_values,
    heading,
    over_layers,
    over_steps,
    remark,
    short,
)

_GAP = 2  # columns between two cells of a table without lines


def print_run(record: xr.Dataset, console: Console) -> None:
    """Print a run: its health, a table over steps, one over layers, one sentence per verdict, and what was left out.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> print_run(run, Console(width=60))
    health: not judged: ...
    """
    if record.sizes.get("step", 0) == 0:
        console.print(heading(record), highlight=False)
        return
    health = examine(record)
    console.print(Text("health: ", style="bold") + Text(health.line, style="not bold"))
    for finding in health.findings:
        console.print(finding.sentence, highlight=False, markup=False)
    console.print(heading(record), highlight=False)
    _print_table(*over_steps(record), console)
    if remark(record):
        console.print(remark(record), highlight=False, markup=False)
    rows, shares = over_layers(record)
    if rows:
        bars = [("█" if share >= 0 else "░") * round(20 * abs(share)) for share in shares]
        _print_table((*LAYER_HEAD, ""), [(*row, bar) for row, bar in zip(rows, bars, strict=True)], console)
    for each in verdicts(record):
        console.print(Text(f"{each.subject}: ", style="bold") + Text(each.sentence, style="not bold"))
    for line in asides(record):
        console.print(Text(line, style="dim"))


def print_runs(records: Mapping[str, xr.Dataset], console: Console) -> None:
    """Print runs side by side: the newest value of every number, loads by layer, and what differs in the findings.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> print_runs({"a": run, "b": run}, Console(width=60))
           a b
    steps  0 0 ...
    """
    values = {name: final_values(record) for name, record in records.items()}
    head = ("", *records)
    steps = [str(int(each["step"][-1])) if each.sizes.get("step") else "" for each in records.values()]
    numbers = dict.fromkeys(name for each in values.values() for name, value in each.items() if _single(value))
    rows = [(name, *(_cell(each.get(name)) for each in values.values())) for name in numbers]
    _print_table(head, [("steps", *steps), *rows], console)
    layers = dict.fromkeys(layer for each in values.values() for layer in each.get("loads", {}))
    loads = [(layer, *(_cell(each.get("loads", {}).get(layer)) for each in values.values())) for layer in layers]
    _print_table(("load now", *records), loads, console)
    for name, record in records.items():
        for each in verdicts(record):
            console.print(Text(f"{name}, {each.subject}: ", style="bold") + Text(each.finding, style="not bold"))


def _single(value: object) -> bool:
    return not isinstance(value, Mapping)


def _cell(value: object) -> str:
    return short(value) if isinstance(value, float) else "" if value is None else str(value)


def _print_table(head: Sequence[str], rows: Rows, console: Console) -> None:
    """Print a table whole: columns that do not fit beside the others come below, after the first column again."""
    widths = [max(cell_len(each) for each in column) for column in zip(head, *rows, strict=True)]
    room, parts = 0, list[list[int]]()
    for place in range(1, len(head)):
        room -= widths[place] + _GAP
        if room < 0 or not parts:
            parts.append([0])
            room = console.width - widths[0] - _GAP - widths[place]
        parts[-1].append(place)
    for part in parts:
        table = Table(box=None, pad_edge=False)
        for place in part:
            table.add_column(
                Text(head[place]), no_wrap=place > 0, overflow="fold", min_width=widths[place] if place else 1
            )
        for row in rows:
            table.add_row(*(Text(row[place]) for place in part))
        console.print(table)
