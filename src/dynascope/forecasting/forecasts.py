"""Forecast the rest of a run, with bands that hold, or say why that cannot be done."""

import os
import time
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.special import ndtr, ndtri

from dynascope.checks import Given, scalar
from dynascope.forecasting.candidates import CANDIDATES, candidates_after
from dynascope.forecasting.candidates.shapes import Candidate
from dynascope.forecasting.curves import Curve, Source, read_curves
from dynascope.forecasting.evidence import LEVELS, Prior, clues, load_prior, mixture, read_levels, size_of
from dynascope.forecasting.known import Library, library
from dynascope.forecasting.pace import pace_of
from dynascope.forecasting.refusals import refusal
from dynascope.forecasting.schedules import Schedule, future_rates
from dynascope.forecasting.seen import Seen, averaged, in_time
from dynascope.records import with_provenance

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
)
_RISING = ("accuracy", "acc", "auc", "f1", "bleu", "precision", "recall", "score", "reward", "return")
_WIDER = 2.0  # bands of what is refused, over what they would be
_DIGITS = 14  # of times: other units of the step change nothing
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

    The result has the quantity over (step, quantile), weights of candidates, what was seen, and in its attributes
    `refused` (the reason, or nothing; of several trials also a variable) and `sentence`. Quantiles are those of single
    records. More: docs/forecast.md.

    >>> step = np.arange(0, 1000, 20)
    >>> result = forecast({"step": step, "loss": 0.5 + 2 * (step + 20.0) ** -0.5}, until=2000)
    >>> result["loss"].dims, result.attrs["refused"], bool(abs(result["loss"][-1].sel(quantile=0.5) - 0.5447) < 0.005)
    (('step', 'quantile'), '', True)
    """
    begun = time.perf_counter()
    curves = read_curves(run, quantity)
    if curves[0].name in _OWN:
        raise ValueError(f"quantity must have a name that the result does not use itself, got {quantity!r}: rename it")
    end = _end(curves, until)
    goal = None if reach is None else scalar("reach", reach)
    earlier = library(like, quantity) if like is not None and not isinstance(like, Library) else like
    prior = load_prior()
    parts = [_one(curve, end, schedule, earlier, prior, goal) for curve in curves]
    name = curves[0].name
    result = parts[0] if len(parts) == 1 else xr.concat(parts, "trial", combine_attrs="drop", coords="minimal")
    reasons = [str(each.attrs["refused"]) for each in parts]
    if len(parts) > 1:
        result = result.assign(refused=("trial", reasons))
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


def _one(
    curve: Curve, end: float, schedule: Schedule | None, earlier: Library | None, prior: Prior, goal: float | None
) -> xr.Dataset:
    """Forecast one curve."""
    rising = is_rising(curve)
    rates = future_rates(schedule, curve, end)
    known = rates is not None or curve.rate is None
    finite = np.isfinite(curve.value)
    unit = _unit(curve.value[finite])
    reason = refusal(Curve(curve.step, curve.value / unit, curve.rate, curve.name), rising=rising, rates_known=known)
    steps = _steps(float(curve.step[-1]), end)
    sign = -1.0 if rising else 1.0
    held = Curve(curve.step[finite], sign / unit * curve.value[finite], None, curve.name)
    if finite.sum() < 2:
        found, weight = _blind(float(held.value[0]), steps), np.full((len(steps), len(CANDIDATES)), np.nan)
    else:
        futures = [rates] if known else [future_rates(each, curve, end) for each in _SCENARIOS]
        runs = [_quantiles(held, steps, each, earlier, prior, sign / unit) for each in futures]
        found = _envelope([each for each, _ in runs])
        weight = runs[0][1]
        if reason:
            middle = found[:, 3:4]
            found = middle + _WIDER * (found - middle)
    found = _within(sign * unit * (found[:, ::-1] if rising else found), curve)
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
    words = curve.name.lower().replace("/", "_").replace("-", "_").split("_")
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


def lay_out(curve: Curve, rates: tuple[np.ndarray, np.ndarray] | None) -> tuple[Seen, float, float]:
    """A curve of finite records as candidates take it, the shift of its time, and the noise of a single record."""
    span = float(np.abs(curve.step[[0, -1]]).max())
    times = np.round(curve.step / span, _DIGITS)
    time, value, noise = averaged(times, curve.value)
    shift, _ = in_time(time)
    long = float(times[-1] + shift)
    pace = None if rates is None else pace_of(*rates, shift * span, long * span)
    return Seen((time + shift) / long, value[None], pace, long * span), shift * span, noise


def _quantiles(
    curve: Curve,
    steps: np.ndarray,
    rates: tuple[np.ndarray, np.ndarray] | None,
    earlier: Library | None,
    prior: Prior,
    factor: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles (step, level) and weights (step, candidate), of a curve that falls as it gets better.

    factor: that took the curve's values to what they are, and takes those of earlier runs there.
    """
    seen, shift, noise = lay_out(curve, rates)
    candidates: Sequence[Candidate] = CANDIDATES
    if earlier is not None:
        candidates = candidates_after(earlier.shapes(factor), earlier.law)
    ahead = np.minimum((steps + shift) / seen.scale, _FURTHEST)
    found, weights = [], []
    for at, given in zip(ahead, clues(seen, ahead, candidates), strict=True):
        mixed = mixture(given, seen.last, prior).with_noise(noise)
        levels = read_levels(prior, float(at), size_of(given.unit, seen.last))
        found.append(mixed.quantile(levels)[0])
        weights.append(mixed.weight[0, : len(CANDIDATES)])
    return np.stack(found), np.stack(weights)


