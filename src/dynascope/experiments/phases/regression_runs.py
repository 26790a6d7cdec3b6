"""Networks in regression: their runs, the loads that S5 defines, and what claims on them compare."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from dynascope import networks
from dynascope.experiments.claims import Judgement, above, below
from dynascope.experiments.phases.curves import Training
from dynascope.experiments.phases.load_curves import Images, batches, numbers, packs_of
from dynascope.experiments.phases.shapes import bend, best_where_straight, straight
from dynascope.progress import progress_bar
from dynascope.statistics.errors import over_trials

NAMES = ("load: error of the best linear fit", "test RMSE")
REGRET = 0.02  # of the error without dropout


def fitted(config: Training, data: Images, varied: str, values: Sequence[float]) -> tuple[np.ndarray, ...]:
    """Loads (setting, run, layer) on training data, and the root mean square error on test data (setting, run)."""
    x, y, xt, yt = data
    batch, steps = batches(len(x), config.batch_size, config.epochs)
    grid = [(value, seed) for value in values for seed in range(config.seeds)]
    loads: list[np.ndarray] = []
    errors: list[np.ndarray] = []
    with progress_bar(f"networks of {len(x)} samples, {varied}", len(grid)) as done:
        for pack in packs_of(grid, *numbers(x, batch, config.width, config.depth)):
            ensemble = networks.Ensemble(
                networks.MLP(x.shape[1:], y.shape[1], width=config.width, depth=config.depth, batch_norm=True),
                trials=[seed for _, seed in pack],
                learning_rate=config.learning_rate,
                batch_size=batch,
                optimizer="adam",
                loss="mse",
                vary={varied: np.array([value for value, _ in pack])},
                sampling="shuffled",
            )
            path = ensemble.train(x, y, steps, probe=(x, y), record_every=[steps], measures="load", progress=False)
            # no loads of the test data: fewer than features in the table, every linear fit to them is perfect
            missed = np.asarray(ensemble.features(xt)["logits"]) - yt  # (trial, sample, output)
            loads.extend(path["load"].values[:, -1])
            errors.extend(np.sqrt((missed**2).mean(axis=(1, 2))))
            done(len(loads))
    shape = (len(values), config.seeds)
    return np.stack(loads).reshape(*shape, -1), np.stack(errors).reshape(shape)


def concave(record: xr.Dataset, *, kind: int) -> Judgement:
    """Curvature at the first setting, above 0."""
    return above(over_trials(bend(record["load"][kind, 0])), 0.0)


def convex(record: xr.Dataset, *, kind: int) -> Judgement:
    """Curvature at the last setting, below 0."""
    return below(over_trials(bend(record["load"][kind, -1])), 0.0)


def flatter(record: xr.Dataset, *, kind: int) -> Judgement:
    """Curvature at the last setting, below that at the first."""
    bends = bend(record["load"][kind])
    return below(over_trials(bends[-1] - bends[0]), 0.0)


def straightest(record: xr.Dataset, *, kind: int) -> int:
    """Place of the setting whose curves are straightest."""
    return int(straight(record["load"][kind]).mean("trial").values.argmax())


def better(record: xr.Dataset, *, kind: int) -> Judgement:
    """Test error of the straightest curve, below that at the first setting."""
    chosen, error = straightest(record, kind=kind), record["score"][kind]
    note = f"the straightest is at {record['label'].values[kind, chosen]}"
    return below(over_trials(error[chosen] - error[0]), 0.0, note=note)


def best(record: xr.Dataset, *, kind: int) -> Judgement:
    """Test error of the straightest curve, beside those of all others."""
    error = record["score"][kind]
    return best_where_straight(
        -error / error[0].mean(), record["load"][kind], regret=REGRET, named="minus test error over that without"
    )
