"""Pictures of locally elastic dynamics."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.axes3d import Axes3D

from dynascope.measure.hyperplanes import separating_direction
from dynascope.models.elastic.geometry import margin_directions
from dynascope.plots.figures import PALETTE, axis_label, short
from dynascope.plots.over_time import plot_over_time


def plot_projection(run: xr.Dataset, axes: Axes, *, direction: Any = None, trial: int = 0) -> Axes:
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


def plot_triangles(means: xr.DataArray, axes: Axes3D) -> ScalarMappable:
    """Draw unit vectors along three class means, joined, coloured by time; the frame of the margin directions dashed.

    means: (time, class, feature) with three classes and features. Returns the colours, for a colour bar of
    log₁₀(1 + time). Source: elastic Figure D.10.

    >>> from matplotlib.figure import Figure
    >>> from dynascope import LocallyElastic
    >>> means = LocallyElastic(3, 3).mean_path([0.0, 1.0], np.eye(3))
    >>> path = xr.DataArray(means, {"time": [0.0, 1.0]}, ("time", "class", "feature"))
    >>> plot_triangles(path, Figure().add_subplot(projection="3d")).get_clim()[0]
    0.0
    """
    when = np.log10(1 + means["time"].values)
    colours = ScalarMappable(Normalize(0.0, float(when[-1])), "cividis")
    directions = means.values / np.linalg.norm(means.values, axis=-1, keepdims=True)
    frame = margin_directions(3, 3) / np.linalg.norm(margin_directions(3, 3)[0])
    for each, corners in zip(when, directions, strict=True):
        axes.plot(*np.vstack([corners, corners[:1]]).T, color=colours.to_rgba(each), linewidth=1)
    axes.plot(*np.vstack([frame, frame[:1]]).T, "k--", linewidth=1.5, label="frame of d_k")
    for name, corner in enumerate(directions[-1]):
        axes.text(*(1.15 * corner), f"class {name}", horizontalalignment="center")
    for axis, feature in zip("xyz", range(3), strict=True):
        axes.set(**{f"{axis}label": f"feature {feature}", f"{axis}lim": (-1, 1), f"{axis}ticks": [-1, 0, 1]})
    axes.set_box_aspect(None, zoom=0.85)
    axes.view_init(elev=28, azim=30)  # nearly along (1, 1, 1), which the frame is orthogonal to
    axes.legend(frameon=False, fontsize="small")
    return colours


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
