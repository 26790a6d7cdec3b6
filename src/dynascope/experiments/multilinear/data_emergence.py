"""layerwise (5.5), Figure 5.1(b): Emergence with data.

Minimum-norm regression on few samples against the printed and the corrected curve; (5.3)–(5.5), (B.39)–(B.42).
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, corrected, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import layerwise
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.extended import minimum_norm_strength, sample_basis, sampled_skill
from dynascope.statistics.errors import over_trials

BASES = ("parities", "gaussian", "cells")
RATIOS = (0.1, 0.3, 0.5, 0.75, 0.95, 1.0, 1.5, 2.0)
SMALL, SAMPLES = 0.03, 6  # start of the trained models, and their samples of 12 basis functions


@dataclass(frozen=True)
class Config:
    """D_c basis functions of one skill, d samples; and five skills that share D samples."""

    basis: int = 40
    trials: int = 400
    mixed: int = 20  # D_c where five skills share the data
    seed: int = 55


def run(config: Config) -> xr.Dataset:
    """Fit random samples by least norm in three bases, train some by gradient flow, and share data between skills."""
    record = xr.merge([_least_norm(config), _shared(config), _trained(config)])
    return record.assign(basis_size=config.basis)


def _least_norm(config: Config) -> xr.Dataset:
    """Strengths (basis, ratio, trial) and, for parities, the error on fresh samples."""
    strengths = np.empty((len(BASES), len(RATIOS), config.trials))
    losses = np.empty((len(RATIOS), config.trials))
    for b, r in np.ndindex(len(BASES), len(RATIOS)):
        kind, samples, seed = BASES[b], round(RATIOS[r] * config.basis), config.seed + 100 * b + r
        values, readout = sample_basis(kind, config.basis, samples, trials=config.trials, seed=seed)
        strengths[b, r] = minimum_norm_strength(values, readout)
        if kind == "parities":
            fresh, _ = sample_basis(kind, config.basis, 200, trials=config.trials, seed=seed + 50)
            weights = np.linalg.pinv(values) @ (values @ readout)[..., None]
            losses[r] = np.mean(((fresh @ weights)[..., 0] - fresh @ readout) ** 2, axis=1) / 2
    return xr.Dataset(
        {"strength": (("basis", "ratio", "trial"), strengths), "test_loss": (("ratio", "trial"), losses)},
        coords={"basis": list(BASES), "ratio": list(RATIOS)},
    )


def _shared(config: Config) -> xr.Dataset:
    """Mean strengths of five skills that share D samples, each fitted by least norm in its own basis."""
    five, skills, sizes = Multilinear(5, 0.6), np.arange(1, 6), np.array([10, 20, 40, 80, 160])
    chances = five.frequency(skills)
    random = np.random.default_rng(config.seed)
    found = np.empty((5, len(sizes), config.trials))
    for s, size in enumerate(sizes):
        counts = random.multinomial(size, chances / chances.sum(), size=config.trials)
        for trial, skill in np.ndindex(config.trials, 5):
            few = int(counts[trial, skill])
            seen = np.sign(random.standard_normal((few, config.mixed)))
            found[skill, s, trial] = minimum_norm_strength(seen, np.eye(config.mixed)[0]) if few else 0.0
    forms = [five.emergence("data", skills, sizes, calibration=float(config.mixed), published=p) for p in (False, True)]
    return xr.Dataset(
        {
            "shared": (("skill", "data", "trial"), found),
            "shared_form": (("skill", "data"), forms[0]),
            "shared_printed": (("skill", "data"), forms[1]),
        },
        coords={"skill": skills, "data": sizes},
    )


def _trained(config: Config) -> xr.Dataset:
    """Gradient flow of (5.3) on half as many samples as basis functions, beside the minimum norm."""
    random = np.random.default_rng(config.seed)
    models = [_flow(random) for _ in range(4)]
    return xr.Dataset({name: ("model", [model[name] for model in models]) for name in models[0]})


def _flow(random: np.random.Generator) -> dict[str, float]:
    basis = 2 * SAMPLES
    rotation = np.linalg.qr(np.column_stack([np.ones(basis), random.standard_normal((basis, basis - 1))]))[0]
    rotation[:, 0] = abs(rotation[:, 0])  # e = rotation·parities, so that Σ e_l/√D_c is the first parity, g
    seen = np.sign(random.standard_normal((SAMPLES, basis))) @ rotation.T
    start, goal = SMALL * random.standard_normal(basis), np.full(basis, 1 / np.sqrt(basis))
    path = sampled_skill(seen, data=SAMPLES, target=1.0).solve([0.0, 2000.0], SMALL, start)
    blind = np.eye(basis) - np.linalg.pinv(seen) @ seen  # I − UUᵀ
    a, b = float(path["first"][-1]), path["second"].values[-1]
    half = (SMALL**2 - np.sum(((np.eye(basis) - blind) @ start) ** 2)) / 2
    return {
        "flow": float(path["strength"][-1]),
        "linear": float(goal @ _descended(seen, seen @ goal)),
        "least_norm": float(minimum_norm_strength(seen, goal)),
        "left_over": float(goal @ blind @ start * a),  # what the unseen part of the start adds to the strength
        "a_square": a**2,
        "a_square_form": np.sqrt(np.sum(((np.eye(basis) - blind) @ goal) ** 2) + half**2) + half,  # (B.39)
        "unseen": abs(float(start @ blind @ b * a / (start @ blind @ start))),  # beside |(I − UUᵀ) B(0)|²
        "printed_unseen": SMALL,
        "imbalance": float(abs(path["imbalance"][-1] - path["imbalance"][0])),
    }


def _descended(seen: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Weights of a linear model on the same basis functions (C.5), by gradient descent from 0."""
    weights, rate = np.zeros(seen.shape[1]), 1 / np.linalg.norm(seen, 2) ** 2
    for _ in range(100_000):
        slope = seen.T @ (seen @ weights - targets)
        if np.abs(slope).max() < 1e-12:
            break
        weights -= rate * slope
    return weights


