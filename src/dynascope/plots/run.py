"""The picture that suits a record, whatever it holds."""

import xarray as xr
from matplotlib.figure import Figure

from dynascope.plots.elastic import plot_points, plot_strengths
from dynascope.plots.figures import new_figure
from dynascope.plots.imitation import plot_imitation
from dynascope.plots.networks import plot_fit
from dynascope.plots.over_time import plot_over_time
from dynascope.plots.spring_block import plot_chains


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
