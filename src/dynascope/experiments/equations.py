"""Every numbered item of the papers, and where the code has it: functions, claims, tests, pictures.

`items/PAPER.tsv` lists by hand what is printed, and why an item has nothing to check; `items/index.tsv` is generated
from docstrings, claims and tests by `make equations`, which also writes the page docs/equations.md.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dynascope.experiments.sources import PAPERS, Source

FOLDER = Path(__file__).parent / "items"
INDEX = FOLDER / "index.tsv"
_FOUND = ("functions", "claims", "tests", "pictures")


@dataclass(frozen=True)
class Item:
    """One numbered item: what it says, and what the code has of it.

    kind, number: as in `Source.items`: equation, figure, table, theorem, …
    unchecked: why there is nothing to check, or that nothing checks it yet
    functions: dotted names below `dynascope`; claims: experiment and id, as "spring_block/equilibrium:eq6-all-move"
    tests: "tests/FILE.py::NAME"; pictures: files in docs/results

    >>> str(Item("elastic", "figure", "D.2(b)", "")), Item("elastic", "figure", "D.2(b)", "").anchor
    ('elastic Figure D.2(b)', 'elastic-figure-d.2b')
    """

    paper: str
    kind: str
    number: str
    says: str
    unchecked: str = ""
    functions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = self.kind in ("equation", "figure", "table")
        key = {self.kind: self.number} if named else {"theorem": f"{self.kind.capitalize()} {self.number}"}
        return str(Source(self.paper, **key))

    @property
    def anchor(self) -> str:
        """Where docs/equations.md has it."""
        kind = "" if self.kind == "equation" else f"{self.kind}-"
        return f"{self.paper}-{kind}{re.sub(r'[()]', '', self.number)}".lower()


def printed(paper: str) -> tuple[Item, ...]:
    """List the items of a paper in order, as printed: without what the code has of them.

    >>> printed("spring-block")[5].says
    'where a noiseless chain rests if all blocks move: bent by μ→/k, hence concave'
    """
    if paper not in PAPERS:
        raise ValueError(f"paper must be one of {', '.join(PAPERS)}, got {paper!r}")
    rows = _rows(FOLDER / f"{paper}.tsv")
    return tuple(Item(paper, row["kind"], row["number"], row["says"], row["unchecked"]) for row in rows)


@cache
def items(paper: str) -> tuple[Item, ...]:
    """List the items of a paper in order, each with what the code has of it.

    >>> len(items("spring-block"))
    60
    """
    found = {(row["paper"], row["kind"], row["number"]): row for row in _rows(INDEX)}
    listed = printed(paper)
    rows = (found[each.paper, each.kind, each.number] for each in listed)
    return tuple(
        replace(each, **{name: tuple(row[name].split()) for name in _FOUND})  # type: ignore[arg-type]
        for each, row in zip(listed, rows, strict=True)
    )


def find_item(paper: str, number: str) -> Item:
    """Look an item up by its number: an equation, or what a word before the number says.

    >>> find_item("spring-block", "6").functions[0]
    'models.spring_block.chain.SpringBlock.equilibrium'
    >>> find_item("spring-block", "Figure 5(b)").claims[0]
    'spring_block/left_friction:fig-5b-linear'
    """
    word, _, rest = number.strip().rpartition(" ")
    plain = re.sub(r"^\((.*)\)$", r"\1", rest)
    fitting = [each for each in items(paper) if each.number == plain and (not word or each.kind == word.lower())]
    best = [each for each in fitting if each.kind == "equation"] or fitting
    if len(best) == 1:
        return best[0]
    if best:
        raise ValueError(f"number must say which of {', '.join(map(str, best))}, got {number!r}")
    kinds = sorted({each.kind for each in items(paper)})
    raise ValueError(f"number must be that of an item of {paper} ({', '.join(kinds)}), got {number!r}")


def panels(item: Item) -> tuple[Item, ...]:
    """List the panels of a figure that are items of their own, with claims of their own.

    >>> [each.number for each in panels(find_item("layerwise", "Figure 7.2"))]
    ['7.2(a)', '7.2(b)']
    """
    return tuple(
        each for each in items(item.paper) if each.kind == item.kind and each.number.startswith(f"{item.number}(")
    )


def write_index(found: Iterable[Item]) -> str:
    r"""Write what the code has of each item as the text of `items/index.tsv`.

    >>> print(write_index([Item("elastic", "equation", "1", "", functions=("a", "b"))]).splitlines()[1].split("\t")[3])
    a b
    """
    head = ("paper", "kind", "number", *_FOUND)
    rows = (asdict(each) for each in found)
    lines = ("\t".join(_cell(row[name]) for name in head) for row in rows)
    return "\n".join(["\t".join(head), *lines, ""])


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(value)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
