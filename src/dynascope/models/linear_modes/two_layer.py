"""Two-layer linear networks on whitened input: exact dynamics from balanced weights, gradient flow from any."""

import time
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.integrate import solve_ivp

from dynascope.checks import Times, as_float, count, increasing, require, scalar
from dynascope.deprecation import renamed
from dynascope.models.family import Family, Parameter, parameter
from dynascope.models.noise import seed_key
from dynascope.models.parameters import ParameterValue

_LONGEST = 3.0  # e-folds in one step of the exact flow: keeps its matrices well conditioned


class TwoLayerLinear(Family):
    """A linear network f(x) = xᵀ W₁ W₂ that learns y from whitened input, E[x xᵀ] = I, under gradient flow.

    W₁' = (M − W₁W₂) W₂ᵀ, W₂' = W₁ᵀ (M − W₁W₂), M = E[x yᵀ]

    correlation: M (…, input, output). first: W₁(0) (…, input, hidden). second: W₂(0) (…, hidden, output).
    Leading axes are a grid. Time is gradient-flow time, for the loss ½ E|f − y|². `balanced_weights` makes starts
    with a given imbalance. Source: layerwise (3.4), (3.15), (A.21)–(A.40).

    >>> first, second = balanced_weights(3, 4, 2, scale=0.1, seed=0)
    >>> network = TwoLayerLinear([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]], first, second)
    >>> network.solve([0.0, 20.0])["strength"].values[:, -1].round(6).tolist()
    [2.0, 1.0]
    """

    RESULT_NAMES: ClassVar = (
        *("time", "input", "output", "hidden", "mode", "input_too", "output_too", "first", "second"),
        *("product", "first_gram", "second_gram", "strength", "singular_value", "loss"),
    )
    LABELS: ClassVar = {
        "strength": ("strength of the mode", "output/input"),
        "time": ("time", "steps × learning rate"),
    }
    correlation: Parameter = parameter(core=("input", "output"))
    first: Parameter = parameter(core=("input", "hidden"))
    second: Parameter = parameter(core=("hidden", "output"))

    def __post_init__(self) -> None:
        _check_shapes({name: (getattr(self, name), each.core) for name, each in self._declared().items()})
        super().__post_init__()

    def conserved(self) -> Float[np.ndarray, "... hidden hidden"]:
        """W₁ᵀW₁ − W₂W₂ᵀ, which gradient flow keeps for any input. Source: layerwise (A.29).

        >>> TwoLayerLinear([[1.0]], [[0.5]], [[0.3]]).conserved().round(3).tolist()
        [[0.16]]
        """
        return np.asarray(_turned(self.first) @ self.first - self.second @ _turned(self.second))

    def imbalance(self) -> Float[np.ndarray, "..."]:
        """λ of a λ-balanced start, W₁ᵀW₁ − W₂W₂ᵀ = λ I; NaN where it is not a multiple of I.

        What differs from λ I by less than 1e-10 of the weights' squared size counts as balanced.

        >>> float(TwoLayerLinear([[1.0]], [[0.5]], [[0.3]]).imbalance().round(3))
        0.16
        """
        kept = self.conserved()
        hidden = kept.shape[-1]
        level = np.trace(kept, axis1=-2, axis2=-1) / hidden
        size = sum(np.sum(w**2, axis=(-2, -1)) for w in (self.first, self.second))
        off = np.abs(kept - level[..., None, None] * np.eye(hidden)).max(axis=(-2, -1))
        return np.broadcast_to(np.where(off <= 1e-10 * size, level, np.nan), self.grid.shape).copy()

    def solve(self, times: Times) -> xr.Dataset:
        """The network's map and its Gram matrices at the given times, exactly.

        With Q = [W₁; W₂ᵀ] and F = [[λ/2·I, M], [Mᵀ, −λ/2·I]] the Gram matrix P = QQᵀ obeys P' = FP + PF − P², so
        P(t) = e^{Ft} Q₀ (I + Q₀ᵀ ∫₀ᵗ e^{2Fs} ds Q₀)⁻¹ Q₀ᵀ e^{Ft}. For λ = 0 and W₁(0), W₂(0) along the singular vectors
        of M it is (3.15). Needs W₁ᵀW₁ − W₂W₂ᵀ = λ I at the start; other starts have no known closed form: use `flow`.

        times: increasing list from 0 or later.
        Returns product W₁W₂ (…grid, time, input, output), first_gram W₁W₁ᵀ (…, input, input_too), second_gram W₂ᵀW₂
        (…, output, output_too), strength u_iᵀ W₁W₂ v_i (…, mode, time) along the singular vectors of M, singular_value
        ρ_i of M, and loss ½ |W₁W₂ − M|² (…, time), what can still be learned.
        Source: layerwise (3.15), (A.39), (A.40); for general balanced starts, its references [79], [63].

        >>> run = TwoLayerLinear([[1.0]], [[0.5]], [[0.3]]).solve([0.0, 9.0])
        >>> run["product"].values.ravel().round(4).tolist()
        [0.15, 1.0]
        """
        begun = time.perf_counter()
        save = increasing("times", times)
        level = self.imbalance()
        if np.any(np.isnan(level)):
            raise ValueError(
                "first and second must satisfy W₁ᵀW₁ − W₂W₂ᵀ = λ I for the exact solution, got a matrix that is no "
                "multiple of I; use flow(times), or balanced_weights for the start"
            )
        inputs = self.correlation.shape[-2]
        grams = _exact_grams(save, self._drive(level), self._stacked())  # (…grid, time, input + output, …)
        product, rest = grams[..., :inputs, inputs:], (grams[..., :inputs, :inputs], grams[..., inputs:, inputs:])
        return self._label(save, product, *rest, begun=begun)

    def solve_numerically(self, times: Times, *, accuracy: float = 1e-10) -> xr.Dataset:
        """The same from any start, with both layers, by an adaptive solver of order 8.

        times: increasing list from 0 or later. accuracy: relative error allowed per step.
        Returns what `solve` returns, and first (…grid, time, input, hidden) and second (…grid, time, hidden, output).
        Where it starts between saddles, errors grow as fast as the modes do: the results are then good to about
        accuracy × (weights at the end/weights at the start). Source: layerwise (A.22), (A.26), (A.28).

        >>> run = TwoLayerLinear([[1.0]], [[0.5]], [[0.3]]).solve_numerically([0.0, 9.0])
        >>> run["product"].values.ravel().round(4).tolist()
        [0.15, 1.0]
        """
        begun = time.perf_counter()
        save, allowed = increasing("times", times), scalar("accuracy", accuracy, above=0.0)
        goal = np.broadcast_to(self.correlation, (*self.grid.shape, *self.correlation.shape[-2:]))
        start = self._stacked()
        inputs = goal.shape[-2]

        def velocity(_: float, state: np.ndarray) -> np.ndarray:
            stacked = state.reshape(start.shape)
            first, second = stacked[..., :inputs, :], stacked[..., inputs:, :]  # W₁ and W₂ᵀ
            error = goal - first @ _turned(second)
            return np.concatenate([error @ second, _turned(error) @ first], axis=-2).ravel()

        end = float(save[-1]) or 1.0
        path = solve_ivp(
            velocity, (0.0, end), start.ravel(), method="DOP853", t_eval=save, rtol=allowed, atol=allowed / 100
        )
        stacked = np.moveaxis(path.y.reshape((*start.shape, save.size)), -1, -3)
        first, turned = stacked[..., :inputs, :], stacked[..., inputs:, :]
        grams = first @ _turned(first), turned @ _turned(turned)
        run = self._label(save, first @ _turned(turned), *grams, begun=begun)
        dims = (*self.grid.dims, "time")
        return run.assign(
            first=((*dims, "input", "hidden"), first), second=((*dims, "hidden", "output"), _turned(turned).copy())
        )

    flow = renamed("flow", solve_numerically)

    def small_start(self) -> Float[np.ndarray, "*grid mode"]:
        """α_i²(0): where the sigmoid of each mode begins, for small weights in any directions.

        With q_i = (u_iᵀ W₁ + v_iᵀ W₂ᵀ)/2 it is |q_i|² less what lies along q_1 … q_{i−1}: a mode grows only in
        hidden directions that earlier modes have left free. For W₁ = U A R, W₂ = Rᵀ A V it is A² itself. Modes
        beyond the number of hidden units have 0 and are never learned. Needs singular values of M that differ.
        Source: derived; the limit of `solve` and `flow` for small weights.

        >>> TwoLayerLinear([[1.0]], [[0.3, 0.0]], [[0.1], [0.4]]).small_start().round(3).tolist()
        [0.08]
        """
        left, sizes, right = np.linalg.svd(self.correlation, full_matrices=False)
        seen = (_turned(left) @ self.first + right @ _turned(self.second)) / 2  # q_i, (…, mode, hidden)
        free = np.diagonal(np.linalg.qr(_turned(seen), mode="r"), axis1=-2, axis2=-1) ** 2
        begin = np.zeros((*self.grid.shape, sizes.shape[-1]))
        begin[..., : free.shape[-1]] = free
        return begin

    def aligned_strength(self, times: Times, *, published: bool = False) -> Float[np.ndarray, "*grid mode time"]:
        """(3.15): u_iᵀ W₁W₂ v_i over time for a small or aligned start, a sigmoid for each mode.

        α_i²(t) = ρ_i/(1 + (ρ_i/α_i²(0) − 1) exp(−2 ρ_i t)), α_i²(0) from `small_start`

        Exact for W₁(0) = U A R, W₂(0) = Rᵀ A V, and the limit of small weights otherwise. `published=True` starts at
        u_iᵀ W₁(0) W₂(0) v_i, which is the same for aligned starts only. (3.15) as printed moreover calls the product
        itself α_i, which would square it. Source: layerwise (3.15), (A.39).

        >>> network = TwoLayerLinear([[1.0]], [[0.1]], [[0.1]])
        >>> network.aligned_strength([0.0, 50.0]).round(6).tolist()
        [[0.01, 1.0]]
        """
        save = increasing("times", times)
        left, sizes, right = np.linalg.svd(self.correlation, full_matrices=False)
        literal = np.einsum("...im,...io,...mo->...m", left, self.first @ self.second, right)
        begin = (literal if published else self.small_start())[..., None]
        sizes = sizes[..., None]
        empty = sizes <= 1e-14 * sizes.max(initial=0.0)  # no target: the mode decays as 1/t
        sigmoid = sizes * begin / (begin - (begin - np.where(empty, 1.0, sizes)) * np.exp(-2 * sizes * save))
        curve = np.where(empty, begin / (1 + 2 * begin * save), sigmoid)
        return np.broadcast_to(curve, (*self.grid.shape, *curve.shape[-2:])).copy()

    def _stacked(self) -> np.ndarray:
        """Q = [W₁; W₂ᵀ], (…grid, input + output, hidden)."""
        layers = (self.first, _turned(self.second))
        full = [np.broadcast_to(layer, (*self.grid.shape, *layer.shape[-2:])) for layer in layers]
        return np.concatenate(full, axis=-2)

    def _drive(self, level: np.ndarray) -> np.ndarray:
        """F = [[λ/2·I, M], [Mᵀ, −λ/2·I]]."""
        inputs, outputs = self.correlation.shape[-2:]
        drive = np.zeros((*self.grid.shape, inputs + outputs, inputs + outputs))
        drive[..., :inputs, inputs:] = self.correlation
        drive[..., inputs:, :inputs] = _turned(self.correlation)
        side = np.concatenate([np.ones(inputs), -np.ones(outputs)])
        return np.asarray(drive + level[..., None, None] / 2 * np.diag(side))

    def _label(
        self, save: np.ndarray, product: np.ndarray, first_gram: np.ndarray, second_gram: np.ndarray, *, begun: float
    ) -> xr.Dataset:
        left, sizes, right = np.linalg.svd(self.correlation, full_matrices=False)
        strength = np.einsum("...im,...tio,...mo->...mt", left, product, right)
        sizes = np.broadcast_to(sizes, (*self.grid.shape, sizes.shape[-1]))
        loss = np.sum((product - self.correlation[..., None, :, :]) ** 2, axis=(-2, -1)) / 2
        dims = (*self.grid.dims, "time")
        run = xr.Dataset(
            {
                "product": ((*dims, "input", "output"), product.copy()),
                "first_gram": ((*dims, "input", "input_too"), first_gram.copy()),
                "second_gram": ((*dims, "output", "output_too"), second_gram.copy()),
                "strength": ((*self.grid.dims, "mode", "time"), strength),
                "singular_value": ((*self.grid.dims, "mode"), sizes.copy()),
                "loss": (dims, loss),
            },
            coords={"mode": np.arange(1, sizes.shape[-1] + 1), "time": ("time", save)} | self.grid.coordinates,
        )
        return self._signed(run, {}, seed=None, precision="float64", wall_time=time.perf_counter() - begun)


