"""What is said about a run beside its numbers: health, verdicts, and a forecast. It takes up to a second."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynascope import forecasting  # loaded on first use, which takes two seconds: the page is seen before
from dynascope.monitor.health import examine
from dynascope.monitor.judging import verdicts
from dynascope.monitor.reading import assemble
from dynascope.records import Json

_LONGEST = 400  # letters of a finding; all of it stands with its law
_LEAST = 8  # records of the loss, for a forecast


@dataclass(frozen=True)
class Judgement:
    """Sentences, the laws that they rest on and what was not judged, and the band of the forecast by column."""

    lines: list[str]
    laws: list[str]
    band: dict[str, np.ndarray]


NO_BAND = {name: np.zeros(0) for name in ("step", "low", "middle", "high")}


def judge(entries: Sequence[Mapping[str, Json]], steps: np.ndarray, losses: np.ndarray, *, ended: bool) -> Judgement:
    """Say what a run shows so far, and where its loss goes unless it has ended.

    >>> judge([], np.zeros(0), np.zeros(0), ended=False).lines
    ['no measurement yet']
    """
    if not entries:
        return Judgement(["no measurement yet"], [], NO_BAND)
    try:
        record = assemble(entries)
        with np.errstate(all="ignore"):  # numbers may be as large as they like
            health, told = examine(record), verdicts(record)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:  # a journal may hold anything
        return Judgement([f"not judged: {error}"], [], NO_BAND)
    line, _, left = health.line.partition("not judged: ")
    found = [f"health: {line.rstrip('; ') or 'not judged yet'}", *(each.sentence for each in health.findings)]
    found += [textwrap.shorten(f"{each.subject}: {each.finding}", _LONGEST, placeholder=" …") for each in told]
    laws = [f"{each.subject}: {each.sentence}" for each in told] + ([f"not judged: {left}"] if left else [])
    whole = np.isfinite(losses)
    if ended or whole.sum() < _LEAST:
        return Judgement(found, laws, NO_BAND)
    try:
        ahead = forecasting.forecast({"step": steps[whole], "loss": losses[whole]})
    except ValueError as error:
        return Judgement([*found, f"no forecast: {error}"], laws, NO_BAND)
    quantiles = {name: ahead["loss"].sel(quantile=each).values for name, each in _LEVELS.items()}
    band = {"step": ahead["step"].values.astype(float), **quantiles}
    return Judgement([*found, f"forecast: {ahead.attrs['sentence']}"], laws, band)


_LEVELS = {"low": 0.1, "middle": 0.5, "high": 0.9}
