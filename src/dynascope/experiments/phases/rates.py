"""spring-block Figure S4: Load curves of training and test samples at three learning rates.

Networks as wide as an image has pixels. The source shows one network of each; the spread of many is told beside it.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.phases.curves import NetworkExperiment, Training, curves, side_by_side
from dynascope.experiments.phases.load_curves import PROBES, run_grid
from dynascope.experiments.phases.shapes import because, bend, best_where_straight, straight
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials

PRINTED = (0.9193, 0.9252, 0.8999)  # test accuracies at the three rates


@dataclass(frozen=True)
class Config(Training):
    """Networks at several learning rates, for as long as those of Figure 1(b)."""

    rates: tuple[float, ...] = (0.0001, 0.001, 0.01)
    slope: float = 0.2
    epochs: int = 200
    width: int = 784
    size: int = 0


def run(config: Config) -> xr.Dataset:
    """Train, and measure on training and on test samples."""
    fixed = {name: value for name, value in vars(config).items() if name not in ("rates", "learning_rate", "seeds")}
    trained = run_grid({"learning_rate": config.rates}, seeds=config.seeds, fixed=fixed)
    accuracy = trained["accuracy"].sel(probe="test").values
    return curves(
        np.stack([trained["load"].sel(probe=probe).values for probe in PROBES]),
        np.stack([accuracy] * len(PROBES)),
        kinds=[f"{probe} samples" for probe in PROBES],
        settings=[f"learning rate {each:g}" for each in config.rates],
    )


def _bends(record: xr.Dataset, *, setting: int) -> Judgement:
    """To which side curves of training and test samples bend: concave at the lowest rate, convex at the highest."""
    judge = above if setting == 0 else below
    return judge(over_trials(bend(record["load"][:, setting])), 0.0, note="curvature on training and test samples")


def _straightest_between(record: xr.Dataset) -> Judgement:
    curves = straight(record["load"])  # (kind, setting, trial)
    gain = curves[:, 1:-1].max("setting") - curves[:, [0, -1]].max("setting")
    return above(over_trials(gain), 0.0, note="R² beyond that at either end, on training and test samples")


def _best_between(record: xr.Dataset) -> Judgement:
    reached = record["score"][0].values  # (setting, trial)
    return above(over_trials(reached[1] - reached[[0, -1]]), 0.0, note="test accuracy beyond that at either end")


def _as_printed(record: xr.Dataset) -> Judgement:
    """The source has one network of each, which lies somewhere in the spread of ours."""
    reached = record["score"][0].values
    note = "mean and deviation over networks: " + ", ".join(
        f"{each.mean():.4f} ± {each.std(ddof=1):.4f}" for each in reached
    )
    return equal(reached.mean(1), np.array(PRINTED), 3 * reached.std(1, ddof=1), note=note)


_DIGITS = {"data": "digits", "samples": 30, "width": 64, "batch_size": 64, "epochs": 60, "seeds": 6}
EXPERIMENT = NetworkExperiment(
    spring_block(figure="S4"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-s4-concave",
            "at the lowest learning rate the curves of training and of test samples are concave",
            partial(_bends, setting=0),
            settles_at="paper",
        ),
        Claim("fig-s4-convex", "at the highest both are convex", partial(_bends, setting=-1), settles_at="paper"),
        Claim("fig-s4-straightest", "between them both are straightest", _straightest_between, settles_at="paper"),
        Claim(
            "fig-s4-accuracy",
            "no learning rate gives 0.005 more test accuracy than that with the straightest curve",
            lambda record: best_where_straight(record["score"][0], record["load"][0]),
            settles_at="paper",
        ),
        Claim("fig-s4-best", "the one between gives the best test accuracy", _best_between, settles_at="paper"),
        Claim(
            "fig-s4-accuracies",
            "test accuracies are 0.9193, 0.9252 and 0.8999, up to the spread of single networks",
            lambda record: because(_as_printed(record), "the source does not say its number of epochs"),
            settles_at="paper",
        ),
    ),
    picture=side_by_side(len(PROBES)),
    smoke={**_DIGITS, "width": 32, "epochs": 20, "seeds": 4, "samples": 20},
    laptop=_DIGITS,
    adapted="epochs, batches and size of images, which the source leaves out for this figure; images standardised",
)
