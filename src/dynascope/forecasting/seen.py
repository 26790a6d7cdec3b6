"""Curves of the same steps side by side, in units in which all runs are alike: time from its start to its last record.

x is the step over the last one that was seen, so that the future is x > 1 and a ratio of 2 is "as long again".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynascope.forecasting.pace import Pace, pace_of

MOST = 64  # records of a curve that are fitted: more are averaged in equal stretches of training
_MEMORY = 1.5  # records in which the weight of the last level falls by 1/e
_DIGITS = 14  # of times and rates: other units of them change nothing
_LEAST = 1e-6  # weight of a record, however far it is from the others
_LATE = 0.5  # of the time seen: a log that begins later is one of a resumed run
BEGUN = 0.1  # of the time seen: what came before is not counted to the range of a curve


@dataclass(frozen=True)
class Kind:
    """What the name of a quantity tells.

    told: 1 where it is measured on data that is not trained on, −1 on what is, 0 where that is not said
    least: value that a share, turned to fall, cannot go below; −∞ if it is none
    Both of all curves, or of each (curve,).
    """

    told: float | np.ndarray = 0.0
    least: float | np.ndarray = -np.inf


UNNAMED = Kind()


@dataclass(frozen=True)
class Seen:
    """x: (record,), increasing to 1. y: (curve, record), finite. pace: learning rates, None where they do not change.

    scale: steps of one unit of time. kind: of the quantity.
    """

    x: np.ndarray
    y: np.ndarray
    pace: Pace | None = None
    scale: float = 1.0
    kind: Kind = UNNAMED

    def first(self, records: int) -> "Seen":
        """The same curves when only so many records had been seen.

        >>> Seen(np.array([0.25, 0.5, 1.0]), np.ones((1, 3))).first(2).x.tolist()
        [0.5, 1.0]
        """
        last = float(self.x[records - 1])
        pace = None if self.pace is None else self.pace.up_to(last)
        return Seen(self.x[:records] / last, self.y[:, :records], pace, self.scale * last, self.kind)

    @property
    def begin(self) -> float:
        """When the log begins, if that is late; else 0."""
        return float(self.x[0]) if self.x[0] > _LATE else 0.0

    def moment(self, place: np.ndarray) -> np.ndarray:
        """How late records at places (curve,) are, between 0 and 1."""
        return np.asarray((self.x[place] - self.begin) / (1 - self.begin))

    @cached_property
    def recent(self) -> np.ndarray:
        """Weights of the records, of sum 1, that the level of now is read from."""
        weight = np.exp(-np.arange(len(self.x))[::-1] / _MEMORY)
        return np.asarray(weight / weight.sum())

    @cached_property
    def level(self) -> np.ndarray:
        """Where curves stand, without their noise, (curve,)."""
        return np.asarray(self.y @ self.recent)

    @cached_property
    def last(self) -> np.ndarray:
        """The last records, (curve,)."""
        return self.y[:, -1]

    @cached_property
    def range(self) -> np.ndarray:
        """How far curves went, their first tenth left out, (curve,)."""
        late = self.y[:, self.x >= BEGUN]
        return np.asarray(late.max(1) - late.min(1))

    @cached_property
    def least(self) -> np.ndarray:
        """What curves cannot go below: 0 if they never were; −∞ if nothing is known, (curve,)."""
        return np.where(self.y.min(1) >= 0, 0.0, self.kind.least)

    @cached_property
    def trust(self) -> np.ndarray:
        """Weights of records in fits, (curve, record): those of a steep beginning would decide everything."""
        near = self.range[:, None] + 1e-300
        return np.asarray(np.maximum((near / np.maximum(np.abs(self.y - self.last[:, None]), near)) ** 2, _LEAST))

    @cached_property
    def noise(self) -> np.ndarray:
        """Standard deviation of records about a smooth curve, from their last second differences, (curve,)."""
        if len(self.x) < 3:
            return np.zeros(len(self.y))
        bent = np.abs(np.diff(self.y, 2))[:, -16:]
        return np.asarray(np.median(bent, 1) / (0.6745 * np.sqrt(6)))


def lay_out(
    step: np.ndarray,
    values: Sequence[np.ndarray],
    rates: tuple[np.ndarray, np.ndarray] | None = None,
    kind: Kind = UNNAMED,
) -> tuple[Seen, float, np.ndarray]:
    """Curves of the same steps as candidates take them, the shift of their time in steps, the noise of single records.

    values: of each curve, finite (record,). rates: steps and learning rates, past and future.

    >>> seen, shift, _ = lay_out(np.array([0.0, 10.0, 20.0]), [np.ones(3)])
    >>> shift, seen.scale, seen.x[-1].item()
    (10.0, 30.0, 1.0)
    """
    span = float(np.abs(step[[0, -1]]).max())
    times = rounded(step / span)
    means = [averaged(times, each) for each in values]
    time = means[0][0]
    shift = _shift(times)
    long = float(times[-1] + shift)
    pace = None if rates is None else pace_of(*rates, shift * span, long * span)
    seen = Seen((time + shift) / long, np.stack([each for _, each, _ in means]), pace, long * span, kind)
    return seen, shift * span, np.array([each for _, _, each in means])


def rounded(values: np.ndarray) -> np.ndarray:
    """Values to so many digits that what was written in other units is the same.

    >>> rounded(np.array([0.1 + 0.2, 0.0])).tolist()
    [0.3, 0.0]
    """
    place = np.floor(np.log10(np.abs(values), out=np.zeros(len(values)), where=values != 0))
    size = 10.0 ** np.minimum(_DIGITS - 1 - place, 300)
    return np.asarray(np.round(values * size) / size)


def _shift(step: np.ndarray) -> float:
    """What is added to steps, so that a curve that begins at 0 has a logarithm of its time."""
    return max(float(step[1] - 2 * step[0]), 0.0) if len(step) > 1 else 0.0


def averaged(step: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """At most `MOST` records, means over equal stretches of training; and the noise that a single record has beside.

    >>> averaged(np.arange(1.0, 129.0), np.tile([0.0, 1.0], 64))[1][:3].tolist()
    [0.5, 0.5, 0.5]
    """
    if len(step) <= MOST:
        return step, value, 0.0
    place = np.minimum(((step - step[0]) / (step[-1] - step[0]) * MOST).astype(int), MOST - 1)
    sizes = np.bincount(place, minlength=MOST)
    kept = sizes > 0
    t, y = (np.bincount(place, each, MOST)[kept] / sizes[kept] for each in (step, value))
    late = place >= MOST * 3 // 4
    trend = np.interp(step[late], t, y)
    many = sizes[kept][-1]
    apart = float(np.std(value[late] - trend)) * float(np.sqrt(1 - 1 / max(many, 1)))
    return t, y, apart
