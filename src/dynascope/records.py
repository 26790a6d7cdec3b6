"""Results are labelled arrays that carry their provenance and survive a crash.

A record is an `xarray.Dataset` whose attributes are JSON texts. It is stored as one netCDF-4 file that
any netCDF tool opens.
"""

import functools
import hashlib
import io
import json
import operator
import os
import platform
import subprocess
import warnings
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import xarray as xr

from dynascope.checks import path_of
from dynascope.files import check_writable as check_writable
from dynascope.files import write_text as write_text
from dynascope.files import write_whole as write_whole
from dynascope.schema import content_of, parse_json, plain_json

Json: TypeAlias = Any  # what JSON can hold: None, a truth value, number, text, list or dict of these
FORMAT = 1
_FORMAT_KEY, _DIGEST_KEY = "dynascope_record", "dynascope_digest"  # in the file only
_NAMES_KEY = "dynascope_names"  # in the file only: names there -> names here, of those that netCDF cannot hold
_NETCDF_NAMES = ("_FillValue", "scale_factor", "add_offset", "coordinates", "dtype", "missing_value")
_VOLATILE = ("wall_time", "date", "host", "commit", "versions", "device", "way", "products")
# model -> what its records of version 0.1.0 called the dimension `trial`
_REPETITIONS = {"Ensemble": "copy", "PhaseDiagram": "seed", "NetworkCurves": "seed", "ChainAndNetwork": "seed"}
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MARK = b"\n# dynascope sum "
_SEAL, _SEALED = _MARK + b"%08x\n", len(_MARK) + 9  # what lies behind the HDF5 file, and its length


