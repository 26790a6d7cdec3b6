r"""Batches: results of many small tasks in one file that only grows, `results/batches.bin`.

The results of about a second of work are one batch; those that differ in values only are stacked into one array for
each variable; and a batch is added to the end of the file in one go:

    mark, lengths and sums of head and body    52 bytes
    head    JSON: addresses of the finished tasks, failures of the others, seconds of work, when it came in, size of
            the body when it is unpacked
    body    compressed: JSON that says what is stacked how, then the arrays, one after another

- After a kill the file is whole up to the batch that was being written: a tail that is cut short is recognised by the
  lengths, dropped by the next sweep, and computed again. That is all that can be lost.
- Sums (BLAKE2b) tell damage. A damaged body costs its own batch, whose head still says which tasks these were; after a
  damaged head the next batch is found by its mark.
- To count what is finished only heads are read. To gather, stacked arrays are put together as they are.
- One program writes, the one that holds the folder's lock; workers send it whole batches. A result is found by its
  address whatever batch it came in, so that batches may be sized by time.
- Nothing in it is code: JSON that must follow a schema, and numbers.
"""

# Why not netCDF: a file for each result costs 8 kB and milliseconds, more than a small task itself, and one that grows
# would be lost, for HDF5 cannot open what was killed while it was written.

import hashlib
import json
import math
import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np

from dynascope.budget import free_memory
from dynascope.files import sync_folder, write_whole
from dynascope.schema import Whole, content_of, parse_json
from dynascope.sweep.stacks import Column, FailedTask, Gathering, Stack, words

NAME = "batches.bin"
_MARK = b"\x89DSB\r\n\x1a\n"
_START = struct.Struct("<8sIQ16s16s")  # mark, bytes of head and body, sums of body and head
_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 20
UNSAID = 1 << 30  # bytes of a body at most, where its head does not say
_TEXT = "text"  # the type of variables that hold words
Address = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,32}$")]  # becomes the name of a file


@dataclass(frozen=True)
class Head:
    """What a batch says of itself.

    keys: addresses of the results in it. failures: by address. seconds: of work. ended: when, in seconds since 1970.
    size: bytes of the body when it is unpacked; None where nobody wrote it down yet
    """

    keys: list[Address]
    failures: dict[Address, FailedTask]
    seconds: float
    ended: float
    size: Whole | None = None


