"""Where nothing can be known: what is said instead of a forecast. The band is then as wide as is honest."""

import numpy as np

from dynascope.forecasting.curves import Curve
from dynascope.forecasting.seen import averaged

FEWEST = 6  # finite records
_JUMP = 10.0  # typical differences of neighbours
_SURE = 3.0  # standard errors
_DRIFT = 4.0  # standard errors
_STILL = 1.5  # of the noise between neighbours: what scatters less about its mean is noise alone


def refusal(curve: Curve, *, rising: bool, rates_known: bool) -> str:
    """The reason why a curve cannot be forecast, in words, or nothing.

    rising: whether it gets better upwards. rates_known: whether its future learning rates are known, or never changed.

    >>> refusal(Curve(np.array([0.0, 1.0]), np.array([2.0, 1.0]), None, "loss"), rising=False, rates_known=True)
    'too short: loss has 2 records, 6 are needed'
    """
    finite = np.isfinite(curve.value)
    if (known := int(finite.sum())) < FEWEST:
        return f"too short: {curve.name} has {known} record{'s' * (known > 1)}, {FEWEST} are needed"
    if not finite[-1]:
        first = curve.step[np.flatnonzero(finite)[-1] + 1]
        return f"diverged: {curve.name} is not finite from step {first:.12g} on"
    step, value, _ = averaged(curve.step[finite], curve.value[finite])
    worse = -value if rising else value
    if reason := _diverging(step, worse, curve.name):
        return reason
    if reason := _broken(step, worse, curve.name):
        return reason
    if _still(worse):
        return f"not learning: {curve.name} has not changed by more than its noise"
    if not rates_known:
        return (
            "schedule unknown: the learning rate has changed on the way, and what it will be is not known; give "
            "schedule=…"
        )
    return ""


def _diverging(step: np.ndarray, worse: np.ndarray, name: str) -> str:
    """A curve that ends far above where it began, and still climbs."""
    third = max(len(worse) // 3, 2)
    noise = _noise(worse)
    begun, best, now = worse[:third].max(), worse.min(), worse[-1]
    climbs = worse[-1] - worse[-third] > max(_SURE * noise, 0.05 * abs(best))
    if climbs and now > begun + max(begun - best, _SURE * noise) and np.argmax(worse) >= len(worse) - third:
        return f"diverging: {name} was best at step {step[np.argmin(worse)]:.12g} and has grown worse than it began"
    return ""


def _broken(step: np.ndarray, worse: np.ndarray, name: str) -> str:
    """A sudden worsening that stays: what came before says little of what comes."""
    change = np.diff(worse)
    later = slice(max(len(change) // 4, 1), None)
    typical = np.median(np.abs(change[later])) + 1e-12 * np.abs(worse).max()
    place = int(np.argmax(change[later])) + max(len(change) // 4, 1)
    stays = worse[place + 1 :].min() > worse[: place + 1].min() + 0.5 * change[place]
    if change[place] > _JUMP * typical and stays and change[place] > 0.2 * np.ptp(worse):
        return f"change of regime: {name} jumped between steps {step[place]:.12g} and {step[place + 1]:.12g} and stayed"
    return ""


def _still(worse: np.ndarray) -> bool:
    """Whether first and last third are the same within their errors, and nothing happens between them."""
    third = len(worse) // 3
    noise = float(np.sqrt(np.mean(np.diff(worse, 2) ** 2) / 6))
    least = 1e-9 * np.abs(worse).max()
    same = abs(worse[:third].mean() - worse[-third:].mean()) <= _DRIFT * noise * np.sqrt(2 / third) + least
    return bool(same and worse.std() <= _STILL * noise + least)


def _noise(values: np.ndarray) -> float:
    return float(np.median(np.abs(np.diff(values, 2))) / (0.6745 * np.sqrt(6)))
