"""Random cases side by side: the numbers of each as a row of a record."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from dynascope.checks import ArrayLike


def by_row(dim: str, rows: Sequence[Mapping[str, ArrayLike]]) -> xr.Dataset:
    """Each quantity over the rows.

    >>> by_row("case", [{"error": 0.5}, {"error": 0.25}])["error"].values.tolist()
    [0.5, 0.25]
    """
    return xr.Dataset({name: (dim, np.array([row[name] for row in rows], float)) for name in rows[0]})
