"""The sine features of figures 1.2–1.5: √2 sin(2πkx) on inputs uniform in [0, 1], orthonormal for k = 1, 2, …"""

import numpy as np


def sines(inputs: np.ndarray, count: int) -> np.ndarray:
    """e_k(x) for k = 1 … count, (input, mode).

    >>> sines(np.array([0.25]), 2).round(6).tolist()
    [[1.414214, 0.0]]
    """
    return np.asarray(np.sqrt(2) * np.sin(2 * np.pi * np.outer(inputs, np.arange(1, count + 1))))


def fit_sines(functions: np.ndarray, spectrum: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Coefficients ⟨e_k|f⟩ of the minimum-norm fit with eigenvalues ρ_k, for one or more columns of labels.

    Written through the kernel on purpose: it judges the theory and is quick where modes far outnumber samples.

    >>> one = fit_sines(np.array([[1.0, 1.0]]), np.array([3.0, 1.0]), np.array([[2.0]]))
    >>> one.ravel().round(6).tolist()
    [1.5, 0.5]
    """
    scaled = functions * spectrum
    weights = np.linalg.lstsq(scaled @ functions.T, labels, rcond=1e-13)[0]
    return np.asarray(scaled.T @ weights)
