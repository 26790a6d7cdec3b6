"""Arrays of any library at the door: NumPy, PyTorch and JAX arrays, checked, and computed with in float64.

What follows is written once against the Python array API standard. Numbers come back as arrays of the kind that went
in, on the same device, in float64; tables come back as xarray Datasets.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import array_api_compat as compat
import jax
import numpy as np
from jaxtyping import Int

BLOCK = 2**23  # numbers that a piece of work holds at a time: 64 MiB of float64


@contextmanager
def float64_of(**arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Give the namespace and the arrays in float64, with JAX's double precision switched on inside the block only.

    Lists become NumPy arrays, PyTorch tensors leave their graph. All must live in one library on one device; an array
    that is None stays None.

    >>> with float64_of(features=[[1, 2]]) as (xp, features):
    ...     features.dtype
    dtype('float64')
    """
    with checked(**arrays) as (xp, *held):
        yield (xp, *(None if each is None else xp.astype(each, xp.float64) for each in held))


@contextmanager
def checked(**arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Give the namespace and the arrays as they are, checked, for work that converts them piece by piece.

    >>> with checked(features=np.ones(2, np.float32)) as (xp, features):
    ...     features.dtype
    dtype('float32')
    """
    held = {name: _array(name, value) for name, value in arrays.items() if value is not None}
    _require_one_home(held)
    first = next(iter(held.values()))
    xp = compat.array_namespace(first)
    on = jax.enable_x64(True) if compat.is_jax_namespace(xp) else nullcontext()
    with on:
        for name, value in held.items():
            _require_finite(xp, name, value)
        yield (xp, *(held.get(name) for name in arrays))


def _array(name: str, value: Any) -> Any:
    if compat.is_torch_array(value):
        tensor: Any = value.detach()
        return tensor.cpu() if tensor.device.type == "mps" else tensor  # Apple's GPUs have no float64
    if compat.is_array_api_obj(value):
        return value
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = None
    if array is None or array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of real numbers, got {type(value).__name__}")
    return array


def _require_one_home(held: dict[str, Any]) -> None:
    homes = {name: (_library(value), str(compat.device(value))) for name, value in held.items()}
    (first, home), *others = homes.items()
    for name, other in others:
        if other != home:
            raise ValueError(
                f"{name} must lie beside {first}, in {home[0]} on {home[1]}, got {other[0]} on {other[1]}; move one"
            )


def _library(value: Any) -> str:
    return type(value).__module__.split(".")[0].removesuffix("lib")


def _require_finite(xp: Any, name: str, value: Any) -> None:
    if not xp.isdtype(value.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"{name} must be an array of real numbers, got {value.dtype}")
    if value.ndim == 0 or 0 in value.shape:
        raise ValueError(f"{name} must hold at least one sample, got shape {tuple(value.shape)}")
    if xp.isdtype(value.dtype, "real floating") and not bool(xp.all(xp.isfinite(value))):
        rows = xp.reshape(value, (value.shape[0], -1))
        sample = int(np.argmin(to_numpy(xp.all(xp.isfinite(rows), axis=1))))
        raise ValueError(f"{name} must be finite everywhere, got NaN or infinity in sample {sample}")


def to_numpy(array: Any) -> np.ndarray:
    """Bring an array to the host.

    >>> to_numpy(jax.numpy.ones(2)).tolist()
    [1.0, 1.0]
    """
    return np.asarray(array.cpu() if compat.is_torch_array(array) else array)


def like(xp: Any, array: Any, values: np.ndarray) -> Any:
    """Put host values beside an array: same library, same device.

    >>> like(np, np.ones(2), np.array([1, 2])).tolist()
    [1, 2]
    """
    return xp.asarray(values, device=compat.device(array))


def rows_of(xp: Any, name: str, array: Any, samples: int | None = None, least: int = 2) -> Any:
    """Flatten to (sample, feature) and check the number of samples.

    >>> rows_of(np, "features", np.ones((4, 2, 3))).shape
    (4, 6)
    """
    if array.ndim < 2:
        raise ValueError(f"{name} must have shape (sample, feature, …), got {tuple(array.shape)}")
    if samples is not None and array.shape[0] != samples:
        raise ValueError(f"{name} must have one row for each of the {samples} samples, got {array.shape[0]}")
    if array.shape[0] < least:
        raise ValueError(f"{name} must hold at least {least} samples, got {array.shape[0]}")
    return xp.reshape(array, (array.shape[0], -1))


def class_codes(labels: Any, samples: int, *, part: bool = False) -> tuple[np.ndarray, Int[np.ndarray, " sample"]]:
    """Split labels into the classes that occur, sorted, and the class of each sample as its index.

    A part of the data may hold a single class, or one sample of each.

    >>> class_codes([7, 3, 7], 3)[1].tolist()
    [1, 0, 1]
    """
    values = to_numpy(labels) if compat.is_array_api_obj(labels) else np.asarray(labels)
    if values.ndim != 1 or len(values) != samples:
        raise ValueError(f"labels must name the class of each of the {samples} samples, got shape {values.shape}")
    if values.dtype.kind not in "biuUS":
        raise ValueError(f"labels must be whole numbers or text, one per sample, got {values.dtype}")
    classes, codes = np.unique(values, return_inverse=True)
    if part:
        return classes, codes
    require_spread(classes, samples)
    return classes, codes


def require_spread(classes: np.ndarray, samples: int) -> None:
    """Refuse data in which classes, or samples of a class, cannot differ.

    >>> require_spread(np.array([3]), 10)
    Traceback (most recent call last):
    ValueError: labels must hold at least 2 classes, got only [3]
    """
    if len(classes) < 2:
        raise ValueError(f"labels must hold at least 2 classes, got only {classes.tolist()}")
    if len(classes) == samples:
        raise ValueError(f"labels must repeat: {samples} samples in as many classes show no spread within a class")


def one_hot(xp: Any, array: Any, codes: np.ndarray, classes: int) -> Any:
    """Indicators (sample, class) in float64 beside an array.

    >>> one_hot(np, np.ones(1), np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return like(xp, array, (codes[:, None] == np.arange(classes)).astype(np.float64))


def basis(xp: Any, columns: Any, *, epsilon: float) -> Any:
    """Orthonormal basis (sample, rank) of the span of columns (sample, column), dropping what is rounding.

    >>> basis(np, np.ones((3, 2)), epsilon=1e-12).shape
    (3, 1)
    """
    left, values, _ = xp.linalg.svd(columns, full_matrices=False)
    return left[:, : rank_of(values, epsilon)]


def rank_of(values: Any, epsilon: float) -> int:
    """Count singular values that stand out from rounding, epsilon times the largest.

    >>> rank_of(np.array([1.0, 1e-3, 1e-18]), 1e-12)
    2
    """
    sizes = to_numpy(values)
    return int((sizes > epsilon * sizes.max()).sum())


def rounding_of(array: Any) -> float:
    """Relative size below which a singular value of an array, as it was given, is rounding.

    max(shape)·ε of float64, in which it is decomposed, or 8·ε of its own precision where that is coarser: entries
    rounded to float32 move singular values by about 1e-7 of the largest, however many there are.

    >>> rounding_of(np.ones((1000, 4))), rounding_of(np.ones((1000, 4), np.float32))
    (2.220446049250313e-13, 9.5367431640625e-07)
    """
    name = str(getattr(array, "dtype", "float64")).removeprefix("torch.")
    own = {"float32": 2.0**-20, "float16": 2.0**-7, "bfloat16": 2.0**-4}.get(name, 0.0)
    return float(max(own, max(np.shape(array), default=1) * 2.0**-52))
