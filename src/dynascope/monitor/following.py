"""What acts on a watched run, as the run and the callbacks of trainers see it: `dynascope.steering`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from torch import nn

from dynascope.monitor.measuring import Numbers
from dynascope.records import Json

if TYPE_CHECKING:
    from dynascope.monitor.running import Run


class Follower(Protocol):
    """What is called after every scheduled measurement."""

    def measured(self, step: int, numbers: Numbers | None) -> None:
        """Act on what was measured: None where that failed, and in processes that do not measure."""


class Steering(Follower, Protocol):
    """What turns a knob, whose place a checkpoint keeps."""

    def state_dict(self) -> dict[str, Json]:
        """Where it stands."""

    def load_state_dict(self, state: object) -> None:
        """Go on from there."""


Steer = Callable[["Run", nn.Module, Any], Steering]  # of run, model and optimizer
