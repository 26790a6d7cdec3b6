"""Small tables of numbers for regression."""

import numpy as np

from dynascope.checks import Given, count
from dynascope.data.images import scikit_learn


def diabetes(*, seed: Given[int] = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Load scikit-learn's diabetes data: 442 patients, 10 columns, and how far the disease went.

    Columns and targets are standardised by the mean and deviation of the training part; a fifth, drawn by the seed, is
    the test part. All float32: inputs (n, 10) and targets (n,), training, then test.

    >>> x, y, xt, yt = diabetes()
    >>> x.shape, y.shape, xt.shape
    ((354, 10), (354,), (88, 10))
    """
    x, y = scikit_learn("diabetes").load_diabetes(return_X_y=True)
    order = np.random.default_rng([count("seed", seed, at_least=0), 4]).permutation(len(y))
    test, train = np.sort(order[: len(y) // 5]), np.sort(order[len(y) // 5 :])

    def part(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.asarray((values[rows] - values[train].mean(0)) / values[train].std(0), np.float32)

    return part(x, train), part(y, train), part(x, test), part(y, test)
