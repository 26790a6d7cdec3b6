"""Earlier runs of a user: curves that are known to their end, and the law that their learning rates followed."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dynascope.checks import Given, path_of
from dynascope.forecasting.candidates.earlier import Known
from dynascope.forecasting.candidates.schedule import MULTI_POWER, MultiPower, learn_law
from dynascope.forecasting.curves import Curve, Source, read_curves
from dynascope.forecasting.pace import pace_of
from dynascope.forecasting.refusals import FEWEST
from dynascope.forecasting.seen import lay_out
from dynascope.monitor.journal import is_run


@dataclass(frozen=True)
class Library:
    """Curves of earlier runs, of finite records."""

    curves: tuple[Curve, ...]

    def shapes(self, factor: float) -> tuple[Known, ...]:
        """Curves as shapes, times a factor."""
        paces = (None if each.rate is None else pace_of(each.step, each.rate, 0.0, 1.0) for each in self.curves)
        return tuple(Known(each.step, factor * each.value, pace) for each, pace in zip(self.curves, paces, strict=True))

    @cached_property
    def law(self) -> MultiPower:
        """The multi-power law that these runs had."""
        return law_of(self.curves, float(np.median([each.step[-1] for each in self.curves])))


def law_of(curves: Sequence[Curve], unit: float) -> MultiPower:
    """The multi-power law of runs whose learning rates changed; what is known of others if none did.

    unit: steps in which its numbers are meant.
    """
    seen = [lay_out(each.step, [each.value], (each.step, each.rate))[0] for each in curves if each.rate is not None]
    runs = [each for each in seen if each.pace is not None and each.range[0] > 0]
    return learn_law(runs, unit) if runs else MULTI_POWER


def library(like: Given[str | os.PathLike[str] | Sequence[Source]], quantity: Given[str | None]) -> Library:
    """Read earlier runs: all that can be read in a folder, with a warning of what cannot, or all of a list.

    >>> runs = [{"step": np.arange(10), "loss": np.exp(-np.arange(10.0))}]
    >>> len(library(runs, None).curves)
    1
    """
    found, skipped = [], []
    sources, by_name = _sources(like)
    for each in sources:
        try:
            curves = read_curves(each, quantity)
        except (ValueError, OSError) as error:
            if by_name:
                raise
            skipped.append(str(error))
            continue
        found += [_finite(curve) for curve in curves if np.isfinite(curve.value).sum() >= FEWEST]
    if not found:
        why = f"; {skipped[0]}" if skipped else ""
        raise ValueError(f"like must hold earlier runs of {FEWEST} records or more, got none in {_named(like)}{why}")
    if skipped:
        more = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
        words = f"of {_named(like)} is left out what cannot be read: {skipped[0]}{more}"
        warnings.warn(words, RuntimeWarning, stacklevel=3)
    return Library(tuple(found))


def _finite(curve: Curve) -> Curve:
    """The records that are there."""
    kept = np.isfinite(curve.value)
    rate = None if curve.rate is None else curve.rate[kept]
    return replace(curve, step=curve.step[kept], value=curve.value[kept], rate=rate)


def _named(like: object) -> str:
    return repr(str(like)) if isinstance(like, str | os.PathLike) else "the list"


def _sources(like: object) -> tuple[list[Source], bool]:
    """What may be earlier runs, and whether each was named: what lies in a folder may be something else."""
    if isinstance(like, str | os.PathLike):
        folder = path_of("like", like)
        if not folder.is_dir() or is_run(folder):
            return [folder], True
        return [each for each in sorted(folder.iterdir()) if not each.name.startswith(".")], False
    if isinstance(like, Sequence):
        return list(like), True
    raise ValueError(f"like must be a folder of earlier runs or a list of them, got {type(like).__name__}")
