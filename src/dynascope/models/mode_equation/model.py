"""One mode of a deep linear network under gradient noise, as users meet it: parameters in, labelled results out."""

import time
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import ArrayLike, SavePoints, Times, as_float, count, increasing, one_of, require, scalar
from dynascope.models import stepping
from dynascope.models.family import Family, Parameter, over, parameter
from dynascope.models.mode_equation import equations, flow, fokker_planck, stationary
from dynascope.models.mode_equation.equations import ITO_FORMS, STEPS
from dynascope.models.mode_equation.simulation import LABELS, RESULT_NAMES, lay_out, run_modes
from dynascope.models.noise import seed_key
from dynascope.models.parameters import ParameterValue, with_hints


class Peak(NamedTuple):
    """Where the diffusion peaks before the mode is learned, and how high; NaN where it does not (10)."""

    amplitude: Float[np.ndarray, "..."]
    diffusion: Float[np.ndarray, "..."]


class ModeEquation(Family):
    """One mode of a balanced, aligned deep linear network under the noise of SGD.

    dw = [L (s − w) w^(2−2/L) + μ_Ito] dt + √D dB (4), D = β L² q w^(4−4/L) (7), q = 2(s − w)² + σ_q²,
    μ_Ito = β L(L−1)/2 · q · w^(3−4/L)

    Fields are numbers, arrays that broadcast, or DataArrays whose dimensions keep their names.

    depth: number L of layers, at least 2.
    singular_value: s > 0 of the teacher, what the mode learns.
    temperature: β ≥ 0, learning rate over batch size.
    label_noise: σ_q ≥ 0, standard deviation of the noise on the labels.
    ito: drift that noise induces: derived; or as printed, published for (14) or published-6 for (6).

    Time is gradient-flow time, steps times learning rate. The loss is half the squared error, summed over outputs.
    The equation holds while weights are balanced and aligned; it leaves out the coupling between modes. The printed
    Itô drift is wrong: it does not vanish at w = 0, where the noise does. Source: deep-linear (4)–(18).

    >>> mode = ModeEquation(depth=4, temperature=0.005, label_noise=0.3)
    >>> float(mode.drift(0.5).round(4)), float(mode.diffusion(0.5).round(5))
    (0.7115, 0.0059)
    """

    RESULT_NAMES: ClassVar = RESULT_NAMES
    LABELS: ClassVar = LABELS
    depth: int = eqx.field(static=True, default=4)
    singular_value: Parameter = parameter(1.0, above=0.0, label="singular value s of the teacher", unit="output/input")
    temperature: Parameter = parameter(0.005, at_least=0.0, label="temperature β", unit="learning rate/batch size")
    label_noise: Parameter = parameter(0.0, at_least=0.0, label="label noise σ_q", unit="output")
    ito: str = eqx.field(static=True, default="derived")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.depth, self.ito = count("depth", self.depth, at_least=2), one_of("ito", self.ito, ITO_FORMS)

    def _behind_grid(self, axes: int = 0) -> stepping.Parameters:
        """What the equations need, with `axes` further axes behind the grid."""
        return {name: over(values, axes) for name, values in self.parameters().items()} | {"depth": self.depth}

    def gradient_drift(self, w: ArrayLike) -> Float[np.ndarray, "..."]:
        """Gradient part of the drift, L (s − w) w^(2(L−1)/L) (5). Shape: grid, then the shape of `w` ≥ 0.
        Source: deep-linear (5).

        >>> float(ModeEquation(depth=2).gradient_drift(0.25))
        0.375
        """
        w = _amplitude("w", w)
        return self._over_grid(equations.gradient_drift(w, self._behind_grid(w.ndim)), w)

    def ito_drift(self, w: ArrayLike) -> Float[np.ndarray, "..."]:
        """Drift that noise induces, β L(L−1)/2 · q · w^((3L−4)/L); (14) or (6) if the model says so.

        It follows from w = v^L with the one weight v of all layers, dv = v^(L−1)[(s − w) dt + √(β q) dB]. Checked
        against sampled gradients in `dynascope verify deep_linear`. Shape: grid, then the shape of `w` ≥ 0.
        Source: deep-linear (6), (14).

        >>> derived = ModeEquation(depth=4, temperature=1.0, label_noise=0.3)
        >>> printed = ModeEquation(depth=4, temperature=1.0, label_noise=0.3, ito="published")
        >>> float(derived.ito_drift(0.6).round(4)), float(printed.ito_drift(0.6).round(4))
        (0.8856, 3.96)
        """
        w = _amplitude("w", w)
        return self._over_grid(equations.ito_drift(w, self._behind_grid(w.ndim), self.ito), w)

    def drift(self, w: ArrayLike) -> Float[np.ndarray, "..."]:
        """The whole drift of (4), gradient and Itô part. Shape: grid, then the shape of `w` ≥ 0.
        Source: deep-linear (4).

        >>> float(ModeEquation().drift(1.0))
        0.0
        """
        return np.asarray(self.gradient_drift(w) + self.ito_drift(w))

    def diffusion(self, w: ArrayLike) -> Float[np.ndarray, "..."]:
        """D = β L² (2(s − w)² + σ_q²) w^(4(L−1)/L) (7). Shape: grid, then the shape of `w` ≥ 0.
        Source: deep-linear (7).

        >>> float(ModeEquation(depth=2, temperature=0.01).diffusion(0.5))
        0.005
        """
        w = _amplitude("w", w)
        return self._over_grid(equations.diffusion(w, self._behind_grid(w.ndim)), w)

    def _over_grid(self, values: ArrayLike, w: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values, (*self.grid.shape, *w.shape)).copy()

    def peak(self) -> Peak:
        """Amplitude at which the diffusion peaks on the way to s, and the diffusion there.

        w* = [(a+1) s − √(s² − a(a+2) σ_q²/2)]/(a+2), a = 4(L−1)/L (9), below s. It exists if
        σ_q² < 2s²/(a(a+2)) (10); at equality D only levels off there. NaN where there is none. It is a local maximum:
        D grows without bound above s. Source: deep-linear (9), (10).

        >>> ModeEquation(depth=4, label_noise=[0.0, 1.0]).peak().amplitude.tolist()
        [0.6, nan]
        """
        a = 4 - 4 / self.depth
        s, sigma = (np.broadcast_to(field, self.grid.shape) for field in (self.singular_value, self.label_noise))
        discriminant = s**2 - a * (a + 2) / 2 * sigma**2
        root = np.sqrt(np.where(discriminant > 0, discriminant, np.nan))
        place = ((a + 1) * s - root) / (a + 2)
        return Peak(np.asarray(place), np.asarray(equations.diffusion(place, self._behind_grid())))

    def gradient_flow(self, times: Times, start: ParameterValue) -> Float[np.ndarray, "*grid time"]:
        """Amplitude without noise, w' = L (s − w) w^(2−2/L), at times from 0.

        Depth 2: s/(1 + (s/w0 − 1) exp(−2 s t)) (3). Other depths by quadrature and Newton's method in log(w/|s − w|),
        to rounding. `start` > 0 is a number or varies over the grid. Source: deep-linear (2), (3).

        >>> ModeEquation(depth=2).gradient_flow([0.0, 1.0], start=0.5).round(4).tolist()
        [0.5, 0.8808]
        """
        times, begin = increasing("times", times), self._start(start)
        path = flow.solve(times, begin.reshape(-1), self._points()["singular_value"], depth=self.depth)
        return self._unfold(path)

    def time_to_reach(self, fraction: ArrayLike, start: ParameterValue) -> Float[np.ndarray, "..."]:
        """Gradient-flow time from `start` to w = fraction · s; NaN where the flow never passes there.

        Shape: grid, then the shape of `fraction` > 0. Source: inverse of `gradient_flow`.

        >>> ModeEquation(depth=2).time_to_reach([0.5, 0.9], start=0.1).round(4).tolist()
        [1.0986, 2.1972]
        """
        fraction = as_float("fraction", fraction)
        require("fraction", fraction, fraction > 0, "be above 0")
        points = self._points()["singular_value"]
        wanted = np.broadcast_to(fraction.reshape(1, -1), (len(points), fraction.size))
        waits = flow.time_to_reach(wanted, self._start(start).reshape(-1), points, depth=self.depth)
        return waits.reshape((*self.grid.shape, *fraction.shape))

    @with_hints
    def simulate(
        self,
        duration: float = 20.0,
        dt: float = 0.01,
        trials: int = 100,
        *,
        seed: int = 0,
        save_points: SavePoints = 101,
        start: ParameterValue = 0.01,
        scheme: str = "weak2",
        precision: str = "float64",
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Simulate (4) at every point of the grid and return amplitude, loss and diffusion over time.

        duration: gradient-flow time to simulate, rounded up to whole steps.
        dt: length of a step, at most 1/(L s^(2−2/L)) so that a learned mode does not overshoot.
        trials: independent repetitions at every grid point.
        seed: integer that fixes all randomness.
        save_points: how many evenly spaced times to save (at most every step), or the times themselves.
        start: amplitude w > 0 at time 0, a number or one for each grid point.
        scheme: weak2, of weak order 2 in log w, which stays positive; or euler, Euler-Maruyama on w, of weak order 1.
        precision: float64 or float32.
        progress: whether to draw a bar; by default on a terminal, after two seconds.

        Returns amplitude, loss (s − w)²/2 and diffusion D(w), each (…grid, trial, time).
        Trial i is the same path whatever else runs, and sees the same noise at every grid point.
        Source: deep-linear (4).

        >>> run = ModeEquation(label_noise=[0.0, 0.3]).simulate(duration=1.0, trials=4, save_points=3)
        >>> run["amplitude"].dims, run["amplitude"].shape
        (('grid_0', 'trial', 'time'), (2, 4, 3))
        """
        begun = time.perf_counter()
        options: dict[str, Any] = {
            "duration": scalar("duration", duration, above=0.0),
            "dt": scalar("dt", dt, above=0.0),
            "trials": count("trials", trials),
            "scheme": one_of("scheme", scheme, list(STEPS)),
            "start": self._start(start),
        }
        one_of("precision", precision, ["float64", "float32"])
        seed_key(seed)
        if options["trials"] >= 2**32:
            raise ValueError(f"trials must stay below 2**32, got {trials}")
        limit = float(1 / flow.relaxation_rate(self.singular_value, self.depth).max())
        rule = f"be at most 1/(L s^(2−2/L)), so that a learned mode does not overshoot: here at most {limit:.6g}"
        require("dt", np.array(options["dt"]), np.array(options["dt"] <= limit), rule)
        saves = stepping.save_steps(options["duration"], options["dt"], save_points)
        self._require_room(options["trials"], len(saves), saved=3, state=1, steps=int(saves[-1]), precision=precision)
        amplitude = run_modes(
            STEPS[scheme][self.ito],
            self._points(),
            self.depth,
            saves=saves,
            seed=seed,
            precision=precision,
            progress=progress,
            **{name: options[name] for name in ("start", "dt", "trials")},
        )
        run = lay_out(self._unfold(amplitude), saves * options["dt"], self.grid, self._behind_grid(2))
        wall_time = time.perf_counter() - begun
        return self._signed(run, options, seed=int(seed), precision=precision, wall_time=wall_time)

    def collapse_temperature(self) -> Float[np.ndarray, "..."]:
        """Temperature from which on noise unlearns the mode: w → 0 in the end, however it starts.

        At depth 2, log w near 0 drifts at 2s − β(2s² + σ_q²), so 2s/(2s² + σ_q²); infinite for deeper modes, whose
        noise fades faster than the gradient. For the derived drift. Source: derived from deep-linear (4); without label
        noise a mode above this temperature ends at 0 or at s.

        >>> ModeEquation(depth=2, label_noise=[0.0, 1.0]).collapse_temperature().round(3).tolist()
        [1.0, 0.667]
        """
        s, sigma = (np.broadcast_to(field, self.grid.shape) for field in (self.singular_value, self.label_noise))
        return np.asarray(stationary.collapse_temperature(s, sigma, self.depth))

    def _fate(self) -> tuple[Float[np.ndarray, " point"], dict[str, np.ndarray]]:
        """Where each mode's law is a point mass (NaN: it has a density), and the parameters of those with a density."""
        points = self._points()
        silent = (points["label_noise"] == 0) | (points["temperature"] == 0)
        collapsed = points["temperature"] >= self.collapse_temperature().reshape(-1)
        place = np.where(silent, points["singular_value"], np.nan)
        if self.ito == "derived":
            place = np.where(~silent & collapsed, 0.0, place)
        return place, {name: values[np.isnan(place)] for name, values in points.items()}

    def stationary_density(self, w: ArrayLike) -> Float[np.ndarray, "..."]:
        """Density of the amplitude in the stationary state, p(w) ∝ exp(∫ 2μ/D dw)/D (16), normalised.

        By quadrature, to about 1e-12. The integral starts at any w > 0, not at the printed 0, where it diverges.
        Without label noise (or temperature) the law is a point mass at s: 0, and infinite at w = s. Above
        `collapse_temperature` it is one at 0. Shape: grid, then the shape of `w` > 0. Source: deep-linear (16).

        >>> ModeEquation(depth=4, label_noise=0.3).stationary_density([0.9, 1.0]).round(2).tolist()
        [0.05, 13.36]
        """
        w = as_float("w", w)
        require("w", w, w > 0, "be above 0")
        place, points = self._fate()
        densities = np.where(w.reshape(1, -1) == place[:, None], np.inf, 0.0)
        if len(points["temperature"]):
            densities[np.isnan(place)] = stationary.Law(points, depth=self.depth, form=self.ito).density(w.reshape(-1))
        return densities.reshape((*self.grid.shape, *w.shape))

    def stationary_moments(self, form: str = "exact") -> stationary.Moments:
        """Mean, variance, mode and zero of the drift in the stationary state, each over the grid.

        form: exact, from the density (16) by quadrature; small-rate, first order in the temperature,
            with u = β(L−1) σ_q² s^(1−2/L): mean s − u/2, mode s − 3u/2, zero of the drift s + u/2, variance (18); or
            published, (17) and (18) as printed, where mean and mode stand at the zero of the drift.

        The variance exists at any temperature: far out the density falls as w^(3/L−5).
        Source: deep-linear (17), (18); the corrections are checked in `dynascope verify deep_linear`.

        >>> mode = ModeEquation(depth=4, label_noise=0.3)
        >>> [round(float(value), 5) for value in mode.stationary_moments()]
        [0.99931, 0.00092, 0.99805, 1.00068]
        >>> [round(float(value), 5) for value in mode.stationary_moments("small-rate")]
        [0.99933, 0.0009, 0.99797, 1.00067]
        """
        one_of("form", form, ["exact", "small-rate", "published"])
        points = self._points()
        if form != "exact":
            of = stationary.small_rate_moments if form == "small-rate" else stationary.published_moments
            s, beta, sigma = (points[name] for name in ("singular_value", "temperature", "label_noise"))
            return stationary.Moments(*map(self._unfold, of(s, beta, sigma, self.depth)))
        place, smooth = self._fate()
        found = [place.copy(), np.zeros_like(place), place.copy(), place.copy()]
        if len(smooth["temperature"]):
            for values, value in zip(
                found, stationary.Law(smooth, depth=self.depth, form=self.ito).moments(), strict=True
            ):
                values[np.isnan(place)] = value
        return stationary.Moments(*map(self._unfold, found))

    def density_path(
        self, times: Times, w_grid: ArrayLike, start: ArrayLike
    ) -> Float[np.ndarray, "*grid time amplitude"]:
        """Density of the amplitude over time, from the Fokker–Planck equation of Proposition 5.1.

        ∂p/∂t = −∂(μ p)/∂w + ½ ∂²(D p)/∂w², on the points `w_grid` ≥ 0, with no flux through its ends: choose them so
        that the mode stays within. `start` is one amplitude, or a density over the points. Probability,
        np.trapezoid(path, w_grid), stays what it is to rounding, and no density becomes negative. Time is exact, the
        error of second order in the spacing where that is below D/|μ|; where it is above, the law spreads as if D were
        |μ|·spacing. `amplitude_grid` makes points that suit. The cost grows as the cube of their number (400: a
        fraction of a second).
        Source: deep-linear (31), Proposition 5.1.

        >>> w = np.linspace(0.0, 1.4, 141)
        >>> path = ModeEquation(depth=2, label_noise=0.3).density_path([1.0, 3.0], w, start=0.1)
        >>> np.trapezoid(path * w, w).round(3).tolist()
        [0.449, 0.975]
        """
        times, points = increasing("times", times), increasing("w_grid", w_grid)
        if len(points) < 3:
            raise ValueError(f"w_grid must hold at least three points, got {len(points)}")
        begin = as_float("start", start)
        if begin.ndim == 0:
            require("start", begin, (begin >= points[0]) & (begin <= points[-1]), "lie within w_grid")
            begin = fokker_planck.point_mass(points, float(begin))
        elif begin.shape != points.shape:
            raise ValueError(f"start must be a number or a density of shape {points.shape}, got shape {begin.shape}")
        require("start", begin, begin >= 0, "be at least 0 everywhere")
        fields = self._points()
        paths = [
            fokker_planck.density_path(
                times, points, begin, p={n: v[i] for n, v in fields.items()} | {"depth": self.depth}, form=self.ito
            )
            for i in range(self.grid.size)
        ]
        return self._unfold(np.stack(paths))

    def amplitude_grid(self, low: float, high: float, points: int = 400) -> Float[np.ndarray, " amplitude"]:
        """Points for `density_path`: half of them equally spaced, the others where |μ|/D asks for a fine grid.

        >>> ModeEquation(depth=2).amplitude_grid(0.01, 1.5, points=5).round(3).tolist()
        [0.01, 0.204, 0.638, 1.016, 1.5]
        """
        low, high = scalar("low", low, above=0.0), scalar("high", high, above=0.0)
        require("low", np.array(low), np.array(low < high), f"be below high = {high}")
        require("temperature", self.temperature, self.temperature > 0, "be above 0 for a density to spread")

        def need(w: np.ndarray) -> np.ndarray:
            speed, finest = np.abs(self.drift(w)), 0.002 * w
            return np.asarray((speed / (self.diffusion(w) + speed * finest)).reshape(-1, w.size).max(axis=0))

        return fokker_planck.spread_points(low, high, count("points", points, at_least=3), need)

    def _start(self, start: ParameterValue) -> Float[np.ndarray, "*grid"]:
        begin = self._everywhere("start", start)
        require("start", begin, begin > 0, "be above 0 (at 0 nothing ever moves)")
        return begin


def _amplitude(name: str, value: ArrayLike) -> Float[np.ndarray, "..."]:
    array = as_float(name, value)
    require(name, array, array >= 0, "be at least 0")
    return array