@functools.cache
def source_commit() -> str:
    """Commit of the source tree that runs, with -dirty where files have changed since; unknown if it is no checkout.

    >>> isinstance(source_commit(), str)
    True
    """
    folder = Path(__file__).resolve().parent
    ask = functools.partial(subprocess.run, cwd=folder, capture_output=True, text=True, check=False, timeout=5)
    try:
        tracked = ask(["git", "ls-files", "--error-unmatch", Path(__file__).name])
        head = ask(["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return head.stdout.strip() if tracked.returncode == head.returncode == 0 else "unknown"


@functools.cache
def _version() -> str:
    """Version of the installed package; unknown where the sources run without being installed."""
    try:
        return metadata.version("dynascope")
    except metadata.PackageNotFoundError:
        return "unknown"


def with_provenance(
    dataset: xr.Dataset,
    model: str,
    parameters: Mapping[str, object] | None = None,
    *,
    options: Mapping[str, object] | None = None,
    seed: int | None,
    precision: str,
    wall_time: float,
    device: str | None = None,
) -> xr.Dataset:
    """Return the dataset with attributes that say what made it, each a JSON text.

    parameters, options: of the model and of its simulation, where there is one.
    device: what computed it, if not JAX; asking JAX would make it take hold of a GPU that others may be using.

    >>> run = with_provenance(xr.Dataset(), "SpringBlock", {"noise": 0.1}, options={}, seed=0,
    ...                       precision="float64", wall_time=0.5)
    >>> attribute(run, "parameters")
    {'noise': 0.1}
    """
    content = {
        "model": model,
        "parameters": parameters,
        "options": options,
        "seed": seed,
        "precision": precision,
        "versions": {
            "dynascope": _version(),
            "python": platform.python_version(),
            "jax": metadata.version("jax"),
            "numpy": np.__version__,
        },
        "commit": source_commit(),
        "device": device or _default_device(),
        "host": platform.node(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "wall_time": round(wall_time, 4),
    }
    known = {key: value for key, value in content.items() if key == "seed" or value is not None}
    return dataset.assign_attrs({key: json.dumps(value, default=_plain) for key, value in known.items()})


def _default_device() -> str:
    """What JAX computes on, as the user set it. JAX is loaded here and not above: to read a record takes none of it."""
    return str(next(iter(import_module("jax").numpy.zeros(()).devices())).device_kind)


def _plain(value: object) -> Json:
    """What JSON does not know: arrays become nested lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be stored in a record's attributes")


def attribute(dataset: xr.Dataset, name: str) -> Json:
    """Read one provenance attribute back from its JSON text.

    >>> attribute(xr.Dataset(attrs={"seed": "7"}), "seed")
    7
    """
    if name not in dataset.attrs:
        raise ValueError(f"this dataset has no attribute {name!r}; is it a record made by dynascope?")
    try:
        return plain_json(dataset.attrs[name])
    except (TypeError, ValueError, RecursionError):
        return dataset.attrs[name]  # an attribute of the user's own


def digest(dataset: xr.Dataset) -> str:
    """SHA-256 of the data and of the attributes that do not depend on when and where it was computed.

    >>> digest(xr.Dataset({"a": 1.0})) == digest(xr.Dataset({"a": 1.0}, attrs={"wall_time": "3"}))
    True
    """
    sha = hashlib.sha256()
    for name in sorted(map(str, dataset.variables)):
        variable = dataset.variables[name]
        header = {
            "name": name,
            "dims": list(map(str, variable.dims)),
            "shape": list(variable.shape),
            "attrs": {str(k): str(v) for k, v in sorted(variable.attrs.items())},
        }
        sha.update(json.dumps(header).encode())
        sha.update(_content(name, variable.to_numpy()))
    kept = {str(k): str(v) for k, v in sorted(dataset.attrs.items()) if k not in _VOLATILE}
    sha.update(json.dumps(kept).encode())
    return sha.hexdigest()


def _content(name: str, values: np.ndarray) -> bytes:
    """Bytes of an array; text without its width, which storage does not keep."""
    held = plain_values(name, values)
    return json.dumps(held).encode() if isinstance(held, list) else held.dtype.str.encode() + held.tobytes()


def plain_values(name: str, values: np.ndarray) -> np.ndarray | list[str]:
    """What a record can hold: real numbers, lowest byte first, or texts; ValueError for other things.

    >>> plain_values("a", np.array([1.5])), plain_values("b", np.array(["x", "y"]))
    (array([1.5]), ['x', 'y'])
    """
    if values.dtype.kind in "biuf":
        return values.astype(values.dtype.newbyteorder("<"), copy=False)
    texts = [str(value) for value in values.ravel() if isinstance(value, str)]
    if len(texts) == values.size:
        return texts
    raise ValueError(
        f"variable {name!r} has the type {values.dtype}, which a record cannot hold; use real numbers or text"
    )


def check_attributes(dataset: xr.Dataset) -> None:
    """Refuse what netCDF would change or take for its own.

    >>> check_attributes(xr.Dataset(attrs={"seed": 7}))
    Traceback (most recent call last):
    ValueError: attribute 'seed' of the dataset must be text under a name that netCDF does not use, got 7; write other \
things as JSON
    """
    holders = {"the dataset": dataset.attrs} | {f"variable {n!r}": v.attrs for n, v in dataset.variables.items()}
    for holder, attributes in holders.items():
        for key, value in attributes.items():
            if not isinstance(value, str) or key in _NETCDF_NAMES:
                raise ValueError(
                    f"attribute {key!r} of {holder} must be text under a name that netCDF does not use, got {value!r}; "
                    "write other things as JSON"
                )


def save(dataset: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a record as one netCDF-4 file, whole or not at all.

    The file is written under a temporary name in the same folder, flushed to disk and renamed; a process
    that dies half-way leaves the old file as it was. Folders are made as needed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = save(xr.Dataset({"a": ("x", [1.0, 2.0])}), f"{folder}/run.nc").name
    >>> name
    'run.nc'
    """
    if not isinstance(dataset, xr.Dataset):
        raise ValueError(f"dataset must be an xarray.Dataset, got {type(dataset).__name__}")
    check_attributes(dataset)
    stamped = _with_names_of_files(dataset).assign_attrs({_FORMAT_KEY: FORMAT, _DIGEST_KEY: digest(dataset)})
    encoding = {str(name): {"_FillValue": None} for name in stamped.variables if stamped[name].dtype.kind == "f"}

    content = io.BytesIO()  # not straight into the file: after a full disk HDF5 takes the whole process down at exit
    stamped.to_netcdf(content, engine="h5netcdf", encoding=encoding)
    content.seek(0, os.SEEK_END)
    content.write(_SEAL % zlib.crc32(content.getbuffer()[:]))
    return write_whole(path_of("path", path), lambda place: place.write_bytes(content.getbuffer()))


def _with_names_of_files(dataset: xr.Dataset) -> xr.Dataset:
    """The same under names that netCDF can hold: without the slash of such as train/loss."""
    taken = set(map(str, dataset.variables)) | set(map(str, dataset.dims))
    stored = {}
    for name in sorted(each for each in taken if "/" in each):
        plain = name.replace("/", "_")
        while plain in taken:
            plain += "_"
        taken.add(plain)
        stored[plain] = name
    if not stored:
        return dataset
    return dataset.rename({name: plain for plain, name in stored.items()}).assign_attrs(
        {_NAMES_KEY: json.dumps(stored)}
    )


def _with_names_as_saved(dataset: xr.Dataset, place: str) -> xr.Dataset:
    """The same under the names that it was saved with."""
    text = dataset.attrs.pop(_NAMES_KEY, None)
    if text is None:
        return dataset
    return dataset.rename(parse_json(str(text), dict[str, str], place))


def _require_seal(path: Path) -> None:
    """Refuse a file whose bytes do not add up to the sum behind them, before HDF5 sees it: damage can trap it for good.

    HDF5 does not look at what lies behind its own end. Records of version 0.1.0 have no such sum.
    """
    with path.open("rb") as stream:
        left = max(stream.seek(0, os.SEEK_END) - _SEALED, 0)
        stream.seek(left)
        seal = stream.read()
        if (
            sum(map(operator.eq, seal, _SEAL)) < len(_MARK) / 2 and _MARK[:4] not in seal
        ):  # not even a spoiled or cut one
            return
        stream.seek(0)
        found = 0
        while left and (part := stream.read(min(left, 1 << 20))):
            found, left = zlib.crc32(part, found), left - len(part)
    if seal != _SEAL % found:
        raise ValueError(f"{str(path)!r} is damaged: its bytes do not match the sum at its end; run the job again")


def to_json(content: Json) -> str:
    r"""Write plain values as JSON; numbers that are not finite become null.

    >>> to_json({"a": float("nan")})
    '{\n  "a": null\n}'
    """
    return json.dumps(_finite(content), indent=2, ensure_ascii=False)


def _finite(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def load(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read a record and check that it is one, that it is whole and that nothing in it has changed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = load(save(xr.Dataset({"a": ("x", [1.0, 2.0])}), f"{folder}/run.nc"))
    >>> run["a"].values.tolist()
    [1.0, 2.0]
    """
    path = path_of("path", path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    with path.open("rb") as stream:
        if stream.read(len(_HDF5_SIGNATURE)) != _HDF5_SIGNATURE:
            raise ValueError(f"{str(path)!r} is not a dynascope record: it is not a netCDF-4 file")
    _require_seal(path)
    try:
        with warnings.catch_warnings(action="ignore"):  # a foreign file is refused below, in our own words
            with import_module("h5py").File(path) as file:  # h5netcdf complains on its own where this fails
                dict(file.attrs)
            dataset = xr.load_dataset(path, engine="h5netcdf", decode_times=False)
    except Exception as error:  # bytes can mislead these libraries in more ways than they name
        raise ValueError(f"{str(path)!r} is damaged or cut short and cannot be read; run the job again") from error
    if _FORMAT_KEY not in dataset.attrs or _DIGEST_KEY not in dataset.attrs:
        raise ValueError(f"{str(path)!r} is a netCDF file, but not one written by dynascope.save")
    version, written = dataset.attrs.pop(_FORMAT_KEY), dataset.attrs.pop(_DIGEST_KEY)
    if not isinstance(version, int | np.integer):
        raise ValueError(f"{str(path)!r} is damaged: its record format is {version!r}, no number")
    if version > FORMAT:
        raise ValueError(
            f"{str(path)!r} has record format {version}, this version reads up to {FORMAT}; update dynascope"
        )
    with content_of(str(path)):
        dataset = _with_names_as_saved(dataset, str(path))
        found = digest(dataset)
    if found != written:
        raise ValueError(f"{str(path)!r} is damaged: its content does not match the digest written with it")
    return _with_names_of_now(dataset)


def _with_names_of_now(dataset: xr.Dataset) -> xr.Dataset:
    """Repetitions were called `copy` in ensembles and `seed` in load curves of networks, in version 0.1.0."""
    old = _REPETITIONS.get(str(dataset.attrs.get("model", "")).strip('"'))
    return dataset.rename({old: "trial"}) if old in dataset.dims else dataset
