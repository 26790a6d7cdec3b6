"""One skill of an extended model (5.1), (5.3), (5.6), trained by gradient flow: the check of the closed forms.

In all three the loss of a skill is ½ (a B − goal)ᵀ M (a B − goal) in its parameters a and B, and its strength is
a B·readout. M = Φ Φᵀ/D is the second moment of the basis functions in the data, P(k) times the identity for D → ∞.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import ArrayLike, Times, as_float, count, increasing, require, scalar
from dynascope.deprecation import renamed


@dataclass(frozen=True)
class ExtendedSkill:
    """A skill f = a Σ_l B_l e_l: the second moment of its basis in the data, its goal and how its strength is read.

    >>> scaled_skill(0.5, frequency=1.0, target=2.0).goal.tolist()
    [4.0]
    """

    moment: Float[np.ndarray, "basis basis"]
    goal: Float[np.ndarray, " basis"]
    readout: Float[np.ndarray, " basis"]

    def solve(
        self, times: Times, first: float, second: ArrayLike, *, learning_rate: float = 1.0, accuracy: float = 1e-10
    ) -> xr.Dataset:
        """Follow a' = −η ∂loss/∂a, B' = −η ∂loss/∂B from a = `first`, B = `second`.

        Returns over time strength a B·readout, loss on the data, first a, second B (time, basis) and imbalance
        a² − |B|², which the flow conserves (Lemma 3). Time is steps; accuracy: the relative error that is aimed at.
        Source: layerwise (B.21), (B.23).

        >>> run = scaled_skill(1.0, frequency=1.0, target=1.0).solve([0.0, 20.0], 0.1, [0.1])
        >>> run["strength"].round(6).values.tolist()
        [0.01, 1.0]
        """
        grid = increasing("times", times)
        begin = as_float("second", second)
        if begin.shape != self.goal.shape:
            raise ValueError(f"second must have the shape (basis,) = {self.goal.shape}, got {begin.shape}")
        rate = scalar("learning_rate", learning_rate, above=0.0)
        state = np.concatenate([[scalar("first", first)], begin])
        path = self._path(grid, state, rate, scalar("accuracy", accuracy, at_least=1e-12))
        a, b = path[:, 0], path[:, 1:]
        miss = a[:, None] * b - self.goal
        values = {
            "strength": a * (b @ self.readout),
            "loss": np.einsum("ti,ij,tj->t", miss, self.moment, miss) / 2,
            "first": a,
            "imbalance": a**2 - (b**2).sum(axis=1),
        }
        return xr.Dataset(
            {**{name: ("time", value) for name, value in values.items()}, "second": (("time", "basis"), b)},
            coords={"time": ("time", grid, {"units": "training steps"})},
        )

    def _path(
        self, times: np.ndarray, state: np.ndarray, rate: float, accuracy: float
    ) -> Float[np.ndarray, "time parameter"]:
        from scipy.integrate import solve_ivp  # noqa: PLC0415 (slow to import, and only this needs it)

        def slope(_: float, parameters: np.ndarray) -> np.ndarray:
            a, b = parameters[0], parameters[1:]
            felt = -rate * (a * b - self.goal) @ self.moment
            return np.concatenate([[felt @ b], a * felt])

        span = (0.0, max(float(times[-1]), 1e-300))
        within = {"rtol": accuracy / 10, "atol": accuracy / 1e4}
        return np.asarray(solve_ivp(slope, span, state, method="DOP853", t_eval=times, **within).y.T)

    flow = renamed("flow", solve)


def scaled_skill(feature_scale: float, *, frequency: float, target: float) -> ExtendedSkill:
    """(5.1): f = a b 𝓑 g, a basis function of size 𝓑 and unlimited data. Source: layerwise (5.1).

    >>> scaled_skill(0.5, frequency=0.2, target=1.0).moment.tolist()
    [[0.05]]
    """
    scale = scalar("feature_scale", feature_scale, above=0.0)
    share = scalar("frequency", frequency, above=0.0)
    goal = np.array([scalar("target", target, above=0.0) / scale])
    return ExtendedSkill(np.array([[share * scale**2]]), goal, np.array([scale]))


def sampled_skill(features: ArrayLike, *, data: int, target: float) -> ExtendedSkill:
    """(5.3): D_c basis functions e_l with g = Σ e_l/√D_c, seen on d samples out of D.

    features: e_l(x_j), (sample, basis). data: D, the size of the whole training set. Source: layerwise (5.3), (B.15).

    >>> sampled_skill([[1.0, -1.0]], data=4, target=1.0).moment.tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    phi = as_float("features", features)
    if phi.ndim != 2:
        raise ValueError(f"features must be (sample, basis), got shape {phi.shape}")
    if count("data", data) < len(phi):
        raise ValueError(f"data must be at least the number of samples {len(phi)}, got {data}")
    readout = np.full(phi.shape[1], 1 / np.sqrt(phi.shape[1]))
    return ExtendedSkill(phi.T @ phi / data, scalar("target", target, above=0.0) * readout, readout)


