"""Files that are not what they should be: damaged, well-formed but wrong, or something else under their name."""

import copy
import functools
import io
import json
import math
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import reject
from hypothesis import strategies as st

from dynascope import load, save

OLD = Path(__file__).parent.parent / "files_of_0_1_0"  # small files of every kind, written by real runs
HOSTILE_TEXT = ("", " ", "[/bold]", "[red]", "\x1b[2J", "\ud800", "\x00", "../../x", "<b>", "é", "nan", "x" * 2000)
HOSTILE_NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308, -1e308, 5e-324, math.nan, math.inf)
HUGE = 10**15  # elements that no machine holds


def _nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


hostile = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(HOSTILE_NUMBERS),
    st.sampled_from(HOSTILE_TEXT),
    st.text(max_size=4),
    st.sampled_from([[], {}, [None], {"": None}, {"a": 1}, [[1.0], [2.0, 3.0]], [[]], ["x"], [True], _nested(150)]),
    st.lists(st.sampled_from(HOSTILE_NUMBERS), max_size=4),
)


@dataclass(frozen=True)
class Thing:
    """What lies where a file is expected."""

    kind: str  # bytes, folder, link, dangling, loop, pipe or nothing
    content: bytes = field(default=b"", repr=False)

    def put(self, path: Path) -> None:
        """Replace what lies at a path."""
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.kind == "bytes":
            path.write_bytes(self.content)
        elif self.kind == "folder":
            path.mkdir()
            (path / "inside").write_bytes(self.content)
        elif self.kind == "pipe":
            os.mkfifo(path)
        elif self.kind != "nothing":
            targets = {"link": "../outside/thesis.nc", "dangling": "nowhere", "loop": path.name}
            path.symlink_to(targets[self.kind] if self.kind != "link" else Path.cwd() / targets[self.kind])


