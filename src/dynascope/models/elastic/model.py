"""The locally elastic model as users meet it: strengths, geometry and sampling in, labelled paths out."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, SavePoints, Times, as_float, count, flag, increasing, left_out, one_of, scalar
from dynascope.models import stepping
from dynascope.models.elastic import simulation, softmax
from dynascope.models.elastic.geometry import drift_matrix, geometry_blocks, noise_factor, sampling_matrix
from dynascope.models.elastic.mean_path import general_path, isotropic_path, logit_path
from dynascope.models.elastic.propagation import follow_slope, isotropic_transitions, logit_transitions, transitions
from dynascope.models.elastic.separation import (
    SeparationVerdict,
    probability_along,
    separation_verdict,
    share_separable,
)
from dynascope.models.elastic.strengths import (
    ElasticityLike,
    IntraInter,
    Strength,
    StrengthLike,
    as_elasticity,
    as_strength,
)
from dynascope.models.family import Gridded, Parameter, parameter
from dynascope.models.noise import seed_key
from dynascope.models.parameters import ParameterValue, with_hints

CITE = "zhang2021imitating"
_STEP = 0.01  # where none is given


class LocallyElastic(Gridded):
    """Features of samples in K classes, each moved by training on all others.

    dX_i^k = Σ_l E_kl(t) P_kl H_kl X̄^l dt + σ dW_i^k (5), X̄^l the mean of the samples of class l; E has α(t) on its
    diagonal and β(t) elsewhere. Time is training iterations times the step size.

    classes: number K of classes, at least 2.
    features: dimension p of a feature vector (for the logit geometries at least K).
    intra: α(t), strength within a class: a number, PowerLaw, Sampled, a function of time or text such as
        "1/(1+t)^0.5"; 1 if not given.
    inter: β(t), strength between classes; 0.1 if not given.
    geometry: isotropic, logits, mixture, softmax (margins e_l − softmax X̄^l in place of features, (B.4)), or blocks H
        (class, class, feature, feature), such as `geometry_blocks("mixture", 3, 3, own_weight=0.6)`.
    sampling: how often classes are trained on: None (balanced), probabilities (class,) or a stochastic matrix.
    noise: σ ≥ 0, a standard deviation per √time; may vary over a grid.
    elasticity: E(t) as a whole in place of intra and inter: a matrix (class, class), entries may be feature × feature
        matrices Θ_kl, a Sampled curve of matrices or a function of time.
    covariance: of the noise in units of σ²: (class,), (class, feature, feature) or (class·feature, class·feature), in
        which sample i of one class shares noise with sample i of another; isotropic if not given.
    Source: elastic (1)–(9), (B.4), (D.20), (E.1).

    >>> from dynascope import PowerLaw
    >>> model = LocallyElastic(classes=3, features=3, intra=PowerLaw(1.0, 0.5), inter=0.1, geometry="logits")
    >>> model.drift(2.0).shape
    (9, 9)
    """

    RESULT_NAMES: ClassVar = ("trial", "class", "sample", "feature", "point", "class_mean", "time")
    LABELS: ClassVar = {"time": ("time", "iterations × step size")}
    elasticity: Strength
    blocks: Float[np.ndarray, "class class feature feature"]
    sampling: Float[np.ndarray, "class class"]
    factor: Float[np.ndarray, "state state"] | None
    geometry: str = eqx.field(static=True)  # "blocks" where they were given
    balanced: bool = eqx.field(static=True)
    noise: Parameter = parameter(at_least=0.0)

    def __init__(
        self,
        classes: int = 3,
        features: int = 3,
        intra: StrengthLike | None = None,
        inter: StrengthLike | None = None,
        geometry: str | ArrayLike = "logits",
        sampling: ArrayLike | None = None,
        noise: ParameterValue = 0.1,
        *,
        elasticity: ElasticityLike | None = None,
        covariance: ArrayLike | None = None,
    ):
        classes, features = count("classes", classes, at_least=2), count("features", features)
        require_room({"classes": classes, "features": features}, (classes * features) ** 2)
        if elasticity is None:
            within, between = 1.0 if intra is None else intra, 0.1 if inter is None else inter
            self.elasticity = IntraInter(as_strength("intra", within), as_strength("inter", between), classes)
        elif intra is None and inter is None:
            self.elasticity = as_elasticity(elasticity, classes, features)
        else:
            raise ValueError("elasticity must be left out where intra or inter is given: it stands for both")
        self.blocks = geometry_blocks(geometry, classes, features)
        self.geometry = str(geometry) if isinstance(geometry, str) else "blocks"
        self.sampling, self.balanced = sampling_matrix(sampling, classes), sampling is None
        self.factor = noise_factor(covariance, classes, features)
        self._align({"noise": noise})

    def drift(self, time: float) -> Float[np.ndarray, "state state"]:
        """M(t), (class·feature, class·feature): block (k, l) is E_kl(t) P_kl H_kl; "softmax" applies it to margins.

        >>> LocallyElastic(classes=2, features=1, intra=1.0, inter=0.5, geometry="isotropic").drift(0.0).tolist()
        [[0.5, 0.25], [0.25, 0.5]]
        """
        return drift_matrix(self.elasticity(scalar("time", time, at_least=0.0)), self.sampling, self.blocks)

    def _drift_function(self) -> Callable[[float], np.ndarray]:
        """The same for solvers, which ask for it thousands of times."""
        strengths, own = self.elasticity, np.eye(len(self.sampling))
        if not isinstance(strengths, IntraInter):
            return self.drift
        within, between = (drift_matrix(part, self.sampling, self.blocks) for part in (own, 1 - own))
        return lambda at: np.asarray(strengths.intra(at) * within + strengths.inter(at) * between)

    def mean_path(self, times: Times, start: ArrayLike) -> Float[np.ndarray, "*trial time class feature"]:
        """Class means over time, exactly, from `start` (…, class, feature): the solution of (6).

        Closed forms for the isotropic and logit geometries under balanced sampling, the matrix exponential for other
        constant drifts, an adaptive solver (relative error 1e-10) for the rest. Source: elastic (6), (C.11).

        >>> LocallyElastic(classes=2, features=2).mean_path([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]).shape
        (2, 2, 2)
        """
        grid, begin = increasing("times", times), self._start(start)
        if (strengths := self._solved_strengths()) is not None:
            solve = isotropic_path if self.geometry == "isotropic" else logit_path
            return solve(grid, begin, strengths.intra, strengths.inter)
        drift = self._drift_function()
        if self.geometry != "softmax":
            return general_path(grid, begin, self.drift, constant=self.elasticity.constant, knots=self.elasticity.knots)

        def slope(at: float, means: np.ndarray) -> np.ndarray:
            felt = softmax.margins(means).reshape(*means.shape[:-2], -1)
            return np.asarray((felt @ drift(at).T).reshape(means.shape))

        path = follow_slope(grid, begin, slope, knots=self.elasticity.knots)
        return np.moveaxis(path, 0, -3)

    def covariance(
        self, times: Times, samples: int = 100, *, of: str = "class_mean"
    ) -> Float[np.ndarray, "*grid time state state"]:
        """Covariance of the class means, or of one sample from each class, at the given times: exact.

        From a fixed start, of n samples in each class: cov X̄ = (σ²/n) ∫ Φ C Φᵀ, cov X_i = cov X̄ + (1 − 1/n) σ² C t.

        >>> still = LocallyElastic(classes=2, features=1, intra=0.0, inter=0.0, geometry="isotropic", noise=1.0)
        >>> [still.covariance([4.0], 2, of=of)[0].round(9).tolist() for of in ("class_mean", "point")]
        [[[2.0, 0.0], [0.0, 2.0]], [[4.0, 0.0], [0.0, 4.0]]]
        """
        grid, samples = increasing("times", times), count("samples", samples)
        one_of("of", of, ["class_mean", "point"])
        unit = self._unit_covariance()
        stops = grid if grid[0] == 0 else np.concatenate([[0.0], grid])
        total = np.zeros_like(unit)
        found = [total]
        for flow, spread in self._transitions(stops):
            total = flow @ total @ flow.T + spread
            found.append(total)
        unscaled = np.stack(found)[len(stops) - len(grid) :] / samples
        if of == "point":
            unscaled = unscaled + (1 - 1 / samples) * grid[:, None, None] * unit
        return np.asarray(self.noise[..., None, None, None] ** 2 * unscaled)

    def linearise(
        self, around: ArrayLike, time: float = 0.0
    ) -> tuple[Float[np.ndarray, "state state"], Float[np.ndarray, "class feature"]]:
        """Matrix and offset of the linear drift that touches the softmax dynamics at `around` (B.7)–(B.14).

        x' ≈ matrix · x + offset, with error quadratic in x − around; offset is the residue of (B.14). Around equal
        logits the offset pushes along the margin directions, around a trained state it nearly vanishes.
        Source: elastic (B.7), (B.14).

        >>> matrix, offset = LocallyElastic(2, 2, 2.0, 0.0, "softmax").linearise([[0.0, 0.0], [0.0, 0.0]])
        >>> offset.tolist()
        [[0.5, -0.5], [-0.5, 0.5]]
        """
        if self.geometry != "softmax":
            raise ValueError(f"geometry must be 'softmax' to be linearised, got {self.geometry!r}, which is linear")
        state = self._start(around)
        if state.ndim != 2:
            raise ValueError(f"around must be one state (class, feature), got shape {state.shape}")
        return softmax.linearise(self.drift(time), state)

    def separation_verdict(self) -> SeparationVerdict:
        """Judge from the strengths alone whether classes separate in the end, and why: Theorem 3.1 and its border.

        For the isotropic and logit geometries with balanced sampling.

        >>> LocallyElastic(intra=0.3, inter=0.2).separation_verdict().separates
        True
        """
        strengths = self._solved_strengths()
        if strengths is None:
            raise ValueError(
                f"a verdict needs the isotropic or logits geometry, intra and inter, and balanced sampling, got "
                f"geometry {self.geometry!r}; use separation_probability, which serves all"
            )
        classes, features = self._shape()
        return separation_verdict(
            strengths.intra, strengths.inter, classes=classes, features=features, geometry=self.geometry
        )

    def separation_probability(
        self,
        times: Times,
        samples: int = 100,
        *,
        start: ArrayLike,
        trials: int = 200,
        seed: int = 0,
        direction: ArrayLike | None = None,
        dt: float | None = None,
    ) -> Float[np.ndarray, "*grid time"]:
        """Probability that all classes are linearly separable from each other, at the given times.

        Without a `direction` every pair of simulated clouds is decided exactly (see `separable`), in `trials` trials;
        `dt` is the step of geometries that must be stepped, to whole multiples of which their times are rounded.
        With one (feature,), the classes must fill disjoint intervals along it; that follows from the Gaussian law of
        linear geometries: nothing is simulated in time, and two class means are integrated exactly.
        Source: elastic (C.2), Definition C.2.

        >>> model = LocallyElastic(2, 1, intra=1.0, inter=0.0, geometry="isotropic", noise=0.1)
        >>> model.separation_probability([9.0], 5, start=[[1.0], [-1.0]], trials=20).tolist()
        [1.0]
        """
        grid, samples, trials = increasing("times", times), count("samples", samples), count("trials", trials)
        begin = self._start(start)
        seed_key(seed)
        if begin.ndim != 2:
            raise ValueError(f"start must be one set of class means (class, feature), got shape {begin.shape}")
        if direction is None:
            end = max(float(grid[-1]), _STEP if dt is None else dt)  # also where only time 0 is asked for
            run = self.simulate(end, dt, samples, trials, seed=seed, save_points=grid, start=begin)
            return share_separable(np.moveaxis(run["point"].values, -5, -4))  # (…grid, time, trial, …)
        left_out("dt", dt, where="where a direction is given")
        classes, features = self._shape()
        along = as_float("direction", direction)
        if along.shape != (features,) or not np.any(along):
            raise ValueError(f"direction must be {features} numbers, not all 0, got {along.tolist()}")
        projector = np.kron(np.eye(classes), along[None])  # (class, state)
        means = self.mean_path(grid, begin) @ along
        unit = projector @ self._unit_covariance() @ projector.T
        covariances = (projector @ self.covariance(grid, samples) @ projector.T).reshape(-1, *means.shape, classes)
        result = [
            probability_along(
                means, covariance, spread=sigma**2 * unit, times=grid, samples=samples, trials=trials, seed=seed
            )
            for covariance, sigma in zip(covariances, np.ravel(self.noise), strict=True)
        ]
        return self._unfold(np.stack(result))

    @with_hints
    def simulate(
        self,
        duration: float = 50.0,
        dt: float | None = None,
        samples: int = 100,
        trials: int = 20,
        *,
        seed: int = 0,
        save_points: SavePoints = 101,
        start: ArrayLike | None = None,
        method: str | None = None,
        discrete: bool = False,
        batch_size: int | None = None,
        precision: str = "float64",
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Simulate the SDE (5), or the discrete process (4) behind it, and return all samples and class means.

        duration: time to simulate.
        dt: length of a step, 0.01 if not given, and step size h of the discrete process; the exact method has none.
        samples: points n in every class; their mean is what moves the others.
        trials: independent repetitions.
        seed: integer that fixes all randomness.
        save_points: how many evenly spaced times to save, or the times themselves.
        start: class means at time 0 (class, feature), or all points (class, sample, feature); by default class means
            are standard normal, drawn from the seed.
        method: exact (default; linear geometries), euler or heun (default for softmax; weak orders 1 and 2).
        discrete: whether to iterate (4): at each step a batch of samples is drawn and all points move.
        batch_size: samples drawn at each iteration of the discrete process; 1 if not given.
        precision: float64 or float32.
        progress: whether to draw a bar; by default on a terminal, after two seconds.

        Returns point (…grid, trial, time, class, sample, feature) and class_mean (…, trial, time, class, feature).
        A trial does not depend on how many others run, and sees the same noise at every noise level. With the exact
        method its path depends on which times are saved (its law does not), and a point of a grid equals the same model
        alone to rounding, not to the last bit. Source: elastic (1), (2), (4), (5).

        >>> run = LocallyElastic().simulate(duration=2.0, samples=5, trials=3, save_points=4)
        >>> run["point"].dims, run["class_mean"].shape
        (('trial', 'time', 'class', 'sample', 'feature'), (3, 4, 3, 3))
        """
        begun = time.perf_counter()
        samples, trials = count("samples", samples), count("trials", trials)
        seed_key(seed)
        method = self._method(method, discrete=flag("discrete", discrete))
        if method == "exact":
            left_out("dt", dt, where="for the exact method")
        if method != "discrete":
            left_out("batch_size", batch_size, where="unless discrete is True")
        duration, dt = scalar("duration", duration, above=0.0), scalar("dt", _STEP if dt is None else dt, above=0.0)
        batch_size = count("batch_size", 1 if batch_size is None else batch_size)
        one_of("precision", precision, ["float64", "float32"])
        take = simulation.saved_times if method == "exact" else partial(stepping.save_steps, dt=dt)
        saves = take(duration, save_points=save_points)
        self._check_room(saves, samples, trials, method=method, batch=batch_size, precision=precision)
        drawn = np.random.default_rng(seed).standard_normal(self._shape())
        begin = simulation.points_at_start(drawn if start is None else start, self._shape(), samples)
        sigma = self._flat(self.noise)
        task = simulation.Task(begin, sigma, self.factor, trials, int(seed), precision, progress)
        with jax.enable_x64(precision == "float64"):
            times, points, means = self._run(task, saves, dt, method=method, batch=batch_size)
        same = np.all(begin == begin[:, :1])
        options: dict[str, Any] = {"duration": duration, "dt": dt, "samples": samples, "trials": trials}
        options |= {"start": begin[:, 0] if same else begin}
        options |= {"method": method, "batch_size": batch_size}
        run = simulation.lay_out(self.grid, times, self._unfold(points), self._unfold(means))
        wall_time = time.perf_counter() - begun
        return self._signed(run, options, seed=int(seed), precision=precision, wall_time=wall_time)

    def _run(
        self, task: simulation.Task, saves: np.ndarray, dt: float, *, method: str, batch: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, points and class means by the chosen method; `saves` are times for the exact one, steps for others."""
        if method == "exact":
            means = simulation.exact_means(task, saves, self._transitions)
            return saves, simulation.scatter_points(task, saves, means, first_draw=len(saves) + 1), means
        parameters = self._step_parameters(int(saves[-1]), dt)
        nonlinear = self.geometry == "softmax"
        if method == "discrete":
            points = simulation.discrete_points(task, saves, dt, parameters, batch_size=batch, softmax=nonlinear)
            return saves * dt, points, points.mean(axis=-2)
        means = simulation.stepped_means(task, saves, dt, parameters, step=method, softmax=nonlinear)
        first = int(saves[-1]) + 2  # noise of steps that are not taken
        return saves * dt, simulation.scatter_points(task, saves * dt, means, first_draw=first), means

    def _check_room(
        self, saves: np.ndarray, samples: int, trials: int, *, method: str, batch: int, precision: str
    ) -> None:
        classes, features = self._shape()
        steps = len(saves) if method == "exact" else int(saves[-1])
        self._require_room(
            trials,
            len(saves),
            saved=classes * features * (samples + 1),
            state=classes * features * samples + 4 * batch if method == "discrete" else classes * features,
            steps=steps,
            beside=steps * classes**2,  # strengths over time
            precision=precision,
            samples=samples,
        )

    def _step_parameters(self, steps: int, dt: float) -> dict[str, np.ndarray]:
        at = np.zeros(1) if self.elasticity.constant else dt * np.arange(steps + 1)
        return {
            "elasticity": self.elasticity(at),
            "blocks": self.blocks,
            "sampling": self.sampling[..., None, None],
            "cumulative": np.cumsum(self.sampling, axis=1)[:, None, :-1, None],
        }

    def _method(self, method: str | None, *, discrete: bool) -> str:
        if discrete:
            if method is not None:
                raise ValueError(f"method must be left out when discrete is True, got {method!r}")
            return "discrete"
        if method is None:
            return "heun" if self.geometry == "softmax" else "exact"
        one_of("method", method, ["exact", "euler", "heun"])
        if method == "exact" and self.geometry == "softmax":
            raise ValueError("method must be euler or heun for the softmax geometry, which is not linear, got 'exact'")
        return str(method)

    def _facts(self) -> dict[str, Any]:
        return {
            "elasticity": self.elasticity.describe(),
            "geometry": self.blocks if self.geometry == "blocks" else self.geometry,
            "sampling": self.sampling,
            "noise": self.noise,
            "covariance": "isotropic" if self.factor is None else self._unit_covariance(),
        }

    def _shape(self) -> tuple[int, int]:
        return self.blocks.shape[0], self.blocks.shape[2]

    def _start(self, start: ArrayLike) -> np.ndarray:
        begin = as_float("start", start)
        if begin.shape[-2:] != self._shape():
            raise ValueError(f"start must end in the shape (class, feature) = {self._shape()}, got {begin.shape}")
        return begin

    def _solved_strengths(self) -> IntraInter | None:
        """The two strengths where closed forms hold: I- and L-model under balanced sampling."""
        strengths, solved = self.elasticity, self.balanced and self.geometry in ("isotropic", "logits")
        return strengths if solved and isinstance(strengths, IntraInter) else None

    def _unit_covariance(self) -> np.ndarray:
        size = self.blocks.shape[0] * self.blocks.shape[2]
        return np.eye(size) if self.factor is None else self.factor @ self.factor.T

    def _transitions(self, times: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if self.geometry == "softmax":
            raise ValueError("geometry must be linear for an exact law, got 'softmax'; simulate it instead")
        unit, strengths = self._unit_covariance(), self._solved_strengths()
        if strengths is not None:
            solve = isotropic_transitions if self.geometry == "isotropic" else logit_transitions
            return solve(times, strengths.intra, strengths.inter, unit, classes=len(self.sampling))
        elasticity = self.elasticity
        return transitions(times, self._drift_function(), unit, constant=elasticity.constant, knots=elasticity.knots)
