"""The commands `dynascope data`: where image sets lie, and fetching them."""

import sys
from typing import Annotated

import typer
from rich.table import Table

from dynascope.cli.options import AsJson
from dynascope.cli.terminal import plain_console
from dynascope.data.folder import data_folder, data_sets, fetch
from dynascope.records import to_json

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def data() -> None:
    """Where image sets lie, and fetching them."""


@app.command("list")
def list_data(as_json: AsJson = False) -> None:
    """Say which data sets there are and which of them are here."""
    entries = data_sets()
    if as_json:
        print(to_json(entries))
        return
    table = Table("name", "here", "comes from", box=None, pad_edge=False)
    for entry in entries:
        table.add_row(entry["name"], "yes" if entry["here"] else "no", entry["source"])
    plain_console().print(table)


@app.command("path")
def data_path() -> None:
    """Print the data folder: the environment variable DYNASCOPE_DATA, or ~/.cache/dynascope."""
    print(data_folder())


@app.command("fetch")
def fetch_data(name: Annotated[str, typer.Argument(help="mnist, fashion or cifar10.")]) -> None:
    """Download a data set into the data folder, go on where an earlier download stopped, and check its SHA-256 sums."""
    for path in fetch(name, lambda line: print(line, file=sys.stderr)):
        print(path)
