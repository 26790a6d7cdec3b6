"""Linear models: how fast each eigenmode is learned, how much of it from few samples, and what noise costs."""

import time
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import ArrayLike, Times, as_float, increasing, require, scalar
from dynascope.models.parameters import ParameterValue, broadcast
from dynascope.records import with_provenance

_HALVINGS = 100  # brackets of κ span at most a few hundred e-folds: more than enough for float64


def mode_curves(
    times: Times, eigenvalues: ArrayLike, target: ArrayLike = 1.0, *, start: ArrayLike = 0.0
) -> Float[np.ndarray, "*grid mode time"]:
    """Coefficients of a linear model over time, one curve for each eigenmode, from infinitely many samples.

    c_k(t) = S_k + (c_k(0) − S_k) exp(−ρ_k t)

    times: increasing list, in gradient-flow time (learning rate × steps).
    eigenvalues: ρ_k ≥ 0 (…, mode), such as E[x_k²] of independent inputs.
    target: S_k = ⟨e_k|f*⟩, a number or (…, mode). start: c_k(0), likewise.
    The loss is ½ E[(f − f*)²]. Source: layerwise (1.17), (1.26), (3.5), (3.7), (3.10).

    >>> mode_curves([0.0, np.log(2)], [1.0, 2.0]).round(3).tolist()
    [[0.0, 0.5], [0.0, 0.75]]
    """
    save = increasing("times", times)
    rates, goal, begin = (
        as_float(name, value)[..., None]
        for name, value in (("eigenvalues", eigenvalues), ("target", target), ("start", start))
    )
    require("eigenvalues", rates, rates >= 0, "be at least 0")
    return np.asarray(begin - (goal - begin) * np.expm1(-rates * save))


def learnability(
    eigenvalues: ParameterValue,
    *,
    samples: ParameterValue,
    ridge: ParameterValue = 0.0,
    noise: ParameterValue = 0.0,
    target: ParameterValue | None = None,
) -> xr.Dataset:
    """How much of each eigenmode a linear model learns from `samples` examples, and the test loss to expect.

    L_k = ρ_k/(ρ_k + κ), Σ_k ρ_k/(ρ_k + κ) + δ/κ = n

    eigenvalues: ρ_k ≥ 0 (…, mode) of the features, in any order.
    samples: n > 0. ridge: δ ≥ 0 in Σ_i (f(x_i) − y_i)² + δ |w|² (not divided by n).
    noise: standard deviation σ of the labels. Samples, ridge and noise may vary over a grid.
    target: coefficients ⟨e_k|f*⟩ (…, mode); without it only the loss that noise causes is returned.

    Returns learnability and eigenvalue (…grid, mode), kappa, overfitting E = n/(n − Σ L_k²), noise_loss = σ² (E − 1)/2
    and, with a target, signal_loss = E Σ (1 − L_k)² ⟨e_k|f*⟩²/2 and test_loss, their sum: ½ E[(f − f*)²] against clean
    labels. Exact for Gaussian features as n and the number of modes grow together, off by about 1/n before; features of
    a one-dimensional input can be far from it where noise is concerned. Without a ridge n must stay below the number of
    modes with ρ_k > 0: beyond, every mode is learned and no κ > 0 exists.
    Source: layerwise (1.35); with ridge and noise after its reference [24].

    >>> found = learnability([1.0] * 4, samples=1, target=[1.0, 0.0, 0.0, 0.0])
    >>> found["learnability"].values.round(6).tolist(), float(found["test_loss"].round(6))
    ([0.25, 0.25, 0.25, 0.25], 0.375)
    """
    begun = time.perf_counter()
    given: dict[str, Any] = {"eigenvalues": eigenvalues, "samples": samples, "ridge": ridge, "noise": noise}
    core: dict[str, tuple[str, ...]] = {"eigenvalues": ("mode",), "samples": (), "ridge": (), "noise": ()}
    if target is not None:
        given, core = given | {"target": target}, core | {"target": ("mode",)}
    reserved = ("mode", "learnability", "eigenvalue", "kappa", "overfitting", "noise_loss", "signal_loss", "test_loss")
    fields, grid = broadcast(given, core=core, reserved=reserved)
    spectrum, count, penalty = fields["eigenvalues"], fields["samples"], fields["ridge"]
    for name in ("eigenvalues", "ridge", "noise"):
        require(name, fields[name], fields[name] >= 0, "be at least 0")
    require("samples", count, count > 0, "be above 0")
    _check_determined(spectrum, count, penalty)
    kappa = np.broadcast_to(_solve_kappa(spectrum, count, penalty), grid.shape)
    learned = spectrum / (spectrum + kappa[..., None])
    overfitting = count / (count - np.sum(learned**2, axis=-1))
    losses = {"noise_loss": fields["noise"] ** 2 * (overfitting - 1) / 2}
    if target is not None:
        losses["signal_loss"] = overfitting * np.sum((1 - learned) ** 2 * fields["target"] ** 2, axis=-1) / 2
        losses["test_loss"] = losses["noise_loss"] + losses["signal_loss"]
    values = {"kappa": kappa, "overfitting": overfitting} | losses
    by_mode, shape = {"learnability": learned, "eigenvalue": spectrum}, (*grid.shape, learned.shape[-1])
    result = xr.Dataset(
        {name: ((*grid.dims, "mode"), np.broadcast_to(value, shape).copy()) for name, value in by_mode.items()}
        | {name: (grid.dims, np.broadcast_to(value, grid.shape).copy()) for name, value in values.items()},
        coords={"mode": np.arange(1, learned.shape[-1] + 1)} | grid.coordinates,
    )
    settings = {name: fields[name] for name in ("samples", "ridge", "noise")}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        result, "learnability", settings, options={}, seed=None, precision="float64", wall_time=wall_time
    )


