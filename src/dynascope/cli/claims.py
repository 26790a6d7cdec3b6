"""Claims as a table, and the exit status that they give."""

from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table

from dynascope.cli.terminal import escape
from dynascope.experiments.claims import Claim, summary

_COLOURS = {"reproduced": "green", "erratum": "yellow", "not reproduced": "bold red", "not run": "dim"}


def print_claims(claims: Sequence[Claim]) -> None:
    """Print each claim's verdict, source and numbers; of one that was not run, the reason where one is known.

    >>> print_claims([Claim("a", "paper (1)", "x is 1").equals(1.0, 1.0, 0.1)])
    verdict    claim source    measured against expected
    reproduced a     paper (1) 1 = 1 ± 0.1
    """
    table = Table(box=None, pad_edge=False)
    for title in ("verdict", "claim", "source", "measured against expected"):
        table.add_column(title, overflow="fold")
    for claim in claims:
        numbers = claim.note if claim.verdict == "not run" and claim.note else summary(claim)
        table.add_row(f"[{_COLOURS[claim.verdict]}]{claim.verdict}[/]", claim.id, claim.source, escape(numbers))
    Console().print(table)


def exit_by_verdict(claims: Sequence[Claim]) -> None:
    """End with status 1 if a claim is not reproduced."""
    if any(claim.verdict == "not reproduced" for claim in claims):
        raise typer.Exit(1)
