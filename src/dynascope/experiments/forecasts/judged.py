"""Judge forecasts on curves that nothing was learnt from: by tasks, sizes or data sets that are left out in turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import xarray as xr

from dynascope.forecasting.calibrating import calibrated
from dynascope.forecasting.candidates import CANDIDATES
from dynascope.forecasting.evidence import BANDS, LEVELS, Prior, bands, clues, mixture
from dynascope.forecasting.learning import SHARES, Group, Rows, cut, learn, rows

SHOWN = (0.2, 0.3, 0.5, 0.8)
NAMES = tuple(each.name for each in CANDIDATES)
LAST = NAMES[0]
_CALIBRATE = 80_000  # rows, about, that bands are calibrated on
_CLOSE = 0.05  # units: errors that are smaller count as this large where rows are weighed
_FITTED = ("power law", "shifted power law", "exponential", "MMF")  # curves that others fit and average


@dataclass(frozen=True)
class Config:
    """shares: of curves that have been seen. steps: of learning from other runs.

    most: curves of a group, 0 for all. one_in: groups of which one is kept.
    ends: records whose mean is the end. published: whether published curves are used; others stand for them if not.
    """

    shares: tuple[float, ...] = SHOWN
    training_shares: tuple[float, ...] = SHARES
    steps: int = 1500
    most: int = 0
    one_in: int = 1
    ends: int = 1
    published: bool = True


def shared_out(size: np.ndarray, data: Rows, groups: Sequence[Group], totals: dict[str, float]) -> np.ndarray:
    """Weight of each row: in proportion to its size, and of each set its total."""
    kinds = np.array([each.name.split("/")[0] for each in groups])[data.group]
    found = np.zeros(len(size))
    for kind in np.unique(kinds):
        mine = kinds == kind
        found[mine] = totals[kind] * size[mine] / size[mine].sum()
    return found


def thinned(groups: list[Group], config: Config) -> list[Group]:
    """Some of the groups, and of the curves of each."""
    groups, most = groups[:: config.one_in], config.most
    if not most:
        return groups
    return [replace(each, value=each.value[:most]) for each in groups]


@dataclass(frozen=True)
class Lessons:
    """Rows to learn from, what each is worth for learning and for calibration, what is left out with it, its task."""

    data: Rows
    weight: np.ndarray
    even: np.ndarray
    fold: np.ndarray
    task: np.ndarray

    def learnt(self, left: frozenset[str], steps: int, made: str = "") -> Prior:
        """What rows teach where some folds are left out."""
        kept = ~np.isin(self.fold, list(left))
        return learn(self.data.take(kept), self.weight[kept], steps=steps, made=made)

    def calibrated(self, learnt: Callable[[frozenset[str]], Prior], left: frozenset[str]) -> Prior:
        """The same with bands that hold: on each other fold, of what is learnt where that is left out, too."""
        some = np.random.default_rng(0).random(len(self.fold)) * len(self.fold) < _CALIBRATE
        found = np.full((len(self.fold), len(LEVELS)), np.nan)
        for name in sorted(set(self.fold.tolist()) - left):
            mine = some & (self.fold == name)
            found[mine] = self.data.take(mine).forecast(learnt(left | {name})).quantile(np.array(LEVELS))
        known = np.isfinite(found[:, 0])
        return calibrated(learnt(left), found[known], self.data.take(known), self.even[known], self.task[known])


def lessons(taught: list[Group], fold: Callable[[str], str], totals: dict[str, float], config: Config) -> Lessons:
    """Cut curves into rows that teach. fold: from a group's name to what is left out with it."""
    data = rows(taught, config.training_shares).forgetting()
    # curves that move teach more than those that stand still; where bands are calibrated, that is half of it
    moved = np.clip(data.given.unit / (np.abs(data.last) + 1e-6), 1e-3, 1) ** 0.5
    weight = shared_out(moved, data, taught, totals)
    alike = shared_out(np.ones(len(moved)), data, taught, totals)
    even = (weight / weight.sum() + alike / alike.sum()) / 2
    # close ahead errors are small: they would count for nothing beside those of far ahead
    weight = weight / np.sqrt(data.ratio - 1 + data.given.noise + _CLOSE)
    folds, tasks = (np.array([of(each.name) for each in taught])[data.group] for of in (fold, task_of))
    return Lessons(data, weight, even, folds, tasks)


def task_of(name: str) -> str:
    """The task, size or family that a group of curves belongs to.

    >>> task_of("networks/mnist/cosine/test/loss")
    'networks/mnist'
    """
    return "/".join(name.split("/")[:2])


def crossed(judged: list[Group], given: Lessons, fold: Callable[[str], str], config: Config) -> xr.Dataset:
    """Forecast the ends of curves by what others taught, each fold left out in turn."""
    return crossed_all({"": judged}, given, fold, config)[""]