def balanced_weights(
    inputs: int, hidden: int, outputs: int, *, scale: float, imbalance: float = 0.0, seed: int = 0
) -> tuple[Float[np.ndarray, "input hidden"], Float[np.ndarray, "hidden output"]]:
    """Draw W₁, W₂ with W₁ᵀW₁ − W₂W₂ᵀ = λ I exactly, in random directions.

    W₁ = U S₁ Rᵀ, W₂ = R S₂ Vᵀ with random orthonormal U, R, V, S₁² = S₂² + λ; the smaller of S₁, S₂ has entries
    uniform in (0, 2·scale).

    inputs, hidden, outputs: sizes d, p, c. scale: mean singular value of the smaller layer.
    imbalance: λ; λ > 0 needs p ≤ d, λ < 0 needs p ≤ c (the larger layer must have full rank p). seed: integer ≥ 0.
    Source: layerwise reference [63]; its λ-balanced starts.

    >>> first, second = balanced_weights(5, 3, 2, scale=0.1, imbalance=0.5, seed=1)
    >>> kept = first.T @ first - second @ second.T
    >>> bool(np.allclose(kept, 0.5 * np.eye(3)))
    True
    """
    d, p, c = count("inputs", inputs), count("hidden", hidden), count("outputs", outputs)
    mean, level = scalar("scale", scale, at_least=0.0), scalar("imbalance", imbalance)
    room = {1: d, -1: c, 0: p}[int(np.sign(level))]
    require("hidden", np.array(p), np.array(p <= room), f"be at most {room} for an imbalance of {level:g}")
    seed_key(seed)
    random = np.random.default_rng(seed)
    left, turn, right = (_random_rotation(random, size) for size in (d, p, c))
    rank = min(d, p, c)
    small = np.zeros(p)
    small[:rank] = random.uniform(0.0, 2 * mean, rank)
    large = np.sqrt(small**2 + abs(level))
    first, second = (large, small) if level > 0 else (small, large)
    return _spread(left, first, d) @ turn.T, turn @ _spread(right, second, c).T


