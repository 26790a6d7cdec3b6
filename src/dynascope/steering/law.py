"""The law of control: integral control of the bend in the logarithm of time. NumPy alone; one knob, or many at once.

u: the knob's place between its limits, from least noise, 0, to most, 1; docs/steer.md says why:

    du/d ln t = gain · (e + r + (g/0.04)²)

e: how far the bend lies above its target, less what its own interval leaves open, at most 1. Where layers are not all
linear maps no target is known: see `dynascope.steering.other_layers`.

r = (share taken back − 0.05)/0.05, at most 3, where a tenth of the labels was contradicted once; while a tenth is, a
convex curve asks for less noise only beyond a bend of −0.6.

g: by how much a network is surer on what it trains on than on inputs beside it. The bend then asks for more noise only
as far as labels are not left open.

A load curve's lag λ is a number of e-folds. If the bend falls by s from one limit to the other, the loop is
λ ü + u̇ = −gain·s·(u − u*) about its rest u*: stable for every gain, without overshoot up to gain = 1/(4 s λ), and the
same for every length of run and number of measurements. u stays within its limits: nothing winds up.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dynascope.checks import Given, count, scalar
from dynascope.monitor.beliefs import Signal
from dynascope.records import Json

GAIN = 0.2
WRONG = 0.1  # share of labels from which on contradictions are taken to be of wrong ones
TAKEN_BACK, SWIFT = 0.05, 3.0  # share of them that may be taken back, and the most that r adds
CONVEX = -0.6  # the bend that is left alone where labels are contradicted
MEMORY = 0.25  # e-folds of training over which contradictions and doubts are averaged
OPEN = (0.1, 0.2)  # share of labels left open from which the bend is believed less, and not at all
HEART, FASTEST = 0.04, 8.0  # what g is measured by, and the most that its square adds
LATEST = 0.9  # of a run whose length is known: what comes after settles at what was found


@dataclass(frozen=True)
class Law:
    """gain: of u, for each e-fold of training time. target: the bend to hold. steps: length of the run, if known.

    >>> law, place = Law(gain=0.5), Place.at(0.0)
    >>> bent = Signal(*(np.array([each]) for each in (1.0, 0.9, 1.1, 1.0, 0.0, 1.0, True)))
    >>> place = law.turn(law.turn(place, 20, bent), 40, bent)
    >>> float(place.u[0]) == float(0.5 * 0.9 * np.log(2))  # the near end of the interval counts
    True
    """

    gain: float = GAIN
    target: float = 0.0
    steps: int | None = None
    memory: ClassVar[float] = MEMORY
    lasting: ClassVar[float] = 0.0  # e-folds that a share must last to be taken as the most that there was

    def __post_init__(self) -> None:
        scalar("gain", self.gain, at_least=0.0)
        scalar("target", self.target)
        if self.steps is not None:
            count("steps", self.steps)

    def rate(self, seen: Signal, place: "Place") -> np.ndarray:
        """How far u moves in an e-fold of training time. place: with what was seen in mind."""
        more = taken_back(place, TAKEN_BACK, SWIFT)
        bent = self._bent(seen, place)
        if seen.beside is not None:
            bent = np.where(bent > 0, told(seen, OPEN) * bent, bent)
            more = more + np.clip((np.clip(seen.sure - seen.beside, 0, None) / HEART) ** 2, 0, FASTEST)
        return self.gain * np.where(seen.ready, bent + more, 0.0)

    def _bent(self, seen: Signal, place: "Place") -> np.ndarray:
        """By how much the curve is bent, at most 1."""
        bent = np.clip(np.clip(self.target, seen.low, seen.high) - self.target, -1, 1)
        kept_out = (place.contradicted > WRONG) & (seen.bend > min(CONVEX, self.target))
        return np.where(kept_out & (bent < 0), 0.0, bent)

    def turn(self, place: "Place", step: int, seen: Signal) -> "Place":
        """Move on after a measurement. The first that is ready only starts the clock."""
        place = place.after(step, seen, self.memory, self.lasting)
        ended = self.steps is not None and step > LATEST * self.steps
        since = np.where(place.since > 0, place.since, step)
        time = np.zeros_like(place.u) if step == 0 or ended else np.log(step / np.maximum(since, 1))
        u = np.clip(place.u + self.rate(seen, place) * time, self.least(place), 1.0)
        return replace(place, u=u, since=np.where(seen.ready, step, place.since))

    def least(self, place: "Place") -> np.ndarray:
        """The least u that it turns to."""
        return np.zeros_like(place.u)


@dataclass(frozen=True)
class Place:
    """Where knobs stand: u, and the step of the last measurement that counted, 0 for none. (knob,).

    contradicted: share of the labels that networks firmly say to be wrong, of late. most: the most that it ever was.
    doubted: by how much they doubt labels, of late. most_doubted: the most that it ever was.
    begun: u at the start.
    """

    u: np.ndarray
    since: np.ndarray
    contradicted: np.ndarray
    most: np.ndarray
    doubted: np.ndarray
    most_doubted: np.ndarray
    begun: np.ndarray

    @classmethod
    def at(cls, u: Given[float | np.ndarray]) -> "Place":
        """Begin at u."""
        start = np.atleast_1d(np.asarray(u, float))
        none = np.zeros(len(start))
        return cls(start, none.astype(int), none, none, none, none, start)

    @property
    def taken_back(self) -> np.ndarray:
        """Share of the contradictions that are none any more; it counts where there were many."""
        return np.asarray(1 - self.contradicted / np.maximum(self.most, WRONG))

    def after(self, step: int, seen: Signal, memory: float = MEMORY, lasting: float = 0.0) -> "Place":
        """The same place with a measurement in mind. memory, lasting: e-folds of training, as of `Law`.

        >>> seen = Signal(*(np.array([each]) for each in (0.0, 0.0, 0.0, 0.8, 0.2, 1.0, True, 0.2)))
        >>> Place.at(0.5).after(20, seen).most.tolist()
        [0.2]
        """
        past = np.where(self.since > 0, np.maximum(self.since, 1) / max(step, 1), 0.0)
        old = past ** (1 / memory)
        new = np.where(self.since > 0, 1 - past ** (1 / lasting), 0.0) if lasting else np.ones_like(past)
        found = self._in_mind(seen, old, new, "doubted", seen.doubt)
        if seen.contradicted is None:
            return found
        return found._in_mind(seen, old, new, "contradicted", seen.contradicted)

    def _in_mind(self, seen: Signal, old: np.ndarray, new: np.ndarray, name: str, now: np.ndarray) -> "Place":
        """With the mean of a number over the last e-folds, and the most that it ever was while the curve meant much."""
        most = {"contradicted": "most", "doubted": "most_doubted"}[name]
        before, highest = getattr(self, name), getattr(self, most)
        mean = old * before + (1 - old) * np.where(np.isfinite(now), now, before)
        risen = np.maximum(highest, (1 - new) * highest + new * mean)
        return replace(self, **{name: mean, most: np.where(seen.ready, risen, highest)})

    def as_json(self) -> dict[str, Json]:
        """Plain numbers, from which `from_json` makes the same place, exactly."""
        return {name: values.tolist() for name, values in vars(self).items()}

    @classmethod
    def from_json(cls, given: Mapping[str, Json]) -> "Place":
        """Read what `as_json` made, or a version that knew nothing of contradictions, doubts or the start.

        >>> Place.from_json(Place.at(0.1).as_json()).u.tolist()
        [0.1]
        """
        found = {name: np.asarray(given.get(name), float) for name in ("u", "since")}
        later = ("contradicted", "most", "doubted", "most_doubted", "begun")
        found |= {name: np.asarray(given.get(name, 0 * found["u"]), float) for name in later}
        if any(v.ndim != 1 or v.shape != found["u"].shape or not np.isfinite(v).all() for v in found.values()):
            raise ValueError(f"state must hold u and since, as state_dict gives them, got {dict(given)!r}")
        return cls(**found | {"since": found["since"].astype(int)})


def taken_back(place: Place, allowed: float, at_most: float) -> np.ndarray:
    """r: what contradictions that were taken back ask for, beyond a share that is allowed."""
    asked = np.clip((place.taken_back - allowed) / TAKEN_BACK, 0, at_most)
    return np.where(place.most > WRONG, asked, 0.0)


def told(seen: Signal, open_: tuple[float, float]) -> np.ndarray:
    """From 1 to 0, as more and more labels are left open, neither said nor firmly contradicted.

    >>> seen = Signal(*(np.array([each]) for each in (0.0, 0.0, 0.0, 0.7, 0.0, 1.0, True)))
    >>> told(seen, (0.2, 0.4)).round(3).tolist()
    [0.5]
    """
    left_open = 1 - seen.fit - 2 * seen.doubt  # one that is contradicted firmly is doubted by one half or more
    return np.asarray(np.clip((open_[1] - left_open) / (open_[1] - open_[0]), 0.0, 1.0))


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
