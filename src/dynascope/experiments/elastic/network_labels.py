"""Strengths of networks with wrong labels, read off the drawn samples by the label that they are trained on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dynascope.experiments.elastic.network_drawn import first_updates, from_starts, known_mean, last_updates, right
from dynascope.imitation.drawn import drawn_means, shuffled
from dynascope.statistics.errors import over_trials
from dynascope.statistics.resampling import bootstrap_weights

STRENGTHS = ("intra", "inter")
READ = {"I-model": "isotropic", "L-model": "logits"}  # with the source's code
RESAMPLES = 100


def by_share(trained: xr.Dataset, length: int, *, shares: Sequence[float], seed: int) -> xr.Dataset:
    """What the source reads after so many updates of networks (share × trial, …), at each share of wrong labels."""
    drawn = (trained[name].values[:, :length, 0] for name in ("drawn_output", "drawn_label"))
    logits, own = (each.reshape((len(shares), -1, *each.shape[1:])) for each in drawn)
    read = [by_label(each, of, seed) for each, of in zip(logits, own, strict=True)]
    return xr.concat(read, xr.Variable("share", list(shares)))


def averaged(ensembles: list[xr.Dataset]) -> xr.Dataset:
    """Means over ensembles of what `by_share` reads; errors of such means.

    >>> found = averaged([xr.Dataset({"a": 1.0, "a_error": 0.2}), xr.Dataset({"a": 3.0, "a_error": 0.2})])
    >>> float(found["a"]), round(float(found["a_error"]), 3)
    (2.0, 0.141)
    """
    together = xr.concat(ensembles, "ensemble")
    squares = {name: each**2 / len(ensembles) for name, each in together.items() if str(name).endswith("_error")}
    return together.mean("ensemble").assign({name: each.mean("ensemble") ** 0.5 for name, each in squares.items()})


def by_label(
    logits: Float[np.ndarray, "trial update logit"], labels: Int[np.ndarray, "trial update"], seed: int
) -> xr.Dataset:
    """What the source reads: class means of the samples as drawn, by the label they are trained on, at each update.

    In the last 1000 updates, mean over the updates that may be X̄(0): A, B, A − B and tail indices over `strength`, the
    rate of A − B since the middle times the length of the class means, and `excess`, what A − B is beyond its value
    with shuffled labels; `memorised`, the share of samples that networks have by the label that they are trained on;
    each with its standard error over networks.
    """
    starts, late = first_updates(labels, logits.shape[2]), last_updates(logits.shape[1])
    chosen = np.concatenate([starts, late - late[0] // 2, late])
    weights = np.concatenate([np.full((1, len(labels)), 1.0), bootstrap_weights(len(labels), RESAMPLES, 0)])
    means = drawn_means(logits[:, chosen], labels[:, chosen], weights)
    null = drawn_means(logits[:, late], shuffled(labels[:, late], seed), weights)
    null = np.concatenate([means[:, : len(starts)], null], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # updates at which no network drew a label are left out
        found = [_tails(means, null, len(starts), late, geometry) for geometry in READ.values()]
    memorised = over_trials(right(logits[:, late], labels[:, late]).mean(axis=1))
    content: dict[str, Any] = {"memorised": memorised.mean, "memorised_error": memorised.error}
    for name in found[0]:
        values = np.stack([each[name] for each in found], axis=1)  # (resample, model, …)
        dims = ("model", "strength")[: values.ndim - 1]
        content[f"label_{name}"] = (dims, values[0])
        content[f"label_{name}_error"] = (dims, np.nanstd(values[1:], axis=0, ddof=1))
    return xr.Dataset(content, coords={"model": list(READ), "strength": [*STRENGTHS, "gap"]})


def _tails(
    means: Float[np.ndarray, "resample update class logit"],
    null: Float[np.ndarray, "resample update class logit"],
    starts: int,
    late: Int[np.ndarray, " late"],
    geometry: str,
) -> dict[str, np.ndarray]:
    """Integrated strengths and tail indices (resample, strength), the adjusted rate and the excess (resample,)."""
    curves = from_starts(means, starts, geometry, "code")
    middle, end = np.split(curves, 2, axis=-1)
    integrated, before = (known_mean(part, axis=(-1, -2)) for part in (end, middle))
    index = 1 - known_mean(np.log(np.abs(end)) / np.log1p(late), axis=(-1, -2))
    length = known_mean(np.linalg.norm(means[:, -len(late) :], axis=-1).reshape(len(means), -1))
    rate = (integrated - before)[:, -1] / (late[0] // 2)
    chance = known_mean(from_starts(null, starts, geometry, "code"), axis=(-1, -2))[:, -1]
    return {"integrated": integrated, "tail": index, "adjusted": rate * length, "excess": integrated[:, -1] - chance}
