"""Forecast the rest of a run, with bands that hold, or say why that cannot be done."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from scipy.special import ndtr, ndtri

from dynascope.checks import Given, scalar
from dynascope.forecasting.candidates import CANDIDATES, candidates_after
from dynascope.forecasting.candidates.shapes import Candidate
from dynascope.forecasting.curves import Curve, Source, read_curves
from dynascope.forecasting.evidence import LEVELS, Prior, bands, clues, load_prior, mixture, with_noise
from dynascope.forecasting.known import Library, library
from dynascope.forecasting.logs import Series
from dynascope.forecasting.names import words_of
from dynascope.forecasting.refusals import refusal
from dynascope.forecasting.schedules import Schedule, future_rates
from dynascope.forecasting.seen import Kind, lay_out, rounded
from dynascope.records import with_provenance

_AT_ONCE = 256  # curves, so that memory stays small
_TIMES = 40  # future steps that a result has
_SHOWN = 2000  # records of the past that a result keeps, for its picture
_OWN = (
    "step",
    "quantile",
    "candidate",
    "weight",
    "reached",
    "reach",
    "seen",
    "seen_step",
    "record",
    "trial",
    "refused",
    "happened",
)
_RISING = ("accuracy", "acc", "auc", "f1", "bleu", "precision", "recall", "score", "reward", "return")
_WIDER = 2.0  # bands of what is refused, over what they would be
_FURTHEST = 1e6  # times the time seen: what lies further is as it is there
_SCENARIOS = ("constant", "linear")  # futures between which an unknown schedule lies


def forecast(
    run: Given[Source],
    *,
    until: Given[float | None] = None,
    schedule: Given[Schedule | None] = None,
    quantity: Given[str | None] = None,
    like: Given[str | os.PathLike[str] | Sequence[Source] | Library | None] = None,
    reach: Given[float | None] = None,
    seen: Given[float | None] = None,
) -> xr.Dataset:
    """Forecast a quantity of a training run up to a step: quantiles that hold, or the reason why nothing can be known.

    run: a watched run, its record or folder; the record of an ensemble (one forecast for each trial); a .csv, .json or
        .jsonl log; TensorBoard's event files; or arrays by name, {"step": …, "loss": …, "learning_rate": …}
    until: last step of the forecast; twice the last step seen if not given
    schedule: future learning rates: a formula (constant, cosine, linear, wsd:START), {"step": …, "learning_rate": …}, a
        file with such columns, or a PyTorch scheduler; not needed where the rate never changed
    quantity: what is forecast, the loss by default
    like: a folder of earlier runs, or a list of them: those of the same schedule show how this one may go on
    reach: a value: how likely it is reached by each step
    seen: share of a finished run that is looked at; its end is forecast, and beside it stands what `happened`

    The result has the quantity over (step, quantile), weights of candidates, what was seen, and in its attributes
    `refused` (the reason, or nothing; of several trials also a variable) and `sentence`. Quantiles are those of single
    records. More: docs/forecast.md.

    >>> step = np.arange(0, 1000, 20)
    >>> result = forecast({"step": step, "loss": 0.5 + 2 * (step + 20.0) ** -0.5}, until=2000)
    >>> result["loss"].dims, result.attrs["refused"], bool(abs(result["loss"][-1].sel(quantile=0.5) - 0.5447) < 0.005)
    (('step', 'quantile'), '', True)
    """
    begun = time.perf_counter()
    whole = read_curves(run, quantity)
    if whole[0].name in _OWN:
        raise ValueError(f"quantity must have a name that the result does not use itself, got {quantity!r}: rename it")
    curves = whole if seen is None else [_cut(each, seen, until) for each in whole]
    end = _end(curves, until) if seen is None else float(whole[0].step[-1])
    goal = None if reach is None else scalar("reach", reach)
    earlier = library(like, quantity) if like is not None and not isinstance(like, Library) else like
    prior = load_prior()
    own = [schedule if schedule is not None or seen is None else _rates(each) for each in whole]
    questions = [_asked(curve, end, each) for curve, each in zip(curves, own, strict=True)]
    answers = _answers(questions, earlier, prior)
    parts = [_told(question, *answer, goal) for question, answer in zip(questions, answers, strict=True)]
    name = curves[0].name
    result = parts[0] if len(parts) == 1 else xr.concat(parts, "trial", combine_attrs="drop", coords="minimal")
    reasons = [str(each.attrs["refused"]) for each in parts]
    if len(parts) > 1:
        result = result.assign(refused=("trial", reasons))
    if seen is not None:
        result = _beside(result, whole)
    said = {
        "refused": "; ".join(dict.fromkeys(each for each in reasons if each)),
        "sentence": _sentence(result, name, end, reasons, goal),
    }
    given = schedule if isinstance(schedule, str) or schedule is None else type(schedule).__name__
    known = len(earlier.curves) if earlier else 0
    return with_provenance(
        result.assign_attrs(said),
        "forecast",
        {"quantity": name, "until": end, "schedule": given, "reach": goal, "like": known},
        seed=None,
        precision="float64",
        wall_time=time.perf_counter() - begun,
        device="CPU",
    )


def _cut(curve: Curve, share: float, until: float | None) -> Curve:
    """The first part of a curve."""
    if until is not None:
        raise ValueError(f"until must not be given with seen: the end of the run is forecast, got until={until!r}")
    count = round(scalar("seen", share, above=0.0) * len(curve.step))
    if not 1 <= count < len(curve.step):
        raise ValueError(
            f"seen must be a share below 1 that leaves records to judge by, got {share!r} of {len(curve.step)} records"
        )
    rate = None if curve.rate is None else curve.rate[:count]
    return replace(curve, step=curve.step[:count], value=curve.value[:count], rate=rate)


def _rates(curve: Curve) -> Schedule | None:
    """The rates that a finished run had."""
    return None if curve.rate is None else {"step": curve.step, "learning_rate": curve.rate}


def _beside(result: xr.Dataset, whole: list[Curve]) -> xr.Dataset:
    """What happened, beside the forecast: the records nearest to its steps."""
    steps = result["step"].values
    values = [each.value[np.abs(each.step[:, None] - steps).argmin(0)] for each in whole]
    return result.assign(happened=(("trial", "step"), values) if len(whole) > 1 else ("step", values[0]))


def quantity_of(result: xr.Dataset) -> str:
    """The name of what a result forecasts.

    >>> quantity_of(forecast({"step": np.arange(9), "val/loss": 0.5 ** np.arange(9)}, quantity="val/loss"))
    'val/loss'
    """
    found = [str(name) for name, each in result.data_vars.items() if {"step", "quantile"} <= set(each.dims)]
    if len(found) != 1 or "seen" not in result or "seen_step" not in result.coords:
        raise ValueError(f"the record must be one of forecast(run), it holds {dict(result.sizes)}")
    return found[0]


def _end(curves: list[Curve], until: float | None) -> float:
    last = max(float(each.step[-1]) for each in curves)
    if until is None:
        return 2 * last if last > 0 else 1.0
    return scalar("until", until, above=last)


@dataclass(frozen=True)
class _Question:
    """A curve as candidates take it: finite records that fall as they get better, in units of their own.

    futures: learning rates that it may have. reason: why it cannot be forecast, or nothing.
    """

    curve: Curve
    held: Curve
    steps: np.ndarray
    futures: tuple[Series | None, ...]
    reason: str
    factor: float  # from the curve's values to those that are held

    @property
    def least(self) -> float:
        """What a share cannot go below, as it is held."""
        return float(self.factor * _most(self.curve)) if self.factor < 0 else -np.inf

    @property
    def like(self) -> tuple[bytes, ...]:
        """What curves have in common that are forecast at once: steps, and learning rates but for a factor."""
        rates = [(np.empty(0), np.ones(1)) if each is None else each for each in self.futures]
        times = [part for step, rate in rates for part in (step, rounded(rate / (rate.max() or 1.0)))]
        return tuple(np.ascontiguousarray(each).tobytes() for each in (self.held.step, self.steps, *times))


def _asked(curve: Curve, end: float, schedule: Schedule | None) -> _Question:
    rising = is_rising(curve)
    rates = future_rates(schedule, curve, end)
    known = rates is not None or curve.rate is None
    finite = np.isfinite(curve.value)
    unit = _unit(curve.value[finite])
    reason = refusal(replace(curve, value=curve.value / unit), rising=rising, rates_known=known)
    factor = (-1.0 if rising else 1.0) / unit
    held = replace(curve, step=curve.step[finite], value=factor * curve.value[finite], rate=None)
    futures = (rates,) if known else tuple(future_rates(each, curve, end) for each in _SCENARIOS)
    return _Question(curve, held, _steps(float(curve.step[-1]), end), futures, reason, factor)


def _answers(questions: list[_Question], earlier: Library | None, prior: Prior) -> list[tuple[np.ndarray, np.ndarray]]:
    """Quantiles (step, level) and weights (step, candidate) of each curve, as it is held; those alike at once."""
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    together: dict[object, list[int]] = {}
    for place, each in enumerate(questions):
        if len(each.held.step) < 2:
            found[place] = (
                _blind(float(each.held.value[0]), each.steps),
                np.full((len(each.steps), len(CANDIDATES)), np.nan),
            )
        else:  # earlier runs are counted in the units of one curve
            together.setdefault(each.like if earlier is None else place, []).append(place)
    for places in together.values():
        for begin in range(0, len(places), _AT_ONCE):
            part = places[begin : begin + _AT_ONCE]
            first, values = questions[part[0]], [questions[place].held.value for place in part]
            kind = Kind(first.curve.told, np.array([questions[place].least for place in part]))
            runs = [_quantiles(first, values, each, kind, earlier, prior) for each in first.futures]
            held = _envelope([each for each, _ in runs])
            found |= {place: (held[row], runs[0][1][row]) for row, place in enumerate(part)}
    return [found[place] for place in range(len(questions))]


def _told(asked: _Question, found: np.ndarray, weight: np.ndarray, goal: float | None) -> xr.Dataset:
    """The result of one curve, in its own units."""
    curve, steps, rising, reason = asked.curve, asked.steps, asked.factor < 0, asked.reason
    if reason and len(asked.held.step) > 1:
        middle = found[:, 3:4]
        found = middle + _WIDER * (found - middle)
    found = _within((found[:, ::-1] if rising else found) / asked.factor, curve)
    shown = np.unique(np.linspace(0, len(curve.step) - 1, _SHOWN).astype(int))
    result = xr.Dataset(
        {
            curve.name: (("step", "quantile"), found),
            "weight": (("step", "candidate"), weight),
            "seen": ("record", curve.value[shown]),
        },
        {
            "step": steps,
            "quantile": list(LEVELS),
            "candidate": [each.name for each in CANDIDATES],
            "seen_step": ("record", curve.step[shown]),
        },
        {"refused": reason},
    )
    if goal is not None:
        already = np.nanmax(curve.value) >= goal if rising else np.nanmin(curve.value) <= goal
        result["reached"] = ("step", np.ones(len(steps)) if already else _reached(found, goal, rising))
        result = result.assign_coords(reach=goal)
    return result


def is_rising(curve: Curve) -> bool:
    """Whether a quantity gets better upwards: by its name, or by where it went if the name says nothing.

    >>> is_rising(Curve(np.arange(2.0), np.array([0.5, 0.4]), None, "test_accuracy"))
    True
    """
    words = words_of(curve.name)
    if any(word in _RISING for word in words):
        return True
    if any(word in ("loss", "error", "perplexity", "ppl", "nll", "mse", "cost") for word in words):
        return False
    value = curve.value[np.isfinite(curve.value)]
    return bool(len(value) > 1 and value[-1] > value[0])


def _steps(last: float, end: float) -> np.ndarray:
    """Future steps, whole ones where they can be."""
    steps = np.unique(np.linspace(last, end, _TIMES + 1))[1:]
    whole = np.unique(np.round(steps))
    if end == round(end) and len(whole) == _TIMES and whole[0] > last:
        return whole
    return steps


def _quantiles(
    asked: _Question,
    values: list[np.ndarray],
    rates: Series | None,
    kind: Kind,
    earlier: Library | None,
    prior: Prior,
) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles (curve, step, level) and weights (curve, step, candidate) of curves of the same steps and rates."""
    seen, shift, noise = lay_out(asked.held.step, values, rates, kind)
    candidates: Sequence[Candidate] = CANDIDATES
    if earlier is not None:
        candidates = candidates_after(earlier.shapes(asked.factor), earlier.law)
    ahead = np.minimum((asked.steps + shift) / seen.scale, _FURTHEST)
    found, weights = [], []
    for at, given in zip(ahead, clues(seen, ahead, candidates), strict=True):
        mixed = mixture(given, seen.last, prior)
        found.append(with_noise(bands(mixed, given, seen.last, prior, float(at)), noise))
        weights.append(mixed.weight[:, : len(CANDIDATES)])
    return np.stack(found, 1), np.stack(weights, 1)