def partial_skill(available: int, nodes: int, *, frequency: float, target: float) -> ExtendedSkill:
    """(5.6): the first `available` of the N_c = `nodes` basis functions of a skill, and unlimited data.
    Source: layerwise (5.6), (5.8).

    >>> partial_skill(1, 4, frequency=0.5, target=2.0).goal.tolist()
    [1.0]
    """
    have, all_of_them = count("available", available), count("nodes", nodes)
    require("available", np.array(have), np.array(have <= all_of_them), f"be at most nodes = {all_of_them}")
    readout = np.full(have, 1 / np.sqrt(all_of_them))
    share = scalar("frequency", frequency, above=0.0)
    return ExtendedSkill(share * np.eye(have), scalar("target", target, above=0.0) * readout, readout)


def minimum_norm_strength(features: ArrayLike, readout: ArrayLike) -> Float[np.ndarray, "..."]:
    """R/S of the minimum-norm fit of g = e·readout on samples of the basis: |projection of readout on their span|².

    features: e_l(x_j), (…, sample, basis), any number of leading axes. readout: (basis,), of length 1: g in the basis.
    Where samples determine everything it is 1. Found by singular values, not by any closed form.
    Source: layerwise (C.5).

    >>> float(minimum_norm_strength([[1.0, 1.0]], [1.0, 0.0]).round(6))
    0.5
    """
    phi, direction = as_float("features", features), as_float("readout", readout)
    if phi.ndim < 2 or direction.shape != phi.shape[-1:]:
        raise ValueError(
            f"features must be (…, sample, basis) with readout (basis,), got {phi.shape}, {direction.shape}"
        )
    _, size, rows = np.linalg.svd(phi, full_matrices=False)
    spans = size > 1e-10 * size.max(axis=-1, keepdims=True)
    return np.asarray(np.sum(np.where(spans, rows @ direction, 0.0) ** 2, axis=-1))


def sample_basis(kind: str, basis: int, samples: int, *, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of D_c basis functions that fulfil (5.4) on random samples: (trial, sample, basis), and g in that basis.

    kind: "parities": rotated so that g is the first of D_c independent parities (signs). "gaussian": jointly Gaussian,
    which drops |g| = 1. "cells": e_l = √D_c g on one of D_c equally likely cells of the input and 0 elsewhere.
    Source: layerwise (5.4).

    >>> values, readout = sample_basis("cells", 4, 3, trials=2, seed=0)
    >>> values.shape, bool(np.allclose(abs(values @ readout), 1))
    ((2, 3, 4), True)
    """
    random, shape = np.random.default_rng(seed), (count("trials", trials), count("samples", samples), basis)
    if kind == "cells":
        cell = random.integers(basis, size=shape[:2])
        sign = random.choice([-1.0, 1.0], size=shape[:2])
        values = np.sqrt(basis) * sign[..., None] * (cell[..., None] == np.arange(basis))
        return values, np.full(basis, 1 / np.sqrt(basis))
    values = random.standard_normal(shape)
    return (np.sign(values) if kind == "parities" else values), np.eye(basis)[0]
