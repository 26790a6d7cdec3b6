"""How far each candidate is to be believed: by its backtests on this run, as other runs taught to read them.

A small network, shared by all candidates, takes what the backtests of one say, and how its forecast lies to the others,
and gives it a weight and a width. The forecast is the mixture of normal distributions that comes out. What the network
has learnt (`learning`) ships as numbers in prior.json.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
from scipy.special import ndtr, ndtri

from dynascope.forecasting.backtests import Backtests, Said, backtest, continue_all
from dynascope.forecasting.candidates import CANDIDATES
from dynascope.forecasting.candidates.earlier import settled
from dynascope.forecasting.candidates.shapes import Candidate
from dynascope.forecasting.seen import Seen

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
PRIOR = Path(__file__).with_name("prior.json")
NUMBERS = ("inputs", "offsets", "outputs", "candidates", "wide")  # that are learnt
BANDS = (0.5, 0.8, 0.95)  # between levels that lie as far from the middle
# places among the common clues of whether the learning rate changes, whether it is a share, and what the name tells
_PACED, _SHARE, TOLD = 7, 10, -1
SORTS = 7  # of quantities: trained on, not said, not trained on; each no share, or one; and `_WITH_RATE`
_WITH_RATE = 6  # no share, nothing said, and the learning rate changes
_QUIET = 1e-3  # units: noise below which curves are equally smooth
_SILENT = -1e9  # score of a candidate that says nothing


@dataclass(frozen=True)
class Clues:
    """What is known of the forecast of each curve at one time ahead.

    own: of each candidate, (curve, candidate, clue); common: (curve, clue)
    place: forecasts from the last value on, in units of `unit`, NaN for those who are silent, (curve, candidate)
    noise: of the records that were seen, in units: nothing is forecast better than that, (curve,)
    unit: what the last value was wrong by in the past, about, (curve,)
    plain: what each candidate says as everybody fits it, (curve, candidate)
    doubt: how far off each may be besides, in units, (curve, candidate)
    """

    own: np.ndarray
    common: np.ndarray
    place: np.ndarray
    noise: np.ndarray
    unit: np.ndarray
    plain: np.ndarray
    doubt: np.ndarray


class Prior(msgspec.Struct, frozen=True):
    """Numbers of the network, how much of the way it says is believed, and factors by which its bands come to hold.

    kept: of the way from the last value to the middle of a forecast, in percent, (sort,)
    ratios: how far ahead, ascending; units: of curves, over their last values, ascending; noises: in units, ascending
    factors: of the half widths of `BANDS`, in percent, (sort, band, noise, unit, ratio)
    """

    made: str
    inputs: list[list[float]]
    offsets: list[float]
    outputs: list[list[float]]
    candidates: list[list[float]]
    wide: list[float]
    kept: list[int]
    ratios: list[float]
    units: list[float]
    noises: list[float]
    factors: list[list[list[list[list[int]]]]]


@dataclass(frozen=True)
class Mixture:
    """Normal distributions of each curve: weight, mean, width, (curve, part), in the curve's own units."""

    weight: np.ndarray
    mean: np.ndarray
    width: np.ndarray

    def below(self, value: np.ndarray) -> np.ndarray:
        """Probability of less than a value, (curve,)."""
        return np.asarray((self.weight * ndtr((value[:, None] - self.mean) / self.width)).sum(1))

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Values at levels (level,) or (curve, level), by bisection, (curve, level).

        >>> Mixture(*(np.array([[each]]) for each in (1.0, 5.0, 2.0))).quantile(np.array([0.5])).round(6).tolist()
        [[5.0]]
        """
        levels = np.broadcast_to(levels, (len(self.mean), np.shape(levels)[-1]))
        low = np.repeat((self.mean - 9 * self.width).min(1)[:, None], levels.shape[1], 1)
        high = np.repeat((self.mean + 9 * self.width).max(1)[:, None], levels.shape[1], 1)
        mean, width, weight = (each[:, None] for each in (self.mean, self.width, self.weight))
        for _ in range(50):
            middle = (low + high) / 2
            short = (weight * ndtr((middle[..., None] - mean) / width)).sum(-1) < levels
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.asarray((low + high) / 2)


def clues(seen: Seen, ahead: np.ndarray, candidates: Sequence[Candidate] = CANDIDATES) -> list[Clues]:
    """Collect what is known of the forecast at each time ahead."""
    candidates = settled(candidates, seen, ahead)
    said = continue_all(seen, ahead, candidates)
    tests = backtest(seen, candidates)
    unit = _unit(seen, tests)[:, None]
    return [_clues(seen, float(time), number, said, tests, unit) for number, time in enumerate(ahead)]


def _unit(seen: Seen, tests: Backtests | None) -> np.ndarray:
    erred = seen.range / 2 if tests is None else np.sqrt((tests.size[:, :, 0] ** 2).mean(1))
    least = 1e-9 + 1e-6 * np.abs(seen.last)
    return np.asarray(0.8 * erred + 0.2 * seen.noise + 0.02 * seen.range + least)


def _clues(seen: Seen, time: float, number: int, said: Said, tests: Backtests | None, unit: np.ndarray) -> Clues:
    """What is known of the forecast at a time, the so manieth of those that were asked for."""
    columns = (said.mean, said.spread, said.plain, said.doubt)
    mean, spread, plain, doubt = (each[:, :, number] for each in columns)
    doubt = doubt / unit
    size, bias = (np.ones_like(mean), np.zeros_like(mean)) if tests is None else tests.at(time)
    if tests is not None:
        size, bias = size / unit, bias / unit
    place = (mean - seen.last[:, None]) / unit
    middle = np.nanmedian(place, 1, keepdims=True)
    own = [
        np.log(np.nan_to_num(size, nan=1.0) + 0.02),
        np.arcsinh(np.nan_to_num(bias)),
        np.arcsinh(place),
        np.arcsinh(place - middle),
        np.log1p(spread / unit),
        np.log(said.misfit) / 4,
    ]
    one, pace = np.ones(len(mean)), seen.pace
    past, future = (0.0, 0.0) if pace is None else (pace.changes(0.0, 1.0), pace.changes(1.0, time))
    unit = unit[:, 0]
    share = np.isfinite(seen.kind.least) * one
    room = np.where(share, seen.last - seen.kind.least, 1.0)
    common = [
        np.log(time) * one,
        np.log(len(seen.x)) / 2 * one,
        np.log(noise_of(seen.noise / unit)) / 2,
        np.log(size_of(unit, seen.last)) / 3,
        float(tests is not None) * one,
        (seen.last - seen.y.min(1)) / (seen.range + 1e-12),
        np.log(np.nanstd(place, 1) + 0.05),
        float(pace is not None) * one,
        past / 2 * one,
        future / 2 * one,
        share * one,
        np.where(share, np.log(size_of(unit, room)) / 3, 0.0),
        np.arcsinh((seen.last - seen.y[:, 0]) / unit) / 3,  # one that has exploded is above where it began
        seen.moment(seen.y.argmax(1)),
        seen.moment(seen.y.argmin(1)),
        seen.kind.told * one,
    ]
    return Clues(np.nan_to_num(np.stack(own, -1)), np.stack(common, -1), place, seen.noise / unit, unit, plain, doubt)


def mixture(given: Clues, last: np.ndarray, prior: Prior) -> Mixture:
    """Weigh candidates. The last part is a wide one about the last value, for what no candidate foresees."""
    numbers = {name: np.asarray(getattr(prior, name)) for name in NUMBERS}
    score, width, place = parts(
        numbers, given.own, given.common, np.nan_to_num(given.place), np.isfinite(given.place), given.noise, xp=np
    )
    width[:, :-1] = np.hypot(width[:, :-1], given.doubt)  # the wide part is behind them
    odds = np.exp(score - score.max(1, keepdims=True))
    unit = given.unit[:, None]
    return Mixture(odds / odds.sum(1, keepdims=True), last[:, None] + unit * place, unit * width)


def parts(
    numbers: Mapping[str, Any], own: Any, common: Any, place: Any, speaks: Any, noise: Any, *, xp: ModuleType
) -> tuple[Any, Any, Any]:
    """What the network makes of clues: score, width and place of each part, (curve, part), the wide one last.

    numbers: those of `NUMBERS`. speaks: whether a candidate says something. xp: NumPy, or jax.numpy to learn with.
    """
    clue, count = own.shape[-1], place.shape[-1]
    table = numbers["inputs"]
    hidden = own @ table[:clue] + (common @ table[clue:-count])[:, None] + table[-count:]
    found = xp.tanh(hidden + numbers["offsets"]) @ numbers["outputs"] + numbers["candidates"]
    wide = xp.broadcast_to(numbers["wide"], (len(own), 1, 2))
    score = xp.concatenate([xp.where(speaks > 0, found[..., 0], _SILENT), wide[..., 0]], 1)
    width = xp.exp(xp.clip(xp.concatenate([found[..., 1], wide[..., 1]], 1), -6, 3))
    return score, xp.hypot(width, noise[:, None]), xp.concatenate([place, xp.zeros((len(own), 1))], 1)


def size_of(unit: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Unit of curves over their last values, within limits, (curve,)."""
    return np.asarray(unit / (np.abs(last) + 1e-12) + 1e-4)


