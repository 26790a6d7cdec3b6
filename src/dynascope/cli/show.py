"""`dynascope show`: what a record or a run holds."""

import json
from pathlib import Path
from typing import Annotated

import typer
import xarray as xr
from rich.console import Console
from rich.table import Table

from dynascope import monitor
from dynascope.cli.options import AsJson
from dynascope.cli.output import check_picture, describe, draw, watched
from dynascope.cli.terminal import escape
from dynascope.monitor.journal import is_run
from dynascope.records import load, to_json

app = typer.Typer(add_completion=False)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A record written by dynascope, or the folder of a run.")],
    out: Annotated[Path | None, typer.Option(help="Also draw it to this .png, .svg or .html file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a record holds and where it comes from."""
    if out is not None:
        check_picture(out)
    record = monitor.open_run(file) if is_run(file) else load(file)
    if out is not None:
        draw(record, out)
    if as_json:
        print(to_json(describe(record)))
    elif watched(record):
        monitor.show.print_run(record, Console())
    else:
        _print(record)


def _print(record: xr.Dataset) -> None:
    content, console = describe(record), Console()
    console.print(
        f"[bold]{content['provenance'].get('model', 'record')}[/]  digest {content['digest'][:12]}",
        highlight=False,
    )
    for key, value in content["provenance"].items():
        console.print(f"  {key}: {escape(json.dumps(value, ensure_ascii=False))}", highlight=False, soft_wrap=True)
    table = Table("variable", "dimensions", "least", "mean", "greatest", box=None, pad_edge=False)
    for name, entry in content["variables"].items():
        dims = ", ".join(f"{dim} {size}" for dim, size in entry["dimensions"].items())
        table.add_row(name, dims, *(f"{entry[k]:.4g}" if k in entry else "" for k in ("least", "mean", "greatest")))
    console.print(table)
