"""The spring-block chain as users meet it: parameters in, labelled results out."""

import time
from dataclasses import asdict
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import (
    ArrayLike,
    SavePoints,
    Times,
    as_float,
    count,
    flag,
    increasing,
    left_out,
    one_of,
    require,
    scalar,
)
from dynascope.models import stepping
from dynascope.models.family import Family, Parameter, over, parameter
from dynascope.models.noise import seed_key
from dynascope.models.parameters import ParameterValue, with_hints
from dynascope.models.spring_block import closed_form
from dynascope.models.spring_block.equations import STEPS
from dynascope.models.spring_block.labels import LABELS, RESULT_NAMES, lay_out
from dynascope.models.spring_block.simulation import Options, run_chains

CITE = "shi2025spring"


class SpringBlock(Family):
    """A chain of `blocks` blocks between 0 and `target`, with asymmetric friction and noise.

    x_ℓ' = σ(k (x_{ℓ+1} − 2 x_ℓ + x_{ℓ−1}) + ε ξ_ℓ), x_0 = 0, x_{L+1} = y (5)

    Fields are numbers, arrays that broadcast, or DataArrays whose dimensions keep their names.

    blocks: number L of blocks (layers).
    stiffness: k > 0 of the springs.
    friction_right: μ→ ≥ 0, sliding and largest static friction against motion to the right.
    friction_left: μ← ≥ 0, against motion to the left.
    noise: ε ≥ 0, a standard deviation per √time.
    target: position y of the chain's right end.

    Time is model time. The noise force in one step is (ε/√dt)·N(0,1): the window dt is part of the model, and results
    at another dt are results at another noise level.
    In the analogy a block is a layer, D_ℓ = y − x_ℓ its data separation, friction the nonlinearity, ε the
    noise of training. Source: spring-block (4)–(7), (S2)–(S5).

    >>> chain = SpringBlock(blocks=3, friction_right=0.1, noise=0.0)
    >>> run = chain.simulate(duration=200.0, trials=1)
    >>> bool(abs(run["position"][0, -1] - chain.equilibrium()).max() < 1e-9)
    True
    """

    RESULT_NAMES: ClassVar = RESULT_NAMES
    LABELS: ClassVar = LABELS
    blocks: int = eqx.field(static=True, default=7)
    stiffness: Parameter = parameter(1.0, above=0.0, label="stiffness k", unit="force/length")
    friction_right: Parameter = parameter(0.1, at_least=0.0, label="friction to the right μ→", unit="force")
    friction_left: Parameter = parameter(0.2, at_least=0.0, label="friction to the left μ←", unit="force")
    noise: Parameter = parameter(0.01, at_least=0.0, label="noise ε", unit="force·√time")
    target: Parameter = parameter(1.0, label="target y", unit="length")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.blocks = count("blocks", self.blocks)

    @with_hints
    def simulate(
        self,
        duration: float = 100.0,
        dt: float = 0.01,
        trials: int = 100,
        *,
        seed: int = 0,
        save_points: SavePoints = 101,
        dynamics: str = "overdamped",
        damping: float | None = None,
        noise_decay: float = 0.0,
        shared_noise: bool = False,
        truncate: float | None = None,
        stop_tolerance: float | None = None,
        start: ParameterValue | None = None,
        precision: str = "float64",
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Simulate every point of the grid and return positions, loads, energy and force over time.

        duration: model time to simulate, rounded up to whole steps.
        dt: length of a step, and the window of the noise.
        trials: independent repetitions at every grid point.
        seed: fixes all randomness.
        save_points: how many evenly spaced times to save, or the times themselves.
        dynamics: overdamped (5), inertial (4), (S2), (S3), or langevin (S4), (S5).
        damping: γ of inertial and langevin dynamics, 1 if not given.
        noise_decay: τ in ε(t) = ε·exp(−τ t).
        shared_noise: whether all blocks feel the same noise.
        truncate: bound z of noise conditioned on |ζ| ≤ z standard deviations.
        stop_tolerance: hold a trial from the first save at which no block has moved by more than this fraction of the
            target since the last; `stop_time` says when (NaN: never).
        start: positions at time 0, shaped (…grid, block); zero if not given.
        precision: float64 or float32.
        progress: draw a bar; by default on a terminal.

        Returns position (…grid, trial, time, block), load target − x (…, layer) for layers 0 … blocks, and over (…,
        trial, time) energy, force k (y − x_L) on the last block and curvature, the mean of d_{ℓ+1} − d_ℓ (positive:
        concave); for the second-order dynamics also velocity. Trial i is the same path whatever else runs, and sees the
        same noise at every grid point. Needs dt ≤ 1/(2 k), or γ dt + 2 k dt² < 2. More: docs/spring-block.md.
        Source: spring-block (4), (5), (S2)–(S5).

        >>> run = SpringBlock(noise=[0.0, 0.02]).simulate(duration=1.0, trials=4, save_points=3)
        >>> run["position"].dims, run["load"].shape
        (('grid_0', 'trial', 'time', 'block'), (2, 4, 3, 8))
        """
        begun = time.perf_counter()
        if dynamics == "overdamped":
            left_out("damping", damping, where="for the overdamped dynamics")
        options = Options(
            duration=scalar("duration", duration, above=0.0),
            dt=scalar("dt", dt, above=0.0),
            trials=count("trials", trials),
            dynamics=one_of("dynamics", dynamics, list(STEPS)),
            damping=1.0 if damping is None else scalar("damping", damping, at_least=0.0),
            noise_decay=scalar("noise_decay", noise_decay, at_least=0.0),
            shared_noise=flag("shared_noise", shared_noise),
            truncate=None if truncate is None else scalar("truncate", truncate, above=0.0),
            stop_tolerance=None if stop_tolerance is None else scalar("stop_tolerance", stop_tolerance, above=0.0),
            precision=one_of("precision", precision, ["float64", "float32"]),
        )
        seed_key(seed)
        if options.trials * self.blocks >= 2**32:
            raise ValueError(f"trials must stay below 2**32 / blocks = {2**32 // self.blocks}, got {trials}")
        self._check_step(options)
        saves = stepping.save_steps(options.duration, options.dt, save_points)
        moving = self.blocks * (1 if options.dynamics == "overdamped" else 2)
        self._require_room(
            options.trials,
            len(saves),
            saved=moving + self.blocks + 4,
            state=moving,
            steps=int(saves[-1]),
            precision=precision,
            blocks=self.blocks,
        )
        begin = self._start(start)
        fields = {name: values[:, None] for name, values in self._points().items()}
        saved, stop_time = run_chains(
            fields, begin.reshape(-1, self.blocks), options, saves=saves, seed=seed, progress=progress
        )
        run = lay_out(
            saved, stop_time, saves * options.dt, grid=self.grid, stiffness=self.stiffness, target=self.target
        )
        recorded = asdict(options) | ({} if start is None else {"start": begin})
        wall_time = time.perf_counter() - begun
        return self._signed(run, recorded, seed=int(seed), precision=precision, wall_time=wall_time)

    def _check_step(self, options: Options) -> None:
        if options.dynamics == "overdamped":
            limit = 1 / (2 * self.stiffness)
            rule = "be at most 1/(2·stiffness), so that no block overshoots"
        else:  # Jury's criterion for the fastest mode, whose squared frequency stays below 4 k
            limit = np.nextafter(4 / (options.damping + np.sqrt(options.damping**2 + 16 * self.stiffness)), 0)
            rule = "keep damping·dt + 2·stiffness·dt² below 2, so that the step is stable"
        smallest = float(limit.min())
        require("dt", np.array(options.dt), np.array(options.dt <= smallest), f"{rule}: here at most {smallest:.6g}")

    def _start(self, start: ParameterValue | None) -> Float[np.ndarray, "*grid block"]:
        return self._everywhere("start", 0.0 if start is None else start, block=self.blocks)

    def _strength(self, dt: float) -> np.ndarray:
        return np.asarray(self.noise / np.sqrt(scalar("dt", dt, above=0.0)))

    def _fields(self, dt: float, axes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both frictions and the size s = ε/√dt of the noise force, ready to broadcast."""
        fields = self.friction_right, self.friction_left, self._strength(dt)
        right, left, strength = (over(field, axes) for field in fields)
        return right, left, strength

    def equilibrium(self, *, published: bool = False) -> Float[np.ndarray, "*grid block"]:
        """Positions at which a noiseless chain released at 0 comes to rest.

        x_ℓ = y ℓ/(n+1) − (μ→/k)(n ℓ − ℓ(ℓ−1))/2 counted from the last block that sticks, with
        n = max{i ≤ L : i(i+1) μ→/(2k) < y} moving blocks (μ← for a negative target). Noise is ignored, and no block
        may overshoot: the overdamped chain, or the others with enough damping.
        `published=True` gives (6) as printed, which assumes that all blocks move. Source: spring-block (6).

        >>> SpringBlock(blocks=3, friction_right=0.1).equilibrium().round(3).tolist()
        [0.1, 0.3, 0.6]
        >>> SpringBlock(blocks=3, friction_right=0.5).equilibrium().tolist()
        [0.0, 0.0, 0.25]
        """
        shape = self.grid.shape
        fields = (self.stiffness, self.friction_right, self.friction_left, self.target)
        return closed_form.equilibrium(self.blocks, *(np.broadcast_to(f, shape) for f in fields), published=published)

    def mean_drift(
        self, force: ArrayLike, dt: float = 0.01, *, truncate: float | None = None
    ) -> Float[np.ndarray, "..."]:
        """Mean speed g(m) of a block on which the springs exert the force m.

        g(m) = s·[h((μ→ − m)/s) − h((m + μ←)/s)], h(a) = φ(a) − a Φ(−a), s = ε/√dt: the dead zone averaged over
        the noise of one window dt. `truncate` bounds the noise. Shape: grid, then the shape of `force`.
        Source: derived from spring-block (5); checked against simulation.

        >>> SpringBlock(noise=0.0).mean_drift([0.05, 0.3]).round(3).tolist()
        [0.0, 0.2]
        """
        force = as_float("force", force)
        with jax.enable_x64(True):
            drift = closed_form.mean_drift(force, *self._fields(dt, force.ndim), _bound(truncate))
        return np.asarray(drift)

    def mean_path(
        self,
        times: Times,
        dt: float = 0.01,
        *,
        start: ParameterValue | None = None,
        noise_decay: float = 0.0,
        truncate: float | None = None,
    ) -> Float[np.ndarray, "*grid time block"]:
        """Mean positions over time of the overdamped chain, from x' = g(k Lx).

        Exact without noise and in the limit of small fluctuations: the fluctuations of the force itself,
        of variance about k ε² beside s² = ε²/dt, are left out. Against simulated load curves at the paper's
        settings the error stays below 0.002. Source: derived; checked in `dynascope verify spring_block`.

        >>> SpringBlock(noise=0.05).mean_path([0.0, 100.0]).shape
        (2, 7)
        """
        times = increasing("times", times)
        decay = scalar("noise_decay", noise_decay, at_least=0.0)
        begin = self._start(start).reshape(-1, self.blocks)
        fields = self._points()
        del fields["noise"]  # it enters through the force of one window
        fields["strength"] = np.broadcast_to(self._strength(dt), self.grid.shape).reshape(-1)
        fields["noise_decay"] = np.full_like(fields["strength"], decay)
        if times[-1] == 0:
            return np.broadcast_to(self._start(start)[..., None, :], (*self.grid.shape, 1, self.blocks)).copy()
        with jax.enable_x64(True):
            solve = jax.vmap(closed_form.mean_path, in_axes=(0, None, 0, None, None))
            long = bool(times[-1] * self.stiffness.max() > 1e4)
            paths = solve(jnp.asarray(begin), jnp.asarray(times), fields, _bound(truncate), long)
        return np.asarray(paths).reshape((*self.grid.shape, times.size, self.blocks))

    def stationary_curvature(self, dt: float = 0.01, truncate: float | None = None) -> Float[np.ndarray, "..."]:
        """Mean second difference of the positions (d_{ℓ+1} − d_ℓ) in the stationary state.

        (μ→ − μ←)/(2k) for unbounded noise of any strength, under all three dynamics; weak noise takes exponentially
        long to get there. For |ζ| ≤ z, max((μ→ − μ←)/2, μ→ − z ε/√dt)/k, and μ→/k without noise: where a chain that is
        pulled to the right stops if all its blocks move and none overshoots (not for the langevin dynamics, whose
        noise friction does not stop). A negative target mirrors these. Positive: a concave load curve.
        Source: spring-block (7), Section S6.

        >>> float(SpringBlock(friction_right=0.1, friction_left=0.2).stationary_curvature().round(3))
        -0.05
        """
        right, left, strength = self._fields(dt, 0)
        bound = _bound(truncate)
        pulled_right = closed_form.stationary_curvature(self.stiffness, right, left, strength, bound)
        pulled_left = -closed_form.stationary_curvature(self.stiffness, left, right, strength, bound)
        return np.broadcast_to(np.where(self.target < 0, pulled_left, pulled_right), self.grid.shape).copy()

    def effective_friction(
        self, curvature: ArrayLike, dt: float = 0.01, *, truncate: float | None = None, published: bool = False
    ) -> Float[np.ndarray, "..."]:
        """Friction that a moving block feels on average at a given curvature Δd = d_{ℓ+1} − d_ℓ.

        μ_eff(Δd) = E[k Δd − σ(k Δd + s ζ) | the block moves], positive when it holds back a block that is
        pulled to the right. The printed definition has the opposite sign (`published=True`). It falls from
        k Δd towards (μ→ − μ←)/2 as noise grows, for Δd between (μ→ − μ←)/(2k) and μ→/k.
        Shape: grid, then the shape of `curvature`. Source: spring-block above (7).

        >>> chain = SpringBlock(friction_right=0.1, friction_left=0.2, noise=[0.01, 1e6])
        >>> chain.effective_friction(0.1).round(3).tolist()
        [0.021, -0.05]
        """
        curvature = as_float("curvature", curvature)
        force = np.asarray(over(self.stiffness, curvature.ndim) * curvature)
        friction = closed_form.effective_friction(force, *self._fields(dt, curvature.ndim), _bound(truncate))
        return np.asarray(-friction if published else friction)


def _bound(truncate: float | None) -> float:
    return np.inf if truncate is None else scalar("truncate", truncate, above=0.0)
