"""Trials of an ensemble that steer themselves: one knob for each, turned while all train side by side."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from dynascope.checks import ArrayLike, Given, count, one_of
from dynascope.monitor.beliefs import Signal, signals, sureness
from dynascope.networks import arguments
from dynascope.networks.arguments import Pair
from dynascope.networks.network import Dropout as OwnDropout
from dynascope.networks.training import Trainer
from dynascope.steering.in_a_row import in_a_row
from dynascope.steering.knobs import Dropout, LearningRate, Limited, WeightDecay, allowed
from dynascope.steering.law import GAIN, Place, place_of, value_of
from dynascope.steering.other_layers import beginning, law_for

_KINDS: dict[str, type[Limited]] = {"dropout": Dropout, "learning_rate": LearningRate, "weight_decay": WeightDecay}
_OF_THE_PROBE = ("bend", "low", "high", "fit", "doubt", "sure", "ready", "contradicted")
_FEW = 32  # rows that show how many dropout layers a signal passes
_ROUNDING = 1e-7  # of shares that networks hold as float32


class Helm:
    """How trials of an `Ensemble` steer themselves: each turns a knob of its own by its own load curve.

    knob: dropout, learning_rate (a factor on each trial's own) or weight_decay
    probe: (inputs, labels) to measure on, samples of the training set; labels (row,), or (trial, row)
    every: steps between two measurements
    unlabelled: inputs that are not trained on; how much surer a network is on the probe then counts, too
    steered: True for each trial that steers itself, (trial,); the others keep their values; all if not given
    at_least, at_most: of the knob
    gain, target, steps: as of `steer`

    The record has the knob over (trial, step), as it holds from that step on, and the bends that it was turned by. The
    rate's factor is called learning_rate_factor there.

    >>> from dynascope.data import geomnist
    >>> from dynascope.networks import MLP, Ensemble
    >>> x, y = geomnist(per_class=20)
    >>> helm = Helm("dropout", probe=(x, y), every=5)
    >>> run = Ensemble(MLP((1, 32, 32), 3, width=8, depth=2), trials=2).train(x, y, steps=10, steer=helm)
    >>> run["dropout"].dims
    ('trial', 'step')
    """

    def __init__(
        self,
        knob: str,
        *,
        probe: Pair,
        every: Given[int] = 20,
        unlabelled: ArrayLike | None = None,
        steered: ArrayLike | None = None,
        at_least: Given[float | None] = None,
        at_most: Given[float | None] = None,
        gain: Given[float] = GAIN,
        target: Given[float | None] = None,
        steps: Given[int | None] = None,
    ) -> None:
        self.knob, self.every = one_of("knob", knob, list(_KINDS)), count("every", every)
        self.kind, self.probe, self.unlabelled, self.steered = _KINDS[knob], probe, unlabelled, steered
        low, high = self.kind.usual
        self.limits = allowed(self.kind, low if at_least is None else at_least, high if at_most is None else at_most)
        self.wishes = (gain, target, steps)
        law_for([], *self.wishes)

    def begin(self, trainer: Trainer) -> "_Hand":
        """Check that it suits these trials, and take the helm; `Ensemble.train` calls it."""
        network, trials = trainer.network, trainer.size
        if len(network.probes) < 3:
            raise ValueError(f"steer needs networks with a load curve of 3 layers or more, got {network.probes}")
        if trainer.y.is_floating_point():
            raise ValueError("steer needs labels: for regression no rule has been tested")
        if self.knob == "dropout" and ("dropout" not in network.adjustable or not trainer.learns):
            raise ValueError("steer must turn a knob that has an effect: these networks train without dropout layers")
        x, y = arguments.pair("steer: probe", self.probe, network, trials=trials, loss="cross_entropy")
        chosen = np.ones(trials, bool) if self.steered is None else np.asarray(self.steered)
        if chosen.shape != (trials,) or chosen.dtype != bool or not chosen.any():
            raise ValueError(
                f"steer: steered must be True or False for each of {trials} trials, and True for one or more, got "
                f"shape {chosen.shape} of {chosen.dtype}"
            )
        start = self._start(trainer)
        outside = chosen & ~((self.limits[0] - _ROUNDING <= start) & (start <= self.limits[1] + _ROUNDING))
        if outside.any():
            raise ValueError(
                f"{self.knob} must start within the limits of the helm, {self.limits[0]:g} to {self.limits[1]:g}, got "
                f"{start[outside][0]:g}"
            )
        beside = None
        if self.unlabelled is not None:
            beside = arguments.inputs("steer: unlabelled", self.unlabelled, network)
        return _Hand(self, trainer, start, np.flatnonzero(chosen), x=x, y=y, beside=beside)

    def look(self, trainer: Trainer) -> Signal:
        """What all trials show of the probe as they are now, those that are not steered too."""
        x, y = arguments.pair("steer: probe", self.probe, trainer.network, trials=trainer.size, loss="cross_entropy")
        return _seen(trainer, trainer.inputs(x), trainer.labels(y), len(np.unique(y)))

    def _start(self, trainer: Trainer) -> np.ndarray:
        if self.knob == "learning_rate":
            return np.ones(trainer.size)
        if self.knob == "weight_decay":
            return np.broadcast_to(trainer.settings.weight_decay, (trainer.size,)).astype(float)
        shares = [buffer for name, buffer in trainer.buffers.items() if name.endswith(".dropout")]
        return shares[0].double().cpu().numpy().copy()


class _Hand:
    """The knobs of trials in training: values of all of them, places of those that are steered."""

    def __init__(
        self,
        helm: Helm,
        trainer: Trainer,
        start: np.ndarray,
        chosen: np.ndarray,
        *,
        x: np.ndarray,
        y: np.ndarray,
        beside: np.ndarray | None,
    ) -> None:
        self.helm, self.trainer, self.values = helm, trainer, start.copy()
        self.chosen = torch.as_tensor(chosen).to(trainer.device)
        self.turned = (helm.limits, helm.kind.scale, helm.kind.noise)
        self.law = law_for(trainer.network.kinds, *helm.wishes)
        passed = cache(lambda: _in_a_row(trainer, x))
        begins = partial(beginning, self.law, helm.knob, most=helm.limits[1], in_a_row=passed)
        self.values[chosen] = [begins(each) for each in start[chosen]]
        self.place = Place.at(np.array([place_of(each, *self.turned) for each in self.values[chosen]]))
        self.bend = np.full(trainer.size, np.nan)
        self.x, self.y = trainer.inputs(x), trainer.labels(y)[self.chosen]
        self.beside = None if beside is None else trainer.inputs(beside)
        self.classes = len(np.unique(y))
        trainer.turn(helm.knob, self.values)

    def turn(self) -> None:
        """Measure the trials as they are now, and turn."""
        seen, at = self._look(), self.chosen.cpu().numpy()
        self.bend[at] = seen.bend
        before, self.place = self.place, self.law.turn(self.place, self.trainer.steps_done, seen)
        moved = np.flatnonzero(self.place.u != before.u)
        if moved.size:
            self.values = self.values.copy()
            self.values[at[moved]] = [value_of(float(self.place.u[each]), *self.turned) for each in moved]
            self.trainer.turn(self.helm.knob, self.values)

    def _look(self) -> Signal:
        """What the steered trials show."""
        seen = _seen(self.trainer, self.x, self.y, self.classes, among=self.chosen)
        if self.beside is None:
            return seen
        found = self.trainer.features(self.beside, (self.trainer.network.last,), self.chosen)
        return replace(seen, beside=np.concatenate([sureness(each["logits"]) for _, each in found]))

    def shown(self) -> dict[str, Tensor]:
        """What the record shall have: values, and the bends that they were turned by."""
        name = self.helm.kind.name
        return {name: torch.tensor(self.values), f"{name}_bend": torch.tensor(self.bend)}


def _in_a_row(trainer: Trainer, x: np.ndarray) -> int | None:
    """How many dropout layers a signal passes; the first trial tells, since all are built alike."""
    network = trainer.network_of(0)
    layers = [each for each in network.modules() if isinstance(each, OwnDropout)]
    few = trainer.inputs(x[:_FEW])
    return in_a_row(layers, lambda: network(few))


@torch.no_grad()
def _seen(trainer: Trainer, x: Tensor, y: Tensor, classes: int, *, among: Tensor | None = None) -> Signal:
    """What trials show of labelled rows, as many at a time as memory allows."""
    layers, parts = trainer.network.probes, []
    for trials, found in trainer.features(x, layers, among):
        parts.append(signals([found[name] for name in layers], found["logits"], y[trials], classes))
    return Signal(*(np.concatenate([getattr(part, name) for part in parts]) for name in _OF_THE_PROBE))
