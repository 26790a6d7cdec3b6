"""What the record of a watched run says about its noise: which knob to turn, which way and how far, and what to expect.

It is the law of control, asked once, after the run. Where the law was not tested there is no advice, and a reason.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import xarray as xr

from dynascope.checks import Given
from dynascope.monitor.beliefs import Signal
from dynascope.monitor.health import examine
from dynascope.monitor.journal import watched
from dynascope.monitor.reading import VARIABLES, open_run
from dynascope.monitor.running import Run
from dynascope.records import Json, attribute
from dynascope.schema import read_json
from dynascope.steering.knobs import Dropout, LearningRate, Limited, WeightDecay
from dynascope.steering.law import WRONG, Law, Place, place_of, value_of
from dynascope.steering.other_layers import LINEAR

BENCHMARK = Path(__file__).with_name("benchmark.json")
MORE, LESS, LEAVE, NONE = "more", "less", "leave it", "no advice"
# name -> kind, and what it is made of; more of each is noisier
_KNOBS: dict[str, tuple[type[Limited], str]] = {
    each.name: (each, given)
    for each, given in ((Dropout, "model"), (LearningRate, "optimizer"), (WeightDecay, "optimizer"))
}
_LOOKED_AT = ("belief_bend", "belief_bend_interval", "belief_ready", "confidence", "doubt", "probe_accuracy")
_FEWEST = 3  # measurements of a fitted network
_EVERY = 20  # steps between two measurements, where the run was measured by the clock
_UNKNOWN = "What to expect is not known: too few networks of the benchmark had this knob and such a bend."
_MOVES = 0.5  # change of the bend over the last e-fold of training from which on it is not settled


@dataclass(frozen=True)
class Gain:
    """What steering gained over networks of the benchmark that kept their value and ended with a bend in a range.

    wrong: share of wrong labels. above, below: the range of bends, None where it is open.
    mean, low, high: test accuracy beyond theirs, and its 95 % interval for one more network. networks: how many.
    """

    wrong: float
    above: float | None
    below: float | None
    mean: float
    low: float
    high: float
    networks: int

    def holds(self, bend: float) -> bool:
        """Whether a bend lies in its range.

        >>> Gain(0.0, None, 0.5, 0.01, 0.0, 0.02, 12).holds(0.5)
        False
        """
        return (self.above is None or self.above <= bend) and (self.below is None or bend < self.below)


@dataclass(frozen=True)
class Benchmark:
    """What the gains were measured in; docs/write_gains.py writes it from the record of an experiment.

    gain, target: of the law by which networks were steered. depths: hidden layers of the networks.
    """

    experiment: str
    scale: str
    commit: str
    knob: str
    gain: float
    target: float
    data: tuple[str, ...]
    depths: tuple[int, ...]
    gains: tuple[Gain, ...]


@cache
def benchmark() -> Benchmark:
    """Read the benchmark that comes with the package.

    >>> benchmark().knob
    'dropout'
    """
    return read_json(BENCHMARK, Benchmark)


@dataclass(frozen=True)
class Advice:
    """What to turn in a training like the one that was watched; `str` says it in a few lines.

    knob: its name in records. direction: "more", "less", "leave it" or "no advice".
    size: by how much to begin with, as far as the law turns it in one e-fold of training: a difference, or a factor
        for knobs that are turned by factors.
    limits: of the knob. now: its value, None if the record does not have it. start: where size leads within the limits.
    bend, interval: of the load curve of what the network says, at step `step`, with 95 % over other samples.
    target: the bend to hold. taken_back: of the labels that the network once firmly contradicted, the share that it no
        longer does, as where wrong ones are learnt by heart; None where these never were a tenth of all.
    expected: what steering did to the test accuracy of networks with such a bend, for each share of wrong labels.
    condition: why there is no advice, or why it is weaker here. line: the Python lines that do it.
    """

    knob: str
    direction: str
    size: float | None = None
    limits: tuple[float, float] | None = None
    now: float | None = None
    start: float | None = None
    bend: float | None = None
    interval: tuple[float, float] | None = None
    step: int | None = None
    target: float | None = None
    taken_back: float | None = None
    expected: tuple[Gain, ...] = ()
    condition: tuple[str, ...] = ()
    line: str = ""

    def __str__(self) -> str:
        if self.direction == NONE:
            return f"no advice about {self.knob}: {' '.join(self.condition)}"
        lines = [self._what, self._why]
        if self.expected:
            source = benchmark()
            where = f"{source.experiment}, scale {source.scale}"
            lines.append(f"expect of steering, in test accuracy, with 95 % for one more network ({where}):")
            lines += [f"  {_told(each)}" for each in self.expected]
        lines += [f"but: {each}" for each in self.condition]
        if self.line:
            lines += ["do:", *(f"  {each}" for each in self.line.splitlines())]
        return "\n".join(lines)

    @property
    def _what(self) -> str:
        if self.direction == LEAVE or self.size is None or self.limits is None:
            return f"leave {self.knob} as it is"
        by = f"× {self.size:.2g}" if _KNOBS[self.knob][0].scale == "log" else f"{self.size:+.2g}"
        where = "" if self.start is None else f", from {self.now:.3g} to {self.start:.3g}"
        return f"{self.direction} {self.knob}: begin with {by}{where}; limits {self.limits[0]:g} to {self.limits[1]:g}"

    @property
    def _why(self) -> str:
        assert self.interval is not None
        assert self.target is not None
        held = self.interval[0] <= self.target <= self.interval[1]
        still = "the interval holds the target" if held else "wrong labels are kept out"
        meaning = {MORE: "too little noise", LESS: "too much noise", LEAVE: still}
        ends = " to ".join(f"{each:+.2f}" for each in self.interval)
        back = "" if self.taken_back is None else f"; {self.taken_back:.0%} of its contradictions of labels taken back"
        return (
            f"why: bend {self.bend:+.2f} ({ends}) at step {self.step}, target {self.target:+.2f}{back}: "
            f"{meaning[self.direction]}"
        )


def _told(gain: Gain) -> str:
    labels = f"{100 * gain.wrong:.0f} % wrong labels" if gain.wrong else "clean labels"
    return f"{gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}) with {labels}, from {gain.networks} networks"


def advise(record: Given[xr.Dataset | Run | str | os.PathLike[str]]) -> Advice:
    """Say what a watched run tells about its noise: what to turn next time, which way, how far, and what to expect.

    record: of a run that `watch` made, the run itself, or its folder or file.

    The bend of the load curve of what the network says of the probe, at the newest measurement, against the target of
    `steer`: above it there is too little noise, below too much, and where its 95 % interval holds the target the knob
    is well as it is. The knob is the one that was steered, else dropout. What to expect are networks of the experiment
    steering/mlps that ended with such a bend, against networks that steered themselves.

    It was set and tested on multilayer perceptrons that tell classes apart; for other tasks and layers, and before a
    network has learnt, the direction is "no advice" and the condition says why.

    >>> import torch
    >>> from torch import nn
    >>> from dynascope import watch
    >>> net = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(2, 2), nn.ReLU(), nn.Dropout(0.1))))
    >>> with watch(net, probe=(torch.randn(20, 2), torch.arange(20) % 2), every=5) as run:
    ...     for _ in range(10):
    ...         run.step()
    >>> advise(run).direction
    'no advice'
    """
    run = _record(record)
    name = next((each for each in _KNOBS if each in run), Dropout.name)
    now = _last(run, name)
    why = _against(run)
    if why:
        return Advice(name, NONE, now=now, condition=(why,))
    kind = _KNOBS[name][0]
    limits = kind.usual if now is None else (min(kind.usual[0], now), max(kind.usual[1], now))
    law, place = Law(), Place.at(0.0)
    for step, seen in zip(run["step"].values, _signals(run), strict=True):
        place = law.turn(place, int(step), seen)
    bend, rate = float(seen.bend[0]), float(law.rate(seen, place)[0])
    gains = tuple(each for each in benchmark().gains if name == benchmark().knob and each.holds(bend))
    return Advice(
        name,
        LEAVE if rate == 0 else MORE if rate > 0 else LESS,
        size=rate * (limits[1] - limits[0]) if kind.scale == "linear" else (limits[1] / limits[0]) ** rate,
        limits=limits,
        now=now,
        start=None if now is None else _moved(now, rate, kind, limits),
        bend=bend,
        interval=(float(seen.low[0]), float(seen.high[0])),
        step=int(run["step"][-1]),
        target=law.target,
        taken_back=float(place.taken_back[0]) if place.most[0] > WRONG else None,
        expected=gains,
        condition=(*_weaker(run), *([] if gains else [_UNKNOWN]), *_no_room(now, rate, limits)),
        line=_lines(name, limits, _about(run, "options").get("every")) if rate else "",
    )


def _record(given: object) -> xr.Dataset:
    """The record of a watched run, from whatever stands for it."""
    if not isinstance(given, xr.Dataset | Run | str | os.PathLike):
        raise ValueError(f"record must be that of a watched run, the run itself or its folder, got {given!r}")
    run = given.record if isinstance(given, Run) else given if isinstance(given, xr.Dataset) else open_run(given)
    if not watched(run):
        held = attribute(run, "model") if "model" in run.attrs else "something else"
        raise ValueError(f"record must be that of a watched run, got one of {held}; watch(model, probe=…) makes them")
    return run


def _about(run: xr.Dataset, name: str) -> dict[str, Json]:
    """What is kept with a record."""
    return dict(attribute(run, name)) if name in run.attrs else {}


def _last(run: xr.Dataset, name: str) -> float | None:
    """The newest value of a variable; None if there is none, or it is not finite."""
    values = run[name].values if name in run else np.empty(0)
    return float(values[-1]) if len(values) and math.isfinite(values[-1]) else None


def _signals(run: xr.Dataset) -> list[Signal]:
    """What each measurement shows."""
    names = [*_LOOKED_AT, *({"contradicted"} & set(run))]
    columns = (run[name].transpose("step", ...).values.tolist() for name in names)
    return [Signal.read(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _against(run: xr.Dataset) -> str:
    """Why the law does not apply to a run; empty where it does."""
    if not run.sizes.get("step"):
        return "The run has not been measured yet."
    task = _about(run, "options").get("task") or "classification"
    if task not in ("classification", "binary"):
        return f"The task is {task}; the rule is about classes."
    layers = [str(each) for each in run["layer"].values]
    if len(layers) < 3:
        return (
            f"The load curve has the layers {', '.join(layers)}; a bend needs 3, the input among them: name them with "
            "watch(…, layers=[…]), or train a deeper network."
        )
    kinds = sorted(set(_kinds(run)))
    if kinds and kinds != [LINEAR]:
        what = "of unequal kind" if len(kinds) > 1 else "of another kind"
        return f"Layers are {what} ({'; '.join(kinds)}); the rule was set and tested on multilayer perceptrons alone."
    missing = [name for name in _LOOKED_AT if name not in run]
    if missing:
        return (
            f"The record has no {missing[0]} ({VARIABLES[missing[0]][1]}): an older version wrote it; watch the "
            f"training again, watch(model, probe=(inputs, labels), every={_EVERY})."
        )
    return _unfitted(run)


def _unfitted(run: xr.Dataset) -> str:
    ready, step = run["belief_ready"].values > 0, int(run["step"][-1])
    if not ready[-1]:
        said = _last(run, "probe_accuracy")
        fit = "" if said is None else f", where it says {100 * said:.0f} % of the probe's labels"
        return f"The network is not fitted at step {step}{fit}; the bend of its load curve means nothing before that."
    if ready.sum() < _FEWEST:
        return (
            f"Measurements of the fitted network are {ready.sum()} of {len(ready)}, {_FEWEST} are needed: train "
            f"longer, or measure more often, watch(…, every={_EVERY})."
        )
    return ""


def _kinds(run: xr.Dataset) -> list[str]:
    """What layers are made of, without the input; empty where an older version wrote the record."""
    return [each for each in _about(run, "parameters").get("kinds", []) if each]


def _weaker(run: xr.Dataset) -> Iterator[str]:
    """Sentences about where the rule is less sure."""
    source, hidden = benchmark(), run["layer"].values != "input"
    if not _kinds(run):
        yield "It is not recorded what the layers are made of; the rule holds for multilayer perceptrons."
    if not min(source.depths) <= hidden.sum() <= max(source.depths):
        yield f"It was tested with {min(source.depths)} to {max(source.depths)} hidden layers, here are {hidden.sum()}."
    if "layer_size" in run and len(set(run["layer_size"].values[-1][hidden].tolist())) > 1:
        yield "Layers differ in width; it was tested with equal ones."
    before = run["step"].values <= run["step"].values[-1] / math.e
    bends = run["belief_bend"].values
    if before.any() and abs(bends[-1] - bends[before][-1]) > _MOVES:
        yield f"The bend still moves: it was {bends[before][-1]:+.2f} at a third of the steps."
    for note in _about(run, "parameters").get("notes", []):
        if note.startswith("probe:"):
            yield f"{note[0].upper()}{note[1:]}."
    if "test_loss" in run:
        yield "The test part of the probe is no test set any more once a run is chosen by it."
    for finding in examine(run).findings:
        yield f"Health comes first: {finding.sentence}"


def _no_room(now: float | None, rate: float, limits: tuple[float, float]) -> Iterator[str]:
    """Say where the knob cannot go further."""
    if now is None and rate < 0:
        yield "The record does not say how much there is now; where there is none, turn another knob."
    if now is not None and rate and now == limits[rate > 0]:
        yield f"It stands at its limit of {now:g}: turn another knob, or choose other limits."


def _moved(now: float, rate: float, kind: type[Limited], limits: tuple[float, float]) -> float:
    place = place_of(now, limits, kind.scale, kind.noise) + rate
    return value_of(min(max(place, 0.0), 1.0), limits, kind.scale, kind.noise)


def _lines(name: str, limits: tuple[float, float], every: Json) -> str:
    """What to write into a program that has a model, an optimizer, and inputs and labels for the probe."""
    kind, given = _KNOBS[name]
    ends = zip(("at_least", "at_most"), limits, kind.usual, strict=True)
    own = "".join(f", {word}={value!r}" for word, value, usual in ends if value != usual)
    return "\n".join(
        (
            "from dynascope import steer, watch",
            f"from dynascope.steering import {kind.__name__}",
            f"run = watch(model, probe=(inputs, labels), every={every or _EVERY!r})",
            f"steer(run, {kind.__name__}({given}{own}))",
        )
    )
