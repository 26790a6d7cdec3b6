"""deep-linear Proposition 5.1: The density of all weights.

The Fokker–Planck equation of θ, by what it says about the mean of |W_l|² under (1).
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import Estimate, over_trials

RATE, LABEL = 0.05, 0.3  # a temperature at which noise moves the norms visibly


@dataclass(frozen=True)
class Config:
    """A network of depth 3 with unequal widths that has learned half of its teacher, many times from there."""

    widths: tuple[int, ...] = (2, 3, 3, 2)
    trials: int = 16_384
    duration: float = 4.0
    dt: float = 0.004
    save_points: int = 41
    seed: int = 19


def _size(matrices: np.ndarray) -> np.ndarray:
    """Squared Frobenius norm of every matrix."""
    return np.asarray((matrices**2).sum(axis=(-2, -1)))


def _noise(left: np.ndarray, gap: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Tr Σ_ll, the mean squared norm of a sample's noise in one layer, W_{>l}ᵀ (ε xᵀ − Δ) W_{<l}ᵀ.

    With C = W_{>l}ᵀ Δ and B = W_{<l}ᵀ that is |C|² |B|² + tr(Cᵀ C B Bᵀ) for Gaussian x, and σ_q² |W_{>l}|² |B|².
    """
    passed = left.swapaxes(-1, -2) @ gap
    across = right @ passed.swapaxes(-1, -2)  # (C B)ᵀ
    return np.asarray(_size(passed) * _size(right) + _size(across) + LABEL**2 * _size(left) * _size(right))


def _terms(weights: list[np.ndarray], teacher: np.ndarray) -> dict[str, np.ndarray]:
    """Of every layer: |W_l|², and the parts of its rate, 2⟨Δ, W⟩ and tr Σ_ll; squared gradients for Euler's error."""
    count = len(weights)
    before = [np.broadcast_to(np.eye(teacher.shape[1]), (*weights[0].shape[:-2], *2 * [teacher.shape[1]]))]
    after = [np.broadcast_to(np.eye(teacher.shape[0]), (*weights[0].shape[:-2], *2 * [teacher.shape[0]]))]
    for layer in range(count - 1):
        before.append(weights[layer] @ before[-1])
        after.append(after[-1] @ weights[-1 - layer])
    after.reverse()
    whole = weights[-1] @ before[-1]
    gap = teacher - whole
    pull = 2 * (gap * whole).sum(axis=(-2, -1))
    downhill = [a.swapaxes(-1, -2) @ gap @ b.swapaxes(-1, -2) for a, b in zip(after, before, strict=True)]
    return {
        "square": np.stack([_size(w) for w in weights]),
        "pull": np.stack([pull] * count),
        "noise": np.stack([_noise(a, gap, b) for a, b in zip(after, before, strict=True)]),
        "steep": np.stack([_size(g) for g in downhill]),
    }


def run(config: Config) -> xr.Dataset:
    """Follow the weights under (1) and integrate both parts of the rate over time, (layer, trial)."""
    net = DeepLinear(
        len(config.widths) - 1,
        list(config.widths),
        (1.0, 0.6),
        learning_rate=RATE,
        label_noise=LABEL,
    )
    path = net.simulate(
        config.duration,
        config.trials,
        method="langevin",
        dt=config.dt,
        seed=config.seed,
        save_points=config.save_points,
        keep_weights=True,
        start=net.aligned_weights(0.5 * net.singular_values),
    )
    terms = _terms([path[f"weight_{layer}"].values for layer in path["matrix"].values], net.teacher)
    times = path["time"].values
    summed = {name: np.trapezoid(terms[name], times, axis=-1) for name in ("pull", "noise", "steep")}
    change = terms["square"][..., -1] - terms["square"][..., 0]
    rate = terms["pull"] + RATE * terms["noise"]
    halved = (np.trapezoid(rate, times, axis=-1) - np.trapezoid(rate[..., ::2], times[::2], axis=-1)) / 3
    found = summed | {"change": change, "quadrature": halved}
    record = {name: (("matrix", "trial"), values) for name, values in found.items()}
    return xr.Dataset(record, {"matrix": path["matrix"].values})


def _share(record: xr.Dataset) -> Estimate:
    """What the gradient does not explain of the growth of |W_l|², over η ∫ tr Σ_ll dt."""
    return over_trials((record["change"] - record["pull"]).transpose("matrix", "trial")).scaled(
        1 / (RATE * record["noise"].mean("trial").values)
    )


def _follows(record: xr.Dataset) -> Judgement:
    """Euler's steps add dt² |g|² each; the trapezoid rule is off by a third of what half of its points change."""
    left_out = settings(record).dt * record["steep"].mean("trial") + abs(record["quadrature"].mean("trial"))
    bound = (left_out / (RATE * record["noise"].mean("trial"))).values
    note = (
        "growth of |W_l|² less that by the gradient, over η ∫ tr Σ_ll dt, per layer; rival: no noise term. Bound: "
        "Euler's dt |g|² and the quadrature's error"
    )
    return equal(_share(record), 1.0, bound, rival=0.0, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    share = _share(record)
    ax.errorbar(record["matrix"], share.mean, 3 * share.error, fmt="o", color=plots.PALETTE[0], label="under (1)")
    ax.axhline(1.0, color="black", linewidth=1, label="Fokker–Planck equation")
    ax.set(xlabel="layer", ylabel="growth of |W|² by noise over η ∫ tr Σ dt", xticks=record["matrix"].values)


EXPERIMENT = Experiment(
    deep_linear(theorem="Proposition 5.1"),
    Config(),
    run,
    claims=(
        Claim(
            "prop-5.1-theta",
            "the density of θ spreads by (η/2) Σ ∂∂(Σ p): d⟨|W_l|²⟩/dt = −2⟨∇_{W_l} loss · W_l⟩ + η ⟨tr Σ_ll⟩",
            _follows,
        ),
    ),
    picture=Panels(_draw),
    smoke={"trials": 3072},
    paper={"trials": 65_000, "dt": 1e-3},
    model="DeepLinear",
    kind="equation",
)
