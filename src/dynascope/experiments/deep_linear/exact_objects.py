"""Propositions 3.1 to 3.4 at weights that are neither balanced nor aligned, against automatic differentiation."""

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.sampling import (
    covariance_with_error,
    mode_responses,
    sample_gradients,
    stacked,
)
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.models.deep_linear.exact import error_covariance, partial_products
from dynascope.records import with_provenance

WIDTHS = ((3, 4, 2), (2, 3, 4, 3), (3, 2, 3, 2, 2))  # depths 2, 3, 4, unequal widths
MODES = 2


@dataclass(frozen=True)
class Config:
    """Random weights and full label noise; `samples` gradients of single samples for each network."""

    samples: int = 400_000
    seed: int = 31


SCALES = {"smoke": Config(samples=100_000), "laptop": Config(), "paper": Config(samples=4_000_000)}
GRADIENT = Claim("prop-3.1-gradient", "deep-linear Proposition 3.1", "∇_{W_l} loss = −W_{>l}ᵀ Δ W_{<l}ᵀ")
JACOBIAN = Claim(
    "prop-3.1-jacobian",
    "deep-linear Proposition 3.1",
    "J_l = W_{<l}ᵀ ⊗ W_{>l}ᵀ, vec ∇_{W_l} loss = −(W_{<l} ⊗ W_{>l}) vec Δ",
)
COVARIANCE = Claim(
    "prop-3.2-covariance",
    "deep-linear Proposition 3.2",
    "Σ is the covariance of single samples' gradients: all entries",
)
FACTORS = Claim(
    "prop-3.2-factors",
    "derived from Proposition 3.2",
    "W_{>l}ᵀ [Δ (G + Gᵀ)/√2 + Σ_q^{1/2} G'] W_{<l}ᵀ has the covariance Σ",
)
DIFFUSION = Claim(
    "prop-3.3-diffusion", "deep-linear Proposition 3.3", "D_αβ = η a_αᵀ Σ a_β is what single samples do to the modes"
)
KERNEL = Claim(
    "prop-3.3-ntk", "deep-linear below 3.3", "without label noise D_αβ follows from the tangent kernels K_l and Δ"
)
HESSIAN = Claim("prop-3.4-hessian", "deep-linear Proposition 3.4", "blocks of ∇²w_α as printed; diagonal blocks vanish")
SIGN = Claim("prop-3.4-sign", "deep-linear Proposition 3.4", "the gradient moves a mode by −(v_α ⊗ u_α)ᵀ Σ_l K_l vec Δ")
ITO = Claim("prop-3.4-ito", "deep-linear Proposition 3.4", "the noise moves a mode by (η/2) tr(Σ ∇²w_α) on average")
ISOTROPIC = Claim(
    "isotropic-diffusion", "deep-linear remark below 3.4", "isotropic noise spreads modes by η σ² ⟨a_α, a_β⟩"
)
TRACELESS = Claim(
    "isotropic-drift",
    "deep-linear remark below 3.4",
    "isotropic noise drifts a mode by the trace of ∇²w_α, which is zero",
)


def _case(widths: tuple[int, ...], seed: int) -> tuple[DeepLinear, DeepLinear, list[np.ndarray]]:
    """A network with full label noise, the same without, and weights of order one."""
    random = np.random.default_rng([seed, *widths])
    root = random.standard_normal((widths[-1], widths[-1])) / 2
    options: dict[str, Any] = {"width": list(widths), "teacher": (1.0, 0.6), "learning_rate": 1.0, "network_seed": seed}
    noisy = DeepLinear(len(widths) - 1, label_noise_covariance=root @ root.T, **options)
    weights = [random.standard_normal(shape) / 1.5 for shape in zip(widths[1:], widths[:-1], strict=True)]
    return noisy, DeepLinear(len(widths) - 1, **options), weights


