"""Curves that come to an end: an exponential, and the Morgan–Mercer–Flodin curve a + b/(1 + (t/c)^d)."""

import numpy as np

from dynascope.forecasting.candidates.shapes import Shapes, product

EXPONENTIAL = Shapes("exponential", np.geomspace(0.03, 5.0, 24)[:, None], lambda x, c: np.exp(-x / c))
MMF = Shapes(
    "MMF",
    product(np.geomspace(0.05, 2.0, 10), np.geomspace(1.2, 8.0, 6)),
    lambda x, c, d: 1 / (1 + (x / c) ** d),
)
