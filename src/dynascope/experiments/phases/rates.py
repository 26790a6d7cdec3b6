"""spring-block Figure S4: Load curves of training and test samples at three learning rates.

Networks as wide as an image has pixels. The source shows one network of each; the spread of many is told beside it,
each on a draw of images of its own: one draw moves the accuracy of all networks on it.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.stats import chi2, norm

from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.phases.curves import ImageTraining, NetworkExperiment, curves, side_by_side
from dynascope.experiments.phases.load_curves import PROBES, run_grid
from dynascope.experiments.phases.shapes import bend, best_where_straight, straightest_inside
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials

_BOTH = "curvature on training and on test samples"
PRINTED = (0.9193, 0.9252, 0.8999)  # test accuracies at the three rates
NEXT = (0.9252, 0.9193, 0.9193)  # of these, that which each lies closest to


@dataclass(frozen=True)
class Config(ImageTraining):
    """Networks at several learning rates, for as long as those of Figure 1(b)."""

    rates: tuple[float, ...] = (0.0001, 0.001, 0.01)
    slope: float = 0.2
    epochs: int = 200
    width: int = 784
    size: int = 0


def run(config: Config) -> xr.Dataset:
    """Train, and measure on training and on test samples."""
    fixed = {name: value for name, value in vars(config).items() if name not in ("rates", "learning_rate", "seeds")}
    runs = [
        run_grid({"learning_rate": config.rates}, seeds=[seed], fixed=fixed, draw=seed) for seed in range(config.seeds)
    ]
    trained = xr.concat(runs, "trial")
    accuracy = trained["accuracy"].sel(probe="test").values
    return curves(
        np.stack([trained["load"].sel(probe=probe).values for probe in PROBES]),
        np.stack([accuracy] * len(PROBES)),
        kinds=[f"{probe} samples" for probe in PROBES],
        settings=[f"learning rate {each:g}" for each in config.rates],
    )


def _best_between(record: xr.Dataset) -> Judgement:
    reached = record["score"][0].values  # (setting, trial)
    return above(over_trials(reached[1] - reached[[0, -1]]), 0.0, note="test accuracy beyond that at either end")


def _as_printed(record: xr.Dataset) -> Judgement:
    """The source has one network of each, on images that it drew, which lies somewhere in the spread of ours."""
    reached = record["score"][0].values
    note = "mean and deviation over networks and draws of images: " + ", ".join(
        f"{each.mean():.4f} ± {each.std(ddof=1):.4f}" for each in reached
    )
    spread = reached.std(1, ddof=1)
    return equal(reached.mean(1), np.array(PRINTED), 3 * spread, rival=NEXT, error=spread, note=note)


def _too_wide(record: xr.Dataset) -> Judgement:
    """The deviation at the two rates whose accuracies lie closest, beyond what would tell one network's apart.

    Its lower bound is the exact one of Gaussian networks: by its standard error, that of few is no bound at all.
    """
    reached = record["score"][0].values[:2].astype(float)
    deviation, free = reached.std(axis=-1, ddof=1), reached.shape[-1] - 1
    least = deviation * np.sqrt(free / chi2.isf(norm.sf(3), free))
    note = "deviation of test accuracies at the first two rates, beside a fifth of their difference in print"
    return above(deviation, (PRINTED[1] - PRINTED[0]) / 5, deviation - least, note=note)


_DIGITS = {"data": "digits", "samples": 30, "width": 64, "batch_size": 64, "epochs": 60, "seeds": 6}
EXPERIMENT = NetworkExperiment(
    spring_block(figure="S4"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-s4-concave",
            "at the lowest learning rate the curves of training and of test samples are concave",
            lambda record: above(over_trials(bend(record["load"][:, 0])), 0.0, note=_BOTH),
            settles_at="paper",
        ),
        Claim(
            "fig-s4-convex",
            "at the highest both are convex",
            lambda record: below(over_trials(bend(record["load"][:, -1])), 0.0, note=_BOTH),
            settles_at="paper",
        ),
        Claim(
            "fig-s4-straightest",
            "between them both are straightest",
            lambda record: straightest_inside(record["load"]),
            settles_at="paper",
        ),
        Claim(
            "fig-s4-accuracy",
            "no learning rate gives 0.005 more test accuracy than that with the straightest curve",
            lambda record: best_where_straight(record["score"][0], record["load"][0]),
            settles_at="paper",
        ),
        Claim("fig-s4-best", "the one between gives the best test accuracy", _best_between, settles_at="paper"),
        Claim(
            "fig-s4-accuracies",
            "test accuracies are 0.9193, 0.9252 and 0.8999, up to the spread of single networks and draws of images",
            _as_printed,
            settles_at="paper",
            why=("fig-s4-spread, single networks vary too much to tell these from each other",),
        ),
        Claim(
            "fig-s4-spread",
            "single networks, each on images drawn anew, deviate by more than a fifth of 0.0059, by which the first "
            "two of these differ",
            _too_wide,
            kind="own",
            settles_at="paper",
        ),
    ),
    picture=side_by_side(len(PROBES)),
    smoke={**_DIGITS, "width": 32, "epochs": 20, "seeds": 4, "samples": 20},
    laptop=_DIGITS,
    adapted="epochs, batches and size of images, which the source leaves out for this figure; images standardised",
)
