"""`dynascope verify`: the claims of a family, or all."""

import time
from pathlib import Path
from typing import Annotated

import typer

import dynascope
from dynascope.budget import unlimited
from dynascope.cli.claims import exit_by_verdict, print_claims
from dynascope.cli.options import AsJson, NoLimit, Scale
from dynascope.cli.terminal import say
from dynascope.experiments.claims import Finding
from dynascope.experiments.registry import names
from dynascope.progress import duration

app = typer.Typer(add_completion=False)


@app.command()
def verify(
    family: Annotated[
        str | None, typer.Argument(help="A model family, such as spring_block; all if not given.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All families: every claim on every paper.")] = False,
    scale: Scale = "laptop",
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
    no_limit: NoLimit = False,
    as_json: AsJson = False,
) -> None:
    """Hold what papers state against simulation. Exit status 1 if a claim that the scale settles fails."""
    if every and family is not None:
        raise ValueError(f"--all runs every family: leave out {family!r} or --all")
    report, results = dynascope.report, dynascope.results
    if out is not None:
        dynascope.records.check_writable(out)
    chosen = family and family.replace("-", "_")
    claims: list[Finding] = []
    begun = last = time.perf_counter()
    total = len(names(chosen))
    with unlimited(no_limit):
        for index, (name, judged) in enumerate(report.verify(chosen, scale, figures=figures, root=keep), 1):
            now = time.perf_counter()
            found = ", ".join(sorted({claim.verdict for claim in judged}))
            say(f"{index}/{total} {name}: {found} ({duration(now - last)})")
            claims, last = claims + list(judged), now
    if as_json:
        print(report.claims_json(claims))
    else:
        print_claims(claims)
        print(f"{results.verdict_counts(claims)}, in {duration(last - begun)} at scale {scale}")
    if out is not None:
        dynascope.records.write_text(out, report.claims_json(claims))
    exit_by_verdict(claims, scale)
