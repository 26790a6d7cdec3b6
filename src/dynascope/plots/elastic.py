"""Pictures of locally elastic dynamics."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from dynascope.measure.hyperplanes import separating_direction
from dynascope.plots.figures import PALETTE, axis_label, short
from dynascope.plots.over_time import plot_over_time


def plot_projection(run: xr.Dataset, axes: Axes, *, direction: ArrayLike | None = None, trial: int = 0) -> Axes:
    """Draw every sample of one trial over time, projected on one direction, coloured by class.

    run: a record with point over time, class, sample, feature (and trial). direction: (feature,); by default the one
    along which the classes part most over the last tenth of the times (C.23).

    >>> from dynascope import LocallyElastic
    >>> from dynascope.plots import new_figure
    >>> run = LocallyElastic().simulate(duration=2.0, samples=4, trials=1, save_points=5)
    >>> len(plot_projection(run, new_figure()[1][0, 0]).lines)
    12
    """
    points = run["point"].isel(trial=trial) if "trial" in run["point"].dims else run["point"]
    if set(points.dims) != {"time", "class", "sample", "feature"}:
        raise ValueError(
            f"the record must hold point over time, class, sample, feature for this picture, got {points.dims}; "
            f"choose a grid point with .isel(…)"
        )
    if direction is None:
        late = points.mean("sample").transpose("time", "class", "feature").values[-max(points.sizes["time"] // 10, 1) :]
        direction = separating_direction(late)
    along = points.dot(xr.DataArray(np.asarray(direction, float), dims="feature"), "feature")
    for index in range(points.sizes["class"]):
        colour = PALETTE[index % len(PALETTE)]
        curves = axes.plot(run["time"], along.isel({"class": index}).transpose("time", "sample"), color=colour, lw=0.6)
        curves[0].set_label(f"class {short(points['class'].values[index])}")
    axes.set_xlabel(axis_label(run["time"]))
    axes.set_ylabel("feature along the direction")
    axes.legend(frameon=False, fontsize="small")
    return axes


def plot_strengths(found: xr.Dataset, axes: Axes, *, integrated: bool = False) -> Axes:
    """Draw estimated strengths over time with their intervals: α, β and their difference, or their integrals.

    >>> from dynascope.plots import new_figure
    >>> times = np.arange(5.0)
    >>> found = xr.Dataset({f"{name}": ("time", times) for name in ("intra", "inter", "gap")}, coords={"time": times})
    >>> plot_strengths(found, new_figure()[1][0, 0]).get_ylabel()
    'strength'
    """
    labels = {"intra": "within a class (α)", "inter": "between classes (β)", "gap": "difference (α − β)"}
    for colour, (name, label) in zip(PALETTE, labels.items(), strict=False):
        key = f"integrated_{name}" if integrated else name
        if np.all(np.isnan(found[key])):  # not identified
            continue
        axes.plot(found["time"], found[key], color=colour, label=label)
        if f"{key}_low" in found:
            axes.fill_between(found["time"], found[f"{key}_low"], found[f"{key}_high"], color=colour, alpha=0.2)
    axes.axhline(0.0, color="black", linewidth=0.6)
    axes.set_xlabel(axis_label(found["time"]))
    axes.set_ylabel("integrated strength" if integrated else "strength")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize="small")
    else:
        axes.set_title("not identified", fontsize="medium")
    return axes


def plot_points(run: xr.Dataset) -> Figure:
    """Draw samples along the direction that parts their classes, and the class means behind them.

    >>> from dynascope import LocallyElastic
    >>> len(plot_points(LocallyElastic().simulate(duration=2.0, samples=4, trials=2, save_points=5)).axes)
    4
    """
    figure = plot_over_time(run)
    figure.set_size_inches(figure.get_figwidth(), figure.get_figheight() + 3.4)
    panels = figure.axes
    grid = figure.add_gridspec(2, max(len(panels), 1))
    for index, ax in enumerate(panels):
        ax.set_subplotspec(grid[1, index])
    plot_projection(run, figure.add_subplot(grid[0, :]))
    return figure
