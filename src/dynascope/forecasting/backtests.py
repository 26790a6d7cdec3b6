"""What candidates would have said earlier: forecasts of records that were seen, from several moments of the past."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynascope.forecasting.candidates.earlier import Earlier
from dynascope.forecasting.candidates.shapes import Candidate
from dynascope.forecasting.seen import BEGUN, Seen

_ORIGINS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9)  # of the time seen
_LATE = 0.6  # of the way from an origin to now: where a forecast is judged
_FEWEST = 4  # records before an origin
_REACH = 3.0  # times as far as a curve has come: no candidate goes further


@dataclass(frozen=True)
class Backtests:
    """Errors from each origin. ratio: now over then, (origin,); size, bias: (curve, origin, candidate)."""

    ratio: np.ndarray
    size: np.ndarray
    bias: np.ndarray

    def at(self, ratio: float) -> tuple[np.ndarray, np.ndarray]:
        """Errors of forecasts that reach about as far ahead, (curve, candidate) each."""
        near = np.exp(-0.5 * (np.log(self.ratio / ratio) / 0.5) ** 2) + 1e-3
        near /= near.sum()
        return np.einsum("cok,o->ck", self.size, near), np.einsum("cok,o->ck", self.bias, near)


@dataclass(frozen=True)
class Said:
    """What candidates say side by side, as `Fit` has it; NaN where one says nothing, and no doubt.

    mean, spread, plain, doubt: (curve, candidate, time); misfit: (curve, candidate)
    """

    mean: np.ndarray
    spread: np.ndarray
    plain: np.ndarray
    doubt: np.ndarray
    misfit: np.ndarray


def continue_all(seen: Seen, ahead: np.ndarray, candidates: Sequence[Candidate]) -> Said:
    """Let all candidates continue curves.

    Means stay within reach: some times as far from the last value as the curve has come, or would have in so many times
    its time, but for those of earlier runs, which have seen what comes; and not below what the curve cannot go below.
    """
    fits = [each.fit(seen, ahead) for each in candidates]
    blank = np.full((len(seen.y), len(ahead)), np.nan)
    mean, spread, plain = (
        np.stack([blank if each is None else getattr(each, name) for each in fits], 1)
        for name in ("mean", "spread", "plain")
    )
    misfit = np.stack([np.ones(len(seen.y)) if each is None else each.misfit for each in fits], 1)
    last = seen.last[:, None, None]
    bold = np.array([isinstance(each, Earlier) for each in candidates])[:, None]
    longer = np.maximum(np.log(ahead) / -np.log(np.clip(seen.x[0], BEGUN, 0.999)), 1.0)
    far = 1.0 if seen.begin else _REACH  # the short piece of a late log says less
    reach = far * seen.range[:, None, None] * longer
    further = np.where(bold, np.inf, reach)
    mean = np.maximum(np.clip(mean, last - further, last + further), seen.least[:, None, None])
    doubt = np.stack([np.zeros_like(blank) if each is None else each.doubt for each in fits], 1)
    return Said(mean, spread, plain, np.minimum(doubt, reach), misfit)


def backtest(seen: Seen, candidates: Sequence[Candidate]) -> Backtests | None:
    """Let candidates forecast the late part of what was seen; None where too little was.

    >>> from dynascope.forecasting.candidates.levels import LAST
    >>> backtest(Seen(np.arange(1, 11) / 10, np.arange(10.0)[None, ::-1]), [LAST]).bias[0, :, 0].tolist()
    [4.0, 3.5, 2.0, 1.0]
    """
    ratios, sizes, biases = [], [], []
    begin = seen.begin  # a late log is tested from moments between its first record and now
    for origin in _ORIGINS:
        records = int((seen.x <= begin + origin * (1 - begin) + 1e-9).sum())
        if records < _FEWEST or records == len(seen.x):
            continue
        then = float(seen.x[records - 1])
        late = seen.x >= then + _LATE * (1 - then)
        mean = continue_all(seen.first(records), seen.x[late] / then, candidates).mean
        error = mean - seen.y[:, None, late]
        ratios.append(1 / then)
        sizes.append(np.abs(error).mean(-1))
        biases.append(error.mean(-1))
    if not ratios:
        return None
    return Backtests(np.array(ratios), np.stack(sizes, 1), np.stack(biases, 1))
