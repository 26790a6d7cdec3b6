"""Pictures of any quantity over time."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.plots.figures import PALETTE, axis_label, new_figure, short

MANY = 12  # more panels or curves than this cannot be read
HEADLINES = ("amplitude", "diffusion", "output", "gamma", "loss")  # drawn alone where a record holds many quantities


def plot_curves(run: xr.Dataset, axes: Axes, *, name: str) -> Axes:
    """Draw one quantity over time: mean over trials with the range between them, a curve along its other dimension.

    >>> run = xr.Dataset({"loss": (("trial", "time"), np.ones((2, 5)))}, coords={"time": np.arange(5.0)})
    >>> plot_curves(run, new_figure()[1][0, 0], name="loss").get_ylabel()
    'loss'
    """
    if name not in run or "time" not in run[name].dims:
        raise ValueError(f"the record must hold {name!r} over time for this picture, it holds {dict(run.sizes)}")
    values = run[name] if "trial" in run[name].dims else run[name].expand_dims("trial")
    extra = [str(dim) for dim in values.dims if dim not in ("trial", "time")]
    if len(extra) > 1:
        raise ValueError(f"this picture shows curves along one dimension, the record has {extra}; choose with .isel(…)")
    times = run["time"] if "time" in run.coords else xr.DataArray(np.arange(run.sizes["time"]), name="time")
    for index in range(values.sizes[extra[0]] if extra else 1):
        curve, colour = values.isel({extra[0]: index}) if extra else values, PALETTE[index % len(PALETTE)]
        curve = curve.transpose("trial", "time")
        axes.plot(np.ravel(times), curve.mean("trial"), color=colour, label=_label(curve, extra, index))
        if curve.sizes["trial"] > 1:
            low, high = curve.min("trial"), curve.max("trial")
            axes.fill_between(np.ravel(times), low, high, color=colour, alpha=0.15, linewidth=0)
    if extra:
        axes.legend(frameon=False, fontsize="small")
    axes.set_xlabel(axis_label(times))
    axes.set_ylabel(axis_label(run[name]))
    return axes


def _label(curve: xr.DataArray, extra: list[str], index: int) -> str | None:
    """What varies along the curves: the coordinates that came along, or the place."""
    if not extra:
        return None
    named = {str(key): values for key, values in curve.coords.items() if values.ndim == 0 and key != "trial"}
    shown = {key: short(values.item()) for key, values in named.items()} or {extra[0]: str(index)}
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())


def plot_over_time(run: xr.Dataset) -> Figure:
    """Draw the quantities of a record over time: curves along their last dimension, panels along the others.

    Single samples, and quantities with more than 12 panels or curves, are left out; where there are headline
    quantities (amplitude, diffusion, output, gamma, loss) only these are drawn.

    >>> run = xr.Dataset({"class_mean": (("trial", "time", "class", "feature"), np.zeros((2, 5, 3, 2)))})
    >>> [ax.get_title() for ax in plot_over_time(run).axes]
    ['class 0', 'class 1', 'class 2']
    """
    panels: list[tuple[str, str, xr.Dataset]] = []
    wanted = [name for name in HEADLINES if name in run] or [str(name) for name in run.data_vars]
    for name in wanted:
        values = run[name]
        if "time" not in values.dims or "sample" in values.dims or values.dtype.kind not in "iuf":
            continue
        across = [str(dim) for dim in values.dims if dim not in ("trial", "time")][:-1]
        sizes = [values.sizes[dim] for dim in values.dims if dim not in ("trial", "time")]
        if int(np.prod(sizes[:-1])) > MANY or max(sizes, default=1) > MANY:
            continue
        for place in np.ndindex(*(values.sizes[dim] for dim in across)):
            chosen = run[[name]].isel(dict(zip(across, place, strict=True)))
            title = ", ".join(
                f"{dim.replace('_', ' ')} {short(run[dim].values[i]) if dim in run.coords else i}"
                for dim, i in zip(across, place, strict=True)
            )
            panels.append((name, title, chosen.drop_vars(across, errors="ignore")))
    if not panels:
        raise ValueError(f"the record must hold a quantity over time for this picture, it holds {dict(run.sizes)}")
    columns = min(len(panels), 3)
    figure, axes = new_figure(columns=columns, rows=-(-len(panels) // columns))
    for ax, (name, title, chosen) in zip(axes.ravel(), panels, strict=False):
        plot_curves(chosen, ax, name=name)
        ax.set_title(title, fontsize="medium")
    for ax in axes.ravel()[len(panels) :]:
        ax.remove()
    return figure
