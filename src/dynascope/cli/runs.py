"""`dynascope runs`: the watched runs below a folder."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dynascope.cli.options import AsJson
from dynascope.cli.terminal import plain_console
from dynascope.monitor import journal
from dynascope.monitor.reading import assemble
from dynascope.monitor.tables import final_values, short
from dynascope.records import Json, to_json
from dynascope.schema import content_of

app = typer.Typer(add_completion=False)
_NUMBERS = {"loss": "probe_loss", "accuracy": "probe_accuracy", "load": "shape"}


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, also in its folders.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the watched runs below a folder: whether they go on, how far they are, what they came to."""
    if not folder.is_dir():
        raise ValueError(f"folder must be one that is there, got {str(folder)!r}")
    places = sorted(path.parent for path in folder.rglob(journal.NAME))
    found = []
    for place in places:
        with content_of(str(place)):
            found.append(_describe(place))
    if as_json:
        print(to_json(found))
        return
    if not found:
        print(f"no watched run in {folder} or its folders")
        return
    table = Table(*found[0], box=None, pad_edge=False)
    for each in found:
        table.add_row(*(short(value) if isinstance(value, float) else str(value) for value in each.values()))
    plain_console().print(table)


def _describe(place: Path) -> dict[str, Json]:
    entries = journal.read(place)
    head = next((entry for entry in entries if entry["kind"] == "start"), None)
    steps = [entry["step"] for entry in entries if entry["kind"] == "measure"]
    last = final_values(assemble(entries, repr(str(place / journal.NAME)))) if steps else {}
    return {
        "run": str(place),
        "status": journal.status(place),
        "model": head["settings"].get("model", "") if head else "",
        "step": steps[-1] if steps else "",
        **{title: last.get(name, "") for title, name in _NUMBERS.items()},
    }
