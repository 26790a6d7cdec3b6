"""How the record of a phase diagram of networks is read and judged."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Judgement, above, below
from dynascope.experiments.experiment import settings
from dynascope.experiments.phases.shapes import (
    REGRET,
    accurate_as_straight,
    bend,
    bend_per_work,
    mean_work,
    straight,
)
from dynascope.statistics.errors import Estimate, over_trials, side_by_side
from dynascope.statistics.ranks import rank_correlation
from dynascope.statistics.resampling import estimated

RANKED = 0.8  # rank correlation of what is said to rise together


def read(record: xr.Dataset) -> xr.Dataset:
    """What claims look at, over (slope, noise, trial); trial i starts alike in every cell, so cells are compared by it.

    Adds the bend of training curves, their work and shape from the input on, and reached: the test accuracy.
    """
    config = settings(record)
    if not config.linear_converges:
        record = record.isel(slope=record["slope"].values < 1)
    record = record.transpose("slope", config.noise, "trial", ...)
    cells, whole = record.isel(layer=slice(config.first_layer, None)), record["load"].sel(probe="train", drop=True)
    train, reached = cells["load"].sel(probe="train", drop=True), cells["accuracy"].sel(probe="test", drop=True)
    curves = {"bend": bend(train), "work": mean_work(whole), "shape": bend_per_work(whole)}
    return cells.assign(curves | {"reached": reached.astype(float)})


def best_row(seen: xr.Dataset) -> xr.Dataset:
    """The slope with the best test accuracy."""
    return seen.isel(slope=int(seen["reached"].values.mean(axis=-1).max(axis=-1).argmax()))


def straightness_along(row: xr.Dataset) -> xr.DataArray:
    """R² of the mean training curve, for each noise."""
    return straight(row["load"].sel(probe="train").mean("trial"))


def weakest(seen: xr.Dataset) -> xr.Dataset:
    """The weakest noise that is this figure's own."""
    config = settings(seen)
    return seen.isel({config.noise: config.shared})


def falls(seen: xr.Dataset, *, slopes: slice = slice(None)) -> Judgement:
    """Curvature at the strongest noise less that at the weakest, at some slopes."""
    change = (seen["bend"][:, -1] - weakest(seen)["bend"]).transpose("slope", "trial").values[slopes]
    alive = np.isfinite(change).all(axis=0)  # a network whose features are all 0 has no curve
    judged = below(over_trials(change[:, alive]), 0.0)
    fallen = np.less(judged.measured, np.negative(judged.tolerance)).tolist()
    note = f"difference of curvatures, one case for each slope; so it is at the first {[*fallen, False].index(False)}"
    return replace(
        judged, note=note if alive.all() else f"{note}; in {alive.sum()} of {alive.size} runs no network died"
    )


def falls_per_work(seen: xr.Dataset) -> Judgement:
    """At the last slope, from the input on and in units in which it does not count how far the curve falls."""
    weak, strong = (each.isel(slope=-1) for each in (weakest(seen), seen.isel({settings(seen).noise: -1})))
    work = " to ".join(f"{float(each['work'].mean()):.3f}" for each in (weak, strong))
    note = f"difference of curvatures per work; the mean work of a layer goes from {work}"
    return below(over_trials(strong["shape"] - weak["shape"]), 0.0, note=note)


def convex(seen: xr.Dataset) -> Judgement:
    """Curvature at the last slope and the strongest noise."""
    return below(over_trials(seen["bend"][-1, -1]), 0.0)


