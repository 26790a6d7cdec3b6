"""Numbers over steps in the logs that trainers write: tables (CSV, JSON, JSON lines) and TensorBoard's event files.

A table has a column of steps; where another column is empty, that quantity was not logged there. Columns are found by
name: upper case and the signs between words do not count, so that `Train/Loss` is train_loss.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynascope.forecasting.names import words_of
from dynascope.monitor.loggers import needs
from dynascope.schema import plain_json

Series = tuple[np.ndarray, np.ndarray]  # steps and values, (record,) each
_STEPS = ("step", "global_step", "trainer_global_step", "iteration", "iter", "update", "batch", "epoch")
_RATES = ("learning_rate", "lr")
_EVENTS = "tfevents"  # in the name of every event file
_STATE = "trainer_state.json"  # of Hugging Face, in its checkpoints
_SHOWN = 30  # names of columns in a message


@dataclass(frozen=True)
class Log:
    """A log: the names of its columns, and steps and values of each; `place` says which log, for messages.

    >>> log = table({"step": [0, 10, 20], "Train/Loss": [2.0, None, 1.0], "lr": [0.1, 0.1, 0.05]}, "run")
    >>> log.values(log.named("loss"))[1].tolist(), log.rates()[1].tolist()
    ([2.0, 1.0], [0.1, 0.1, 0.05])
    """

    place: str
    names: list[str]
    read: Callable[[str], Series]

    def named(self, quantity: str) -> str:
        """The one column that holds a quantity: of this name, or as training logs it."""
        forms = (quantity, f"train_{quantity}", f"training_{quantity}", f"{quantity}_train", f"train_{quantity}_step")
        exact = [[name for name in self.names if name == quantity]]
        whole = [[name for name in self.names if _plain(name) == _plain(form)] for form in forms]
        ends = [[name for name in self.names if _plain(name).endswith("_" + _plain(form))] for form in forms[1:]]
        ends.append([name for name in self.names if _plain(name).endswith("_" + _plain(quantity))])
        found = next((each for each in (*exact, *whole, *ends) if each), [])
        if len(found) != 1:
            fits = f"fits several: {_listed(found)}; ask for one of them" if found else "fits none"
            raise ValueError(
                f"quantity must name one column of {self.place}, which has {_listed(self.names)}; {quantity!r} {fits}"
            )
        return found[0]

    def values(self, name: str) -> Series:
        """Steps and values of a column, NaN where a value is not finite; steps that do not increase are refused."""
        step, value = self.read(name)
        if not len(step):
            raise ValueError(f"{self.place} holds no record of {name!r}: is the log empty?")
        require_increasing(step, self.place)
        return step, np.where(np.isfinite(value), value, np.nan)

    def rates(self) -> Series | None:
        """Learning rates, in the order of steps; of several columns (groups of parameters) the largest at each step."""
        found = [self.read(name) for name in self.rate_names()]
        step, rate = (np.concatenate([each[at] for each in found] or [np.empty(0)]) for at in (0, 1))
        if (wrong := (rate < 0) | np.isinf(rate)).any():
            raise ValueError(f"learning rates must be finite and at least 0, {self.place} has {rate[wrong][0]:g}")
        known = np.isfinite(step) & ~np.isnan(rate)
        if not known.any():
            return None
        steps, place = np.unique(step[known], return_inverse=True)
        largest = np.zeros(len(steps))
        np.maximum.at(largest, place, rate[known])
        return steps, largest

    def rate_names(self) -> list[str]:
        """Columns that hold learning rates: one of this name, or one for each group, as Lightning's lr-Adam/pg1."""
        tests: tuple[Callable[[str], bool], ...] = (
            lambda name: name in _RATES,
            lambda name: name.endswith(tuple("_" + each for each in _RATES)),
            lambda name: name.startswith(tuple(each + "_" for each in _RATES)),
        )
        return next((found for test in tests if (found := [name for name in self.names if test(_plain(name))])), [])


def _plain(name: str) -> str:
    return "_".join(words_of(name))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) or "no columns"
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def require_increasing(step: np.ndarray, place: str) -> None:
    """Refuse steps that are not finite, or do not increase, and name the first such record.

    >>> require_increasing(np.array([0.0, 10.0, 10.0]), "'log.csv'")
    Traceback (most recent call last):
    ValueError: steps must increase, but in 'log.csv' step 10 follows step 10 (record 3)
    """
    if not np.isfinite(step).all():
        at = int(np.argmin(np.isfinite(step)))
        raise ValueError(f"steps must be finite, but in {place} record {at + 1} has the step {step[at]}")
    if (wrong := np.flatnonzero(np.diff(step) <= 0)).size:
        at = int(wrong[0])
        raise ValueError(
            f"steps must increase, but in {place} step {step[at + 1]:.12g} follows step {step[at]:.12g} "
            f"(record {at + 2})"
        )


def table(columns: Mapping[Any, Any], place: str) -> Log:
    """Make a log of columns of equal length, one of which holds the steps; None in a column is a gap in the log.

    >>> table({"loss": [1.0]}, "run").names
    Traceback (most recent call last):
    ValueError: run must have a column of steps (step, global_step, iteration, epoch, …), it has loss
    """
    names = [name for name in columns if isinstance(name, str)]
    called = {_plain(name): name for name in reversed(names)}
    steps = next((called[each] for each in _STEPS if each in called), None)
    if steps is None:
        raise ValueError(
            f"{place} must have a column of steps (step, global_step, iteration, epoch, …), it has {_listed(names)}"
        )

    def read(name: str) -> Series:
        step, value = (_numbers(columns[each], each, place) for each in (steps, name))
        if len(step[0]) != len(value[0]):
            raise ValueError(
                f"columns must be equally long, but in {place} {name!r} has {len(value[0])} entries and {steps!r} "
                f"{len(step[0])}"
            )
        return step[0][value[1]], value[0][value[1]]

    return Log(place, [name for name in names if name != steps], read)


