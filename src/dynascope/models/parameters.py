"""Parameters at the door: checked, converted to float64 and broadcast over a grid.

Every model family declares the core dimensions of its fields; what stands before them is the grid.
"""

import difflib
import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import xarray as xr

from dynascope.checks import as_float

P = ParamSpec("P")
R = TypeVar("R")
if TYPE_CHECKING:  # no text, which is a sequence as well
    ParameterValue = float | Sequence[float] | list[Any] | tuple[Any, ...] | np.ndarray | xr.DataArray
else:  # text comes through to be refused in our own words
    ParameterValue = float | Sequence[Any] | np.ndarray | xr.DataArray


@dataclass(frozen=True)
class Grid:
    """The axes along which parameters vary: names, sizes and coordinates of the result."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coordinates: dict[str, tuple[tuple[str, ...], np.ndarray]]

    @property
    def size(self) -> int:
        """Number of points.

        >>> Grid(("noise",), (3,), {}).size
        3
        """
        return int(np.prod(self.shape, dtype=int))


def grid(**axes: Any) -> dict[str, Any]:
    """Name one dimension after each parameter, so that all combinations run in one call.

    >>> from dynascope import SpringBlock
    >>> chains = SpringBlock(**grid(friction_right=[0.0, 0.1], noise=[0.0, 0.01, 0.02]))
    >>> chains.equilibrium().shape
    (2, 3, 7)
    """
    arrays = {}
    for name, values in axes.items():
        values = as_float(name, values)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(f"{name} must be a list of at least one number, got shape {values.shape}")
        arrays[name] = xr.DataArray(values, dims=name, coords={name: values})
    return arrays


class UnknownOptionError(TypeError, ValueError):
    """An option that does not exist: Python's own error for it, and ours for bad input."""


def with_hints(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function name the options that it has, and the nearest, where it is given one that it does not have.

    >>> @with_hints
    ... def simulate(seed=0, trials=1): ...
    >>> simulate(sed=1)
    Traceback (most recent call last):
    dynascope.models.parameters.UnknownOptionError: sed=1 is not an option; there are seed, trials. Did you mean seed?
    """
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def checked(*arguments: P.args, **options: P.kwargs) -> R:
        for name, value in options.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                raise UnknownOptionError(f"{name}={value!r} is not an option; there are {', '.join(known)}.{hint}")
        return function(*arguments, **options)

    return checked


def broadcast(
    values: Mapping[str, Any], *, core: Mapping[str, tuple[str, ...]], reserved: Sequence[str]
) -> tuple[dict[str, np.ndarray], Grid]:
    """Align parameters on one grid.

    A DataArray's dimensions that are not core keep their names; other arrays' axes before the core are
    matched from the right, as NumPy does, and called grid_0, grid_1, … Each returned array has one axis
    per grid dimension (of size 1 where it does not vary), then its core axes.

    >>> aligned, axes = broadcast({"a": [1.0, 2.0], "b": 3.0}, core={"a": (), "b": ()}, reserved=())
    >>> axes.dims, aligned["a"].shape, aligned["b"].shape
    (('grid_0',), (2,), (1,))
    """
    labelled = {name: _label(name, value, core[name]) for name, value in values.items()}
    positional = max(
        (len(array.dims) - len(core[n]) for n, array in labelled.items() if not _is_named(values[n])),
        default=0,
    )
    labelled = {
        name: array
        if _is_named(values[name])
        else array.rename({f"axis_{k}": f"grid_{positional - k}" for k in range(1, array.ndim - len(core[name]) + 1)})
        for name, array in labelled.items()
    }
    dims = _grid_dims(labelled, core, [f"grid_{k}" for k in range(positional)])
    clash = [dim for dim in dims if dim in reserved]
    if clash:
        raise ValueError(
            f"dimension name {clash[0]!r} is taken by the result; rename it, e.g. to {clash[0] + '_axis'!r}"
        )
    sizes = _sizes(labelled, dims)
    aligned = {name: _expand(array, dims, core[name]) for name, array in labelled.items()}
    shape = tuple(sizes[dim] for dim in dims)
    return aligned, Grid(dims, shape, _coordinates(labelled, dims, core))


def _is_named(value: Any) -> bool:
    return isinstance(value, xr.DataArray)


def _label(name: str, value: Any, core: tuple[str, ...]) -> xr.DataArray:
    """Give every axis a name: positional grid axes become axis_1 (the last), axis_2, …"""
    array = as_float(name, value)
    if array.ndim < len(core):
        raise ValueError(f"{name} must have at least the dimensions {core}, got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must hold at least one number, got shape {array.shape}")
    if isinstance(value, xr.DataArray):
        missing = [dim for dim in core if dim not in value.dims]
        if missing:
            raise ValueError(f"{name} must have the dimension {missing[0]!r}, got {value.dims}")
        strange = [dim for dim in value.dims if not isinstance(dim, str)]
        if strange:
            raise ValueError(f"{name} must have dimensions that are named by text, got {strange[0]!r}")
        return value.astype(np.float64)
    leading = [f"axis_{k}" for k in range(array.ndim - len(core), 0, -1)]
    return xr.DataArray(array, dims=[*leading, *core])


def _grid_dims(
    labelled: Mapping[str, xr.DataArray], core: Mapping[str, tuple[str, ...]], positional: list[str]
) -> tuple[str, ...]:
    named: list[str] = []
    for name, array in labelled.items():
        named += [str(d) for d in array.dims if d not in core[name] and d not in named and d not in positional]
    return (*named, *positional)


def _sizes(labelled: Mapping[str, xr.DataArray], dims: Sequence[Hashable]) -> dict[Hashable, int]:
    sizes: dict[Hashable, int] = {}
    owner: dict[Hashable, str] = {}
    for name, array in labelled.items():
        for dim in array.dims:
            size = array.sizes[dim]
            if sizes.setdefault(dim, size) == 1:
                sizes[dim] = size
            elif size not in (1, sizes[dim]):
                raise ValueError(
                    f"{name} does not broadcast against {owner[dim]}: {size} and {sizes[dim]} values along "
                    f"{dim!r}; for all combinations use dynascope.grid({owner[dim]}=…, {name}=…)"
                )
            owner.setdefault(dim, name)
    return {dim: sizes[dim] for dim in dims}


def _expand(array: xr.DataArray, dims: tuple[str, ...], core: tuple[str, ...]) -> np.ndarray:
    missing = [dim for dim in dims if dim not in array.dims]
    return array.expand_dims(missing).transpose(*dims, *core).to_numpy()


def _coordinates(
    labelled: Mapping[str, xr.DataArray], dims: tuple[str, ...], core: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Varied parameters, and the labels that a DataArray brought along for its own dimensions."""
    coordinates: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for array in labelled.values():
        for dim in array.dims:
            if dim in dims and dim in array.coords:
                labels = array.coords[dim].to_numpy()
                known = coordinates.setdefault(str(dim), ((str(dim),), labels))[1]
                if not np.array_equal(known, labels):
                    raise ValueError(
                        f"the labels along {dim!r} must be the same in all parameters, got {known} and {labels}"
                    )
    for name, array in labelled.items():
        varied = tuple(str(dim) for dim in array.dims if dim in dims and array.sizes[dim] > 1)
        if name in dims and varied not in ((name,), ()):
            raise ValueError(
                f"{name} varies along {varied}, but {name!r} is also the name of a dimension; rename that dimension"
            )
        if varied and not core[name]:
            coordinates[name] = (varied, array.squeeze([d for d in array.dims if d not in varied]).to_numpy())
    return coordinates
