"""Pictures of how forecasts did."""

import numpy as np
import xarray as xr

from dynascope.experiments.experiment import Axes
from dynascope.experiments.forecasts.judged import read


def errors(record: xr.Dataset, ax: Axes) -> None:
    """Median error of the end over the share seen, of the forecast and of each candidate alone."""
    middle = read(record)["error"].median("curve")
    for name in middle["by"].values:
        ours = name == "forecast"
        style = {"color": "black", "linewidth": 2.5} if ours else {"alpha": 0.7, "linewidth": 1}
        ax.plot(record["share"], middle.sel(by=name), marker="o", label=str(name), **style)
    ax.set_xlabel("share of the run that was seen")
    ax.set_ylabel("median error of the end")
    ax.set_yscale("log")
    ax.legend(fontsize=6)


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
    for name in weight["candidate"].values:
        height = weight.sel(candidate=name).values
        ax.bar(places, height, bottom=bottom, label=str(name))
        bottom = bottom + height
    ax.set_xticks(places, [f"{each:.0%}" for each in record["share"].values])
    ax.set_xlabel("share of the run that was seen")
    ax.set_ylabel("weight")
    ax.legend(fontsize=6)
