"""Move and widen bands until they hold on tasks that nothing was learnt from.

Curves of one task err alike, so that a few tasks say little however many their curves are: how far the mean over tasks
may be off follows from how much they differ, by Student's t.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from scipy.stats import t as student

from dynascope.forecasting.evidence import (
    BANDS,
    LEVELS,
    SORTS,
    Prior,
    factors_of,
    moved,
    noise_of,
    size_of,
    sort_of,
    widened,
)
from dynascope.forecasting.learning import FAR, Rows

_RATIOS = (1.06, 1.25, 1.6, 2.2, 3.2, 5.0, 8.0)  # at which bands are calibrated
_UNITS = (5e-4, 5e-3, 0.05, 0.3)
_NOISES = (0.01, 0.1, 0.6)
_NEAR = (0.15, 1.0, 1.0)  # in logarithms: what counts as near a ratio, a unit and a noise
_FEW = 1e-3  # weight of what is not near in unit or noise, for where there is nothing else
_OTHER = 0.01  # weight of quantities of another sort
_NAMED = (0, 2, 3, 5)  # sorts that a name tells; in the others quantities of all kinds lie together
_RARE = 0.004  # share of the weight below which a task says nothing
_SCORES = np.linspace(-3, 5, 161)  # logarithms of how far off things were, over the band's half width
_CHANCES = (np.arange(25) + 0.5) / 25
# how much tasks differ, by the logarithm, before any are seen, and for how many that counts
_DIFFER, _COUNTS = 0.4, 2.0


def calibrated(prior: Prior, quantiles: np.ndarray, data: Rows, weight: np.ndarray, task: np.ndarray) -> Prior:
    """How much of the way is to be believed, and factors by which bands are to be widened.

    Both for each sort of quantity; factors also near each ratio, unit and noise. Near is wide: curves that err most
    among those near set a factor, and bands hold too much. Where a name tells the sort they are therefore calibrated
    once more, by sort and ratio alone. Where it tells none all of the way is believed, as smooth curves need.
    quantiles: (row, level), in units, as forecast by networks that were not trained on the row's task. task: (row,).
    """
    sort, far = sort_of(data.given), np.log(data.ratio)
    alike = [weight * np.where(sort == kind, 1.0, _OTHER) for kind in range(SORTS)]
    said = quantiles[:, len(LEVELS) // 2]
    kept = [_kept(said, data.happened, each) if kind in _NAMED else 100 for kind, each in enumerate(alike)]
    prior = msgspec.structs.replace(prior, kept=kept)
    found = moved(quantiles, np.zeros(len(sort)), sort, prior)
    close = [_bell(far - np.log(ratio), _NEAR[0]) for ratio in _RATIOS]
    first = _holding(found, data.happened, task)
    table = _over_noise(np.stack([_local(data, alike[kind], close, first) for kind in range(SORTS)]))
    wide = widened(found, factors_of(_with(prior, table), data.ratio, data.given, data.last))
    second = _holding(wide, data.happened, task)
    for kind in _NAMED:
        again = np.stack([second(alike[kind] * near) for near in close], -1)  # (band, ratio)
        table[kind] *= again[:, None, None]
    return _with(prior, _over_noise(table))


def _kept(said: np.ndarray, happened: np.ndarray, weight: np.ndarray) -> int:
    """Percent of the way that is gone, where errors are least in the mean, and not more than all of it.

    >>> _kept(np.array([1.0, 2.0, -3.0]), np.array([0.5, 1.0, -1.5]), np.ones(3))
    50
    """
    goes = np.abs(said) > 0
    if not goes.any():
        return 100
    share = np.clip(happened[goes], -FAR, FAR) / said[goes]
    middle = np.quantile(share, 0.5, weights=(weight * np.abs(said))[goes], method="inverted_cdf")
    return round(100 * float(np.clip(middle, 0, 1)))


def _local(
    data: Rows, weight: np.ndarray, close: list[np.ndarray], factors: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Factors near each noise, unit and ratio, (band, noise, unit, ratio). close: weights of ratios."""
    size, smooth = np.log(size_of(data.given.unit, data.last)), np.log(noise_of(data.given.noise))
    table = np.ones((len(BANDS), len(_NOISES), len(_UNITS), len(close)))
    for noise, unit, ratio in np.ndindex(table.shape[1:]):
        near = _bell(size - np.log(_UNITS[unit]), _NEAR[1]) + _FEW
        near *= _bell(smooth - np.log(_NOISES[noise]), _NEAR[2]) + _FEW
        table[:, noise, unit, ratio] = factors(weight * close[ratio] * near)
    return table


def _over_noise(table: np.ndarray) -> np.ndarray:
    """Factors of at least 1 at the first ratio: close ahead all is noise, whose width is known."""
    return np.concatenate([np.maximum(table[..., :1], 1.0), table[..., 1:]], -1)


def _with(prior: Prior, table: np.ndarray) -> Prior:
    """What was learnt, with factors (sort, band, noise, unit, ratio)."""
    percent = (100 * table).round().astype(int).tolist()
    return msgspec.structs.replace(
        prior, ratios=list(_RATIOS), units=list(_UNITS), noises=list(_NOISES), factors=percent
    )


def _holding(quantiles: np.ndarray, happened: np.ndarray, task: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """From weights of rows to the factor of each band that holds on a new task."""
    numbers = np.unique(task, return_inverse=True)[1]
    shape = (numbers.max() + 1, len(_SCORES))
    places = [numbers * len(_SCORES) + each for each in _scores(quantiles, happened).T]

    def factors(weight: np.ndarray) -> np.ndarray:
        return _factors(np.stack([np.bincount(each, weight, shape[0] * shape[1]).reshape(shape) for each in places]))

    return factors


def _bell(distance: np.ndarray, width: float) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * (distance / width) ** 2))


def _scores(quantiles: np.ndarray, happened: np.ndarray) -> np.ndarray:
    """How far off things were, over the half width of each band, as places in `_SCORES`, (row, band)."""
    middle = len(LEVELS) // 2
    off = (happened - quantiles[:, middle])[:, None]
    above = quantiles[:, middle + 1 :] - quantiles[:, middle, None]
    below = quantiles[:, middle, None] - quantiles[:, middle - 1 :: -1]
    score = np.abs(off) / np.maximum(np.where(off > 0, above, below), 1e-12)
    return np.asarray(np.searchsorted(_SCORES[:-1], np.log(score + 1e-12)))


def _factors(counts: np.ndarray) -> np.ndarray:
    """Factor of each band that holds on a new task. counts: how often each score was met, (band, task, score)."""
    mass = counts[0].sum(1)
    known = mass > _RARE * mass.sum()
    share = mass[known] / mass[known].sum()
    below = counts[:, known].cumsum(2) / mass[known][:, None]
    # where a band of 80 % should have ended in each task
    scale = np.array([np.interp(BANDS[1], each, _SCORES) for each in below[1]])
    tasks = 1 / (share**2).sum()
    apart = share @ (scale - share @ scale) ** 2 * tasks  # squared distances, as many as there are tasks
    freedom = tasks - 1 + _COUNTS
    differ = np.sqrt((apart + _COUNTS * _DIFFER**2) / freedom)
    moved = _SCORES[:, None] - differ / np.sqrt(tasks) * student.ppf(_CHANCES, freedom)  # (score, chance)
    found = []
    for band, level in zip(np.einsum("t,bts->bs", share, below), BANDS, strict=True):
        new = np.interp(moved, _SCORES, band).mean(1)
        found.append(np.exp(np.interp(level, np.maximum.accumulate(new), _SCORES)))
    return np.array(found)
