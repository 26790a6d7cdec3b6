"""Where numbers can also go while a run is watched: anything with `log(values, step)`.

Each adapter takes an object that the user has already, or makes one; the package is needed only then.
"""

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Protocol, runtime_checkable

PREFIX = "dynascope/"


@runtime_checkable
class Logger(Protocol):
    """Takes the numbers of one measurement.

    >>> class Print:
    ...     def log(self, values, step):
    ...         print(step, values)
    >>> isinstance(Print(), Logger)
    True
    """

    def log(self, values: dict[str, float], step: int) -> None:
        """Store named numbers of a training step."""
        ...


def needs(package: str, install: str) -> ModuleType:
    """Import an optional package, or say how to install it.

    >>> needs("no_such_package", "no-such-package")
    Traceback (most recent call last):
    ImportError: no_such_package is not installed; run: pip install no-such-package
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"{package} is not installed; run: pip install {install}", name=package) from error


@runtime_checkable
class ScalarWriter(Protocol):
    """What is used of TensorBoard's SummaryWriter.

    >>> isinstance("runs", ScalarWriter)
    False
    """

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, /) -> object:
        """Store one number."""
        ...

    def flush(self) -> object:
        """Bring what is stored to disk."""
        ...


class TensorBoard:
    """Scalars for TensorBoard. writer: a SummaryWriter, or the folder for a new one.

    >>> TensorBoard.log.__name__
    'log'
    """

    def __init__(self, writer: ScalarWriter | str | os.PathLike[str] = "runs") -> None:
        if isinstance(writer, str | os.PathLike):
            needs("tensorboard", "tensorboard")
            self.writer: ScalarWriter = needs("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(writer))
        else:
            self.writer = writer

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add one scalar per number."""
        for name, value in values.items():
            self.writer.add_scalar(PREFIX + name, value, step)
        self.writer.flush()


@runtime_checkable
class WandBRun(Protocol):
    """What is used of a run of Weights & Biases.

    >>> isinstance(None, WandBRun)
    False
    """

    def define_metric(self, name: str, step_metric: str | None = None) -> object:
        """Say against which number a number is shown."""
        ...

    def log(self, data: dict[str, float]) -> object:
        """Store named numbers."""
        ...


class WandB:
    """Numbers for Weights & Biases. run: a run, or None for the one that is active, or else a new one.

    They have a step of their own: W&B drops what comes with a step below the last one that the user logged.

    >>> WandB.log.__name__
    'log'
    """

    def __init__(self, run: WandBRun | None = None) -> None:
        if run is None:
            wandb = needs("wandb", "wandb")
            run = wandb.run or wandb.init()
        self.run: WandBRun = run
        self.run.define_metric(PREFIX + "step")
        self.run.define_metric(PREFIX + "*", step_metric=PREFIX + "step")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log all numbers together."""
        self.run.log({**{PREFIX + name: value for name, value in values.items()}, PREFIX + "step": step})


@runtime_checkable
class MetricClient(Protocol):
    """What is used of MLflow.

    >>> isinstance(None, MetricClient)
    False
    """

    def log_metrics(self, metrics: dict[str, float], step: int) -> object:
        """Store named numbers of a training step."""
        ...


class MLflow:
    """Metrics for MLflow. client: the module `mlflow` or what has its log_metrics; by default the module.

    >>> MLflow.log.__name__
    'log'
    """

    def __init__(self, client: MetricClient | ModuleType | None = None) -> None:
        self.client = needs("mlflow", "mlflow") if client is None else client

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log all numbers together."""
        self.client.log_metrics({PREFIX + name: value for name, value in values.items()}, step=step)
