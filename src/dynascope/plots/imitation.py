"""Pictures of networks and their imitation together."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.imitation.summary import averages, best, geometries
from dynascope.plots.elastic import plot_strengths
from dynascope.plots.figures import PALETTE, axis_label, new_figure

_MOST = 6  # classes and logits that are drawn


def plot_imitation(result: xr.Dataset) -> Figure:
    """Networks and imitations class by class; strengths, difference over time, and all differences side by side.

    >>> from dynascope import LocallyElastic, imitate
    >>> run = LocallyElastic(noise=0.01).simulate(duration=20.0, samples=4, trials=6)
    >>> len(plot_imitation(imitate(run, resamples=20)).axes)
    6
    """
    classes = min(result.sizes["class"], _MOST)
    columns = max(3, -(-classes // (1 + (classes > 3))))
    rows = -(-classes // columns)
    figure, axes = new_figure(columns=columns, rows=rows + 1, width=4.4, height=3.5)
    for place, ax in enumerate(axes[:rows].flat):
        if place < classes:
            plot_paths(result, ax, place=place)
        else:
            ax.set_axis_off()
    limits = np.array([ax.get_ylim() for ax in axes[:rows].flat[:classes]])
    for ax in axes[:rows].flat[:classes]:
        ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())
    two = [each for each in geometries(result) if str(each["geometry"].values) == "logits"]
    shown = two[0] if two else best(result)
    plot_strengths(shown, axes[rows, 0])
    late = shown.isel(time=slice(-shown["intra"].dropna("time").sizes["time"] * 4 // 5, None))
    ends = [late[f"{name}{end}"].values for name in ("intra", "inter") for end in ("", "_low", "_high")]
    height = float(np.nanmax(np.abs(ends)))
    if height > 0:
        axes[rows, 0].set_ylim(-1.2 * height, 1.2 * height)  # the first intervals are wide
    axes[rows, 0].set_xlabel(_time_label(result))
    axes[rows, 0].set_title(f"Estimated strengths, {shown['geometry'].values} model", fontsize="medium")
    plot_differences(result, axes[rows, 1])
    plot_judgement(result, axes[rows, 2])
    for ax in axes[rows, 3:]:
        ax.set_axis_off()
    return figure


def plot_paths(result: xr.Dataset, axes: Axes, *, place: int) -> Axes:
    """Draw the mean logits of one class: networks with their spread, imitation (L-model and the closest), forecast.

    >>> from dynascope import LocallyElastic, imitate
    >>> run = LocallyElastic(noise=0.01).simulate(duration=20.0, samples=4, trials=6)
    >>> plot_paths(imitate(run, resamples=20), new_figure()[1][0, 0], place=0).get_ylabel()
    'mean logit'
    """
    times, closest, ahead = result["time"].values, best(result), best(result, "forecast_difference")
    drawn = [(closest, "--", 1.6)]
    two = [each for each in geometries(result) if str(each["geometry"].values) == "logits"]
    if two and str(closest["geometry"].values) != "logits":
        drawn.append((two[0], ":", 1.4))
    for feature in range(min(result.sizes["feature"], _MOST)):
        at = {"class": place, "feature": feature}
        colour, mean = PALETTE[feature % len(PALETTE)], result["network_mean"].isel(at)
        spread = result["network_spread"].isel(at)
        axes.fill_between(times, mean - spread, mean + spread, color=colour, alpha=0.13, linewidth=0)
        axes.plot(times, mean, color=colour, linewidth=2.2, alpha=0.55)
        for each, style, width in drawn:
            path = each["imitated_mean"].isel(at | {"equation": 0})
            axes.plot(times, path, style, color=colour, linewidth=width)
        axes.plot(times, ahead["forecast_mean"].isel(at), "-.", color=colour, linewidth=1.0)
        end = (times[-1], float(mean[-1]))
        axes.annotate(f" logit {feature}", end, va="center", fontsize="x-small", color=colour, annotation_clip=False)
    largest = 1.5 * float(np.abs(result["network_mean"]).max())  # a model that runs away is cut off
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -largest), min(high, largest))
    axes.set_xlim(times[0], times[-1] + 0.15 * (times[-1] - times[0]))
    axes.axvline(float(result["reference_time"]), color="black", linewidth=0.6)
    axes.set_xlabel(_time_label(result))
    axes.set_ylabel("mean logit")
    axes.set_title(f"class {place}", fontsize="medium")
    if place == 0:
        _explain(axes, [str(each["geometry"].values) for each, _, _ in drawn], str(ahead["geometry"].values))
    return axes


def _time_label(result: xr.Dataset) -> str:
    return "training step" if result["time"].attrs.get("units") == "updates" else axis_label(result["time"])


def _explain(axes: Axes, names: list[str], ahead: str) -> None:
    axes.plot([], [], color="grey", linewidth=2.2, alpha=0.55, label="networks: mean, spread")
    for name, style in zip(names, ("--", ":"), strict=False):
        axes.plot([], [], style, color="grey", label=f"imitation: {name}")
    axes.plot([], [], "-.", color="grey", linewidth=1.0, label=f"forecast: {ahead}")
    axes.legend(framealpha=0.85, edgecolor="none", fontsize="x-small", loc="upper left")


def plot_differences(result: xr.Dataset, axes: Axes) -> Axes:
    """Draw the held-out difference (plain norm, mean over classes) over time beside noise floor and persistence.

    >>> from dynascope import LocallyElastic, imitate
    >>> run = LocallyElastic(noise=0.01).simulate(duration=20.0, samples=4, trials=6)
    >>> plot_differences(imitate(run, resamples=20), new_figure()[1][0, 0]).get_ylabel()
    'relative difference, plain norm'
    """
    name = "relative_difference" if np.isfinite(result["relative_difference"]).any() else "fitted_difference"
    times = result["time"]
    for colour, each in zip(PALETTE, geometries(result), strict=False):
        label = str(each["geometry"].values)
        axes.plot(times, each[name].sel(norm="plain").mean("class"), color=colour, label=label, linewidth=1.2)
    floor = result["noise_floor"].sel(norm="plain").mean("class")
    axes.fill_between(times, 0, floor, color="black", alpha=0.12, linewidth=0, label="noise floor")
    held = "baseline_difference" if name == "relative_difference" else "fitted_baseline_difference"
    still = result[held].sel(norm="plain", baseline="persistence").mean("class")
    axes.plot(times, still, color="black", linewidth=0.9, linestyle="--", label="persistence")
    axes.set_ylim(0, 2)
    axes.set_xlabel(_time_label(result))
    axes.set_ylabel("relative difference, plain norm")
    what = "Networks not fitted to" if name == "relative_difference" else "The run fitted to"
    axes.set_title(f"{what}: how far off", fontsize="medium")
    axes.legend(frameon=False, fontsize="x-small", ncols=2, loc="upper right")
    return axes


def plot_judgement(result: xr.Dataset, axes: Axes) -> Axes:
    """Draw held-out and forecast differences of every model as bars beside their noise floors.

    >>> from dynascope import LocallyElastic, imitate
    >>> run = LocallyElastic(noise=0.01).simulate(duration=20.0, samples=4, trials=6)
    >>> plot_judgement(imitate(run, resamples=20), new_figure()[1][0, 0]).get_xlabel()
    'relative difference, plain norm'
    """
    shown = {str(each["geometry"].values): each for each in geometries(result)}
    bars = {}
    for place, name in enumerate(result["baseline"].values.tolist()):
        if name not in shown:
            pair = (result[key].isel(baseline=place) for key in ("baseline_difference", "forecast_baseline_difference"))
            bars[name] = tuple(averages(each)[1] for each in pair)
    for name, each in shown.items():
        bars[name] = (averages(each["relative_difference"])[1], averages(each["forecast_difference"])[1])
    heights = np.arange(len(bars))[::-1]
    kinds = (("other networks", "noise_floor"), ("later times (forecast)", "forecast_noise_floor"))
    for which, (label, floor) in enumerate(kinds):
        values = np.nan_to_num([pair[which] for pair in bars.values()])
        axes.barh(heights + 0.2 - 0.4 * which, values, height=0.38, color=PALETTE[which], label=label)
        level = averages(result[floor])[1]
        if np.isfinite(level):
            axes.axvline(level, color=PALETTE[which], linestyle="--", linewidth=1.2, label=f"noise floor, {label}")
    marks = [name + (" (saturated)" if name in shown and bool(shown[name]["saturated"][1]) else "") for name in bars]
    longest = max(max(np.nan_to_num(pair)) for pair in bars.values())
    axes.set_xlim(right=1.6 * longest or 1.0)  # room for the legend
    axes.set_yticks(heights, marks, fontsize="small")
    axes.set_xlabel("relative difference, plain norm")
    axes.set_title("What was not fitted", fontsize="medium")
    axes.legend(framealpha=0.85, edgecolor="none", fontsize="xx-small", loc="lower right")
    return axes
