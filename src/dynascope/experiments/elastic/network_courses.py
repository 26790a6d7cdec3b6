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
from dynascope.experiments.elastic.network_imitation import draw_differences, draw_paths, imitations
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
from dynascope.experiments.sources import elastic
from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.statistics.stages import learning_stages

FIGURES = elastic(figure="1, 3, 5, D.1, D.7–D.10")
WINDOW = 191  # of Figure 3
_WINDOWS = (11, 51, 101, WINDOW, 301)  # the others of Figure D.1


@dataclass(frozen=True)
class Config(Training):
    """One ensemble with true labels. `pair`: the classes whose difference gives the direction of Figure 1."""

    pair: tuple[int, int] = (0, 1)
    drawn: bool = True  # also follow the logits of the drawn samples, as the source does (Figure D.1)


def run(config: Config) -> xr.Dataset:
    """Train, then read everything off the recorded logits."""
    data = pictures(config)
    trained = train(config, data, keep_outputs=True, keep_drawn=config.drawn)
    record = trained[["class_mean", "loss", "accuracy"]].drop_attrs()
    steps, means = record["step"].values, record["class_mean"].values.astype(float)
    strengths = read_strengths(steps, means)
    begin = float(strengths["reference_time"][0])
    parts = [record, strengths, growth_of_each(steps, means), growth_of_mean(steps, means), _stages(steps, means)]
    parts.append(imitations(trained, begin, strengths, config.seed))
    parts.append(_projection(trained["output"].values, data[3], config.pair))
    merged = xr.merge(parts)
    return merged.merge(_windows(trained, merged)) if config.drawn else merged


def _stages(steps: np.ndarray, means: np.ndarray) -> xr.Dataset:
    found = learning_stages(steps, means).rename(time="step", length="pattern_length", ok="stages_found")
    return found.assign(stages_reason=found.attrs["reason"]).drop_attrs()


def _projection(
    outputs: Float[np.ndarray, "trial step sample logit"], labels: np.ndarray, pair: tuple[int, int]
) -> xr.Dataset:
    """Samples of one network along (C.24) over time, and how well that direction parts the classes of each network.

    `misplaced`: share of pairs of samples of two classes in the wrong order, worst two classes; for every choice of the
    two class means that give the direction, at the start and at the end.
    """
    outputs = outputs.astype(float)
    members = [np.flatnonzero(labels == k) for k in range(outputs.shape[-1])]
    last = np.stack([outputs[:, -1, each].mean(axis=1) for each in members], axis=1)  # (trial, class, logit)
    pairs = list(combinations(range(len(members)), 2))
    directions = np.stack([last[:, k] - last[:, other] for k, other in pairs])  # (pair, trial, logit)
    along = np.einsum("cmsl,pcl->pmcs", outputs[:, [0, -1]], directions)
    shares = []
    for k, other in pairs:
        lower = (along[..., members[k], None] < along[..., None, members[other]]).mean(axis=(-1, -2))
        shares.append(np.minimum(lower, 1 - lower))
    some = np.concatenate([each[:10] for each in members])
    shown = directions[pairs.index(pair), 0]
    return xr.Dataset(
        {
            "misplaced": (("pair", "moment", "trial"), np.max(shares, axis=0)),
            "projected": (("step", "sample"), outputs[0][:, some] @ (shown / np.linalg.norm(shown))),
            "sample_class": ("sample", labels[some]),
        },
        coords={"moment": ["start", "end"], "pair": [f"{k}–{other}" for k, other in pairs]},
    )


def _windows(trained: xr.Dataset, record: xr.Dataset) -> xr.Dataset:
    """Strengths as the source reads them, off the drawn samples' logits at every update, with several windows.

    `trend`: correlation of their α − β with that of the probe. `drawn_intra`: α with the window of Figure 3.
    """
    path = _drawn_means(trained["drawn_output"].values[:, :, 0], trained["drawn_label"].values[:, :, 0])
    updates = np.arange(len(path), dtype=float)
    truth = np.interp(updates, record["step"], record["growth_rate"].mean("trial"))
    found = {
        window: estimate_strengths(updates, path, "isotropic", method="published", window=window)
        for window in _WINDOWS
        if window < len(path)
    }
    trend = [np.corrcoef(each["gap"].values, truth)[0, 1] for each in found.values()]
    at = np.minimum(record["step"].values, len(path) - 1)
    return xr.Dataset(
        {"trend": ("window_size", trend), "drawn_intra": ("step", found[WINDOW]["intra"].values[at])},
        coords={"window_size": list(found)},
    )


def _drawn_means(
    logits: Float[np.ndarray, "trial update logit"], labels: Int[np.ndarray, "trial update"]
) -> Float[np.ndarray, "update class logit"]:
    """Mean logits over the networks that drew each class; an update at which none did repeats the one before."""
    path = np.zeros((logits.shape[1], logits.shape[2], logits.shape[2]))
    for k in range(path.shape[1]):
        own = labels == k
        number = own.sum(axis=0)
        total = np.einsum("cu,cul->ul", own, logits.astype(float))
        last = np.maximum.accumulate(np.where(number > 0, np.arange(len(number)), np.argmax(number > 0)))
        path[:, k] = (total / np.maximum(number, 1)[:, None])[last]
    return path


def _draw_projection(record: xr.Dataset, ax: Axes) -> None:
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


PICTURE = Panels(
    _draw_projection,
    _draw_printed,
    _draw_gap,
    draw_paths,
    partial(
        _draw_curves,
        ylabel="strength (per step)",
        yscale="log",
        growth_rate="α − β",
        adjusted_rate="times mean length of logits",
    ),
    partial(_draw_curves, ylabel="angle, loss", angle="angle to the final direction (radians)", loss="validation loss"),
    partial(_draw_curves, ylabel="length of class means", length="mean length of class means"),
    draw_differences,
    columns=4,
    width=4.0,
    height=3.2,
)
