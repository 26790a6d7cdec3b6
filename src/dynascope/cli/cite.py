"""`dynascope cite`: whom to cite."""

import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

import dynascope
from dynascope.cli.options import AsJson

app = typer.Typer(add_completion=False)


@app.command()
def cite(
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Write the BibTeX to this file.")] = None,
) -> None:
    """Print BibTeX entries for dynascope and for the papers behind its models."""
    text = resources.files("dynascope").joinpath("references.bib").read_text(encoding="utf-8")
    if out is not None:
        dynascope.records.write_text(out, text)
    if as_json:
        entries = re.split(r"\n(?=@)", text.strip())
        keyed = {re.match(r"@\w+\{([^,]+),", entry)[1]: entry.strip() for entry in entries}  # type: ignore[index]
        print(dynascope.records.to_json(keyed))
    else:
        print(text.strip())
