"""The multilinear model as users meet it: skills in, curves, scaling laws, emergence and simulations out."""

import time as clock
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import ArrayLike, SavePoints, as_float, count, flag, one_of, require, scalar
from dynascope.deprecation import renamed_arguments
from dynascope.models import stepping
from dynascope.models.family import Family, Parameter, parameter
from dynascope.models.multilinear import emergence, scaling
from dynascope.models.multilinear.curves import SkillSet
from dynascope.models.multilinear.descent import LABELS, Options, lay_out, run_descent
from dynascope.models.noise import seed_key
from dynascope.models.parameters import with_hints

CITE = "nam2024inductive"

Amount = ArrayLike | None  # of a resource; None: without limit


@renamed_arguments(exponent="skill_exponent")
class Multilinear(Family):
    """Many skills, each learned by a product of two parameters: f = Σ_k a_k b_k g_k (4.9).

    R_k/S = 1/(1 + (S/R(0) − 1) exp(−2 η (d_k/D) S T)) (4.11), P(k) ∝ k^−(α+1) (4.1), loss ½ E[(f* − f)²] (4.5)

    Fields are numbers, arrays that broadcast, or DataArrays whose dimensions keep their names.

    skills: number n_s of skills.
    skill_exponent: α > 0 of their frequencies k^−(α+1).
    target: S > 0, the strength of a skill that is learned.
    initial: R(0) of every skill, between 0 and the target; a_k and b_k both start at its root.
    learning_rate: η > 0.
    linear: whether a skill has one parameter w_k (C.3) instead of two; then initial may be 0.

    Time is training steps of gradient descent, for steps so small that it follows gradient flow: 2 η S P(1) ≪ 1.
    Skills are decoupled: their supports do not overlap. Source: layerwise (4.1)–(4.7), (4.9)–(4.44), (5.1)–(5.9),
    (C.1)–(C.4).

    >>> model = Multilinear(skills=100_000, skill_exponent=0.6, target=5.0, initial=0.01, learning_rate=0.05)
    >>> model.loss(time=[0, 1e3, 1e5]).round(3).tolist()
    [12.45, 2.206, 0.385]
    """

    RESULT_NAMES: ClassVar = ("trial", "time", "skill", "budget", "parameters", "loss", "training_loss", "strength")
    LABELS: ClassVar = LABELS
    skills: int = eqx.field(static=True, default=1000)
    skill_exponent: Parameter = parameter(0.6, above=0.0)
    target: Parameter = parameter(1.0, above=0.0)
    initial: Parameter = parameter(0.01)
    learning_rate: Parameter = parameter(0.1, above=0.0)
    linear: bool = eqx.field(static=True, default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.skills, self.linear = count("skills", self.skills), flag("linear", self.linear)
        if self.skills > 2**53:
            raise ValueError(f"skills must be at most 2**53, where ranks stop being exact, got {self.skills}")
        begin, end = np.broadcast_arrays(self.initial, self.target)
        require("initial", begin, begin < end, "be below target, the strength of a learned skill")
        above = begin >= 0 if self.linear else begin > 0
        require("initial", begin, above, "be at least 0" if self.linear else "be above 0, or no product can grow")

    def _tasks(self) -> list[SkillSet]:
        """The points of the grid, one after another."""
        fields = (values.tolist() for values in self._points().values())
        return [
            SkillSet(self.skills, alpha, target, initial, rate, self.linear)
            for alpha, target, initial, rate in zip(*fields, strict=True)
        ]

    def _gather(self, value: Callable[[SkillSet], Any]) -> np.ndarray:
        """One value or array for each point, shaped (…grid, …)."""
        return self._unfold(np.stack([np.asarray(value(task), float) for task in self._tasks()]))

    def _ranks(self, skill: ArrayLike, name: str = "skill") -> np.ndarray:
        ranks = as_float(name, skill)
        inside = (ranks >= 1) & (ranks <= self.skills) & (ranks == np.floor(ranks))
        require(name, ranks, inside, f"be a whole number from 1 to skills = {self.skills}")
        return ranks

    def _resources(
        self, time: Amount, data: Amount, parameters: Amount
    ) -> tuple[list[np.ndarray | None], tuple[int, ...]]:
        """Checked and flattened, None where without limit; and the shape that they have together."""
        given: dict[str, np.ndarray] = {}
        for name, values in (("time", time), ("data", data), ("parameters", parameters)):
            if values is not None:
                given[name] = as_float(name, values)
                require(name, given[name], given[name] >= 0, "be at least 0")
                whole = (given[name] == np.floor(given[name])) | (name == "time")
                require(name, given[name], whole, "be whole numbers")
        if "data" in given:
            require("data", given["data"], given["data"] >= 1, "be at least 1; leave it out for unlimited data")
        if "parameters" in given:
            most = given["parameters"] <= self.skills
            require("parameters", given["parameters"], most, f"be at most skills = {self.skills}")
        try:
            shape = np.broadcast_shapes(*(values.shape for values in given.values()))
        except ValueError as error:
            shapes = ", ".join(f"{name} {values.shape}" for name, values in given.items())
            raise ValueError(f"{' and '.join(given)} must broadcast against each other, got {shapes}") from error
        names = ("time", "data", "parameters")
        return [np.broadcast_to(given[n], shape).ravel() if n in given else None for n in names], shape

    def frequency(self, skill: ArrayLike) -> Float[np.ndarray, "..."]:
        """P(k) = A k^−(α+1): how often each skill occurs (4.1). Source: layerwise (4.1).

        >>> Multilinear(skills=2, skill_exponent=1.0).frequency([1, 2]).tolist()
        [0.8, 0.2]
        """
        ranks = self._ranks(skill)
        return self._gather(lambda task: task.frequency(ranks))

    def strength(
        self,
        skill: ArrayLike,
        time: Amount = None,
        data: Amount = None,
        *,
        parameters: Amount = None,
    ) -> Float[np.ndarray, "..."]:
        """Strength R_k of skills after some time, with some data, in a model with some of the skills.

        (4.11) averaged over d_k ~ Binomial(D, P(k)). What is not given is without limit; a model has the first
        `parameters` skills, and R = 0 for the others (the printed (B.14) leaves them at R(0), which a model without
        their basis function cannot have). Shape: grid, then that of `skill`, then that of the resources together.
        Source: layerwise (4.11), (4.26), (4.27), (B.1), (B.12), (B.14), Figure 4.1, Lemma 1, Corollary B.1.1.

        >>> Multilinear(target=5.0).strength([1, 2], time=[0.0, 1e3]).round(3).tolist()
        [[0.01, 5.0], [0.01, 5.0]]
        >>> Multilinear(skill_exponent=1.0, skills=2, initial=0.1).strength(2, data=[1, 10]).round(3).tolist()
        [0.28, 0.903]
        """
        ranks = self._ranks(skill)
        (times, sizes, known), shape = self._resources(time, data, parameters)
        has = np.ones((1, ranks.size)) if known is None else known[:, None] >= ranks.ravel()
        cases = int(np.prod(shape, dtype=int))
        values = self._gather(
            lambda task: np.broadcast_to(has * task.strength(ranks.ravel(), times, sizes), (cases, ranks.size))
        )
        return np.moveaxis(values, -2, -1).reshape((*self.grid.shape, *ranks.shape, *shape))

    def loss(self, time: Amount = None, data: Amount = None, parameters: Amount = None) -> Float[np.ndarray, "..."]:
        """Loss after `time` steps, with `data` samples, in a model with `parameters` skills: (4.17).

        ½ S² Σ_{k ≤ N} P(k) E[(1 − R_k/S)²] + ½ S² Σ_{k > N} P(k), the mean over data sets of D samples. What is not
        given is without limit. Arrays broadcast against each other (`time[:, None]` and `parameters` make a table).
        Shape: grid, then theirs. Every rank would be one term of the sum; a few hundred representative ranks give it
        with a relative error below 1e-12 while the loss is above 1e-15 of its start (for 10⁷ skills as for 10³).
        Source: layerwise (4.17), (4.19), (4.28), (4.35), Corollary B.1.2.

        >>> model = Multilinear(skills=10**7, skill_exponent=0.3)
        >>> model.loss(time=[1e2, 1e4], data=10**5, parameters=[[10**3], [10**6]]).shape
        (2, 2)
        """
        cases, shape = self._resources(time, data, parameters)
        size = int(np.prod(shape, dtype=int))
        values = self._gather(lambda task: np.broadcast_to(task.loss(*cases), (size,)))
        return values.reshape((*self.grid.shape, *shape))

    def exponent(self, resource: str) -> Float[np.ndarray, "..."]:
        """Exponent of the loss in "time", "data", "parameters" or "compute": Table 4.1.

        −α/(α+1), −α/(α+1), −α, −α/(α+2). Source: layerwise (4.16), (4.25), (4.34), (4.36), Table 4.1.

        >>> float(Multilinear(skill_exponent=0.6).exponent("time").round(3))
        -0.375
        """
        alpha = np.broadcast_to(self.skill_exponent, self.grid.shape)
        return scaling.exponent(one_of("resource", resource, scaling.RESOURCES), alpha)

    def prefactor(self, resource: str) -> Float[np.ndarray, "..."]:
        """Constant c in loss ≈ c·resource^exponent for skills without limit; the source leaves it out.

        See `models/multilinear/scaling.py` for the formulas, which follow from (4.17) without approximation.

        >>> float(Multilinear(skills=10**6).prefactor("parameters").round(4))
        0.3646
        """
        one_of("resource", resource, scaling.RESOURCES)
        return self._gather(lambda task: scaling.prefactor(resource, task))

    def absent_loss(self, resource: str = "time", *, published: bool = False) -> Float[np.ndarray, "..."]:
        """L_C of (C.2): the loss that skills beyond the last one would add, which a finite number does not have.

        ½ (S − R(0))² A ζ(α+1, n_s+1), with S in place of S − R(0) for parameters and compute. `published=True`: the
        printed ½ S² A n_s^−α/α, which is the same for many skills and R(0) ≪ S. Source: layerwise (C.2).

        >>> float(Multilinear(skills=50_000, skill_exponent=0.1).absent_loss().round(3))
        0.231
        """
        one_of("resource", resource, scaling.RESOURCES)
        flag("published", published)
        return self._gather(lambda task: scaling.absent_loss(resource, task, published=published))

    def scaling_law(self, resource: str, amount: ArrayLike, *, finite: bool = True) -> Float[np.ndarray, "..."]:
        """prefactor·amount^exponent − absent loss: the scaling law, corrected for a finite number of skills (C.2).

        Holds between the first skill being learned and the last one being begun. `finite=False` leaves the correction
        out. Shape: grid, then that of `amount`. Source: layerwise (4.25), (4.34), (4.36), (C.2).

        >>> model = Multilinear(skills=50_000, skill_exponent=0.1, learning_rate=1.0)
        >>> abs(float(model.scaling_law("time", 1e3) / model.loss(time=1e3)) - 1) < 1e-3
        True
        """
        x = as_float("amount", amount)
        require("amount", x, x > 0, "be above 0")
        behind = (..., *(None,) * x.ndim)
        power = x ** self.exponent(resource)[behind]
        law = self.prefactor(resource)[behind] * power
        return np.asarray(law - self.absent_loss(resource)[behind] if flag("finite", finite) else law)

    def optimal_compute(self, budgets: ArrayLike) -> xr.Dataset:
        """Best split of compute C = T·N between steps and skills, for each budget: (4.43) without its approximations.

        Every whole N from 1 to `skills` is a candidate; T = C/N is not rounded. Returns over (…grid, budget) time T in
        steps, parameters N (skills known), loss there, and last_strength R_N/S of the last skill that the model has.
        Source: layerwise (4.43), (4.44).

        >>> best = Multilinear(skills=10**6).optimal_compute([1e5, 1e7])
        >>> best["parameters"].values.astype(int).tolist()
        [20, 120]
        """
        amounts = as_float("budgets", budgets)
        if amounts.ndim != 1 or amounts.size == 0 or np.any(amounts <= 0):
            raise ValueError(f"budgets must be a list of numbers above 0, got {amounts}")
        found = self._gather(lambda task: scaling.best_split(task, amounts))  # (…grid, 4, budget)
        names = ("time", "parameters", "loss", "last_strength")
        dims = (*self.grid.dims, "budget")
        coordinates: dict[str, Any] = {"budget": ("budget", amounts, {"units": "steps × skills"})}
        values = {name: (dims, found[..., index, :]) for index, name in enumerate(names)}
        return xr.Dataset(values, coords=coordinates | self.grid.coordinates)

    def emergence(
        self, kind: str, skill: ArrayLike, x: ArrayLike, *, calibration: float = 1.0, published: bool = False
    ) -> Float[np.ndarray, "..."]:
        """Strength of skills in the extended model of a network that has to find them: (5.2), (5.5), (5.9).

        kind: "time" (x: steps), "data" (samples) or "parameters" (basis functions, such as hidden nodes).
        skill: ranks. x: a number or list. calibration: the factor on the rate (called 𝓑² in (5.2)), D_c or N_c, as
        found by `estimate_emergence`; 1 is the plain model. published: (5.5) as printed instead of its correction.
        Source: layerwise (5.2), (5.5), (5.9), Proposition B.1.1, Proposition B.1.2.

        >>> model = Multilinear(skills=5, target=5.0)
        >>> model.emergence("data", [1, 2], [800, 1600], calibration=800.0).round(2).tolist()
        [[2.96, 5.0], [0.98, 1.96]]
        """
        ranks, places = self._ranks(skill), as_float("x", x)
        value = self._calibration(kind, calibration)
        flag("published", published)
        require("x", places, places >= 0, "be at least 0")
        if kind == "data":
            require("x", places, (places >= 1) & (places == np.floor(places)), "be whole numbers from 1 on")
        return self._gather(lambda task: emergence.strength(task, kind, ranks, places, value, published=published))

    def emergence_point(
        self, kind: str, skill: ArrayLike, threshold: float = 0.5, *, calibration: float = 1.0, published: bool = False
    ) -> Float[np.ndarray, "..."]:
        """Steps, samples or basis functions at which skills pass `threshold`·S in the extended model.

        Steps are real numbers, samples and basis functions the smallest whole numbers. Arguments as in `emergence`.

        >>> Multilinear(skills=5, target=5.0).emergence_point("parameters", [1, 2, 3], calibration=4.0).tolist()
        [2.0, 6.0, 10.0]
        """
        ranks, value = self._ranks(skill), self._calibration(kind, calibration)
        level = scalar("threshold", threshold, above=0.0)
        require("threshold", np.array(level), np.array(level < 1), "be below 1, where a skill is complete")
        return self._gather(
            lambda task: emergence.amount_to_reach(task, kind, ranks, level, value, published=published)
        )

    def _calibration(self, kind: str, calibration: float) -> float:
        one_of("kind", kind, emergence.KINDS)
        if kind == "time" and self.linear:
            raise ValueError("kind 'time' needs the multilinear model: a linear one does not emerge; use strength(…)")
        least = 1.0 if kind == "data" else None
        return scalar("calibration", calibration, at_least=least, above=0.0)

    @renamed_arguments(batch="batch_size")
    @with_hints
    def simulate(
        self,
        steps: int = 1000,
        batch_size: int = 100,
        trials: int = 10,
        *,
        seed: int = 0,
        save_points: SavePoints = 101,
        data: int | None = None,
        parameters: int | None = None,
        track: ArrayLike | None = None,
        precision: str = "float64",
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Train the parameters a_k, b_k by (stochastic) gradient descent at every point of the grid.

        steps: training steps.
        batch_size: samples per step, drawn anew with replacement; 0 for the gradient of the whole loss.
        trials: independent repetitions at every grid point.
        seed: integer that fixes all randomness.
        save_points: how many evenly spaced steps to save (at most every one), or the steps themselves.
        data: size of the training set that each trial draws once; unlimited if not given.
        parameters: how many of the skills the model has; all if not given.
        track: ranks of the skills whose strength is saved; the first five if not given.
        precision: float64 or float32.
        progress: whether to draw a bar; by default on a terminal, after two seconds.

        Returns loss over all skills and training_loss over the training set (…grid, trial, time), and strength
        (…grid, trial, time, skill). Trial i is the same run whatever else runs, and draws the same random numbers at
        every grid point. Needs η S < 1 (linear: η < 2) times the largest share of one skill in a step, which is 1 for
        sampled batches: then no step can diverge. Source: layerwise (4.9), (4.10), (B.6), (B.7), (C.3).

        >>> run = Multilinear(learning_rate=[0.05, 0.1]).simulate(steps=20, trials=4, save_points=3)
        >>> run["strength"].dims, run["loss"].shape
        (('grid_0', 'trial', 'time', 'skill'), (2, 4, 3))
        """
        begun = clock.perf_counter()
        options = Options(
            steps=count("steps", steps),
            batch_size=count("batch_size", batch_size, at_least=0),
            trials=count("trials", trials),
            data=None if data is None else count("data", data),
            parameters=self.skills if parameters is None else count("parameters", parameters),
            precision=one_of("precision", precision, ["float64", "float32"]),
        )
        seed_key(seed)
        self._check_run(options)
        tracked = np.arange(1, min(self.skills, 5) + 1) if track is None else track
        ranks = np.atleast_1d(self._ranks(tracked, "track")).astype(int)
        if ranks.ndim != 1 or len(np.unique(ranks)) != ranks.size:
            raise ValueError(f"track must be a list of different ranks, got {track!r}")
        saves = stepping.save_steps(float(options.steps), 1.0, save_points)
        slots = min(options.parameters, options.data or options.parameters)
        self._require_room(
            options.trials,
            len(saves),
            saved=2 + len(ranks),
            state=2 * slots + 2 * options.batch_size,
            steps=int(saves[-1]),
            beside=2 * self.skills * self.grid.size if options.data else 0,
            precision=precision,
            skills=self.skills,
        )
        found = run_descent(self._tasks(), options, ranks, saves=saves, seed=int(seed), progress=progress)
        run = lay_out(found, saves, ranks, self.grid)
        recorded, wall_time = asdict(options) | {"track": ranks}, clock.perf_counter() - begun
        return self._signed(run, recorded, seed=int(seed), precision=precision, wall_time=wall_time)

    def _check_run(self, options: Options) -> None:
        if options.parameters > self.skills:
            raise ValueError(f"parameters must be at most skills = {self.skills}, got {options.parameters}")
        largest = 1.0 if options.batch_size or options.data else self.frequency(1)
        limit = 2.0 / largest if self.linear else 1 / (self.target * largest)
        rates, limit = np.broadcast_arrays(self.learning_rate, limit)
        rule = "2" if self.linear else "1/target"
        most = f"stay below {rule} / (largest share of one skill in a step), here {float(limit.min()):.4g}"
        require("learning_rate", rates, rates < limit, most)
