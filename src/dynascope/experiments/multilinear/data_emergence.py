"""(5.3)–(5.5), (B.39)–(B.42): minimum-norm regression on few samples against the printed and the corrected curve."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.multilinear.recorded import recorded
from dynascope.experiments.registry import Experiment
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.extended import minimum_norm_strength, sample_basis, sampled_skill

BASES = ("parities", "gaussian", "cells")
RATIOS = (0.1, 0.3, 0.5, 0.75, 0.95, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class Config:
    """D_c basis functions of one skill, d samples; and five skills that share D samples."""

    basis: int = 40
    trials: int = 400
    mixed: int = 20  # D_c where five skills share the data
    seed: int = 55


SCALES = {"smoke": Config(basis=20, trials=150), "laptop": Config(), "paper": Config(basis=200, trials=1000)}
CURVE = Claim("eq5.5-strength", "layerwise (5.5), (B.26)", "the strength with d < D_c samples is S (1 − √(1 − d/D_c))")
LOSS = Claim("eqB.42-loss", "layerwise (B.42)", "the loss of the skill with d < D_c samples is ½ S² (1 − d/D_c)")
CELLS = Claim(
    "eq5.4-cells", "layerwise (5.4), (5.5)", "a basis with the properties (5.4) needs D_c samples to learn the skill"
)
SHARED = Claim(
    "eq5.5-shared",
    "layerwise (5.5), averaged over d_k",
    "with D samples of five skills, skill k has the mean strength S E[min(d_k/D_c, 1)], d_k ~ Binomial(D, P(k))",
)
TRAINED = Claim("eq5.3-trained", "layerwise (5.3), lemma 2", "gradient flow from a small start finds the minimum norm")
FINAL = Claim("eqB.39-final", "layerwise (B.39)", "a² ends where the conserved quantities put it")
UNSEEN = Claim(
    "eqB.41-unseen", "layerwise (B.41)", "what the samples do not see of B a stays at its start: (I − UUᵀ) B(0) a(0)"
)
SMALL, SAMPLES = 0.03, 6  # start of the trained models, and their samples of 12 basis functions


def run(config: Config) -> xr.Dataset:
    """Fit random samples by least norm in three bases, train some by gradient flow, and share data between skills."""
    begun = time.perf_counter()
    record = xr.merge([_least_norm(config), _shared(config), _trained(config)])
    record.attrs = {}
    return recorded(record.assign(basis_size=config.basis), config, begun)


def _least_norm(config: Config) -> xr.Dataset:
    """Strengths (basis, ratio, trial) and, for parities, the error on fresh samples."""
    strengths = np.empty((len(BASES), len(RATIOS), config.trials))
    losses = np.empty((len(RATIOS), config.trials))
    for b, kind in enumerate(BASES):
        for r, ratio in enumerate(RATIOS):
            samples = round(ratio * config.basis)
            seed = config.seed + 100 * b + r
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
    five, sizes = Multilinear(5, 0.6), np.array([10, 20, 40, 80, 160])
    chances = five.frequency(np.arange(1, 6))
    random = np.random.default_rng(config.seed)
    found = np.empty((5, len(sizes), config.trials))
    for s, size in enumerate(sizes):
        counts = random.multinomial(size, chances / chances.sum(), size=config.trials)
        for trial, skill in np.ndindex(config.trials, 5):
            few = int(counts[trial, skill])
            seen = np.sign(random.standard_normal((few, config.mixed)))
            found[skill, s, trial] = minimum_norm_strength(seen, np.eye(config.mixed)[0]) if few else 0.0
    forms = [
        five.emergence("data", np.arange(1, 6), sizes, calibration=float(config.mixed), published=published)
        for published in (False, True)
    ]
    return xr.Dataset(
        {
            "shared": (("skill", "data", "trial"), found),
            "shared_form": (("skill", "data"), forms[0]),
            "shared_printed": (("skill", "data"), forms[1]),
        },
        coords={"skill": np.arange(1, 6), "data": sizes},
    )


def _trained(config: Config) -> xr.Dataset:
    """Gradient flow of (5.3) on half as many samples as basis functions, beside the minimum norm."""
    random = np.random.default_rng(config.seed)
    found = []
    for _ in range(4):
        basis = 2 * SAMPLES
        rotation = np.linalg.qr(np.column_stack([np.ones(basis), random.standard_normal((basis, basis - 1))]))[0]
        rotation[:, 0] = abs(rotation[:, 0])  # e = rotation·parities, so that Σ e_l/√D_c is the first parity, g
        seen = np.sign(random.standard_normal((SAMPLES, basis))) @ rotation.T
        start = SMALL * random.standard_normal(basis)
        path = sampled_skill(seen, data=SAMPLES, target=1.0).solve([0.0, 2000.0], SMALL, start)
        goal = np.full(basis, 1 / np.sqrt(basis))
        blind = np.eye(basis) - np.linalg.pinv(seen) @ seen  # I − UUᵀ
        a, b = float(path["first"][-1]), path["second"].values[-1]
        half = (SMALL**2 - np.sum(((np.eye(basis) - blind) @ start) ** 2)) / 2
        final = np.sqrt(np.sum(((np.eye(basis) - blind) @ goal) ** 2) + half**2) + half  # (B.39)
        unseen = start @ blind @ start  # |(I − UUᵀ) B(0)|²
        found.append(
            (
                float(path["strength"][-1]),
                float(minimum_norm_strength(seen, goal)),
                float(goal @ blind @ start * a),  # what the unseen part of the start adds to the strength
                a**2,
                final,
                abs(float(start @ blind @ b * a / unseen)),
                SMALL,
                float(abs(path["imbalance"][-1] - path["imbalance"][0])),
            )
        )
    names = ("flow", "least_norm", "left_over", "a_square", "a_square_form", "unseen", "printed_unseen", "imbalance")
    return xr.Dataset({name: ("model", values) for name, values in zip(names, np.transpose(found), strict=True)})


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare means over random samples."""
    ratio, size = record["ratio"].values, int(record["basis_size"])
    few = ratio < 1
    drawn = np.round(ratio * size)
    mean, error = _mean(record["strength"].sel(basis="parities"))
    loss, loss_error = _mean(record["test_loss"])
    cells, cells_error = _mean(record["strength"].sel(basis="cells"))
    seen = 1 - (1 - 1 / size) ** drawn
    shared, shared_error = _mean(record["shared"])
    form = record["shared_form"].values
    partly = (form > 0.05) & (form < 0.95)  # beyond, rare samples decide and standard errors mislead
    printed = 1 - np.sqrt(np.maximum(1 - drawn / size, 0))
    final = np.sqrt(record["a_square_form"].values)
    return (
        CURVE.corrects(
            mean[few], (drawn / size)[few], three_errors(error[few]), published=printed[few],
            standard_error=error[few],
            note=f"S d/D_c, at d/D_c = {tuple((drawn / size)[few].tolist())}; (B.42) is not ½ (S − R)²",
        ),
        LOSS.equals(
            loss[few], (1 - drawn / size)[few] / 2, three_errors(loss_error[few]), note="error on fresh samples, S = 1"
        ),
        CELLS.corrects(
            cells[~few], seen[~few], three_errors(cells_error[~few]), published=1.0, standard_error=cells_error[~few],
            note="D_c cells of the input fulfil (5.4) and give 1 − (1 − 1/D_c)^d: more than D_c samples are needed",
        ),
        SHARED.equals(
            shared[partly], form[partly], three_errors(shared_error[partly]),
            note="D = 10 … 160, D_c = 20, where 0.05 < R/S < 0.95",
        ),
        TRAINED.equals(
            record["flow"] - record["left_over"], record["least_norm"], 1e-6, note="after the unseen part of the start"
        ),
        FINAL.equals(record["a_square"], record["a_square_form"], 1e-6, note="random samples and starts"),
        UNSEEN.corrects(
            record["unseen"], final, 1e-6, published=record["printed_unseen"],
            note="(I − UUᵀ) B(0) a(∞): B keeps its unseen part while a grows, here as a multiple of (I − UUᵀ) B(0)",
        ),
    )  # fmt: skip


