"""Options that commands share."""

from pathlib import Path
from typing import Annotated

import typer

Place = Annotated[
    Path | None, typer.Option(help="Write the record (.nc), or also a picture (.png, .svg, .html), here.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
NoLimit = Annotated[
    bool, typer.Option("--no-limit", help="Try also what seems to need more memory or time than this machine has.")
]
Scale = Annotated[str, typer.Option(help="smoke, laptop or paper.")]
