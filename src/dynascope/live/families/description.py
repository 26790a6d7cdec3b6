"""What a family of models is on the page: its sliders, its pictures, and the functions that fill them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynascope.live.panels import read_number

Values = Mapping[str, float]
Columns = Mapping[str, np.ndarray | Sequence[float]]


class Range(NamedTuple):
    """What a slider offers."""

    least: float
    greatest: float
    step: float
    first: float


class Picture(NamedTuple):
    """Curves over one pair of axes; `log` names those that are logarithmic, such as "xy"."""

    title: str
    across: str
    up: str
    names: tuple[str, ...]
    log: str = ""


class Drawn(NamedTuple):
    """Columns of a picture, `x` and one for each of its names: of a simulation, or a run; of what stands for it."""

    simulated: Columns
    closed: Columns


@dataclass(frozen=True)
class Fitted:
    """A recorded run in the units of a family: values for its sliders, a sentence, what is drawn, by picture.

    solve, lines: those of the family, from where the run began
    """

    values: Values
    sentence: str
    solve: Callable[[Values], Any]
    lines: Callable[[Values], str]
    drawn: Mapping[str, Drawn] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A family under sliders; `lines` gives the Python lines that compute what is shown, `solve` that itself.

    fit: finds the model of this family that a recorded run follows, where there is a way to; takes seconds
    """

    title: str
    sliders: Mapping[str, Range]
    pictures: tuple[Picture, ...]
    solve: Callable[[Values], Any]
    lines: Callable[[Values], str]
    fit: Callable[[Path], Fitted] | None = None

    def read_state(self, given: Mapping[str, str]) -> dict[str, float]:
        """Values of the sliders from an address: numbers in their range, the first value where there is none.

        >>> family = Family("", {"noise": Range(0.0, 1.0, 0.1, 0.5)}, (), len, str)
        >>> [family.read_state({"noise": text})["noise"] for text in ("0.2", "much", "7")]
        [0.2, 0.5, 1.0]
        """
        state = {}
        for name, (least, greatest, step, first) in self.sliders.items():
            value = read_number(given.get(name), least, greatest, first)
            state[name] = float(round(value)) if step == 1 else value
        return state


def beyond(family: Mapping[str, Range], values: Values) -> str:
    """Which fitted values no slider offers, as the end of a sentence.

    >>> beyond({"noise": Range(0.0, 1.0, 0.1, 0.5)}, {"noise": 3.0})
    '; beyond its slider: noise'
    """
    found = [name for name, value in values.items() if not family[name].least <= value <= family[name].greatest]
    return f"; beyond its slider: {', '.join(found).replace('_', ' ')}" if found else ""


def arguments(values: Values, *names: str) -> str:
    """Values as they stand between the brackets of a call; all of them, or those that are named.

    >>> arguments({"noise": 0.01, "blocks": 7.0}, "blocks")
    'blocks=7'
    """
    return ", ".join(f"{name}={values[name]:g}" for name in names or values)
