"""Forecast the rest of a run, with bands that hold, or say why that cannot be done."""

import os
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.special import ndtri

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

_TIMES = 40  # future steps that a result has
_RISING = ("accuracy", "acc", "auc", "f1", "bleu", "precision", "recall", "score", "reward", "return")
_WIDER = 2.0  # bands of what is refused, over what they would be
_SCENARIOS = ("constant", "linear")  # futures between which an unknown schedule lies


def forecast(
    run: Given[Source],
    *,
    until: Given[float | None] = None,
    schedule: Given[Schedule | None] = None,
    quantity: Given[str | None] = None,
    like: Given[str | os.PathLike[str] | Sequence[Source] | None] = None,
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

    The result has the quantity over (step, quantile), the weight of each candidate at the end, and in its attributes
    `refused` (the reason, or nothing) and `sentence`. Quantiles are those of single records. Docs: forecast.md.

    >>> step = np.arange(0, 1000, 20)
    >>> result = forecast({"step": step, "loss": 0.5 + 2 * (step + 20.0) ** -0.5}, until=2000)
    >>> result["loss"].dims, result.attrs["refused"], bool(abs(result["loss"][-1].sel(quantile=0.5) - 0.5447) < 0.005)
    (('step', 'quantile'), '', True)
    """
    curves = read_curves(run, quantity)
    end = _end(curves, until)
    goal = None if reach is None else scalar("reach", reach)
    earlier = library(like, quantity) if like is not None else None
    prior = load_prior()
    parts = [_one(curve, end, schedule, earlier, prior, goal) for curve in curves]
    name = curves[0].name
    result = parts[0] if len(parts) == 1 else xr.concat(parts, "trial", combine_attrs="drop", coords="minimal")
    reasons = [str(each.attrs["refused"]) for each in parts]
    result.attrs = {
        "refused": "; ".join(dict.fromkeys(each for each in reasons if each)),
        "sentence": _sentence(result, name, end, reasons, goal),
    }
    return result


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
    reason = refusal(curve, rising=rising, rates_known=known)
    steps = _steps(float(curve.step[-1]), end)
    sign = -1.0 if rising else 1.0
    finite = np.isfinite(curve.value)
    if finite.sum() < 2:
        found, weight = _blind(curve, steps), np.full((len(steps), len(CANDIDATES)), np.nan)
    else:
        held = Curve(curve.step[finite], sign * curve.value[finite], curve.rate, curve.name)
        futures = [rates] if known else [future_rates(each, curve, end) for each in _SCENARIOS]
        runs = [_quantiles(held, steps, each, earlier, prior, sign) for each in futures]
        found = _envelope([each for each, _ in runs])
        weight = runs[0][1]
        if reason:
            middle = found[:, 3:4]
            found = middle + _WIDER * (found - middle)
    found = sign * found if not rising else (sign * found)[:, ::-1]
    found = _within(found, curve)
    result = xr.Dataset(
        {curve.name: (("step", "quantile"), found), "weight": (("step", "candidate"), weight)},
        {"step": steps, "quantile": list(LEVELS), "candidate": [each.name for each in CANDIDATES]},
        {"refused": reason},
    )
    if goal is not None:
        result["reached"] = ("step", _reached(found, goal, rising))
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
    steps = np.linspace(last, end, _TIMES + 1)[1:]
    whole = np.unique(np.round(steps))
    if end == round(end) and len(whole) == _TIMES and whole[0] > last:
        return whole
    return steps


def lay_out(curve: Curve, rates: tuple[np.ndarray, np.ndarray] | None) -> tuple[Seen, float, float]:
    """A curve of finite records as candidates take it, the shift of its time, and the noise of a single record."""
    step, value, noise = averaged(curve.step, curve.value)
    shift, _ = in_time(step)
    scale = float(curve.step[-1] + shift)
    pace = None if rates is None else pace_of(*rates, shift, scale)
    return Seen((step + shift) / scale, value[None], pace, scale), shift, noise


def _quantiles(
    curve: Curve,
    steps: np.ndarray,
    rates: tuple[np.ndarray, np.ndarray] | None,
    earlier: Library | None,
    prior: Prior,
    sign: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles (step, level) and weights (step, candidate), of a curve that falls as it gets better."""
    seen, shift, noise = lay_out(curve, rates)
    candidates: Sequence[Candidate] = CANDIDATES
    if earlier is not None:
        candidates = candidates_after(earlier.shapes(sign), earlier.law)
    ahead = (steps + shift) / seen.scale
    found, weights = [], []
    for time, given in zip(ahead, clues(seen, ahead, candidates), strict=True):
        mixed = mixture(given, seen.last, prior).with_noise(noise)
        levels = read_levels(prior, float(time), size_of(given.unit, seen.last))
        found.append(mixed.quantile(levels)[0])
        weights.append(mixed.weight[0, : len(CANDIDATES)])
    return np.stack(found), np.stack(weights)


def _envelope(runs: list[np.ndarray]) -> np.ndarray:
    """The band that holds all of several, and the mean of their middles."""
    table = np.stack(runs)
    middle = len(LEVELS) // 2
    band = np.where(np.arange(len(LEVELS)) < middle, table.min(0), table.max(0))
    band[:, middle] = table[:, :, middle].mean(0)
    return np.asarray(band)


def _blind(curve: Curve, steps: np.ndarray) -> np.ndarray:
    """A band about the only value that is known, as wide as it is large."""
    value = float(curve.value[np.isfinite(curve.value)][-1])
    return np.repeat((value + max(abs(value), 1e-12) * ndtri(np.array(LEVELS)))[None], len(steps), 0)


def _within(found: np.ndarray, curve: Curve) -> np.ndarray:
    """Losses stay above 0 and shares below 1 if they always were."""
    value = curve.value[np.isfinite(curve.value)]
    least = 0.0 if value.min() >= 0 else -np.inf
    most = 1.0 if is_rising(curve) and value.min() >= 0 and value.max() <= 1 else np.inf
    return np.asarray(np.clip(found, least, most))


def _reached(found: np.ndarray, goal: float, rising: bool) -> np.ndarray:
    """Probability that a value is reached by each step: once reached, it stays so."""
    levels = np.array(LEVELS)
    now = []
    for row in found:
        strict = row + 1e-12 * np.arange(len(row)) * (np.abs(row).max() + 1e-300)
        below = np.interp(goal, strict, levels, left=0.0, right=1.0)
        now.append(1 - below if rising else below)
    return np.asarray(np.maximum.accumulate(now))


def _sentence(result: xr.Dataset, name: str, end: float, reasons: list[str], goal: float | None) -> str:
    """What a user wants to read first."""
    if result.sizes.get("trial", 1) > 1:
        refused = sum(bool(each) for each in reasons)
        ends = result[name].isel(step=-1).sel(quantile=0.5).values
        text = f"{name} at step {end:.12g}: {ends.min():.4g} to {ends.max():.4g} in the middle"
        return text + f" over {len(reasons)} trials" + (f"; {refused} of them refused" if refused else "")
    row = result[name].isel(step=-1)
    low, middle, high = (float(row.sel(quantile=each)) for each in (0.1, 0.5, 0.9))
    text = f"{name} at step {end:.12g}: {middle:.4g}, and with 80 % between {low:.4g} and {high:.4g}"
    if goal is not None:
        chance = float(result["reached"][-1])
        when = result["step"].values[np.searchsorted(result["reached"].values, 0.5)] if chance >= 0.5 else None
        text += f"; {goal:g} is reached with {chance:.0%}" + (
            "" if when is None else f", even odds by step {when:.12g}"
        )
    return f"no forecast ({reasons[0]}); the widest honest band: {text}" if reasons[0] else text