def _numbers(column: Any, name: str, place: str) -> tuple[np.ndarray, np.ndarray]:
    """A column as floats, and where it has an entry at all."""
    entries = column if isinstance(column, list | tuple) else []
    try:
        array = np.asarray([np.nan if each is None else each for each in entries] if entries else column)
    except (TypeError, ValueError, RuntimeError):  # ragged lists, tensors that lie elsewhere
        array = np.empty(())
    if array.ndim == 1 and (array.dtype.kind in "iuf" or not array.size):
        return array.astype(float), np.array([each is not None for each in entries], bool) if entries else np.ones(
            len(array), bool
        )
    wrong = next((each for each in entries if isinstance(each, str)), None)
    got = f"{type(column).__name__} of shape {array.shape}" if wrong is None else repr(wrong[:50])
    raise ValueError(f"column {name!r} of {place} must hold numbers, one at each step, got {got}")


def read_log(path: Path) -> Log:
    """Read the log in a file, or in a folder of event files or with Hugging Face's trainer_state.json.

    >>> read_log(Path("run.xlsx"))
    Traceback (most recent call last):
    FileNotFoundError: there is no file or folder 'run.xlsx'
    """
    place = repr(str(path))
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {place}")
    if path.is_dir() and (path / _STATE).is_file():
        return read_log(path / _STATE)
    if path.is_dir() or (path.is_file() and _EVENTS in path.name):
        return _events(path, place)
    kinds: dict[str, Callable[[Path, str], Mapping[str, Any]]] = {
        ".csv": _csv,
        ".json": _json,
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
    }
    if path.suffix not in kinds or not path.is_file():
        raise ValueError(
            f"{place} must be a log in a .csv, .json or .jsonl file, TensorBoard's event files ({_EVENTS} in their "
            "names), or the folder or record of a watched run"
        )
    return table(kinds[path.suffix](path, place), place)


def _text(path: Path, place: str) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{place} is no text, whatever its name says: {error}") from error
    if not text.strip():
        raise ValueError(f"{place} is empty: there is nothing to forecast from")
    return text


def _csv(path: Path, place: str) -> dict[str, list[Any]]:
    try:
        header, *rows = [row for row in csv.reader(io.StringIO(_text(path, place)), strict=True) if row]
    except csv.Error as error:
        raise ValueError(f"{place} is no table of comma-separated values: {error}") from error
    names = [name.strip() for name in header]
    if len(set(names)) < len(names):
        raise ValueError(f"{place} must name each column once, got {_listed(names)}")
    for at, row in enumerate(rows):
        if len(row) > len(names):
            raise ValueError(f"{place} has {len(names)} columns, but row {at + 1} has {len(row)} entries")
    return {name: [_entry(row[at]) if at < len(row) else None for row in rows] for at, name in enumerate(names)}


def _entry(text: str) -> float | str | None:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        return text


def _json(path: Path, place: str) -> Mapping[str, Any]:
    """Lists by name, or a list of rows, which Hugging Face's Trainer keeps in its log_history."""
    try:
        content = plain_json(_text(path, place))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is no JSON text: {error}") from error
    rows = content.get("log_history") if isinstance(content, dict) else content
    if isinstance(rows, list):
        return _columns(rows, place)
    lists = {name: each for name, each in content.items() if isinstance(each, list)} if rows is None and content else {}
    if not lists:
        raise ValueError(f'{place} must hold lists by name, {{"step": […], "loss": […]}}, or a list of rows')
    return lists


def _json_lines(path: Path, place: str) -> Mapping[str, Any]:
    text = _text(path, place)
    lines = text.split("\n")
    rows = []
    for at, line in enumerate(lines):
        try:
            if line.strip():
                rows.append(plain_json(line))
        except (ValueError, RecursionError) as error:
            if rows and at == len(lines) - 1:  # it is being written
                break
            raise ValueError(f"{place} must hold a JSON object in each line, line {at + 1} is none: {error}") from error
    return _columns(rows, place)


def _columns(rows: Sequence[Any], place: str) -> dict[str, list[Any]]:
    """Columns of rows that need not all have the same names."""
    if not rows:
        raise ValueError(f"{place} is empty: there is nothing to forecast from")
    for at, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(f"{place} must hold an object with names in each row, row {at + 1} is {str(row)[:50]!r}")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _events(path: Path, place: str) -> Log:
    """Scalars of the event files of one run."""
    if path.is_dir() and not any(_EVENTS in each.name for each in path.iterdir()):
        below = sorted({each.parent.relative_to(path).as_posix() for each in path.rglob(f"*{_EVENTS}*")})
        more = f"; name the folder of one run: {_listed(below)}" if below else ""
        raise ValueError(f"{place} holds no run: neither a journal of watch, nor event files, nor {_STATE}{more}")
    loading = needs("tensorboard.backend.event_processing.event_accumulator", "tensorboard")
    events = loading.EventAccumulator(str(path), size_guidance={loading.SCALARS: 0}).Reload()
    names = events.Tags()[loading.SCALARS]
    if not names:
        raise ValueError(f"{place} holds no scalars: its event files are empty, damaged, or of something else")

    def read(name: str) -> Series:
        found = events.Scalars(name)
        return np.array([each.step for each in found], float), np.array([each.value for each in found], float)

    return Log(place, names, read)
