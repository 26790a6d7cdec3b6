"""A strength for every pair of classes, read off class means by regularised least squares over a window."""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from dynascope.checks import ArrayLike, Times, flag, scalar
from dynascope.models.elastic.geometry import geometry_blocks, sampling_matrix
from dynascope.statistics.derivative import checked_window
from dynascope.statistics.resampling import bootstrap_weights, class_paths, interval, resampled, too_few

_ROUNDING = 1e-14  # eigenvalues below this share of all are not there


def estimate_elasticity(
    times: Times,
    class_means: ArrayLike,
    geometry: str | ArrayLike = "logits",
    *,
    sampling: ArrayLike | None = None,
    window: int | None = None,
    ridge: float = 1e-6,
    symmetric: Any = False,  # Any, here and below: what is neither True nor False is refused by `flag`
    pooled: Any = False,
    resamples: int = 200,
    seed: int = 0,
) -> xr.Dataset:
    """Estimate a general E(t), how strongly training on class l moves class k, from paths of class means.

    X̄_k(t) = const + Σ_l E_kl P_kl H_kl ∫ X̄_l, with E constant over a window of the path: least squares in integral
    form. **This model is saturated**: K² functions of time for K observed class means fit nearly any path. A good fit
    is no evidence for it; judge it on what it was not fitted to.

    times: (time,), even or not.
    class_means: (time, class, feature) or (trial, time, class, feature).
    geometry: as in `geometry_blocks`: "isotropic", "logits", "mixture" or blocks H.
    sampling: as in `sampling_matrix`.
    window: points (odd; a fifth of the path by default); E is that of the window about each time, smoothed by it.
    ridge: share of the mean eigenvalue added to the normal equations; it draws to 0 what the data do not determine.
    symmetric: E_kl = E_lk.
    pooled: take each trial as equations of its own, right where trials differ by start; by default they are averaged
        first.

    Returns elasticity (time, class, other_class), NaN for the first and last half window, with _low and _high (95 %,
    bootstrap) if there is a trial axis; degrees_of_freedom (time,): how many numbers the data determine; ok and the
    attribute reason. More: docs/elastic.md.
    Source: derived from elastic (6); with general E.

    >>> from dynascope.models.elastic.mean_path import isotropic_path
    >>> from dynascope.models.elastic.strengths import Constant
    >>> times = np.linspace(0.0, 2.0, 41)
    >>> path = isotropic_path(times, np.array([[1.0, 0.2], [-0.3, 1.5]]), Constant(1.0), Constant(0.4))
    >>> estimate_elasticity(times, path, "isotropic", ridge=0.0)["elasticity"][20].values.round(3).tolist()
    [[1.0, 0.4], [0.4, 1.0]]
    """
    times, means, several = class_paths(times, class_means)
    classes, features = means.shape[2:]
    forces = sampling_matrix(sampling, classes)[..., None, None] * geometry_blocks(geometry, classes, features)
    points = checked_window(window, len(times)) or max(5, len(times) // 5 | 1)
    ridge, symmetric = scalar("ridge", ridge, at_least=0.0), flag("symmetric", symmetric)
    weights = bootstrap_weights(len(means), resamples, seed)
    if flag("pooled", pooled):
        normals = _normals(times, means, forces, points)
        gram, moment = (part.mean(axis=0) for part in normals)
    else:
        gram, moment = _normals(times, means.mean(axis=0), forces, points)
    found, freedom = _solved(gram, moment, ridge, symmetric)
    variables = {"elasticity": found}
    if several and too_few(len(means)):
        variables |= dict.fromkeys(("elasticity_low", "elasticity_high"), found * np.nan)
    elif several:
        if pooled:
            draws = zip(*(np.tensordot(weights, part, 1) for part in normals), strict=True)
            drawn = np.stack([_solved(gram, moment, ridge, symmetric)[0] for gram, moment in draws])
        else:
            reduce = lambda path: _solved(*_normals(times, path, forces, points), ridge, symmetric)[0]  # noqa: E731
            drawn = resampled(weights, means, reduce, held=classes**2)
        ends = interval(found, drawn, len(means))
        variables |= {"elasticity_low": ends[0], "elasticity_high": ends[1]}
    unknowns = classes * (classes + 1) // 2 if symmetric else classes**2
    reason = f"only {freedom.min():.3g} of {unknowns} numbers are determined, the ridge sets the rest"
    reasons = [reason if freedom.min() < unknowns - 0.5 else "", too_few(len(means)) if several else ""]
    return _labelled(times, variables, freedom, "; ".join(filter(None, reasons)))


def _normals(
    times: np.ndarray, means: Float[np.ndarray, "*lead time class feature"], forces: np.ndarray, points: int
) -> tuple[Float[np.ndarray, "*lead window class class class"], Float[np.ndarray, "*lead window class class"]]:
    """Normal equations of each class in each full window, the constant taken out: (…, window, class k, l, m) and l."""
    summed = CubicSpline(times, means, axis=-3).antiderivative()(times)
    half, windows = points // 2, means.shape[-3] - points + 1
    grams, moments = [], []
    for k, force in enumerate(forces):
        pull, path = np.einsum("lij,...tlj->...lti", force, summed), means[..., k, :]
        middle, centre = (part[..., half : half + windows, :] for part in (pull, path))
        gram = moment = pulls = moved = np.zeros(())
        for first in range(points):  # relative to the middle of the window, so that nothing large cancels
            z = pull[..., first : first + windows, :] - middle
            x = path[..., first : first + windows, :] - centre
            gram = gram + np.einsum("...lti,...mti->...tlm", z, z)
            moment = moment + np.einsum("...lti,...ti->...tl", z, x)
            pulls, moved = pulls + z, moved + x
        grams.append(gram - np.einsum("...lti,...mti->...tlm", pulls, pulls) / points)
        moments.append(moment - np.einsum("...lti,...ti->...tl", pulls, moved) / points)
    return np.stack(grams, axis=-3), np.stack(moments, axis=-2)


def _solved(gram: np.ndarray, moment: np.ndarray, ridge: float, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    """E (…, window, class, class) and how many of its numbers are determined (…, window)."""
    classes = gram.shape[-1]
    if symmetric:  # one system in which E_kl and E_lk are the same unknown
        order = np.zeros((classes, classes), int)
        order[np.triu_indices(classes)] = np.arange(classes * (classes + 1) // 2)
        same = np.eye(order.max() + 1)[np.maximum(order, order.T)]  # (class, class, unknown)
        gram = np.einsum("kla,...klm,kmb->...ab", same, gram, same, optimize=True)
        moment = np.einsum("kla,...kl->...a", same, moment)
    eigen, vectors = np.linalg.eigh(gram)
    eigen = np.maximum(eigen, 0.0)
    total = eigen.sum(axis=-1, keepdims=True)
    raised = eigen + ridge * total / eigen.shape[-1]
    there = raised > _ROUNDING * total
    inverse = np.divide(1.0, raised, out=np.zeros_like(raised), where=there)
    found = np.einsum("...ia,...a,...ja,...j->...i", vectors, inverse, vectors, moment, optimize=True)
    freedom = (eigen * inverse).sum(axis=-1)
    if symmetric:
        return np.asarray(np.einsum("kla,...a->...kl", same, found)), freedom
    return np.asarray(found), freedom.sum(axis=-1)


def _labelled(times: np.ndarray, variables: dict[str, np.ndarray], freedom: np.ndarray, reason: str) -> xr.Dataset:
    """Name the axes; nothing is known of the first and last half window."""
    half = (len(times) - len(freedom)) // 2
    around = [(half, half)]
    pairs = ("time", "class", "other_class")
    dataset = xr.Dataset(
        {name: (pairs, np.pad(v, [*around, (0, 0), (0, 0)], constant_values=np.nan)) for name, v in variables.items()},
        coords={"time": times},
    )
    dataset["degrees_of_freedom"] = ("time", np.pad(freedom, around, constant_values=np.nan))
    return dataset.assign(window=2 * half + 1, ok=not reason).assign_attrs(reason=reason)
