"""The command `dynascope`. Every command only calls public functions and prints what they return."""

import json
import re
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.console import Console
from rich.table import Table

from dynascope import __version__
from dynascope.cli.data import data_app
from dynascope.cli.estimate import estimate_app
from dynascope.cli.imitate import imitate_command
from dynascope.cli.output import Json, check_picture, describe, draw, escape, say, watched
from dynascope.cli.simulate import FAMILIES, simulate_app
from dynascope.cli.sweep import sweep_app
from dynascope.experiments.claims import summary
from dynascope.experiments.registry import find, names
from dynascope.monitor.reading import is_run, open_run
from dynascope.monitor.show import print_run
from dynascope.records import attribute, check_writable, load, to_json, write_text

__all__ = ["FAMILIES", "app", "main"]

_COLOURS = {"reproduced": "green", "erratum": "yellow", "not reproduced": "bold red", "not run": "dim"}

app = typer.Typer(
    help="See, model and forecast how neural networks learn.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(simulate_app, name="simulate")
app.add_typer(estimate_app, name="estimate")
app.add_typer(data_app, name="data")
app.add_typer(sweep_app, name="sweep")
app.command("imitate")(imitate_command)


def main() -> None:
    """Run the command line; errors of use are one sentence and exit status 2."""
    try:
        app()
    except (ValueError, FloatingPointError, OSError) as error:
        _complain(str(error))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        _complain(f"the run does not fit into memory; ask for fewer trials, grid points or saved times ({error})")


def _complain(sentence: str) -> None:
    line = " ".join(sentence.split())
    Console(stderr=True).print(f"[bold red]error:[/] {escape(line)}", soft_wrap=True, highlight=False)
    sys.exit(2)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def verify(
    family: Annotated[
        str | None, typer.Argument(help="A model family, such as spring_block; all if not given.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All families: every claim on every paper.")] = False,
    scale: Annotated[str, typer.Option(help="smoke, laptop or paper.")] = "laptop",
    figures: Annotated[
        bool, typer.Option(help="Also run the figures; else their claims are listed as not run.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="Write the claims to this JSON file.")] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="Folder for record, picture and claims of each experiment; what is there already is not rerun."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Hold published equations and figures against simulation. Exit status 1 if a claim is not reproduced."""
    from dynascope.report import claims_json  # noqa: PLC0415 (imports matplotlib)
    from dynascope.report import verify as run_claims  # noqa: PLC0415
    from dynascope.results import duration, told  # noqa: PLC0415

    if every and family is not None:
        raise ValueError(f"--all runs every family: leave out {family!r} or --all")
    if out is not None:
        check_writable(out)
    chosen = family and family.replace("-", "_")
    claims: list[Any] = []
    begun = last = time.perf_counter()
    total = len(names(chosen))
    for index, (name, judged) in enumerate(run_claims(chosen, scale, figures=figures, root=keep), 1):
        now = time.perf_counter()
        say(
            f"{index}/{total} {name}: {', '.join(sorted({claim.verdict for claim in judged}))} ({duration(now - last)})"
        )
        claims, last = claims + list(judged), now
    if as_json:
        print(claims_json(claims))
    else:
        _print_claims(claims)
        print(f"{told(claims)}, in {duration(last - begun)} at scale {scale}")
    if out is not None:
        write_text(out, claims_json(claims))
    _exit_by_verdict(claims)


def _print_claims(claims: Any) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("verdict", "claim", "source", "measured against expected"):
        table.add_column(title, overflow="fold")
    for claim in claims:
        table.add_row(f"[{_COLOURS[claim.verdict]}]{claim.verdict}[/]", claim.id, claim.source, summary(claim))
    Console().print(table)


def _exit_by_verdict(claims: Any) -> None:
    if any(claim.verdict == "not reproduced" for claim in claims):
        raise typer.Exit(1)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, such as spring_block/phase_diagram.")] = None,
    scale: Annotated[str, typer.Option(help="smoke, laptop or paper.")] = "laptop",
    out: Annotated[Path, typer.Option(help="Folder below which the files are written.")] = Path("results"),
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    as_json: Json = False,
) -> None:
    """Run one figure or equation: record, picture, claims and report. Exit status 1 if a claim is not reproduced."""
    from dynascope.report import reproduce as run_experiment  # noqa: PLC0415 (imports matplotlib)

    if list_all:
        entries = [{"name": each, "source": find(each).source, "title": find(each).title} for each in names()]
        if as_json:
            print(to_json(entries))
        else:
            table = Table(box=None, pad_edge=False)
            for column in ("name", "source", "title"):
                table.add_column(column, no_wrap=column == "name")
            for entry in entries:
                table.add_row(*entry.values())
            Console().print(table)
        return
    if name is None:
        raise ValueError("name must be given; `dynascope reproduce --list` shows what there is")
    say(f"running {name} at scale {scale} …")
    result = run_experiment(name, scale, out)
    files = {key: str(path) for key, path in result.files.items()}
    if as_json:
        claims = [claim.to_json() for claim in result.claims]
        print(to_json({"name": name, "scale": scale, "claims": claims, "files": files}))
    else:
        _print_claims(result.claims)
        for key in ("picture", "report"):
            print(f"{key}: {files[key]}")
    _exit_by_verdict(result.claims)


@app.command()
def results(
    folders: Annotated[list[Path], typer.Argument(help="Folders that `reproduce --out` or `verify --keep` wrote to.")],
    out: Annotated[Path, typer.Option(help="Folder for README.md and the small pictures.")] = Path("docs/results"),
) -> None:
    """Gather finished experiments, from one machine or several, into one page over all papers."""
    from dynascope.results import collect_results, publish_results, told  # noqa: PLC0415

    check_writable(out / "README.md")
    page = publish_results(folders, out)
    claims = [claim for result in collect_results(folders).values() for claim in result.claims]
    print(f"page: {page}\n{told(claims)}")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A record written by dynascope, or the folder of a run.")],
    out: Annotated[Path | None, typer.Option(help="Also draw it to this .png, .svg or .html file.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a record holds and where it comes from."""
    if out is not None:
        check_picture(out)
    record = open_run(file) if is_run(file) else load(file)
    content = describe(record)
    if out is not None:
        draw(record, out)
    if as_json:
        print(to_json(content))
        return
    console = Console()
    if watched(record):
        print_run(record, console)
        return
    console.print(
        f"[bold]{content['provenance'].get('model', 'record')}[/]  digest {content['digest'][:12]}",
        highlight=False,
    )
    for key, value in content["provenance"].items():
        console.print(f"  {key}: {escape(json.dumps(value, ensure_ascii=False))}", highlight=False, soft_wrap=True)
    table = Table("variable", "dimensions", "least", "mean", "greatest", box=None, pad_edge=False)
    for name, entry in content["variables"].items():
        dims = ", ".join(f"{dim} {size}" for dim, size in entry["dimensions"].items())
        table.add_row(name, dims, *(f"{entry[k]:.4g}" if k in entry else "" for k in ("least", "mean", "greatest")))
    console.print(table)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run that was watched, or its record.")],
    out: Annotated[Path | None, typer.Option(help="HTML file; report.html beside the run if not given.")] = None,
) -> None:
    """Write one HTML file about a run that was watched: what it shows, with pictures."""
    place = out or (run if run.is_dir() else run.parent) / "report.html"
    check_writable(place)
    record = open_run(run)
    if not watched(record):
        raise ValueError(f"run must be one that was watched, got a record of {attribute(record, 'model')}")
    draw(record, place)
    print(f"report: {place}")


@app.command()
def cite(
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Write the BibTeX to this file.")] = None,
) -> None:
    """Print BibTeX entries for dynascope and for the papers behind its models."""
    text = resources.files("dynascope").joinpath("references.bib").read_text(encoding="utf-8")
    if out is not None:
        write_text(out, text)
    if as_json:
        entries = re.split(r"\n(?=@)", text.strip())
        keyed = {re.match(r"@\w+\{([^,]+),", entry)[1]: entry.strip() for entry in entries}  # type: ignore[index]
        print(to_json(keyed))
    else:
        print(text.strip())