def _random_rotation(random: np.random.Generator, size: int) -> np.ndarray:
    orthogonal, triangle = np.linalg.qr(random.standard_normal((size, size)))
    return np.asarray(orthogonal * np.sign(np.diag(triangle)))  # without it the law depends on QR's sign convention


def _spread(vectors: np.ndarray, sizes: np.ndarray, rows: int) -> np.ndarray:
    """U S as a matrix (rows, hidden); sizes beyond the rows are 0."""
    full = np.zeros((rows, sizes.size))
    kept = min(rows, sizes.size)
    full[:, :kept] = vectors[:, :kept] * sizes[:kept]
    return full


def _turned(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2)


def _check_shapes(given: Mapping[str, tuple[ParameterValue, tuple[str, ...]]]) -> None:
    """Layers that do not fit together are refused by name; a size of 1 is no exception."""
    known: dict[str, tuple[str, int]] = {}
    for name, (value, core) in given.items():
        array = as_float(name, value)
        if array.ndim < 2:
            raise ValueError(f"{name} must have shape (…, {', '.join(core)}), got {array.shape}")
        sizes = value.sizes if isinstance(value, xr.DataArray) else {}
        for place, dim in enumerate(core):
            size = int(sizes.get(dim, array.shape[place - 2]))
            owner, expected = known.setdefault(dim, (name, size))
            if size != expected:
                raise ValueError(f"{name} must have {expected} values along {dim!r} as {owner} has, got {size}")


