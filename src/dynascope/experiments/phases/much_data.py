"""FIG. S12: load curves and test accuracy of wide networks on a whole data set."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.phases.curves import plot, recorded
from dynascope.experiments.phases.load_curves import run_grid
from dynascope.experiments.phases.shapes import best_where_straight
from dynascope.experiments.registry import Experiment
from dynascope.measure.separation import straightness


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


CLAIMS = tuple(
    Claim(
        f"fig-s12{panel}-accuracy",
        f"spring-block FIG. S12({panel})",
        f"all of Fashion-MNIST, {what}: test accuracy is best where the load curve is straightest",
    )
    for panel, what in (("a", "several batch sizes"), ("b", "several slopes, full batches"))
)


def run(config: Config) -> xr.Dataset:
    """Train both panels."""
    begun = time.perf_counter()
    common = {name: getattr(config, name) for name in ("width", "data", "size", "samples")}
    small = {"slope": config.slope, "epochs": config.epochs, "learning_rate": config.learning_rate}
    full = {"batch_size": 10**9, "epochs": config.full_epochs, "learning_rate": config.full_rate}
    grids: list[tuple[dict[str, list[Any]], dict[str, Any]]] = [
        ({"batch_size": list(config.batch_sizes)}, small),
        ({"slope": list(config.slopes)}, full),
    ]
    trained = [run_grid(grid, seeds=config.seeds, fixed=common | own) for grid, own in grids]
    dims = ("kind", "setting", "trial")
    load, score = (np.stack([each[name].sel(probe=probe).values for each in trained])
                   for name, probe in (("load", "train"), ("accuracy", "test")))  # fmt: skip
    values = {
        "load": ((*dims, "layer"), load, {"long_name": "load D (natural logarithm)"}),
        "score": (dims, score, {"long_name": "test accuracy"}),
    }
    labels = [[f"batch {batch}" for batch in config.batch_sizes], [f"slope {slope:g}" for slope in config.slopes]]
    values["label"] = (dims[:2], np.array(labels), {"long_name": "setting"})
    kinds = [f"batch sizes at slope {config.slope:g}", "slopes, full batches"]
    coords = {"kind": kinds, "setting": np.arange(len(config.slopes))}
    return recorded(values, coords | {"layer": trained[0]["layer"].values}, config, begun)


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """The accuracy where the curve is straightest beside the best, and beside the worst as its rival."""
    loads = record["load"].transpose("kind", "setting", "trial", "layer").values
    score = record["score"].transpose("kind", "setting", "trial").values.astype(float)
    panels = zip(CLAIMS, score, straightness(loads), strict=True)
    return tuple(best_where_straight(claim, accuracy, straight) for claim, accuracy, straight in panels)


LAPTOP = Config(
    batch_sizes=(240, 60, 16), slopes=(0.0, 0.4, 0.8), epochs=12, full_epochs=150, full_rate=0.002, width=64,
    data="digits", size=0,
)  # fmt: skip
EXPERIMENT = Experiment(
    title="Load curves on all of Fashion-MNIST",
    source="spring-block FIG. S12",
    kind="figure",
    claims=CLAIMS,
    scales={
        "smoke": replace(LAPTOP, samples=40, epochs=10, full_epochs=40, width=32),
        "laptop": LAPTOP,
        "paper": Config(),
    },
    run=run,
    check=check,
    plot=plot,
)