def _unit(values: np.ndarray) -> float:
    """What values are counted in: the power of 2 below the largest, so that nothing depends on their units."""
    largest = float(np.abs(values).max())
    return float(2.0 ** np.floor(np.log2(largest))) if largest > 0 else 1.0


def _envelope(runs: list[np.ndarray]) -> np.ndarray:
    """The bands (curve, step, level) that hold all of several, and the mean of their middles."""
    table = np.stack(runs)
    middle = len(LEVELS) // 2
    band = np.where(np.arange(len(LEVELS)) < middle, table.min(0), table.max(0))
    band[..., middle] = table[..., middle].mean(0)
    return np.asarray(band)


def _blind(value: float, steps: np.ndarray) -> np.ndarray:
    """A band about the only value that is known, as wide as it is large."""
    return np.asarray(np.repeat((value + max(abs(value), 1e-12) * ndtri(np.array(LEVELS)))[None], len(steps), 0))


def _within(found: np.ndarray, curve: Curve) -> np.ndarray:
    """Losses stay above 0 and shares below all of it if they always were."""
    least = 0.0 if np.nanmin(curve.value) >= 0 else -np.inf
    return np.asarray(np.clip(found, least, _most(curve)))


def _most(curve: Curve) -> float:
    """What a share cannot exceed; ∞ if it is none."""
    value = curve.value[np.isfinite(curve.value)]
    if not is_rising(curve) or value.min() < 0:
        return np.inf
    return 1.0 if value.max() <= 1 else 100.0 if value.max() <= 100 and "accuracy" in words_of(curve.name) else np.inf


