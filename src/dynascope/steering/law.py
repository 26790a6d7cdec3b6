"""The law of control: integral control of the bend in the logarithm of time. NumPy alone; one knob, or many at once.

u is the knob's place between its limits, 0 where it makes the least noise and 1 where it makes the most:

    du/d ln t = gain · (e + (g/0.04)²)

e is how far the bend lies above its aim, less what its own interval leaves open, at most 3. The aim is 0, all layers do
the same work, where a network believes the labels that it is given. Where it doubts some, wrong ones are about to be
learnt by heart, by the deep layers, and take more noise to be kept out: the aim is below 0 then.

g is by how much a network is surer on what it trains on than on inputs beside it, where there are some: what it has
learnt by heart. It counts if above 0, and tells more than the bend where a task is hard: a network then leaves labels
open, which it neither says nor contradicts firmly, and its bend, that of what it can do so far, no longer asks for more
noise. Without inputs beside it does, but at most with e = 1.

Why ln t: the load curve of a network answers a turned knob the more slowly the longer it has trained, so that its lag λ
is a number of e-folds of training time, not of steps. If the bend falls by s from one limit to the other, the loop is
λ ü + u̇ = −gain·s·(u − u*) about its rest u*: stable for every gain, without overshoot up to gain = 1/(4 s λ), and the
same for every length of run and number of measurements. u stays within its limits, so that nothing winds up.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynascope.checks import Given, count, scalar
from dynascope.monitor.beliefs import Signal
from dynascope.records import Json

GAIN = 0.2
DOUBTING, DOUBTED = -0.6, 0.05  # the aim where labels are doubted, and the doubt from which it holds in full
MOST = 3.0  # of e
OPEN = (0.1, 0.2)  # share of labels left open from which the bend is believed less, and not at all
HEART, FASTEST = 0.04, 8.0  # what g is measured by, and the most that its square adds
LATEST = 0.9  # of a run whose length is known: what comes after settles at what was found


@dataclass(frozen=True)
class Law:
    """gain: of u, for each e-fold of training time. target: the bend to hold, if it is not to go by doubts.

    steps: length of the run, if known.

    >>> law, place = Law(gain=0.5), Place.at(0.0)
    >>> bent = Signal(*(np.array([each]) for each in (1.0, 0.9, 1.1, 1.0, 0.0, 1.0, True)))
    >>> place = law.turn(law.turn(place, 20, bent), 40, bent)
    >>> float(place.u[0]) == float(0.5 * 0.9 * np.log(2))  # the near end of the interval counts
    True
    """

    gain: float = GAIN
    target: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        scalar("gain", self.gain, at_least=0.0)
        if self.target is not None:
            scalar("target", self.target)
        if self.steps is not None:
            count("steps", self.steps)

    def aim(self, seen: Signal) -> np.ndarray:
        """The bend to hold."""
        if self.target is not None:
            return np.full_like(seen.bend, self.target)
        return DOUBTING * np.clip(seen.doubt / DOUBTED, 0.0, 1.0)

    def rate(self, seen: Signal) -> np.ndarray:
        """How far u moves in an e-fold of training time."""
        aim = self.aim(seen)
        error = np.clip(np.clip(aim, seen.low, seen.high) - aim, -MOST, MOST)  # of the nearest that the interval allows
        left_open = 1 - seen.fit - 2 * seen.doubt  # a label that is contradicted firmly is doubted by one half or more
        told = np.clip((OPEN[1] - left_open) / (OPEN[1] - OPEN[0]), 0.0, 1.0)
        if seen.beside is None:
            more, by_heart = np.clip(error, 0, 1) + told * np.clip(error - 1, 0, None), 0.0
        else:
            more = told * np.clip(error, 0, None)
            by_heart = np.clip((np.clip(seen.sure - seen.beside, 0, None) / HEART) ** 2, 0, FASTEST)
        return self.gain * np.where(seen.ready, np.clip(error, None, 0) + more + by_heart, 0.0)

    def turn(self, place: "Place", step: int, seen: Signal) -> "Place":
        """Move on after a measurement. The first that is ready only starts the clock."""
        ended = self.steps is not None and step > LATEST * self.steps
        since = np.where(place.since > 0, place.since, step)
        time = np.zeros_like(place.u) if step == 0 or ended else np.log(step / np.maximum(since, 1))
        u = np.clip(place.u + self.rate(seen) * time, 0.0, 1.0)
        return Place(u, np.where(seen.ready, step, place.since))


@dataclass(frozen=True)
class Place:
    """Where knobs stand: u, and the step of the last measurement that counted, 0 for none. (knob,)."""

    u: np.ndarray
    since: np.ndarray

    @classmethod
    def at(cls, u: Given[float | np.ndarray]) -> "Place":
        """Begin at u."""
        start = np.atleast_1d(np.asarray(u, float))
        return cls(start, np.zeros(len(start), int))

    def as_json(self) -> dict[str, Json]:
        """Plain numbers, from which `from_json` makes the same place, exactly."""
        return {"u": self.u.tolist(), "since": self.since.tolist()}

    @classmethod
    def from_json(cls, given: Mapping[str, Json]) -> "Place":
        """Read what `as_json` made.

        >>> Place.from_json(Place.at(0.1).as_json()).u.tolist()
        [0.1]
        """
        u, since = (np.asarray(given.get(name), float) for name in ("u", "since"))
        if u.ndim != 1 or u.shape != since.shape or not (np.isfinite(u) & np.isfinite(since)).all():
            raise ValueError(f"state must hold u and since, as state_dict gives them, got {dict(given)!r}")
        return cls(u, since.astype(int))


def value_of(u: float, limits: tuple[float, float], scale: str, noise: int) -> float:
    """The knob's value at a place.

    >>> round(value_of(0.5, (0.1, 10.0), "log", 1), 6), value_of(0.25, (0.0, 1.0), "linear", -1)
    (1.0, 0.75)
    """
    low, high = limits if noise > 0 else limits[::-1]
    if scale == "log":
        return math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
    return low + u * (high - low)


def place_of(value: float, limits: tuple[float, float], scale: str, noise: int) -> float:
    """The place of a value, within the limits.

    >>> round(place_of(1.0, (0.1, 10.0), "log", 1), 6)
    0.5
    """
    low, high = limits if noise > 0 else limits[::-1]
    inside = min(max(value, limits[0]), limits[1])
    if scale == "log":
        return (math.log(inside) - math.log(low)) / (math.log(high) - math.log(low))
    return (inside - low) / (high - low)