def _unit(values: np.ndarray) -> float:
    """What values are counted in: the power of 2 below the largest, so that nothing depends on their units."""
    largest = float(np.abs(values).max())
    return float(2.0 ** np.floor(np.log2(largest))) if largest > 0 else 1.0


def _envelope(runs: list[np.ndarray]) -> np.ndarray:
    """The band that holds all of several, and the mean of their middles."""
    table = np.stack(runs)
    middle = len(LEVELS) // 2
    band = np.where(np.arange(len(LEVELS)) < middle, table.min(0), table.max(0))
    band[:, middle] = table[:, :, middle].mean(0)
    return np.asarray(band)


def _blind(value: float, steps: np.ndarray) -> np.ndarray:
    """A band about the only value that is known, as wide as it is large."""
    return np.asarray(np.repeat((value + max(abs(value), 1e-12) * ndtri(np.array(LEVELS)))[None], len(steps), 0))


def _within(found: np.ndarray, curve: Curve) -> np.ndarray:
    """Losses stay above 0 and shares below 1 if they always were."""
    value = curve.value[np.isfinite(curve.value)]
    least = 0.0 if value.min() >= 0 else -np.inf
    most = 1.0 if is_rising(curve) and value.min() >= 0 and value.max() <= 1 else np.inf
    return np.asarray(np.clip(found, least, most))


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
        return text + f" over {len(reasons)} trials" + (f"; {refused} of them refused" if refused else "")
    row = result[name].isel(step=-1)
    low, middle, high = (float(row.sel(quantile=each)) for each in (0.1, 0.5, 0.9))
    text = f"{name} at step {end:.12g}: {middle:.4g}, and with 80 % between {low:.4g} and {high:.4g}"
    if goal is not None:
        text += f"; {_when(result, goal)}"
    return f"no forecast ({reasons[0]}); the widest honest band: {text}" if reasons[0] else text


def _when(result: xr.Dataset, goal: float) -> str:
    """How likely a value is reached, and by which step with even odds."""
    chances = result["reached"].values
    if chances[0] == 1:
        return f"{goal:g} has been reached already"
    told = f"{goal:g} is reached with {min(chances[-1], 0.999):.3g}"
    if chances[-1] < 0.5:
        return told
    return f"{told}, even odds by step {result['step'].values[np.searchsorted(chances, 0.5)]:.12g}"
