"""Options that commands share."""

from pathlib import Path
from typing import Annotated

import typer

Place = Annotated[
    Path | None, typer.Option(help="Write the record (.nc), or also a picture (.png, .svg, .html), here.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Scale = Annotated[str, typer.Option(help="smoke, laptop or paper.")]
