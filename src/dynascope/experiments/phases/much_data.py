"""spring-block Figure S12: Load curves on all of Fashion-MNIST.

Load curves and test accuracy of wide networks on a whole data set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above, not_run
from dynascope.experiments.experiment import settings
from dynascope.experiments.phases.curves import NetworkExperiment, curves, side_by_side
from dynascope.experiments.phases.load_curves import data_set, run_grid
from dynascope.experiments.phases.shapes import accurate_as_straight, best_where_straight, straight
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials

WHOLE = 60_000  # training images of Fashion-MNIST
HIDDEN = slice(1, None)  # layers of a load curve without the input, as Figure S11 draws it on all of MNIST


@dataclass(frozen=True)
class Config:
    """Wide networks on a whole data set: over batch sizes at one slope, and over slopes with full batches.

    The paper states neither batch sizes nor slopes: those here are ours. `full_epochs` and `full_rate` are those of
    full batches, in which 100 epochs are 100 steps. As many batch sizes are taken as slopes.
    """

    batch_sizes: tuple[int, ...] = (6000, 1500, 400, 100)
    slopes: tuple[float, ...] = (0.0, 0.2, 0.4, 0.8)
    slope: float = 0.4
    epochs: int = 100
    full_epochs: int = 100
    learning_rate: float = 0.001
    full_rate: float = 0.0001
    width: int = 400
    seeds: int = 10
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
        settings=[[f"batch {each}" for each in config.batch_sizes], [f"slope {each:g}" for each in config.slopes]],
    )
    fitted = np.stack([each["accuracy"].sel(probe="train").values for each in trained])
    record["fitted"] = (record["score"].dims, fitted, {"long_name": "training accuracy"})
    return record.assign(images=len(data_set(config.data, config.size, config.samples)[0]))


def _on_all(judge: Callable[[xr.Dataset], Judgement], panel: int) -> Callable[[xr.Dataset], Judgement]:
    """Judge one panel, if the data set that the claim is about was there as a whole."""

    def judged(record: xr.Dataset) -> Judgement:
        missing = WHOLE - int(record["images"])
        if settings(record).data == "fashion" and missing:
            return not_run(f"needs all {WHOLE} training images of Fashion-MNIST: {missing} are not in the data folder")
        return judge(record.isel(kind=panel))

    return judged


def _best(panel: xr.Dataset, layers: slice = HIDDEN) -> Judgement:
    return best_where_straight(panel["score"], panel["load"].isel(layer=layers))


def _ranked(panel: xr.Dataset) -> Judgement:
    return accurate_as_straight(panel["score"], panel["load"].isel(layer=HIDDEN))


def _fitted(panel: xr.Dataset) -> Judgement:
    """Training accuracy where the test accuracy is best, beyond that where the curve is straightest."""
    curves, fitted = straight(panel["load"].isel(layer=HIDDEN).mean("trial")).values, panel["fitted"].values
    straightest, best = int(curves.argmax()), int(panel["score"].values.mean(axis=-1).argmax())
    note = f"training accuracy of the most accurate on tests, {best + 1} of {len(curves)}, {fitted[best].mean():.4f}, "
    note += f"less that of the straightest, {straightest + 1}"
    return above(over_trials(fitted[best].astype(float) - fitted[straightest]), 0.0, note=note)


_DIGITS = {"data": "digits", "size": 0, "width": 64, "epochs": 12, "full_epochs": 150, "full_rate": 0.002}
_LAPTOP = {**_DIGITS, "batch_sizes": (240, 60, 16), "slopes": (0.0, 0.4, 0.8), "seeds": 6}
_ALL, _HIDDEN = "all of Fashion-MNIST", "from the first layer on"
_BATCHES, _SLOPES = (spring_block(figure=f"S12({panel})") for panel in "ab")
EXPERIMENT = NetworkExperiment(
    spring_block(figure="S12"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-s12a-accuracy",
            f"{_ALL}, batch sizes: none gives 0.005 more test accuracy than that with the straightest curve, {_HIDDEN}",
            _on_all(_best, 0),
            _BATCHES,
            settles_at="paper",
        ),
        Claim(
            "fig-s12a-accuracy-rank",
            f"{_ALL}, batch sizes: accuracy and R² rank them alike (above 0.5), {_HIDDEN}",
            _on_all(_ranked, 0),
            _BATCHES,
            kind="derived",
            settles_at="paper",
        ),
        Claim(
            "fig-s12a-input",
            f"{_ALL}, batch sizes: none gives 0.005 more than that with the straightest curve, its input included",
            _on_all(partial(_best, layers=slice(None)), 0),
            _BATCHES,
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "fig-s12b-accuracy",
            f"{_ALL}, slopes, full batches: "
            f"none gives 0.005 more test accuracy than that with the straightest curve, {_HIDDEN}",
            _on_all(_best, 1),
            _SLOPES,
            settles_at="paper",
            why=("fig-s12b-fitted, less is learnt",),
        ),
        Claim(
            "fig-s12b-accuracy-rank",
            f"{_ALL}, slopes, full batches: accuracy and R² rank them alike (above 0.5), {_HIDDEN}",
            _on_all(_ranked, 1),
            _SLOPES,
            kind="derived",
            settles_at="paper",
        ),
        Claim(
            "fig-s12b-fitted",
            f"{_ALL}, slopes, full batches: networks with the straightest curves fit their images less well",
            _on_all(_fitted, 1),
            _SLOPES,
            kind="own",
            settles_at="paper",
        ),
    ),
    picture=side_by_side(2),
    smoke={**_LAPTOP, "samples": 40, "epochs": 10, "full_epochs": 40, "width": 32, "seeds": 4},
    laptop=_LAPTOP,
    adapted="batch sizes, slopes and epochs, which the source leaves out",
)