def _by_autodiff(net: DeepLinear, weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of the population loss and Hessian of the first mode, in stacked coordinates."""
    shapes = [w.shape for w in weights]

    def unstack(vector: Any) -> list[Any]:
        layers, used = [], 0
        for rows, columns in shapes:
            layers.append(vector[used : used + rows * columns].reshape(columns, rows).T)
            used += rows * columns
        return layers

    def product(vector: Any) -> Any:
        now = jnp.eye(shapes[0][1])
        for w in unstack(vector):
            now = w @ now
        return now

    with jax.enable_x64(True):
        at = jnp.asarray(stacked(weights))
        slope = jax.grad(lambda v: jnp.sum((net.teacher - product(v)) ** 2) / 2)(at)
        bend = jax.hessian(lambda v: net.left[:, 0] @ product(v) @ net.right[:, 0])(at)
    return np.asarray(slope), np.asarray(bend)


def _kernel_diffusion(net: DeepLinear, weights: list[np.ndarray]) -> np.ndarray:
    """D_αβ by the tangent kernels: (v_α ⊗ u_α)ᵀ Σ_l K_l Cov[vec ε xᵀ] Σ_m K_m (v_β ⊗ u_β)."""
    kernel = net.tangent_kernel(weights).sum(axis=0)
    modes = np.stack([np.kron(v, u) for u, v in zip(net.left.T, net.right.T, strict=True)])
    spread = error_covariance(weights, net._task(np.zeros_like(net.label_noise_covariance)))
    return np.asarray(modes @ kernel @ spread @ kernel @ modes.T)


def _measure(widths: tuple[int, ...], config: Config) -> dict[str, np.ndarray]:
    net, clean, weights = _case(widths, config.seed)
    slope, bend = _by_autodiff(net, weights)
    drawn = sample_gradients(net, weights, samples=config.samples, seed=config.seed)
    kicks = [g - g.mean(axis=0) for g in drawn]
    for kick, downhill in zip(kicks, _unstack(-slope, weights), strict=True):
        kick[0] = downhill  # in place of one sample: one compilation less
    first, second = mode_responses(net, weights, kicks)
    speed, first, second = first[0], first[1:], second[1:]
    covariance, error = covariance_with_error(stacked(drawn))
    factored, factored_error = covariance_with_error(stacked(net.sample_noise(weights, config.seed, config.samples)))
    sigma = net.noise_covariance(weights)
    quiet = sample_gradients(clean, weights, samples=config.samples, seed=config.seed + 1)
    random = np.random.default_rng(config.seed)
    spread, trace = mode_responses(net, weights, [random.standard_normal((config.samples, *w.shape)) for w in weights])
    measured: dict[str, Any] = {
        "gradient_gap": np.abs(stacked(net.gradient(weights)) - slope).max(),
        "hessian_gap": np.abs(net.mode_hessian(weights, 0) - bend).max(),
        "covariance_score": (np.abs(covariance - sigma) / np.maximum(error, 1e-12)).max(),
        "factors_score": (np.abs(factored - sigma) / np.maximum(factored_error, 1e-12)).max(),
        "entries": sigma.size,
        "ito": second.mean(axis=0),
        "ito_error": second.std(axis=0) / np.sqrt(len(second)),
        "ito_expected": net.ito_drift(weights),
        "speed": speed,
        "speed_expected": net.mode_sde(weights).gradient_drift,
        "trace": trace.mean(axis=0),
        "trace_error": trace.std(axis=0) / np.sqrt(len(trace)),
    }
    pairs = {
        "diffusion": (first, net.mode_diffusion(weights)),
        "clean_diffusion": (mode_responses(clean, weights, quiet)[0], _kernel_diffusion(clean, weights)),
        "isotropic": (spread, net.mode_diffusion(weights, isotropic=True)),
    }
    for name, (values, expected) in pairs.items():
        measured[name], measured[f"{name}_error"] = covariance_with_error(values)
        measured[f"{name}_expected"] = expected
    return {name: np.asarray(value) for name, value in measured.items()}


def _unstack(vector: np.ndarray, weights: list[np.ndarray]) -> list[np.ndarray]:
    ends = np.cumsum([w.size for w in weights])
    return [part.reshape(w.shape[::-1]).T for part, w in zip(np.split(vector, ends[:-1]), weights, strict=True)]


def _printed_gradient(config: Config) -> dict[str, np.ndarray]:
    """Vec ∇_{W_1} loss of a square network, where the printed form has a meaning: measured, right and printed."""
    net, _, weights = _case((3, 3, 3, 3), config.seed)
    before, after = partial_products(weights)
    gap = (net.teacher - after[0] @ weights[0] @ before[0]).T.ravel()
    return {
        "square_gradient": _by_autodiff(net, weights)[0][:9],
        "square_right": -np.kron(before[0], after[0].T) @ gap,
        "square_printed": -np.kron(before[0], after[0]) @ gap,
    }


def run(config: Config) -> xr.Dataset:
    """Measure every object on every network."""
    begun = time.perf_counter()
    cases = [_measure(widths, config) for widths in WIDTHS]
    dims = {0: (), 1: ("mode",), 2: ("mode", "other_mode")}
    record = xr.Dataset(
        {
            name: (("network", *dims[value.ndim]), np.stack([case[name] for case in cases]))
            for name, value in cases[0].items()
        }
    )
    for name, value in _printed_gradient(config).items():
        record[name] = ("entry", value)
    record = record.assign_coords(network=["–".join(map(str, widths)) for widths in WIDTHS])
    return with_provenance(
        record, "DeepLinear", {"widths": WIDTHS}, options=vars(config), seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Exact things agree to rounding, sampled ones within their errors."""
    entries = int(record["entries"].sum())
    note = f"largest distance in standard errors over {entries} entries of three networks"

    def sampled(claim: Claim, name: str) -> Claim:
        error = record[f"{name}_error"].values
        return claim.equals(record[name].values, record[f"{name}_expected"].values, three_errors(error))

    expected, measured = record["speed_expected"].values.ravel(), record["speed"].values.ravel()
    return (
        GRADIENT.equals(record["gradient_gap"].values, 0.0, 1e-11, note="largest distance from autodiff"),
        JACOBIAN.corrects(
            record["square_gradient"].values, record["square_right"].values, 1e-11,
            published=record["square_printed"].values,
            note="J_l = W_{<l}ᵀ ⊗ W_{>l}; the printed one fits only equal widths",
        ),
        COVARIANCE.falls_below(record["covariance_score"].values, 4.0, 0.0, note=note),
        FACTORS.falls_below(record["factors_score"].values, 4.0, 0.0, note=note),
        sampled(DIFFUSION, "diffusion"),
        sampled(KERNEL, "clean_diffusion"),
        HESSIAN.equals(record["hessian_gap"].values, 0.0, 1e-11, note="largest distance from autodiff"),
        SIGN.corrects(measured, expected, 1e-11, published=-expected, note="with Δ = M − W the sign is plus"),
        sampled(ITO, "ito"),
        sampled(ISOTROPIC, "isotropic"),
        TRACELESS.equals(record["trace"].values, 0.0, three_errors(record["trace_error"].values)),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw measured against closed form, with bars of three standard errors."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    panels = (("diffusion", "clean_diffusion", "isotropic"), ("ito",))
    for ax, names in zip(axes[0], panels, strict=True):
        for name, colour in zip(names, PALETTE, strict=False):
            x, y = record[f"{name}_expected"].values.ravel(), record[name].values.ravel()
            error = 3 * record[f"{name}_error"].values.ravel()
            label = {"clean_diffusion": "by tangent kernels", "ito": "Itô drift"}.get(name, name)
            ax.errorbar(x, y, error, color=colour, linestyle="none", marker="o", markersize=4, label=label)
        low, high = ax.get_xlim()
        ax.plot([low, high], [low, high], color="black", linewidth=0.8)
        ax.set_xlabel("closed form")
        ax.set_ylabel("measured on single samples")
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Gradient, noise and mode equations at any weights",
    source="deep-linear Propositions 3.1–3.4",
    kind="equation",
    claims=(
        GRADIENT, JACOBIAN, COVARIANCE, FACTORS, DIFFUSION, KERNEL, HESSIAN, SIGN, ITO, ISOTROPIC, TRACELESS,
    ),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)  # fmt: skip
