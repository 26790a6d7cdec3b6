"""deep-linear Proposition 3.1–3.4: Gradient, noise and mode equations at any weights.

Weights are neither balanced nor aligned; the closed forms are held against automatic differentiation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from dynascope import plots
from dynascope.checks import ArrayLike
from dynascope.experiments.claims import Claim, Judgement, below, corrected, equal
from dynascope.experiments.deep_linear import sampling
from dynascope.experiments.deep_linear.drawing import error_bars
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.deep_linear.exact import error_covariance, partial_products

Judge = Callable[[xr.Dataset], Judgement]
STEPS = 50  # 1/η, how many steps make up the unit of time in Appendix A
WIDTHS = ((3, 4, 2), (2, 3, 4, 3), (3, 2, 3, 2, 2))  # depths 2, 3, 4, unequal widths


@dataclass(frozen=True)
class Config:
    """Random weights and full label noise; `samples` gradients of single samples for each network."""

    samples: int = 400_000
    seed: int = 31


def _case(widths: tuple[int, ...], seed: int) -> tuple[DeepLinear, DeepLinear, list[np.ndarray]]:
    """A network with full label noise, the same without, and weights of order one."""
    random = np.random.default_rng([seed, *widths])
    root = random.standard_normal((widths[-1], widths[-1])) / 2
    network = partial(
        DeepLinear, len(widths) - 1, list(widths), teacher=(1.0, 0.6), learning_rate=1.0, network_seed=seed
    )
    weights = [random.standard_normal(shape) / 1.5 for shape in zip(widths[1:], widths[:-1], strict=True)]
    return network(label_noise_covariance=root @ root.T), network(), weights


def _by_autodiff(net: DeepLinear, weights: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """Gradient of the population loss by layers, and Hessian of the first mode in stacked coordinates."""
    with jax.enable_x64(True):
        start, unstack = ravel_pytree([jnp.asarray(w.T) for w in weights])  # vec stacks columns

        def network(vector: jax.Array) -> sampling.Array:
            return sampling.product([w.T for w in unstack(vector)])

        slope = jax.grad(lambda vector: jnp.sum((net.teacher - network(vector)) ** 2) / 2)(start)
        bend = jax.hessian(lambda vector: net.left[:, 0] @ network(vector) @ net.right[:, 0])(start)
        return [np.asarray(layer.T) for layer in unstack(slope)], np.asarray(bend)


def _kernel_diffusion(net: DeepLinear, weights: list[np.ndarray]) -> np.ndarray:
    """D_αβ by the tangent kernels: (v_α ⊗ u_α)ᵀ Σ_l K_l Cov[vec ε xᵀ] Σ_m K_m (v_β ⊗ u_β)."""
    kernel = net.tangent_kernel(weights).sum(axis=0)
    modes = np.stack([np.kron(v, u) for u, v in zip(net.left.T, net.right.T, strict=True)])
    spread = error_covariance(weights, net._task(np.zeros_like(net.label_noise_covariance)))
    return np.asarray(modes @ kernel @ spread @ kernel @ modes.T)


def _score(samples: list[np.ndarray], expected: np.ndarray) -> float:
    """Largest distance of a sampled covariance from what is expected, in standard errors."""
    covariance, error = sampling.covariance_with_error(sampling.stacked(samples))
    return float((np.abs(covariance - expected) / np.maximum(error, 1e-12)).max())


def _measure(widths: tuple[int, ...], config: Config) -> dict[str, ArrayLike]:
    """Every object of one network: how far off exact ones are, and sampled ones beside what is expected of them."""
    net, clean, weights = _case(widths, config.seed)
    slope, bend = _by_autodiff(net, weights)
    drawn = sampling.sample_gradients(net, weights, samples=config.samples, seed=config.seed)
    kicks = [g - g.mean(axis=0) for g in drawn]
    for kick, uphill in zip(kicks, slope, strict=True):
        kick[0] = -uphill  # in place of one sample: one compilation less
    first, second = sampling.mode_responses(net, weights, kicks)
    sigma = net.noise_covariance(weights)
    quiet = sampling.sample_gradients(clean, weights, samples=config.samples, seed=config.seed + 1)
    random = np.random.default_rng(config.seed)
    white = [random.standard_normal((config.samples, *w.shape)) for w in weights]
    spread, trace = sampling.mode_responses(net, weights, white)
    walks = first[1:][: (len(first) - 1) // STEPS * STEPS].reshape(-1, STEPS, first.shape[1])
    sampled = {
        "ito": (sampling.mean_with_error(second[1:]), net.ito_drift(weights)),
        "diffusion": (sampling.covariance_with_error(first[1:]), net.mode_diffusion(weights)),
        "clean_diffusion": (
            sampling.covariance_with_error(sampling.mode_responses(clean, weights, quiet)[0]),
            _kernel_diffusion(clean, weights),
        ),
        # M(t) = √η Σ ξ over t/η steps along the modes, at t = 1
        "walk": (sampling.covariance_with_error(walks.sum(axis=1) / np.sqrt(STEPS)), net.mode_diffusion(weights)),
        "isotropic": (sampling.covariance_with_error(spread), net.mode_diffusion(weights, isotropic=True)),
    }
    measured: dict[str, ArrayLike] = {
        "gradient_gap": np.abs(sampling.stacked(net.gradient(weights)) - sampling.stacked(slope)).max(),
        "hessian_gap": np.abs(net.mode_hessian(weights, 0) - bend).max(),
        "covariance_score": _score(drawn, sigma),
        "factors_score": _score(net.sample_noise(weights, config.seed, config.samples), sigma),
        "entries": sigma.size,
        "speed": first[0],
        "speed_expected": net.mode_sde(weights).gradient_drift,
    }
    measured["trace"], measured["trace_error"] = sampling.mean_with_error(trace)
    for name, (values, expected) in sampled.items():
        measured |= {name: values.mean, f"{name}_error": values.error, f"{name}_expected": expected}
    return measured


def _printed_gradient(config: Config) -> dict[str, np.ndarray]:
    """Vec ∇_{W_1} loss of a square network, where the printed form has a meaning: measured, right and printed."""
    net, _, weights = _case((3, 3, 3, 3), config.seed)
    before, after = partial_products(weights)
    gap = (net.teacher - after[0] @ weights[0] @ before[0]).T.ravel()
    return {
        "square_gradient": sampling.stacked(_by_autodiff(net, weights)[0][:1]),
        "square_right": -np.kron(before[0], after[0].T) @ gap,
        "square_printed": -np.kron(before[0], after[0]) @ gap,
    }


def run(config: Config) -> xr.Dataset:
    """Measure every object on every network."""
    cases = [_measure(widths, config) for widths in WIDTHS]
    dims = ("network", "mode", "other_mode")
    record = xr.Dataset(coords={"network": ["–".join(map(str, widths)) for widths in WIDTHS]})
    for name in cases[0]:
        values = np.stack([case[name] for case in cases])
        record[name] = (dims[: values.ndim], values)
    return record.assign({name: ("entry", value) for name, value in _printed_gradient(config).items()})


def _sampled(name: str) -> Judge:
    return lambda record: equal(recorded(record, name), record[f"{name}_expected"])


def _exact(name: str) -> Judge:
    return lambda record: equal(record[name], 0.0, 1e-11, note="largest distance from autodiff")


def _all_entries(name: str) -> Judge:
    note = "largest distance in standard errors over {} entries of three networks"
    return lambda record: below(record[name], 4.0, note=note.format(int(record["entries"].sum())))


def _jacobian(record: xr.Dataset) -> Judgement:
    note = "J_l = W_{<l}ᵀ ⊗ W_{>l}; the printed one fits only equal widths"
    printed = record["square_printed"].values
    return corrected(record["square_gradient"], record["square_right"], 1e-11, published=printed, note=note)


def _sign(record: xr.Dataset) -> Judgement:
    expected = record["speed_expected"].values
    note = "with Δ = M − W the sign is plus"
    return corrected(record["speed"], expected, 1e-11, published=-expected.ravel(), note=note)


def _walk(record: xr.Dataset) -> Judgement:
    modes = np.arange(record.sizes["mode"])
    walk, expected = recorded(record, "walk")[:, modes, modes], record["walk_expected"].values[:, modes, modes]
    note = f"Cov M(t) is t Σ, along the modes at t = 1, η = 1/{STEPS}"
    return corrected(walk, expected, published=expected.ravel() / np.sqrt(STEPS), error=walk.error, note=note)


def _draw(record: xr.Dataset, ax: Axes, *, labels: dict[str, str]) -> None:
    """Measured against closed form, with bars of three standard errors."""
    for (name, label), colour in zip(labels.items(), plots.PALETTE, strict=False):
        error_bars(ax, record[f"{name}_expected"], recorded(record, name), colour, label)
    ends = ax.get_xlim()
    ax.plot(ends, ends, color="black", linewidth=0.8)
    ax.set(xlabel="closed form", ylabel="measured on single samples")


EXPERIMENT = Experiment(
    deep_linear(theorem="Proposition 3.1–3.4"),
    Config(),
    run,
    claims=(
        Claim(
            "prop-3.1-gradient",
            "∇_{W_l} loss = −W_{>l}ᵀ Δ W_{<l}ᵀ",
            _exact("gradient_gap"),
            deep_linear(theorem="Proposition 3.1"),
        ),
        Claim(
            "prop-3.1-jacobian",
            "J_l = W_{<l}ᵀ ⊗ W_{>l}ᵀ, vec ∇_{W_l} loss = −(W_{<l} ⊗ W_{>l}) vec Δ",
            _jacobian,
            deep_linear(theorem="Proposition 3.1"),
        ),
        Claim(
            "prop-3.2-covariance",
            "Σ is the covariance of single samples' gradients: all entries",
            _all_entries("covariance_score"),
            deep_linear(equation="20, 21", theorem="Proposition 3.2"),
        ),
        Claim(
            "prop-3.2-factors",
            "W_{>l}ᵀ [Δ (G + Gᵀ)/√2 + Σ_q^{1/2} G'] W_{<l}ᵀ has the covariance Σ",
            _all_entries("factors_score"),
            deep_linear(theorem="Proposition 3.2"),
            kind="derived",
        ),
        Claim(
            "prop-3.3-diffusion",
            "D_αβ = η a_αᵀ Σ a_β is what single samples do to the modes",
            _sampled("diffusion"),
            deep_linear(equation="28, 29", theorem="Proposition 3.3"),
        ),
        Claim(
            "prop-3.3-ntk",
            "without label noise D_αβ follows from the tangent kernels K_l and Δ",
            _sampled("clean_diffusion"),
            deep_linear(theorem="Proposition 3.3"),
        ),
        Claim(
            "prop-3.4-hessian",
            "blocks of ∇²w_α as printed; diagonal blocks vanish",
            _exact("hessian_gap"),
            deep_linear(equation="25", theorem="Proposition 3.4"),
        ),
        Claim(
            "prop-3.4-sign",
            "the gradient moves a mode by −(v_α ⊗ u_α)ᵀ Σ_l K_l vec Δ",
            _sign,
            deep_linear(equation="27", theorem="Proposition 3.4"),
        ),
        Claim(
            "prop-3.4-ito",
            "the noise moves a mode by (η/2) tr(Σ ∇²w_α) on average",
            _sampled("ito"),
            deep_linear(equation="27", theorem="Proposition 3.4"),
        ),
        Claim(
            "a2-martingale",
            "the noise of t/η steps, M(t) = √η Σ ξ, has the covariance √η t Σ",
            _walk,
            deep_linear(section="A.2"),
        ),
        Claim(
            "isotropic-diffusion",
            "isotropic noise spreads modes by η σ² ⟨a_α, a_β⟩",
            _sampled("isotropic"),
            deep_linear(equation="24", place="remark below Proposition 3.4"),
        ),
        Claim(
            "isotropic-drift",
            "isotropic noise drifts a mode by the trace of ∇²w_α, which is zero",
            lambda record: equal(recorded(record, "trace"), 0.0),
            deep_linear(place="remark below Proposition 3.4"),
        ),
    ),
    picture=Panels(
        partial(
            _draw, labels={"diffusion": "diffusion", "clean_diffusion": "by tangent kernels", "isotropic": "isotropic"}
        ),
        partial(_draw, labels={"ito": "Itô drift"}),
    ),
    smoke={"samples": 100_000},
    paper={"samples": 4_000_000},
    model="DeepLinear",
)
