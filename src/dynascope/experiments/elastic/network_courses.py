"""One training of networks with true labels: what it does, its strengths, stages and imitations; run and picture.

Figures 1, 3, 5, D.1 and D.7 to D.10.
"""

from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dynascope import plots
from dynascope.experiments.elastic.network_drawn import last_updates, read_drawn
from dynascope.experiments.elastic.network_held_out import GEOMETRIES
from dynascope.experiments.elastic.network_imitation import imitations
from dynascope.experiments.elastic.network_training import (
    Training,
    growth_of_each,
    growth_of_mean,
    label_steps,
    pictures,
    read_strengths,
    train,
)
from dynascope.experiments.experiment import Axes, Panels
from dynascope.imitation.drawn import drawn_means, filled
from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.statistics.stages import learning_stages

_WINDOWS = (11, 51, 101, 301)  # of Figure D.1


@dataclass(frozen=True)
class Config(Training):
    """One ensemble with true labels.

    pair: the classes whose difference gives the direction of Figure 1
    window: updates over which Figure 3 differentiates
    """

    pair: tuple[int, int] = (0, 1)
    window: int = 191


def run(config: Config) -> xr.Dataset:
    """Train, then read everything off the recorded logits."""
    data = pictures(config)
    trained = train(config, data, keep_outputs=True, keep_drawn=True)
    record = trained[["class_mean", "loss", "accuracy"]].drop_attrs()
    steps, means = record["step"].values, record["class_mean"].values.astype(float)
    strengths = read_strengths(steps, means)
    begin = float(strengths["reference_time"][0])
    drawn, own = (trained[name].values[:, :, 0] for name in ("drawn_output", "drawn_label"))
    path = filled(drawn_means(drawn, own))
    parts = [record, strengths, growth_of_each(steps, means), growth_of_mean(steps, means), _stages(steps, means)]
    parts.append(imitations(trained, path, begin, strengths, config.seed))
    parts += [figure_1(trained, data[3], config.pair), read_drawn(drawn, own, config.window, config.seed)]
    merged = xr.merge(parts)
    return merged.merge(_windows(path, merged))


def _stages(steps: np.ndarray, means: np.ndarray) -> xr.Dataset:
    """The stages of the mean angle over networks, and `each_angle` (trial, step)."""
    found = learning_stages(steps, means).rename(time="step", length="pattern_length", ok="stages_found")
    each = np.stack([learning_stages(steps, one)["angle"].values for one in means])
    return found.assign(stages_reason=found.attrs["reason"], each_angle=(("trial", "step"), each)).drop_attrs()


def figure_1(trained: xr.Dataset, labels: Int[np.ndarray, " sample"], pair: tuple[int, int]) -> xr.Dataset:
    """Logits along the difference of two class means, and how well such differences part the classes.

    trained: with all outputs and what was drawn. labels: of the probe
    """
    return _projection(trained["output"].values, labels, pair).merge(_separation(trained, labels))


def _projection(
    outputs: Float[np.ndarray, "trial step sample logit"], labels: np.ndarray, pair: tuple[int, int]
) -> xr.Dataset:
    """Samples of one network along (C.24) over time."""
    first = outputs[0].astype(float)
    members = [np.flatnonzero(labels == k) for k in range(first.shape[-1])]
    ends = [first[-1, members[k]].mean(axis=0) for k in pair]
    some, shown = np.concatenate([each[:10] for each in members]), ends[0] - ends[1]
    along = first[:, some] @ (shown / np.linalg.norm(shown))
    return xr.Dataset({"projected": (("step", "sample"), along), "sample_class": ("sample", labels[some])})


def _separation(trained: xr.Dataset, labels: Int[np.ndarray, " sample"]) -> xr.Dataset:
    """How well the difference of two class means parts the classes of each network, (trial, direction, pair).

    Share of samples of two classes in the wrong order, at the end: `misplaced` of the last samples that were drawn,
    `misplaced_unseen` of the probe.
    """
    drawn, own = (trained[name].values[:, :, 0] for name in ("drawn_output", "drawn_label"))
    late = last_updates(drawn.shape[1])
    unseen = trained["output"].isel(step=-1).values
    found = {
        "misplaced": np.stack([_misplaced(*each) for each in zip(drawn[:, late], own[:, late], strict=True)]),
        "misplaced_unseen": np.stack([_misplaced(each, labels) for each in unseen]),
    }
    pairs = [f"{k}–{other}" for k, other in combinations(range(drawn.shape[2]), 2)]
    dims = ("trial", "direction", "pair")
    return xr.Dataset({name: (dims, each) for name, each in found.items()}, {"direction": pairs, "pair": pairs})


def _misplaced(
    logits: Float[np.ndarray, "sample logit"], labels: Int[np.ndarray, " sample"]
) -> Float[np.ndarray, "direction pair"]:
    members = [logits[labels == k].astype(float) for k in range(logits.shape[1])]
    pairs = list(combinations(members, 2))
    shares = []
    for k, other in pairs:
        along = k.mean(axis=0) - other.mean(axis=0)
        lower = [((one @ along)[:, None] < two @ along).mean() for one, two in pairs]
        shares.append([min(share, 1 - share) for share in lower])
    return np.array(shares)


