"""Nothing more happens: the last value, the recent mean, the best so far."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynascope.forecasting.candidates.shapes import Fit
from dynascope.forecasting.seen import Seen


@dataclass(frozen=True)
class Level:
    """A value that stays. read: from curves to their values, (curve,)."""

    name: str
    read: Callable[[Seen], np.ndarray]

    def fit(self, seen: Seen, ahead: np.ndarray) -> Fit:
        """Continue curves."""
        value = np.repeat(self.read(seen)[:, None], len(ahead), 1)
        zero = np.zeros_like(value)
        return Fit(value, zero, value, np.ones(len(value)), zero)


LAST = Level("last value", lambda seen: seen.last)
RECENT = Level("recent mean", lambda seen: seen.level)
BEST = Level("best so far", lambda seen: seen.y.min(1))
