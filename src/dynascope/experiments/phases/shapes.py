"""What the shape of load curves says about accuracy."""

import numpy as np
from jaxtyping import Float

from dynascope.experiments.claims import Claim, three_errors
from dynascope.statistics.errors import over_trials


def best_where_straight(
    claim: Claim, accuracy: Float[np.ndarray, "setting run"], straight: Float[np.ndarray, "setting run"]
) -> Claim:
    """Judge that accuracy where load curves are straightest is the best, with the worst as its rival.

    >>> claim = Claim("s5", "S5", "straight is best")
    >>> best_where_straight(claim, np.array([[0.8, 0.9], [0.5, 0.6]]), np.array([[1.0, 1.0], [0.9, 0.9]])).verdict
    'reproduced'
    """
    cells = accuracy.mean(axis=-1)
    best, worst, straightest = int(cells.argmax()), int(cells.argmin()), int(straight.mean(axis=-1).argmax())
    _, error = over_trials(accuracy[best] - accuracy[straightest])
    note = f"column {straightest + 1} of {len(cells)} is the straightest, column {best + 1} the most accurate"
    return claim.equals(
        cells[straightest], cells[best], three_errors(error), rival=cells[worst], standard_error=error, note=note
    )
