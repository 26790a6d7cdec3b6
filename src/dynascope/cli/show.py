"""`dynascope show`: what a record or a run holds."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
import xarray as xr
from rich.table import Table
from rich.text import Text

from dynascope import monitor
from dynascope.cli.options import AsJson, refuse_given
from dynascope.cli.output import check_picture, describe, draw
from dynascope.cli.terminal import plain_console
from dynascope.monitor import journal
from dynascope.monitor.journal import watched
from dynascope.records import Json, load, to_json
from dynascope.schema import content_of

app = typer.Typer(add_completion=False)
_PAUSE = 1.0  # seconds between two looks at a run that goes on


@app.command()
def show(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="A record written by dynascope, or folders of runs.")],
    out: Annotated[Path | None, typer.Option(help="Also draw it to this .png, .svg or .html file.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show a run again whenever it has been measured.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a record holds and where it comes from; several watched runs are shown side by side."""
    if out is not None:
        check_picture(out)
    if len(files) > 1 and (out is not None or follow):
        raise ValueError(f"files must be one to be drawn or followed, got {len(files)}")
    if follow:
        refuse_given(context, ("out", "as_json"), "with --follow")
        with content_of(str(files[0])):
            _follow(files[0])
        return
    records = {file: _read(file) for file in files}
    for file, record in records.items():
        if len(files) > 1 and not watched(record):
            raise ValueError(f"files must be watched runs to be shown side by side, got {str(file)!r}")
    with content_of(", ".join(map(str, files))):
        _show(records, out, as_json=as_json)


def _show(records: dict[Path, xr.Dataset], out: Path | None, *, as_json: bool) -> None:
    files = list(records)
    first = records[files[0]]
    if out is not None:
        draw(first, out)
    if as_json:
        described = [_describe(record) for record in records.values()]
        print(to_json(described[0] if len(files) == 1 else dict(zip(map(str, files), described, strict=True))))
    elif len(files) > 1:
        names = monitor.comparing.run_names(list(files))
        monitor.show.print_runs({names[str(file)]: record for file, record in records.items()}, plain_console())
    elif watched(first):
        monitor.show.print_run(first, plain_console())
    else:
        _print(first)


def _read(file: Path) -> xr.Dataset:
    if journal.is_run(file):
        return monitor.open_run(file)
    record = load(file)
    return monitor.reading.as_run(record, str(file)) if watched(record) else record


def _describe(record: xr.Dataset) -> dict[str, Json]:
    if not watched(record):
        return describe(record)
    found = [asdict(each) for each in monitor.verdicts(record)]
    health = monitor.examine(record).to_json()
    return describe(record) | {"health": health, "verdicts": found, "final": monitor.tables.final_values(record)}


def _follow(folder: Path) -> None:
    """Print a run again when it has grown, until it ends."""
    console, seen = plain_console(), 0
    while True:
        status, entries = journal.status(folder), journal.read(folder)
        if entries and len(entries) != seen:
            seen = len(entries)
            console.clear()
            monitor.show.print_run(monitor.reading.assemble(entries, repr(str(folder / journal.NAME))), console)
        if status != "live":
            console.print(f"this run is {status}", highlight=False)
            return
        time.sleep(_PAUSE)


def _print(record: xr.Dataset) -> None:
    content, console = describe(record), plain_console()
    model = Text(str(content["provenance"].get("model", "record")), style="bold")
    console.print(model + Text(f"  digest {content['digest'][:12]}", style="not bold"))
    for key, value in content["provenance"].items():
        console.print(f"  {key}: {json.dumps(value, ensure_ascii=False)}", highlight=False, soft_wrap=True)
    table = Table("variable", "dimensions", "least", "mean", "greatest", box=None, pad_edge=False)
    for name, entry in content["variables"].items():
        dims = ", ".join(f"{dim} {size}" for dim, size in entry["dimensions"].items())
        table.add_row(
            name,
            dims,
            *(f"{entry[k]:.4g}" if k in entry else "" for k in ("least", "mean", "greatest")),
        )
    console.print(table)
