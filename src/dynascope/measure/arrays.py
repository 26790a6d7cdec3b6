"""Arrays of any library at the door: NumPy, PyTorch and JAX arrays, checked, and computed with in float64.

What follows is written once against the Python array API standard. Numbers come back as arrays of the kind that went
in, on the same device, in float64; tables come back as xarray Datasets.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import array_api_compat as compat
import numpy as np
from jaxtyping import Int

from dynascope.checks import ArrayLike


@runtime_checkable
class Array(Protocol):
    """An array of any library that keeps to the array API standard: NumPy, PyTorch, JAX.

    >>> isinstance(np.ones(2), Array), isinstance([1.0], Array)
    (True, False)
    """

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102  the standard's own words
    @property
    def ndim(self) -> int: ...  # noqa: D102
    @property
    def dtype(self) -> Any: ...  # noqa: D102  each library has its own

    if TYPE_CHECKING:  # a single number of NumPy has not all of these, and PyTorch warns of T where there is no matrix

        @property
        def T(self) -> "Array": ...  # noqa: D102
        def __array__(self) -> np.ndarray: ...
        def __float__(self) -> float: ...
        def __getitem__(self, key: Any, /) -> "Array": ...
        def __add__(self, other: Any, /) -> "Array": ...
        def __radd__(self, other: Any, /) -> "Array": ...
        def __sub__(self, other: Any, /) -> "Array": ...
        def __rsub__(self, other: Any, /) -> "Array": ...
        def __mul__(self, other: Any, /) -> "Array": ...
        def __rmul__(self, other: Any, /) -> "Array": ...
        def __truediv__(self, other: Any, /) -> "Array": ...
        def __rtruediv__(self, other: Any, /) -> "Array": ...
        def __pow__(self, other: Any, /) -> "Array": ...
        def __matmul__(self, other: Any, /) -> "Array": ...


if TYPE_CHECKING:

    class _Linalg(Protocol):
        def svd(self, x: Array, /, *, full_matrices: bool = True) -> tuple[Array, Array, Array]: ...
        def qr(self, x: Array, /) -> tuple[Array, Array]: ...
        def eigh(self, x: Array, /) -> tuple[Array, Array]: ...
        def solve(self, a: Array, b: Array, /) -> Array: ...

    class Namespace(Protocol):
        """The functions of a library, by the names of the standard."""

        linalg: _Linalg
        float64: object
        isdtype: Callable[[Any, str | tuple[str, ...]], bool]

        def __getattr__(self, name: str) -> Callable[..., Array]: ...
else:
    Namespace = ModuleType

BLOCK = 2**23  # numbers that a piece of work holds at a time: 64 MiB of float64
CACHED = 2**17  # numbers that a processor keeps at hand
_NARROWEST = 64  # features below which reading jumps too much


@contextmanager
def float64_of(**arrays: ArrayLike | None) -> Iterator[tuple[Any, ...]]:
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
def checked(**arrays: ArrayLike | None) -> Iterator[tuple[Any, ...]]:
    """Give the namespace and the arrays as they are, checked, for work that converts them piece by piece.

    >>> with checked(features=np.ones(2, np.float32)) as (xp, features):
    ...     features.dtype
    dtype('float32')
    """
    held = {name: _array(name, value) for name, value in arrays.items() if value is not None}
    _require_one_home(held)
    first = next(iter(held.values()))
    xp = compat.array_namespace(first)
    # JAX is loaded where one of its arrays comes, and not above: to measure a PyTorch model takes none of it
    on = import_module("jax").enable_x64(True) if compat.is_jax_namespace(xp) else nullcontext()
    with on:
        for name, value in held.items():
            _require_finite(xp, name, value)
        yield (xp, *(held.get(name) for name in arrays))


def _array(name: str, value: ArrayLike) -> Array:
    if compat.is_torch_array(value):
        tensor = value.detach()
        return tensor.cpu() if tensor.device.type == "mps" else tensor  # Apple's GPUs have no float64
    if compat.is_array_api_obj(value):
        return cast(Array, value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = None
    if array is None or array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of real numbers, got {type(value).__name__}")
    return array


def _require_one_home(held: dict[str, Array]) -> None:
    homes = {name: (_library(value), str(compat.device(value))) for name, value in held.items()}
    (first, home), *others = homes.items()
    for name, other in others:
        if other != home:
            raise ValueError(
                f"{name} must lie beside {first}, in {home[0]} on {home[1]}, got {other[0]} on {other[1]}; move one"
            )


def _library(value: Array) -> str:
    return type(value).__module__.split(".")[0].removesuffix("lib")


def _require_finite(xp: Namespace, name: str, value: Array) -> None:
    if not xp.isdtype(value.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"{name} must be an array of real numbers, got {value.dtype}")
    if value.ndim == 0 or 0 in value.shape:
        raise ValueError(f"{name} must hold at least one sample, got shape {tuple(value.shape)}")
    if not xp.isdtype(value.dtype, "real floating"):
        return
    # NaN is least and greatest of what holds it, so that no array of as many answers is made; in JAX it may be neither
    ends = value if compat.is_jax_array(value) else xp.stack([xp.min(value), xp.max(value)])
    if not bool(xp.all(xp.isfinite(ends))):
        rows = xp.reshape(value, (value.shape[0], -1))
        sample = int(np.argmin(to_numpy(xp.all(xp.isfinite(rows), axis=1))))
        raise ValueError(f"{name} must be finite everywhere, got NaN or infinity in sample {sample}")


def to_numpy(array: ArrayLike) -> np.ndarray:
    """Bring an array to the host.

    >>> to_numpy(np.ones(2)).tolist()
    [1.0, 1.0]
    """
    return np.asarray(array.cpu() if compat.is_torch_array(array) else array)


def like(xp: Namespace, array: Array, values: np.ndarray) -> Array:
    """Put host values beside an array: same library, same device.

    >>> like(np, np.ones(2), np.array([1, 2])).tolist()
    [1, 2]
    """
    return xp.asarray(values, device=compat.device(array))


def rows_of(xp: Namespace, name: str, array: Array, samples: int | None = None, least: int = 2) -> Array:
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


def class_codes(
    labels: ArrayLike, samples: int, *, part: bool = False
) -> tuple[np.ndarray, Int[np.ndarray, " sample"]]:
    """Split labels into the classes that occur, sorted, and the class of each sample as its index.

    A part of the data may hold a single class, or one sample of each.

    >>> class_codes([7, 3, 7], 3)[1].tolist()
    [1, 0, 1]
    """
    values = to_numpy(labels)
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


def one_hot(xp: Namespace, array: Array, codes: np.ndarray, classes: int) -> Array:
    """Indicators (sample, class) in float64 beside an array.

    >>> one_hot(np, np.ones(1), np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return like(xp, array, (codes[:, None] == np.arange(classes)).astype(np.float64))


def pieces_of(array: Array, least: int = _NARROWEST) -> list[slice]:
    """Part (…, sample, feature) by features, so that each piece stays in a processor's cache: three times as fast.

    least: features of a piece, but for the last one. On other devices it is one piece, since each one more is work to
    launch.

    >>> pieces_of(np.ones((2**12, 100)))
    [slice(0, 64, None), slice(64, 100, None)]
    """
    *rows, features = array.shape
    cached = "cpu" in str(getattr(array, "device", "cpu")).lower()
    width = max(CACHED // max(math.prod(rows), 1), least, _NARROWEST) if cached else max(features, 1)
    return [slice(first, min(first + width, features)) for first in range(0, features, width)]


def basis(xp: Namespace, columns: Array, *, epsilon: float) -> Array:
    """Orthonormal basis (sample, rank) of the span of columns (sample, column), dropping what is rounding.

    >>> basis(np, np.ones((3, 2)), epsilon=1e-12).shape
    (3, 1)
    """
    left, values, _ = xp.linalg.svd(columns, full_matrices=False)
    return left[:, : rank_of(values, epsilon)]


def rank_of(values: Array, epsilon: float) -> int:
    """Count singular values that stand out from rounding, epsilon times the largest.

    >>> rank_of(np.array([1.0, 1e-3, 1e-18]), 1e-12)
    2
    """
    sizes = to_numpy(values)
    return int((sizes > epsilon * sizes.max()).sum())


def rounding_of(array: ArrayLike) -> float:
    """Relative size below which a singular value of an array, as it was given, is rounding.

    max(shape)·ε of float64, in which it is decomposed, or 8·ε of its own precision where that is coarser: entries
    rounded to float32 move singular values by about 1e-7 of the largest, however many there are.

    >>> rounding_of(np.ones((1000, 4))), rounding_of(np.ones((1000, 4), np.float32))
    (2.220446049250313e-13, 9.5367431640625e-07)
    """
    name = str(getattr(array, "dtype", "float64")).removeprefix("torch.")
    own = {"float32": 2.0**-20, "float16": 2.0**-7, "bfloat16": 2.0**-4}.get(name, 0.0)
    return float(max(own, max(np.shape(array), default=1) * 2.0**-52))
