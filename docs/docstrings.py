"""How the house writes docstrings, as Markdown: named values become lists, doctests become blocks of code.

An extension of Griffe, which reads the sources for the API reference.
"""

import re
from collections.abc import Iterable
from typing import Any

import griffe

NAMED = re.compile(r"(\w+(?:, …|, \w+)*): +(?=\S)")


class HouseStyle(griffe.Extension):
    """Turn every docstring into Markdown as soon as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring:
            up = "../" * obj.module.path.count(".")  # from the page of its module to the top of the site
            text = re.sub(r"\bdocs/([\w-]+\.md)", rf"[\1]({up}\1)", obj.docstring.value)
            obj.docstring.value = to_markdown(text, _parameters(obj))


def to_markdown(text: str, parameters: Iterable[str] = ()) -> str:
    """Rewrite a docstring paragraph by paragraph; a name of a parameter begins an item, wherever it stands."""
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    anywhere = re.compile(rf"(?<=[.;:)?…]) +(?=(?:{names})(?:, (?:{names}))*: )")
    return "\n\n".join(_paragraph(each, anywhere) for each in re.split(r"\n\s*\n", text.strip("\n")))


def _parameters(obj: griffe.Object) -> list[str]:
    function = obj.members.get("__init__") if obj.is_class else obj
    found = [each.name for each in function.parameters] if isinstance(function, griffe.Function) else []
    return found + ([name for name in obj.members if not name.startswith("_")] if obj.is_class else [])


def _paragraph(text: str, anywhere: re.Pattern[str]) -> str:
    if text.lstrip().startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if all(line.startswith("    ") for line in text.splitlines()):
        return text  # an indented block: an equation or a program
    lines = re.sub(r"(?<=[.)]) +(?=Source: )", "\n", anywhere.sub("\n", text)).splitlines()
    named = [_is_named(line, before) for line, before in zip(lines, ["", *lines], strict=False)]
    return "\n".join(_line(line, is_named=each, is_list=any(named)) for line, each in zip(lines, named, strict=True))


def _is_named(line: str, before: str) -> bool:
    """Whether a line begins with a name and a colon, and the line before does not run on into it."""
    found = NAMED.match(line)
    return bool(found and found[1].islower()) and not re.search(r"(\b(a|an|and|of|or|the|to|with)|,)$", before)


def _line(line: str, *, is_named: bool, is_list: bool) -> str:
    """A line of a list of named values begins an item or goes on with one; another begins a paragraph."""
    if line.startswith("Source: "):
        return f"\n*Source:* {line.removeprefix('Source: ')}"
    if is_named:
        return NAMED.sub(r"- `\1`: ", line, count=1)
    begins = line.startswith(("Returns ", "Fails ", "Holds ", "Needs "))
    return f"\n{line}" if is_list and begins else line
