"""spring-block (1), Section S3: Batch norm against fixed constants."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.phases.curves import ImageTraining, NetworkExperiment, curves, side_by_side
from dynascope.experiments.phases.load_curves import run_grid
from dynascope.experiments.phases.shapes import bend, bend_per_work, mean_work
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials
from dynascope.statistics.resampling import estimated

BATCH, CONSTANT = range(2)


@dataclass(frozen=True)
class Config(ImageTraining):
    """ReLU networks with batch norm and with the fixed constants c_ℓ of (1), from the least noise to the most.

    First at the lowest learning rate of Figure 1(b) and for its 200 epochs, without dropout; then at several dropouts.
    Variances need more runs than means: ours are 200.
    """

    low_rate: float = 0.0001
    dropout: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.3)
    slope: float = 0.0
    seeds: int = 200


def run(config: Config) -> xr.Dataset:
    """Train both kinds in the same settings and from the same seeds."""
    fixed = {name: value for name, value in vars(config).items() if name not in ("low_rate", "dropout", "seeds")}
    quiet = fixed | {"learning_rate": config.low_rate, "epochs": 2 * config.epochs}
    grid = {"normalisation": ("batch", "constant")}
    trained = [
        run_grid(grid | {"dropout": (0.0,)}, seeds=config.seeds, fixed=quiet),
        run_grid(grid | {"dropout": config.dropout}, seeds=config.seeds, fixed=fixed),
    ]
    return curves(
        np.concatenate([each["load"].sel(probe="train").values for each in trained], axis=1),
        np.concatenate([each["accuracy"].sel(probe="test").values for each in trained], axis=1),
        kinds=["batch norm", "constants c_ℓ"],
        settings=[f"learning rate {config.low_rate:g}", *(f"dropout {each:g}" for each in config.dropout)],
    )


def _spread(bends: xr.DataArray, note: str = "logarithm of the ratio") -> Judgement:
    """With the error that trials drawn anew give it, the same in all settings, which start from the same seeds."""
    values = (bends - bends.mean("trial")).transpose("kind", "setting", "trial").values.astype(float)

    def ratio(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
        spread = np.log((square - mean**2).mean(axis=-1))  # (…, kind)
        return np.asarray(spread[..., CONSTANT] - spread[..., BATCH])

    return above(estimated(ratio, values, values**2), 0.0, note=note)


def _spread_per_work(load: xr.DataArray) -> Judgement:
    work = mean_work(load).mean(("setting", "trial")).values
    note = (
        f"logarithm of the ratio; mean work of a layer with batch norm {work[BATCH]:.2f}, without {work[CONSTANT]:.2f}"
    )
    return _spread(bend_per_work(load), note)


def _falls(load: xr.DataArray) -> Judgement:
    bends = bend(load).transpose("kind", "setting", "trial").values[CONSTANT]
    note = "curvature at the most dropout less that at none, and itself"
    return below(over_trials(np.stack([bends[-1] - bends[1], bends[-1]])), 0.0, note=note)


_DIGITS = {"data": "digits", "size": 0, "samples": 0, "width": 64, "batch_size": 32, "epochs": 12, "seeds": 10}
EXPERIMENT = NetworkExperiment(
    spring_block(equation="1", section="S3"),
    Config(),
    run,
    claims=(
        Claim(
            "s3-constants-concave",
            "with constants c_ℓ, at the least noise, the load curve is concave",
            lambda load: above(over_trials(bend(load)[CONSTANT, 0]), 0.0, note="curvature"),
            settles_at="paper",
        ),
        Claim(
            "s3-constants-spread",
            "without batch norm the curvature varies more between runs: its variance, over all settings, is larger",
            lambda load: _spread(bend(load)),
            spring_block(section="S3"),
            settles_at="paper",
            why=("s3-constants-shape, these networks separate less",),
        ),
        Claim(
            "s3-constants-shape",
            "so it is in units of a layer's mean work, in which it does not count how far a curve falls",
            _spread_per_work,
            spring_block(section="S3"),
            kind="own",
            settles_at="paper",
        ),
        Claim("s3-constants-noise", "with constants c_ℓ, too, dropout bends load curves to convex", _falls),
    ),
    picture=side_by_side(2),
    read=lambda record: record["load"],  # (kind, setting, trial, layer)
    smoke={**_DIGITS, "epochs": 8, "dropout": (0.0, 0.3), "seeds": 6},
    laptop=_DIGITS,
    kind="figure",
    adapted="sources of noise, their values and slope, which the source leaves out; images standardised",
)
