"""Files are data: each kind has one schema, and what does not follow it is refused in one sentence."""

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

T = TypeVar("T")
_SUM = re.compile(r'(?s)(.*),\n  "sum": "([0-9a-f]{64})"\n}\s*')
_WAS_SUM = re.compile(r'(?s).*"...": "[^\n]{64}"\n}\s*')  # damage may lie in the sum, or in its name
Whole = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]  # a number of things, which floats hold too
_DIGITS = 21  # of 2**64, with a sign


def plain_json(text: str) -> Any:
    """Read JSON text whose whole numbers fit into 64 bits: no file holds larger ones, and arithmetic fails on them.

    >>> plain_json("1" * 30)
    Traceback (most recent call last):
    ValueError: a whole number beyond 2**64
    """

    def bounded(digits: str) -> int:
        if len(digits) > _DIGITS or abs(int(digits)) >= 2**64:
            raise ValueError("a whole number beyond 2**64")
        return int(digits)

    return json.loads(text, parse_int=bounded)


def parse_json(text: str, kind: type[T], place: str) -> T:
    """Read JSON text that must follow a schema.

    kind: a dataclass, or a type such as dict[str, list[int]]
    place: where the text lies, for the message

    >>> parse_json('{"a": [1, 2]}', dict[str, list[int]], "numbers.json")
    {'a': [1, 2]}
    >>> parse_json('{"a": [1, "x"]}', dict[str, list[int]], "numbers.json")
    Traceback (most recent call last):
    ValueError: 'numbers.json' is damaged, or dynascope did not write it: Expected `int`, got `str` - at `$[...][1]`
    """
    try:
        content = plain_json(text)
        if "\\ud" in text.lower():
            json.dumps(content, ensure_ascii=False).encode()  # halves of a character cannot be written again
    except (ValueError, RecursionError) as error:  # numbers may be too long, too
        cause = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ValueError(f"{place!r} is damaged, or dynascope did not write it: {cause}") from error
    return as_kind(content, kind, place)


def as_kind(content: object, kind: type[T], place: str) -> T:
    """Check plain values (dicts, lists, numbers, text) against a schema.

    >>> as_kind([1, 2], tuple[int, ...], "numbers.json")
    (1, 2)
    """
    try:
        return msgspec.convert(content, kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place!r} is damaged, or dynascope did not write it: {error}") from error


def with_sum(text: str) -> str:
    """Add the SHA-256 sum of a JSON object's text as its last entry, by which `read_json` sees damage.

    >>> list(json.loads(with_sum('{"a": 1}')))
    ['a', 'sum']
    """
    body = text.rstrip().removesuffix("}").rstrip()
    return f'{body},\n  "sum": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'


def read_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file that must follow a schema, and its sum if it has one; OSError where there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.json").write_text("[1, 2]")
    ...     read_json(Path(folder) / "a.json", list[int])
    [1, 2]
    """
    _require_file(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is damaged, or dynascope did not write it: {error}") from error
    found = _SUM.fullmatch(text)
    if hashlib.sha256(found[1].encode()).hexdigest() != found[2] if found else _WAS_SUM.fullmatch(text):
        raise ValueError(f"{str(path)!r} is damaged, or was changed by hand: it does not match the sum at its end")
    return parse_json(text, kind, str(path))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz file; pickles in it are refused. OSError where there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "a.npz", x=np.arange(3))
    ...     read_arrays(Path(folder) / "a.npz")["x"].tolist()
    [0, 1, 2]
    """
    _require_file(path)
    try:
        with zipfile.ZipFile(path) as held:  # np.load takes other files for what they look like
            held.infolist()
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception as error:  # bytes can mislead these libraries in more ways than they name
        raise ValueError(f"{str(path)!r} is damaged, or no .npz file of arrays: {error}") from error


def _require_file(path: Path) -> None:
    """A pipe would never end, and a folder has no content."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"{str(path)!r} must be a file, it is something else")


@contextmanager
def content_of(place: str) -> Iterator[None]:
    """Errors in what is done with the content of a file become one sentence that names the file.

    A file may follow its schema and still hold numbers that cannot be drawn, or names that no rule knows.

    >>> with content_of("run.nc"):
    ...     {}["load"]
    Traceback (most recent call last):
    ValueError: 'run.nc' holds something that cannot be used: KeyError 'load'
    """
    try:
        yield
    except ValueError as error:
        if repr(place) in str(error):
            raise
        raise ValueError(f"{place!r} holds something that cannot be used: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError) as error:
        raise ValueError(f"{place!r} holds something that cannot be used: {type(error).__name__} {error}") from error
