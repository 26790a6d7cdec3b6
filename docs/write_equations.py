"""Write docs/equations.md, the index from a number in a paper to the code: `make equations`, after any change to it.

Functions are found by the `Source:` sentence of their docstrings and tests by the names they use; both are read, not
imported. Only claims are imported, with their experiments.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from dynascope.experiments import registry
from dynascope.experiments.equations import INDEX, Item, printed, write_index
from dynascope.experiments.sources import PAPERS, Source

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dynascope"
PAGE = ROOT / "docs" / "equations.md"
PARTS = ("models", "measure", "networks", "data", "statistics", "imitation")
SENTENCE = re.compile(r"Source: (.*?)\.(?=\n\s*\n|\s*$)", re.DOTALL)
SMOKE = "tests/experiments/test_smoke.py::test_experiment_holds_at_its_smallest_scale"
MOST_TESTS, MOST_CLAIMS = 2, 6  # shown for the functions and for the claims of an item; claims shown of an experiment

HEAD = """# From equation to code

Every numbered item of the five documents, with the functions that implement it, the claims that check it, tests,
pictures, or why there is nothing to check. Search this page for the item as it is written in the first column,
`spring-block (6)` or `layerwise Figure 5.1(b)`, or ask for it:

```console
dynascope where spring-block 6
dynascope where layerwise Figure 5.1\\(b\\)
```

The page is written by `make equations`; a test compares it with the code.

- **Function**: its docstring names the item after `Source:`. What is derived from the item, or a class that names it
  in a range, stands here only where no function names it itself.
- **Claim**: its source, or that of its experiment if it has none of its own, names the item. A figure has
  the claims of its panels too; one that no claim names has those of its experiment that name no item themselves.
- **Test**: up to two that use one of the functions by name, in the folder of tests that mirrors the function's, and up
  to two that name one of the claims; those that name least else come first. Every claim is also judged in a smoke run,
  by `make verify-smoke`; where that is all, it stands here.
- **Picture**: drawn by the experiments of the claims, at the scale that [the results](results/README.md) name.
"""


@dataclass(frozen=True)
class Citation:
    """A docstring that names a source."""

    name: str  # dotted, below dynascope
    source: Source
    rank: int  # 0 for a function that implements, 1 for a class, 2 for what is derived


def sources_in(docstring: str) -> Iterator[tuple[Source, bool]]:
    """Read the papers named after `Source:`, and whether it is said to be derived from them."""
    for sentence in SENTENCE.findall(docstring):
        for part in " ".join(sentence.split()).split("; "):
            text = part.removeprefix("derived from ")
            if text.split()[0] in PAPERS:
                yield Source.read(text), text != part


def citations() -> Iterator[Citation]:
    """Read the docstrings of all functions, methods and classes of the science."""
    for path in sorted(path for part in PARTS for path in (PACKAGE / part).rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for name, node in _definitions(ast.parse(path.read_text(encoding="utf-8"))):
            for source, derived in sources_in(ast.get_docstring(node) or ""):
                yield Citation(f"{module}.{name}", source, 2 if derived else int(isinstance(node, ast.ClassDef)))


def _definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node
            yield from _definitions(node, f"{prefix}{node.name}.")


@cache
def _test_words() -> dict[str, set[str]]:
    """Names and strings in every test, and in what it uses of its own file, by the test's name."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = {name: _words(node) for node in tree.body for name in _bound(node)}
        for name in parts:
            if name.startswith("test_"):
                found[f"{path.relative_to(ROOT).as_posix()}::{name}"] = _reached(name, parts)
    return found


def _bound(node: ast.stmt) -> list[str]:
    """Names that a statement at the top of a file gives a value."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [each.id for each in targets if isinstance(each, ast.Name)]


def _words(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.Constant(value=str(word)):
                found.add(word)
    return found


def _reached(name: str, parts: Mapping[str, set[str]]) -> set[str]:
    """Words of a definition, and of those that it names, and so on."""
    seen, todo = set[str](), [name]
    while todo:
        here = todo.pop()
        if here not in seen:
            seen.add(here)
            todo += parts[here] & parts.keys()
    return set().union(*(parts[each] for each in seen))


def _best(tests: Iterable[str], rivals: set[str]) -> list[str]:
    """The tests that name the fewest of the rivals."""
    return sorted(tests, key=lambda test: (len(_test_words()[test] & rivals), test))[:MOST_TESTS]


def _tests_of(functions: Iterable[str], claims: Iterable[str], rivals: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Find what tests these functions and claims; the rule stands on the page."""
    used = set()
    for function in functions:
        module, _, word = function.rpartition(".")
        folder = next(f"tests/{each.as_posix()}/" for each in _parents(module) if (ROOT / "tests" / each).is_dir())
        used |= {test for test, words in _test_words().items() if test.startswith(folder) and word in words}
    ids = {claim.partition(":")[2] for claim in claims}
    judging = {test for test, words in _test_words().items() if words & ids}
    chosen = [*_best(used, rivals["functions"]), *_best(judging - used, rivals["claims"])]
    return tuple(chosen) if chosen or not ids else (SMOKE,)


def _parents(module: str) -> Iterable[Path]:
    return Path(*module.split(".")).parents


def _picture(experiment: str) -> str:
    stem = experiment.replace("/", "-")
    return next(f"{stem}{end}" for end in (".svg", ".png") if (PAGE.parent / "results" / f"{stem}{end}").exists())


Key = tuple[str, str, str]  # paper, kind, number