def _share(record: xr.Dataset) -> np.ndarray:
    """Samples of each ratio, d/D_c, as whole numbers d."""
    size = int(record["basis_size"])
    return np.asarray(np.round(record["ratio"].values * size) / size)


def _curve(record: xr.Dataset) -> Judgement:
    share = _share(record)
    few = share < 1
    note = f"S d/D_c, at d/D_c = {tuple(share[few].tolist())}; (B.42) is not ½ (S − R)²"
    strength = over_trials(record["strength"].sel(basis="parities")[few])
    return corrected(strength, share[few], published=1 - np.sqrt(1 - share[few]), note=note)


def _loss(record: xr.Dataset) -> Judgement:
    left = 1 - _share(record)
    few = left > 0
    return equal(over_trials(record["test_loss"][few]), left[few] / 2, note="error on fresh samples, S = 1")


def _cells(record: xr.Dataset) -> Judgement:
    share, size = _share(record), int(record["basis_size"])
    many = share >= 1
    strength = over_trials(record["strength"].sel(basis="cells")[many])
    note = "D_c cells of the input fulfil (5.4) and give 1 − (1 − 1/D_c)^d: more than D_c samples are needed"
    return corrected(strength, 1 - (1 - 1 / size) ** (size * share[many]), published=1.0, note=note)


def _in_common(record: xr.Dataset) -> Judgement:
    strength, form = over_trials(record["shared"]), record["shared_form"].values
    partly = (form > 0.05) & (form < 0.95)  # beyond, rare samples decide and standard errors mislead
    chosen = strength[partly]
    return equal(chosen, form[partly], note="D = 10 … 160, D_c = 20, where 0.05 < R/S < 0.95")


def _unseen(record: xr.Dataset) -> Judgement:
    note = "(I − UUᵀ) B(0) a(∞): B keeps its unseen part while a grows, here as a multiple of (I − UUᵀ) B(0)"
    final = np.sqrt(record["a_square_form"])
    return corrected(record["unseen"], final, 1e-6, published=record["printed_unseen"], note=note)