def _mean(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    trials = values.sizes["trial"]
    return values.mean("trial").values, values.std("trial", ddof=1).values / np.sqrt(trials)


def plot(record: xr.Dataset) -> Any:
    """Draw simulated strengths over d/D_c with both curves, and five skills that share their data."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    ax, size = axes[0, 0], int(record["basis_size"])
    fine = np.linspace(0, 2, 400)
    for colour, kind in zip(PALETTE, BASES, strict=False):
        mean, error = _mean(record["strength"].sel(basis=kind))
        ax.errorbar(record["ratio"], mean, 3 * error, color=colour, marker="o", linestyle="none", label=f"fit, {kind}")
    ax.plot(fine, np.minimum(fine, 1), color="black", label="corrected: d/D_c")
    ax.plot(fine, 1 - np.sqrt(np.maximum(1 - fine, 0)), "--", color="black", label="printed (5.5)")
    ax.plot(fine, 1 - (1 - 1 / size) ** (fine * size), ":", color="black", label="cells: 1 − (1 − 1/D_c)^d")
    ax.set_xlabel("samples of the skill d/D_c")
    ax.set_ylabel("strength R/S")
    ax.legend(frameon=False, fontsize="small")
    ax = axes[0, 1]
    for colour, skill in zip(PALETTE, record["skill"].values, strict=False):
        mean, error = _mean(record["shared"].sel(skill=skill))
        ax.errorbar(record["data"], mean, 3 * error, color=colour, marker="o", linestyle="none", label=f"skill {skill}")
        ax.plot(record["data"], record["shared_form"].sel(skill=skill), color=colour)
        ax.plot(record["data"], record["shared_printed"].sel(skill=skill), "--", color=colour, linewidth=1)
    ax.set_xscale("log")
    ax.set_xlabel("data D (samples of five skills)")
    ax.set_ylabel("mean strength R/S (dashed: printed)")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Emergence with data",
    source="layerwise (5.5), FIG. 5.1(b)",
    kind="figure",
    claims=(CURVE, LOSS, CELLS, SHARED, TRAINED, FINAL, UNSEEN),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
