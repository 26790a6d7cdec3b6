"""What is watched: the user's own training run, seen from outside and left as it is.

Reading a run needs no PyTorch; what does is loaded on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynascope.monitor.attach import Run, watch
    from dynascope.monitor.loggers import Logger, MLflow, TensorBoard, WandB
    from dynascope.monitor.reading import open_run
    from dynascope.monitor.verdicts import verdicts

__all__ = ["Logger", "MLflow", "Run", "TensorBoard", "WandB", "open_run", "verdicts", "watch"]
_ON_FIRST_USE = {
    "Logger": "loggers",
    "MLflow": "loggers",
    "Run": "attach",
    "TensorBoard": "loggers",
    "WandB": "loggers",
    "open_run": "results",
    "verdicts": "verdicts",
    "watch": "attach",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'dynascope.monitor' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dynascope.monitor.{_ON_FIRST_USE[name]}"), name)
