"""Pictures of forecasts: what was seen, where it goes on, and how sure that is."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.forecasting.curves import Source, read_curves
from dynascope.forecasting.forecasts import quantity_of
from dynascope.plots.figures import PALETTE, new_figure

_MOST = 6  # trials that are drawn
# name -> levels of its ends, colour
_BANDS = {
    "95 %": (0.025, 0.975, "#d3e6f2"),
    "80 %": (0.1, 0.9, "#97c4e0"),
    "50 %": (0.25, 0.75, "#5aa2cd"),
}
_BEGUN = 0.1  # of the past: what came before may be cut off, a fall at the start would flatten the rest
_LINE = 68  # letters of a title


def plot_forecast(result: xr.Dataset, *, later: Source | None = None) -> Figure:
    """Draw a forecast, or those of up to six trials side by side.

    later: the run as it went on, if that is known by now

    >>> from dynascope import forecast
    >>> result = forecast({"step": np.arange(20), "loss": 1 / (1.0 + np.arange(20))}, until=40)
    >>> len(plot_forecast(result).axes)
    1
    """
    quantity = quantity_of(result)
    trials = result.sizes.get("trial", 1)
    drawn = min(trials, _MOST)
    columns = min(drawn, 3)
    wide = {"width": 6.4, "height": 4.0} if drawn == 1 else {}
    figure, axes = new_figure(columns=columns, rows=-(-drawn // columns), **wide)
    happened = [] if later is None else read_curves(later, quantity)
    for place, ax in enumerate(axes.flat):
        if place >= drawn:
            ax.set_axis_off()
            continue
        one = result.isel(trial=place) if "trial" in result.dims else result
        curve = happened[place] if place < len(happened) else None
        plot_bands(one, ax, later=None if curve is None else (curve.step, curve.value), explained=place == 0)
        if trials > 1:
            reason = str(one["refused"].values).partition(":")[0]
            ax.set_title(f"trial {place}" + (f", no forecast: {reason}" if reason else ""), fontsize="medium")
    if trials > drawn:
        figure.supxlabel(f"{drawn} of {trials} trials", fontsize="small")
    return figure


def plot_bands(
    result: xr.Dataset,
    axes: Axes,
    *,
    later: tuple[np.ndarray, np.ndarray] | None = None,
    explained: bool = True,
) -> Axes:
    """Draw one forecast: what was seen, bands that hold 50, 80 and 95 %, their middle, and the value to reach.

    later: steps and values of what happened afterwards. explained: whether there is a legend.

    >>> from dynascope import forecast
    >>> result = forecast({"step": np.arange(20), "loss": 1 / (1.0 + np.arange(20))}, until=40)
    >>> plot_bands(result, new_figure()[1][0, 0]).get_ylabel()
    'loss'
    """
    name = quantity_of(result)
    bands, steps = result[name], result["step"].values
    past, seen = result["seen_step"].values, result["seen"].values
    axes.plot(past, seen, color="black", linewidth=1.0, label="seen", marker="." if len(past) < 3 else None)
    for share, (lower, upper, colour) in _BANDS.items():
        low, high = (bands.sel(quantile=each).values for each in (lower, upper))
        axes.fill_between(steps, low, high, color=colour, linewidth=0, label=share)
    axes.plot(steps, bands.sel(quantile=0.5).values, color=PALETTE[0], linewidth=1.6, label="median")
    ranged = [bands.values.ravel(), seen[past >= past[0] + _BEGUN * (past[-1] - past[0])]]
    if "reach" in result.coords:
        goal = float(result["reach"])
        axes.axhline(goal, color=PALETTE[2], linestyle="--", linewidth=1.0, label=f"to reach: {goal:g}")
        ranged.append(np.array([goal]))
    if later is not None:
        after = later[0] > past[-1]
        axes.plot(later[0][after], later[1][after], color=PALETTE[1], linewidth=1.0, label="what happened")
        ranged.append(later[1][after & (later[0] <= steps[-1])])
    values = np.concatenate(ranged)
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    room = 0.05 * (most - least) or 0.05 * abs(most) or 1.0
    axes.set_ylim(least - room, most + room)
    axes.set_xlim(past[0], steps[-1])
    axes.axvline(past[-1], color="black", linewidth=0.6, linestyle=":")
    axes.set_xlabel("training step")
    axes.set_ylabel(name.replace("_", " "))
    if refused := str(result.attrs.get("refused", "")):
        axes.set_title(textwrap.fill(f"no forecast: {refused}", _LINE), fontsize="small")
    if explained:
        axes.legend(frameon=False, fontsize="x-small")
    return axes
