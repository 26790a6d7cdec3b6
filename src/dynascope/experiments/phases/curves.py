"""Load curves of several kinds of networks in a few settings each: their record, and their picture side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope import plots
from dynascope.experiments.experiment import Axes, Experiment, Panels

LOAD = "load D (natural logarithm)"
NetworkExperiment = partial(Experiment, model="NetworkCurves", precision="float32", needs=("torch", "sklearn"))


@dataclass(frozen=True)
class Training:
    """What the settings have in common, by default as in the paper."""

    epochs: int = 100
    batch_size: int = 2560
    learning_rate: float = 0.001
    width: int = 100
    depth: int = 7
    seeds: int = 10


@dataclass(frozen=True)
class ImageTraining(Training):
    """On which images: how large, and how many of each class."""

    data: str = "mnist"
    size: int = 10
    samples: int = 256


def curves(
    load: Float[np.ndarray, "kind setting trial layer"],
    score: Float[np.ndarray, "kind setting trial"],
    *,
    kinds: Sequence[str],
    settings: Sequence[str] | Sequence[Sequence[str]],
    names: tuple[str, str] = (LOAD, "test accuracy"),
) -> xr.Dataset:
    """Label load curves, and what networks reach; `names` says what loads and scores are.

    settings: by name; or, if each kind has its own, one row of names for each, which are kept as `label`

    >>> dict(curves(np.zeros((1, 2, 3, 4)), np.zeros((1, 2, 3)), kinds=["MLP"], settings=["a", "b"])["load"].sizes)
    {'kind': 1, 'setting': 2, 'trial': 3, 'layer': 4}
    """
    dims = ("kind", "setting", "trial")
    loads, scores = ((*dims, "layer"), load, {"long_name": names[0]}), (dims, score, {"long_name": names[1]})
    coords = {"kind": list(kinds), "layer": np.arange(load.shape[-1])}
    found = xr.Dataset({"load": loads, "score": scores}, coords=coords)
    if isinstance(settings[0], str):
        return found.assign_coords(setting=list(settings))
    label = (dims[:2], np.array(settings), {"long_name": "setting"})
    return found.assign(label=label).assign_coords(setting=np.arange(load.shape[1]))


def draw_load(ax: Axes, load: xr.DataArray, *, colour: str, label: str, style: str = "-") -> None:
    """One load curve with the spread of the trials."""
    mean, spread = load.mean("trial"), load.std("trial")
    ax.errorbar(load["layer"], mean, spread, marker="o", markersize=4, linestyle=style, color=colour, label=label)
    ax.set(xlabel="layer", ylabel=LOAD)


def draw_kind(record: xr.Dataset, ax: Axes, *, kind: int) -> None:
    """The load curve of each setting, with what the networks reach."""
    for index, setting in enumerate(record["setting"].values):
        chosen = record.isel(kind=kind, setting=index)
        named = str(chosen["label"].values) if "label" in record else setting
        label = f"{named}, {record['score'].attrs['long_name']} {float(chosen['score'].mean()):.3g}"
        draw_load(ax, chosen["load"], colour=plots.PALETTE[index], label=label)
    ax.set(ylabel=record["load"].attrs["long_name"], title=str(record["kind"].values[kind]))


def side_by_side(kinds: int, draw: Callable[..., None] = draw_kind) -> Panels:
    """A picture with a panel for each kind of network."""
    return Panels(*(partial(draw, kind=kind) for kind in range(kinds)), width=5.5, height=4.5)
