"""What can be swept: anything that says which parameters it takes and makes one record for each configuration."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import xarray as xr

REQUIRED = inspect.Parameter.empty  # the default of a parameter that has none
Configuration = dict[str, Any]  # a parameter's value is whatever the experiment takes


@runtime_checkable
class RegisteredExperiment(Protocol):
    """What is used of an experiment of the registry.

    >>> isinstance(xr.Dataset, RegisteredExperiment)
    False
    """

    title: str
    run: Callable[..., object]
    record: Callable[..., xr.Dataset]
    settings: Callable[[str], Any]


@dataclass(frozen=True)
class Workload:
    """An experiment that runs packs of configurations, those that can share one vmapped ensemble for instance.

    run: takes a list of configurations and returns as many datasets, in the same order. A configuration is a dict that
        holds a value for every parameter. Results must depend on the configurations alone, and a configuration's result
        on the others in its pack to float tolerance at most. Defined at the top of a module, so that workers find it.
    defaults: every parameter with its default; `seed` is the one that `seeds` sets
    shared: parameters whose values are equal in a pack (batch size, width, data set)
    seconds: cost of one configuration on one core, a number or a function of the configuration; packs are sized by it.
        None: a pack is one configuration.
    gpu: runs on a GPU where there is one, so that each gets a worker of its own
    memory: bytes that one configuration takes on it, a number or a function of the configuration; a pack that needs
        more than there are is run in parts. None: in halves, if memory is full.
    name: for people; the name of `run` if not given

    >>> def decays(pack):
    ...     return [xr.Dataset({"left": 0.5 ** each["time"]}) for each in pack]
    >>> Workload(decays, {"time": 1.0}).run([{"time": 1.0}, {"time": 2.0}])[1]["left"].item()
    0.25
    """

    run: Callable[[list[Configuration]], Sequence[xr.Dataset]]
    defaults: Mapping[str, object]
    shared: tuple[str, ...] = ()
    seconds: float | Callable[[Configuration], float] | None = None
    name: str = ""
    gpu: bool = False
    memory: float | Callable[[Configuration], float] | None = None
    origin: object = field(default=None, compare=False)  # whose source decides the address; `run` if not given

    def __post_init__(self) -> None:
        unknown = [name for name in self.shared if name not in self.defaults]
        if unknown:
            raise ValueError(f"shared must name parameters out of {', '.join(self.defaults)}, got {unknown[0]!r}")
        if self.memory is not None and not self.gpu:
            raise ValueError("memory must be left out where gpu is False: it is that of a GPU")
        if not self.name:
            object.__setattr__(self, "name", getattr(self.run, "__qualname__", type(self.run).__name__))
        if self.origin is None:
            object.__setattr__(self, "origin", self.run)


@dataclass(frozen=True)
class OneByOne:
    """Runs a pack by calling a function of one configuration for each.

    >>> OneByOne(dict)([{"a": 1}])[0]["a"].item()
    1
    """

    function: Callable[..., object]

    def __call__(self, pack: list[Configuration]) -> list[xr.Dataset]:
        """Call the function with each configuration's parameters."""
        return [as_dataset(self.function(**each)) for each in pack]


# what sweeps of earlier versions keep of arguments that were left out; given, they are refused where without effect
_LEFT_OUT: Mapping[str, Mapping[str, float]] = {
    "SpringBlock": {"damping": 1.0},
    "DeepLinear": {"isotropic_noise": 1.0},
    "LocallyElastic": {"dt": 0.01, "batch_size": 1},
    "ScalarNetwork": {"width": 20},
}


@dataclass(frozen=True)
class OfModel:
    """Runs a model family: makes the model, simulates it."""

    model: type[Any]

    def __call__(self, pack: list[Configuration]) -> list[xr.Dataset]:
        """Split each configuration into the model's parameters and those of its simulation."""
        made, old = inspect.signature(self.model).parameters, _LEFT_OUT.get(self.model.__name__, {}).items()
        given = [{name: value for name, value in each.items() if (name, value) not in old} for each in pack]
        return [
            self.model(**{name: value for name, value in each.items() if name in made}).simulate(
                **{name: value for name, value in each.items() if name not in made}
            )
            for each in given
        ]


@dataclass(frozen=True)
class OfExperiment:
    """Runs an experiment of the registry with some fields of its config changed."""

    run: Callable[..., xr.Dataset]
    config: Any  # a dataclass of the experiment's own

    def __call__(self, pack: list[Configuration]) -> list[xr.Dataset]:
        """Run one config after another."""
        return [self.run(dataclasses.replace(self.config, **each)) for each in pack]


def as_workload(experiment: object, scale: str = "laptop") -> Workload:
    """Make a Workload of a plain function, a model family or an experiment of the registry.

    experiment: a `Workload`; a function of one configuration that returns a Dataset or a dict of numbers; a class with
        `simulate`; an `Experiment`, whose config at `scale` gives the defaults

    >>> def decay(time=1.0):
    ...     return {"left": 0.5 ** time}
    >>> as_workload(decay).defaults
    {'time': 1.0}
    """
    if isinstance(experiment, Workload):
        return experiment
    if isinstance(experiment, RegisteredExperiment):
        own = getattr(experiment, "sweep", None)
        if own is not None:
            return as_workload(own)
        config = experiment.settings(scale)
        defaults = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
        gpu = "torch" in getattr(experiment, "needs", ())  # networks are trained on a GPU where there is one
        run = OfExperiment(experiment.record, config)
        return Workload(run, defaults, name=experiment.title, origin=experiment.run, gpu=gpu)
    if inspect.isclass(experiment) and hasattr(experiment, "simulate"):
        defaults = _parameters(experiment) | _parameters(experiment.simulate)
        return Workload(OfModel(experiment), defaults, name=experiment.__name__, origin=experiment)
    if callable(experiment):
        name = getattr(experiment, "__qualname__", type(experiment).__name__)
        return Workload(OneByOne(experiment), _parameters(experiment), name=name, origin=experiment)
    raise ValueError(
        "experiment must be a function, a Workload, a model family or an experiment of the registry, "
        f"got {type(experiment).__name__}"
    )


def _parameters(function: Callable[..., object]) -> dict[str, object]:
    """Parameters that can be given by name; not those that only say how to work."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(function).parameters
    return {n: each.default for n, each in found.items() if each.kind in named and n not in ("self", "progress")}


def as_dataset(result: object) -> xr.Dataset:
    """Take a dataset as it is, and a dict of numbers as one.

    >>> as_dataset({"loss": 0.5})["loss"].item()
    0.5
    """
    if isinstance(result, xr.Dataset):
        return result
    if isinstance(result, Mapping):
        return xr.Dataset(dict(result))
    raise ValueError(f"an experiment must return an xarray.Dataset or a dict of numbers, got {type(result).__name__}")
