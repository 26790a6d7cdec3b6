"""Losses of the models of this package: one mode of a linear network, and skills that are learned one after another.

Both are functions of time in units of one moment, so that each is computed once and read off a table.
"""

from functools import cache

import numpy as np

from dynascope.forecasting.candidates.shapes import Shapes, product
from dynascope.models.mode_equation import flow
from dynascope.models.multilinear.curves import SkillSet

_SKILLS = 1000
_TIMES = np.geomspace(1e-4, 1e5, 2000)  # in units of the moment


def mode(x: np.ndarray, half: float, start: float, depth: float) -> np.ndarray:
    """Loss (1 − w)² of a mode of a linear network under gradient flow, from w = start, with w = 1/2 at time `half`.
    Source: deep-linear (10); layerwise (3.10).

    >>> mode(np.array([1e-9, 1.0]), 1.0, 0.01, 2.0).round(4).tolist()
    [0.9801, 0.25]
    """
    return np.asarray(np.interp(np.log(x / half), np.log(_TIMES), _mode(start, int(depth))))


@cache
def _mode(start: float, depth: int) -> np.ndarray:
    begin, one = np.array([start]), np.ones(1)
    half = flow.time_to_reach(np.array([[0.5]]), begin, one, depth=depth)[0, 0]
    return np.asarray((1 - flow.solve(_TIMES * half, begin, one, depth=depth)[0]) ** 2)


def skills(x: np.ndarray, first: float, exponent: float) -> np.ndarray:
    """Loss of the multilinear model, whose first skill is half learned at time `first`. Source: layerwise (4.17).

    >>> bool(np.all(np.diff(skills(np.array([0.1, 1.0, 10.0]), 0.1, 0.5)) < 0))
    True
    """
    return np.asarray(np.interp(np.log(x / first), np.log(_TIMES), _skills(exponent)))


@cache
def _skills(exponent: float) -> np.ndarray:
    task = SkillSet(_SKILLS, exponent, target=1.0, initial=0.01, learning_rate=1.0, linear=False)
    half = -task.start_logit / (2 * task.frequency(np.ones(1))[0])
    return task.loss(_TIMES * half, None, None)


MODE = Shapes("mode", product(np.geomspace(0.05, 1.5, 10), np.array([0.1, 0.01, 1e-3]), np.array([2.0, 3.0])), mode)
SKILLS = Shapes("skills", product(np.geomspace(0.001, 0.3, 8), np.geomspace(0.15, 1.5, 5)), skills)
