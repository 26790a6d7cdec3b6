"""`dynascope live`: a page about runs while they train."""

from pathlib import Path
from typing import Annotated

import typer

from dynascope import live as pages

app = typer.Typer(add_completion=False)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@app.command()
def live(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of runs, or folders above them; here.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8760,
    host: Annotated[str, typer.Option(help="An address of this machine that others can reach.")] = _LOOPBACK[0],
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Show runs in the browser while they train; the address that is printed holds the key."""
    if host not in _LOOPBACK:
        typer.echo(
            f"warning: whoever reaches {host} and has this address sees these runs, and nothing is encrypted; "
            f"`ssh -L {port}:{_LOOPBACK[0]}:{port}` to this machine needs no --host",
            err=True,
        )
    pages.serve(
        runs or [Path()], host=host, port=port, browser=not no_browser, told=lambda line: print(line, flush=True)
    )