def _exact_grams(save: np.ndarray, drive: np.ndarray, stacked: np.ndarray) -> np.ndarray:
    """P at the saved times, by steps of a few e-folds each: Q ← e^{Fh} Q (I + Qᵀ D Q)^{−1/2}, D = ∫₀ʰ e^{2Fs} ds.

    Each step is exact for P = QQᵀ and keeps its rank; only the rotation of the hidden units is left open.
    """
    rates, vectors = np.linalg.eigh(drive)
    state = _turned(vectors) @ stacked  # Q in the eigenbasis of F
    fastest, now, saved = float(np.abs(rates).max()), 0.0, []
    for save_time in save:
        steps = int(np.ceil(fastest * (save_time - now) / _LONGEST))
        for _ in range(steps):
            state = _exact_step(state, rates, (save_time - now) / steps)
        now = float(save_time)
        rotated = vectors @ state
        saved.append(rotated @ _turned(rotated))
    return np.stack(saved, axis=-3)


def _exact_step(state: np.ndarray, rates: np.ndarray, step: float) -> np.ndarray:
    still = rates == 0
    covered = np.where(still, step, np.expm1(2 * rates * step) / np.where(still, 1.0, 2 * rates))
    grown, turn = np.linalg.eigh(_turned(state) @ (covered[..., None] * state))
    shrink = turn / np.sqrt(1 + np.maximum(grown, 0.0))[..., None, :]
    return np.asarray(np.exp(rates * step)[..., None] * (state @ shrink @ _turned(turn)))
