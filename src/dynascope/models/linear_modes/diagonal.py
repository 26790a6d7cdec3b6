"""Diagonal linear networks, solved for any initial weights, and the stages in which they learn their modes."""

import time
from typing import ClassVar

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import Times, increasing, require, scalar
from dynascope.deprecation import renamed, warn_renamed
from dynascope.models.family import Family, Parameter, over, parameter
from dynascope.models.linear_modes.feedback import growth, time_between


class DiagonalNetwork(Family):
    """A network f(x) = Σ_i x_i a_i b_i that learns Σ_i x_i S_i from independent inputs, under gradient flow.

    a_i' = −b_i E[x_i²] (a_i b_i − S_i), b_i' = −a_i E[x_i²] (a_i b_i − S_i) (3.6)

    Every field is a list over modes (one number stands for all modes), with grid axes in front; a DataArray needs the
    dimension `mode`.

    variance: E[x_i²] > 0 of the inputs.
    target: S_i, any sign.
    first: a_i(0). second: b_i(0).

    Time is gradient-flow time (steps × learning rate), for the loss ½ E[(f − f*)²]. A mode with a(0) = b(0) = 0 is a
    saddle and stays. Source: layerwise (3.1)–(3.3), (3.6)–(3.9), (3.12)–(3.14).

    >>> network = DiagonalNetwork(variance=[1.0, 0.5], target=1.0, first=0.1, second=0.1)
    >>> run = network.solve([0.0, 5.0, 50.0])
    >>> run["product"].dims, run["product"].values.round(3).tolist()
    (('mode', 'time'), [[0.01, 0.996, 1.0], [0.01, 0.6, 1.0]])
    """

    RESULT_NAMES: ClassVar = ("mode", "time", "product", "loss", "pair")
    LABELS: ClassVar = {
        "product": ("strength of the mode, first × second", "output/input"),
        "time": ("time", "steps × learning rate"),
    }
    variance: Parameter = parameter((1.0,), core=("mode",), above=0.0)
    target: Parameter = parameter((1.0,), core=("mode",))
    first: Parameter = parameter((0.1,), core=("mode",))
    second: Parameter = parameter((0.1,), core=("mode",))

    @property
    def modes(self) -> int:
        """Number of modes.

        >>> DiagonalNetwork(variance=[1.0, 0.5, 0.2]).modes
        3
        """
        return int(max(values.shape[-1] for values in self.parameters().values()))

    def solve(self, times: Times) -> xr.Dataset:
        """Weights, products and loss at the given times, exactly.

        a ± b = (a(0) ± b(0)) γ^{±1/2}, with γ(t) of `feedback.growth`; the sigmoid (3.9) where a(0) = b(0).

        times: increasing list from 0 or later.
        Returns product a_i b_i, first and second (…grid, mode, time) and loss ½ Σ E[x_i²] (a_i b_i − S_i)² (…, time).
        Source: layerwise (3.6), (3.9).

        >>> run = DiagonalNetwork(first=0.3, second=-0.2, target=2.0).solve([0.0, 1.0])
        >>> conserved = run["first"] ** 2 - run["second"] ** 2
        >>> conserved.values.round(12).tolist()
        [[0.05, 0.05]]
        """
        begun = time.perf_counter()
        grid_times = increasing("times", times)
        variance, target, first, second = (over(values, 1) for values in self.parameters().values())
        plus, minus = first + second, first - second
        root = np.sqrt(growth(plus**2 / 2, minus**2 / 2, target, flow_time=variance * grid_times))
        a, b = (plus * root + minus / root) / 2, (plus * root - minus / root) / 2
        product = ((plus * root) ** 2 - (minus / root) ** 2) / 4
        loss = np.sum(variance * (product - target) ** 2, axis=-2) / 2
        dims = (*self.grid.dims, "mode", "time")
        shape = (*self.grid.shape, self.modes, grid_times.size)
        layers = {"product": product, "first": a, "second": b}
        run = xr.Dataset(
            {name: (dims, np.broadcast_to(values, shape).copy()) for name, values in layers.items()}
            | {"loss": ((*self.grid.dims, "time"), np.broadcast_to(loss, (*self.grid.shape, grid_times.size)).copy())},
            coords={"mode": np.arange(1, self.modes + 1), "time": ("time", grid_times)} | self.grid.coordinates,
        )
        return self._signed(run, {}, seed=None, precision="float64", wall_time=time.perf_counter() - begun)

    def conserved(self) -> Float[np.ndarray, "... mode"]:
        """a_i² − b_i², which gradient flow keeps. Source: layerwise (3.8).

        >>> DiagonalNetwork(first=0.5, second=0.3).conserved().round(3).tolist()
        [0.16]
        """
        return np.asarray(self.first**2 - self.second**2)

    def time_to_reach(self, fraction: float) -> Float[np.ndarray, "... mode"]:
        """Time at which a_i b_i reaches `fraction` > 0 of its target, τ_e; NaN for modes that never pass it.

        τ_e(ε) = ln[(S/(a(0) b(0)) − 1)/(1/ε − 1)]/(2 E[x²] S) where a(0) = b(0).
        A start above the target passes fractions above 1 on its way down. Shape (…grid, mode).
        Source: layerwise (3.12); for a(0) = b(0) > 0, derived for any start.

        >>> network = DiagonalNetwork(first=0.1, second=0.1)
        >>> at = network.time_to_reach(0.5)
        >>> network.solve(at)["product"].values.round(12).tolist()
        [[0.5]]
        """
        at = _time_to_reach(self._modes(slice(None)), np.asarray(scalar("fraction", fraction, above=0.0)))
        return np.broadcast_to(at, (*self.grid.shape, self.modes)).copy()

    time_to = renamed("time_to", time_to_reach)

    def emergence_time(self, threshold: float = 0.05) -> Float[np.ndarray, "... mode"]:
        """Return `time_to_reach(threshold)`, under the name of version 0.1.0."""
        warn_renamed("emergence_time", "time_to_reach")
        return self.time_to_reach(_share("threshold", threshold, 1.0))

    def _modes(self, which: slice) -> dict[str, np.ndarray]:
        """Fields of some modes, turned (b → −b) so that every target is positive."""
        shape = (*self.grid.shape, self.modes)
        fields = (np.broadcast_to(values, shape)[..., which] for values in self.parameters().values())
        variance, target, first, second = fields
        begin = np.where(target < 0, -1.0, 1.0) * first * second
        spread = (first**2 - second**2) ** 2 / 4
        return {"variance": variance, "target": np.abs(target), "begin": begin, "spread": spread}

    def saturation_time(self, threshold: float = 0.05) -> Float[np.ndarray, "... mode"]:
        """τ_s(ε): time in which a_i b_i goes from ε S_i to (1 − ε) S_i. Source: layerwise (3.12); for any start.

        τ_s = ln(1/ε − 1)/(E[x²] S) where a(0) = b(0).

        >>> DiagonalNetwork(variance=[1.0, 0.5]).saturation_time(0.05).round(3).tolist()
        [2.944, 5.889]
        """
        level = _share("threshold", threshold, 0.5)
        return np.asarray(self.time_to_reach(1 - level) - self.time_to_reach(level))

    def is_stage_like(self, threshold: float = 0.05) -> np.ndarray:
        """Whether each mode saturates before the next emerges: τ_s,i(ε) < τ_e,i+1(ε) − τ_e,i(ε).

        One answer for each pair of neighbours (…grid, mode − 1), modes in the order given.
        Source: layerwise (3.14).

        >>> DiagonalNetwork(variance=[1.0, 0.2, 0.15], first=0.01, second=0.01).is_stage_like().tolist()
        [True, False]
        """
        emerges = self.time_to_reach(threshold)
        return np.asarray(self.saturation_time(threshold)[..., :-1] < np.diff(emerges, axis=-1))

    def stage_overlap(self, *, published: bool = False) -> Float[np.ndarray, "... pair"]:
        """The ε at which a mode saturates just when the next one emerges: how cleanly stages are apart.

        One ε in (0, 1) for each pair of neighbours (…grid, mode − 1): mode i reaches 1 − ε at the time when mode i + 1
        reaches ε. For a(0) = b(0), equal S and equal starts it is ε = 1/(1 + (S/(a b) − 1)^r),
        r = (λ_i − λ_{i+1})/(λ_i + λ_{i+1}), λ = E[x²]; other starts are solved by bisection, to 1e-15.
        NaN where one of the two never learns. `published=True` gives (3.13) as printed, where r has the opposite sign.
        Source: layerwise (3.13).

        >>> network = DiagonalNetwork(variance=[1.0, 0.5], first=0.01, second=0.01)
        >>> float(network.stage_overlap()[0].round(6)) == round(1 / (1 + 9999 ** (1 / 3)), 6)
        True
        """
        if published:
            starts = np.broadcast_to(self.target / (self.first * self.second), (*self.grid.shape, self.modes))
            ratio = starts[..., :-1] - 1
            gap = np.diff(self.variance, axis=-1) / (self.variance[..., :-1] + self.variance[..., 1:])
            return np.asarray(1 / (1 + ratio**gap))
        here, after = self._modes(slice(None, -1)), self._modes(slice(1, None))
        low, high = np.zeros_like(here["begin"]), np.ones_like(here["begin"])
        for _ in range(60):
            middle = (low + high) / 2
            saturated, emerged = _first_time(here, 1 - middle), _first_time(after, middle)
            low, high = np.where(saturated > emerged, middle, low), np.where(saturated > emerged, high, middle)
        return np.where(np.isfinite(_first_time(here, middle) + _first_time(after, middle)), middle, np.nan)


def _time_to_reach(modes: dict[str, np.ndarray], fraction: np.ndarray) -> np.ndarray:
    """Time at which modes with positive targets pass the fraction, NaN where they do not."""
    target = np.where(modes["target"] > 0, modes["target"], np.nan)
    passing = time_between(modes["begin"], fraction * target, target, spread=modes["spread"]) / modes["variance"]
    return np.where(np.isfinite(passing), passing, np.nan)


def _first_time(modes: dict[str, np.ndarray], fraction: np.ndarray) -> np.ndarray:
    """As above, but 0 where modes start beyond the fraction and infinite where they never reach it."""
    beyond = modes["begin"] >= fraction * modes["target"]
    return np.where(beyond & (modes["target"] > 0), 0.0, np.nan_to_num(_time_to_reach(modes, fraction), nan=np.inf))


def _share(name: str, value: float, below: float) -> float:
    share = scalar(name, value, above=0.0)
    require(name, np.array(share), np.array(share < below), f"be below {below:g}")
    return share
