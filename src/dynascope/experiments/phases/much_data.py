"""spring-block Figure S12: Load curves on all of Fashion-MNIST.

Load curves and test accuracy of wide networks on a whole data set.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.phases.curves import NetworkExperiment, curves, side_by_side
from dynascope.experiments.phases.load_curves import run_grid
from dynascope.experiments.phases.shapes import best_where_straight
from dynascope.experiments.sources import spring_block


@dataclass(frozen=True)
class Config:
    """Wide networks on a whole data set: over batch sizes at one slope, and over slopes with full batches.

    The paper states neither epochs nor batch sizes: those here are ours. `full_epochs` and `full_rate` are of full
    batches, and as many batch sizes are taken as slopes.
    """

    batch_sizes: tuple[int, ...] = (6000, 1500, 400, 100)
    slopes: tuple[float, ...] = (0.0, 0.2, 0.4, 0.8)
    slope: float = 0.4
    epochs: int = 20
    full_epochs: int = 400
    learning_rate: float = 0.001
    full_rate: float = 0.0001
    width: int = 400
    seeds: int = 4
    data: str = "fashion"
    size: int = 10
    samples: int = 0


def run(config: Config) -> xr.Dataset:
    """Train both panels."""
    common = {name: getattr(config, name) for name in ("width", "data", "size", "samples")}
    small = {"slope": config.slope, "epochs": config.epochs, "learning_rate": config.learning_rate}
    full = {"batch_size": 10**9, "epochs": config.full_epochs, "learning_rate": config.full_rate}
    trained = [
        run_grid({"batch_size": config.batch_sizes}, seeds=config.seeds, fixed=common | small),
        run_grid({"slope": config.slopes}, seeds=config.seeds, fixed=common | full),
    ]
    record = curves(
        np.stack([each["load"].sel(probe="train").values for each in trained]),
        np.stack([each["accuracy"].sel(probe="test").values for each in trained]),
        kinds=[f"batch sizes at slope {config.slope:g}", "slopes, full batches"],
        settings=range(len(config.slopes)),
    )
    labels = [[f"batch {batch}" for batch in config.batch_sizes], [f"slope {slope:g}" for slope in config.slopes]]
    return record.assign(label=(("kind", "setting"), np.array(labels), {"long_name": "setting"}))


_DIGITS = {"data": "digits", "size": 0, "width": 64, "epochs": 12, "full_epochs": 150, "full_rate": 0.002}
_LAPTOP = {**_DIGITS, "batch_sizes": (240, 60, 16), "slopes": (0.0, 0.4, 0.8)}
EXPERIMENT = NetworkExperiment(
    spring_block(figure="S12"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-s12a-accuracy",
            "all of Fashion-MNIST, several batch sizes: test accuracy is best where the load curve is straightest",
            lambda record: best_where_straight(record["score"][0], record["load"][0]),
            spring_block(figure="S12(a)"),
            settles_at="paper",
        ),
        Claim(
            "fig-s12b-accuracy",
            "all of Fashion-MNIST, several slopes, full batches: "
            "test accuracy is best where the load curve is straightest",
            lambda record: best_where_straight(record["score"][1], record["load"][1]),
            spring_block(figure="S12(b)"),
        ),
    ),
    picture=side_by_side(2),
    smoke={**_LAPTOP, "samples": 40, "epochs": 10, "full_epochs": 40, "width": 32},
    laptop=_LAPTOP,
    adapted="epochs and batch sizes, which the source leaves out",
)
