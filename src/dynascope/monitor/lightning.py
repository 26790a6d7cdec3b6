"""Watch a run of PyTorch Lightning: `Trainer(callbacks=[WatchCallback(probe=(x, y), out="runs/first")])`."""

import functools
import math
from typing import Any, Protocol, cast, runtime_checkable

import torch

from dynascope.monitor.attach import watch
from dynascope.monitor.following import Steer, Steering
from dynascope.monitor.loggers import needs
from dynascope.monitor.probing import Source, moved_to
from dynascope.monitor.running import Run
from dynascope.monitor.vitals import optimizer_of
from dynascope.monitor.wrappers import sharded


@runtime_checkable
class _Trainer(Protocol):
    """What is used of Lightning's Trainer."""

    @property
    def is_global_zero(self) -> bool: ...
    @property
    def global_step(self) -> int: ...
    @property
    def estimated_stepping_batches(self) -> float: ...
    @property
    def optimizers(self) -> list[torch.optim.Optimizer]: ...


class Watching:
    """What the callback does: it starts with training, steps with every optimiser step, ends with the fit.

    Arguments are those of `dynascope.watch` without the model. part: name of the submodule of the LightningModule to
    watch, by default the whole module, whose forward must return logits. The training loss is kept as train_loss, and
    the learning rate of the optimiser that trains it. Every checkpoint is measured, so that a fit that continues from
    one can be checked to be the same run. steer: function of run, model and optimizer that steers it, as
    `lambda run, model, optimizer: steer(run, Dropout(model))`; where the knob stands is kept in checkpoints.
    """

    def __init__(
        self,
        probe: Source,
        every: int | str | None = None,
        *,
        part: str = "",
        steer: Steer | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._probe, self._every, self._part, self._options = probe, every, part, options
        self._steer, self._kept = steer, dict[str, Any]()
        self.run: Run | None = None
        self.steering: Steering | None = None

    def on_train_start(self, trainer: _Trainer, pl_module: torch.nn.Module) -> None:
        """Begin in the process that measures; a checkpoint's step is known only now."""
        model = pl_module.get_submodule(self._part)
        if trainer.is_global_zero or sharded(model) or self._steer is not None:
            device = cast(torch.device, pl_module.device)
            probe = moved_to(self._probe, device)
            length = trainer.estimated_stepping_batches
            known: dict[str, Any] = {"steps": int(length)} if 0 < length < math.inf else {}
            known["optimizer"] = optimizer_of(model, trainer.optimizers)
            self.run = watch(model, probe, self._every, first_step=trainer.global_step, **(known | self._options))
        if self._steer is not None and self.run is not None:
            self.steering = self._steer(self.run, model, trainer.optimizers[0])
            if self._kept:
                self.steering.load_state_dict(self._kept)

    def state_dict(self) -> dict[str, Any]:
        """Where the knob stands, for the checkpoint."""
        return {} if self.steering is None else self.steering.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What a checkpoint says of the knob, until training starts."""
        self._kept = state_dict

    def on_train_batch_end(
        self,
        trainer: _Trainer,
        pl_module: torch.nn.Module,
        outputs: torch.Tensor | dict[str, Any] | None,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Step, once for each step of the optimiser."""
        if self.run is not None and trainer.global_step != self.run.steps:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self.run.step(at=trainer.global_step, **({} if loss is None else {"loss": loss}))

    def on_train_epoch_end(self, trainer: _Trainer, pl_module: torch.nn.Module) -> None:
        """Count epochs."""
        if self.run is not None:
            self.run.end_epoch()

    def on_save_checkpoint(self, trainer: _Trainer, pl_module: torch.nn.Module, checkpoint: dict[str, Any]) -> None:
        """Measure what is saved."""
        if self.run is not None:
            self.run.measure_once()

    def on_fit_end(self, trainer: _Trainer, pl_module: torch.nn.Module) -> None:
        """Measure the final state and write the record."""
        if self.run is not None:
            self.run.close()

    def on_exception(self, trainer: _Trainer, pl_module: torch.nn.Module, exception: BaseException) -> None:
        """Write the record of what there is."""
        if self.run is not None:
            self.run.close(last=False)


@functools.cache
def _callback() -> type:
    """The class that Lightning accepts, under either of its two names."""
    try:
        base = needs("lightning.pytorch", "lightning").Callback
    except ImportError:
        base = needs("pytorch_lightning", "lightning").Callback
    return type("WatchCallback", (Watching, base), {"__doc__": Watching.__doc__})


def __getattr__(name: str) -> type:
    if name == "WatchCallback":
        return _callback()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
