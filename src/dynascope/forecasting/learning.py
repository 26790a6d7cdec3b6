"""Learn from other runs how backtests are to be read: the network of `evidence`, by the CRPS of its forecasts.

Every curve is cut at many moments and forecast at several times ahead, as a user would, and the network is trained on
what then happened. Errors count in units of the curve, so that runs of all kinds count.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from dynascope.forecasting.candidates import CANDIDATES
from dynascope.forecasting.candidates.shapes import Candidate
from dynascope.forecasting.evidence import BANDS, SORTS, TOLD, Clues, Mixture, Prior, clues, mixture, parts
from dynascope.forecasting.seen import UNNAMED, Kind, Seen, lay_out

SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_AHEAD = (0.25, 0.5, 1.0)  # of the way to the end
_HIDDEN, _BATCH, _STEPS, _RATE, _DECAY = 32, 1024, 1500, 0.01, 1e-4
SHRUNK = ("inputs", "outputs", "candidates")  # numbers that are kept small
FAR = 25.0  # units: further away counts as this far, or single curves that break would decide alone
_AT_ONCE = 200  # curves of a group from which on it is cut and fitted by itself


@dataclass(frozen=True)
class Group:
    """Curves of the same steps and learning rates: step (record,), value (curve, record), rate (record,) or None.

    candidates: those that forecast them. kind: what is known of the quantity.
    """

    name: str
    step: np.ndarray
    value: np.ndarray
    rate: np.ndarray | None = None
    candidates: tuple[Candidate, ...] = CANDIDATES
    kind: Kind = UNNAMED


@dataclass(frozen=True)
class Rows:
    """Forecasts that were judged: clues, what happened (in units, from the last value), and where rows come from."""

    given: Clues
    happened: np.ndarray
    last: np.ndarray
    ratio: np.ndarray
    share: np.ndarray
    ahead: np.ndarray
    group: np.ndarray
    curve: np.ndarray

    def take(self, chosen: np.ndarray) -> "Rows":
        """Some of the rows."""
        given = Clues(*(each[chosen] for each in vars(self.given).values()))
        return Rows(given, *(each[chosen] for name, each in vars(self).items() if name != "given"))

    def forgetting(self) -> "Rows":
        """The same, but of every other curve nobody says whether it is trained on: many logs have just a loss."""
        common = self.given.common.copy()
        common[self.curve % 2 == 0, TOLD] = 0.0
        return replace(self, given=replace(self.given, common=common))

    def forecast(self, prior: Prior) -> Mixture:
        """What the network says, in units from the last value, without doubt: calibration would take it back."""
        given, one = self.given, np.ones(len(self.last))
        return mixture(replace(given, unit=one, doubt=np.zeros_like(given.doubt)), 0 * one, prior)


def cut(group: Group, share: float) -> tuple[Seen, float]:
    """What has been seen of curves after a share of their records, and the shift of their time."""
    records = _records(group, share)
    rates = None if group.rate is None else (group.step, group.rate)
    seen, shift, _ = lay_out(group.step[:records], list(group.value[:, :records]), rates, group.kind)
    return seen, shift


def _records(group: Group, share: float) -> int:
    return max(round(share * len(group.step)), 4)


def rows(groups: list[Group], shares: tuple[float, ...] = SHARES, ends: tuple[float, ...] = _AHEAD) -> Rows:
    """Cut curves at shares, and forecast them some of the way to their ends."""
    return _joined(list(_rows(groups, shares, ends)))


def _rows(groups: list[Group], shares: tuple[float, ...], ends: tuple[float, ...]) -> Iterator[Rows]:
    for group, number, curve in _together(groups):
        for share in shares:
            seen, shift = cut(group, share)
            records = _records(group, share)
            left = len(group.step) - records
            places = sorted({records - 1 + max(round(part * left), 1) for part in ends})
            times = (group.step[places] + shift) / seen.scale
            for time, place, given in zip(times, places, clues(seen, times, group.candidates), strict=True):
                one = np.ones(len(seen.y))
                happened = (group.value[:, place] - seen.last) / given.unit
                ahead = (place - records + 1) / left
                yield Rows(given, happened, seen.last, time * one, share * one, ahead * one, number, curve)


def _together(groups: list[Group]) -> Iterator[tuple[Group, np.ndarray, np.ndarray]]:
    """Groups of the same steps, rates and candidates as one, and of each curve its group and its number in it."""
    alike: dict[object, list[int]] = {}
    for number, each in enumerate(groups):
        rate = b"" if each.rate is None else each.rate.tobytes()
        full = len(each.value) > _AT_ONCE
        alike.setdefault((each.step.tobytes(), rate, id(each.candidates), full and number), []).append(number)
    for numbers in alike.values():
        members = [groups[number] for number in numbers]
        sizes = [len(each.value) for each in members]
        kind = Kind(*(np.repeat([getattr(each.kind, name) for each in members], sizes) for name in ("told", "least")))
        curve = np.concatenate([np.arange(size) for size in sizes])
        value = np.concatenate([each.value for each in members])
        yield replace(members[0], value=value, kind=kind), np.repeat(numbers, sizes), curve


def _joined(parts: list[Rows]) -> Rows:
    def column(name: str, of: Callable[[Rows], object]) -> np.ndarray:
        return np.concatenate([getattr(of(each), name) for each in parts])

    given = Clues(*(column(name, lambda each: each.given) for name in vars(parts[0].given)))
    return Rows(given, *(column(name, lambda each: each) for name in vars(parts[0]) if name != "given"))


def learn(data: Rows, weight: np.ndarray, *, seed: int = 0, steps: int = _STEPS, made: str = "") -> Prior:
    """Train the network on rows, weighted."""
    columns = (data.given.own, data.given.common, np.nan_to_num(np.clip(data.given.place, -FAR, FAR)))
    arrays = [*columns, np.isfinite(data.given.place), data.given.noise, np.clip(data.happened, -FAR, FAR)]
    arrays.append(weight / weight.mean())
    given = [np.asarray(each, np.float32) for each in arrays]
    sizes = data.given.own.shape[-1] + data.given.common.shape[-1] + len(CANDIDATES)
    keys = jax.random.split(jax.random.PRNGKey(seed), 2)
    numbers = {
        "inputs": 0.2 * jax.random.normal(keys[0], (sizes, _HIDDEN)),
        "offsets": jnp.zeros(_HIDDEN),
        "outputs": 0.1 * jax.random.normal(keys[1], (_HIDDEN, 2)),
        "candidates": jnp.zeros((len(CANDIDATES), 2)),
        "wide": jnp.array([-3.0, 1.0]),
    }
    numbers = jax.tree.map(lambda each: each.astype(jnp.float32), numbers)
    first = second = jax.tree.map(jnp.zeros_like, numbers)
    rng = np.random.default_rng(seed)
    for step in range(1, steps + 1):
        batch = rng.integers(0, len(weight), _BATCH)
        rate = _RATE * (1 - 0.95 * step / steps)
        numbers, first, second = _adam(numbers, first, second, step, rate, *(each[batch] for each in given))
    found = {name: np.asarray(each, float).round(4).tolist() for name, each in numbers.items()}
    same, ends = np.full((SORTS, len(BANDS), 2, 2, 2), 100).tolist(), [1e-3, 1.0]
    return Prior(made=made, ratios=[1.0, 10.0], units=ends, noises=ends, factors=same, kept=[100] * SORTS, **found)


@jax.jit
def _adam(numbers: Any, first: Any, second: Any, step: Any, rate: Any, *given: Any) -> Any:
    slope = jax.grad(_loss)(numbers, *given)
    first = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, first, slope)
    second = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b**2, second, slope)
    moved = jax.tree.map(
        lambda w, a, b: w - rate * (a / (1 - 0.9**step)) / (jnp.sqrt(b / (1 - 0.99**step)) + 1e-8),
        numbers, first, second,
    )  # fmt: skip
    return moved, first, second


def _loss(numbers: Any, own: Any, common: Any, place: Any, speaks: Any, noise: Any, happened: Any, weight: Any) -> Any:
    score, width, mean = parts(numbers, own, common, place, speaks, noise, xp=jnp)
    shrink = sum((numbers[name] ** 2).sum() for name in SHRUNK)
    return (weight * crps(jax.nn.softmax(score), mean, width, happened)).mean() + _DECAY * shrink


def crps(weight: Any, mean: Any, width: Any, value: Any) -> Any:
    """Continuous ranked probability score of a mixture of normal distributions, (row,); in closed form.

    >>> one = jnp.ones((1, 1))
    >>> round(float(crps(one, 0 * one, one, jnp.zeros(1))[0]), 4)  # (√2 − 1)/√π
    0.2337
    """
    far = (weight * _distance(value[:, None] - mean, width)).sum(-1)
    among, count = (weight**2 * width).sum(-1) / np.sqrt(np.pi), mean.shape[1]
    for shift in range(1, count // 2 + 1):  # every pair once: this is where learning spends its time
        other, place, wide = (jnp.roll(each, shift, 1) for each in (weight, mean, width))
        apart = (weight * other * _distance(mean - place, jnp.sqrt(width**2 + wide**2))).sum(-1)
        among += apart / 2 if 2 * shift == count else apart
    return far - among


def _distance(mean: Any, width: Any) -> Any:
    """E|X| of a normal variable."""
    z = mean / width
    return mean * erf(z / np.sqrt(2)) + 2 * width * jnp.exp(-z * z / 2) / np.sqrt(2 * np.pi)
