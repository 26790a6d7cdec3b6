"""Where numbers can also go while a run is watched: anything with `log(values, step)`.

Each adapter takes an object that the user has already, or makes one; the package is needed only then.
"""

import importlib
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

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


def needs(package: str, install: str) -> Any:
    """Import an optional package, or say how to install it.

    >>> needs("no_such_package", "no-such-package")
    Traceback (most recent call last):
    ImportError: no_such_package is not installed; run: pip install no-such-package
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"{package} is not installed; run: pip install {install}", name=package) from error


class TensorBoard:
    """Scalars for TensorBoard. writer: a SummaryWriter, or the folder for a new one.

    >>> TensorBoard.log.__name__
    'log'
    """

    def __init__(self, writer: Any = "runs") -> None:
        if not hasattr(writer, "add_scalar"):
            needs("tensorboard", "tensorboard")
            writer = needs("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(writer))
        self.writer = writer

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add one scalar per number."""
        for name, value in values.items():
            self.writer.add_scalar(PREFIX + name, value, step)
        self.writer.flush()


class WandB:
    """Numbers for Weights & Biases. run: a run, or None for the one that is active, or else a new one.

    They have a step of their own: W&B drops what comes with a step below the last one that the user logged.

    >>> WandB.log.__name__
    'log'
    """

    def __init__(self, run: Any = None) -> None:
        if run is None:
            wandb = needs("wandb", "wandb")
            run = wandb.run or wandb.init()
        self.run = run
        run.define_metric(PREFIX + "step")
        run.define_metric(PREFIX + "*", step_metric=PREFIX + "step")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log all numbers together."""
        self.run.log({**{PREFIX + name: value for name, value in values.items()}, PREFIX + "step": step})


class MLflow:
    """Metrics for MLflow. client: the module `mlflow` or what has its log_metrics; by default the module.

    >>> MLflow.log.__name__
    'log'
    """

    def __init__(self, client: Any = None) -> None:
        self.client = needs("mlflow", "mlflow") if client is None else client

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log all numbers together."""
        self.client.log_metrics({PREFIX + name: value for name, value in values.items()}, step=step)
