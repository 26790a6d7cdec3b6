"""The spring–block chain under sliders: the chain itself over time, and its phase diagram."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dynascope.live.families.description import Range, Values, arguments
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock

DURATION, DT, TRIALS, TIMES = 60.0, 0.05, 200, 31
_CELLS, _CELL_TRIALS = 12, 8  # of the phase diagram, along each side and in each cell
SLIDERS = {
    "friction_right": Range(0.0, 0.2, 0.005, 0.1),
    "noise": Range(0.0, 0.03, 0.0005, 0.01),
    "friction_left": Range(0.0, 0.4, 0.01, 0.2),
    "stiffness": Range(0.2, 2.0, 0.1, 1.0),
    "target": Range(0.2, 2.0, 0.1, 1.0),
    "blocks": Range(2, 20, 1, 7),
}


class Solved(NamedTuple):
    """Loads over (time, layer): their mean and spread in a simulation, and the closed form of the mean."""

    mean: np.ndarray
    spread: np.ndarray
    closed: np.ndarray


def chain_of(values: Mapping[str, Any]) -> SpringBlock:
    """The chain, or chains, of some values.

    >>> chain_of({"noise": 0.01, "blocks": 3.0}).blocks
    3
    """
    return SpringBlock(**{**values, "blocks": int(values["blocks"])})


def solve(values: Values) -> Solved:
    """Simulate a chain of 200 trials, and solve for its mean path.

    >>> found = solve({"blocks": 3.0})
    >>> found.mean.shape, bool(abs(found.mean - found.closed).max() < 0.02)
    ((31, 4), True)
    """
    chain = chain_of(values)
    run = chain.simulate(DURATION, DT, TRIALS, save_points=TIMES, precision="float32", progress=False)
    path = chain.mean_path(np.linspace(0.0, DURATION, TIMES), dt=DT)
    closed = float(chain.target) - np.pad(path, ((0, 0), (1, 0)))  # layer 0 stays where it is
    return Solved(run["load"].mean("trial").values, run["load"].std("trial").values, closed)


def at_rest(values: Values) -> Solved:
    """Where the chain rests without noise, at once: what is shown until it is solved for the first time.

    >>> at_rest({"blocks": 3.0}).mean.shape
    (31, 4)
    """
    chain = chain_of(values)
    rest = float(chain.target) - np.pad(chain.equilibrium(), (1, 0))
    still = np.broadcast_to(rest, (TIMES, len(rest)))
    return Solved(still, 0 * still, still)


def phases(values: Values) -> np.ndarray:
    """Curvature at the end, over (friction_right, noise), of chains with the other parameters.

    >>> phases({"blocks": 3.0}).shape
    (12, 12)
    """
    axes = {name: np.linspace(*SLIDERS[name][:2], _CELLS) for name in ("friction_right", "noise")}
    chains = chain_of({**values, **grid(**axes)})
    run = chains.simulate(DURATION, DT, _CELL_TRIALS, save_points=2, precision="float32", progress=False)
    return np.asarray(run["curvature"].isel(time=-1).mean("trial").transpose("friction_right", "noise").values)


def lines(values: Values) -> str:
    """The Python lines that give what is shown.

    >>> print(lines({"noise": 0.01, "blocks": 7.0}).splitlines()[2])
    chain = SpringBlock(noise=0.01, blocks=7)
    """
    return (
        "from dynascope import SpringBlock\n\n"
        f"chain = SpringBlock({arguments(values)})\n"
        f'run = chain.simulate({DURATION:g}, {DT:g}, {TRIALS}, save_points={TIMES}, precision="float32")\n'
        'print(run["load"].mean("trial").to_pandas())  # a row for each place of the slider of time'
    )
