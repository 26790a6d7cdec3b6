"""`dynascope reproduce`: one experiment, with its files; or the list of all."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import dynascope
from dynascope.budget import unlimited
from dynascope.cli.options import AsJson, NoLimit, Scale, refuse_given
from dynascope.cli.terminal import plain_console, say
from dynascope.experiments.registry import headline, names

app = typer.Typer(add_completion=False)


@app.command()
def reproduce(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="An experiment, such as spring_block/phase_diagram.")] = None,
    scale: Scale = "laptop",
    out: Annotated[Path, typer.Option(help="Folder below which the files are written.")] = Path("results"),
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    no_limit: NoLimit = False,
    as_json: AsJson = False,
) -> None:
    """Run one figure or equation, with its files. Exit status 1 if a claim that the scale settles fails."""
    if list_all:
        refuse_given(context, ("scale", "out", "no_limit"), "with --list")
        if name is not None:
            raise ValueError(f"name must be left out with --list, which lists all experiments, got {name!r}")
        _list(as_json=as_json)
        return
    if name is None:
        raise ValueError("name must be given; `dynascope reproduce --list` shows what there is")
    say(f"running {name} at scale {scale} …")
    with unlimited(no_limit):
        result = dynascope.report.reproduce(name, scale, out)
    files = {key: str(path) for key, path in result.files.items()}
    if as_json:
        claims = [claim.to_json() for claim in result.claims]
        print(dynascope.records.to_json({"name": name, "scale": scale, "claims": claims, "files": files}))
    else:
        dynascope.cli.claims.print_claims(result.claims)
        for key in ("picture", "report"):
            print(f"{key}: {files[key]}")
    dynascope.cli.claims.exit_by_verdict(result.claims, scale)


def _list(*, as_json: bool) -> None:
    """Name, source and title of every experiment, none of which is imported."""
    entries = [dict(zip(("name", "source", "title"), (name, *headline(name)), strict=True)) for name in names()]
    if as_json:
        print(dynascope.records.to_json(entries))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "source", "title"):
        table.add_column(column, no_wrap=column == "name")
    for entry in entries:
        table.add_row(*entry.values())
    plain_console().print(table)
