"""How well a linear map predicts targets that it has not seen: the regression load, held out."""

import numpy as np
from jaxtyping import Float

from dynascope.measure.arrays import Array, Namespace, like, to_numpy

FOLDS = 4
PENALTIES = (1e-6, 1e-4, 1e-2, 1e-1, 1.0, 1e2)  # relative to the mean square of a standardised feature


def held_out_residuals(
    xp: Namespace, x: Array, y: Array, groups: np.ndarray, *, name: str
) -> Float[np.ndarray, " sample"]:
    """Squared errors |y_i − ŷ_i|² of linear maps fitted to other groups, by ridge regression.

    Groups are dealt to four folds in the order in which they first occur, and each fold is predicted by the map of the
    three others. Features are brought to unit spread; the penalty is the best of six on the first fold.

    >>> x = np.arange(40.0)[:, None]
    >>> bool(held_out_residuals(np, x, 3 * x + 1, np.arange(40), name="features").max() < 1e-6)
    True
    """
    folds = _folds(groups, x.shape[0])
    if int(folds.max()) + 1 < FOLDS:
        raise ValueError(
            f"{name} must come from at least {FOLDS} groups, so that some can be held out, got {folds.max() + 1}; "
            "use more samples or sequences"
        )
    x = x - xp.mean(x, axis=0)
    spread = to_numpy(xp.mean(x**2, axis=0)) ** 0.5
    x = x / like(xp, x, np.where(spread == 0, 1.0, spread))
    if x.shape[1] > x.shape[0]:  # a wide layer turned into as many coordinates as samples: distances stay
        x = xp.linalg.qr(x.T)[1].T
    errors = np.empty(x.shape[0])
    penalties: tuple[float, ...] = PENALTIES
    for fold in range(FOLDS):
        found = _errors(xp, x, y, folds == fold, penalties)  # (penalty, held-out sample)
        best = int(np.argmin(found.sum(axis=1)))
        errors[folds == fold] = found[best]
        penalties = (penalties[best],)
    return errors


def _folds(groups: np.ndarray, samples: int) -> np.ndarray:
    if groups.shape != (samples,):
        raise ValueError(f"groups must name the group of each of the {samples} samples, got shape {groups.shape}")
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=int)
    order[np.argsort(first)] = np.arange(len(first))
    return np.asarray(order[codes] % FOLDS)


def _errors(xp: Namespace, x: Array, y: Array, held: np.ndarray, penalties: tuple[float, ...]) -> np.ndarray:
    seen, unseen = (like(xp, x, np.flatnonzero(side)) for side in (~held, held))
    (a, b), (new, truth) = ((xp.take(x, each, axis=0), xp.take(y, each, axis=0)) for each in (seen, unseen))
    centre, level = xp.mean(a, axis=0), xp.mean(b, axis=0)
    a, b, new, truth = a - centre, b - level, new - centre, truth - level
    gram, product = a.T @ a, a.T @ b
    size = float(xp.sum(a**2)) / x.shape[1] or 1.0  # all features may be constant
    unit = like(xp, x, np.eye(x.shape[1]))
    slopes = [xp.linalg.solve(gram + penalty * size * unit, product) for penalty in penalties]
    return np.stack([to_numpy(xp.sum((truth - new @ each) ** 2, axis=1)) for each in slopes])
