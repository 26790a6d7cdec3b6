"""A run that is watched: when it is measured, what of it is written down, and what is said about it."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, SupportsFloat

import torch
from torch import nn

from dynascope.measure.elasticity import Loss
from dynascope.measure.side_effects import undisturbed
from dynascope.monitor import measuring
from dynascope.monitor.cadence import Cadence
from dynascope.monitor.features import WHOLE, Features, Layers, read_features, read_outputs, read_test
from dynascope.monitor.findings import VARIABLES, Finding
from dynascope.monitor.following import Follower
from dynascope.monitor.health import examine, thinned
from dynascope.monitor.inside import look_inside
from dynascope.monitor.journal import Journal
from dynascope.monitor.loggers import Logger
from dynascope.monitor.measuring import Numbers
from dynascope.monitor.probing import Inputs, Probe, tensors_of
from dynascope.monitor.reading import RunRecord, assemble, flat
from dynascope.monitor.resuming import SAME, apart, heading, open_journal
from dynascope.monitor.tables import to_html
from dynascope.monitor.tasks import Task
from dynascope.monitor.telling import guarded
from dynascope.monitor.vitals import Vitals
from dynascope.monitor.wrappers import agreed, as_written, rank, sharded
from dynascope.records import Json, save

if TYPE_CHECKING:
    import pandas as pd

_FEW = slice(WHOLE)  # samples of the probe that show how a network is built


@dataclass(frozen=True)
class Settings:
    """How features are taken and what is measured of them."""

    reduce: str
    max_features: int
    class_logits: bool
    inside: bool
    loss: Loss


class Run:
    """A run that is watched; `watch` makes it. Use it in a `with` block, or call `close` at the end.

    The state before training is measured when it is made, the one at the end when it is closed in good order.
    `layers` are the names of layers in order, `skipped` says why others have no features, `overhead` is the time spent
    on measuring relative to training. In processes other than the first of a distributed run it does nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        probe: Probe,
        layers: Layers | None,
        *,
        cadence: Cadence,
        settings: Settings,
        loggers: Sequence[Logger] = (),
        class_names: Sequence[str] | None = None,
    ) -> None:
        self._vitals: Vitals | None = None
        self._on_verdict: Callable[[Finding], object] | None = None
        self._found: set[str] = set()
        self._model, self._probe, self._layers = model, probe, layers
        self._cadence, self._settings, self._class_names = cadence, settings, class_names
        self._together, self._first = sharded(model), rank() == 0
        self._loggers = tuple(loggers) if self._first else ()
        self._told: set[object] = set()
        self._followers: list[Follower] = []
        self._closed = False
        self._journal: Journal | None = None
        self._entries: list[dict[str, Json]] = []
        self._values: dict[str, SupportsFloat] = {}
        self._slow_at: int | None = None
        self._head: dict[str, Json] = {}
        self._step, self._before, self._begun = 0, 0.0, time.perf_counter()

    def examine(self, vitals: Vitals, on_verdict: Callable[[Finding], object] | None) -> None:
        """Collect what rules about health need, and tell findings; `watch` calls it."""
        self._vitals, self._on_verdict = vitals, on_verdict

    def begin(self, out: str | os.PathLike[str] | None, *, first_step: int | None, resume: bool | None) -> None:
        """Find the folder, and measure the state before training; `watch` calls it."""
        if self._layers is None:
            return
        vitals = self._vitals
        self._head = start = heading(
            self._model,
            self._probe,
            self._layers,
            cadence=self._cadence,
            options={"reduce": self._settings.reduce, "max_features": self._settings.max_features},
            facts={
                "class_names": self._class_names,
                "weights": [] if vitals is None else vitals.weights.names,
                "skipped": self.skipped,
                "notes": self.notes,
            },
        )
        measured: list[tuple[Features, Numbers]] = []
        self._cadence.begin()
        self._guarded(lambda: measured.append(self._quick()))

        def decide() -> tuple[int, bool]:
            """Steps that are done, and whether this state has been measured."""
            if out is None:
                return first_step or 0, False
            now = measured[0][1] if measured else None
            self._journal, step = open_journal(out, start, now, first_step=first_step, resume=resume)
            self._entries = self._journal.entries
            done = [entry for entry in self._entries if entry["kind"] == "measure"]
            self._before = done[-1]["time"] if done else 0.0
            return step, any(entry["step"] == step for entry in done)

        self._step, known = agreed(decide) if self._together else decide()
        self._write(start)
        self._begun = time.perf_counter()
        if measured and not known:
            self._guarded(lambda: self._complete(self._before, *measured[0]))

    @property
    def layers(self) -> list[str]:
        """Names of the layers, in the order in which they run."""
        return [] if self._layers is None else self._layers.names

    @property
    def kinds(self) -> list[str]:
        """What each layer is made of, in the same order: Linear, Conv2d, …; nothing for the input."""
        return [] if self._layers is None else self._layers.kinds

    @property
    def skipped(self) -> dict[str, str]:
        """What is not measured, and why."""
        reasons = {} if self._layers is None else dict(self._layers.skipped)
        why = self._inelastic
        return reasons | ({"elasticity": why} if why and self._cadence.slow else {})

    @property
    def _inelastic(self) -> str:
        if self._layers is None:
            return ""
        return "the model is sharded" if self._together else measuring.can_step(self._probe, self._layers.reading.task)

    @property
    def notes(self) -> list[str]:
        """What was guessed about output, task and positions, and whether the probe is too small."""
        return [] if self._layers is None else list(self._layers.notes)

    @property
    def folder(self) -> Path | None:
        """Where measurements are written; None if they stay in memory."""
        return None if self._journal is None else self._journal.folder

    @property
    def steps(self) -> int:
        """Number of training steps done, as far as the run was told."""
        return self._step

    @property
    def overhead(self) -> float:
        """Time spent on measuring so far, relative to the time spent on training."""
        return self._cadence.overhead

    @property
    def record(self) -> RunRecord:
        """All measurements so far as one labelled record: loads (step, layer), linearity (step), …"""
        if self._layers is None:
            raise ValueError("record must be read in process 0 of a distributed run, which measures")
        return assemble(self._entries)

    def to_pandas(self) -> "pd.DataFrame":
        """All numbers so far, one row each: step, time, name, labels, value."""
        return self.record.to_pandas()

    def _repr_html_(self) -> str:
        return to_html(self.record) if self._entries else ""

    def step(self, at: int | None = None, **values: SupportsFloat) -> None:
        """Tell that a training step is done, and measure if it is time to.

        at: number of steps done, if the loop counts them itself. values: numbers to keep beside the measurements, such
        as loss=loss (a tensor is read only when it is needed); stored as train_loss.
        """
        self._step = self._step + 1 if at is None else int(at)
        if self._closed:
            return
        if self._layers is not None:
            self._values = {name: each.detach() if hasattr(each, "detach") else each for name, each in values.items()}
            self._guarded(self._note)
        if self._cadence.due(self._step):
            self._scheduled()

    def end_epoch(self) -> None:
        """Tell that an epoch is done; with every="epoch" this is when to measure."""
        if not self._closed and self._cadence.due_at_epoch():
            self._scheduled()

    def _scheduled(self) -> None:
        """Measure, and let those act who follow the run: in every process, since they may have to agree."""
        seen: list[Numbers] = []
        if self._layers is not None:
            self._guarded(lambda: seen.append(self._measured()))
        for each in self._followers:
            each.measured(self._step, seen[0] if seen else None)

    @property
    def task(self) -> Task | None:
        """What is measured; None in processes of a distributed run that do not measure."""
        return None if self._layers is None else self._layers.reading.task

    @property
    def by_the_clock(self) -> bool:
        """Whether time decides when to measure."""
        return self._cadence.max_overhead is not None

    @property
    def turns(self) -> list[dict[str, Json]]:
        """What followers did up to the present step, as the journal has it."""
        return [entry for entry in self._entries if entry["kind"] == "turn" and entry["step"] <= self._step]

    def charged(self) -> AbstractContextManager[None]:
        """Book what is done inside as a part of the last measurement."""
        return self._cadence.charge("fast", more=True)

    @property
    def sharded(self) -> bool:
        """Whether the weights lie in several processes, so that all of them must look at the model together."""
        return self._together

    @property
    def inputs(self) -> int:
        """How many tensors the model takes."""
        return len(tensors_of(self._probe.inputs))

    def look(self, inputs: Inputs | None = None) -> torch.Tensor:
        """What the model says of inputs without labels, or of a few of the probe if not given, in evaluation mode."""
        assert self._layers is not None
        with undisturbed(self._model), as_written(self._model):
            return read_outputs(self._model, self._probe.part(_FEW) if inputs is None else inputs, self._layers)

    def follow(self, follower: Follower) -> None:
        """Let something act on every scheduled measurement, and on no other."""
        self._followers.append(follower)

    def acted(self, entry: dict[str, Json]) -> None:
        """Write down what a follower did, and tell the loggers."""
        self._guarded(lambda: self._write(entry | {"step": self._step}))
        for each in self._loggers:
            self._guarded(partial(each.log, {entry["knob"]: entry["value"]}, self._step))

    def _note(self) -> None:
        """Keep the loss, and see what the step after a measurement has changed."""
        if self._vitals is None:
            return
        if "loss" in self._values:
            self._vitals.losses.add(self._step, self._values["loss"])
        if self._vitals.weights.waits:
            with self._cadence.charge("fast", more=True):
                self._vitals.weights.stepped()

    def read_gradients(self) -> None:
        """Read gradients for the next measurement, if one is due after this step; an optimiser's hook calls it."""
        if self._vitals is not None and self._cadence.due(self._step + 1):
            with self._cadence.charge("fast", more=True):
                self._guarded(self._vitals.weights.read_gradients)

    def measure(self, slow: bool | None = None) -> None:
        """Measure now. slow: with the slow measures or without; by default when they are due. Errors are raised."""
        if self._layers is not None and not self._closed:
            self._measured(slow)

    def _measured(self, slow: bool | None = None) -> Numbers:
        now = self._now()
        features, numbers = self._quick()
        self._complete(now, features, numbers, slow=slow)
        return numbers

    def _complete(self, now: float, features: Features, numbers: Numbers, *, slow: bool | None = None) -> None:
        """Add health, and slow measures where they are due, to a measurement and keep it."""
        assert self._layers is not None
        if self._vitals is not None:
            with self._measuring("fast", more=True):
                numbers |= self._vitals.measure(features, self._layers.reading.task)
        skips = sum(layer.own is not None for layer in self._layers.hidden)
        self._cadence.expect_slow(2 + skips + measuring.elasticity_passes(self._layers.reading.task))
        if self._cadence.due_slow() if slow is None else slow:
            numbers |= self._slow(features)
        self._keep(now, numbers | self._given())

    def measure_once(self) -> None:
        """Measure now, without the slow measures, if this step was not measured: a checkpoint is made of it."""
        done = any(entry["kind"] == "measure" and entry["step"] == self._step for entry in self._entries)
        if not done:
            self._guarded(lambda: self.measure(slow=False))

    def _now(self) -> float:
        """Seconds since the start; training that is still under way on a GPU is not our time."""
        if next(self._model.parameters(), torch.empty(0)).is_cuda:
            torch.cuda.synchronize()
        return self._before + time.perf_counter() - self._begun

    def _given(self) -> Numbers:
        return {f"train_{name}": float(value) for name, value in self._values.items()}

    def _quick(self) -> tuple[Features, Numbers]:
        layers, settings = self._layers, self._settings
        assert layers is not None
        with self._measuring("fast"):
            features = read_features(self._model, self._probe, layers, settings.reduce, settings.max_features)
            numbers = measuring.quick(features, layers, class_logits=settings.class_logits)
            if settings.inside:
                numbers |= look_inside(self._model, self._probe, layers)
            held_back = read_test(self._model, self._probe, layers, settings.reduce, settings.max_features)
            if held_back is not None and layers.test is not None:
                numbers |= measuring.on_test(held_back, layers.test)
            return features, numbers

    @contextmanager
    def _measuring(self, kind: str, *, more: bool = False) -> Iterator[None]:
        with self._cadence.charge(kind, more=more), undisturbed(self._model), as_written(self._model):
            yield

    def _slow(self, features: Features) -> Numbers:
        """Spectrum, skips and elasticity; one that fails leaves the others, and what was measured already, alone."""
        numbers: Numbers = {}
        layers, settings = self._layers, self._settings
        assert layers is not None
        parts = self._model, self._probe, layers
        skips = measuring.skip_costs
        self._slow_at = self._step
        with self._measuring("slow"):
            self._guarded(lambda: numbers.update(measuring.spectrum(features, layers.reading.task)))
            self._guarded(lambda: numbers.update(skips(*parts, features, settings.reduce, settings.max_features)))
            if not self._inelastic:
                self._guarded(lambda: numbers.update(measuring.elasticity(*parts, settings.loss)))
        return numbers

    def _keep(self, now: float, numbers: Numbers, *, shown: Numbers | None = None, changed: bool = False) -> None:
        """Write a measurement down and hand it, or the part of it that is new, to the loggers."""
        with self._cadence.charge("fast", more=True):
            entry = {"kind": "measure", "step": self._step, "time": now, "numbers": numbers}
            self._write(entry | ({"changed": True} if changed else {}))
            if self._loggers:
                values = flat(self._head, numbers if shown is None else shown)
                prefix = "final/" if changed else ""  # the last step is there already
                for each in self._loggers:
                    each.log({prefix + name: value for name, value in values.items()}, self._step)
            self._alert()
        self._cadence.measured += 1

    def _alert(self) -> None:
        """Tell each finding once."""
        if self._on_verdict is None:
            return
        for each in examine(assemble(thinned(self._entries))).findings:
            if each.name not in self._found:
                self._found.add(each.name)
                self._on_verdict(each)

    def _write(self, entry: dict[str, Json]) -> None:
        if self._journal is not None:
            self._journal.append(entry)
        self._entries.append(entry)

    def _guarded(self, work: Callable[[], object]) -> None:
        guarded(work, f"dynascope could not measure at step {self._step}", self._told)

    def close(self, *, last: bool = True) -> None:
        """Measure the final state (unless last is False) and write the record of the run to out/record.nc.

        Slow measures are among them if max_overhead leaves time for them; `measure(slow=True)` takes it.
        """
        if self._layers is None or self._closed:
            return
        if last:
            self._guarded(self._measure_last)
        self._closed = True
        if self._vitals is not None:
            self._vitals.close()
        if self._journal is not None:
            folder = self._journal.folder
            if last:
                self._guarded(lambda: self._write({"kind": "end", "step": self._step}))
            self._journal.close()
            self._guarded(lambda: save(self.record, folder / "record.nc"))

    def _measure_last(self) -> None:
        """Measure the final state, which may differ from that of the last step: averaged weights come after it."""
        slow = self._cadence.affords_last_slow()
        done = next((entry for entry in reversed(self._entries) if entry["kind"] == "measure"), None)
        if done is None or done["step"] != self._step:
            return self.measure(slow)
        now = self._now()
        features, numbers = self._quick()
        if apart(done["numbers"], numbers) > SAME:
            trained = {name: done["numbers"][name] for name in VARIABLES if name in done["numbers"]}  # of the last step
            more = self._slow(features) if slow else {}
            return self._keep(now, trained | numbers | more | self._given(), changed=True)
        if slow and self._slow_at != self._step:
            more = self._slow(features)
            self._keep(done["time"], done["numbers"] | more, shown=more)
        return None

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(last=kind is None)