def _implemented() -> dict[Key, tuple[str, ...]]:
    """Functions of each item, those of the lowest rank only."""
    ranked = defaultdict(set)
    for each in citations():
        for kind, number in each.source.items():
            ranked[each.source.paper, kind, number].add((each.rank, each.name))
    return {key: tuple(sorted(name for rank, name in found if rank == min(found)[0])) for key, found in ranked.items()}


def _claimed() -> tuple[dict[Key, list[str]], dict[Key, list[str]]]:
    """Claims of each item; and, for figures and tables, claims of their experiments that name no item themselves."""
    named, about = defaultdict(list), defaultdict(list)
    for name in registry.names():
        experiment = registry.find(name)
        for claim in experiment.claims:
            keys = _numbered(claim.source or experiment.source)
            for key in keys:
                named[key].append(f"{name}:{claim.id}")
            for key in () if keys else _numbered(experiment.source):
                if key[1] in ("figure", "table"):
                    about[key].append(f"{name}:{claim.id}")
    return named, about


def _numbered(source: Source) -> list[Key]:
    return [(source.paper, kind, number) for kind, number in source.items() if kind != "section"]


def find_all() -> list[Item]:
    """List all items with what the code has of them."""
    functions = _implemented()
    named, about = _claimed()
    rivals = {
        "functions": {name.rpartition(".")[2] for names in functions.values() for name in names},
        "claims": {claim.partition(":")[2] for claims in named.values() for claim in claims},
    }
    found = []
    for item in (each for paper in PAPERS for each in printed(paper)):
        key = item.paper, item.kind, item.number
        panels = [other for other in named if other[:2] == key[:2] and other[2].startswith(f"{item.number}(")]
        of_panels = [claim for panel in panels for claim in named[panel]]
        claims = tuple(dict.fromkeys([*named.get(key, []), *of_panels] or about.get(key, [])))
        experiments = dict.fromkeys(claim.partition(":")[0] for claim in claims)
        mine = functions.get(key, ())
        tests, pictures = _tests_of(mine, claims, rivals), tuple(map(_picture, experiments))
        found.append(replace(item, functions=mine, claims=claims, tests=tests, pictures=pictures))
    return found


def page(items: list[Item]) -> str:
    """Write the index as Markdown: a section for each paper, a table for each kind of item."""
    parts = [HEAD]
    anchors = {str(item): item.anchor for item in items}
    for paper in PAPERS:
        parts.append(f"## {paper}\n")
        mine = [item for item in items if item.paper == paper]
        for kind in dict.fromkeys(item.kind for item in mine):
            parts.append(f"### {paper}: {kind}s\n" if kind != "corollary" else f"### {paper}: corollaries\n")
            parts.append("| item | says | function | claim | test | picture | or why nothing |")
            parts.append("| --- | --- | --- | --- | --- | --- | --- |")
            parts += [_row(item, anchors) for item in mine if item.kind == kind]
            parts.append("")
    return "\n".join(parts)


def _row(item: Item, anchors: Mapping[str, str]) -> str:
    cells = (
        f'<a id="{item.anchor}"></a>{item}',
        item.says.replace("|", "\\|"),
        ", ".join(map(_function, item.functions)),
        _claims(item.claims),
        ", ".join(f"[`{name}`](../{file})" for file, name in (test.split("::") for test in item.tests)),
        ", ".join(f"[{picture.partition('-')[2][:-4]}](results/{picture})" for picture in item.pictures),
        reason(item, anchors),
    )
    return f"| {' | '.join(cells)} |"


def _function(name: str) -> str:
    """A link to the file, with the name in it as an anchor; the site makes it one to the reference."""
    parts = name.split(".")
    depth = next(
        count for count in range(len(parts), 0, -1) if (PACKAGE / Path(*parts[:count])).with_suffix(".py").exists()
    )
    inside = ".".join(parts[depth:])
    anchor = "" if inside.split(".")[-1].startswith("_") else f"#{inside}"
    return f"[`{inside}`](../src/dynascope/{'/'.join(parts[:depth])}.py{anchor})"


def _claims(claims: Iterable[str]) -> str:
    """Claims by experiment, each a link to its file."""
    grouped = defaultdict(list)
    for experiment, _, claim in (each.partition(":") for each in claims):
        grouped[experiment].append(f"`{claim}`")
    more = {
        name: f" and {len(ids) - MOST_CLAIMS} more" if len(ids) > MOST_CLAIMS else "" for name, ids in grouped.items()
    }
    return "; ".join(
        f"[`{name}`](../src/dynascope/experiments/{name}.py): {', '.join(ids[:MOST_CLAIMS])}{more[name]}"
        for name, ids in grouped.items()
    )


def reason(item: Item, anchors: Mapping[str, str]) -> str:
    """Why there is nothing to check; an item that is named there is a link."""

    def link(found: re.Match[str]) -> str:
        named = found[0] if found[0].startswith(PAPERS) else f"{item.paper} {found[0]}"
        return f"[{found[0]}](#{anchors[named]})" if named in anchors else found[0]

    papers = "|".join(PAPERS)
    return re.sub(rf"(?:(?:{papers}) )?(?:\([A-Z\d][\d.]*\)|(?:Theorem|Lemma|Figure) [\w.]*\d)", link, item.unchecked)


def main() -> None:
    """Write the index for programs and the page for people."""
    items = find_all()
    INDEX.write_text(write_index(items), encoding="utf-8")
    PAGE.write_text(page(items), encoding="utf-8")


if __name__ == "__main__":
    main()
