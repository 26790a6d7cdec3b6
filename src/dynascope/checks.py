"""Values at the door: converted, or refused with a sentence that names the argument. Needs nothing but NumPy."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    T = TypeVar("T")
    Given = Annotated[T, "checked at the door"]
else:

    class Given:
        """An argument that the function itself checks: `Given[int]` is int for type checkers, anything at run time.

        So what is wrong is refused in the function's own words also where types are checked at run time.
        """

        def __class_getitem__(cls, _kind: object) -> type[object]:
            return object


ArrayLike = Given[npt.ArrayLike]
Times = ArrayLike  # increasing, from 0 or later: what `increasing` takes
SavePoints = int | ArrayLike  # how many evenly spaced times to save, or the times themselves


def as_float(name: str, value: object) -> np.ndarray:
    """Convert to a finite float64 array, or say which argument is not one.

    >>> as_float("noise", [0, 1])
    array([0., 1.])
    >>> as_float("noise", float("nan"))
    Traceback (most recent call last):
    ValueError: noise must be finite everywhere, got nan
    """
    try:
        raw = np.asarray(value)
        array = raw.astype(np.float64) if raw.dtype.kind in "iuf" else None
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise ValueError(f"{name} must be a real number or an array of real numbers, got {value!r}")
    require(name, array, np.isfinite(array), "be finite everywhere")
    return array


def require(name: str, values: np.ndarray, allowed: np.ndarray | np.bool_, rule: str) -> None:
    """Raise a ValueError with the first value that breaks the rule.

    >>> require("noise", np.array([0.1, -2.0]), np.array([True, False]), "be at least 0")
    Traceback (most recent call last):
    ValueError: noise must be at least 0, got -2.0
    """
    if not np.all(allowed):
        offender = np.asarray(values)[~np.asarray(allowed)].ravel()[0]
        raise ValueError(f"{name} must {rule}, got {offender}")


def scalar(name: str, value: object, *, at_least: float | None = None, above: float | None = None) -> float:
    """Convert to one finite float within bounds.

    >>> scalar("dt", 0.0, above=0.0)
    Traceback (most recent call last):
    ValueError: dt must be above 0.0, got 0.0
    """
    array = as_float(name, value)
    if array.ndim:
        raise ValueError(f"{name} must be a single number, got an array of shape {array.shape}")
    if at_least is not None:
        require(name, array, array >= at_least, f"be at least {at_least}")
    if above is not None:
        require(name, array, array > above, f"be above {above}")
    return float(array)


def count(name: str, value: object, *, at_least: int = 1) -> int:
    """Convert to an integer of at least `at_least`.

    >>> count("blocks", 0)
    Traceback (most recent call last):
    ValueError: blocks must be a whole number of at least 1, got 0
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, got {value!r}")
    return int(value)


def flag(name: str, value: object) -> bool:
    """Accept True or False and nothing that merely looks like it.

    >>> flag("shared_noise", "no")
    Traceback (most recent call last):
    ValueError: shared_noise must be True or False, got 'no'
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def one_of(name: str, value: object, allowed: Sequence[str]) -> str:
    """Accept one of a few words.

    >>> one_of("dynamics", "quantum", ["overdamped", "inertial"])
    Traceback (most recent call last):
    ValueError: dynamics must be one of overdamped, inertial, got 'quantum'
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    return str(value)


def listed(name: str, value: object, what: str) -> list[Any]:
    """Accept a list, tuple or other sequence, but no text.

    >>> listed("loggers", 5, "a list of loggers")
    Traceback (most recent call last):
    ValueError: loggers must be a list of loggers, got 5
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be {what}, got {value!r}")
    return list(value)


def path_of(name: str, value: object) -> Path:
    """Accept the path of a file or folder.

    >>> path_of("out", 5)
    Traceback (most recent call last):
    ValueError: out must be the path of a file or folder, got 5
    """
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} must be the path of a file or folder, got {value!r}")
    return Path(value)


def left_out(name: str, value: object, *, where: str) -> None:
    """Refuse an argument that would have no effect.

    >>> left_out("damping", 0.5, where="for the overdamped dynamics")
    Traceback (most recent call last):
    ValueError: damping must be left out for the overdamped dynamics, where it has no effect, got 0.5
    """
    if value is not None:
        raise ValueError(f"{name} must be left out {where}, where it has no effect, got {value!r}")


def increasing(name: str, values: object) -> np.ndarray:
    """Convert to a list (time,) of increasing times from 0 or later.

    >>> increasing("times", [1.0, 0.5])
    Traceback (most recent call last):
    ValueError: times must be an increasing list that starts at 0 or later, got [1.  0.5]
    """
    times = as_float(name, values)
    if times.ndim != 1 or times.size == 0 or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError(f"{name} must be an increasing list that starts at 0 or later, got {times}")
    return times
