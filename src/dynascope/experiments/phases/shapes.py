"""The shape of load curves: how they bend, how straight they are, and whether the straightest are best.

Which setting is the straightest is read off its mean curve over trials, as in the source: its Figure S5 gives R² of the
curves of Figure 1, which are averages over runs.
"""

from dataclasses import replace

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.experiments.claims import Judgement, above, below, three_errors
from dynascope.measure.separation import curvature, straightness
from dynascope.statistics.ranks import spearman
from dynascope.statistics.resampling import estimated

REGRET = 0.005  # of test accuracy: less than the smallest difference, 0.0059, that Figure S4 reads something into
ALIKE = 0.5  # rank correlation of accuracy and straightness
NEAR = 0.02  # of R²: along the rows of Figure 1 fewer than half of the curves are so near to the straightest


def bend(load: xr.DataArray) -> xr.DataArray:
    """Curvature of each of many curves.

    >>> bend(xr.DataArray([[3.0, 3.0, 2.0, 0.0]], dims=("trial", "layer"))).dims
    ('trial',)
    """
    found: xr.DataArray = xr.apply_ufunc(curvature, load, input_core_dims=[["layer"]])
    return found


def mean_work(load: xr.DataArray) -> xr.DataArray:
    """Mean over layers of |D_{ℓ−1} − D_ℓ|, for each of many curves.

    >>> float(mean_work(xr.DataArray([3.0, 3.0, 2.0, 0.0], dims="layer")))
    1.0
    """
    return abs(load.diff("layer")).mean("layer")


def bend_per_work(load: xr.DataArray) -> xr.DataArray:
    """Curvature of each of many curves in units of the mean work of a layer: a shape, however far the curve falls.

    >>> curve = xr.DataArray([3.0, 3.0, 2.0, 0.0], dims="layer")
    >>> float(bend_per_work(curve)), float(bend_per_work(7 * curve))
    (1.0, 1.0)
    """
    return bend(load) / mean_work(load)


def straight(load: xr.DataArray) -> xr.DataArray:
    """Straightness of each of many curves.

    >>> float(straight(xr.DataArray([3.0, 2.0, 1.0], dims="layer")))
    1.0
    """
    found: xr.DataArray = xr.apply_ufunc(straightness, load, input_core_dims=[["layer"]])
    return found


