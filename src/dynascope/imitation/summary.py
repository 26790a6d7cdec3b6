"""What an imitation shows: a table of differences beside their baselines, and sentences."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

HEAD = ("model", "functions", "held-out H", "held-out plain", "forecast H", "forecast plain", "fitted plain")
EXPLAINED = (
    "Relative differences: 0 is perfect, 2 the worst. Held-out: fitted to half of the networks, compared with the "
    "other half. Forecast: fitted to the second quarter of training, compared with its second half. Noise floor: half "
    "of the networks against the other half. H: along the margin of each class; plain: all logits."
)
_KINDS = (("relative_difference", "noise_floor"), ("forecast_difference", "forecast_noise_floor"))
_BASELINES = ("baseline_difference", "forecast_baseline_difference")


def averages(values: xr.DataArray) -> tuple[float, float]:
    """Mean over the times that are known and over classes, in the H-norm and in the plain norm.

    >>> averages(xr.DataArray(np.ones((2, 3, 4)), dims=("norm", "time", "class")))
    (1.0, 1.0)
    """
    means = values.mean(("time", "class")).values
    return float(means[0]), float(means[1])


def geometries(result: xr.Dataset) -> list[xr.Dataset]:
    """The result of each geometry by itself.

    >>> [str(each["geometry"].values) for each in geometries(xr.Dataset(coords={"geometry": ["logits", "kernel"]}))]
    ['logits', 'kernel']
    """
    if "geometry" not in result.dims:
        return [result]
    return [result.isel(geometry=place) for place in range(result.sizes["geometry"])]


def best(result: xr.Dataset, by: str = "relative_difference") -> xr.Dataset:
    """The geometry with the least difference in the plain norm; saturated ones only where there are no others.

    by: relative_difference (other networks; the forecast where a single run has none) or forecast_difference.

    >>> plain = xr.DataArray([[[[2.0]], [[2.0]]], [[[1.0]], [[1.0]]]], dims=("geometry", "norm", "time", "class"))
    >>> flags = xr.DataArray(np.zeros((2, 2), bool), dims=("geometry", "norm"))
    >>> both = xr.Dataset({"relative_difference": plain, "forecast_difference": plain, "saturated": flags})
    >>> str(best(both.assign_coords(geometry=["a", "b"]))["geometry"].values)
    'b'
    """
    found = geometries(result)
    free = [each for each in found if not bool(each["saturated"][1])] or found
    known = by if np.isfinite(free[0][by]).any() else "forecast_difference"
    return min(free, key=lambda each: np.nan_to_num(averages(each[known])[1], nan=np.inf))


def table(result: xr.Dataset) -> Iterator[tuple[str, ...]]:
    """Rows under `HEAD`: noise floor, baselines, then every geometry.

    >>> from dynascope import LocallyElastic, imitate
    >>> run = LocallyElastic(noise=0.01).simulate(duration=20.0, samples=4, trials=6)
    >>> [row[0] for row in table(imitate(run, resamples=20))]
    ['noise floor', 'persistence', 'isotropic', 'trend', 'logits']
    """
    floors = [number for _, floor in _KINDS for number in averages(result[floor])]
    yield ("noise floor", "", *map(_shown, floors), "")
    shown = {str(each["geometry"].values) for each in geometries(result)}
    for place, name in enumerate(result["baseline"].values.tolist()):
        if name in shown:
            continue  # it has a row of its own
        numbers = [number for key in _BASELINES for number in averages(result[key].isel(baseline=place))]
        fitted = averages(result["fitted_baseline_difference"].isel(baseline=place))[1]
        yield (name, "", *map(_shown, numbers), _shown(fitted))
    for each in geometries(result):
        numbers = [number for name, _ in _KINDS for number in averages(each[name])]
        functions = f"{int(each['functions_fitted'])} of {int(each['functions_observed'][1])}"
        note = ", saturated" if bool(each["saturated"][1]) else ""
        name = str(each["geometry"].values)
        yield (name, functions + note, *map(_shown, numbers), _shown(averages(each["fitted_difference"])[1]))


def _shown(number: float) -> str:
    return f"{number:.3f}" if np.isfinite(number) else "–"


def sentences(result: xr.Dataset) -> list[str]:
    """What it comes to, in words with numbers.

    >>> from dynascope import LocallyElastic, imitate
    >>> run = LocallyElastic(noise=0.01).simulate(duration=20.0, samples=4, trials=6)
    >>> sentences(imitate(run, resamples=20))[0][:53]
    'closest on networks that it was not fitted to: logits'
    """
    chosen = best(result)
    name, found = str(chosen["geometry"].values), []
    held, floor = (averages(each)[1] for each in (chosen["relative_difference"], result["noise_floor"]))
    if np.isfinite(held):
        found.append(
            f"closest on networks that it was not fitted to: {name}, with a relative difference of {held:.3f} in the "
            f"plain norm; two halves of the networks differ by {floor:.3f}"
            + (f": {held / floor:.2f} times the noise floor" if floor > 0 else "")
        )
    else:
        found += ["a single run has no other half: only its forecast is judged on what was not fitted", _ahead(result)]
    for each in geometries(result):
        observed = int(each["functions_observed"][1])
        if bool(each["saturated"][1]):
            found.append(
                f"{each['geometry'].values} is saturated: {int(each['functions_fitted'])} functions of time are fitted "
                f"to {observed} observed ones, a good fit is no evidence for it"
            )
        if str(each["geometry"].values) in ("isotropic", "logits"):
            found.append(f"Theorem 3.1 on the {each['geometry'].values} model: {each['verdict'].values}")
    stages = float(result["amplification_time"])
    when = f"class means stop turning and only grow from step {stages:g} on" if np.isfinite(stages) else ""
    return [*found, when or f"no two stages: {result.attrs['stages']}"]


def _ahead(result: xr.Dataset) -> str:
    chosen = best(result, "forecast_difference")
    score = averages(chosen["forecast_difference"])[1]
    if not np.isfinite(score):
        return "the published procedure makes no forecast"
    rows = zip(result["baseline"].values, result["forecast_baseline_difference"], strict=True)
    beside = ", ".join(f"{name} {averages(each)[1]:.3f}" for name, each in rows)
    floor = averages(result["forecast_noise_floor"])[1]
    halves = f", half of the networks against half {floor:.3f}" if np.isfinite(floor) else ""
    return (
        f"best forecast of the second half of training: {chosen['geometry'].values}, with a relative difference of "
        f"{score:.3f} in the plain norm ({beside}{halves})"
    )