def _sum(*parts: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.digest()


@dataclass(frozen=True)
class _ColumnLayout:
    """What the body says of a variable; `texts` holds the values of words, one after another."""

    dims: tuple[str, ...]
    attrs: dict[str, str]
    coordinate: bool
    type: Annotated[str, msgspec.Meta(pattern="^([<|][biuf][0-9]+|text)$")]
    shape: tuple[Whole, ...]
    texts: list[str]


@dataclass(frozen=True)
class _StackLayout:
    """What the body says of results that are stacked; their addresses stand in the head, in the same order."""

    code: str
    configurations: list[dict[str, Any]]
    attributes: list[dict[str, str]]
    columns: dict[str, _ColumnLayout]


def _layout(stack: Stack) -> _StackLayout:
    columns = {}
    for name, each in stack.columns.items():
        text = each.values.dtype == object
        kind, texts = (_TEXT, each.values.ravel().tolist()) if text else (each.values.dtype.str, [])
        columns[name] = _ColumnLayout(each.dims, each.attrs, each.coordinate, kind, each.values.shape, texts)
    return _StackLayout(stack.code, stack.configurations, stack.attributes, columns)


def as_batch(found: Gathering, seconds: float) -> tuple[Head, bytes]:
    """Results and failures, and the seconds of work in them, as they are written to the file."""
    stacks = found.stacks()
    arrays = [each.values for stack in stacks for each in stack.columns.values() if each.values.dtype != object]
    layout = json.dumps([_layout(stack) for stack in stacks], default=vars).encode()
    content = [_LENGTH.pack(len(layout)), layout, *(np.ascontiguousarray(each).tobytes() for each in arrays)]
    body = zlib.compress(whole := b"".join(content), level=1)
    keys = [key for stack in stacks for key in stack.keys]
    own = Head(keys, found.failures, seconds, time.time(), len(whole))
    head = json.dumps(own, default=vars).encode()
    start = _START.pack(_MARK, len(head), len(body), _sum(body), _sum_of_head(len(body), _sum(body), head))
    return own, start + head + body


def _sum_of_head(length: int, sum_of_body: bytes, head: bytes) -> bytes:
    return _sum(_LENGTH.pack(length), sum_of_body, head)


@dataclass(frozen=True)
class Batch:
    """A batch in the file whose head is whole."""

    path: Path
    head: Head
    start: int
    end: int
    _body: int
    _sum: bytes

    def __str__(self) -> str:
        return f"{str(self.path)!r}, bytes {self.start} to {self.end},"

    def stacks(self) -> list[Stack]:
        """Read the results; ValueError where they are damaged."""
        with self.path.open("rb") as stream:
            stream.seek(self._body)
            body = stream.read(self.end - self._body)
        if _sum(body) != self._sum:
            raise ValueError(f"{self} is damaged: it does not match the sum written with it")
        size = self.head.size
        if size is not None and size > (free := free_memory()):
            raise MemoryError(f"{self} needs {size / 1e9:.2g} GB of memory, and {free / 1e9:.2g} GB are free")
        try:
            with content_of(str(self.path)):
                return self._opened(_unpacked(body, UNSAID if size is None else size))
        except (zlib.error, struct.error) as error:
            raise ValueError(f"{self} is damaged, or dynascope did not write it: {error}") from error

    def _opened(self, content: bytes) -> list[Stack]:
        (length,) = _LENGTH.unpack_from(content)
        at = _LENGTH.size + length
        layouts = parse_json(content[_LENGTH.size : at].decode(), list[_StackLayout], str(self.path))
        stacks, keys = [], self.head.keys
        for layout in layouts:
            rows, columns = len(layout.configurations), {}
            for name, each in layout.columns.items():
                if each.type == _TEXT:
                    values = words(each.texts, each.shape)
                else:
                    count = math.prod(each.shape)
                    values = np.frombuffer(content, np.dtype(each.type), count, at).reshape(each.shape)
                    at += values.nbytes
                columns[name] = Column(each.dims, each.attrs, each.coordinate, values)
            counts = {len(layout.attributes), *(len(each.values) for each in columns.values())}
            if not counts <= {1, rows} or rows > len(keys):
                raise ValueError(f"{rows} results have {sorted(counts)} values")
            stacks.append(Stack(layout.code, keys[:rows], layout.configurations, layout.attributes, columns))
            keys = keys[rows:]
        return stacks


def _unpacked(body: bytes, most: int) -> bytes:
    """Unpack a body, never into more than a number of bytes: a few kB could become gigabytes."""
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(body, most + 1)
    if len(content) > most or not unpacking.eof:
        raise zlib.error(f"it does not end after {most} bytes, as it says")
    return content


@dataclass(frozen=True)
class Gap:
    """A part of the file that is no batch; `cut`: its last one, which a kill has cut short."""

    path: Path
    start: int
    end: int
    cut: bool

    @property
    def name(self) -> str:
        """By which it is told from addresses."""
        return f"bytes {self.start} to {self.end}"

    def __str__(self) -> str:
        return f"{str(self.path)!r}, bytes {self.start} to {self.end},"


def scan(path: Path) -> Iterator[Batch | Gap]:
    """Find the batches in a file, and what is none, from its beginning to its end."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        size, at = os.fstat(stream.fileno()).st_size, 0
        while at < size:
            found = _at(path, stream, at, size)
            if isinstance(found, Gap):
                following = at
                while isinstance(_at(path, stream, following, size), Gap) and following < size:
                    following = _next_mark(stream, following + 1, size)
                found = Gap(path, at, following, cut=found.cut and following == size)
            yield found
            at = found.end


def _at(path: Path, stream: IO[bytes], at: int, size: int) -> Batch | Gap:
    """The batch that begins at a place, or a gap to the end."""
    stream.seek(at)
    start = stream.read(_START.size)
    if len(start) < _START.size:
        return Gap(path, at, size, cut=True)
    mark, head_length, body_length, sum_of_body, sum_of_head = _START.unpack(start)
    body = at + _START.size + head_length
    if mark != _MARK or body > size:
        return Gap(path, at, size, cut=mark == _MARK)
    text = stream.read(head_length)
    if _sum_of_head(body_length, sum_of_body, text) != sum_of_head:
        return Gap(path, at, size, cut=False)
    if body + body_length > size:
        return Gap(path, at, size, cut=True)
    try:
        head = parse_json(text.decode(), Head, str(path))
    except ValueError:
        return Gap(path, at, size, cut=False)
    return Batch(path, head, at, body + body_length, body, sum_of_body)


def _next_mark(stream: IO[bytes], at: int, size: int) -> int:
    """Where the next batch may begin; the end of the file if nowhere."""
    while at < size:
        stream.seek(at)
        part = stream.read(_CHUNK)
        if (found := part.find(_MARK)) >= 0:
            return at + found
        at += max(len(part) - len(_MARK) + 1, 1) if len(part) == _CHUNK else size
    return size


def append(path: Path, batch: bytes) -> None:
    """Add a batch to the end of a file, or leave the file as it was where there is no room."""
    path.parent.mkdir(exist_ok=True)
    with _opened(path, os.O_CREAT | os.O_APPEND) as file:
        before = os.fstat(file).st_size
        try:
            left = memoryview(batch)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        except OSError as error:  # a full disk does not say where
            os.ftruncate(file, before)
            raise OSError(error.errno, f"{error.strerror or error}, while writing", str(path)) from error
    if not before:
        sync_folder(path.parent)


def last_batch(path: Path) -> Batch | None:
    """Drop what a kill has cut short at the end of a file; say which batch is the last."""
    last = None
    for part in scan(path):
        if isinstance(part, Batch):
            last = part
        elif part.cut:
            with _opened(path) as file:
                os.ftruncate(file, part.start)
                os.fsync(file)
    return last


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    """Open a file to change it; never through a link."""
    if path.is_symlink():
        raise ValueError(f"{str(path)!r} must not be reached by a link, which sweeps never make: remove it")
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o644)  # no pipe either
    try:
        yield file
    finally:
        os.close(file)


def without(path: Path, spoiled: Sequence[Batch | Gap], place: Path) -> None:
    """Write a file anew without some of its parts, which are kept in a folder."""
    place.mkdir(exist_ok=True)
    starts = {part.start for part in spoiled}
    kept = [part for part in scan(path) if part.start not in starts]
    with path.open("rb") as stream:

        def copy(parts: Sequence[Batch | Gap], target: Path) -> None:
            with target.open("wb") as writing:
                for part in parts:
                    stream.seek(part.start)
                    writing.write(stream.read(part.end - part.start))

        for part in spoiled:
            stream.seek(part.start)
            name = f"{_sum(stream.read(part.end - part.start)).hex()}.bin"
            write_whole(place / name, partial(copy, [part]))
        write_whole(path, partial(copy, kept))