def _reached(found: np.ndarray, goal: float, rising: bool) -> np.ndarray:
    """Probability that a value is reached by each step: once reached, it stays so."""
    now = []
    for row in found:
        strict = row + 1e-12 * np.arange(len(row)) * (np.abs(row).max() + 1e-300)
        end = strict[0 if goal < strict[0] else -1]
        middle = strict[len(row) // 2]
        if strict[0] <= goal <= strict[-1]:
            below = float(np.interp(goal, strict, LEVELS))
        else:  # as in the tails of a normal distribution
            below = float(ndtr(ndtri(LEVELS[-1]) * (goal - middle) / abs(end - middle)))
        now.append(1 - below if rising else below)
    return np.asarray(np.maximum.accumulate(now))


def _sentence(result: xr.Dataset, name: str, end: float, reasons: list[str], goal: float | None) -> str:
    """What a user wants to read first."""
    if result.sizes.get("trial", 1) > 1:
        refused = sum(bool(each) for each in reasons)
        middles = result[name].isel(step=-1).sel(quantile=0.5).values
        text = f"{name} at step {end:.12g}: {middles.min():.4g} to {middles.max():.4g} in the middle"
        text += f" over {len(reasons)} trials" + (f"; {refused} of them refused" if refused else "")
        return text + _outcome(result, name)
    row = result[name].isel(step=-1)
    low, middle, high = (float(row.sel(quantile=each)) for each in (0.1, 0.5, 0.9))
    text = f"{name} at step {end:.12g}: {middle:.4g}, and with 80 % between {low:.4g} and {high:.4g}"
    if goal is not None:
        text += f"; {_when(result, goal)}"
    text += _outcome(result, name)
    return f"no forecast ({reasons[0]}); the widest honest band: {text}" if reasons[0] else text


def _outcome(result: xr.Dataset, name: str) -> str:
    """How the end was met, where it is known: by the forecast, and by the last value that was seen."""
    if "happened" not in result:
        return ""
    was = np.atleast_1d(result["happened"].isel(step=-1).values)
    ends = result[name].isel(step=-1)
    low, middle, high = (np.atleast_1d(ends.sel(quantile=each).values) for each in (0.1, 0.5, 0.9))
    last = np.atleast_1d(result["seen"].isel(record=-1).values)
    inside = int(((low <= was) & (was <= high)).sum())
    errors = (
        f"off by {np.nanmean(np.abs(middle - was)):.3g}, the last value seen by {np.nanmean(np.abs(last - was)):.3g}"
    )
    if len(was) > 1:
        few = inside < 0.8 * len(was) - 2 * np.sqrt(0.16 * len(was))  # two binomial errors
        missed = f" ({0.8 * len(was):.0f} should: for runs like these it is too sure)" if few else ""
        return f"; {inside} of {len(was)} ends lay inside the 80 % band{missed}, forecasts were {errors}"
    return f"; it was {was[0]:.4g}, {'inside' if inside else 'outside'} the 80 % band: {errors}"


def _when(result: xr.Dataset, goal: float) -> str:
    """How likely a value is reached, and by which step with even odds."""
    chances = result["reached"].values
    if chances[0] == 1:
        return f"{goal:g} has been reached already"
    told = f"{goal:g} is reached with {min(chances[-1], 0.999):.3g}"
    if chances[-1] < 0.5:
        return told
    return f"{told}, even odds by step {result['step'].values[np.searchsorted(chances, 0.5)]:.12g}"
