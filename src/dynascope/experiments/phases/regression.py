"""spring-block Figure S16: Load curves in regression on images with one-hot targets."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.phases.curves import ImageTraining, NetworkExperiment, curves, side_by_side
from dynascope.experiments.phases.load_curves import data_set
from dynascope.experiments.phases.regression_runs import NAMES, best, better, concave, convex, fitted, flatter
from dynascope.experiments.sources import spring_block

KINDS = ("images, one-hot, dropout", "images, one-hot, slope")
DROPOUT, SLOPES = range(2)


@dataclass(frozen=True)
class Config(ImageTraining):
    """Networks at several dropouts (S16(a)), and at as many slopes without dropout (S16(b))."""

    dropout: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.2)
    slopes: tuple[float, ...] = (0.0, 0.1, 0.2, 0.4, 0.8)
    seeds: int = 100


def run(config: Config) -> xr.Dataset:
    """Train on the squared error."""
    x, y, xt, yt = data_set(config.data, config.size, config.samples)
    one_hot = np.eye(int(y.max()) + 1, dtype=np.float32)
    varied = {"dropout": config.dropout, "slope": config.slopes}
    found = [fitted(config, (x, one_hot[y], xt, one_hot[yt]), *each) for each in varied.items()]
    settings = [[f"{name} {each:g}" for each in values] for name, values in varied.items()]
    load, error = (np.stack(each) for each in zip(*found, strict=True))
    return curves(load, error, kinds=KINDS, settings=settings, names=NAMES)


_IMAGES, _SLOPES = (spring_block(figure=figure) for figure in ("S16(a)", "S16(b)"))
_LESS = "lower by 2 % of that without dropout"
_DIGITS = {"data": "digits", "size": 0, "samples": 60, "width": 64, "batch_size": 64, "epochs": 60, "seeds": 6}
EXPERIMENT = NetworkExperiment(
    spring_block(figure="S16"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-s16-concave",
            "on images with one-hot targets, without dropout, it is concave",
            partial(concave, kind=DROPOUT),
            _IMAGES,
        ),
        Claim(
            "fig-s16-noise",
            "on images with one-hot targets, dropout makes it less concave",
            partial(flatter, kind=DROPOUT),
            _IMAGES,
        ),
        Claim(
            "fig-s16-convex",
            "on images with one-hot targets, with the most dropout, it is convex",
            partial(convex, kind=DROPOUT),
            _IMAGES,
            settles_at="paper",
        ),
        Claim(
            "fig-s16-error",
            "on images with one-hot targets the straightest curve has a lower test error than without dropout",
            partial(better, kind=DROPOUT),
            _IMAGES,
            kind="derived",
            settles_at="paper",
        ),
        Claim(
            "fig-s16-best",
            f"on images with one-hot targets no dropout has one {_LESS} than that with the straightest curve",
            partial(best, kind=DROPOUT),
            _IMAGES,
            kind="derived",
            settles_at="paper",
        ),
        Claim(
            "fig-s16-slope",
            "on images with one-hot targets, the largest slope makes it less concave than none",
            partial(flatter, kind=SLOPES),
            _SLOPES,
            settles_at="paper",
        ),
    ),
    picture=side_by_side(len(KINDS)),
    smoke={**_DIGITS, "width": 32, "epochs": 50, "samples": 30, "dropout": (0.0, 0.04, 0.2), "slopes": (0.0, 0.2, 0.8)},
    laptop=_DIGITS,
    adapted="values of dropout and slope, which the source leaves out; images standardised",
)
