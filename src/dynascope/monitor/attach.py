"""Attach to a training run: check what is asked for, find the layers of the model, and begin to measure."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from dynascope.checks import Given, count, flag, listed, one_of, path_of
from dynascope.measure.elasticity import Loss
from dynascope.measure.side_effects import undisturbed
from dynascope.monitor import measuring
from dynascope.monitor.cadence import Cadence
from dynascope.monitor.features import MAX_FEATURES, REDUCTIONS, read_features
from dynascope.monitor.findings import Finding
from dynascope.monitor.layers import Wishes, find_layers
from dynascope.monitor.loggers import Logger
from dynascope.monitor.probing import Output, Probe, Source
from dynascope.monitor.running import Run, Settings
from dynascope.monitor.vitals import Vitals
from dynascope.monitor.warming import warm_up
from dynascope.monitor.wrappers import as_written, rank, sharded, uncompiled

if TYPE_CHECKING:
    pass


def watch(
    model: Given[nn.Module],
    probe: Given[Source],
    every: Given[int | str | None] = None,
    *,
    out: str | os.PathLike[str] | None = None,
    max_overhead: Given[float | None] = None,
    slow: Given[int] = 10,
    steps: Given[int | None] = None,
    task: Given[str | None] = None,
    output: Given[Output | None] = None,
    positions: Given[object] = None,
    groups: Given[Sequence[int] | None] = None,
    layers: Given[Sequence[str] | None] = None,
    reduce: Given[str] = "pool",
    max_features: Given[int] = MAX_FEATURES,
    class_logits: Given[bool] = False,
    class_names: Given[Sequence[str] | None] = None,
    inside: Given[bool] = False,
    loss: Loss = nn.functional.cross_entropy,
    loggers: Given[Sequence[Logger]] = (),
    first_step: Given[int | None] = None,
    resume: Given[bool | None] = None,
    optimizer: Given[torch.optim.Optimizer | None] = None,
    training: Given[torch.Tensor | Dataset[object] | None] = None,
    on_verdict: Callable[[Finding], object] | None = None,
) -> "Run":
    """Watch a training run: which layers do the work, whether features collapse, how classes pull each other.

    A fixed batch goes through the model in evaluation mode; training stays the same bit for bit. Time is the step.

    model: any module, compiled or distributed.
    probe: (inputs, labels), token numbers, a DataLoader or Dataset, or {"train": …, "test": …} of these.
    every: steps between measurements, "epoch", "log" (ten per decade), or None: as max_overhead allows.
    out: folder of the run, if measurements are to be kept.
    max_overhead: measuring time over training time, 0.02 without `every`.
    slow: slow measures come with every `slow`-th measurement, 0 for never.
    steps: length of the run; without max_overhead it is measured ten times at least.
    task: "classification", "binary", "multilabel", "regression", "language", where labels do not tell.
    output: name, place or function that picks an output.
    positions: of sequences; by default those that the readout reads.
    groups: of tokens, to predict.
    layers: names of submodules; by default found.
    reduce: "pool" (to at most max_features numbers), "flatten", "mean", "first", "last" position.
    class_logits: store class-mean logits, for `imitate`.
    class_names: by label.
    inside: measure attention, outliers and norms.
    loss: of (logits, labels), for elasticity.
    loggers: objects with log(values, step).
    first_step: steps already done.
    resume: True continues in `out`, False beside it.
    optimizer: whose learning rate and gradients are read.
    training: inputs that the probe must not hold.
    on_verdict: called with each new finding about health.

    What cannot work raises ValueError here; what fails later warns. More: docs/watch.md.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> x, y = torch.randn(20, 2), torch.arange(20) % 2
    >>> with watch(net, probe=(x, y), every=5) as run:
    ...     for _ in range(10):
    ...         run.step(loss=0.1)
    >>> run.record["loads"].sizes["step"], run.layers
    (3, ['input', '0 Linear'])
    """
    settings = Settings(
        one_of("reduce", reduce, REDUCTIONS),
        count("max_features", max_features),
        flag("class_logits", class_logits),
        flag("inside", inside),
        loss,
    )
    if not callable(loss):
        raise ValueError(f"loss must be a function of outputs and targets, got {loss!r}")
    if out is not None:
        path_of("out", out)
    loggers = listed("loggers", loggers, "a list of objects with a method log(values, step)")
    for each in loggers:
        if not callable(getattr(each, "log", None)):
            raise ValueError(f"loggers must have a method log(values, step), got {type(each).__name__}")
    begun = None if first_step is None else count("first_step", first_step, at_least=0)
    forced = None if resume is None else flag("resume", resume)
    cadence = Cadence(every, max_overhead, slow=slow, steps=steps)
    inner = uncompiled(model)
    checked = Probe.of(probe, inner)
    together = sharded(inner)
    if together and cadence.max_overhead is not None:
        raise ValueError(
            "every must say when to measure a model that is sharded, without max_overhead: its processes measure "
            f"together, and their clocks differ; got every={every!r}, max_overhead={max_overhead!r}; use every=100"
        )
    if rank() != 0 and not together:
        return Run(inner, checked, None, cadence=cadence, settings=settings)
    if any(isinstance(each, nn.parameter.UninitializedParameter) for each in inner.parameters()):
        raise ValueError("model must know its shapes, got lazy layers; run one batch through it before watching")
    warm_up(next((each.device for each in inner.parameters()), torch.device("cpu")), slow=cadence.slow > 0)
    with undisturbed(inner), as_written(inner):
        found = find_layers(inner, checked, Wishes(layers, task, output, positions, groups, settings.reduce))
        features = read_features(inner, checked, found, settings.reduce, settings.max_features)
        found = measuring.with_size(found, features)
    names = _class_names(class_names, found.reading.task.classes)
    vitals = Vitals(inner, checked, training, optimizer)
    run = Run(inner, checked, found, cadence=cadence, settings=settings, loggers=loggers, class_names=names)
    run.examine(vitals, on_verdict)
    run.begin(out, first_step=begun, resume=forced)
    vitals.hook(run.read_gradients)
    return run


def _class_names(names: Given[Sequence[str] | None], classes: np.ndarray) -> list[str] | None:
    """The names of the classes that occur, in order."""
    if names is None:
        return None
    if not len(classes):
        raise ValueError("class_names must be left out where there are no classes")
    needed = int(classes.max()) + 1
    what = f"a list of {needed} names or more, one per label"
    chosen = listed("class_names", names, what)
    if len(chosen) < needed or not all(isinstance(each, str) for each in chosen):
        raise ValueError(f"class_names must be {what}, got {names!r}")
    return [chosen[int(label)] for label in classes]
