"""elastic Figure 3: The first updates of networks on shapes: how wild A is by either model.

The printed L-model passes a pole on the way, and how near it passes is chance: one ensemble, as in the
source, has an up and down of A whose size says little of the next one's.
"""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope import plots
from dynascope.experiments.claims import Judgement, above
from dynascope.experiments.elastic.course_claims import claims_on
from dynascope.experiments.elastic.course_strengths import PRINTED
from dynascope.experiments.elastic.network_training import READINGS, SMALL, Training, label_steps, train, unsettled
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic.estimate import integrated_strengths
from dynascope.statistics.errors import over_trials

_PRINTED = PRINTED[:2]  # L-model, I-model
_FALLEN = 0.95  # of the validation loss at the start: where it falls, in Figure D.10, it is no longer early


@dataclass(frozen=True)
class Config(Training):
    """Some ensembles, each of `trials` networks, until the validation loss falls; shapes are drawn for each anew."""

    ensembles: int = 20
    probes: int = 40
    steps: int = 1600
    records: int = 25


def run(config: Config) -> xr.Dataset:
    """Train the ensembles and read A off the mean of each, (ensemble, model, step)."""
    parts = []
    for number in range(config.ensembles):
        trained = train(replace(config, seed=config.seed + 2 * number))  # its pictures take two seeds
        mean = trained["class_mean"].transpose("trial", "step", "class", "logit").values.astype(float).mean(axis=0)
        parts.append(
            xr.Dataset(
                {"intra": (("model", "step"), integrated(mean)), "loss": trained["loss"].mean("trial")},
                coords={"step": trained["step"], "model": _PRINTED},
            )
        )
    return xr.concat(parts, "ensemble")


def integrated(path: Float[np.ndarray, "step class logit"]) -> Float[np.ndarray, "model step"]:
    """A of a mean path, by both models as printed.

    >>> integrated(np.random.default_rng(0).normal(size=(6, 3, 3))).shape
    (2, 6)
    """
    readings = (READINGS[name] for name in _PRINTED)
    return np.stack([integrated_strengths(path, geometry, method=method)[..., 0, :] for geometry, method in readings])


def _wild(record: xr.Dataset) -> Judgement:
    """Way up and down that A makes beyond the distance between its ends; its logarithm, for it has no mean."""
    ways = np.full((record.sizes["ensemble"], len(_PRINTED)), np.nan)
    for place, (curves, loss) in enumerate(zip(record["intra"].values, record["loss"].values, strict=True)):
        fallen = np.flatnonzero(loss < _FALLEN * loss[0])
        if fallen.size:
            early = curves[:, : fallen[0] + 1]
            ways[place] = np.abs(np.diff(early)).sum(axis=-1) - np.abs(early[:, -1] - early[:, 0])
    logits, isotropic = np.median(ways, axis=0)
    note = (
        f"log(1 + ups and downs of A until the validation loss has fallen by 5 %), L-model less I-model, mean over "
        f"{len(ways)} ensembles; medians {logits:.3g} and {isotropic:.3g}"
    )
    logs = np.log1p(ways)
    return above(over_trials(logs[:, 0] - logs[:, 1]), 0.0, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """A of every ensemble."""
    for model, colour in zip(_PRINTED, plots.PALETTE, strict=False):
        lines = ax.plot(record["step"], record["intra"].sel(model=model).T, color=colour, linewidth=0.8)
        lines[0].set_label(f"A, {model}")
    label_steps(ax, "integrated strength as printed (11)")


def _draw_loss(record: xr.Dataset, ax: Axes) -> None:
    ax.plot(record["step"], record["loss"].T, color=plots.PALETTE[2], linewidth=0.8)
    label_steps(ax, "validation loss")


CLAIMS = (unsettled("fig3-wild", "early in training the L-model, as printed, is wilder than the I-model", _wild),)

EXPERIMENT = Experiment(
    elastic(figure="3"),
    Config(),
    run,
    claims=claims_on("GeoMNIST", CLAIMS),
    picture=Panels(_draw, _draw_loss, width=4.6, height=3.4),
    model="Ensemble",
    precision="float32",
    needs=("torch",),
    smoke=SMALL | {"per_class": 100, "steps": 400, "records": 20, "trials": 8, "ensembles": 3},
    laptop={"trials": 30, "ensembles": 5},
    adapted="20 ensembles, where the source shows one; strengths off class means over a probe set",
)
