"""What if: the end of a run under several schedules of its learning rate, before any of them is run."""

import os
import time
from collections.abc import Sequence

import numpy as np
import xarray as xr

from dynascope.checks import Given, scalar
from dynascope.forecasting.curves import Source, read_curves
from dynascope.forecasting.forecasts import forecast, is_rising
from dynascope.forecasting.known import library
from dynascope.records import with_provenance

_STARTS = 5  # of a decay, between now and shortly before the end


def best_schedule(
    run: Given[Source],
    *,
    end: Given[float],
    quantity: Given[str | None] = None,
    like: Given[str | os.PathLike[str] | Sequence[Source] | None] = None,
) -> xr.Dataset:
    """Compare the end of a run under a constant rate, a cosine, and linear decays to zero that start at several steps.

    run: one run whose learning rates are known, as `forecast` takes it
    end: last step of training
    quantity, like: as in `forecast`; earlier runs whose rates fell are what makes this more than a guess

    The result has the quantity at the end over (schedule, quantile), `refused` of each schedule, and in its attributes
    `best`, which can be given to `forecast(run, schedule=…)`, and `sentence`. How far it may be believed:
    docs/forecast.md.

    >>> step = np.arange(0, 1000, 20)
    >>> run = {"step": step, "loss": 0.5 + 2 * (step + 20.0) ** -0.5, "learning_rate": np.full(50, 0.1)}
    >>> best_schedule(run, end=2000)["schedule"].values.tolist()[:3]
    ['constant', 'cosine', 'linear']
    """
    begun = time.perf_counter()
    curves = read_curves(run, quantity)
    if len(curves) > 1:
        raise ValueError(f"run must be one run, got {len(curves)} trials: choose one with .isel(trial=[…])")
    curve = curves[0]
    if curve.rate is None:
        raise ValueError(
            "run must have learning rates, without them no schedule can be compared: record them with "
            'watch(…, optimizer=optimiser), or give {"step": …, "loss": …, "learning_rate": …}'
        )
    last = float(curve.step[-1])
    stop = scalar("end", end, above=last)
    starts = last + (stop - last) * np.arange(1, _STARTS) / _STARTS
    names = ["constant", "cosine", "linear", *(f"wsd:{each:.12g}" for each in starts)]
    known = None if like is None else library(like, quantity)
    found = [forecast(run, until=stop, schedule=each, quantity=quantity, like=known) for each in names]
    result = xr.Dataset(
        {
            curve.name: (("schedule", "quantile"), np.stack([each[curve.name].values[-1] for each in found])),
            "refused": ("schedule", [each.attrs["refused"] for each in found]),
        },
        {"schedule": names, "quantile": found[0]["quantile"].values, "until": stop},
    )
    middle = result[curve.name].sel(quantile=0.5).values
    best = names[int(np.argmax(middle) if is_rising(curve) else np.argmin(middle))]
    return with_provenance(
        result.assign_attrs(best=best, sentence=_sentence(result, curve.name, best)),
        "best_schedule",
        {"quantity": curve.name, "end": stop, "like": len(known.curves) if known else 0},
        seed=None,
        precision="float64",
        wall_time=time.perf_counter() - begun,
        device="CPU",
    )


def _sentence(result: xr.Dataset, name: str, best: str) -> str:
    """Which schedule ends best, and whether the bands can tell it from going on as now."""
    chosen, still = (result[name].sel(schedule=each) for each in (best, "constant"))
    low, middle, high = (float(chosen.sel(quantile=each)) for each in (0.1, 0.5, 0.9))
    text = f"{name} at step {float(result['until']):.12g} is best under {best}: {middle:.4g}, and with 80 % between "
    text += f"{low:.4g} and {high:.4g}"
    if best != "constant":
        text += f"; under a constant rate {float(still.sel(quantile=0.5)):.4g}"
        apart = low > float(still.sel(quantile=0.9)) or high < float(still.sel(quantile=0.1))
        text += "" if apart else ", which the bands do not tell apart"
    reasons = list(dict.fromkeys(each for each in result["refused"].values.tolist() if each))
    return f"no advice ({reasons[0]}); {text}" if reasons else text
