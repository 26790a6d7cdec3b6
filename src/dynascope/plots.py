"""Pictures of records. Each function takes a record and axes and returns the axes.

Figures are made without pyplot, so that a user's matplotlib state and backend stay untouched. Colours come
from the Okabe-Ito palette and from cividis, readable for colour-blind eyes and in grey.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.records import write_whole

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def new_figure(columns: int = 1, rows: int = 1, *, width: float = 4.2, height: float = 3.4) -> tuple[Figure, Any]:
    """Make a figure and an array of axes, shaped (rows, columns).

    >>> figure, axes = new_figure(columns=2)
    >>> axes.shape
    (1, 2)
    """
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a picture whole or not at all; the suffix (.png or .svg) decides the format.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(new_figure()[0], Path(folder) / "empty.svg").name
    'empty.svg'
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg"):
        raise ValueError(f"a picture's name must end in .png or .svg, got {path.name!r}")
    return write_whole(path, lambda place: figure.savefig(place, format=kind, dpi=150))


def axis_label(array: xr.DataArray) -> str:
    """Read a label from an array's attributes.

    >>> axis_label(xr.DataArray(0.0, name="time", attrs={"long_name": "time", "units": "model time"}))
    'time (model time)'
    """
    text = str(array.attrs.get("long_name", str(array.name).replace("_", " ")))
    return f"{text} ({array.attrs['units']})" if "units" in array.attrs else text


def plot_load_curves(
    run: xr.Dataset, axes: Axes, *, along: str | None = None, label: str = "", colours: Sequence[str] = PALETTE
) -> Axes:
    """Draw the mean load curve at the last saved time, one for each value along a grid dimension.

    Bars are three standard errors over trials.

    >>> from dynascope import SpringBlock
    >>> run = SpringBlock(noise=[0.0, 0.01]).simulate(duration=5.0, trials=8)
    >>> plot_load_curves(run, new_figure()[1][0, 0], along="noise").get_xlabel()
    'layer'
    """
    last = run["load"].isel(time=-1)
    if along is not None and along not in last.dims:
        last = last.swap_dims({last[along].dims[0]: along})  # a parameter that varies along grid_0
    mean = last.mean("trial")
    error = 3 * last.std("trial") / np.sqrt(last.sizes["trial"])
    for index, value in enumerate([None] if along is None else last[along].values):
        chosen = {} if along is None else {along: index}
        name = label if along is None else f"{along.replace('_', ' ')} {value:g}"
        axes.errorbar(
            mean["layer"], mean.isel(chosen), error.isel(chosen),
            marker="o", markersize=4, color=colours[index % len(colours)], label=name or None,
        )  # fmt: skip
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
    chosen = run.isel(trial=trial)
    layers = chosen.sizes["layer"]
    shades = _cividis(np.linspace(0.05, 0.85, layers))
    for layer in range(layers):
        ends = layer in (0, layers - 1)
        axes.plot(
            chosen["time"], chosen["load"].isel(layer=layer),
            color=shades[layer], linewidth=1.2, label=f"layer {layer}" if ends else None,
        )  # fmt: skip
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
    axes.legend(framealpha=0.8, edgecolor="none", fontsize="small")
    return axes


def _cividis(values: Any) -> Any:
    from matplotlib import colormaps  # noqa: PLC0415 (only where colours are needed)

    return colormaps["cividis"](values)


def plot_phase_diagram(
    run: xr.Dataset, axes: Axes, *, x: str = "noise", y: str = "friction_right", shade: str = "energy"
) -> Axes:
    """Draw one load curve in each cell of a grid, over a shade of the mean energy.

    Noise grows to the left and friction upwards, as in the figures of the source; each cell holds the mean
    load curve at the last time, from layer 0 at its left edge to the last layer at its right edge.

    >>> from dynascope import SpringBlock, grid
    >>> chains = SpringBlock(**grid(friction_right=[0.0, 0.1], noise=[0.0, 0.01]))
    >>> plot_phase_diagram(chains.simulate(duration=5.0, trials=4), new_figure()[1][0, 0]).get_xlabel()
    'noise ε (force·√time)'
    """
    last = run.isel(time=-1).mean("trial").transpose(y, x, ...)
    colour, load = last[shade], last["load"]
    picture = axes.imshow(colour.values[:, ::-1], origin="lower", cmap="cividis", aspect="auto", alpha=0.85)
    axes.figure.colorbar(picture, ax=axes, label=axis_label(run[shade]))
    across = np.linspace(-0.38, 0.38, load.sizes["layer"])
    low, high = float(load.min()), float(load.max())
    for row in range(load.sizes[y]):
        for column in range(load.sizes[x]):
            heights = (load.isel({y: row, x: load.sizes[x] - 1 - column}).values - low) / (high - low) * 0.76 - 0.38
            axes.plot(column + across, row + heights, color="white", linewidth=3.2)
            axes.plot(column + across, row + heights, color="#C1272D", linewidth=1.6, marker=".", markersize=3)
    _label_cells(axes.set_xticks, last[x].values[::-1])
    _label_cells(axes.set_yticks, last[y].values)
    axes.set_xlabel(axis_label(last[x]))
    axes.set_ylabel(axis_label(last[y]))
    return axes


def _label_cells(set_ticks: Any, values: Sequence[float] | np.ndarray) -> None:
    set_ticks(range(len(values)), [f"{value:.3g}" for value in values])


def plot_run(run: xr.Dataset) -> Figure:
    """Choose the picture that suits a record: a phase diagram over a two-dimensional grid, else curves.

    >>> from dynascope import SpringBlock
    >>> len(plot_run(SpringBlock().simulate(duration=5.0, trials=2)).axes)
    2
    """
    if "load" not in run or "layer" not in run.dims:
        raise ValueError("there is no picture for this record: it holds no load curves")
    varied = [str(dim) for dim in run["energy"].dims if dim not in ("trial", "time")]
    if len(varied) == 2:
        y, x = ("friction_right", "noise") if set(varied) == {"friction_right", "noise"} else varied
        figure, axes = new_figure(width=9.0, height=6.0)
        plot_phase_diagram(run, axes[0, 0], x=x, y=y)
        return figure
    if len(varied) > 2:
        raise ValueError(
            f"a picture needs at most two grid dimensions, this record has {varied}; choose with .isel(...)"
        )
    parameters = [str(name) for name, values in run.coords.items() if varied and values.dims == (varied[0],)]
    figure, axes = new_figure(columns=1 if varied else 2)
    plot_load_curves(run, axes[0, 0], along=(parameters or varied)[0] if varied else None)
    if not varied:
        plot_trajectories(run, axes[0, 1])
    return figure