def crossed_all(
    sets: Mapping[str, list[Group]], given: Lessons, fold: Callable[[str], str], config: Config
) -> dict[str, xr.Dataset]:
    """The same for several sets of curves at once."""
    learnt = cache(lambda left: given.learnt(left, config.steps))
    parts: dict[str, list[xr.Dataset]] = {name: [] for name in sets}
    for left in sorted({fold(each.name) for judged in sets.values() for each in judged}):
        prior = given.calibrated(learnt, frozenset({left}))
        last = _errors_of_last(given.data, given.even, given.fold != left)
        for name, judged in sets.items():
            chosen = [each for each in judged if fold(each.name) == left]
            parts[name] += [_end(each, share, prior, last, config) for each in chosen for share in config.shares]
    return {name: _joined(found, config.shares) for name, found in parts.items()}


def _errors_of_last(data: Rows, weight: np.ndarray, kept: np.ndarray) -> Callable[[float], np.ndarray]:
    """Quantiles of what the last value was wrong by, in units, for forecasts that reach so far ahead."""
    happened, ratio, heavy = data.happened[kept], np.log(data.ratio[kept]), weight[kept]

    def at(far: float) -> np.ndarray:
        near = heavy * np.exp(-0.5 * ((ratio - np.log(far)) / 0.15) ** 2)
        order = np.argsort(happened)
        return np.asarray(np.interp(LEVELS, np.cumsum(near[order]) / near.sum(), happened[order]))

    return at


def _end(group: Group, share: float, prior: Prior, last: Callable[[float], np.ndarray], config: Config) -> xr.Dataset:
    """Forecast the end of curves after a share of their records."""
    seen, shift = cut(group, share)
    ahead = (group.step[-1:] + shift) / seen.scale
    (given,) = clues(seen, ahead, group.candidates)
    mixed, far = mixture(given, seen.last, prior), float(ahead[0])
    quantile = bands(mixed, given, seen.last, prior, far)
    value = group.value[:, -config.ends :].mean(1)
    calm = seen.last[:, None] + given.unit[:, None] * last(far)
    return xr.Dataset(
        {
            "quantiles": (("curve", "quantile"), quantile),
            "last_quantiles": (("curve", "quantile"), calm),
            "plain": (("curve", "candidate"), given.plain),
            "weight": (("curve", "candidate"), mixed.weight[:, : len(NAMES)]),
            "value": ("curve", value),
            "group": ("curve", np.full(len(value), group.name)),
            "number": ("curve", np.arange(len(value))),
        },
        {"quantile": list(LEVELS), "candidate": list(NAMES)},
        {"share": share},
    )


def _joined(parts: list[xr.Dataset], shares: Sequence[float]) -> xr.Dataset:
    by_share = [
        xr.concat([each for each in parts if each.attrs["share"] == share], "curve", combine_attrs="drop")
        for share in shares
    ]
    along = ["quantiles", "last_quantiles", "plain", "weight", "value"]
    whole = xr.concat(by_share, xr.Variable("share", list(shares)), data_vars=along, combine_attrs="drop")
    return whole.transpose("share", "curve", ...)


def read(record: xr.Dataset) -> xr.Dataset:
    """Errors, coverage and scores: error (share, curve, by), pinball (share, curve, rival), inside (…, band).

    end: as it was forecast, and as it came, (of, share, curve).
    """
    value, middle = record["value"], record["quantiles"].sel(quantile=0.5, drop=True)
    ours = abs(middle - value).expand_dims(by=["forecast"])
    alone = abs(record["plain"] - value).rename(candidate="by")
    several = record["plain"].sel(candidate=list(_FITTED)).median("candidate").expand_dims(by=["median of fits"])
    inside = [
        (record["quantiles"].sel(quantile=low) <= value) & (value <= record["quantiles"].sel(quantile=high))
        for low, high in ((0.25, 0.75), (0.1, 0.9), (0.025, 0.975))
    ]
    scores = [_pinball(record[name], value) for name in ("quantiles", "last_quantiles")]
    return xr.Dataset(
        {
            "error": xr.concat([ours, alone, abs(several - value)], "by"),
            "inside": xr.concat(inside, xr.Variable("band", list(BANDS))),
            "pinball": xr.concat(scores, xr.Variable("rival", ["forecast", LAST])),
            "end": xr.concat([middle, value], xr.Variable("of", ["forecast", "run"])),
            "weight": record["weight"],
            "group": record["group"],
        }
    )


def _pinball(quantiles: xr.DataArray, value: xr.DataArray) -> xr.DataArray:
    """Mean pinball loss over the levels, twice: the CRPS, about."""
    miss = value - quantiles
    level = quantiles["quantile"]
    return 2 * (level * miss).where(miss > 0, (level - 1) * miss).mean("quantile")
