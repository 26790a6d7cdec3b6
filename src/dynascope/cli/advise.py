"""`dynascope advise`: what a watched run says about its noise."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import dynascope
from dynascope.cli.options import AsJson
from dynascope.cli.terminal import plain_console
from dynascope.records import to_json
from dynascope.schema import content_of

app = typer.Typer(add_completion=False)


@app.command()
def advise(
    run: Annotated[Path, typer.Argument(help="The folder of a run that was watched, or its record.")],
    as_json: AsJson = False,
) -> None:
    """Say which knob to turn next time, which way and how far, and what to expect; or why there is no advice."""
    with content_of(str(run)):
        found = dynascope.advise(run)
    if as_json:
        print(to_json(asdict(found)))
    else:
        plain_console().print(str(found), highlight=False, soft_wrap=True)
