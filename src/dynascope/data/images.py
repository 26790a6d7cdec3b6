"""Image sets from the data folder, as arrays ready for training."""

import gzip
import importlib
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np

from dynascope.checks import ArrayLike, Given, count, one_of
from dynascope.data.corruption import subsample
from dynascope.data.folder import data_folder, missing
from dynascope.schema import read_arrays

NAMES = ("mnist", "fashion", "cifar10", "digits")
Raw = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # images (n, channel, row, column), labels; train, test


def images(
    name: Given[str],
    *,
    classes: Given[int | Sequence[int] | None] = None,
    per_class: Given[int | tuple[int | None, int | None] | None] = None,
    size: Given[int | None] = None,
    seed: Given[int] = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Load an image set: training images and labels, test images and labels.

    name: mnist, fashion, cifar10 (from the data folder) or digits (from scikit-learn, 1797 images of 8 × 8)
    classes: how many of the first classes, or a list of them, which become 0, 1, … in that order; all if not given
    per_class: images of each class, drawn by the seed: (train, test), or one number, of which the test part gets what
        it has; all if not given
    size: pixels of a side after exact averaging over areas; as they are if not given
    seed: for the draw, and for the split of digits, which has no test set of its own (a fifth of each class)

    Images are float32 (n, channel, row, column) in [0, 1], labels int64. The data folder is DYNASCOPE_DATA or
    ~/.cache/dynascope; files may be compressed or not. cifar10 reads the official binary batches, or else
    cifar10_3class.npz (classes 0, 1, 2) and cifar10_10x10.npz (size 10).

    >>> from dynascope.data.images import shrink
    >>> shrink(np.arange(4.0).reshape(1, 1, 2, 2), 1).item()
    1.5
    """
    name, seed = one_of("name", name, NAMES), count("seed", seed, at_least=0)
    size = None if size is None else count("size", size)
    chosen = _chosen_classes(classes)
    if name == "digits":
        raw = _digits(seed)
    elif name == "cifar10":
        raw = _cifar(data_folder(), chosen, size)
    else:
        raw = _idx_set(data_folder(), name)
    for part in (raw[:2], raw[2:]):
        _require_images(name, *part)
    chosen = chosen or tuple(range(int(raw[1].max()) + 1))
    wanted = _train_and_test(per_class, raw[3], chosen)
    for labels in raw[1::2]:
        present = np.unique(labels)
        if unknown := [each for each in chosen if each not in present]:
            raise ValueError(f"classes must be among {present.tolist()}, which {name} has here, got {unknown[0]}")
    train = _select(raw[0], raw[1], chosen, per_class=wanted[0], size=size, seed=seed)
    return *train, *_select(raw[2], raw[3], chosen, per_class=wanted[1], size=size, seed=seed)


def _chosen_classes(classes: Given[int | Sequence[int] | None]) -> tuple[int, ...] | None:
    if classes is None:
        return None
    chosen = (
        tuple(range(count("classes", classes, at_least=2)))
        if np.ndim(classes) == 0
        else tuple(cast(Sequence[int], classes))
    )
    if len(set(chosen)) < len(chosen) or len(chosen) < 2:
        raise ValueError(f"classes must be a number or a list of at least 2 different classes, got {classes!r}")
    return tuple(count("classes", each, at_least=0) for each in chosen)


def _train_and_test(
    per_class: Given[int | tuple[int | None, int | None] | None], labels: np.ndarray, classes: Sequence[int]
) -> tuple[int | None, int | None]:
    """Images of each class in the two parts; of one number the test part, which has `labels`, gets what it has."""
    if per_class is None:
        return None, None
    if np.asarray(per_class).ndim > 0:
        wanted = tuple(cast(Sequence[int | None], per_class))
        if len(wanted) != 2:
            raise ValueError(f"per_class must be one number or (train, test), got {per_class!r}")
        return wanted[0], wanted[1]
    number = count("per_class", per_class)
    fewest = min(int(np.sum(labels == each)) for each in classes)
    return number, min(number, max(fewest, 1))


def _select(
    x: np.ndarray, y: np.ndarray, classes: Sequence[int], *, per_class: Given[int | None], size: int | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    place = np.full(int(y.max()) + 1, -1)
    place[list(classes)] = np.arange(len(classes))
    kept = np.flatnonzero(place[y] >= 0)
    labels = place[y[kept]].astype(np.int64)
    if per_class is not None:
        drawn = subsample(labels, per_class, seed=seed)
        kept, labels = kept[drawn], labels[drawn]
    values = x[kept].astype(np.float32) / (255 if x.dtype == np.uint8 else 1)
    return (values if size is None else shrink(values, size)), labels


def shrink(x: ArrayLike, size: int) -> np.ndarray:
    """Average over areas to `size` × `size` pixels; a pixel cut by a border counts by its share. float32.

    >>> shrink(np.ones((1, 3, 28, 28)), 10).shape
    (1, 3, 10, 10)
    """
    rows, columns = (_area_weights(length, size) for length in np.shape(x)[-2:])
    return np.asarray(np.matmul(rows, np.matmul(x, columns.T)), np.float32)


def _area_weights(length: int, size: int) -> np.ndarray:
    """(size, length): the share of each old pixel in each new one; rows sum to 1."""
    if size > length:
        raise ValueError(f"size must be at most {length}, the images' own, got {size}")
    edges = np.linspace(0, length, size + 1)
    pixel = np.arange(length)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return np.asarray(np.clip(overlap, 0, None) * size / length, np.float32)


def read_idx(path: Path) -> np.ndarray:
    """Read an IDX file of bytes, compressed or not.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "a"
    >>> _ = place.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 7]))
    >>> read_idx(place)
    array([5, 7], dtype=uint8)
    """
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is damaged or cut short: remove it and fetch it again") from error
    if content[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not an IDX file of bytes")
    start = 4 + 4 * content[3] if len(content) > 3 else len(content) + 1
    if start > len(content):
        raise ValueError(f"{path} is cut short: remove it and fetch it again")
    shape = tuple(np.frombuffer(content, ">u4", content[3], 4).tolist())
    if len(content) - start != math.prod(shape):
        raise ValueError(f"{path} must hold {math.prod(shape)} bytes of data, got {len(content) - start}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _idx_set(folder: Path, name: str) -> Raw:
    arrays = []
    for split in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            path = folder / f"{name}-{split}-{kind}-ubyte"
            found = next((each for each in (path.with_name(path.name + ".gz"), path) if each.is_file()), None)
            if found is None:
                raise missing(name, f"{path.name}.gz")
            values = read_idx(found)
            arrays.append(values[:, None] if values.ndim == 3 else values)
    return arrays[0], arrays[1], arrays[2], arrays[3]


def _require_images(name: str, x: np.ndarray, y: np.ndarray) -> None:
    """What files may hold instead."""
    if x.ndim != 4 or x.size == 0 or x.dtype.kind not in "uif" or (x.dtype.kind == "f" and not np.isfinite(x).all()):
        raise ValueError(f"{name} must hold images (n, channel, row, column), got {x.dtype} of shape {x.shape}")
    if y.shape != x.shape[:1] or y.dtype.kind not in "ui" or y.min() < 0:
        raise ValueError(
            f"{name} must have a label from 0 for each of {len(x)} images, got {y.dtype} of shape {y.shape}"
        )


def _cifar(folder: Path, classes: Sequence[int] | None, size: int | None) -> Raw:
    batches = folder / "cifar-10-batches-bin"
    batches = batches if batches.is_dir() else folder
    if (batches / "test_batch.bin").is_file():
        train = _cifar_batches([batches / f"data_batch_{k}.bin" for k in range(1, 6)])
        return *train, *_cifar_batches([batches / "test_batch.bin"])
    small = {"cifar10_3class.npz": classes is not None and set(classes) <= {0, 1, 2}, "cifar10_10x10.npz": size == 10}
    for file, enough in small.items():
        if enough and (folder / file).is_file():
            held = read_arrays(folder / file)
            if absent := [key for key in ("x_train", "y_train", "x_test", "y_test") if key not in held]:
                raise ValueError(f"{folder / file} must hold {absent[0]}, it holds {sorted(held)}")
            x, xt = (
                np.moveaxis(held[key], -1, 1) if held[key].ndim == 4 else held[key] for key in ("x_train", "x_test")
            )
            return x, held["y_train"], xt, held["y_test"]
    instead = "cifar10_3class.npz for classes=3, cifar10_10x10.npz for size=10"
    raise missing("cifar10", f"cifar-10-batches-bin/ (or {instead})")


def _cifar_batches(paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 1 label and 3 × 32 × 32 bytes."""
    absent = [path for path in paths if not path.is_file()]
    if absent:
        raise missing("cifar10", absent[0].name)
    content = np.concatenate([np.fromfile(path, np.uint8) for path in paths])
    if content.size % 3073:
        raise ValueError(f"{paths[0].parent} holds CIFAR batches that are cut short: remove them and fetch them again")
    rows = content.reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def scikit_learn(name: str) -> ModuleType:
    """scikit-learn's data sets, or a sentence that says how to get them.

    >>> hasattr(scikit_learn("digits"), "load_digits")
    True
    """
    try:
        return importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise FileNotFoundError(f"{name} comes with scikit-learn: run `pip install 'dynascope[data]'`") from error


def _digits(seed: int) -> Raw:
    bunch = scikit_learn("digits").load_digits()
    x, y = (bunch.images[:, None] / 16).astype(np.float32), bunch.target
    test = np.zeros(len(y), bool)
    test[subsample(y, np.bincount(y) // 5, seed=seed)] = True
    return x[~test], y[~test], x[test], y[test]
