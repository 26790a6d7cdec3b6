"""The locally elastic ODE (6) by other means: drift blocks written in a loop, and a solver instead of closed forms.

Shares no code with the model family, so that claims can hold one against the other.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

Law = Callable[[float], float]  # a strength over time
SOLVER_ERROR = 1e-9  # of a path's largest entry: some hundred steps, each with the error allowed below


def looped_drift(
    classes: int, features: int, geometry: str | np.ndarray
) -> tuple[Float[np.ndarray, "state state"], Float[np.ndarray, "state state"]]:
    """Matrices with M(t) = α(t) · first + β(t) · second for balanced classes, block by block as below elastic (5).

    geometry: "isotropic", "logits" or H itself, (class·feature, class·feature).

    >>> own, other = looped_drift(2, 1, "isotropic")
    >>> own.tolist(), other.tolist()
    ([[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]])
    """
    own, other = np.zeros((2, classes * features, classes * features))
    for k in range(classes):
        for l in range(classes):  # noqa: E741 (the source's index)
            place = np.ix_(range(k * features, (k + 1) * features), range(l * features, (l + 1) * features))
            if isinstance(geometry, str):
                along = np.array([(i == l) - 1 / classes for i in range(features)])
                block = np.eye(features) if geometry == "isotropic" else np.outer(along, along) / sum(along**2)
            else:
                block = geometry[place]
            (own if k == l else other)[place] = block / classes
    return own, other


def power_law(scale: float, index: float = 0.0) -> Law:
    """Return the bare function t → scale/(1 + t)^index.

    >>> power_law(2.0, 1.0)(3.0)
    0.5
    """
    return lambda time: float(scale * (1 + time) ** -index)


def solve_means(
    times: Float[np.ndarray, " time"],
    start: Float[np.ndarray, "*trial class feature"],
    intra: Law,
    inter: Law,
    geometry: str | np.ndarray,
) -> Float[np.ndarray, "*trial time class feature"]:
    """Solve (6) by an adaptive method of order 8 (relative error 1e-12 per step), from time 0.

    >>> solve_means(np.array([1.0]), np.ones((2, 1)), lambda t: 2.0, lambda t: 0.0, "isotropic").round(6).tolist()
    [[[2.718282], [2.718282]]]
    """
    classes, features = start.shape[-2:]
    own, other = looped_drift(classes, features, geometry)
    columns = start.reshape(-1, len(own)).T  # (state, trial)

    def slope(time: float, flat: np.ndarray) -> np.ndarray:
        return np.asarray((intra(time) * own + inter(time) * other) @ flat.reshape(columns.shape)).ravel()

    state, path = columns.ravel(), []
    for begin, end in pairwise([0.0, *times.tolist()]):
        if end > begin:
            state = solve_ivp(slope, (begin, end), state, method="DOP853", rtol=1e-12, atol=1e-15).y[:, -1]
        path.append(state.reshape(columns.shape).T)
    return np.stack(path, axis=1).reshape((*start.shape[:-2], len(times), *start.shape[-2:]))
