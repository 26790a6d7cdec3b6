"""`dynascope results`: one page over finished experiments."""

from pathlib import Path
from typing import Annotated

import typer

from dynascope.records import check_writable
from dynascope.results import collect_results, publish_results, verdict_counts

app = typer.Typer(add_completion=False)


@app.command()
def results(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders that `reproduce --out` or `verify --keep` wrote to.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for README.md and the small pictures.")] = Path("docs/results"),
) -> None:
    """Gather finished experiments, from one machine or several, into one page over all papers.

    Without folders the page is written again from what it keeps, with the claims of today.
    """
    check_writable(out / "README.md")
    page = publish_results(folders or [], out)
    print(f"page: {page}")
    if folders:
        print(verdict_counts([claim for result in collect_results(folders).values() for claim in result.claims]))
