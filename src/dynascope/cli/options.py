"""Options that commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer


def refuse_given(context: typer.Context, names: Sequence[str], where: str) -> None:
    """Refuse options that were written down where they have no effect."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = "json" if name == "as_json" else name.replace("_", "-")
            raise ValueError(f"--{flag} must be left out {where}, where it has no effect")


Place = Annotated[
    Path | None, typer.Option(help="Write the record (.nc), or also a picture (.png, .svg, .html), here.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
NoLimit = Annotated[
    bool, typer.Option("--no-limit", help="Try also what seems to need more memory or time than this machine has.")
]
Scale = Annotated[str, typer.Option(help="smoke, laptop or paper.")]
