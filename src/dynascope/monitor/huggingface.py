"""Watch a run of the Hugging Face Trainer: `Trainer(…, callbacks=[WatchCallback(probe=(inputs, labels))])`."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch

from dynascope.monitor.attach import watch
from dynascope.monitor.following import Steer, Steering
from dynascope.monitor.loggers import needs
from dynascope.monitor.probing import Source, moved_to
from dynascope.monitor.running import Run
from dynascope.monitor.vitals import optimizer_of
from dynascope.monitor.wrappers import sharded


@runtime_checkable
class _State(Protocol):
    """What is used of the state of the Trainer."""

    @property
    def is_world_process_zero(self) -> bool: ...
    @property
    def global_step(self) -> int: ...
    @property
    def max_steps(self) -> int: ...
    @property
    def log_history(self) -> Sequence[Mapping[str, float]]: ...


class Watching:
    """What the callback does: it starts with the training, steps with every optimiser step, ends with the training.

    Arguments are those of `dynascope.watch` without the model; inputs are usually a dict of tensors, as a tokenizer
    returns; a data set of such dicts serves too. The last loss that the Trainer logged is kept as train_loss, and the
    learning rate. Every checkpoint is measured, so that a training that continues from one can be checked to be the
    same run. steer: function of run, model and optimizer that steers it, as
    `lambda run, model, optimizer: steer(run, Dropout(model))`; with `out` a training that continues takes up the knob
    where it stood.
    """

    def __init__(
        self, probe: Source, every: int | str | None = None, *, steer: Steer | None = None, **options: Any
    ) -> None:
        super().__init__()
        self._probe, self._every, self._steer, self._options = probe, every, steer, options
        self.run: Run | None = None
        self.steering: Steering | None = None

    def on_train_begin(
        self,
        args: object,
        state: _State,
        control: object,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        **_: object,
    ) -> None:
        """Begin in the process that measures."""
        if state.is_world_process_zero or sharded(model) or self._steer is not None:
            probe = moved_to(self._probe, next(model.parameters()).device)
            known: dict[str, Any] = {"steps": state.max_steps} if state.max_steps > 0 else {}
            known["optimizer"] = optimizer_of(model, [optimizer])
            self.run = watch(model, probe, self._every, first_step=state.global_step, **(known | self._options))
        if self._steer is not None and self.run is not None:
            self.steering = self._steer(self.run, model, optimizer)

    def on_step_end(self, args: object, state: _State, control: object, **_: object) -> None:
        """Step, with the newest loss of the Trainer's log."""
        if self.run is not None:
            losses = [entry["loss"] for entry in state.log_history[-5:] if "loss" in entry]
            self.run.step(at=state.global_step, **({"loss": losses[-1]} if losses else {}))

    def on_epoch_end(self, args: object, state: _State, control: object, **_: object) -> None:
        """Count epochs."""
        if self.run is not None:
            self.run.end_epoch()

    def on_save(self, args: object, state: _State, control: object, **_: object) -> None:
        """Measure what was saved."""
        if self.run is not None:
            self.run.measure_once()

    def on_train_end(self, args: object, state: _State, control: object, **_: object) -> None:
        """Measure the final state and write the record."""
        if self.run is not None:
            self.run.close()


@functools.cache
def _callback() -> type:
    """The class that the Trainer accepts."""
    base = needs("transformers", "transformers").TrainerCallback
    return type("WatchCallback", (Watching, base), {"__doc__": Watching.__doc__})


def __getattr__(name: str) -> type:
    if name == "WatchCallback":
        return _callback()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
