"""elastic Figure 1: Networks that learn shapes: logits along the difference of two class means.

GeoMNIST. By itself, since it takes more networks than the courses may have: (11) as printed divides by X̄(0), which is
the chance of as many networks as are averaged, so that what they show hangs on that number.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.elastic.course_claims import FIGURE_1, claims_on
from dynascope.experiments.elastic.network_courses import draw_projection, figure_1
from dynascope.experiments.elastic.network_training import SMALL, Training, pictures, train
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic


@dataclass(frozen=True)
class Config(Training):
    """One ensemble with true labels.

    pair: the classes whose difference gives the direction that is drawn
    """

    trials: int = 200
    pair: tuple[int, int] = (0, 1)


def run(config: Config) -> xr.Dataset:
    """Train, and see how classes lie along the differences of class means."""
    data = pictures(config)
    trained = train(config, data, keep_outputs=True, keep_drawn=True)
    return figure_1(trained, data[3], config.pair).assign_coords(step=trained["step"])


def _draw_networks(record: xr.Dataset, ax: Axes) -> None:
    """Samples in the wrong order along the best direction of each network, from the best network to the worst."""
    for colour, (name, label) in zip(plots.PALETTE, {"": "drawn", "_unseen": "not trained on"}.items(), strict=False):
        wrong = record[f"misplaced{name}"].max("pair").min("direction")
        ax.plot(np.arange(1, wrong.size + 1), np.sort(wrong.values), color=colour, label=label)
    ax.set(xlabel="network, the best first", ylabel="share in the wrong order, worst two classes", ylim=(0, None))
    ax.legend(frameon=False, fontsize="small", title="samples")


EXPERIMENT = Experiment(
    elastic(figure="1"),
    Config(),
    run,
    claims=claims_on("GeoMNIST", FIGURE_1),
    picture=Panels(draw_projection, _draw_networks, width=4.8, height=3.8),
    model="Ensemble",
    precision="float32",
    needs=("torch",),
    smoke=SMALL | {"per_class": 100, "steps": 1200, "records": 50, "trials": 12},
    laptop={"probes": 40, "steps": 8000, "records": 80, "trials": 16},
    adapted="200 networks, not 100: how far classes part varies between them",
)
