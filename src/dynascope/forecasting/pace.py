"""How fast training goes: the learning rate over time, past and future, in units of its largest value."""

from dataclasses import dataclass

import numpy as np

_PIECES = 256
_SAME = 0.02  # relative change of the rate below which it is constant


@dataclass(frozen=True)
class Pace:
    """time: (piece,), in units of the time seen, as x of `Seen`; rate: (piece,), its largest is 1.

    What came before the first time is taken for a ramp from 0 at time 0: a warm-up that was not recorded.
    """

    time: np.ndarray
    rate: np.ndarray

    def up_to(self, last: float) -> "Pace":
        """The same in units of another time."""
        return Pace(self.time / last, self.rate)

    def changes(self, start: float, end: float) -> float:
        """Logarithm of the largest over the smallest rate between two times.

        >>> Pace(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.1])).changes(0.0, 1.0)
        0.0
        """
        ends = np.interp([start, end], self.time, self.rate)
        inside = self.rate[(self.time > start) & (self.time < end)]
        rates = np.maximum(np.concatenate([ends, inside]), 1e-3)
        return float(np.log(rates.max() / rates.min()))

    def area(self, power: float = 1.0) -> np.ndarray:
        """∫ rate^power from the start of training to each time, (piece,)."""
        v = self.rate**power
        begun = self.time[0] * v[0] / (1 + power)
        return np.concatenate([[begun], begun + np.cumsum(np.diff(self.time) * (v[1:] + v[:-1]) / 2)])


def pace_of(step: np.ndarray, rate: np.ndarray, shift: float, scale: float) -> Pace | None:
    """The pace of training from learning rates at steps, None where they never change.

    >>> pace_of(np.array([0.0, 10.0]), np.array([0.1, 0.1]), 0.0, 10.0) is None
    True
    """
    if rate.max() <= 0 or rate.min() >= (1 - _SAME) * rate.max():
        return None
    fine = np.unique(np.concatenate([np.linspace(step[0], step[-1], _PIECES), step[:: max(len(step) // _PIECES, 1)]]))
    return Pace((fine + shift) / scale, np.interp(fine, step, rate) / rate.max())
