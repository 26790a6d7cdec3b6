"""Pictures of a run that was watched: load curves over time, collapse, spectrum, elasticity."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.plots.figures import PALETTE, axis_label, new_figure, shades

_CURVES = 8
# variable -> name beside its line
_SHORT = {
    "nc1": "NC1",
    "nc2_norm": "NC2 lengths",
    "nc2_angle": "NC2 angles",
    "nc3": "NC3",
    "nc4": "NC4",
    "probe_loss": "probe",
    "probe_accuracy": "probe",
    "dimension_intensity": "significant",
    "dimension_quality": "useful",
    "dimension_utilization": "used",
    "minimum_feature_distance": "κ",
}
_LINE = 0.058  # height of a line of text, as a share of a picture's height
_EARLY = 0.2  # steps whose median is below this share of the last one are drawn on a logarithmic axis


def plot_watched(record: xr.Dataset) -> Figure:
    """Draw every picture for which the record holds numbers, two in a row.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> len(plot_watched(run).axes)
    2
    """
    pictures: list[tuple[str, Callable[[xr.Dataset, Axes], Axes]]] = [
        ("loads", plot_loads),
        ("nc1", plot_collapse),
        ("probe_loss", plot_training),
        ("probe_accuracy", plot_accuracy),
        ("minimum_feature_distance", plot_dimensions),
        ("intensity", plot_spectrum),
        ("elasticity", plot_elasticity),
    ]
    drawn = [draw for name, draw in pictures if name in record and np.isfinite(record[name].values).any()]
    if not drawn:
        raise ValueError("the record must hold a finished measurement to be drawn")
    rows = (len(drawn) + 1) // 2
    figure, axes = new_figure(columns=2, rows=rows, width=5.6, height=3.8)
    for draw, place in zip(drawn, axes.flat, strict=False):
        draw(record, place)
    for place in axes.flat[len(drawn) :]:
        place.set_axis_off()
    return figure


def _name_lines(axes: Axes, *, x: float = 1.02) -> None:
    """Write each line's name beside its end, in its colour; names that would cover each other are moved apart."""
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    named = []
    for line in axes.get_lines():
        points = np.column_stack([np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)])
        places = to_axes.transform(points[np.isfinite(points).all(axis=1)])
        places = places[np.isfinite(places).all(axis=1)]
        if len(places):
            named.append((float(np.clip(places[-1, 1], 0, 1)), line))
    named.sort(key=lambda each: each[0])
    for y, (_, line) in zip(_moved_apart([end for end, _ in named]), named, strict=True):
        outside = x > 1
        axes.text(
            x,
            y,
            str(line.get_label()),
            transform=axes.transAxes,
            color=line.get_color(),
            fontsize="x-small",
            ha="left" if outside else "right",
            va="center" if outside else "bottom",
        )


def _moved_apart(ends: list[float]) -> list[float]:
    """Heights at least a line of text apart, near the given ones, which increase."""
    places = list(ends)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + _LINE)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], places[i + 1] - _LINE if i + 1 < len(places) else 1.0)
    return places


def plot_loads(record: xr.Dataset, axes: Axes) -> Axes:
    """Draw load curves at up to eight moments, dark early, light late.

    >>> run = xr.Dataset({"loads": (("step", "layer"), [[2.0, 1.0]])}, coords={"step": [0], "layer": ["input", "fc"]})
    >>> plot_loads(run, new_figure()[1][0, 0]).get_xlabel()
    'layer'
    """
    places = np.unique(np.linspace(0, record.sizes["step"] - 1, _CURVES).round().astype(int))
    for place, shade in zip(places, shades(len(places)), strict=True):
        step = int(record["step"][place])
        axes.plot(record["loads"].values[place], "o-", color=shade, markersize=3.5, label=f"step {step}")
    names = [str(name) for name in record["layer"].values]
    turned = max(map(len, names)) * len(names) > 40
    axes.set_xticks(range(len(names)), names, rotation=45 if turned else 0, ha="right" if turned else "center")
    axes.tick_params(axis="x", labelsize="x-small")
    axes.set_xlabel("layer")
    axes.set_ylabel(axis_label(record["loads"]))
    axes.set_title("Which layers do the work", fontsize="medium")
    _name_lines(axes)
    return axes


def _over_steps(record: xr.Dataset, axes: Axes, names: Sequence[str], *, log: bool) -> Axes:
    for colour, name in zip(PALETTE, [name for name in names if name in record], strict=False):
        known = record[name].dropna("step")
        if known.size:
            axes.plot(known["step"], known, ".-", color=colour, label=_SHORT.get(name, name.replace("_", " ")))
    steps = record["step"].values
    if np.median(steps) < _EARLY * steps.max():
        axes.set_xscale("symlog", linthresh=1)
    if log and any(np.any(np.asarray(line.get_ydata()) > 0) for line in axes.get_lines()):
        axes.set_yscale("log")
    axes.set_xlabel("training step")
    _name_lines(axes)
    return axes


