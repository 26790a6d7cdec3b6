"""Pictures of records. Each function takes a record and axes and returns the axes."""

import xarray as xr
from matplotlib.figure import Figure

from dynascope.plots.elastic import plot_points, plot_projection, plot_strengths
from dynascope.plots.figures import PALETTE, axis_label, new_figure, save_figure, save_small
from dynascope.plots.imitation import plot_imitation
from dynascope.plots.networks import plot_fit, plot_network_phases
from dynascope.plots.over_time import plot_curves, plot_over_time
from dynascope.plots.spring_block import plot_chains, plot_load_curves, plot_phase_diagram, plot_trajectories

__all__ = [
    "PALETTE",
    "axis_label",
    "new_figure",
    "plot_curves",
    "plot_fit",
    "plot_imitation",
    "plot_load_curves",
    "plot_network_phases",
    "plot_over_time",
    "plot_phase_diagram",
    "plot_projection",
    "plot_run",
    "plot_strengths",
    "plot_trajectories",
    "save_figure",
    "save_small",
]


def plot_run(run: xr.Dataset) -> Figure:
    """Choose the picture that suits a record: load curves, an imitation, strengths, samples, or quantities over time.

    >>> from dynascope import SpringBlock
    >>> len(plot_run(SpringBlock().simulate(duration=5.0, trials=2)).axes)
    2
    """
    if "fitted_load" in run:
        figure, axes = new_figure()
        plot_fit(run, axes[0, 0])
        return figure
    if "load" in run and {"trial", "time"} <= set(run["load"].dims):
        return plot_chains(run)
    if "imitated_mean" in run:
        return plot_imitation(run)
    if "integrated_gap" in run:
        figure, axes = new_figure(columns=2)
        plot_strengths(run, axes[0, 0])
        plot_strengths(run, axes[0, 1], integrated=True)
        return figure
    if "point" in run and set(run["point"].dims) == {"trial", "time", "class", "sample", "feature"}:
        return plot_points(run)
    return plot_over_time(run)
