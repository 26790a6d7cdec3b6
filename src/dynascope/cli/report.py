"""`dynascope report`: a page about a run that was watched."""

from pathlib import Path
from typing import Annotated

import typer

from dynascope.cli.output import draw
from dynascope.monitor import open_run
from dynascope.monitor.journal import watched
from dynascope.records import attribute, check_writable
from dynascope.schema import content_of

app = typer.Typer(add_completion=False)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run that was watched, or its record.")],
    out: Annotated[Path | None, typer.Option(help="HTML file; report.html beside the run if not given.")] = None,
) -> None:
    """Write one HTML file about a run that was watched: what it shows, with pictures."""
    place = out or (run if run.is_dir() else run.parent) / "report.html"
    if place.suffix != ".html":
        raise ValueError(f"out must end in .html, got {place.name!r}; `dynascope show --out` draws pictures")
    check_writable(place)
    record = open_run(run)
    if not watched(record):
        raise ValueError(f"run must be one that was watched, got a record of {attribute(record, 'model')}")
    with content_of(str(run)):
        draw(record, place)
    print(f"report: {place}")
