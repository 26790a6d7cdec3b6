"""What the pictures of the family share: curves of modes, and points with their errors."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.checks import ArrayLike
from dynascope.experiments.experiment import Axes
from dynascope.statistics.errors import Estimate


def each_mode(record: xr.Dataset) -> Iterator[tuple[xr.Dataset, str, str]]:
    """Every mode of a record, with its colour and a label that says its singular value.

    >>> record = xr.Dataset(coords={"singular_value": ("mode", [1.0, 0.7])})
    >>> [label for _, _, label in each_mode(record)]
    ['s = 1', 's = 0.7']
    """
    for index, colour in zip(range(record.sizes["mode"]), plots.PALETTE, strict=False):
        mode = record.isel(mode=index)
        yield mode, colour, f"s = {float(mode['singular_value']):g}"


def error_bars(ax: Axes, x: ArrayLike, values: Estimate, colour: str, label: str, *, line: str = "none") -> None:
    """Draw points with bars of three standard errors; arrays are flattened.

    >>> error_bars(plots.new_figure()[1][0, 0], [0, 1], Estimate(np.ones(2), np.ones(2)), "black", "x")
    """
    mean, bars = np.ravel(values.mean), 3 * np.ravel(values.error)
    ax.errorbar(np.ravel(x), mean, bars, color=colour, marker="o", markersize=4, linestyle=line, label=label)