def plot_collapse(record: xr.Dataset, axes: Axes) -> Axes:
    """Draw the signs of neural collapse over training.

    >>> run = xr.Dataset({"nc1": ("step", [1.0, 0.5])}, coords={"step": [0, 1]})
    >>> plot_collapse(run, new_figure()[1][0, 0]).get_ylabel()
    'sign of collapse (0: complete)'
    """
    _over_steps(record, axes, ("nc1", "nc2_norm", "nc2_angle", "nc3", "nc4"), log=True)
    axes.set_ylabel("sign of collapse (0: complete)")
    axes.set_title("Whether classes collapse", fontsize="medium")
    return axes


def plot_training(record: xr.Dataset, axes: Axes) -> Axes:
    """Draw the loss on the probe, and the numbers that the training loop gave.

    >>> run = xr.Dataset({"probe_loss": ("step", [1.0, 0.5])}, coords={"step": [0, 1]})
    >>> plot_training(run, new_figure()[1][0, 0]).get_xlabel()
    'training step'
    """
    _over_steps(record, axes, ("probe_loss", *_given(record, accuracy=False)), log=True)
    axes.set_ylabel("loss")
    axes.set_title("How training goes", fontsize="medium")
    return axes


def _given(record: xr.Dataset, *, accuracy: bool) -> list[str]:
    names = sorted(str(name) for name in record.data_vars if str(name).startswith("train_"))
    return [name for name in names if ("acc" in name) is accuracy]


def plot_accuracy(record: xr.Dataset, axes: Axes) -> Axes:
    """Draw the accuracy on the probe, and the one that the training loop gave.

    >>> run = xr.Dataset({"probe_accuracy": ("step", [0.5, 1.0])}, coords={"step": [0, 1]})
    >>> plot_accuracy(run, new_figure()[1][0, 0]).get_yscale()
    'linear'
    """
    axes.set_ylim(0, 1.02)
    _over_steps(record, axes, ("probe_accuracy", *_given(record, accuracy=True)), log=False)
    axes.set_ylabel("accuracy")
    axes.set_title("How often it is right", fontsize="medium")
    return axes


def plot_dimensions(record: xr.Dataset, axes: Axes) -> Axes:
    """Draw the numbers of significant, useful and used features, and the distance from the fewest.

    >>> run = xr.Dataset({"minimum_feature_distance": ("step", [0.5, 0.2])}, coords={"step": [0, 1]})
    >>> plot_dimensions(run, new_figure()[1][0, 0]).get_xlabel()
    'training step'
    """
    names = ("dimension_intensity", "dimension_quality", "dimension_utilization", "minimum_feature_distance")
    _over_steps(record, axes, names, log=True)
    axes.set_ylabel("number of features, distance κ")
    axes.set_title("How many features there are", fontsize="medium")
    return axes


def plot_spectrum(record: xr.Dataset, axes: Axes) -> Axes:
    """Draw the newest intensities, and cumulative quality and utilization, feature by feature.

    >>> values = (("step", "feature"), [[2.0, 1.0]])
    >>> run = xr.Dataset({"intensity": values, "quality": values, "utilization": values}, coords={"step": [0]})
    >>> plot_spectrum(run, new_figure()[1][0, 0]).get_xlabel()
    'feature, strongest first'
    """
    known = record[["intensity", "quality", "utilization"]].dropna("step", how="all").isel(step=-1)
    ranks = np.arange(1, known.sizes["feature"] + 1)
    axes.semilogy(ranks, known["intensity"], "o-", color=PALETTE[0], markersize=3.5)
    axes.set_xlabel("feature, strongest first")
    axes.set_ylabel("intensity ρ", color=PALETTE[0])
    share = axes.twinx()
    for name, colour in (("quality", PALETTE[1]), ("utilization", PALETTE[2])):
        share.plot(ranks, np.cumsum(known[name]), "--", color=colour, label=name)
    share.set_ylim(0, 1.1)
    share.set_ylabel("cumulative share")
    _name_lines(share, x=0.98)
    axes.set_title(f"Features of the last layer, step {int(known['step'])}", fontsize="medium")
    return axes


def plot_elasticity(record: xr.Dataset, axes: Axes) -> Axes:
    """Draw the newest matrix of how a step on one class moves each class.

    >>> run = xr.Dataset({"elasticity": (("step", "class", "source"), np.ones((1, 2, 2)))}, coords={"step": [0]})
    >>> plot_elasticity(run, new_figure()[1][0, 0]).get_xlabel()
    'class stepped on'
    """
    found = record["elasticity"].dropna("step", how="all").isel(step=-1)
    picture = axes.imshow(found.values, origin="upper", cmap="cividis", vmin=0)
    axes.figure.colorbar(picture, ax=axes, label=axis_label(record["elasticity"]))
    if len(found) <= 20:
        names = [str(each) for each in found["class"].values] if "class" in found.coords else None
        axes.set_xticks(range(len(found)), names)
        axes.set_yticks(range(len(found)), names)
    axes.set_xlabel("class stepped on")
    axes.set_ylabel("class that moves")
    axes.set_title(f"How classes move each other, step {int(found['step'])}", fontsize="medium")
    return axes