def _windows(path: Float[np.ndarray, "update class logit"], record: xr.Dataset) -> xr.Dataset:
    """Strengths as the source reads them, off the drawn samples' logits at every update, with several windows.

    `trend`: correlation of their α − β with that of the probe.
    """
    updates = np.arange(len(path), dtype=float)
    truth = np.interp(updates, record["step"], record["growth_rate"].mean("trial"))
    found = {
        each: estimate_strengths(updates, path, "isotropic", method="published", window=each)
        for each in _WINDOWS
        if each < len(path)
    }
    trend = [np.corrcoef(each["gap"].values, truth)[0, 1] for each in found.values()]
    return xr.Dataset({"trend": ("window_size", trend)}, coords={"window_size": list(found)})


def draw_projection(record: xr.Dataset, ax: Axes) -> None:
    """Samples of one network over time."""
    for index, name in enumerate(record["sample_class"].values):
        ax.plot(record["step"], record["projected"][:, index], color=plots.PALETTE[name], linewidth=0.5)
    label_steps(ax, "logits of one network along (C.24)")


def _draw_printed(record: xr.Dataset, ax: Axes) -> None:
    for name, colour in zip(record["reading"].values, plots.PALETTE, strict=False):
        if name.endswith("printed"):
            each = record.sel(reading=name)
            ax.plot(record["step"], each["integrated_intra"], color=colour, label=f"A, {name}")
            ax.plot(record["step"], each["integrated_inter"], "--", color=colour, label=f"B, {name}")
    label_steps(ax, "integrated strengths as printed (11)")


def _draw_gap(record: xr.Dataset, ax: Axes) -> None:
    for name, colour in zip(record["reading"].values, plots.PALETTE, strict=False):
        if not name.endswith(("printed", "coded")):
            each = record.sel(reading=name)
            ends = each["integrated_gap_low"], each["integrated_gap_high"]
            ax.plot(record["step"], each["integrated_gap"], color=colour, label=name)
            ax.fill_between(record["step"], *ends, color=colour, alpha=0.2, linewidth=0)
    label_steps(ax, "A − B, with 95 % interval")


def _draw_curves(record: xr.Dataset, ax: Axes, *, ylabel: str, yscale: str = "linear", **curves: str) -> None:
    """Curves with their labels, mean over networks; the first steps are stretched."""
    for colour, (name, label) in zip(plots.PALETTE, curves.items(), strict=False):
        ax.plot(record["step"], record[name].mean(set(record[name].dims) - {"step"}), color=colour, label=label)
    label_steps(ax, ylabel)
    last = float(record["step"][-1])
    ax.set_xscale("symlog", linthresh=last / 100)
    ax.set(xlim=(0, last), yscale=yscale)


def _draw_paths(record: xr.Dataset, ax: Axes) -> None:
    """Draw networks and imitations of one class over training steps."""
    genuine = record["class_mean"].isel({"class": 0}).mean("trial")
    for logit, colour in zip(range(record.sizes["logit"]), plots.PALETTE, strict=False):
        label = f"networks, logit {logit}"
        ax.plot(record["step"], genuine.isel(logit=logit), ".", ms=2, color=colour, label=label)
        for geometry, style, name in (("logits", "-", "L-model"), ("mixture", "--", "mixture (D.20)")):
            shown = record["imitated_mean"].sel(geometry=geometry).isel({"class": 0, "logit": logit})
            ax.plot(record["step"], shown, style, color=colour, linewidth=1, label=None if logit else name)
    label_steps(ax, "mean logits of class 0")


def _draw_differences(record: xr.Dataset, ax: Axes) -> None:
    """Draw how far imitations are from networks that they were not fitted to, over training steps."""
    missed = record["relative_difference"].mean("class")
    for geometry, colour in zip(GEOMETRIES, plots.PALETTE, strict=False):
        plain = missed.sel(geometry=geometry, norm="plain")
        ax.plot(record["step"], plain, color=colour, label=f"{geometry}, all logits")
    along = missed.sel(geometry="logits", norm="H")
    ax.plot(record["step"], along, ":", color=plots.PALETTE[0], label="logits, H-norm")
    floor = record["noise_floor"].sel(norm="plain").mean("class")
    ax.plot(record["step"], floor, color="black", label="noise floor")
    ax.set(yscale="log", ylim=(None, 5.0))  # with room for the legend, which comes last
    label_steps(ax, "relative difference, held out")


PICTURE = Panels(
    draw_projection,
    _draw_printed,
    _draw_gap,
    _draw_paths,
    partial(
        _draw_curves,
        ylabel="strength (per step)",
        yscale="log",
        growth_rate="α − β",
        adjusted_rate="times mean length of logits",
    ),
    partial(_draw_curves, ylabel="angle, loss", angle="angle to the final direction (radians)", loss="validation loss"),
    partial(_draw_curves, ylabel="length of class means", length="mean length of class means"),
    _draw_differences,
    columns=4,
    width=4.0,
    height=3.2,
)