def _of_mean(load: Float[np.ndarray, "*lead layer"]) -> Float[np.ndarray, "*lead"]:
    """R² of mean curves; 0 of those that there are none of, since a network died."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(straightness(load)))


def _by_trial(load: xr.DataArray) -> Float[np.ndarray, "*setting layer trial"]:
    """Loads as `estimated` takes them."""
    return np.moveaxis(load.values.astype(float), -1, -2)


def best_where_straight(
    accuracy: xr.DataArray,
    load: xr.DataArray,
    *,
    regret: float = REGRET,
    named: str = "test accuracy",
) -> Judgement:
    """Judge that no setting is more accurate, by `regret`, than that whose mean load curve is the straightest.

    What the best of all others has ahead, with the error that trials drawn anew give it, must lie below: noise does not
    help, nor does chance that makes one of several the straightest. Where not even the worst setting is less accurate
    than the best by more than `regret`, this says nothing of straight curves, and the claim is not determined.

    accuracy: over (setting, trial), or what else is better where it is larger, as `named`
    load: over (setting, trial, layer)

    >>> line, arc = xr.DataArray([2.0, 1.0, 0.0], dims="layer"), xr.DataArray([2.0, 1.8, 0.0], dims="layer")
    >>> accuracy = xr.DataArray([[0.8, 0.9, 0.8], [0.5, 0.6, 0.5]], dims=("setting", "trial"))
    >>> load = xr.concat([line, arc], "setting").expand_dims(trial=3, axis=1)
    >>> best_where_straight(accuracy, load).verdict
    'reproduced'
    """
    reached, loads = accuracy.values.astype(float), _by_trial(load)
    cells, straightest = reached.mean(axis=-1), int(_of_mean(loads.mean(axis=-1)).argmax())
    rival = int(np.where(np.arange(len(cells)) == straightest, -np.inf, cells).argmax())
    note = f"{named} at the straightest, {straightest + 1} of {len(cells)}: {cells[straightest]:.4f}; "
    note += f"the best of all others, {rival + 1}, has so much more"
    judged = below(estimated(_ahead, reached, loads, side="upper"), regret, note=note)
    if judged.verdict != "reproduced":
        return judged
    apart = estimated(_apart, reached, side="upper")  # the side that chance, which makes a best and a worst, widens
    told = f"{note}; the worst is {apart.mean:.4f} below the best"
    if apart.mean - three_errors(apart.error, apart.runs) > regret:
        return replace(judged, note=told)
    vague = "which is too little or too uncertain for the choice to matter"
    return replace(judged, verdict="not determined", note=f"{told}, {vague}")


def _apart(reached: np.ndarray) -> np.ndarray:
    return np.asarray(np.ptp(reached, axis=-1))


def _ahead(reached: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """By how much the best of all others is above the setting with the largest R²; settings are on the last axis."""
    curves = _of_mean(loads)
    straightest = curves.argmax(axis=-1, keepdims=True)
    others = np.where(np.arange(curves.shape[-1]) == straightest, -np.inf, reached)
    return np.asarray(others.max(axis=-1) - np.take_along_axis(reached, straightest, axis=-1)[..., 0])


def straight_where_best(accuracy: xr.DataArray, load: xr.DataArray) -> Judgement:
    """Judge that the most accurate setting has the straightest mean curve but for `NEAR` in R².

    accuracy: over (setting, trial); load: over (setting, trial, layer)

    >>> line, arc = xr.DataArray([2.0, 1.0, 0.0], dims="layer"), xr.DataArray([2.0, 1.8, 0.0], dims="layer")
    >>> accuracy = xr.DataArray([[0.8, 0.9, 0.8], [0.5, 0.6, 0.5]], dims=("setting", "trial"))
    >>> load = xr.concat([arc, line], "setting").expand_dims(trial=3, axis=1)
    >>> straight_where_best(accuracy, load).verdict
    'not reproduced'
    """
    reached, loads = accuracy.values.astype(float), _by_trial(load)
    straightest, best = (int(each.argmax()) for each in (_of_mean(loads.mean(axis=-1)), reached.mean(axis=-1)))
    note = f"R² of the straightest, {straightest + 1} of {len(reached)}, less that of the most accurate, {best + 1}"
    return below(estimated(_behind, reached, loads, side="upper"), NEAR, note=note)


def _behind(reached: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """By how much R² of the most accurate setting is below the largest."""
    curves = _of_mean(loads)
    return np.asarray(
        curves.max(axis=-1) - np.take_along_axis(curves, reached.argmax(axis=-1, keepdims=True), axis=-1)[..., 0]
    )


def accurate_as_straight(accuracy: xr.DataArray, load: xr.DataArray) -> Judgement:
    """Judge that accuracy and straightness of mean curves rank settings alike: beyond `ALIKE` by more than its error.

    accuracy: over (setting, trial); load: over (setting, trial, layer)

    >>> curves = [[2.0, 1.0 + bent, 0.0] for bent in (0.0, 0.4, 0.8)]
    >>> load = xr.DataArray(curves, dims=("setting", "layer")).expand_dims(trial=3, axis=1)
    >>> accuracy = xr.DataArray([[0.9] * 3, [0.8] * 3, [0.7] * 3], dims=("setting", "trial"))
    >>> accurate_as_straight(accuracy, load).verdict, accurate_as_straight(-accuracy, load).verdict
    ('reproduced', 'not reproduced')
    """

    def alike(reached: np.ndarray, loads: np.ndarray) -> np.ndarray:
        return spearman(reached, _of_mean(loads))

    found = estimated(alike, accuracy.values.astype(float), _by_trial(load))
    return above(found, ALIKE, note="rank correlation of accuracy and R² over settings")


def straightest_inside(load: xr.DataArray) -> Judgement:
    """Judge that the straightest mean curve lies between the first and the last setting: its R² is beyond either's.

    load: over (…, setting, trial, layer)

    >>> curves = [[2.0, 1.0 + bent, 0.0] for bent in (0.6, 0.0, -0.6)]
    >>> load = xr.DataArray(curves, dims=("setting", "layer")).expand_dims(trial=3, axis=1)
    >>> straightest_inside(load).verdict, straightest_inside(load.isel(setting=[1, 0, 2])).verdict
    ('reproduced', 'not reproduced')
    """
    return above(estimated(_beyond, _by_trial(load), side="lower"), 0.0, note="R² beyond that at either end")


def _beyond(loads: np.ndarray) -> np.ndarray:
    """The largest R² in between less that of the first and of the last setting."""
    curves = _of_mean(loads)
    return np.asarray(curves[..., 1:-1].max(axis=-1, keepdims=True) - curves[..., [0, -1]])
