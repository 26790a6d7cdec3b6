"""Earlier runs of a user: curves that are known to their end, and the law that their learning rates followed."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dynascope.checks import Given, path_of
from dynascope.forecasting.candidates.earlier import Known
from dynascope.forecasting.candidates.schedule import MULTI_POWER, MultiPower, learn_law
from dynascope.forecasting.curves import Curve, Source, read_curves
from dynascope.forecasting.pace import pace_of
from dynascope.forecasting.seen import Seen, averaged, in_time

_FEWEST = 6


@dataclass(frozen=True)
class Library:
    """Curves of earlier runs, of finite records."""

    curves: tuple[Curve, ...]

    def shapes(self, factor: float) -> tuple[Known, ...]:
        """Curves as shapes, times a factor."""
        return tuple(
            Known(
                each.step, factor * each.value, None if each.rate is None else pace_of(each.step, each.rate, 0.0, 1.0)
            )
            for each in self.curves
        )

    @cached_property
    def law(self) -> MultiPower:
        """The multi-power law of runs whose learning rates changed; what is known of others if none did."""
        unit = float(np.median([each.step[-1] for each in self.curves]))
        runs = []
        for each in self.curves:
            step, value, _ = averaged(each.step, each.value)
            shift, _ = in_time(step)
            scale = float(each.step[-1] + shift)
            pace = None if each.rate is None else pace_of(each.step, each.rate, shift, scale)
            if pace is not None:
                runs.append(Seen((step + shift) / scale, value[None], pace, scale))
        return learn_law(runs, unit) if runs else MULTI_POWER


def library(like: Given[str | os.PathLike[str] | Sequence[Source]], quantity: Given[str | None]) -> Library:
    """Read earlier runs: all that lie in a folder, or those of a list.

    >>> runs = [{"step": np.arange(10), "loss": np.exp(-np.arange(10.0))}]
    >>> len(library(runs, None).curves)
    1
    """
    found = []
    for each in _sources(like):
        for curve in read_curves(each, quantity):
            finite = np.isfinite(curve.value)
            if finite.sum() >= _FEWEST:
                rate = None if curve.rate is None else curve.rate[finite]
                found.append(Curve(curve.step[finite], curve.value[finite], rate, curve.name))
    if not found:
        raise ValueError(f"like must hold earlier runs of {_FEWEST} records or more, got none in {like!r}")
    return Library(tuple(found))


def _sources(like: object) -> list[Source]:
    if isinstance(like, str | os.PathLike):
        folder = path_of("like", like)
        if not folder.is_dir():
            return [folder]
        entries: list[Source] = [each for each in sorted(Path(folder).iterdir()) if not each.name.startswith(".")]
        if not entries:
            raise ValueError(f"like must be a folder with earlier runs, {str(folder)!r} is empty")
        return entries
    if isinstance(like, Sequence):
        return list(like)
    raise ValueError(f"like must be a folder of earlier runs or a list of them, got {type(like).__name__}")
