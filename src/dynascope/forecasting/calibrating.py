"""Widen bands until they hold on tasks that nothing was learnt from.

Curves of one task err alike, so that a few tasks say little however many their curves are: how far the mean over tasks
may be off follows from how much they differ, by Student's t.
"""

import msgspec
import numpy as np
from scipy.stats import t as student

from dynascope.forecasting.evidence import BANDS, LEVELS, SORTS, Prior, noise_of, size_of, sort_of
from dynascope.forecasting.learning import Rows

_RATIOS = (1.06, 1.25, 1.6, 2.2, 3.2, 5.0, 8.0)  # at which bands are calibrated
_UNITS = (5e-4, 5e-3, 0.05, 0.3)
_NOISES = (0.01, 0.1, 0.6)
_NEAR = (0.15, 1.0, 1.0)  # in logarithms: what counts as near a ratio, a unit and a noise
_FEW = 1e-3  # weight of what is not near in unit or noise, for where there is nothing else
_OTHER = 0.01  # weight of quantities of another sort
_RARE = 0.004  # share of the weight below which a task says nothing
_SCORES = np.linspace(-3, 5, 161)  # logarithms of how far off things were, over the band's half width
_CHANCES = (np.arange(25) + 0.5) / 25
# how much tasks differ, by the logarithm, before any are seen, and for how many that counts
_DIFFER, _COUNTS = 0.4, 2.0


def calibrated(prior: Prior, quantiles: np.ndarray, data: Rows, weight: np.ndarray, task: np.ndarray) -> Prior:
    """Factors by which bands are to be widened, for each sort of quantity, near each ratio, unit and noise.

    quantiles: (row, level), in units, as forecast by networks that were not trained on the row's task. task: (row,).
    """
    scores = _scores(quantiles, data.happened)
    numbers = np.unique(task, return_inverse=True)[1]
    places = [numbers * len(_SCORES) + each for each in scores.T]
    shape = (numbers.max() + 1, len(_SCORES))
    sort, far, size = sort_of(data.given), np.log(data.ratio), np.log(size_of(data.given.unit, data.last))
    smooth = np.log(noise_of(data.given.noise))
    axes = (range(SORTS), _NOISES, _UNITS, _RATIOS)
    table = np.ones((*map(len, axes), len(BANDS)))
    for place in np.ndindex(table.shape[:-1]):
        kind, noise, unit, ratio = (axis[at] for axis, at in zip(axes, place, strict=True))
        near = _bell(far - np.log(ratio), _NEAR[0])
        near *= _bell(size - np.log(unit), _NEAR[1]) + _FEW
        near *= _bell(smooth - np.log(noise), _NEAR[2]) + _FEW
        heavy = weight * near * np.where(sort == kind, 1.0, _OTHER)
        counts = [np.bincount(each, heavy, shape[0] * shape[1]).reshape(shape) for each in places]
        table[place] = _factors(np.stack(counts))
    table = np.moveaxis(table, -1, 1)
    table[..., 0] = np.maximum(table[..., 0], 1.0)  # close ahead all is noise, whose width is known
    percent = (100 * table).round().astype(int).tolist()
    return msgspec.structs.replace(
        prior, ratios=list(_RATIOS), units=list(_UNITS), noises=list(_NOISES), factors=percent
    )


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
