"""What a family of models is on the page: its sliders, its pictures, and the functions that fill them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Values = Mapping[str, float]


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
    """Columns of a picture: `x` and one for each of its names."""

    simulated: Mapping[str, np.ndarray]
    closed: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Family:
    """A family under sliders; `lines` gives the Python lines that compute what is shown, `solve` that itself."""

    title: str
    sliders: Mapping[str, Range]
    pictures: tuple[Picture, ...]
    solve: Callable[[Values], Any]
    lines: Callable[[Values], str]

    def read_state(self, given: Mapping[str, str]) -> dict[str, float]:
        """Values of the sliders from an address: numbers in their range, the first value where there is none.

        >>> family = Family("", {"noise": Range(0.0, 1.0, 0.1, 0.5)}, (), len, str)
        >>> [family.read_state({"noise": text})["noise"] for text in ("0.2", "much", "7")]
        [0.2, 0.5, 1.0]
        """
        state = {}
        for name, (least, greatest, _, first) in self.sliders.items():
            try:
                value = float(given.get(name, first))
            except ValueError:
                value = first
            state[name] = float(np.clip(value, least, greatest)) if np.isfinite(value) else first
        return state


def arguments(values: Values, *names: str) -> str:
    """Values as they stand between the brackets of a call; all of them, or those that are named.

    >>> arguments({"noise": 0.01, "blocks": 7.0}, "blocks")
    'blocks=7'
    """
    return ", ".join(f"{name}={values[name]:g}" for name in names or values)
