"""`dynascope where`: from a number in a paper to the code."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from dynascope.cli.options import AsJson
from dynascope.experiments.equations import find_item, panels
from dynascope.experiments.sources import PAPERS

app = typer.Typer(add_completion=False)


@app.command()
def where(
    paper: Annotated[str, typer.Argument(help=f"One of {', '.join(PAPERS)}.")],
    number: Annotated[list[str], typer.Argument(help="As printed: 6, S2, Figure 3, Proposition 3.2.")],
    as_json: AsJson = False,
) -> None:
    """Say where the code has an equation, figure or theorem: functions, claims, tests, pictures, panels of a figure."""
    item = find_item(paper, " ".join(number))
    parts = panels(item)
    if as_json:
        print(json.dumps(asdict(item) | {"panels": [str(each) for each in parts]}, ensure_ascii=False, indent=2))
        return
    print(f"{item}: {item.says}")
    places = {
        "function": [f"dynascope.{name}" for name in item.functions],
        "claim": item.claims,
        "test": item.tests,
        "picture": [f"docs/results/{name}" for name in item.pictures],
        "nothing to check": [item.unchecked] if item.unchecked else [],
        "panel": [f"{each}: {each.says}" for each in parts],
    }
    for word, found in places.items():
        for each in found:
            print(f"{word:>16}  {each}")
