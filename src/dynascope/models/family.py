"""What all model families share: parameters declared once, checked and laid over a grid; labels; provenance.

A family is a frozen module whose fields are parameters:

    class Decay(Family):
        rate: Parameter = parameter(1.0, above=0.0, label="rate of decay λ", unit="1/time")

The declaration gives the default, the bounds that are checked at the door, and the label under which the parameter
stands in records where it varies.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, overload

import equinox as eqx
import numpy as np
import xarray as xr

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, as_float, require
from dynascope.models.parameters import Grid, ParameterValue, broadcast
from dynascope.records import with_provenance

if TYPE_CHECKING:  # a field takes what a user gives, and holds an array

    class Parameter:
        """A field of a family: numbers, arrays that broadcast or DataArrays go in, float64 arrays come out."""

        @overload
        def __get__(self, instance: None, owner: type) -> "Parameter": ...
        @overload
        def __get__(self, instance: object, owner: type) -> np.ndarray: ...
        def __get__(self, instance: object, owner: type) -> object: ...
        def __set__(self, instance: object, value: ParameterValue) -> None: ...

    class OptionalParameter:
        """The same, where nothing may be given."""

        @overload
        def __get__(self, instance: None, owner: type) -> "OptionalParameter": ...
        @overload
        def __get__(self, instance: object, owner: type) -> np.ndarray | None: ...
        def __get__(self, instance: object, owner: type) -> object: ...
        def __set__(self, instance: object, value: ParameterValue | None) -> None: ...
else:
    Parameter, OptionalParameter = ParameterValue, ParameterValue | None

Labels = Mapping[str, tuple[str, str | None]]  # long name and unit of what a record holds


class Declared(NamedTuple):
    """What a parameter declares: the dimensions that it has before any grid, bounds, and how it is called."""

    core: tuple[str, ...]
    at_least: float | None
    above: float | None
    label: str | None
    unit: str | None
    optional: bool


def parameter(  # Any: the value of a field is of the field's type, whatever that is
    default: ParameterValue | None = dataclasses.MISSING,  # type: ignore[assignment]
    *,
    core: tuple[str, ...] = (),
    at_least: float | None = None,
    above: float | None = None,
    label: str | None = None,
    unit: str | None = None,
    kw_only: bool = False,
) -> Any:
    """Declare a parameter of a family.

    default: its value where none is given; without one it must be given, with None it may be absent.
    core: dimensions that it has at every point of a grid; one number stands for all along a single one.
    at_least, above: bounds. label, unit: what it is called in records.
    kw_only: whether it is given by name only.

    >>> class Decay(Family):
    ...     rate: Parameter = parameter(1.0, above=0.0, label="rate λ", unit="1/time")
    >>> Decay(rate=[1.0, 2.0]).grid.shape
    (2,)
    >>> Decay(rate=-1.0)
    Traceback (most recent call last):
    ValueError: rate must be above 0, got -1.0
    """
    declared = Declared(core, at_least, above, label, unit, optional=default is None)
    return eqx.field(default=default, metadata={"parameter": declared}, kw_only=kw_only)


class Gridded(eqx.Module):
    """A model whose parameters may vary over a grid, each point of which is simulated and solved in one call.

    A subclass whose constructor does more than to take fields calls `_align` with the parameters; others are families.

    RESULT_NAMES: names that a record uses; no dimension of a grid may have them.
    LABELS: long name and unit of what a record holds beside the parameters.
    """

    RESULT_NAMES: ClassVar[tuple[str, ...]] = ()
    LABELS: ClassVar[Labels] = {}
    grid: Grid = eqx.field(init=False)

    def _align(self, given: Mapping[str, ParameterValue | None]) -> None:
        """Check the parameters, lay them over one grid and keep them as arrays; what is absent stays None."""
        declared = self._declared()
        absent = [name for name, each in declared.items() if each.optional and given[name] is None]
        core = {name: each.core for name, each in declared.items() if name not in absent}
        spread = {name: _spread(given[name], dims) for name, dims in core.items()}
        aligned, self.grid = broadcast(spread, core=core, reserved=self.RESULT_NAMES)
        for name, each in declared.items():
            if name in aligned:
                _check_bounds(name, aligned[name], each)
            setattr(self, name, aligned.get(name))

    @classmethod
    def _declared(cls) -> dict[str, Declared]:
        """What the parameters declare: those that are numbers first, then those with dimensions of their own."""
        found = {each.name: each.metadata["parameter"] for each in dataclasses.fields(cls) if _is_parameter(each)}
        return dict(sorted(found.items(), key=lambda item: bool(item[1].core)))

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the parameters, with one axis for every dimension of the grid (of size 1 where they do not vary).

        >>> from dynascope import SpringBlock
        >>> {name: values.shape for name, values in SpringBlock(noise=[0.0, 0.1]).parameters().items()}["target"]
        (1,)
        """
        fields = {name: getattr(self, name) for name in self._declared()}
        return {name: values for name, values in fields.items() if values is not None}

    def _points(self) -> dict[str, np.ndarray]:
        """The parameters at every point of the grid, (point, …core)."""
        return {name: self._flat(values) for name, values in self.parameters().items()}

    def _flat(self, values: np.ndarray) -> np.ndarray:
        """(…grid, …) -> (point, …)."""
        inner = values.shape[len(self.grid.shape) :]
        return np.broadcast_to(values, (*self.grid.shape, *inner)).reshape(-1, *inner)

    def _unfold(self, values: ArrayLike) -> np.ndarray:
        """(point, …) -> (…grid, …)."""
        return np.asarray(values).reshape((*self.grid.shape, *np.shape(values)[1:]))

    def _everywhere(self, name: str, value: ParameterValue, **core: int) -> np.ndarray:
        """An argument at every point of the grid, (…grid, …core); `core` are names and sizes."""
        dims, shape = (*self.grid.dims, *core), (*self.grid.shape, *core.values())
        if isinstance(value, xr.DataArray):
            strange = [dim for dim in value.dims if dim not in dims]
            if strange:
                raise ValueError(f"{name} must have dimensions among {dims}, got {strange[0]!r}")
            value = value.expand_dims([dim for dim in dims if dim not in value.dims]).transpose(*dims)
        given = as_float(name, value)
        try:
            return np.broadcast_to(given, shape)
        except ValueError as error:
            place = f"(…grid, {', '.join(core)}) =" if core else "the grid"
            raise ValueError(f"{name} must broadcast to {place} {shape}, got shape {given.shape}") from error

    def _require_room(
        self,
        trials: int,
        saves: int,
        *,
        saved: int,
        state: int,
        steps: int,
        beside: int = 0,
        precision: str = "float64",
        **sizes: int,
    ) -> None:
        """Refuse, before any work, what this machine has no memory or time for.

        saved: numbers that the record holds of one trial at one grid point and time
        state: numbers that one trial at one grid point is stepped with; steps: how often
        beside: numbers that all of them share; sizes: what else the cost grows with
        """
        runs = self.grid.size * trials
        named = {"trials": trials, "grid points": self.grid.size, "saved times": saves, "steps": steps, **sizes}
        numbers = runs * (saves * saved + state) + beside
        require_room(named, numbers, updates=runs * state * steps, precision=precision)

    def _labelled(self, run: xr.Dataset) -> xr.Dataset:
        """Write long names and units into a record."""
        labels = {name: (each.label, each.unit) for name, each in self._declared().items()} | dict(self.LABELS)
        for name in run.variables.keys() & labels.keys():
            attributes = zip(("long_name", "units"), labels[str(name)], strict=True)
            run[name].attrs.update({key: text for key, text in attributes if text is not None})
        return run

    def _facts(self) -> dict[str, Any]:  # Any: whatever a record's attributes can hold
        """What provenance says of the model: fields that are no parameters first, then parameters."""
        static = [each.name for each in dataclasses.fields(self) if each.init and not _is_parameter(each)]
        return {name: getattr(self, name) for name in static} | self._plain_parameters()

    def _plain_parameters(self) -> dict[str, np.ndarray]:
        """The parameters without the axes along which they do not vary, where that leaves no doubt."""
        core = {name: each.core for name, each in self._declared().items()}
        return {name: values if core[name] else values.squeeze() for name, values in self.parameters().items()}

    def _signed(
        self, run: xr.Dataset, options: Mapping[str, Any], *, seed: int | None, precision: str, wall_time: float
    ) -> xr.Dataset:
        """The record with its labels and provenance."""
        return with_provenance(
            self._labelled(run),
            type(self).__name__,
            self._facts(),
            options=options,
            seed=seed,
            precision=precision,
            wall_time=wall_time,
        )


