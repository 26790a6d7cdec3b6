"""Pictures of the spring-block chain."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.plots.figures import PALETTE, axis_label, cividis, new_figure, require_variable, short
from dynascope.statistics.errors import over_trials


def plot_load_curves(
    run: xr.Dataset, axes: Axes, *, along: str | None = None, label: str = "", colours: Sequence[str] = PALETTE
) -> Axes:
    """Draw the mean load curve at the last saved time, one for each value along a grid dimension.

    Bars are three standard errors over trials; a single trial has none.

    >>> from dynascope import SpringBlock
    >>> run = SpringBlock(noise=[0.0, 0.01]).simulate(duration=5.0, trials=8)
    >>> plot_load_curves(run, new_figure()[1][0, 0], along="noise").get_xlabel()
    'layer'
    """
    require_variable(run, "load", ("trial", "time", "layer"), at_most=0 if along is None else 1)
    if along is not None and along not in run.coords and along not in run.dims:
        raise ValueError(f"along must be a dimension or a parameter of the record, got {along!r}")
    last = run["load"].isel(time=-1)
    if along is not None and along not in last.dims:
        last = last.swap_dims({last[along].dims[0]: along})  # a parameter that varies along grid_0
    mean = last.mean("trial")
    error = mean.copy(data=3 * over_trials(last).error) if last.sizes["trial"] > 1 else None
    for index, value in enumerate([None] if along is None else last[along].values):
        chosen = {} if along is None else {along: index}
        name = label if along is None else f"{along.replace('_', ' ')} {short(value)}"
        axes.errorbar(
            mean["layer"],
            mean.isel(chosen),
            error if error is None else error.isel(chosen),
            marker="o",
            markersize=4,
            color=colours[index % len(colours)],
            label=name or None,
        )
    axes.set_xlabel("layer")
    axes.set_ylabel(axis_label(run["load"]))
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize="small")
    return axes


def plot_trajectories(run: xr.Dataset, axes: Axes, *, trial: int = 0) -> Axes:
    """Draw the load of every layer over time in one trial, and the force on the last block (dashed).

    >>> from dynascope import SpringBlock
    >>> run = SpringBlock().simulate(duration=5.0, trials=2)
    >>> plot_trajectories(run, new_figure()[1][0, 0]).get_xlabel()
    'time (model time)'
    """
    require_variable(run, "load", ("trial", "time", "layer"), at_most=0)
    chosen = run.isel(trial=trial)
    layers = chosen.sizes["layer"]
    shades = cividis(np.linspace(0.05, 0.85, layers))
    for layer in range(layers):
        ends = layer in (0, layers - 1)
        axes.plot(
            chosen["time"],
            chosen["load"].isel(layer=layer),
            color=shades[layer],
            linewidth=1.2,
            label=f"layer {layer}" if ends else None,
        )
    axes.plot(
        chosen["time"],
        chosen["force"],
        color=PALETTE[1],
        linestyle="--",
        linewidth=1.2,
        label="force on last block",
    )
    axes.set_xlabel(axis_label(run["time"]))
    axes.set_ylabel(axis_label(run["load"]))
    axes.legend(frameon=False, fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return axes


def plot_phase_diagram(
    run: xr.Dataset, axes: Axes, *, x: str = "noise", y: str = "friction_right", shade: str = "energy"
) -> Axes:
    """Draw one load curve in each cell of a grid, over a shade of the mean energy.

    Noise grows to the left, as in the figures of the source, everything else to the right and upwards; each cell
    holds the mean load curve at the last time, from layer 0 at its left edge to the last layer at its right edge.

    >>> from dynascope import SpringBlock, grid
    >>> chains = SpringBlock(**grid(friction_right=[0.0, 0.1], noise=[0.0, 0.01]))
    >>> plot_phase_diagram(chains.simulate(duration=5.0, trials=4), new_figure()[1][0, 0]).get_xlabel()
    'noise ε (force·√time)'
    """
    require_variable(run, "load", ("trial", "time", "layer", x, y), at_most=2)
    last = run[["load", shade]].isel(time=-1).mean("trial").transpose(y, x, ...)
    if x == "noise":
        last = last.isel({x: slice(None, None, -1)})
    colour, load = last[shade], last["load"]
    picture = axes.imshow(colour.values, origin="lower", cmap="cividis", aspect="auto", alpha=0.85)
    axes.figure.colorbar(picture, ax=axes, label=axis_label(run[shade]))
    across = np.linspace(-0.38, 0.38, load.sizes["layer"])
    low = float(load.min())
    height = float(load.max()) - low or 1.0
    for row in range(load.sizes[y]):
        for column in range(load.sizes[x]):
            heights = (load.isel({y: row, x: column}).values - low) / height * 0.76 - 0.38
            axes.plot(column + across, row + heights, color="white", linewidth=3.2)
            axes.plot(column + across, row + heights, color="#C1272D", linewidth=1.6, marker=".", markersize=3)
    label_cells(axes.set_xticks, last[x].values)
    label_cells(axes.set_yticks, last[y].values)
    axes.set_xlabel(axis_label(last[x]))
    axes.set_ylabel(axis_label(last[y]))
    return axes


def label_cells(set_ticks: Callable[..., object], values: Sequence[object] | np.ndarray) -> None:
    """Write each value at the middle of its cell.

    >>> label_cells(new_figure()[1][0, 0].set_xticks, [0.1, 0.2])
    """
    set_ticks(range(len(values)), [short(value) for value in values])


def plot_chains(run: xr.Dataset) -> Figure:
    """Draw a phase diagram over a two-dimensional grid, else load curves and, of one chain, trajectories.

    >>> from dynascope import SpringBlock
    >>> len(plot_chains(SpringBlock().simulate(duration=5.0, trials=2)).axes)
    2
    """
    require_variable(run, "load", ("trial", "time", "layer"), at_most=2)
    varied = [str(dim) for dim in run["load"].dims if dim not in ("trial", "time", "layer")]
    if len(varied) == 2:
        y, x = ("friction_right", "noise") if set(varied) == {"friction_right", "noise"} else varied
        figure, axes = new_figure(width=9.0, height=6.0)
        plot_phase_diagram(run, axes[0, 0], x=x, y=y)
        return figure
    parameters = [str(name) for name, values in run.coords.items() if varied and values.dims == (varied[0],)]
    figure, axes = new_figure(columns=1 if varied else 2)
    plot_load_curves(run, axes[0, 0], along=(parameters or varied)[0] if varied else None)
    if not varied:
        plot_trajectories(run, axes[0, 1])
    return figure