def _points(ax: Axes, strength: xr.DataArray, colour: str, label: str) -> None:
    """Means over trials with three errors."""
    mean, error = over_trials(strength)
    ax.errorbar(strength[strength.dims[0]], mean, 3 * error, color=colour, fmt="o", label=label)


def _draw_alone(record: xr.Dataset, ax: Axes) -> None:
    """Simulated strengths over d/D_c with both curves."""
    fine, size = np.linspace(0, 2, 400), int(record["basis_size"])
    for colour, kind in zip(plots.PALETTE, BASES, strict=False):
        _points(ax, record["strength"].sel(basis=kind), colour, f"fit, {kind}")
    ax.plot(fine, np.minimum(fine, 1), color="black", label="corrected: d/D_c")
    ax.plot(fine, 1 - np.sqrt(np.maximum(1 - fine, 0)), "--", color="black", label="printed (5.5)")
    ax.plot(fine, 1 - (1 - 1 / size) ** (fine * size), ":", color="black", label="cells: 1 − (1 − 1/D_c)^d")
    ax.set(xlabel="samples of the skill d/D_c", ylabel="strength R/S")


def _draw_shared(record: xr.Dataset, ax: Axes) -> None:
    """Five skills that share their data."""
    for colour, skill in zip(plots.PALETTE, record["skill"].values, strict=False):
        one = record.sel(skill=skill)
        _points(ax, one["shared"], colour, f"skill {skill}")
        ax.plot(one["data"], one["shared_form"], color=colour)
        ax.plot(one["data"], one["shared_printed"], "--", color=colour, linewidth=1)
    label = "mean strength R/S (dashed: printed)"
    ax.set(xscale="log", xlabel="data D (samples of five skills)", ylabel=label)


EXPERIMENT = Experiment(
    layerwise(equation="5.5", figure="5.1(b)"),
    Config(),
    run,
    claims=(
        Claim(
            "eq5.5-strength",
            "the strength with d < D_c samples is S (1 − √(1 − d/D_c))",
            _curve,
            layerwise(equation="5.5, B.26", theorem="Proposition B.1.1"),
        ),
        Claim(
            "eqB.42-loss",
            "the loss of the skill with d < D_c samples is ½ S² (1 − d/D_c)",
            _loss,
            layerwise(equation="B.42"),
        ),
        Claim(
            "eq5.4-cells",
            "a basis with the properties (5.4) needs D_c samples to learn the skill",
            _cells,
            layerwise(equation="5.4, 5.5"),
        ),
        Claim(
            "eq5.5-shared",
            "with D samples of five skills, skill k has the mean strength S E[min(d_k/D_c, 1)], "
            "d_k ~ Binomial(D, P(k))",
            _in_common,
            layerwise(equation="5.5"),
            kind="derived",
        ),
        Claim(
            "eq5.3-trained",
            "gradient flow from a small start finds the minimum norm",
            lambda r: equal(
                r["flow"] - r["left_over"], r["least_norm"], 1e-6, note="after the unseen part of the start"
            ),
            layerwise(equation="5.3", theorem="Lemma 2"),
        ),
        Claim(
            "eqC.5-linear",
            "a linear model on the same basis functions, trained from 0, reaches the same strength",
            lambda r: equal(
                r["linear"], r["least_norm"], 1e-8, rival=1.0, error=0.0, note="minimum norm; rival: the whole skill"
            ),
            layerwise(equation="C.5, C.6"),
        ),
        Claim(
            "eqB.39-final",
            "a² ends where the conserved quantities put it",
            lambda r: equal(r["a_square"], r["a_square_form"], 1e-6, note="random samples and starts"),
            layerwise(equation="B.39"),
        ),
        Claim(
            "eqB.41-unseen",
            "what the samples do not see of B a stays at its start: (I − UUᵀ) B(0) a(0)",
            _unseen,
            layerwise(equation="B.41"),
        ),
    ),
    picture=Panels(_draw_alone, _draw_shared),
    smoke={"basis": 20, "trials": 150},
    paper={"basis": 200, "trials": 1000},
    model="Multilinear",
    adapted="the extended model in place of the network",
)