class Family(Gridded):
    """A model whose constructor takes its fields: parameters, which are laid over a grid, and others as they are.

    >>> class Decay(Family):
    ...     rate: Parameter = parameter(1.0)
    ...     start: Parameter = parameter(0.0)
    >>> Decay(2.0, start=[0.0, 1.0]).rate.tolist()
    [2.0]
    """

    def __post_init__(self) -> None:
        self._align({name: getattr(self, name) for name in self._declared()})


def over(values: np.ndarray, axes: int) -> np.ndarray:
    """Put further axes behind those of the grid, so that a parameter meets an argument with as many axes.

    >>> over(np.ones((2, 3)), 1).shape
    (2, 3, 1)
    """
    return values.reshape((*values.shape, *(1,) * axes))


def _is_parameter(field: dataclasses.Field[Any]) -> bool:
    return "parameter" in field.metadata


def _spread(value: ParameterValue | None, core: tuple[str, ...]) -> ParameterValue | None:
    """One number stands for all along a single core dimension."""
    return [value] if len(core) == 1 and np.ndim(value) == 0 else value  # type: ignore[arg-type]


def _check_bounds(name: str, values: np.ndarray, declared: Declared) -> None:
    if declared.at_least is not None:
        require(name, values, values >= declared.at_least, f"be at least {declared.at_least:g}")
    if declared.above is not None:
        require(name, values, values > declared.above, f"be above {declared.above:g}")
