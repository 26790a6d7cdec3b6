"""Power laws with 3 numbers, a + b·t^−c, and with 4, a + b·(t + d)^−c."""

import numpy as np

from dynascope.forecasting.candidates.shapes import Shapes, product

POWER = Shapes("power law", np.geomspace(0.03, 4.0, 96)[:, None], lambda x, c: x**-c)
SHIFTED_POWER = Shapes(
    "shifted power law",
    product(np.geomspace(0.1, 6.0, 12), np.geomspace(0.03, 3.0, 8)),
    lambda x, c, d: (x + d) ** -c,
)
