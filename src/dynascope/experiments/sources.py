"""Where a statement stands: the paper, and the numbers of its equations, figures, tables, sections and theorems."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

PAPERS = ("spring-block", "elastic", "elastic-slides", "deep-linear", "layerwise")
OWN = "dynascope"  # what no paper states: our own pages
_WORDS = {"figure": "Figure", "table": "Table", "section": "Section"}
_EQUATIONS = re.compile(r"\(([A-Z]?[\d.]*\d)\)(?:–\(([A-Z]?[\d.]*\d)\))?")
_NAMED = re.compile(
    r"(Figure|Table|Section|Theorem|Proposition|Lemma|Corollary|Definition|Assumption|Algorithm) ([A-Z\d][\w.()–]*)"
)


@dataclass(frozen=True)
class Source:
    """One or more numbered items of a paper, written in one way everywhere.

    paper: one of spring-block, elastic, elastic-slides, deep-linear, layerwise; dynascope for our own pages
    equation, figure, table, section: numbers as printed, several with commas or as a range: "6", "4–7, S2", "1(c), S5"
    theorem: theorem-like items with their word: "Theorem 2.1", "Proposition 3.2, Lemma 1"
    place: what has no number: "above (7)", "footnote 5"

    >>> str(Source("spring-block", equation="4–6, S2", figure="1(c), S5"))
    'spring-block (4)–(6), (S2), Figure 1(c), Figure S5'
    >>> list(Source("spring-block", equation="4–6").items())
    [('equation', '4'), ('equation', '5'), ('equation', '6')]
    """

    paper: str
    equation: str = ""
    figure: str = ""
    table: str = ""
    section: str = ""
    theorem: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        if self.paper not in (*PAPERS, OWN):
            raise ValueError(f"paper must be one of {', '.join((*PAPERS, OWN))}, got {self.paper!r}")

    def __str__(self) -> str:
        equations = [re.sub(r"[^–]+", lambda number: f"({number[0]})", each) for each in _split(self.equation)]
        named = [f"{word} {each}" for kind, word in _WORDS.items() for each in _split(getattr(self, kind))]
        parts = [*equations, *named, *_split(self.theorem), *([self.place] if self.place else [])]
        return f"{self.paper} {', '.join(parts)}".strip()

    @classmethod
    def read(cls, text: str) -> "Source":
        """Read what `str` writes; from the first part on that is no numbered item, the rest is a place.

        >>> source = Source.read("spring-block (4)–(6), (S2), Figure 1(c), below (6)")
        >>> source.equation, source.figure, source.place
        ('4–6, S2', '1(c)', 'below (6)')
        """
        paper, _, rest = text.partition(" ")
        found: dict[str, list[str]] = {}
        parts = _split(rest)
        for position, part in enumerate(parts):
            if equations := _EQUATIONS.fullmatch(part):
                kind, number = "equation", "–".join(filter(None, equations.groups()))
            elif named := _NAMED.fullmatch(part):
                kind = next((each for each, word in _WORDS.items() if word == named[1]), "theorem")
                number = part if kind == "theorem" else named[2]
            else:
                found["place"] = [", ".join(parts[position:])]
                break
            found.setdefault(kind, []).append(number)
        return cls(paper, **{kind: ", ".join(numbers) for kind, numbers in found.items()})

    def items(self) -> Iterator[tuple[str, str]]:
        """Kind and number of every item that is named, ranges written out.

        >>> list(Source("elastic", theorem="Theorem 2.1", figure="D.7–D.9").items())
        [('figure', 'D.7'), ('figure', 'D.8'), ('figure', 'D.9'), ('theorem', '2.1')]
        """
        for kind in ("equation", *_WORDS):
            for each in _split(getattr(self, kind)):
                yield from ((kind, number) for number in _numbers(each))
        for each in _split(self.theorem):
            word, _, number = each.partition(" ")
            yield from ((word.lower(), single) for single in _numbers(number))


# the papers as experiments write them: layerwise(equation="6.14") is Source("layerwise", equation="6.14")
spring_block, elastic = partial(Source, "spring-block"), partial(Source, "elastic")
deep_linear, layerwise = partial(Source, "deep-linear"), partial(Source, "layerwise")
own = partial(Source, OWN)


def _split(text: str) -> list[str]:
    return [part for part in text.split(", ") if part]


def _numbers(text: str) -> Iterator[str]:
    """Write a range out: A.3–A.5 is A.3, A.4, A.5."""
    first, _, last = text.partition("–")
    if not last:
        yield first
        return
    prefix, begin = _counted(first)
    stop = _counted(last)
    if stop[0] != prefix or stop[1] < begin:
        raise ValueError(f"a range must run between numbers of one kind, got {text!r}")
    yield from (f"{prefix}{number}" for number in range(begin, stop[1] + 1))


def _counted(number: str) -> tuple[str, int]:
    """Split into what stays and what counts: A.21 is A. and 21."""
    found = re.fullmatch(r"(.*?)(\d+)", number)
    if found is None:
        raise ValueError(f"a range must run between numbers, got {number!r}")
    return found[1], int(found[2])
