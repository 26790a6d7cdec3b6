"""How networks learn several skills, foreseen from one alone; beside what foresees it with less.

A record holds, for each resource `kind` (time, data, parameters), `…_strength` (…_trial, skill, …) of networks with all
skills and `…_alone` (…_trial, alone_…) of networks with one, as R/S; and the scalars `skill_exponent`, `target`,
`initial` and `learning_rate`.
"""

from collections.abc import Callable

import numpy as np
import xarray as xr

from dynascope.models.multilinear import Multilinear, estimate_emergence
from dynascope.statistics.errors import Estimate

START_SHARE = 3.6  # R(0) = initial²/3.6, as the authors calibrate
FORMS = {"time": "time", "data_printed": "data", "data": "data", "parameters": "parameters"}  # curve -> resource


def model(record: xr.Dataset, skills: int) -> Multilinear:
    """The multilinear model of the networks, with some of their skills."""
    alpha, target, rate = (float(record[name]) for name in ("skill_exponent", "target", "learning_rate"))
    return Multilinear(skills, alpha, target, float(record["initial"]) ** 2 / START_SHARE, rate)


def forecast(record: xr.Dataset, form: str) -> xr.Dataset:
    """Calibrate one curve on one skill alone and predict all: value, low, high, fit (x alone), predicted (skill, x)."""
    kind, printed = FORMS[form], form == "data_printed"
    target, alone, skills = float(record["target"]), f"alone_{kind}", record["skill"].values
    measured = target * record[f"{kind}_alone"].transpose(..., alone).values
    fit = estimate_emergence(kind, record[alone].values, measured, model=model(record, 1), published=printed)
    value, x = float(fit["value"]), record[kind].values
    predicted = model(record, len(skills)).emergence(kind, skills, x, calibration=value, published=printed)
    return xr.Dataset(
        {
            **{f"{form}_{name}": float(fit[name]) for name in ("value", "low", "high", "standard_error")},
            f"{form}_fit": (alone, fit["fitted"].values / target),
            f"{form}_predicted": (("skill", kind), predicted / target),
        },
        coords={"skill": record["skill"], kind: record[kind], alone: record[alone]},
    )


def baselines(record: xr.Dataset, kind: str) -> dict[str, np.ndarray]:
    """What predicts R/S (skill, x) with less: the model without calibration, and without frequencies.

    plain: the multilinear model, which has its skill functions. same: every skill is learned as one alone. stretched:
    as one alone, with P(k) of the resource; no model at all.
    """
    skills, x = record["skill"].values, record[kind].values
    all_skills = model(record, len(skills))
    places, alone = record[f"alone_{kind}"].values, record[f"{kind}_alone"].mean(f"{kind}_trial").values
    plain = all_skills.emergence(kind, skills, x) / float(record["target"])
    share = all_skills.frequency(skills)[:, None] if kind != "parameters" else 1 / skills[:, None]
    stretched = np.interp(share * x, places, alone)
    return {"plain": plain, "same": np.broadcast_to(np.interp(x, places, alone), plain.shape), "stretched": stretched}


def distances(record: xr.Dataset, form: str) -> dict[str, float]:
    """Mean distance between the networks' mean strength and each prediction, over all but the first skill and all x.

    model: the calibrated curve; plain, same, stretched: see `baselines`; noise: of the mean over all trials itself.
    """
    kind, strength = FORMS[form], record[f"{FORMS[form]}_strength"]
    mean, *halves = (part.mean(f"{kind}_trial").values for part in (strength, strength[::2], strength[1::2]))
    predictions = {"model": forecast(record, form)[f"{form}_predicted"].values} | baselines(record, kind)
    found = {name: np.abs(mean - each) for name, each in predictions.items()}
    found["noise"] = np.abs(halves[0] - halves[1]) / 2
    return {name: float(each[1:].mean()) for name, each in found.items()}


def left_out(record: xr.Dataset, kind: str, measure: Callable[[xr.Dataset], np.ndarray]) -> Estimate:
    """A measure, and its error by leaving out one trial after another, both of one skill alone and of all."""
    trials = record.sizes[f"{kind}_trial"]
    left = np.stack([measure(record.drop_isel({f"{kind}_trial": [trial]})) for trial in range(trials)])
    return Estimate(measure(record), np.asarray(np.sqrt((trials - 1) * left.var(axis=0))), trials)


def passing(x: np.ndarray, curve: np.ndarray, level: float = 0.5) -> float:
    """Where a rising curve first passes a level; NaN where it does not.

    >>> passing(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.4, 0.8]))
    1.25
    """
    above = np.flatnonzero(curve >= level)
    if not above.size or above[0] == 0:
        return float("nan")
    at = above[0]
    share = (level - curve[at - 1]) / (curve[at] - curve[at - 1])
    return float(x[at - 1] + share * (x[at] - x[at - 1]))
