"""Files are data: each kind has one schema, and what does not follow it is refused in one sentence."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

T = TypeVar("T")
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


def read_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file that must follow a schema; OSError where it cannot be read at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.json").write_text("[1, 2]")
    ...     read_json(Path(folder) / "a.json", list[int])
    [1, 2]
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is damaged, or dynascope did not write it: {error}") from error
    return parse_json(text, kind, str(path))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz file; pickles in it are refused. OSError where it cannot be read at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "a.npz", x=np.arange(3))
    ...     read_arrays(Path(folder) / "a.npz")["x"].tolist()
    [0, 1, 2]
    """
    try:
        with zipfile.ZipFile(path) as held:  # np.load takes other files for what they look like
            held.infolist()
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{str(path)!r} is damaged, or no .npz file of arrays: {error}") from error