def npz(**arrays: np.ndarray) -> bytes:
    """The bytes of an .npz file."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


_FOREIGN = (
    b"",
    b"\n",
    b"\x00" * 100,
    b"\xff\xfe\xfd",
    b"\x89HDF\r\n\x1a\n",
    b"\x89PNG\r\n\x1a\n" + b"\x00" * 30,
    b"\x1f\x8b\x08\x00",
    b"PK\x03\x04",
    b"PK\x05\x06" + b"\x00" * 18,
    b"[" * 100_000,
    b"{}",
    b"[]",
    b"3",
    b"NaN",
    b'"\\ud800"',
    b'{"format": 1' + b"0" * 5000 + b"}",
    (OLD / "records" / "spring_block.nc").read_bytes(),
    (OLD / "sweeps" / "function" / "sweep.json").read_bytes(),
    (OLD / "watched" / "journal.jsonl").read_bytes(),
    npz(a=np.arange(3)),
)
foreign = st.one_of(
    st.sampled_from(_FOREIGN).map(lambda content: Thing("bytes", content)),
    st.binary(max_size=40).map(lambda content: Thing("bytes", content)),
    st.sampled_from(["folder", "link", "dangling", "loop", "pipe", "nothing"]).map(Thing),
)


@st.composite
def damaged(draw: st.DrawFn, read: Callable[[], bytes]) -> Thing:
    """The bytes of a file with flipped bits, a piece cut off, taken out, blanked, doubled or put in."""
    whole = read()
    content = bytearray(whole)
    place = st.integers(0, max(len(whole) - 1, 0))
    how = draw(st.sampled_from(["flip", "flip", "cut", "drop", "blank", "double", "insert"]))
    at, size = draw(place), draw(st.integers(1, 64))
    if how == "flip":
        for each in [at, *draw(st.lists(place, max_size=3))]:
            content[each] ^= 1 << draw(st.integers(0, 7))
    elif how == "cut":
        del content[at:]
    elif how == "drop":
        del content[at : at + size]
    elif how == "blank":
        content[at : at + size] = b"\x00" * len(content[at : at + size])
    elif how == "double":
        content[at:at] = content[at : at + size]
    else:
        content[at:at] = draw(st.binary(min_size=1, max_size=16))
    return Thing("bytes", bytes(content))


def _places(content: Any) -> list[tuple[Any, Any]]:
    """(holder, key) of everything inside plain values."""
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    return [found for key in keys for found in [(content, key), *_places(content[key])]]


@st.composite
def spoiled(draw: st.DrawFn, document: Any) -> Any:
    """Plain values with one to three changes anywhere: replaced, removed, doubled, renamed."""
    content = [copy.deepcopy(document)]
    for _ in range(draw(st.integers(1, 3))):
        places = _places(content)
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        how = draw(st.sampled_from(["replace", "replace", "remove", "rename", "double"]))
        if how == "replace" or holder is content:
            holder[key] = copy.deepcopy(draw(hostile))  # the next change may be inside it
        elif isinstance(holder, dict):
            held = holder.pop(key)
            if how != "remove":
                holder[draw(st.sampled_from(HOSTILE_TEXT))] = held
        elif how == "remove":
            del holder[key]
        else:
            holder.insert(key, copy.deepcopy(holder[key]))
    return content[0]


def as_json(content: Any) -> Thing:
    """A JSON file; numbers may be NaN, text may hold half of a surrogate pair."""
    return Thing("bytes", json.dumps(content).encode())


def json_files(path: Path) -> st.SearchStrategy[Thing]:
    """What may lie in the place of a JSON file."""
    return st.one_of(spoiled(json.loads(path.read_bytes())).map(as_json), damaged(path.read_bytes), foreign)


def _line(entry: Any) -> bytes:
    text = json.dumps(entry).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def journals(path: Path) -> st.SearchStrategy[Thing]:
    """What may lie in the place of a journal; wrong content has right checksums."""
    whole = path.read_bytes()
    entries = [json.loads(line.partition(b" ")[2]) for line in whole.splitlines()[:4]]
    entries.append({"kind": "end", "step": entries[-1]["step"]})
    lines = st.lists(st.one_of(spoiled(each) for each in entries), min_size=1, max_size=3)
    behind = lines.map(lambda extra: whole[: whole.rfind(b"\n") + 1] + b"".join(map(_line, extra)))
    alone = spoiled(entries).map(lambda each: b"".join(map(_line, each if isinstance(each, list) else [each])))
    return st.one_of(
        st.one_of(behind, alone).map(lambda content: Thing("bytes", content)), damaged(path.read_bytes), foreign
    )


_TYPES = (np.float32, np.int64, np.int8, np.uint64, bool, str)
_FILLS = (0.0, 1.0, -1.0, 1e308, 5e-324, math.nan, math.inf)


@st.composite
def spoiled_records(draw: st.DrawFn, path: Path) -> xr.Dataset:
    """A record with one to three changes to its variables, coordinates, dimensions and attributes."""
    record = _record(path)
    for _ in range(draw(st.integers(1, 3))):
        with np.errstate(all="ignore"):
            record = draw(st.sampled_from(_CHANGES))(draw, record)
    return record


def _drop(draw: st.DrawFn, record: xr.Dataset) -> xr.Dataset:
    return record.drop_vars(draw(st.sampled_from(sorted(map(str, record.variables))))) if record.variables else record


def _retype(draw: st.DrawFn, record: xr.Dataset) -> xr.Dataset:
    name = draw(st.sampled_from(sorted(map(str, record.variables)))) if record.variables else None
    if name is None or record[name].dtype.kind not in "biuf":
        return record
    return record.assign({name: record[name].astype(draw(st.sampled_from(_TYPES)))})


def _fill(draw: st.DrawFn, record: xr.Dataset) -> xr.Dataset:
    names = sorted(str(name) for name, each in record.variables.items() if each.dtype.kind == "f")
    if not names:
        return record
    name, value = draw(st.sampled_from(names)), draw(st.sampled_from(_FILLS))
    values = np.array(record[name].values)
    part = slice(None) if draw(st.booleans()) else slice(draw(st.integers(0, 3)), None)
    np.atleast_1d(values)[part] = value
    return record.assign({name: (record[name].dims, values, record[name].attrs)})


def _cut(draw: st.DrawFn, record: xr.Dataset) -> xr.Dataset:
    if not record.dims:
        return record
    dim = draw(st.sampled_from(sorted(map(str, record.dims))))
    how = draw(st.sampled_from(["none", "one", "two", "backwards", "twice", "first"]))
    size = record.sizes[dim]
    kept = {"none": [], "one": [0], "two": [0, 1], "twice": [0, *range(size)], "backwards": range(size)[::-1]}
    return record.isel({dim: 0 if how == "first" else [each for each in kept[how] if each < size]}) if size else record


def _rename(draw: st.DrawFn, record: xr.Dataset) -> xr.Dataset:
    names = sorted({*map(str, record.variables), *map(str, record.dims)})
    new = draw(st.sampled_from(["[/bold]", "x" * 300, "time", "step", "layer", "trial", "loads", "é"]))
    if not names or new in names:
        return record
    return record.rename({draw(st.sampled_from(names)): new})


def _attribute(draw: st.DrawFn, record: xr.Dataset) -> xr.Dataset:
    held = sorted(record.attrs)
    name = draw(st.sampled_from([*held, "model", "options", "parameters", "[/bold]"]))
    if draw(st.booleans()) and name in record.attrs:
        return record.drop_attrs(deep=False).assign_attrs({k: v for k, v in record.attrs.items() if k != name})
    try:
        text = json.dumps(draw(spoiled(json.loads(record.attrs.get(name, "{}")))))
    except ValueError:
        text = "x"
    return record.assign_attrs({name: draw(st.sampled_from([text, text, "", "{", "[/bold]"]))})


_CHANGES = (_drop, _retype, _fill, _cut, _rename, _attribute)


def records(path: Path) -> st.SearchStrategy[Thing]:
    """What may lie in the place of a record; wrong content has the right digest."""
    return st.one_of(spoiled_records(path).map(_saved), damaged(path.read_bytes), foreign)


_record = functools.cache(load)


def _saved(record: xr.Dataset) -> Thing:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return Thing("bytes", save(record, Path(folder) / "a.nc").read_bytes())
        except ValueError:  # no record can hold it
            reject()


def _header(array: np.ndarray, shape: tuple[int, ...]) -> bytes:
    """An .npy file whose header claims another shape than its data has."""
    stream = io.BytesIO()
    content = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(stream, content)
    return stream.getvalue() + array.tobytes()


_ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "text": lambda values: values.astype(str),
    "complex": lambda values: values + 1j,
    "whole": lambda values: np.nan_to_num(values).astype(np.int64),
    "truth": lambda values: values > 0,
    "bytes": lambda values: values.astype("S8"),
    "dates": lambda values: np.zeros(values.shape, "datetime64[s]"),
    "fields": lambda values: np.zeros(values.shape, [("a", float)]),
    "half": lambda values: values.astype(np.float16),
    "nothing": lambda values: values[:0],
    "one": lambda values: values[:1],
    "flat": np.ravel,
    "deep": lambda values: values[None, None],
    "scalar": lambda values: np.float64(1.0),
    "NaN": lambda values: np.full(values.shape, np.nan),
    "infinity": lambda values: np.full(values.shape, np.inf),
    "constant": np.ones_like,
    "large": lambda values: np.full(values.shape, 1e308),
    "backwards": lambda values: values[::-1],
}


@st.composite
def arrays(draw: st.DrawFn, read: Callable[[], dict[str, np.ndarray]]) -> Thing:
    """An .npz file with arrays missing, renamed, of other types, shapes and values, pickled, or of a wrong header."""
    held = read()
    content = dict(held)
    headers: dict[str, bytes] = {}
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(held)))
        how = draw(st.sampled_from(["remove", "rename", "pickle", "header", *_ARRAYS, *_ARRAYS]))
        values = content.pop(name, held[name])
        if how == "rename":
            content[draw(st.sampled_from(["[/bold]", "x", "é"]))] = values
        elif how == "pickle":
            content[name] = np.array([None, {}], dtype=object)
        elif how == "header":
            headers[name] = _header(values, draw(st.sampled_from([(HUGE,), (-1,), (2**63, 2), (3, 0), (10**400,), ()])))
        elif how != "remove":
            try:
                content[name] = np.asarray(_ARRAYS[how](values))
            except (TypeError, ValueError, IndexError, np.exceptions.ComplexWarning):  # not all can be done to all
                reject()
    stream = io.BytesIO()
    np.savez(stream, **{name: each for name, each in content.items() if name not in headers})
    with zipfile.ZipFile(stream, "a") as archive:
        for name, each in headers.items():
            archive.writestr(f"{name}.npy", each)
    return Thing("bytes", stream.getvalue())
