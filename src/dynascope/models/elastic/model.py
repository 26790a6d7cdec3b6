"""The locally elastic model as users meet it: strengths, geometry and sampling in, labelled paths out."""

import time
from functools import partial
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.integrate import solve_ivp

from dynascope.models.elastic.geometry import drift_matrix, geometry_blocks, sampling_matrix
from dynascope.models.elastic.mean_path import general_path, isotropic_path, logit_path
from dynascope.models.elastic.strengths import Constant, Sampled, Strength, as_strength
from dynascope.models.noise import normals, seed_key
from dynascope.models.parameters import Grid, ParameterValue, as_float, broadcast, count, increasing, require, scalar
from dynascope.models.stepping import padded_trials
from dynascope.progress import progress_bar
from dynascope.records import with_provenance

CITE = "zhang2021imitating"

_RESULT_NAMES = ("trial", "time", "class", "sample", "feature", "point", "class_mean")


class LocallyElastic(eqx.Module):
    """Features of samples in K classes, each moved by training on all others.

    dX_i^k = Σ_l E_kl(t) P_kl H_kl X̄^l dt + σ dW_i^k (5), X̄^l the mean of the samples of class l; E has α(t) on its
    diagonal and β(t) elsewhere. Time is training iterations times the step size.

    classes: number K of classes, at least 2.
    features: dimension p of a feature vector (for the logit geometries at least K).
    intra: α(t), strength within a class: a number, PowerLaw, Sampled or a function of time.
    inter: β(t), strength between classes.
    geometry: "isotropic", "logits", "mixture", or blocks H (class, class, feature, feature).
    sampling: how often classes are trained on: None (balanced), probabilities (class,) or a stochastic matrix.
    noise: σ ≥ 0, a standard deviation per √time; may vary over a grid.
    Source: locally elastic SDE (4)–(9).

    >>> from dynascope import PowerLaw
    >>> model = LocallyElastic(classes=3, features=3, intra=PowerLaw(1.0, 0.5), inter=0.1, geometry="logits")
    >>> model.drift(2.0).shape
    (9, 9)
    """

    intra: Strength
    inter: Strength
    blocks: Float[np.ndarray, "class class feature feature"]
    sampling: Float[np.ndarray, "class class"]
    noise: Float[np.ndarray, "..."]
    grid: Grid
    closed_form: str | None = eqx.field(static=True)

    def __init__(
        self,
        classes: int = 3,
        features: int = 3,
        intra: Any = 1.0,
        inter: Any = 0.1,
        geometry: Any = "logits",
        sampling: Any = None,
        noise: ParameterValue = 0.1,
    ):
        classes, features = count("classes", classes, at_least=2), count("features", features)
        self.intra, self.inter = as_strength("intra", intra), as_strength("inter", inter)
        self.blocks = geometry_blocks(geometry, classes, features)
        self.sampling = sampling_matrix(sampling, classes)
        aligned, self.grid = broadcast({"noise": noise}, core={"noise": ()}, reserved=_RESULT_NAMES)
        self.noise = aligned["noise"]
        require("noise", self.noise, self.noise >= 0, "be at least 0")
        solved = isinstance(geometry, str) and geometry in ("isotropic", "logits") and sampling is None
        self.closed_form = str(geometry) if solved else None

    def drift(self, time: float) -> Float[np.ndarray, "state state"]:
        """M(t), (class·feature, class·feature): block (k, l) is E_kl(t) P_kl H_kl.

        >>> LocallyElastic(classes=2, features=1, intra=1.0, inter=0.5, geometry="isotropic").drift(0.0).tolist()
        [[0.5, 0.25], [0.25, 0.5]]
        """
        at = scalar("time", time, at_least=0.0)
        elasticity = np.full(self.sampling.shape, float(self.inter(at)))
        np.fill_diagonal(elasticity, float(self.intra(at)))
        return drift_matrix(elasticity, self.sampling, self.blocks)

    def mean_path(self, times: Any, start: Any) -> Float[np.ndarray, "*trial time class feature"]:
        """Class means over time, exactly, from `start` (…, class, feature): the solution of (6).

        Closed forms for the isotropic and logit geometries under balanced sampling, the matrix exponential for other
        constant drifts, an adaptive solver (relative error 1e-10) for the rest.

        >>> LocallyElastic(classes=2, features=2).mean_path([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]).shape
        (2, 2, 2)
        """
        grid, begin = increasing("times", times), self._start(start)
        if self.closed_form is not None:
            solve = isotropic_path if self.closed_form == "isotropic" else logit_path
            return solve(grid, begin, self.intra, self.inter)
        return general_path(grid, begin, self.drift, constant=self._is_constant(), knots=self._knots())

    def _start(self, start: Any) -> np.ndarray:
        begin, shape = as_float("start", start), (self.blocks.shape[0], self.blocks.shape[2])
        if begin.shape[-2:] != shape:
            raise ValueError(f"start must end in the shape (class, feature) = {shape}, got {begin.shape}")
        return begin

    def _is_constant(self) -> bool:
        return isinstance(self.intra, Constant) and isinstance(self.inter, Constant)

    def _knots(self) -> np.ndarray:
        bends = [strength.times for strength in (self.intra, self.inter) if isinstance(strength, Sampled)]
        return np.concatenate([np.empty(0), *bends])

    def transition(self, begin: float, end: float) -> tuple[np.ndarray, np.ndarray]:
        """Propagator Φ of the class means from `begin` to `end`, and ∫ Φ Φᵀ, the covariance that unit noise adds.

        X̄(end) = Φ X̄(begin) + N(0, σ²/n ∫ Φ(end, s) Φ(end, s)ᵀ ds) for n samples in each class.

        >>> still = LocallyElastic(classes=2, features=1, intra=0.0, inter=0.0, geometry="isotropic")
        >>> flow, spread = still.transition(0.0, 3.0)
        >>> flow.tolist(), spread.round(6).tolist()
        ([[1.0, 0.0], [0.0, 1.0]], [[3.0, 0.0], [0.0, 3.0]])
        """
        size = self.sampling.shape[0] * self.blocks.shape[2]
        identity = np.eye(size)

        def slope(at: float, state: np.ndarray) -> np.ndarray:
            flow, spread = state.reshape(2, size, size)
            drift = self.drift(at)
            return np.stack([drift @ flow, drift @ spread + spread @ drift.T + identity]).ravel()

        knots = self._knots()
        stops = [begin, *np.unique(knots[(knots > begin) & (knots < end)]), end]
        state = np.stack([identity, np.zeros_like(identity)]).ravel()
        for left, right in pairwise(stops):
            state = solve_ivp(slope, (left, right), state, method="DOP853", rtol=1e-10, atol=1e-13).y[:, -1]
        flow, spread = state.reshape(2, size, size)
        return flow, (spread + spread.T) / 2

    def simulate(
        self,
        duration: float = 50.0,
        samples: int = 100,
        trials: int = 20,
        *,
        seed: int = 0,
        save_points: Any = 101,
        start: Any = None,
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Sample the SDE (5) at the saved times, exactly: its transitions are Gaussian and known, nothing is stepped.

        duration: time to simulate.
        samples: points n in every class; their mean is what moves the others.
        trials: independent repetitions.
        seed: integer that fixes all randomness.
        save_points: how many evenly spaced times to save, or the times themselves.
        start: class means at time 0, (class, feature); by default standard normal, drawn from the seed.
        progress: whether to draw a bar; by default on a terminal, after two seconds.

        Returns point (…grid, trial, time, class, sample, feature) and class_mean (…, trial, time, class, feature).
        A trial does not depend on how many others run, and sees the same noise at every noise level; its path depends
        on the saved times (its law does not).

        >>> run = LocallyElastic().simulate(duration=2.0, samples=5, trials=3, save_points=4)
        >>> run["point"].dims, run["class_mean"].shape
        (('trial', 'time', 'class', 'sample', 'feature'), (3, 4, 3, 3))
        """
        begun = time.perf_counter()
        samples, trials = count("samples", samples), count("trials", trials)
        seed_key(seed)
        duration = scalar("duration", duration, above=0.0)
        times = _saved_times(duration, save_points)
        shape = (self.blocks.shape[0], self.blocks.shape[2])
        drawn = np.random.default_rng(seed).standard_normal(shape)
        begin = drawn if start is None else np.broadcast_to(self._start(start), shape)
        points = self._sample(times, begin, samples=samples, trials=trials, seed=seed, progress=progress)
        dims = (*self.grid.dims, "trial", "time", "class", "sample", "feature")
        run = xr.Dataset(
            {"point": (dims, points), "class_mean": ((*dims[:-2], "feature"), points.mean(axis=-2))},
            coords={"time": ("time", times, {"long_name": "time", "units": "iterations × step size"})}
            | {name: np.arange(size) for name, size in zip(dims[-5:], points.shape[-5:], strict=True) if name != "time"}
            | self.grid.coordinates,
        )
        options = {"duration": duration, "samples": samples, "trials": trials, "start": begin}
        parameters = {
            "intra": repr(self.intra),
            "inter": repr(self.inter),
            "sampling": self.sampling,
            "noise": self.noise,
        }
        return with_provenance(
            run, "LocallyElastic", parameters | {"geometry": self.closed_form or self.blocks}, options=options,
            seed=int(seed), precision="float64", wall_time=time.perf_counter() - begun,
        )  # fmt: skip

    def _sample(
        self, times: np.ndarray, start: np.ndarray, *, samples: int, trials: int, seed: int, progress: bool | None
    ) -> Float[np.ndarray, "*grid trial time class sample feature"]:
        """Class means by their exact transitions, and samples around them by centred Brownian motion."""
        (classes, features), size = start.shape, start.size
        lanes = padded_trials(trials)
        sigma = self.noise.reshape(-1, 1, 1)  # (point, 1, 1)
        mean = np.broadcast_to(start.ravel(), (self.grid.size, trials, size))
        apart = np.zeros((self.grid.size, trials, classes, samples, features))
        saved = np.empty((self.grid.size, trials, len(times), classes, samples, features))
        draw = partial(normals, seed, steps=1, elements=size * (samples + 1), trials=lanes)
        now = 0.0
        with progress_bar("locally elastic model", len(times), progress) as report, jax.enable_x64(True):
            for index, save in enumerate(times):
                if save > now:
                    flow, spread = self.transition(now, float(save))
                    noise = np.asarray(draw(index))[0, :, 0, :trials].T  # (trial, element)
                    root = np.linalg.cholesky(spread / samples)
                    mean = mean @ flow.T + sigma * (noise[:, :size] @ root.T)
                    kicks = noise[:, size:].reshape(trials, classes, samples, features)
                    kicks = kicks - kicks.mean(axis=2, keepdims=True)
                    apart = apart + sigma[..., None, None] * np.sqrt(save - now) * kicks
                    now = float(save)
                saved[:, :, index] = mean.reshape(-1, trials, classes, 1, features) + apart
                report(index + 1)
        return saved.reshape((*self.grid.shape, *saved.shape[1:]))


def _saved_times(duration: float, save_points: Any) -> Float[np.ndarray, " time"]:
    if isinstance(save_points, int | np.integer) and not isinstance(save_points, bool):
        return np.linspace(0.0, duration, count("save_points", save_points, at_least=2))
    times = increasing("save_points", save_points)
    require("save_points", times, times <= duration, f"lie between 0 and duration = {duration}")
    return times
