"""Attach to a training run: measure a fixed probe now and then, write each measurement down, change nothing."""

import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import SupportsFloat

import torch
import xarray as xr
from torch import nn
from torch.utils.data import Dataset

from dynascope.checks import Given, count, flag, one_of
from dynascope.measure.elasticity import Loss
from dynascope.measure.side_effects import undisturbed
from dynascope.monitor import measuring
from dynascope.monitor.cadence import Cadence
from dynascope.monitor.findings import Finding
from dynascope.monitor.health import examine, thinned
from dynascope.monitor.journal import Journal
from dynascope.monitor.layers import MAX_FEATURES, REDUCTIONS, Features, Layers, find_layers, read_features
from dynascope.monitor.loggers import Logger
from dynascope.monitor.probing import Pair, Probe
from dynascope.monitor.reading import assemble
from dynascope.monitor.vitals import Vitals
from dynascope.monitor.wrappers import uncompiled
from dynascope.records import Json, save


def watch(
    model: Given[nn.Module],
    probe: Given[Pair],
    every: Given[int | str | None] = None,
    *,
    out: str | os.PathLike[str] | None = None,
    max_overhead: Given[float | None] = None,
    slow: Given[int] = 10,
    layers: Given[Sequence[str] | None] = None,
    reduce: Given[str] = "pool",
    max_features: Given[int] = MAX_FEATURES,
    class_logits: Given[bool] = False,
    loss: Loss = nn.functional.cross_entropy,
    loggers: Given[Sequence[Logger]] = (),
    first_step: Given[int | None] = None,
    optimizer: Given[torch.optim.Optimizer | None] = None,
    training: Given[torch.Tensor | Dataset[object] | None] = None,
    on_verdict: Callable[[Finding], object] | None = None,
) -> "Run":
    """Watch a training run: which layers do the work, whether features collapse, how classes pull each other.

    Now and then a fixed batch goes through the model in evaluation mode, beside the training, which stays the same bit
    for bit. Time is the training step.

    model: any module, compiled or distributed, that returns logits (sample, class), alone or in a tuple or dict.
    probe: (inputs, labels): tensors as the model takes them, and whole-number labels with at least two classes.
    every: steps between measurements, "log" for about ten per decade, or None: as often as max_overhead allows.
    out: folder of the run, which a second start continues; without it measurements stay in memory.
    max_overhead: time for measuring as a share of the time for training, 0.02 where `every` is not given.
    slow: feature spectrum and elasticity come with every `slow`-th measurement, 0 for never.
    layers: names of submodules; by default found, see `run.layers`.
    reduce: "pool" (until a sample has at most max_features numbers), "flatten", "mean", "first" or "last" position.
    class_logits: also store class-mean logits, from which `estimate_strengths` reads local elasticity.
    loss: of (logits, labels), for elasticity.
    loggers: objects with log(values, step).
    first_step: number of steps already done.
    optimizer: gradients are read before its step.
    training: inputs among which the probe's samples must not be.
    on_verdict: called with each new finding about health.

    Arguments that cannot work raise ValueError here, before training; what fails later gives one warning. What is
    measured and what it costs: docs/watch.md. Source: see `dynascope.measure`.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> x, y = torch.randn(20, 2), torch.arange(20) % 2
    >>> with watch(net, probe=(x, y), every=5) as run:
    ...     for _ in range(10):
    ...         run.step(loss=0.1)
    >>> run.record["load"].sizes["step"], run.layers
    (3, ['input', '0 Linear'])
    """
    settings = Settings(
        one_of("reduce", reduce, REDUCTIONS),
        count("max_features", max_features),
        flag("class_logits", class_logits),
        loss,
    )
    for each in loggers:
        if not callable(getattr(each, "log", None)):
            raise ValueError(f"loggers must have a method log(values, step), got {type(each).__name__}")
    begun = None if first_step is None else count("first_step", first_step, at_least=0)
    cadence = Cadence(every, max_overhead, slow=slow)
    inner = uncompiled(model)
    checked = Probe.of(probe, inner)
    if _rank() != 0:
        return Run(inner, checked, None, cadence=cadence, settings=settings)
    if any(isinstance(each, nn.parameter.UninitializedParameter) for each in inner.parameters()):
        raise ValueError("model must know its shapes, got lazy layers; run one batch through it before watching")
    with cadence.charge("fast"), undisturbed(inner):
        found = find_layers(inner, checked, layers)
        vitals = Vitals(inner, checked, training, optimizer)
    run = Run(
        inner,
        checked,
        found,
        cadence=cadence,
        settings=settings,
        out=out,
        loggers=loggers,
        first_step=begun,
        vitals=vitals,
        on_verdict=on_verdict,
    )
    vitals.hook(run.read_gradients)
    return run


