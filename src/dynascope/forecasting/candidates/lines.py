"""Straight on: in the step, or in its logarithm, from the later part of what was seen."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynascope.forecasting.candidates.shapes import Fit, least_squares
from dynascope.forecasting.seen import Seen

_FEW = 4  # records that a line needs


@dataclass(frozen=True)
class Line:
    """A line in `scale` of time through what came after each of `since`; the middle one is its mean, all its spread."""

    name: str
    scale: Callable[[np.ndarray], np.ndarray]
    since: tuple[float, float, float]

    def fit(self, seen: Seen, ahead: np.ndarray) -> Fit:
        """Continue curves."""
        later = [seen.x >= each for each in self.since]
        weights = np.stack([each if each.sum() >= _FEW else np.ones_like(each) for each in later]).astype(float)
        shape = [np.repeat(self.scale(each)[None], len(weights), 0) for each in (seen.x, ahead)]
        continued, plain, misfit, _ = least_squares(seen, shape[0], shape[1], weights)
        mean = continued[:, 1]
        return Fit(mean, continued.std(1), plain[:, 0], misfit[:, 1], np.zeros_like(mean))


LINE = Line("line", np.asarray, (0.0, 0.5, 0.75))
LOG_LINE = Line("line in log step", np.log, (0.0, 0.3, 0.6))
