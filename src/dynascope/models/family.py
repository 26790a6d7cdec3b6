"""What all model families share: parameters declared once, checked and laid over a grid; labels; provenance.

A family is a frozen module whose fields are parameters:

    class Decay(Family):
        rate: Parameter = parameter(1.0, above=0.0, label="rate of decay λ", unit="1/time")

The declaration gives the default, the bounds that are checked at the door, and the label under which the parameter
stands in records where it varies.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, overload

import equinox as eqx
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import require
from dynascope.models.parameters import Grid, ParameterValue, broadcast, refuse_unknown
from dynascope.records import with_provenance

if TYPE_CHECKING:  # a field takes what a user gives, and holds an array

    class Parameter:
        """A field of a family: numbers, arrays that broadcast or DataArrays go in, float64 arrays come out."""

        @overload
        def __get__(self, instance: None, owner: type) -> "Parameter": ...
        @overload
        def __get__(self, instance: object, owner: type) -> np.ndarray: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: ParameterValue) -> None: ...
else:
    Parameter = Float[np.ndarray, "..."]


class Declared(NamedTuple):
    """What a parameter declares: bounds, the dimensions that it has before any grid, and how it is called."""

    core: tuple[str, ...]
    at_least: float | None
    above: float | None
    label: tuple[str, str]


def parameter(
    default: ParameterValue = dataclasses.MISSING,  # type: ignore[assignment]
    *,
    core: tuple[str, ...] = (),
    at_least: float | None = None,
    above: float | None = None,
    label: str,
    unit: str,
) -> Any:
    """Declare a parameter of a family.

    default: its value where none is given; without one it must be given. core: dimensions that it has at every point
    of a grid. at_least, above: bounds. label, unit: what it is called in records.

    >>> class Decay(Family):
    ...     rate: Parameter = parameter(1.0, above=0.0, label="rate λ", unit="1/time")
    >>> Decay(rate=[1.0, 2.0]).grid.shape
    (2,)
    >>> Decay(rate=-1.0)
    Traceback (most recent call last):
    ValueError: rate must be above 0, got -1.0
    """
    declared = Declared(core, at_least, above, (label, unit))
    return eqx.field(default=default, metadata={"parameter": declared})


class Family(eqx.Module):
    """A model whose parameters may vary over a grid, each point of which is simulated and solved in one call.

    RESULT_NAMES: names that a record uses; no dimension of a grid may have them.
    LABELS: long name and unit of what a record holds beside the parameters.
    """

    RESULT_NAMES: ClassVar[tuple[str, ...]] = ()
    LABELS: ClassVar[Mapping[str, tuple[str, str]]] = {}
    grid: Grid = eqx.field(init=False)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "simulate" in vars(cls):
            cls.simulate = _with_hints(cls.simulate)  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        declared = dict(self._declared())
        given = {name: _spread(getattr(self, name), each.core) for name, each in declared.items()}
        core = {name: each.core for name, each in declared.items()}
        aligned, self.grid = broadcast(given, core=core, reserved=self.RESULT_NAMES)
        for name, values in aligned.items():
            _check_bounds(name, values, declared[name])
            object.__setattr__(self, name, values)
        self._check()

    def _check(self) -> None:
        """Check what concerns more than one parameter, or is none."""

    @classmethod
    def _declared(cls) -> Iterator[tuple[str, Declared]]:
        for each in dataclasses.fields(cls):
            if "parameter" in each.metadata:
                yield each.name, each.metadata["parameter"]

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the parameters, with one axis for every dimension of the grid (of size 1 where they do not vary).

        >>> from dynascope import SpringBlock
        >>> {name: values.shape for name, values in SpringBlock(noise=[0.0, 0.1]).parameters().items()}["target"]
        (1,)
        """
        return {name: getattr(self, name) for name, _ in self._declared()}

    def _points(self) -> dict[str, np.ndarray]:
        """The parameters at every point of the grid, (point, …core)."""
        return {name: self._flat(values) for name, values in self.parameters().items()}

    def _flat(self, values: np.ndarray) -> np.ndarray:
        """(…grid, …) -> (point, …)."""
        inner = values.shape[len(self.grid.shape) :]
        return np.broadcast_to(values, (*self.grid.shape, *inner)).reshape(-1, *inner)

    def _unfold(self, values: np.ndarray) -> np.ndarray:
        """(point, …) -> (…grid, …)."""
        return np.asarray(values).reshape((*self.grid.shape, *np.shape(values)[1:]))

    def _labelled(self, run: xr.Dataset) -> xr.Dataset:
        """Write long names and units into a record."""
        labels = dict(self.LABELS) | {name: declared.label for name, declared in self._declared()}
        for name in run.variables.keys() & labels.keys():
            long_name, units = labels[str(name)]
            run[name].attrs.update(long_name=long_name, units=units)
        return run

    def _signed(
        self, run: xr.Dataset, options: Mapping[str, Any], *, seed: int | None, precision: str, wall_time: float
    ) -> xr.Dataset:
        """The record with its provenance: fields that are no parameters first, then parameters."""
        static = [each.name for each in dataclasses.fields(self) if each.init and "parameter" not in each.metadata]
        facts = {name: getattr(self, name) for name in static}
        facts |= {name: values.squeeze() for name, values in self.parameters().items()}
        return with_provenance(
            run, type(self).__name__, facts, options=options, seed=seed, precision=precision, wall_time=wall_time
        )


def over(values: np.ndarray, axes: int) -> np.ndarray:
    """Put further axes behind those of the grid, so that a parameter meets an argument with as many axes.

    >>> over(np.ones((2, 3)), 1).shape
    (2, 3, 1)
    """
    return values.reshape((*values.shape, *(1,) * axes))


def _spread(value: ParameterValue, core: tuple[str, ...]) -> ParameterValue:
    """One number stands for all along a single core dimension."""
    return [value] if len(core) == 1 and np.ndim(value) == 0 else value  # type: ignore[arg-type]


def _check_bounds(name: str, values: np.ndarray, declared: Declared) -> None:
    if declared.at_least is not None:
        require(name, values, values >= declared.at_least, f"be at least {declared.at_least:g}")
    if declared.above is not None:
        require(name, values, values > declared.above, f"be above {declared.above:g}")


def _with_hints(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which names what is near where an option is unknown."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        refuse_unknown({name: value for name, value in options.items() if name not in known}, function)
        return function(*arguments, **options)

    return checked
