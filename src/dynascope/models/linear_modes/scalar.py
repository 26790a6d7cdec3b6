"""The scalar network of any width: exact solution, amplification, levers, and gradient descent on its weights."""

import time
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import (
    ArrayLike,
    SavePoints,
    Times,
    as_float,
    count,
    increasing,
    left_out,
    one_of,
    require,
    scalar,
)
from dynascope.deprecation import renamed_arguments
from dynascope.models import stepping
from dynascope.models.family import Family, OptionalParameter, Parameter, over, parameter
from dynascope.models.linear_modes.descent import drawn_weights, run_descent
from dynascope.models.linear_modes.feedback import growth, growth_limit
from dynascope.models.noise import seed_key
from dynascope.models.parameters import with_hints

_WIDTH = 20  # where neither weights nor a width are given


class ScalarNetwork(Family):
    """A linear network of `width` hidden units from one number to one number, f(x) = (x/Z) Σ_i a_i b_i.

    It learns f*(x) = S x under the loss ½ E[(f − f*)²]: a_i' = −E[x²] (θ − S) b_i/Z, θ = Σ a_i b_i/Z (6.1)

    first: a_i(0), a list over units (grid axes may stand in front); drawn from the seed of `simulate` if not given.
    second: b_i(0), likewise; give both or neither.
    target: S, any sign.
    output_scale: Z > 0, by which the output is divided.
    variance: E[x²] > 0.
    weight_scale: factor on the initial weights, given or standard normal.
    width: number of units, where weights are drawn.

    Time is gradient-flow time (steps × learning rate). Source: layerwise (6.1)–(6.14).

    >>> network = ScalarNetwork(first=[0.3, -0.2], second=[0.1, 0.4], target=1.7, output_scale=3.0)
    >>> run = network.solve([0.0, 1.0, 100.0])
    >>> run["output"].values.round(4).tolist()
    [-0.0167, 0.0406, 1.7]
    >>> bool(abs(run["gamma"][-1] - network.amplification()) < 1e-12)
    True
    """

    RESULT_NAMES: ClassVar = (
        *("trial", "time", "unit", "first", "second", "output", "gamma"),
        *("aligned_output", "anti_aligned_output", "loss"),
    )
    LABELS: ClassVar = {
        "output": ("output θ", "output/input"),
        "gamma": ("amplification γ", "1"),
        "time": ("time", "steps × learning rate"),
    }
    first: OptionalParameter = parameter(None, core=("unit",))
    second: OptionalParameter = parameter(None, core=("unit",))
    target: Parameter = parameter(1.0)
    output_scale: Parameter = parameter(1.0, above=0.0, kw_only=True)
    variance: Parameter = parameter(1.0, above=0.0, kw_only=True)
    weight_scale: Parameter = parameter(1.0, at_least=0.0, kw_only=True)
    width: int = eqx.field(static=True, default=None, kw_only=True)

    def __post_init__(self) -> None:
        if (self.first is None) != (self.second is None):
            missing = "first" if self.first is None else "second"
            raise ValueError(f"{missing} must be given with the other layer, or neither: then both are drawn, got None")
        super().__post_init__()
        if self.first is None or self.second is None:
            given: int | None = self.width
            self.width = _WIDTH if given is None else count("width", given)
        else:
            left_out("width", self.width, where="where weights are given")
            self.width = max(self.first.shape[-1], self.second.shape[-1])

    def solve(self, times: Times, *, published: bool = False) -> xr.Dataset:
        """Weights, output, γ and loss at the given times, exactly.

        a ± b = (a(0) ± b(0)) γ^{±1/2}, γ from (6.12) with the exponent −2 √(Σ0² − S0² + S²) E[x²] t/Z; the printed 4
        (`published=True`) belongs to a loss without the half.

        times: increasing list from 0 or later.
        Returns first and second (…grid, unit, time), and over (…grid, time) output θ, its parts aligned_output and
        anti_aligned_output from units with a(0) b(0) S > 0 and < 0, gamma and loss ½ E[x²] (θ − S)².
        Source: layerwise (6.10)–(6.13), Theorem 1.

        >>> ScalarNetwork([1.0, 1.0], [1.0, -1.0], 0.5).solve([0.0, 9.0])["aligned_output"].values.round(3).tolist()
        [1.0, 1.281]
        """
        begun = time.perf_counter()
        save = increasing("times", times)
        together, apart = self._sums()
        flow_time = (2.0 if published else 1.0) * (self.variance / self.output_scale)[..., None] * save
        gamma = growth(together[..., None], apart[..., None], self.target[..., None], flow_time=flow_time)
        first, second = self._start()
        root = np.sqrt(gamma)[..., None, :]  # (…grid, 1, time)
        plus, minus = (first + second)[..., None] * root, (first - second)[..., None] / root
        run = self._lay_out((plus + minus) / 2, (plus - minus) / 2, save, start=(first, second), gamma=gamma)
        options = {"published": published}
        return self._signed(run, options, seed=None, precision="float64", wall_time=time.perf_counter() - begun)

    @renamed_arguments(batch="batch_size")
    @with_hints
    def simulate(
        self,
        duration: float = 5.0,
        learning_rate: float = 0.001,
        trials: int = 100,
        *,
        seed: int = 0,
        save_points: SavePoints = 101,
        batch_size: int | None = None,
        label_noise: float = 0.0,
        precision: str = "float64",
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Train the weights by gradient descent, or by SGD on fresh Gaussian inputs.

        duration: flow time to train, learning rate × steps, rounded up to whole steps.
        learning_rate: size of a step; at most about Z²/(E[x²] Σ(a² + b²)) is stable.
        trials: repetitions, each with its own initial weights (where none are given) and data.
        seed: integer that fixes all randomness.
        save_points: how many evenly spaced times to save (at most every step), or the times themselves.
        batch_size: samples in a batch of SGD; the expected loss is descended if not given.
        label_noise: standard deviation of noise added to the labels of a batch.
        precision: float64 or float32.
        progress: whether to draw a bar; by default on a terminal, after two seconds.

        Returns what `solve` returns, with trial after the grid; gamma is measured, Σ(a + b)²/Σ(a(0) + b(0))².
        A trial is the same whatever else runs, and starts from the same standard normal weights at every grid point.
        Source: layerwise (6.1).

        >>> run = ScalarNetwork(target=[0.5, 2.0], width=4).simulate(duration=1.0, trials=3, save_points=5)
        >>> run["first"].dims, run["output"].shape
        (('grid_0', 'trial', 'unit', 'time'), (2, 3, 5))
        """
        begun = time.perf_counter()
        trials = count("trials", trials)
        rate = scalar("learning_rate", learning_rate, above=0.0)
        options = {
            "duration": scalar("duration", duration, above=0.0),
            "learning_rate": rate,
            "trials": trials,
            "batch_size": None if batch_size is None else count("batch_size", batch_size),
            "label_noise": scalar("label_noise", label_noise, at_least=0.0),
        }
        if batch_size is None and options["label_noise"]:
            raise ValueError(f"label_noise must be 0 without a batch that it could disturb, got {label_noise}")
        one_of("precision", precision, ["float64", "float32"])
        seed_key(seed)
        saves = stepping.save_steps(duration, rate, save_points)
        self._require_room(
            trials,
            len(saves),
            saved=2 * self.width + 5,
            state=2 * self.width + 4 * (batch_size or 0),
            steps=int(saves[-1]),
            precision=precision,
            width=self.width,
        )
        fields = {name: values[:, None] for name, values in self._points().items() if name not in ("first", "second")}
        fields["label_noise"] = np.array([[options["label_noise"]]])
        starts = self._starts(trials, seed)
        weights = run_descent(
            starts,
            fields,
            learning_rate=rate,
            batch_size=batch_size,
            saves=saves,
            seed=seed,
            precision=precision,
            progress=progress,
        )
        first, second = (self._unfold(w) for w in weights.values())
        begin = [w.transpose(1, 2, 0).reshape((*self.grid.shape, trials, self.width)) for w in starts.values()]
        run = self._lay_out(first, second, saves * rate, start=(begin[0], begin[1]), gamma=None)
        wall_time = time.perf_counter() - begun
        return self._signed(run, options, seed=int(seed), precision=precision, wall_time=wall_time)

    def amplification(
        self, *, weight: ArrayLike = 1.0, target: ArrayLike = 1.0, input: ArrayLike = 1.0, output: ArrayLike = 1.0
    ) -> Float[np.ndarray, "..."]:
        """γ₊ = lim γ(t): the square of the factor by which aligned sums a + b grow and differences a − b shrink.

        γ₊ = (S + √(Σ0² − S0² + S²))/(Σ0 + S0), infinite where a(0) = −b(0) in every unit and S > 0.
        The four levers are factors on the initial weights, the target, the input and the output (Z falls as the output
        grows), as in Table 6.1; they act through one product only, γ₊ = γ₊(target/(input·output·weight²)).
        Shape: grid, broadcast against the levers. Source: layerwise (6.14), Section 6.3.1.

        >>> network = ScalarNetwork([1.0, 1.0], [1.0, -1.0], 0.5)
        >>> [float(network.amplification(**{name: 0.5}).round(3)) for name in ("weight", "target", "input", "output")]
        [2.414, 1.133, 1.618, 1.618]
        """
        given = {"weight": weight, "target": target, "input": input, "output": output}
        levers = {name: as_float(name, value) for name, value in given.items()}
        for name, value in levers.items():
            require(name, value, value > 0, "be above 0")
        lift = levers["target"] / (levers["input"] * levers["output"] * levers["weight"] ** 2)
        return growth_limit(*self._sums(), self.target * lift)

    def levers_to(self, amplification: ArrayLike) -> dict[str, Float[np.ndarray, "..."]]:
        """The factor on each lever that alone brings γ₊ to the wanted value; NaN where none does.

        With k = ((Σ0 + S0) γ₊ − (Σ0 − S0)/γ₊)/(2 S): target k, input and output 1/k, weight k^{−1/2}.
        Source: layerwise (6.14); solved for the levers.

        >>> network = ScalarNetwork([1.0, 1.0], [1.0, -1.0], 0.5)
        >>> factors = network.levers_to(4.0)
        >>> {name: float(network.amplification(**{name: factor}).round(9)) for name, factor in factors.items()}
        {'weight': 4.0, 'target': 4.0, 'input': 4.0, 'output': 4.0}
        """
        wanted = as_float("amplification", amplification)
        require("amplification", wanted, wanted > 0, "be above 0")
        together, apart = self._sums()
        with np.errstate(divide="ignore", invalid="ignore"):
            lift = (together * wanted - apart / wanted) / (2 * self.target)
            lift = np.where(np.isfinite(lift) & (lift > 0), lift, np.nan)
        factors = {"weight": lift**-0.5, "target": lift, "input": 1 / lift, "output": 1 / lift}
        return {name: np.asarray(factor) for name, factor in factors.items()}

    def sensitivity(self) -> dict[str, Float[np.ndarray, "..."]]:
        """D log γ₊/d log(lever): S/R for the target, −S/R for input and output, −2 S/R for the weights.

        R = √(Σ0² − S0² + S²). In the rich limit R → S a lever counts in full, in the lazy limit S/R → 0 hardly at all.
        Source: derived from layerwise (6.14).

        >>> {name: float(s.round(3)) for name, s in ScalarNetwork([1.0], [0.0], 0.5).sensitivity().items()}
        {'weight': -1.414, 'target': 0.707, 'input': -0.707, 'output': -0.707}
        """
        together, apart = self._sums()
        root = np.hypot(self.target, np.sqrt(together * apart))
        share = np.asarray(self.target / np.where(root == 0, np.nan, root))
        weights = {"weight": -2.0, "target": 1.0, "input": -1.0, "output": -1.0}
        return {name: np.asarray(weight * share) for name, weight in weights.items()}

    def regime(self, change: float = 0.1) -> np.ndarray:
        """Say "lazy" or "rich": whether sums and differences of paired weights change by at most the share `change`.

        lazy: √γ₊ and 1/√γ₊ both within 1 ± change. The boundary is a convention, γ₊ itself the measure.
        Source: layerwise below Theorem 1.

        >>> ScalarNetwork([3.0, 3.0], [3.0, -3.0], target=[0.5, 50.0]).regime().tolist()
        ['lazy', 'rich']
        """
        allowed = scalar("change", change, above=0.0)
        factor = np.sqrt(self.amplification())
        return np.where(np.maximum(factor, 1 / np.maximum(factor, 1e-300)) <= 1 + allowed, "lazy", "rich")

    def kernel_growth(self) -> Float[np.ndarray, "..."]:
        """How much the tangent kernel grows by the end: √(Σ0² − S0² + S²)/Σ0, 1 for linear dynamics.

        The kernel Σ(a² + b²) x x'/Z² sets the rate at which the output learns, 2 Σ(t) E[x²]/Z; it starts at Σ0 and
        ends at R. Source: derived from layerwise (6.3), (6.10)–(6.13).

        >>> float(ScalarNetwork([0.1], [0.1], 1.0).kernel_growth().round(3))
        100.0
        """
        together, apart = self._sums()
        start = (together + apart) / 2
        return np.asarray(np.hypot(self.target, np.sqrt(together * apart)) / np.where(start == 0, np.nan, start))

    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        """Initial weights (…grid, unit) of a network whose weights were given."""
        if self.first is None or self.second is None:
            raise ValueError("first and second must be given here, got None; only simulate draws them from its seed")
        return self.weight_scale[..., None] * self.first, self.weight_scale[..., None] * self.second

    def _starts(self, trials: int, seed: int) -> dict[str, np.ndarray]:
        """Initial weights of every run, (unit, point, trial)."""
        shape = (self.grid.size, self.width, trials)
        if self.first is None:
            scale = over(self._flat(self.weight_scale), 2)
            layers = [scale * drawn for drawn in drawn_weights(self.width, trials, seed)]
        else:
            full = (*self.grid.shape, self.width)
            layers = [np.broadcast_to(layer, full).reshape(*shape[:2], 1) for layer in self._start()]
        return {
            name: np.broadcast_to(layer, shape).transpose(1, 0, 2)
            for name, layer in zip(("first", "second"), layers, strict=True)
        }

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ0 + S0 and Σ0 − S0 of (6.13)."""
        first, second = self._start()
        sums = (np.sum(pair**2, axis=-1) / (2 * self.output_scale) for pair in (first + second, first - second))
        together, apart = (np.broadcast_to(values, self.grid.shape) for values in sums)
        return together, apart

    def _lay_out(
        self,
        first: np.ndarray,
        second: np.ndarray,
        times: np.ndarray,
        *,
        start: tuple[np.ndarray, np.ndarray],
        gamma: np.ndarray | None,
    ) -> xr.Dataset:
        """Name the axes of weights (…grid, [trial,] unit, time) that began at `start`, and derive the rest."""
        trials = start[0].shape[len(self.grid.shape) : -1]  # nothing, or their number
        lead, shape = (*self.grid.dims, *("trial" for _ in trials)), (*self.grid.shape, *trials, self.width, times.size)
        first, second = np.broadcast_to(first, shape), np.broadcast_to(second, shape)
        scale, target, variance = (
            field.reshape(*field.shape, *(1 for _ in trials), 1).astype(first.dtype)
            for field in (self.output_scale, self.target, self.variance)
        )
        parts = first * second / scale[..., None]
        side = (start[0] * start[1] * target)[..., None]  # (…, unit, 1)
        output = parts.sum(axis=-2)
        if gamma is None:
            grown, begun = (np.sum((a + b) ** 2, axis=-2) for a, b in ((first, second), (w[..., None] for w in start)))
            gamma = np.divide(grown, begun, out=np.full_like(grown, np.nan), where=begun > 0)
        curves = {
            "output": output,
            "aligned_output": np.where(side > 0, parts, 0).sum(axis=-2),
            "anti_aligned_output": np.where(side < 0, parts, 0).sum(axis=-2),
            "gamma": np.broadcast_to(gamma, output.shape),
            "loss": variance * (output - target) ** 2 / 2,
        }
        return xr.Dataset(
            {name: ((*lead, "unit", "time"), w.copy()) for name, w in (("first", first), ("second", second))}
            | {name: ((*lead, "time"), curve.copy()) for name, curve in curves.items()},
            coords={"unit": np.arange(1, self.width + 1), "time": ("time", times)}
            | ({"trial": np.arange(trials[0])} if trials else {})
            | self.grid.coordinates,
        )

    def _facts(self) -> dict[str, Any]:  # Any: arrays, and the width
        plain = self._plain_parameters()
        weights = {name: plain.pop(name) for name in ("first", "second") if name in plain}
        return plain | {"width": self.width} | weights