def _rank() -> int:
    spread = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if spread else 0


@dataclass(frozen=True)
class Settings:
    """How features are taken and what is measured of them."""

    reduce: str
    max_features: int
    class_logits: bool
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
        out: str | os.PathLike[str] | None = None,
        loggers: Sequence[Logger] = (),
        first_step: int | None = None,
        vitals: Vitals | None = None,
        on_verdict: Callable[[Finding], object] | None = None,
    ) -> None:
        self._vitals, self._on_verdict, self._told = vitals, on_verdict, set[str]()
        self._model, self._probe, self._layers = model, probe, layers
        self._cadence, self._settings, self._loggers = cadence, settings, tuple(loggers)
        self._warned, self._closed = False, False
        self._journal: Journal | None = None
        self._entries: list[dict[str, Json]] = []
        self._values: dict[str, SupportsFloat] = {}
        self._step, self._before, self._begun = first_step or 0, 0.0, time.perf_counter()
        if layers is None:
            return
        start = self._start(layers)
        if out is not None:
            self._journal = Journal(out)
            self._entries = self._journal.entries
            try:
                self._continue(start, first_step)
            except BaseException:
                self._journal.close()
                raise
        self._write(start)
        if self._step == 0 or not any(entry["kind"] == "measure" for entry in self._entries):
            self._guarded(self.measure)

    def _start(self, layers: Layers) -> dict[str, Json]:
        cadence, settings = self._cadence, self._settings
        device = next((each.device for each in self._model.parameters()), torch.device("cpu"))
        options: dict[str, object] = {
            "every": cadence.every,
            "max_overhead": cadence.max_overhead,
            "slow": cadence.slow,
            "reduce": settings.reduce,
            "max_features": settings.max_features,
            "torch": torch.__version__,
            "model": type(self._model).__name__,
            "samples": len(self._probe),
        }
        if layers.readout is not None:
            options |= {"readout": layers.readout.name, "width": layers.readout.module.in_features}
        return {
            "kind": "start",
            "format": 1,
            "layers": layers.names,
            "weights": [] if self._vitals is None else self._vitals.weights.names,
            "classes": self._probe.classes.tolist(),
            "skipped": self.skipped,
            "probe": self._probe.fingerprint(),
            "settings": options,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        }

    def _continue(self, start: dict[str, Json], first_step: int | None) -> None:
        """Go on where the folder's run stopped, if it is the same one."""
        old = next((entry for entry in self._entries if entry["kind"] == "start"), None)
        for key in ("layers", "classes", "probe") if old is not None else ():
            if old is not None and old[key] != start[key]:
                raise ValueError(
                    f"out must be a new folder or hold the same run, but its {key} differ: {old[key]} there, "
                    f"{start[key]} here; choose another folder"
                )
        done = [entry for entry in self._entries if entry["kind"] == "measure"]
        if done:
            self._before = done[-1]["time"]
            self._step = done[-1]["step"] if first_step is None else first_step

    @property
    def layers(self) -> list[str]:
        """Names of the layers, in the order in which they run."""
        return [] if self._layers is None else self._layers.names

    @property
    def skipped(self) -> dict[str, str]:
        """What is not measured, and why."""
        reasons = {} if self._layers is None else dict(self._layers.skipped)
        why = measuring.can_step(self._probe)
        return reasons | ({"elasticity": why} if why and self._cadence.slow else {})

    @property
    def steps(self) -> int:
        """Number of training steps done, as far as the run was told."""
        return self._step

    @property
    def overhead(self) -> float:
        """Time spent on measuring so far, relative to the time spent on training."""
        return self._cadence.overhead

    @property
    def record(self) -> xr.Dataset:
        """All measurements so far as one labelled record: load (step, layer), linearity (step), …"""
        if self._layers is None:
            raise ValueError("record must be read in process 0 of a distributed run, which measures")
        return assemble(self._entries)

    def step(self, at: int | None = None, **values: SupportsFloat) -> None:
        """Tell that a training step is done, and measure if it is time to.

        at: number of steps done, if the loop counts them itself. values: numbers to keep beside the measurements, such
        as loss=loss (a tensor is read only when it is needed); stored as train_loss.
        """
        self._step = self._step + 1 if at is None else int(at)
        if self._layers is None or self._closed:
            return
        self._values = {name: each.detach() if hasattr(each, "detach") else each for name, each in values.items()}
        self._guarded(self._note)
        if self._cadence.due(self._step):
            self._guarded(self.measure)

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
        if self._layers is None or self._closed:
            return
        if next(self._model.parameters(), torch.empty(0)).is_cuda:
            torch.cuda.synchronize()  # training that is still under way is not our time
        now = self._before + time.perf_counter() - self._begun
        settings, cadence = self._settings, self._cadence
        with cadence.charge("fast"), undisturbed(self._model):
            features = read_features(self._model, self._probe, self._layers, settings.reduce, settings.max_features)
            numbers = measuring.quick(features, self._probe, self._layers, class_logits=settings.class_logits)
            numbers |= {} if self._vitals is None else self._vitals.measure(features, self._probe)
        cadence.expect_slow(2 + measuring.elasticity_passes(self._probe))
        if cadence.due_slow() if slow is None else slow:
            with cadence.charge("slow"), undisturbed(self._model):
                numbers |= self._slow(features)
        with cadence.charge("fast", more=True):
            numbers |= {f"train_{name}": float(value) for name, value in self._values.items()}
            self._write({"kind": "measure", "step": self._step, "time": now, "numbers": numbers})
            shown = {name: value for name, value in numbers.items() if isinstance(value, float)}
            shown |= {f"load/{name}": value for name, value in zip(self.layers, numbers["load"], strict=True)}
            for each in self._loggers:
                each.log(shown, self._step)
            self._alert()
        cadence.measured += 1

    def _alert(self) -> None:
        """Tell each finding once."""
        if self._on_verdict is None:
            return
        for each in examine(assemble(thinned(self._entries))).findings:
            if each.name not in self._told:
                self._told.add(each.name)
                self._on_verdict(each)

    def _slow(self, features: Features) -> dict[str, Json]:
        """Spectrum and elasticity; one that fails leaves the other, and what was measured already, alone."""
        numbers: dict[str, Json] = {}
        self._guarded(lambda: numbers.update(measuring.spectrum(features, self._probe)))
        if not measuring.can_step(self._probe):
            loss = self._settings.loss
            self._guarded(lambda: numbers.update(measuring.elasticity(self._model, self._probe, loss)))
        return numbers

    def _write(self, entry: dict[str, Json]) -> None:
        if self._journal is not None:
            self._journal.append(entry)
        self._entries.append(entry)

    def _guarded(self, work: Callable[[], object]) -> None:
        """Training goes on whatever happens here; the first failure is told."""
        try:
            work()
        except Exception as error:
            if self._warned:
                return
            self._warned = True
            text = (
                f"dynascope could not measure at step {self._step}; training goes on ({type(error).__name__}: {error})"
            )
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=4)
            except RuntimeWarning:  # where warnings are errors
                print(text, file=sys.stderr)

    def close(self, *, last: bool = True) -> None:
        """Measure the final state (unless last is False) and write the record of the run to out/record.nc.

        Slow measures are among them if max_overhead leaves time for them; `measure(slow=True)` takes it.
        """
        if self._layers is None or self._closed:
            return
        slow = self._cadence.affords_last_slow()
        done = next((entry for entry in reversed(self._entries) if entry["kind"] == "measure"), None)
        whole = done is not None and done["step"] == self._step and (not slow or "intensity" in done["numbers"])
        if last and not whole:
            self._guarded(lambda: self.measure(slow))
        self._closed = True
        if self._vitals is not None:
            self._vitals.close()
        if self._journal is not None:
            folder = self._journal.folder
            self._journal.close()
            self._guarded(lambda: save(self.record, folder / "record.nc"))

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(last=kind is None)
