"""The law of control where layers are not all linear maps: no target of the bend is known, beliefs are.

u moves by gain · asked in an e-fold of training time, as in `dynascope.steering.law`. They learn by heart within a
fraction of an e-fold, so that all of it is swifter, and dropout that is 0 does not begin there: what is learnt by heart
before there is noise is not all given up again. It begins at (1 − p)^L = 0.4, what is left of a signal behind all L
dropout layers that it passes in a row, branches counted as one; at 0.1 where that cannot be told. u never falls below
its start.

    asked = e + r       e = clip((0.85 − doubt/most doubt)/0.05, −3, 10) · clip((most doubt − 0.1)/0.02, 0, 1)

Labels that are hard are doubted first and believed when they are learnt by heart. r: contradictions
taken back beyond a tenth, as there, at most 10; in place of e. All of these follow what is seen over 0.25
e-folds. Inputs beside the training set, where there are some, say it without any label:

    asked = ± ((g − 0.02)/0.01)², from −3 to 20

g: by how much a network is surer on what it trains on. Either counts only as far as labels are said or contradicted:
before a network knows them, there is no reason for less noise, and one that cannot learn them has no room for more.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from dynascope.checks import Given
from dynascope.monitor.beliefs import Signal
from dynascope.steering.knobs import Dropout
from dynascope.steering.law import WRONG, Law, Place, taken_back, told

PASSES = 0.4  # what dropout that is 0 leaves of a signal when it begins
BEGIN = 0.1  # where it begins if it cannot be told how many layers the signal passes
LINEAR = "Linear"  # the kind of layers for which a target of the bend is known
KEPT, STEEP = 0.85, 0.05  # the share of the most doubt to keep, and how sharply
TAKEN_BACK = 0.1  # share of the contradictions that may be taken back
DOUBTED = (0.1, 0.12)  # the most doubt from which on it counts, and counts fully
SLOWEST, SWIFT = -3.0, 10.0  # the least and most that doubts and contradictions ask for
SURER, HEART, FASTEST = 0.02, 0.01, 20.0  # g that is left alone, what is beyond measured by, and the most it asks for
OPEN, OPEN_BESIDE = (0.1, 0.2), (0.2, 0.4)  # share of labels left open from which less noise is added, and none


class OtherLayers(Law):
    """As `Law`, by doubts or by inputs beside.

    >>> law, place = OtherLayers(), Place.at(0.0)
    >>> seen = Signal(*(np.array([each]) for each in (1.0, 0.9, 1.1, 1.0, 0.0, 0.95, True)), beside=np.array([0.91]))
    >>> (law.rate(seen, place) / law.gain).round(6).tolist()  # surer by 0.04
    [4.0]
    """

    lasting: ClassVar[float] = 0.25

    def rate(self, seen: Signal, place: Place) -> np.ndarray:
        """How far u moves in an e-fold of training time. place: with what was seen in mind."""
        if seen.beside is None:
            asked, few = self._forgotten(place) + taken_back(place, TAKEN_BACK, SWIFT), told(seen, OPEN)
        else:
            beyond = (seen.sure - seen.beside - SURER) / HEART
            asked, few = np.clip(beyond * np.abs(beyond), SLOWEST, FASTEST), told(seen, OPEN_BESIDE)
        return self.gain * np.where(seen.ready, few * asked, 0.0)

    def least(self, place: Place) -> np.ndarray:
        """The u at which it began: neither doubts nor inputs beside say that this was too much."""
        return place.begun

    def _forgotten(self, place: Place) -> np.ndarray:
        """By how much less is left of what a network doubted than there should be; contradictions say more."""
        left = place.doubted / np.maximum(place.most_doubted, DOUBTED[0])
        counts = np.clip((place.most_doubted - DOUBTED[0]) / (DOUBTED[1] - DOUBTED[0]), 0.0, 1.0)
        asked = counts * np.clip((KEPT - left) / STEEP, SLOWEST, SWIFT)
        return np.where(place.most <= WRONG, asked, 0.0)


def beginning(law: Law, knob: str, value: float, most: float, in_a_row: Callable[[], int | None]) -> float:
    """The value at which a knob begins. most: the most that it may be. in_a_row: layers that a signal passes, if known.

    >>> beginning(OtherLayers(), "dropout", 0.0, 0.6, lambda: 2), beginning(Law(), "dropout", 0.0, 0.6, lambda: 2)
    (0.3675444679663241, 0.0)
    """
    if not isinstance(law, OtherLayers) or law.gain == 0 or knob != Dropout.name or value != 0:
        return value
    layers = in_a_row()
    return min(BEGIN if layers is None else 1 - PASSES ** (1 / layers), most)


def law_for(kinds: Sequence[str], gain: Given[float], target: Given[float | None], steps: Given[int | None]) -> Law:
    """Make the law for a network with layers of these kinds, "" for its input; a target brings the bend back.

    >>> type(law_for(["", "Linear", "Linear"], 0.2, None, None)).__name__
    'Law'
    >>> type(law_for(["", "Conv2d"], 0.2, None, None)).__name__
    'OtherLayers'
    """
    if target is None and {*kinds} - {"", LINEAR}:
        return OtherLayers(gain, 0.0, steps)
    return Law(gain, 0.0 if target is None else target, steps)
