"""Pictures of load curves measured in networks, and of the chain fitted to them."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from dynascope.plots.figures import axis_label, cividis, require_variable
from dynascope.plots.spring_block import label_cells


def plot_network_phases(record: xr.Dataset, axes: Axes, *, noise: str, y: str = "slope", first_layer: int = 0) -> Axes:
    """Draw the load curves of trained networks in each cell of a grid, over a shade of their test accuracy.

    Solid: training data, dashed: test data, means over trials. The strongest noise is on the left and the strongest
    nonlinearity on top, as in FIG. 1 of the source; `noise` lists the weakest first. Each cell has its own height.

    >>> from dynascope.plots import new_figure
    >>> dims = ("slope", "dropout", "trial", "probe", "layer")
    >>> load = np.random.default_rng(0).random((2, 2, 1, 2, 4))
    >>> coords = {"slope": [0.0, 1.0], "dropout": [0.0, 0.1], "probe": ["train", "test"]}
    >>> record = xr.Dataset({"load": (dims, load), "accuracy": (dims[:-1], load[..., 0])}, coords=coords)
    >>> plot_network_phases(record, new_figure()[1][0, 0], noise="dropout").get_xlabel()
    'dropout'
    """
    require_variable(record, "load", ("trial", "probe", "layer", noise, y), at_most=2)
    mean = record[["load", "accuracy"]].mean("trial").isel({noise: slice(None, None, -1), y: slice(None, None, -1)})
    mean = mean.transpose(y, noise, ...)
    shade = mean["accuracy"].sel(probe="test")
    picture = axes.imshow(shade.values, origin="lower", cmap="cividis", aspect="auto", alpha=0.85)
    axes.figure.colorbar(picture, ax=axes, label="test accuracy")
    load = mean["load"].isel(layer=slice(first_layer, None))
    across = np.linspace(-0.38, 0.38, load.sizes["layer"])
    for row, column in np.ndindex(*shade.shape):
        cell = load.isel({y: row, noise: column})
        low, high = float(cell.min()), float(cell.max())
        for probe, style in (("train", "-"), ("test", "--")):
            heights = (cell.sel(probe=probe).values - low) / (high - low or 1.0) * 0.76 - 0.38
            axes.plot(column + across, row + heights, style, color="white", linewidth=2.6)
            axes.plot(column + across, row + heights, style, color="#C1272D", linewidth=1.4)
    label_cells(axes.set_xticks, mean[noise].values)
    label_cells(axes.set_yticks, mean[y].values)
    axes.set_xlabel(axis_label(record[noise]))
    axes.set_ylabel(axis_label(record[y]))
    return axes


def plot_fit(found: xr.Dataset, axes: Axes) -> Axes:
    """Draw measured loads over time (points), layer by layer, and those of the fitted chain (lines).

    >>> from dynascope import estimate_chain
    >>> from dynascope.plots import new_figure
    >>> plot_fit(estimate_chain(np.tile(1.0 - np.arange(4) / 4, (6, 1))), new_figure()[1][0, 0]).get_ylabel()
    'load'
    """
    require_variable(found, "fitted_load", ("time", "layer"), at_most=0)
    layers = found.sizes["layer"]
    for layer, shade in enumerate(cividis(np.linspace(0.05, 0.85, layers))):
        chosen, name = found.isel(layer=layer), f"layer {layer}" if layer in (0, layers - 1) else None
        axes.plot(found["time"], chosen["load"], ".", markersize=3, color=shade)
        axes.plot(found["time"], chosen["fitted_load"], color=shade, linewidth=1.2, label=name)
    axes.set_xlabel(axis_label(found["time"]))
    axes.set_ylabel(axis_label(found["load"]))
    axes.legend(frameon=False, fontsize="small")
    return axes
