"""Claims as a table, and the exit status that they give."""

from collections.abc import Sequence

import typer
from rich.table import Table
from rich.text import Text

from dynascope.cli.terminal import plain_console
from dynascope.experiments.claims import Finding, summary

_COLOURS = {
    "reproduced": "green",
    "erratum": "yellow",
    "not reproduced": "bold red",
    "not determined": "magenta",
    "not run": "dim",
}


def print_claims(findings: Sequence[Finding]) -> None:
    """Print each claim's verdict, source and numbers; of one that was not run, the reason.

    >>> print_claims([Finding("a", "elastic (1)", "x is 1", note="needs y", verdict="not run")])
    verdict  claim  source       measured against expected
    not run  a      elastic (1)  needs y
    """
    table = Table(box=None, pad_edge=False)
    for title in ("verdict", "claim", "source", "measured against expected"):
        table.add_column(title, overflow="fold")
    for each in findings:
        numbers = each.note if each.verdict == "not run" and each.note else summary(each)
        table.add_row(Text(each.verdict, style=_COLOURS[each.verdict]), each.id, each.source, numbers)
    plain_console().print(table)


def exit_by_verdict(claims: Sequence[Finding], scale: str) -> None:
    """End with status 1 if a claim that this scale can settle does not hold."""
    if any(claim.fails(scale) for claim in claims):
        raise typer.Exit(1)
