"""Exact objects of a deep linear network at given weights, over its parameter grid: the methods beneath `DeepLinear`.

Weights are one array (…, d_l, d_{l−1}) for each layer; what stands in front of the matrices (trials, times) comes back
in front of the result, behind the grid.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dynascope.checks import ArrayLike, as_float, count, flag
from dynascope.models.deep_linear import exact
from dynascope.models.deep_linear.equations import error_noise
from dynascope.models.deep_linear.labels import LABELS, RESULT_NAMES
from dynascope.models.deep_linear.teacher import balanced_factors, square_root
from dynascope.models.family import Gridded, Parameter, over, parameter
from dynascope.models.noise import normals, seed_key

Weights = Sequence[ArrayLike]  # one array (…, d_l, d_{l−1}) for each layer


class ModeSDE(NamedTuple):
    """dw_α = (gradient_drift + ito_drift) dt + dM_α with d⟨M_α, M_β⟩ = diffusion dt (Proposition 3.4)."""

    gradient_drift: Float[np.ndarray, "... mode"]
    ito_drift: Float[np.ndarray, "... mode"]
    diffusion: Float[np.ndarray, "... mode mode"]


class LinearNetwork(Gridded):
    """Fields of a deep linear network and what follows from them and from weights."""

    RESULT_NAMES: ClassVar = RESULT_NAMES
    LABELS: ClassVar = LABELS
    label_noise_covariance: Float[np.ndarray, "output output"]
    left: Float[np.ndarray, "output mode"]
    right: Float[np.ndarray, "input mode"]
    singular_values: Float[np.ndarray, " mode"]
    widths: tuple[int, ...] = eqx.field(static=True)
    data_size: int | None = eqx.field(static=True)
    whitened: bool = eqx.field(static=True)
    network_seed: int = eqx.field(static=True)
    init_exponent: float = eqx.field(static=True)
    initialisation: str = eqx.field(static=True)
    learning_rate: Parameter = parameter(above=0.0, label="learning rate", unit="time")
    batch_size: Parameter = parameter(label="batch size", unit="samples")
    label_noise: Parameter = parameter(at_least=0.0, label="label noise", unit="output")

    @property
    def depth(self) -> int:
        """Number of layers.

        >>> from dynascope import DeepLinear
        >>> DeepLinear(depth=3).depth
        3
        """
        return len(self.widths) - 1

    @property
    def teacher(self) -> Float[np.ndarray, "output input"]:
        """The teacher's matrix M.

        >>> from dynascope import DeepLinear
        >>> DeepLinear(width=5).teacher.shape
        (5, 5)
        """
        return np.asarray((self.left * self.singular_values) @ self.right.T)

    def temperature(self) -> Float[np.ndarray, "..."]:
        """What multiplies the covariance of one sample's gradient: η/b, or η (N − b)/(b (N − 1)) for N samples.

        Batches of a data set are drawn without replacement. Shape: the grid. Source: deep-linear (32), Section G.1.

        >>> from dynascope import DeepLinear
        >>> float(DeepLinear(learning_rate=0.01, batch_size=2).temperature())
        0.005
        >>> float(DeepLinear(learning_rate=0.01, batch_size=5, data_size=5).temperature())
        0.0
        """
        factor = 1 / self.batch_size
        if self.data_size is not None:
            factor = (self.data_size - self.batch_size) / (self.batch_size * (self.data_size - 1))
        return np.asarray(self.learning_rate * factor)

    def aligned_weights(self, amplitude: ArrayLike) -> list[Float[np.ndarray, "out in"]]:
        """Balanced weights that are diagonal in the teacher's basis, with the given amplitude of every mode.

        W_l = R_l diag(w)^{1/L} R_{l−1}ᵀ with orthonormal R_l, R_0 = V, R_L = U: assumptions (A1) and (A2).
        Source: deep-linear Assumption A1, Assumption A2.

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(depth=3, width=5)
        >>> first, second, third = net.aligned_weights([0.5, 0.2, 0.1])
        >>> np.diag(net.left.T @ third @ second @ first @ net.right).round(6).tolist()
        [0.5, 0.2, 0.1]
        """
        given = self._amplitude(amplitude)
        return balanced_factors(self.left, given, self.right, widths=self.widths, seed=self.network_seed)

    def _amplitude(self, amplitude: ArrayLike) -> Float[np.ndarray, " mode"]:
        given = as_float("amplitude", amplitude)
        if given.shape != self.singular_values.shape:
            raise ValueError(f"amplitude must hold one number per mode, {self.singular_values.size}, got {given.shape}")
        return given

    def _weights(self, weights: Weights, name: str = "weights") -> tuple[tuple[np.ndarray, ...], tuple[int, ...]]:
        """Check that the layers chain; return them with one leading axis, and the leading axes they came with."""
        if not isinstance(weights, list | tuple) or len(weights) != self.depth:
            raise ValueError(f"{name} must be a list of {self.depth} matrices, one for each layer")
        layers = [as_float(f"{name}[{layer}]", w) for layer, w in enumerate(weights)]
        for layer, w in enumerate(layers):
            shape = (self.widths[layer + 1], self.widths[layer])
            if w.shape[-2:] != shape:
                raise ValueError(
                    f"{name}[{layer}] must end in the shape {shape} for the layers to chain, got {w.shape}"
                )
        lead = np.broadcast_shapes(*(w.shape[:-2] for w in layers))
        flat = [np.broadcast_to(w, (*lead, *w.shape[-2:])).reshape(-1, *w.shape[-2:]) for w in layers]
        return tuple(flat), lead

    def _label_covariances(self) -> Float[np.ndarray, "point output output"]:
        noise = over(self._flat(self.label_noise), 2)
        return np.asarray(noise**2 * np.eye(self.widths[-1]) + self.label_noise_covariance)

    def _task(self, label_covariance: np.ndarray) -> exact.Task:
        return exact.Task(self.teacher, self.left, self.right, label_covariance)

    def _evaluate(self, weights: Weights, function: Callable[..., Any], *, noise: bool = False) -> Any:
        """function(weights, task) at all weights and grid points, (*grid, *lead, …); times temperature if `noise`."""
        layers, lead = self._weights(weights)
        tasks = [self._task(covariance) for covariance in self._label_covariances()]
        networks = [[w[index] for w in layers] for index in range(len(layers[0]))]
        scale = self._flat(self.temperature()) if noise else np.ones(self.grid.size)
        values = [function(network, task) for task in tasks for network in networks]

        def shape(*arrays: Any) -> np.ndarray:
            stacked = np.stack(arrays).reshape(len(tasks), len(networks), *arrays[0].shape)
            scaled = stacked * scale.reshape(-1, *(1,) * (stacked.ndim - 1))
            return np.asarray(scaled.reshape((*self.grid.shape, *lead, *arrays[0].shape)))

        return jax.tree.map(shape, *values)

    def gradient(self, weights: Weights) -> list[Float[np.ndarray, "... out in"]]:
        """Gradient of the population loss, one array for each layer: −W_{>l}ᵀ Δ W_{<l}ᵀ, Δ = M − W.

        Source: deep-linear Proposition 3.1.

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(depth=2, width=3)
        >>> [bool(abs(g).max() < 1e-12) for g in net.gradient(net.aligned_weights(net.singular_values))]
        [True, True]
        """
        layers: list[np.ndarray] = self._evaluate(weights, exact.gradient)
        return layers

    def jacobian(self, weights: Weights) -> Float[np.ndarray, "... entry parameter"]:
        """∂vec(W)/∂θ = [W_{<l}ᵀ ⊗ W_{>l}] over the layers, (outputs·inputs, P); vec stacks columns.

        Source: deep-linear (19), Proposition 3.1; printed with W_{>l} transposed.

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(depth=2, width=3)
        >>> net.jacobian([np.ones((3, 3))] * 2).shape
        (9, 18)
        """
        return np.asarray(self._evaluate(weights, lambda w, _: exact.jacobian(w)))

    def tangent_kernel(self, weights: Weights) -> Float[np.ndarray, "... matrix entry entry"]:
        """K_l = J_l J_lᵀ of every layer on vec(W), (layer, outputs·inputs, outputs·inputs).

        Source: deep-linear below Proposition 3.3.

        >>> from dynascope import DeepLinear
        >>> DeepLinear(depth=2, width=3).tangent_kernel([np.ones((3, 3))] * 2).shape
        (2, 9, 9)
        """

        def kernels(w: Any, _: Any) -> Any:
            before, after = exact.partial_products(w)
            return np.stack([np.kron(b.T @ b, a @ a.T) for a, b in zip(after, before, strict=True)])

        return np.asarray(self._evaluate(weights, kernels))

    def noise_covariance(self, weights: Weights) -> Float[np.ndarray, "... parameter parameter"]:
        """Covariance Σ of one sample's gradient in the stacked coordinates θ = (vec W_1; …; vec W_L), (P, P).

        Σ_lm = J_lᵀ [(I ⊗ Δ)(I + C)(I ⊗ Δ)ᵀ + I ⊗ Σ_q] J_m with C vec(A) = vec(Aᵀ). A batch has Σ/b. For checks and
        small networks: memory P² and a root costs P³. Source: deep-linear (20), (21), Proposition 3.2.

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(depth=2, width=3)
        >>> net.noise_covariance(net.aligned_weights([0.5, 0.2, 0.1])).shape
        (18, 18)
        """
        return np.asarray(self._evaluate(weights, exact.noise_covariance))

    def sample_noise(
        self, weights: Weights, seed: int = 0, samples: int = 10_000
    ) -> list[Float[np.ndarray, "... sample out in"]]:
        """Gaussian noise with exactly the covariance Σ of one sample's gradient, one array for each layer.

        W_{>l}ᵀ S W_{<l}ᵀ with S = Δ (G + Gᵀ)/√2 + Σ_q^{1/2} G' and independent standard normal G, G'. Weights are
        single matrices; every grid point sees the same G. Source: derived from deep-linear Proposition 3.2; factors of
        it, see docs/deep-linear.md.

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(depth=2, width=3)
        >>> [layer.shape for layer in net.sample_noise(net.aligned_weights([0.5, 0.2, 0.1]), samples=4)]
        [(4, 3, 3), (4, 3, 3)]
        """
        layers, lead = self._weights(weights)
        if lead:
            raise ValueError(f"weights must be single matrices here, got leading axes {lead}")
        seed_key(seed)
        outputs, inputs = self.teacher.shape
        entries = inputs * (inputs + 1) // 2 + inputs * outputs
        roots = np.stack([square_root(covariance) for covariance in self._label_covariances()])
        with jax.enable_x64(True):
            rows = normals(seed, 0, steps=count("samples", samples), elements=entries, trials=1)[:, :, 0, 0]
            network = [w[0] for w in layers]
            gap = self.teacher - exact.end_to_end(network)

            def draw(root: Any, row: Any) -> list[Any]:
                return exact.spread(network, error_noise(row, gap, {"label_root": root}))

            drawn = jax.jit(jax.vmap(jax.vmap(draw, in_axes=(None, 0)), in_axes=(0, None)))(jnp.asarray(roots), rows)
        return [self._unfold(layer) for layer in drawn]

    def mode_diffusion(self, weights: Weights, *, isotropic: bool = False) -> Float[np.ndarray, "... mode mode"]:
        """D_αβ, the rate at which noise spreads the modes: E[dw_α dw_β] = D_αβ dt.

        D_αβ = (η/b) a_αᵀ Σ a_β, computed without Σ; `isotropic=True` gives (η/b) ⟨a_α, a_β⟩, that of noise with unit
        variance in every weight. Source: deep-linear (24), (28), (29), Proposition 3.3, remark below Proposition 3.4.

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(depth=2, width=3, learning_rate=0.01)
        >>> net.mode_diffusion(net.aligned_weights([0.5, 0.2, 0.1])).diagonal().round(5).tolist()
        [0.005, 0.0008, 7e-05]
        """
        if flag("isotropic", isotropic):
            return np.asarray(self._evaluate(weights, lambda *a: exact.tangent_kernel(*a).sum(0), noise=True))
        return np.asarray(self._evaluate(weights, exact.mode_diffusion, noise=True))

    def mode_hessian(self, weights: Weights, mode: int = 0) -> Float[np.ndarray, "... parameter parameter"]:
        """∇²w_α in the stacked coordinates, (P, P); its diagonal blocks vanish. `mode` counts from 0.

        Source: deep-linear (25), Proposition 3.4.

        >>> from dynascope import DeepLinear
        >>> DeepLinear(depth=2, width=3).mode_hessian([np.ones((3, 3))] * 2).shape
        (18, 18)
        """
        chosen = count("mode", mode, at_least=0)
        if chosen >= self.singular_values.size:
            raise ValueError(f"mode must be below the number of modes {self.singular_values.size}, got {mode}")
        return np.asarray(self._evaluate(weights, lambda w, task: exact.mode_hessian(w, task, chosen)))

    def mode_sde(self, weights: Weights) -> ModeSDE:
        """The law by which SGD's noise moves the modes at any weights, balanced or not: drifts and diffusion.

        dw_α = [(v_α ⊗ u_α)ᵀ Σ_l K_l vec Δ + (η/2b) tr(Σ ∇²w_α)] dt + dM_α, d⟨M_α, M_β⟩ = D_αβ dt. The first term is
        printed with the opposite sign. Source: deep-linear (27), Proposition 3.4.

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(depth=2, width=3)
        >>> net.mode_sde(net.aligned_weights([0.5, 0.2, 0.1])).gradient_drift.round(6).tolist()
        [0.5, 0.2, 0.06]
        """
        drift = np.asarray(self._evaluate(weights, exact.gradient_drift))
        return ModeSDE(drift, self.ito_drift(weights), self.mode_diffusion(weights))

    def ito_drift(self, weights: Weights) -> Float[np.ndarray, "... mode"]:
        """(η/2b) tr(Σ ∇²w_α): the mean speed that noise gives to a mode at any weights, without Σ or ∇².

        Isotropic noise gives none: ∇²w_α has no trace. Source: deep-linear Proposition 3.4.

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(depth=2, width=3, learning_rate=0.01)
        >>> exact_drift = net.ito_drift(net.aligned_weights([0.5, 0.2, 0.1]))
        >>> bool(np.allclose(exact_drift, net.aligned_ito_drift([0.5, 0.2, 0.1])))
        True
        """
        return np.asarray(self._evaluate(weights, exact.ito_drift, noise=True))

    def predicted_diffusion(self, amplitude: ArrayLike) -> Float[np.ndarray, "*grid mode"]:
        """D_α = (η/b) L² (2 (s_α − w_α)² + u_αᵀ Σ_q u_α) |w_α|^{4(L−1)/L} on balanced, aligned weights.

        Source: deep-linear (7); it stands.

        >>> from dynascope import DeepLinear
        >>> DeepLinear(depth=2, learning_rate=0.01).predicted_diffusion([0.5, 0.2, 0.1]).round(5).tolist()
        [0.005, 0.0008, 7e-05]
        """
        w = self._amplitude(amplitude)
        labels = np.einsum("ia,pij,ja->pa", self.left, self._label_covariances(), self.left)
        speed = exact.aligned_diffusion(w, self.singular_values, labels, depth=self.depth)
        return np.asarray(self.temperature()[..., None] * self._unfold(speed))

    def aligned_ito_drift(self, amplitude: ArrayLike, *, published: bool = False) -> Float[np.ndarray, "*grid mode"]:
        """The Itô drift of the modes on balanced, aligned weights, w_α ≥ 0, with independent label noise.

        (η/b) [ L(L−1)/2 (2 δ_α² + σ_q²) w_α^{(3L−4)/L}
        + Σ_{γ≠α} Σ_{l>m} δ_α δ_γ w_α^{2(L−l+m−1)/L} w_γ^{(L+2l−2m−2)/L} ], δ = s − w; derived in docs/deep-linear.md.
        `published=True` gives (6) as printed, (η/b) L(L−1) w_α^{2(L−2)/L} (δ_α + σ_q), which disagrees with simulation.
        Source: deep-linear (6).

        >>> from dynascope import DeepLinear
        >>> net = DeepLinear(learning_rate=1.0, label_noise=0.3)
        >>> net.aligned_ito_drift([0.6, 0.3, 0.1]).round(3).tolist()
        [1.056, 0.463, 0.15]
        >>> float(net.aligned_ito_drift([0.6, 0.3, 0.1], published=True)[0].round(2))
        5.04
        """
        w, depth = self._amplitude(amplitude), self.depth
        if np.any(w < 0):
            raise ValueError(f"amplitude must be at least 0 on balanced, aligned weights, got {w.min()}")
        if np.any(self.label_noise_covariance):
            raise ValueError("label_noise_covariance must not be given here: the closed form is for independent noise")
        noise, gap = np.broadcast_to(self.label_noise, self.grid.shape)[..., None], self.singular_values - w
        pairs = depth * (depth - 1)
        if flag("published", published):
            drift = pairs * w ** (2 * (depth - 2) / depth) * (gap + noise)
        else:
            drift = pairs / 2 * (2 * gap**2 + noise**2) * w ** ((3 * depth - 4) / depth)
            for apart in range(1, depth):  # l − m, which depth − apart pairs of layers share
                own, others = 2 * (depth - apart - 1) / depth, gap * w ** ((depth + 2 * apart - 2) / depth)
                drift = drift + (depth - apart) * gap * w**own * (others.sum() - others)
        return np.asarray(self.temperature()[..., None] * drift)
