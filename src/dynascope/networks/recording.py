"""The course of an ensemble's training: measure at chosen steps, save on the way, go on after an interruption.

Needs only PyTorch and NumPy.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypedDict, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from dynascope.files import write_whole
from dynascope.networks.measuring import measured
from dynascope.networks.training import Trainer
from dynascope.progress import progress_bar
from dynascope.schema import read_arrays

_PIECE = 200  # steps between two looks at the clock
_SAVE_SECONDS = 30.0


class _Shape(TypedDict):
    """What measuring must know of a network."""

    classes: int
    probes: Sequence[str]
    last: str


class Hand(Protocol):
    """What turns a setting of the trials in training, and says how it stands."""

    def turn(self) -> None:
        """Measure the trials as they are now, and turn."""

    def shown(self) -> dict[str, Tensor]:
        """What the record shall have of it, by name, (trial,)."""


@runtime_checkable
class Steers(Protocol):
    """What trials are steered by; `dynascope.steering.Helm` is one."""

    knob: str
    every: int

    def begin(self, trainer: Trainer) -> Hand:
        """Check that it suits these trials, and take the helm."""


@dataclass
class Course:
    """What is measured, when, and where the state is saved.

    probes: inputs, and labels or targets, on which the trials are measured, by name; one without a name is called ""
    record_at: steps at which they are measured, increasing, the last one is where training ends
    measures: measures of features that are taken too
    keep_outputs: also keep the outputs on each probe sample
    checkpoint: .npz file to save to and go on from
    checkpoint_every: save after as many steps; every 30 seconds if not given
    fingerprint: text that must be the same for a checkpoint to be used
    steer: what turns a setting on the way
    """

    probes: Mapping[str, tuple[np.ndarray, np.ndarray]]
    record_at: Sequence[int]
    measures: Sequence[str] = ()
    keep_outputs: bool = False
    checkpoint: Path | None = None
    checkpoint_every: int | None = None
    fingerprint: str = ""
    progress: bool | None = None
    steer: Steers | None = None
    records: dict[str, list[Tensor]] = field(default_factory=dict)
    recorded: list[int] = field(default_factory=list)

    def run(self, trainer: Trainer) -> dict[str, np.ndarray]:
        """Train to the end and return arrays over (trial, step, …); a checkpoint that is there is continued."""
        if self.checkpoint is not None and self.checkpoint.exists():
            self._resume(trainer)
        probes = {name: (trainer.inputs(x), trainer.labels(y)) for name, (x, y) in self.probes.items()}
        last, saved, saved_at = int(self.record_at[-1]), trainer.steps_done, time.monotonic()
        begun, first = time.monotonic(), trainer.steps_done
        hand = None if self.steer is None else self.steer.begin(trainer)
        targets = [step for step in self.record_at if step not in self.recorded]

        def how() -> str:
            loss = float(self.records["loss"][-1].nanmean())
            return f"loss {loss:.3g}, {(trainer.steps_done - first) / (time.monotonic() - begun + 1e-9):.0f} steps/s"

        with progress_bar("training", last, self.progress) as done:
            for target in targets:
                while trainer.steps_done < target:
                    trainer.advance(min(self._piece(trainer.steps_done), int(target) - trainer.steps_done))
                    if hand is not None and self.steer is not None and trainer.steps_done % self.steer.every == 0:
                        hand.turn()
                    due = self._due(trainer.steps_done - saved, time.monotonic() - saved_at)
                    if due and trainer.steps_done < last:  # the end is saved once it is measured
                        self._save(trainer)
                        saved, saved_at = trainer.steps_done, time.monotonic()
                self._measure(trainer, probes, {} if hand is None else hand.shown())
                done(trainer.steps_done, how)
        if self.checkpoint is not None and targets:
            self._save(trainer)
        return self._arrays() | self._drawn(trainer) | {"diverged_at": trainer.state()["diverged_at"]}

    def _piece(self, done: int) -> int:
        """How many steps to take before something else may be due."""
        piece = _PIECE if self.checkpoint_every is None else min(_PIECE, self.checkpoint_every)
        return piece if self.steer is None else min(piece, self.steer.every - done % self.steer.every)

    def _due(self, steps: int, seconds: float) -> bool:
        if self.checkpoint is None:
            return False
        return seconds > _SAVE_SECONDS if self.checkpoint_every is None else steps >= self.checkpoint_every

    @torch.no_grad()
    def _measure(
        self, trainer: Trainer, probes: Mapping[str, tuple[Tensor, Tensor]], shown: Mapping[str, Tensor]
    ) -> None:
        """Measure all trials on all probes; nothing leaves the device."""
        each = [self._look(trainer, x, y) for x, y in probes.values()]
        found = each[0] if "" in probes else {n: torch.stack([one[n] for one in each], 1) for n in each[0]}
        since = trainer.steps_done - (self.recorded[-1] if self.recorded else 0)
        total = trainer.mutable["loss_sum"]
        found["train_loss"] = total / since if since else total + torch.nan
        found |= shown
        before = {name: (len(values), values[0].shape) for name, values in self.records.items() if values}
        if before and before != {name: (len(self.recorded), value.shape) for name, value in found.items()}:
            raise ValueError(self._damaged)
        for name, value in found.items():
            self.records.setdefault(name, []).append(value)
        self.recorded.append(trainer.steps_done)
        total.zero_()
        diverged = trainer.mutable["diverged_at"]
        if bool((diverged >= 0).all()):
            raise FloatingPointError(
                f"all {trainer.size} trials left the finite numbers, the first at step {int(diverged.min())}; "
                "lower learning_rate"
            )

    def _look(self, trainer: Trainer, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """What one probe shows: class means, loss, accuracy, outputs, measures of features."""
        found: dict[str, Tensor] = {}
        if self.measures:
            outputs, found = self._measure_features(trainer, x, y)
        else:
            outputs = trainer.outputs(x)
        found["loss"] = trainer.losses(outputs, y)
        if not y.is_floating_point():
            members = torch.nn.functional.one_hot(y, trainer.network.classes).to(outputs.dtype)
            found["class_mean"] = (members / members.sum(1, keepdim=True)).mT @ outputs
            found["accuracy"] = (outputs.argmax(-1) == y).to(outputs.dtype).mean(1)
        if self.keep_outputs:
            found["output"] = outputs
        return found

    def _measure_features(self, trainer: Trainer, x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs and measures, for some trials at a time."""
        network = trainer.network
        at = {*(network.probes if any(name.startswith("load") for name in self.measures) else ()), network.last}
        shape: _Shape = {"classes": network.classes, "probes": network.probes, "last": network.last}
        outputs, parts = [], []
        for trials, features in trainer.features(x, tuple(at)):
            outputs.append(features["logits"])
            parts.append(measured(self.measures, features, y[trials], **shape))
        return torch.cat(outputs), {name: torch.cat([part[name] for part in parts]) for name in self.measures}

    def _arrays(self) -> dict[str, np.ndarray]:
        """(trial, step, …)."""
        return {name: torch.stack(values, 1).cpu().numpy() for name, values in self.records.items()}

    def _drawn(self, trainer: Trainer) -> dict[str, np.ndarray]:
        return {"drawn_output": np.concatenate(trainer.drawn, 1)} if trainer.drawn else {}

    def _save(self, trainer: Trainer) -> None:
        assert self.checkpoint is not None
        content = {f"state/{name}": values for name, values in trainer.state().items()}
        content |= {f"record/{name}": values for name, values in (self._arrays() | self._drawn(trainer)).items()}
        content |= {"recorded": np.array(self.recorded), "fingerprint": np.array(self.fingerprint)}
        write_whole(self.checkpoint, lambda place: np.savez(place, allow_pickle=False, **content))

    @property
    def _damaged(self) -> str:
        return f"checkpoint {str(self.checkpoint)!r} is damaged or is none: remove it"

    def _resume(self, trainer: Trainer) -> None:
        assert self.checkpoint is not None
        try:
            content = read_arrays(self.checkpoint)
            fingerprint, recorded = str(content.pop("fingerprint")), content.pop("recorded").tolist()
            at = int(content["state/step"][0])
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise ValueError(self._damaged) from error
        planned = [int(step) for step in self.record_at if step < at or step in recorded]
        if fingerprint != self.fingerprint or recorded != planned:
            raise ValueError(
                f"checkpoint {str(self.checkpoint)!r} belongs to another run (other data, settings or recorded steps): "
                "remove it or name another file"
            )
        state = {name.removeprefix("state/"): v for name, v in content.items() if name.startswith("state/")}
        if _layout(state) != _layout(trainer.state()):
            raise ValueError(self._damaged)
        trainer.restore(state)
        for name, values in content.items():
            if name.startswith("record/") and (values.dtype.kind not in "biuf" or values.ndim < 2):
                raise ValueError(self._damaged)
            if name == "record/drawn_output":
                trainer.drawn = [values]
            elif name.startswith("record/"):
                each = torch.as_tensor(values).to(trainer.device).unbind(1)
                self.records[name.removeprefix("record/")] = list(each)
        self.recorded = recorded


def _layout(state: Mapping[str, np.ndarray]) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    return {name: (values.dtype, values.shape) for name, values in state.items()}