def convex_between(seen: xr.Dataset) -> Judgement:
    """Curvature at the last slope: in the middle of the noises, and what it is below that at the strongest."""
    bends = seen["bend"][-1].values  # (noise, trial)
    middle = bends[len(bends) // 2]
    note = "curvature; less that at the strongest noise"
    return below(over_trials(np.stack([middle, middle - bends[-1]])), 0.0, note=note)


def in_best_row(judge: Callable[[xr.DataArray, xr.DataArray], Judgement]) -> Callable[[xr.Dataset], Judgement]:
    """Judge accuracies and training curves along the slope with the best test accuracy, which is taken as given."""

    def judged(seen: xr.Dataset) -> Judgement:
        row = best_row(seen)
        return judge(row["reached"], row["load"].sel(probe="train"))

    return judged


def fits_less(seen: xr.Dataset) -> Judgement:
    """Along the best slope, training losses at the straightest beside those at the best, and what they cost there."""
    row = best_row(seen)
    straightest, best = (int(each.values.argmax()) for each in (straightness_along(row), row["reached"].mean("trial")))
    losses, reached = np.log(row["loss"].sel(probe="train").values), row["reached"].values[straightest]
    halves = np.array_split(reached[losses[straightest].argsort()], 2)
    more, (lower, higher) = over_trials(losses[straightest] - losses[best]), map(over_trials, halves)
    gain = Estimate(lower.mean - higher.mean, lower.error, lower.runs).against(higher)
    note = f"logarithm of losses at {straightest + 1} over those at {best + 1}; what lower ones have more test accuracy"
    return above(side_by_side(more, gain), 0.0, note=note)


def accurate_cells(seen: xr.Dataset) -> Judgement:
    """Accuracy and straightness of all cells."""
    cells = seen.sel(probe="train").stack(setting=("slope", settings(seen).noise))
    return accurate_as_straight(*(cells[name].transpose("setting", "trial", ...) for name in ("reached", "load")))


def best_concave(seen: xr.Dataset) -> Judgement:
    """Curvature in the cell with the best mean accuracy, whichever trials drawn anew make the best."""
    row, column = np.unravel_index(seen["reached"].values.mean(axis=-1).argmax(), seen["reached"].shape[:2])
    note = f"curvature in row {row + 1}, column {column + 1}"
    return above(estimated(_at_the_best, *_cells(seen), side="lower"), 0.0, note=note)


def _cells(seen: xr.Dataset) -> Iterator[np.ndarray]:
    """Accuracies and curvatures, (cell, trial)."""
    return (seen[name].values.reshape(-1, seen.sizes["trial"]) for name in ("reached", "bend"))


def _at_the_best(reached: np.ndarray, bends: np.ndarray) -> np.ndarray:
    return np.asarray(np.take_along_axis(bends, reached.argmax(axis=-1, keepdims=True), axis=-1)[..., 0])


def _ahead_of_concave(reached: np.ndarray, bends: np.ndarray) -> np.ndarray:
    return np.asarray(reached.max(axis=-1) - np.where(bends > 0, reached, 0.0).max(axis=-1))


def concave_near(seen: xr.Dataset) -> Judgement:
    """What the best of all cells has ahead of the best with a concave curve; all that it has if there is none."""
    cells, concave = seen["reached"].values.mean(axis=-1), seen["bend"].values.mean(axis=-1) > 0
    row, column = np.unravel_index(np.where(concave, cells, -np.inf).argmax(), cells.shape)
    note = f"the best with a concave curve is in row {row + 1}, column {column + 1}"
    return below(estimated(_ahead_of_concave, *_cells(seen), side="upper"), REGRET, note=note)


def alike_on_test_data(seen: xr.Dataset) -> Judgement:
    """Correlation of curvatures of training and test curves."""
    bends = bend(seen["load"].mean("trial"))  # (slope, noise, probe)
    train, test = (bends.sel(probe=each).values.ravel() for each in ("train", "test"))
    return above(np.corrcoef(train, test)[0, 1], 0.9, note="correlation of curvatures over cells")


def ranked_alike(seen: xr.Dataset, *, measure: Callable[[xr.DataArray], xr.DataArray] = bend) -> Judgement:
    """Curvatures by the two definitions of separation, over the cells of nonlinear networks."""
    bent = seen.isel(slope=seen["slope"].values < 1).sel(probe="train")
    cells = (measure(bent[name]).values.reshape(-1, bent.sizes["trial"]) for name in ("load", "load_pinv"))
    return above(rank_correlation(*cells), RANKED, note="rank correlation of curvatures over cells")


def falls_less(seen: xr.Dataset) -> Judgement:
    """The one definition's fall over all layers in units of the other's, of linear networks at the weakest noise."""
    corner = weakest(seen).isel(slope=-1).sel(probe="train")
    fall, other = (corner[name][:, 0] - corner[name][:, -1] for name in ("load", "load_pinv"))
    return below(over_trials(other / fall), 0.5)


# --- the interior ---------------------------------------------------------------------------------------------------


def _along_noise(curvatures: xr.DataArray) -> Estimate:
    """One case for each slope; columns are in the order of their noise."""
    values = curvatures.values  # (slope, noise, trial)
    return rank_correlation(values, np.arange(values.shape[1])[:, None])


def _along_slopes(curvatures: xr.DataArray) -> Estimate:
    """One case for each noise."""
    return rank_correlation(curvatures.values.swapaxes(0, 1), curvatures["slope"].values[:, None])


def falls_along_noise(seen: xr.Dataset) -> Judgement:
    """Order of curvatures along each row."""
    note = "rank correlation of curvature and noise, one case for each slope"
    return below(_along_noise(seen["bend"]), -RANKED, note=note)


def falls_along_slopes(seen: xr.Dataset) -> Judgement:
    """Order of curvatures along each column."""
    note = "rank correlation of curvature and slope, one case for each noise"
    return below(_along_slopes(seen["bend"]), -RANKED, note=note)


def falls_along_both(seen: xr.Dataset) -> Judgement:
    """Means over rows and over columns, with the mean of errors: all share their trials."""
    found = [along(seen["shape"]) for along in (_along_noise, _along_slopes)]
    means, errors = ([np.mean(getattr(each, name)) for each in found] for name in ("mean", "error"))
    note = "rank correlation of curvature per work and noise, mean over slopes; and slope, mean over noises"
    return below(Estimate(np.array(means), np.array(errors), found[0].runs), -RANKED, note=note)


def diagonal(seen: xr.Dataset) -> Judgement:
    """Which share of the noises leaves a concave curve, for each slope and trial."""
    concave = (seen["bend"].values > 0).mean(axis=1)
    found = rank_correlation(concave, seen["slope"].values[:, None])
    return below(found, -RANKED, note="rank correlation of the share of concave curves and slope")
