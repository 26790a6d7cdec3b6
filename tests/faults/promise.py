"""The promise that fuzzing holds commands and readers to, and the count of what they were given.

A command ends with 0 (done), 1 (a verdict is bad, a task failed) or 2 (bad input) and says something; a reader gives a
value or an error of ours. No traceback, no silence, no half-written file, nothing touched outside the folder given.
"""

import contextlib
import io
import os
import re
import signal
import stat
import sys
import tempfile
import urllib.error
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from dynascope import cli

SECONDS = 60  # for one input, on a machine that is busy
COUNTS: Counter[tuple[str, str]] = Counter()  # (reader or command, what became of the input) -> how often
_LEFTOVER = re.compile(r"\..+[-.][0-9a-f]{32}(\.\w+)?|.+\.part")
_LOCK = ".lock"


class BrokenPromiseError(AssertionError):
    """What a command or reader did instead of keeping the promise."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def world() -> Iterator[Path]:
    """An empty folder to work in, beside a folder `outside` that must stay as it is, without a network."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as root:
        given, outside = Path(root, "given"), Path(root, "outside")
        given.mkdir()
        outside.mkdir()
        (outside / "thesis.nc").write_text("years")
        before = _files(outside)
        silent = mock.patch("urllib.request.urlopen", side_effect=urllib.error.URLError("no network here"))
        with contextlib.chdir(given), silent, mock.patch.dict(os.environ, DYNASCOPE_DATA=str(given / "data")):
            yield given
        if _files(outside) != before:
            raise BrokenPromiseError("something outside the folder was touched")


def run(*arguments: str, kind: str, names: Sequence[str] = (), changes: bool = True) -> Ended:
    """Run a command in the current folder and hold it to the promise.

    kind: under which it is counted. names: one of them stands in the sentence of a refusal. changes: whether the
    command may write at all.
    """
    COUNTS[kind, "inputs"] += 1
    before = _files(Path.cwd())
    ended = _ended(kind, arguments)
    shown = f"dynascope {' '.join(arguments)!r} gave {ended}"
    if not (ended.out + ended.err).strip():
        COUNTS[kind, "silent"] += 1
        raise BrokenPromiseError(f"silence: {shown}")
    if ended.code not in (0, 1, 2) or "Traceback" in ended.err:
        COUNTS[kind, "tracebacks"] += 1
        raise BrokenPromiseError(f"a status or a traceback that is not promised: {shown}")
    if ended.code == 2:
        _require_sentence(ended.err.strip() or ended.out.strip(), names, shown)
    left = [path for path in Path.cwd().rglob("*") if _LEFTOVER.fullmatch(path.name) and path not in before]
    if left:
        raise BrokenPromiseError(f"left behind {left}: {shown}")
    if (ended.code == 2 or not changes) and (changed := _differing(before, _files(Path.cwd()))):
        raise BrokenPromiseError(f"changed {changed}: {shown}")
    return ended


def read(reader: Callable[[], object], *, kind: str, names: Sequence[str]) -> object:
    """Call what reads a file: a value, or a ValueError or OSError that bears one of the names."""
    COUNTS[kind, "inputs"] += 1
    try:
        with _limited(), warnings.catch_warnings(action="ignore"):
            return reader()
    except (ValueError, OSError) as error:
        if isinstance(error, UnicodeError) or not any(name in str(error) for name in names):
            COUNTS[kind, "tracebacks"] += 1
            raise BrokenPromiseError(f"{type(error).__name__} that names none of {names}: {error}") from error
    except BaseException as error:
        COUNTS[kind, "tracebacks"] += 1
        raise BrokenPromiseError(f"a foreign error, {type(error).__name__}: {error}") from error
    return None


def table() -> str:
    """One line for each reader and command, and one for all."""
    kinds = sorted({kind for kind, _ in COUNTS})
    words = ("inputs", "tracebacks", "silent")
    counts = {kind: [COUNTS[kind, word] for word in words] for kind in kinds}
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    width = max(map(len, counts))
    head = f"{'fuzzed':<{width}}  {'  '.join(words)}"
    rows = [f"{kind:<{width}}  {each[0]:6}  {each[1]:10}  {each[2]:6}" for kind, each in counts.items()]
    return "\n".join([head, *rows])


def _ended(kind: str, arguments: Sequence[str]) -> Ended:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["dynascope", *arguments]),
        mock.patch.object(sys, "path", sys.path[:]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(action="always"),
        _limited(),
    ):
        try:
            cli.main()
            code: object = 0
        except SystemExit as done:
            code = done.code or 0
        except BaseException as error:
            COUNTS[kind, "tracebacks"] += 1
            shown = f"dynascope {' '.join(arguments)!r}"
            raise BrokenPromiseError(f"a traceback, {type(error).__name__}: {error}: {shown}") from error
    said = (each.buffer.getvalue().decode() for each in (out, err))
    return Ended(int(str(code)), *said)


def _require_sentence(said: str, names: Sequence[str], shown: str) -> None:
    """Ours is the last line, `error: …`; typer's stands in a box; a command without its arguments shows its help."""
    last = said.splitlines()[-1]
    ours = last.startswith("error: ") and len(last.split()) > 3
    if not ours and "Error" not in said and "Usage" not in said:
        raise BrokenPromiseError(f"no sentence: {shown}")
    given = [word for word in shown.replace("'", " ").split() if word.endswith((".nc", ".npz", ".html", ".png"))]
    if ours and names and not any(name in last for name in (*names, *given)):
        raise BrokenPromiseError(f"a sentence that names none of {names}, nor the file: {shown}")


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong(f"not done after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class TooLong(BaseException):  # no Exception, which something might catch
    """An input that took too long."""


def _files(folder: Path) -> dict[Path, object]:
    """What lies below a folder: content of files, targets of links, kinds of the rest."""
    found: dict[Path, object] = {}
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            found[path] = path.read_bytes()
        elif stat.S_ISLNK(mode):
            found[path] = os.readlink(path)
        elif not stat.S_ISDIR(mode):
            found[path] = stat.S_IFMT(mode)
    return found


def _differing(before: dict[Path, object], after: dict[Path, object]) -> list[str]:
    return [
        str(path) for path in before.keys() | after.keys() if path.name != _LOCK and before.get(path) != after.get(path)
    ]
