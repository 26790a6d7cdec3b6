"""spring-block Figure S15: Load curves in regression on the diabetes table."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope.data.tables import diabetes
from dynascope.experiments.claims import Claim, Judgement, above, not_run
from dynascope.experiments.phases.curves import NetworkExperiment, Training, curves, side_by_side
from dynascope.experiments.phases.regression_runs import NAMES, best, better, concave, convex, fitted, straightest
from dynascope.experiments.phases.shapes import straight
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials


@dataclass(frozen=True)
class Config(Training):
    """ReLU networks at several dropouts."""

    dropout: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.2)
    seeds: int = 100  # errors on the 88 test rows of the table spread widely


def run(config: Config) -> xr.Dataset:
    """Train on the squared error."""
    x, y, xt, yt = diabetes()
    load, error = fitted(config, (x, y[:, None], xt, yt[:, None]), "dropout", config.dropout)
    settings = [[f"dropout {each:g}" for each in config.dropout]]
    return curves(load[None], error[None], kinds=["diabetes, dropout"], settings=settings, names=NAMES)


def _most(record: xr.Dataset) -> Judgement:
    chosen, straightness, error = straightest(record, kind=0), straight(record["load"][0]), record["score"][0]
    falls = np.stack([(each[chosen] - each[-1]).values for each in (error / error[0].mean(), straightness)])
    note = f"of the straightest, at {record['label'].values[0, chosen]}, less those with most: error, then R²"
    return above(over_trials(falls), 0.0, note=note)


_LESS = "lower by 2 % of that without dropout"
EXPERIMENT = NetworkExperiment(
    spring_block(figure="S15"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-s15-concave",
            "on the diabetes data, without dropout, the regression load curve is concave",
            partial(concave, kind=0),
        ),
        Claim(
            "fig-s15-convex",
            "on the diabetes data, with the most dropout, it is convex",
            partial(convex, kind=0),
        ),
        Claim(
            "fig-s15-error",
            "on the diabetes data the straightest curve has a lower test error than without dropout",
            partial(better, kind=0),
            kind="derived",  # most dropouts do
            settles_at="paper",
        ),
        Claim(
            "fig-s15-best",
            f"on the diabetes data no dropout has a test error {_LESS} than that with the straightest curve",
            partial(best, kind=0),
            # "the straighter line shows better generalization"
            settles_at="paper",
            why=("fig-s15-most, the most dropout errs least, though its curve is bent",),
        ),
        Claim(
            "fig-s15-most",
            "on the diabetes data the most dropout has a lower test error than the straightest curve, itself more bent",
            _most,
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "fig-s15b",
            "on the critical temperatures of superconductors learning rates bend load curves likewise",
            lambda record: not_run("the table of superconductors is not at hand"),
        ),
    ),
    picture=side_by_side(1),
    smoke={"width": 32, "batch_size": 64, "epochs": 50, "seeds": 6, "dropout": (0.0, 0.04, 0.2)},
    laptop={"width": 64, "batch_size": 64, "epochs": 60, "seeds": 6},
    adapted="values of dropout, which the source leaves out",
)
