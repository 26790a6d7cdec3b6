"""As earlier runs went: their curves are shapes, shifted to where this one stands and stretched as it was so far.

Where learning rates change, that is half of it, and the law of these runs (`schedule`) the other half: a larger network
falls further than a smaller one that is shifted to it, and less far than the law, which scales with the fall so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynascope.forecasting.candidates.schedule import MULTI_POWER, MultiPower
from dynascope.forecasting.candidates.shapes import Candidate, Fit, least_squares, mixed, odds_of
from dynascope.forecasting.pace import Pace
from dynascope.forecasting.seen import Seen

_STRETCH = (0.5, 2.0)
_SAME = 0.08  # of the largest rate: schedules that differ less, everywhere, are the same
_DOUBT = 0.09  # of the way: what they err by besides
_SHORT = 0.98  # of the way that an earlier run must have come


@dataclass(frozen=True)
class Known:
    """A run that is known to its end: step, value (record,), and its pace, in steps."""

    step: np.ndarray
    value: np.ndarray
    pace: Pace | None = None


@dataclass(frozen=True)
class Earlier:
    """Earlier runs of the same schedule that went at least as far.

    >>> NONE.fit(Seen(np.array([0.5, 1.0]), np.ones((1, 2))), np.array([2.0])) is None
    True
    """

    runs: tuple[Known, ...]
    law: MultiPower = MULTI_POWER
    name: str = "earlier runs"

    def alike(self, seen: Seen, ahead: np.ndarray) -> list[Known]:
        """Those that had the same schedule and went as far."""
        return [each for each in self.runs if _alike(each, seen, ahead[-1] * seen.scale)]

    def fit(self, seen: Seen, ahead: np.ndarray) -> Fit | None:
        """Continue curves as earlier runs went on, those more that went alike so far."""
        times = np.concatenate([seen.x, ahead]) * seen.scale
        runs = self.alike(seen, ahead)
        if not runs:
            return None
        table = np.stack([np.interp(times, each.step, each.value) for each in runs])
        past, future = table[:, : len(seen.x)], table[:, len(seen.x) :]
        _, plain, misfit, height = least_squares(seen, past, future, trust=False)
        stretch = np.clip((height + 1) / 2, *_STRETCH)  # half of what the past says: it shows little of the slope ahead
        continued = seen.level[:, None, None] + stretch[..., None] * (future - (past @ seen.recent)[:, None])
        found = mixed(odds_of(seen, misfit), continued, plain, misfit)
        found = replace(found, doubt=_DOUBT * np.abs(found.mean - seen.last[:, None]))
        by_law = self.law.fit(seen, ahead)
        if by_law is None:
            return found
        apart = np.hypot(found.spread / 2, by_law.spread / 2) + np.abs(found.mean - by_law.mean) / 2
        return Fit(
            (found.mean + by_law.mean) / 2, apart, found.plain, found.misfit, np.hypot(found.doubt, by_law.doubt) / 2
        )


@dataclass(frozen=True)
class LawAlone:
    """The law of earlier runs where none of them had this schedule; else it is half of what these say."""

    earlier: Earlier
    name: str = MULTI_POWER.name

    def fit(self, seen: Seen, ahead: np.ndarray) -> Fit | None:
        """Continue curves whose learning rates change."""
        return None if self.earlier.alike(seen, ahead) else self.earlier.law.fit(seen, ahead)


def settled(candidates: Sequence[Candidate], seen: Seen, ahead: np.ndarray) -> Sequence[Candidate]:
    """The same where no earlier run goes as far as is asked: then the law is on its own in backtests, too."""
    *others, _, earlier = candidates
    if not isinstance(earlier, Earlier) or not earlier.runs or earlier.alike(seen, ahead):
        return candidates
    none = replace(earlier, runs=())
    return [*others, LawAlone(none), none]


def _alike(run: Known, seen: Seen, end: float) -> bool:
    if run.step[-1] < _SHORT * end or run.step[0] > 0.5 * seen.scale:
        return False
    if run.pace is None or seen.pace is None:
        return run.pace is None and seen.pace is None
    times = np.linspace(max(run.step[0], seen.pace.time[0] * seen.scale), end, 200)
    own = np.interp(times, seen.pace.time * seen.scale, seen.pace.rate)
    return bool(np.abs(own - np.interp(times, run.pace.time, run.pace.rate)).max() < _SAME)


NONE = Earlier(())