def noise_of(noise: np.ndarray) -> np.ndarray:
    """Noise of curves, in units, within limits, (curve,)."""
    return np.asarray(noise + _QUIET)


def sort_of(given: Clues) -> np.ndarray:
    """Which of `SORTS` quantities are, (curve,)."""
    told, share, paced = (given.common[:, place] for place in (TOLD, _SHARE, _PACED))
    return np.where((told == 0) & (share == 0) & (paced == 1), _WITH_RATE, told + 1 + 3 * share).astype(int)


def bands(mixed: Mixture, given: Clues, last: np.ndarray, prior: Prior, ratio: float) -> np.ndarray:
    """Quantiles of a forecast so far ahead, moved, and widened about their middle until bands hold, (curve, level)."""
    found = moved(mixed.quantile(np.array(LEVELS)), last, sort_of(given), prior)
    return widened(found, factors_of(prior, ratio, given, last))


def moved(quantiles: np.ndarray, last: np.ndarray, sort: np.ndarray, prior: Prior) -> np.ndarray:
    """Quantiles nearer to the last value, (curve, level): on new tasks networks say too long a way for some quantities.

    >>> sure = msgspec.structs.replace(load_prior(), kept=[50] * SORTS)
    >>> moved(np.array([[0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]]), np.zeros(1), np.zeros(1, int), sure)[0, 2:5].tolist()
    [0.5, 1.0, 1.5]
    """
    way = quantiles[:, len(LEVELS) // 2] - last
    return np.asarray(quantiles - ((1 - np.asarray(prior.kept)[sort] / 100) * way)[:, None])


def widened(quantiles: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Quantiles whose half widths are multiplied by factors (curve, band), (curve, level).

    Each band stays wider than the one inside it, by as much at least as if errors were spread evenly.
    """
    middle, even = len(LEVELS) // 2, np.array(BANDS)
    centre, factor = quantiles[:, middle, None], np.maximum(factor, 1e-3)
    upper = even * np.maximum.accumulate(factor * (quantiles[:, middle + 1 :] - centre) / even, 1)
    lower = even * np.maximum.accumulate(factor * (centre - quantiles[:, middle - 1 :: -1]) / even, 1)
    return np.concatenate([centre - lower[:, ::-1], centre, centre + upper], 1)


def factors_of(prior: Prior, ratio: float | np.ndarray, given: Clues, last: np.ndarray) -> np.ndarray:
    """Factors of bands, between those of the table and at its edge beyond it, (curve, band).

    ratio: how far ahead, of all curves or of each (curve,).
    """
    ratios, size = np.broadcast_to(ratio, last.shape), size_of(given.unit, last)
    pairs = ((noise_of(given.noise), prior.noises), (size, prior.units), (ratios, prior.ratios))
    near = [_near(each, known) for each, known in pairs]
    return np.asarray(np.einsum("cn,cu,cr,cbnur->cb", *near, np.asarray(prior.factors)[sort_of(given)] / 100))


def _near(value: np.ndarray, known: Sequence[float]) -> np.ndarray:
    """Weights of the two known values that a value lies between, by its logarithm, (curve, known).

    >>> _near(np.array([0.1, 10.0, 1e9]), [1.0, 100.0]).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    place = np.interp(np.log(value), np.log(known), np.arange(len(known)))
    return np.asarray(np.maximum(1 - np.abs(place[:, None] - np.arange(len(known))), 0.0))


def with_noise(quantiles: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Quantiles of single records, which scatter about what was averaged, (curve, level). noise: (curve,).

    >>> with_noise(np.zeros((1, len(LEVELS))), np.ones(1)).round(2).tolist()
    [[-1.96, -1.28, -0.67, 0.0, 0.67, 1.28, 1.96]]
    """
    normal, middle = ndtri(np.array(LEVELS)), quantiles[:, len(LEVELS) // 2, None]
    return np.asarray(middle + np.sign(normal) * np.hypot(quantiles - middle, noise[:, None] * normal))


def load_prior(path: Path = PRIOR) -> Prior:
    """Read what other runs taught."""
    return msgspec.json.decode(path.read_bytes(), type=Prior)
