"""Pictures of how forecasts did."""

import numpy as np
import xarray as xr

from dynascope.experiments.experiment import Axes
from dynascope.experiments.forecasts.judged import read

_NAMED = {"forecast": ("black", 2.5), "last value": ("tab:blue", 1.2), "median of fits": ("tab:orange", 1.2)}


def errors(record: xr.Dataset, ax: Axes, *, title: str = "") -> None:
    """Median error of the end over the share seen, of the forecast and of each candidate alone."""
    middle = read(record)["error"].median("curve")
    others = "each other candidate"
    for name in reversed(middle["by"].values.tolist()):
        colour, width = _NAMED.get(name, ("0.75", 0.8))
        label = name if name in _NAMED else others
        ax.plot(record["share"], middle.sel(by=name), marker="o", color=colour, linewidth=width, label=label)
        others = "_" if name not in _NAMED else others  # one entry stands for all of them
    ax.set_xlabel("share of the run that was seen")
    ax.set_ylabel("median error of the end")
    ax.set_yscale("log")
    ax.set_title(title)


def coverage(record: xr.Dataset, ax: Axes) -> None:
    """Share of ends inside the bands."""
    inside = read(record)["inside"].mean("curve")
    for band in inside["band"].values:
        (line,) = ax.plot(record["share"], inside.sel(band=band), marker="o", label=f"band of {band:.0%}")
        ax.axhline(float(band), color=line.get_color(), linestyle=":")
    ax.set_xlabel("share of the run that was seen")
    ax.set_ylabel("ends inside")
    ax.set_ylim(0, 1.02)


def weights(record: xr.Dataset, ax: Axes) -> None:
    """Mean weight of each candidate."""
    weight = record["weight"].mean("curve")
    bottom = np.zeros(record.sizes["share"])
    places = np.arange(record.sizes["share"])
    for number, name in enumerate(weight["candidate"].values):
        height = weight.sel(candidate=name).values
        ax.bar(places, height, bottom=bottom, color=f"C{number % 10}", hatch=["", "//"][number // 10], label=str(name))
        bottom = bottom + height
    ax.set_xticks(places, [f"{each:.0%}" for each in record["share"].values])
    ax.set_xlabel("share of the run that was seen")
    ax.set_ylabel("weight")
    ax.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True)