def _check_determined(spectrum: np.ndarray, count: np.ndarray, penalty: np.ndarray) -> None:
    modes = np.sum(spectrum > 0, axis=-1)
    full, few = np.broadcast_arrays(count, (penalty > 0) | (count < modes))
    require(
        "samples",
        full,
        few,
        f"be below the number of modes with a positive eigenvalue ({int(np.max(modes))}) when ridge is 0: with more, "
        "every mode is learned and no κ > 0 solves (1.35); give a ridge, or fewer samples",
    )


def _solve_kappa(spectrum: np.ndarray, count: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """The κ > 0 of (1.35) by bisection of log κ between bounds that always enclose it.

    Above: ρ/(ρ+κ) < ρ/κ gives κ < (Σρ + δ)/n. Below: δ/κ < n, and the m = ⌊n⌋ + 1 largest modes alone fill
    m ρ_m/(ρ_m + κ) < n.
    """
    ordered = -np.sort(-spectrum, axis=-1)
    enough = np.minimum(np.floor(count).astype(int), spectrum.shape[-1] - 1)  # index of ρ_m
    shape = np.broadcast_shapes(spectrum.shape[:-1], count.shape, penalty.shape)
    edge = np.take_along_axis(
        np.broadcast_to(ordered, (*shape, ordered.shape[-1])), np.broadcast_to(enough, shape)[..., None], axis=-1
    )[..., 0]
    low = np.maximum(penalty / count, edge * np.maximum(enough + 1 - count, 0.0) / count)
    low, high = np.log(low), np.log((spectrum.sum(axis=-1) + penalty) / count)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        kappa = np.exp(middle)
        filled = np.sum(spectrum / (spectrum + kappa[..., None]), axis=-1) + penalty / kappa
        low, high = np.where(filled > count, middle, low), np.where(filled > count, high, middle)
    return np.asarray(np.exp((low + high) / 2))


def minimum_norm(features: ArrayLike, labels: ArrayLike, *, ridge: float = 0.0) -> Float[np.ndarray, " feature"]:
    """Weights of least norm among those that fit the labels best: where gradient flow from 0 ends.

    w = Φᵀ (Φ Φᵀ)⁺ y, or the minimum of |Φ w − y|² + δ |w|² with a ridge δ.

    features: Φ (sample, feature). labels: y (sample,). Singular values below 1e-12 of the largest count as 0.
    Source: layerwise (A.7), (A.8).

    >>> minimum_norm([[1.0, 1.0]], [2.0]).round(6).tolist()
    [1.0, 1.0]
    """
    return np.asarray(training_path([np.inf], features, labels, ridge=ridge)[0])


def training_path(
    times: ArrayLike, features: ArrayLike, labels: ArrayLike, *, ridge: float = 0.0
) -> Float[np.ndarray, "time feature"]:
    """Weights over time under gradient flow from 0 on finitely many samples.

    w(t) = Σ_j u_j s_j/(s_j² + δ) (1 − exp(−(s_j² + δ) t/n)) ⟨v_j, y⟩, Φ = Σ_j s_j v_j u_jᵀ

    times: flow times for the loss (1/2n) (Σ_i (f(x_i) − y_i)² + δ |w|²), infinity allowed; (A.9) as printed leaves out
    1/n, and runs n times too fast.
    features: Φ (sample, feature). labels: y (sample,). Source: layerwise (1.10), (1.12), (A.9), (A.10), (A.12); solved.

    >>> training_path([np.log(2), np.inf], [[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0]).round(3).tolist()
    [[0.293, 0.293], [1.0, 1.0]]
    """
    matrix, goal = as_float("features", features), as_float("labels", labels)
    if matrix.ndim != 2 or goal.shape != matrix.shape[:1] or matrix.size == 0:
        raise ValueError(
            f"features must have shape (sample, feature) and labels (sample,), got {matrix.shape} and {goal.shape}"
        )
    penalty = scalar("ridge", ridge, at_least=0.0)
    save = np.asarray(times, float)
    require("times", save, save >= 0, "be at least 0")
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    kept = sizes > 1e-12 * sizes.max(initial=0.0)
    left, sizes, right = left[:, kept], sizes[kept], right[kept]
    rate = sizes**2 + penalty
    done = -np.expm1(-np.outer(save, rate) / len(goal))  # (time, singular value)
    return np.asarray((done * (left.T @ goal * sizes / rate)) @ right)
