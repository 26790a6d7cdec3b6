"""The multi-power law: a power law in the sum of learning rates, less what every decay of the rate gives at once.

    level + height · [(S/S₁)^−α − ρ Σ_k (η_k−1 − η_k) (1 − (1 + C η_k^−γ (A − A_k))^−β)]

with learning rates η in units of the largest, A = ∫ η, S = ∫ η^κ from the start of training, and S₁ the S of now. The
published law has κ = 1 and free β and γ; on its runs κ is about 0.7 to 1 (training goes on at small rates faster than
their sum says), and β = 1, γ = 1/2 fit as well. Its numbers are known where rates have changed already; else they are
what earlier runs had. What decays will give is what it errs by most, and nothing in the past of a run says by how much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from dynascope.forecasting.candidates.shapes import Fit, least_squares, product, weigh
from dynascope.forecasting.pace import Pace
from dynascope.forecasting.seen import Seen

_BETA, _GAMMA = 1.0, 0.5
# what the law errs by besides: of its way, and of what decays will give. Set where language models were forecast
_DOUBT = (0.1, 0.3)
_BEGUN = 1e-4  # of the sum of rates up to now: where a rate that rises from 0 begins
_LEARNT = (1.1, 1.15, 1.5, 1.15)  # ratios to one sigma by which α, ρ, C, κ differ between runs that are alike


@dataclass(frozen=True)
class MultiPower:
    """α exponent, ρ drop, C speed (of now: in units of the time seen) and κ power, as medians and ratios to one sigma.

    >>> MULTI_POWER.fit(Seen(np.array([0.5, 1.0]), np.ones((1, 2))), np.array([2.0])) is None
    True
    """

    exponent: tuple[float, float] = (0.5, 1.5)
    drop: tuple[float, float] = (0.4, 1.8)
    speed: tuple[float, float] = (100.0, 4.0)
    power: tuple[float, float] = (0.85, 1.2)
    unit: float = 0.0  # steps in which drop and speed are meant; 0: the time seen, so that nothing has a scale
    name: str = "multi-power law"

    @property
    def numbers(self) -> tuple[tuple[float, float], ...]:
        """α, ρ, C and κ."""
        return self.exponent, self.drop, self.speed, self.power

    def fit(self, seen: Seen, ahead: np.ndarray) -> Fit | None:
        """Continue curves whose learning rates change."""
        if seen.pace is None or not np.interp(1.0, seen.pace.time, seen.pace.area()):  # or not begun
            return None
        # equal steps of one sigma, and the parabola of their prior
        places = [np.arange(-2.0, 2.1, step) for step in (1.0, 1.0, 2.0, 2.0)]
        axes = [middle * ratio**place for (middle, ratio), place in zip(self.numbers, places, strict=True)]
        grid = self._of_now(product(*axes), seen)
        log_prior = -0.5 * (product(*places) ** 2).sum(1)
        times = np.concatenate([seen.x, ahead])
        power, given, moved = _terms(seen.pace, times, grid)
        table, now = power - given, len(seen.x)
        doubted = _DOUBT[1] * (moved[:, now:] - moved[:, now - 1 : now])
        found = weigh(seen, table[:, :now], table[:, now:], log_prior, doubted)
        way = found.mean - seen.last[:, None]
        return replace(found, doubt=np.hypot(_DOUBT[0] * way, found.doubt))

    def _of_now(self, grid: np.ndarray, seen: Seen) -> np.ndarray:
        """Drop and speed in units of the time seen."""
        if not self.unit:
            return grid
        assert seen.pace is not None
        long = seen.scale / self.unit
        passed = np.array([np.interp(1.0, seen.pace.time, seen.pace.area(power)) for power in grid[:, 3]]) * long
        return np.stack([grid[:, 0], grid[:, 1] * passed ** grid[:, 0], grid[:, 2] * long, grid[:, 3]], 1)


def learn_law(runs: Sequence[Seen], unit: float) -> MultiPower:
    """The law as runs of changing learning rates, known to their end, had it: level and height of each are its own.

    unit: steps in which its numbers are meant.
    """

    def misfits(logs: np.ndarray) -> np.ndarray:
        candidate = _law_of(np.exp(logs), (1.0,) * len(logs), unit)
        prior = 0.1 * (logs - start) / spread
        return np.concatenate([_misfit(each, candidate) for each in runs] + [prior])

    start = np.log([each[0] for each in _DEFAULTS])
    spread = np.log([each[1] for each in _DEFAULTS])
    found = np.exp(optimize.least_squares(misfits, start, x_scale=spread).x)
    return _law_of(found, _LEARNT, unit)


def _law_of(numbers: np.ndarray, ratios: Sequence[float], unit: float) -> MultiPower:
    exponent, drop, speed, power = zip(numbers.tolist(), ratios, strict=True)
    return MultiPower(exponent, drop, speed, power, unit)


def _misfit(run: Seen, candidate: MultiPower) -> np.ndarray:
    """What one law leaves of a run, in hundredths of its range, over the root of its number of records."""
    grid = candidate._of_now(np.array([[each[0] for each in candidate.numbers]]), run)
    assert run.pace is not None
    shape = law(run.pace, run.x, grid)
    plain = least_squares(run, shape, shape)[1][0, 0]
    return np.asarray((plain - run.y[0]) / run.range[0] * 100 / np.sqrt(len(run.x)))


def law(pace: Pace, times: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The law's shape at times, for rows (α, ρ, C, κ) of a grid, (row, time).

    >>> pace = Pace(np.linspace(0.0, 2.0, 5), np.array([1.0, 1.0, 1.0, 0.5, 0.1]))
    >>> bool(law(pace, np.array([1.0]), np.array([[0.5, 1.0, 10.0, 1.0]])) == 1)
    True
    """
    power, given, _ = _terms(pace, times, grid)
    return np.asarray(power - given)


def _terms(pace: Pace, times: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The power of the sum of rates, what decays have given, and that where rises count as decays, (3, row, time)."""
    found = np.empty((3, len(grid), len(times)))
    area = pace.area()
    falls = -np.diff(pace.rate)
    kept = np.abs(falls) > 1e-6
    middle = ((area[1:] + area[:-1]) / 2)[kept]
    since = (
        np.maximum(np.interp(times, pace.time, area)[:, None] - middle, 0)
        * np.maximum(pace.rate[1:][kept], 1e-3) ** -_GAMMA
    )
    both = np.stack([falls[kept], np.abs(falls[kept])])
    gained = {c: both @ (1 - (1 + c * since) ** -_BETA).T for c in np.unique(grid[:, 2])}
    passed = {}
    for kappa in np.unique(grid[:, 3]):
        total = pace.area(kappa)
        now = np.interp(1.0, pace.time, total)
        passed[kappa] = np.maximum(np.interp(times, pace.time, total) / now, _BEGUN)
    for row, (alpha, rho, speed, kappa) in enumerate(grid):
        found[0, row], found[1:, row] = passed[kappa] ** -alpha, rho * gained[speed]
    return found


MULTI_POWER = MultiPower()
_DEFAULTS = MULTI_POWER.numbers
