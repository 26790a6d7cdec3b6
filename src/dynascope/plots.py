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

    Bars are three standard errors over trials; a single trial has none.

    >>> from dynascope import SpringBlock
    >>> run = SpringBlock(noise=[0.0, 0.01]).simulate(duration=5.0, trials=8)
    >>> plot_load_curves(run, new_figure()[1][0, 0], along="noise").get_xlabel()
    'layer'
    """
    _require(run, "load", ("trial", "time", "layer"), at_most=0 if along is None else 1)
    if along is not None and along not in run.coords and along not in run.dims:
        raise ValueError(f"along must be a dimension or a parameter of the record, got {along!r}")
    last = run["load"].isel(time=-1)
    if along is not None and along not in last.dims:
        last = last.swap_dims({last[along].dims[0]: along})  # a parameter that varies along grid_0
    mean = last.mean("trial")
    trials = last.sizes["trial"]
    error: Any = 3 * last.std("trial", ddof=1) / np.sqrt(trials) if trials > 1 else None
    for index, value in enumerate([None] if along is None else last[along].values):
        chosen = {} if along is None else {along: index}
        name = label if along is None else f"{along.replace('_', ' ')} {_short(value)}"
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
    _require(run, "load", ("trial", "time", "layer"), at_most=0)
    chosen = run.isel(trial=trial)
    layers = chosen.sizes["layer"]
    shades = _cividis(np.linspace(0.05, 0.85, layers))
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


def _cividis(values: Any) -> Any:
    from matplotlib import colormaps  # noqa: PLC0415 (only where colours are needed)

    return colormaps["cividis"](values)


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
    _require(run, "load", ("trial", "time", "layer", x, y), at_most=2)
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
    _label_cells(axes.set_xticks, last[x].values)
    _label_cells(axes.set_yticks, last[y].values)
    axes.set_xlabel(axis_label(last[x]))
    axes.set_ylabel(axis_label(last[y]))
    return axes


def _label_cells(set_ticks: Any, values: Sequence[Any] | np.ndarray) -> None:
    set_ticks(range(len(values)), [_short(value) for value in values])


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)


def _require(run: xr.Dataset, name: str, dims: Sequence[str], *, at_most: int) -> None:
    """Refuse a record that lacks what a picture needs, or has more grid dimensions than it can show."""
    if name not in run or not set(dims) <= set(run[name].dims):
        raise ValueError(
            f"the record must hold {name!r} over {', '.join(dims)} for this picture, it holds {dict(run.sizes)}"
        )
    extra = [dim for dim in run[name].dims if dim not in ("trial", "time", "layer")]
    if len(extra) > at_most:
        raise ValueError(
            f"this picture shows at most {at_most} grid dimensions, the record has {extra}; choose with .isel(…)"
        )


def plot_run(run: xr.Dataset) -> Figure:
    """Choose the picture that suits a record: a phase diagram over a two-dimensional grid, else curves.

    >>> from dynascope import SpringBlock
    >>> len(plot_run(SpringBlock().simulate(duration=5.0, trials=2)).axes)
    2
    """
    if "load" not in run and "loss" in run:
        return _loss_figure(run)
    _require(run, "load", ("trial", "time", "layer"), at_most=2)
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


def _loss_figure(run: xr.Dataset) -> Figure:
    """Mean loss over time, one line for each point of the grid (the first seven)."""
    mean = run["loss"].mean("trial")
    varied = [dim for dim in mean.dims if dim != "time"]
    points = mean.stack(point=varied) if varied else mean.expand_dims("point")
    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    for index in range(min(points.sizes["point"], len(PALETTE))):
        one = points.isel(point=index)
        names = [f"{n} {_short(float(c))}" for n, c in one.coords.items() if c.ndim == 0 and n != "point"]
        ax.plot(run["time"], one, color=PALETTE[index], label=", ".join(names) or None)
    ax.set_yscale("log")
    ax.set_xlabel(axis_label(run["time"]))
    ax.set_ylabel(axis_label(run["loss"]))
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize="small")
    return figure
