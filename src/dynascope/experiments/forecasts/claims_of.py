"""Judges that experiments on forecasts share."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.forecasts.judged import LAST
from dynascope.statistics.errors import Estimate, over_trials

OwnClaim = partial(Claim, kind="own", settles_at="paper")
BANDS = {0.8: 0.05, 0.95: 0.03}  # what a band shall cover, and the bound
MANY = 500  # curves from which on the bounds hold


def best_mean(seen: xr.Dataset) -> Judgement:
    """Mean error against the best single candidate of each share, in hindsight."""
    gains, notes = [], []
    for share in seen["share"].values:
        error = seen["error"].sel(share=share).transpose("by", "curve")
        alone = error.isel(by=slice(1, None)).dropna("by")
        best = int(np.argmin(alone.mean("curve").values))
        gains.append((alone[best] - error[0]).values)
        notes.append(f"{share:.0%} seen: {float(error[0].mean()):.4g}, {alone['by'].values[best]} "
                     f"{float(alone[best].mean()):.4g}")  # fmt: skip
    return above(over_trials(np.array(gains)), 0.0, note="gain; " + "; ".join(notes))


def best_median(seen: xr.Dataset) -> Judgement:
    """Median error against the least median of the single candidates."""
    ours, others, notes = [], [], []
    for share in seen["share"].values:
        middle = seen["error"].sel(share=share).median("curve")
        alone = middle.isel(by=slice(1, None)).dropna("by")
        ours.append(float(middle[0]))
        others.append(float(alone.min()))
        notes.append(f"{share:.0%} seen: {alone['by'].values[int(np.argmin(alone.values))]}")
    return below(np.array(ours), np.array(others), note="; ".join(notes))


def covers(seen: xr.Dataset, band: float) -> Judgement:
    """Share of ends inside a band, at each share seen; sets of few curves have two binomial errors for a bound.

    Sets that are too small to tell the band from the other one bear nothing out.
    """
    inside = seen["inside"].sel(band=band).transpose("share", "curve").values.mean(1)
    curves = seen.sizes["curve"]
    error = np.sqrt(band * (1 - band) / curves)
    tolerance = BANDS[band] if curves >= MANY else 2 * error
    (other,) = set(BANDS) - {band}
    expected, note = np.full(len(inside), band), f"{curves} curves; rival: {other:.0%}"
    return equal(inside, expected, tolerance, rival=other, error=error, note=note)


def beats_last(seen: xr.Dataset) -> Judgement:
    """Score against the last value with a band of its own, which is calibrated on the same runs."""
    score = seen["pinball"].transpose("rival", "share", "curve")
    gain = over_trials((score.sel(rival=LAST) - score.sel(rival="forecast")).values)
    ours = score.sel(rival="forecast").mean("curve").values
    return above(gain, 0.0, note="gain in CRPS; forecasts " + ", ".join(f"{each:.4g}" for each in ours))


def at_most(seen: xr.Dataset, names: Sequence[str], bounds: dict[float, float]) -> Judgement:
    """Mean error of the runs of some schedules at shares seen."""
    chosen = [any(f"/{name}_" in str(group) for name in names) for group in seen["group"].values]
    error = seen["error"].sel(by="forecast").transpose("share", "curve").values[:, chosen]
    shares = list(seen["share"].values)
    found = np.array([error[shares.index(share)].mean() for share in bounds])
    return below(found, np.array(list(bounds.values())), note=f"{sum(chosen)} runs, " + ", ".join(map(str, bounds)))


def theory_weight(seen: xr.Dataset) -> Estimate:
    """Weight of the theory's candidates, mean over shares, of each curve."""
    weight = seen["weight"].sel(candidate=["mode", "skills"]).sum("candidate").mean("share")
    return over_trials(weight.values)
