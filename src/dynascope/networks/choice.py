"""The fastest way to step an ensemble on a GPU, found by short trials that are remembered on disk."""

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from dynascope.files import write_whole

# seconds of training, in the best way so far, from which it pays to try another: PyTorch's compiler alone loads for ten
_WORTH = {"compiled, own kernels": 10.0, "compiled": 60.0}
_ROUNDING = 0.05  # of a step's length: bfloat16 takes some hundredths
_MORE_ROUNDING = 3.0  # times what it does to the usual way: tf32, too, takes some hundredths in deep networks
_MOST = 0.3  # of a step's length, however much it is
_FILE, _RULE = "ways.json", 3  # by which ways are accepted: what an earlier one has accepted is tried anew


def fastest(
    ways: Sequence[str],
    attempt: Callable[..., tuple[float, Tensor]],
    *,
    steps: int,
    facts: Mapping[str, Any],
    folder: Path,
) -> str:
    """Name of the way whose step takes least time.

    ways: those that come into question, the usual one first
    attempt: tries a way, with products="full" in full precision, and returns the seconds of a step, and how it moves
        the weights: a way whose step is not that of the first, but for rounding, is none
    steps: how many will be taken
    facts: what the times depend on
    folder: where they are remembered; if it cannot be read or written, they are not

    >>> import tempfile
    >>> times = {"stacked": (0.3, torch.ones(2)), "in turn": (0.2, torch.ones(2))}
    >>> with tempfile.TemporaryDirectory() as there:
    ...     for known in (times, {}):  # the second time nothing is tried
    ...         fastest(list(times), known.__getitem__, steps=5, facts={"trials": 8}, folder=Path(there))
    'in turn'
    'in turn'
    """
    remembered = _read(folder / _FILE)
    key = hashlib.sha256(json.dumps([_RULE, facts], sort_keys=True).encode()).hexdigest()
    times = {way: took for way, took in remembered.get(key, {}).items() if way in ways}
    known, usual = len(times), None
    for way in ways:
        worth = way not in _WORTH or min(times.values(), default=math.inf) * steps > _WORTH[way]
        if way not in times and worth:
            try:
                took, change = attempt(way)
                if usual is None:
                    first = next((each for each in ways if each in times), way)
                    usual = first, change if first == way else attempt(first)[1]
                _require_alike(change, *usual, attempt)
                times[way] = took
            except Exception as error:  # no memory, no compiler, …: then it is none
                if way == ways[-1] and not times:
                    raise
                warnings.warn(f"trials are not stepped {way}: {error}", RuntimeWarning, stacklevel=2)
                torch.cuda.empty_cache()
    if len(times) > known:
        _write(folder / _FILE, remembered | {key: times})
    return min(times, key=times.__getitem__)


def _gap(change: Tensor, usual: Tensor) -> float:
    return float((change - usual).nan_to_num().norm() / usual.nan_to_num().norm().clamp(min=1e-30))


def _require_alike(change: Tensor, way: str, usual: Tensor, attempt: Callable[..., tuple[float, Tensor]]) -> None:
    gap = _gap(change, usual)
    if gap > _ROUNDING and gap > min(_MOST, _MORE_ROUNDING * _rounding(way, usual, attempt)):
        raise ValueError(f"its step differs from the usual one by {gap:.2g} of it")


def _rounding(way: str, usual: Tensor, attempt: Callable[..., tuple[float, Tensor]]) -> float:
    """What rounding does to a step of the usual way; none, where products in full cannot be had."""
    try:
        return _gap(usual, attempt(way, products="full")[1])
    except RuntimeError:  # no memory
        return 0.0


def _read(file: Path) -> dict[str, dict[str, float]]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, float]])
    except (OSError, msgspec.DecodeError):  # nothing was remembered, or something else lies there
        return {}


def _write(file: Path, times: Mapping[str, Mapping[str, float]]) -> None:
    try:
        write_whole(file, lambda place: place.write_text(json.dumps(times)))
    except OSError:  # the folder may not be ours to write to
        return
