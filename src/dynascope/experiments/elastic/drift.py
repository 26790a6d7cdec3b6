"""elastic (5), (C.7)–(C.10), (C.12): The drift and what it moves.

What the source says about the drift M: its spectrum, eigenvectors and Kronecker form, and the samples it moves.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import expm, null_space

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, corrected, equal
from dynascope.experiments.elastic.reference import looped_drift
from dynascope.experiments.elastic.tables import by_row
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import Source, elastic
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import geometry_blocks
from dynascope.statistics.errors import Estimate, over_trials

_CLASSES = (3, 4, 7)
_EIGENVALUES = ("α−β", "α+β/(K−1)", "0")
_PROBABILITIES = (0.6, 0.3, 0.1)
_ROUNDING = 1e-9  # of eigenvalues and eigenvectors of matrices with entries of order 1
_PROPOSITION = elastic(theorem="Proposition 3.3", place="proof")


@dataclass(frozen=True)
class Config:
    """Random strengths; trials of the discrete process for one step, and over a longer time in small steps."""

    draws: int = 5
    step_trials: int = 40_000
    path_trials: int = 4000
    samples: int = 4
    duration: float = 2.0
    dt: float = 0.005
    noise: float = 0.1
    seed: int = 27


def run(config: Config) -> xr.Dataset:
    """Take the drift apart numerically, and watch what the discrete process does on average."""
    random = np.random.default_rng(config.seed)
    parts = [_multiplicities(random, config.draws), _eigenvectors(random, config.draws)]
    parts.append(by_row("draw", [_bounds(random) for _ in range(config.draws)]))
    return xr.merge([*parts, _one_step(random, config), _many_steps(random, config)])


def _strengths(random: np.random.Generator) -> tuple[float, float]:
    """Random α and β, of either sign, far enough from 0 and each other for eigenvalues to be told apart."""
    return random.uniform(1.0, 2.0), random.choice([-1.0, 1.0]) * random.uniform(0.2, 0.8)


def _multiplicities(random: np.random.Generator, draws: int) -> xr.Dataset:
    """Count eigenvalues of K M: (classes, draw, eigenvalue) for logits; of M for the I-model with K − 1 features."""
    logits, isotropic = np.zeros((len(_CLASSES), draws, 3)), np.zeros((len(_CLASSES), draws, 2))
    for i, classes in enumerate(_CLASSES):
        for j in range(draws):
            intra, inter = _strengths(random)
            found = classes * np.linalg.eigvals(LocallyElastic(classes, classes, intra, inter, "logits").drift(0.0))
            logits[i, j] = _count(found, [intra - inter, intra + inter / (classes - 1), 0.0])
            found = np.linalg.eigvals(LocallyElastic(classes, classes - 1, intra, inter, "isotropic").drift(0.0))
            isotropic[i, j] = _count(found, [(intra - inter) / classes, (intra + (classes - 1) * inter) / classes])
    return xr.Dataset(
        {
            "multiplicity": (("classes", "draw", "eigenvalue"), logits),
            "isotropic_multiplicity": (("classes", "draw", "isotropic_eigenvalue"), isotropic),
        },
        coords={"classes": list(_CLASSES), "eigenvalue": list(_EIGENVALUES)},
    )


def _count(found: np.ndarray, values: list[float]) -> list[int]:
    return [int(np.sum(np.abs(found - value) < 1e-6)) for value in values]


def _eigenvectors(random: np.random.Generator, draws: int) -> xr.Dataset:
    """At K = 3: the repeated eigenvalue, its eigenvectors with given entries 7 and 8, zero-eigenvectors likewise."""
    rows, found, printed = [], [], []
    for _ in range(draws):
        (intra, inter), (w1, w2, w5, w6) = _strengths(random), random.uniform(-2.0, 2.0, 4)
        drift = LocallyElastic(3, 3, intra, inter, "logits").drift(0.0)
        values = np.linalg.eigvals(drift)
        order = np.argsort(np.abs(values - (intra - inter) / 3))
        away = [i for i in order[1:] if abs(values[i]) > 1e-6]  # neither 0 nor the simple one
        repeated = np.mean(values[away].real)
        # not by eig: rounding may make a repeated eigenvalue a complex pair, whose vectors have one real part
        space, null = null_space(drift - repeated * np.eye(9), rcond=1e-9), null_space(drift, rcond=1e-9)
        eigenvector = space @ np.linalg.lstsq(space[6:8], np.array([1 - w1, w1]))[0]
        zero = null @ np.linalg.lstsq(null[7:], np.array([w5, w6]))[0]
        row = {"repeated": repeated, "last_entry": eigenvector[8], "third_block": zero[6]}
        rows.append(row | {"intra": intra, "inter": inter, "w2": w2, "w5": w5, "w6": w6})
        found.append(eigenvector[:6])
        printed.append(_printed_entries(intra, inter, w1))
    entries = {"first_entries": (("draw", "entry"), found), "printed_entries": (("draw", "entry"), printed)}
    return by_row("draw", rows).assign(entries)


def _printed_entries(a: float, b: float, w1: float) -> np.ndarray:
    """(C.8) with ξ of (C.9), as printed."""
    xi1, xi2, xi3 = (2 * a + b) / (3 * b), (a + 2 * b) / (3 * b), (a - b) / (3 * b)
    below = 6 * a * b + 3 * b**2
    xi4, xi5 = (a**2 + a * b + 7 * b**2) / below, (a**2 + 4 * a * b - 5 * b**2) / below
    xi6 = (a**2 - 2 * a * b - 8 * b**2) / below
    entries = [-xi1 * w1 + xi2, xi2 * w1 - xi5, xi3 * w1 - xi4, -xi2 * w1 + xi4, xi1 * w1 - xi3, -xi3 * w1 + xi6]
    return np.array(entries)


def _bounds(random: np.random.Generator) -> dict[str, float]:
    """Ends of the spectrum of M for positive E, K = p = 3, and what (C.10) and Schur's theorem say of them.

    For H = h hᵀ with h of signs, whose diagonal is 1, and in units of the bounds for a random positive definite H.
    """
    intra, inter = random.uniform(1.0, 2.0), random.uniform(0.2, 0.8)
    signs, root = random.choice([-1.0, 1.0], 9), random.standard_normal((9, 9))
    extremes, geometries = [], (np.outer(signs, signs), root @ root.T)
    for geometry in geometries:
        own, other = looped_drift(3, 3, geometry)
        extremes.append(np.linalg.eigvalsh(intra * own + inter * other)[[0, -1]])
    ends = np.linalg.eigvalsh(geometries[1])[[0, -1]] * intra / 3
    found = {"least": extremes[0][0], "largest": extremes[0][1], "least_eigenvalue": (intra - inter) / 3}
    found |= {"largest_eigenvalue": (intra + 2 * inter) / 3}
    return found | {"above_least": extremes[1][0] / ends[0], "below_largest": extremes[1][1] / ends[1]}


def _one_step(random: np.random.Generator, config: Config) -> xr.Dataset:
    """Mean displacement in one noiseless iteration of (4), where M and the literal Kronecker form differ most."""
    start, elasticity = random.standard_normal((3, 3)), np.where(np.eye(3) == 1, 1.0, 0.4)
    whole = geometry_blocks("logits", 3, 3).swapaxes(1, 2).reshape(9, 9)
    rows = []
    for sampling, mask in ((None, np.eye(3)), (_PROBABILITIES, np.tile(_PROBABILITIES, (3, 1)))):
        model = LocallyElastic(3, 3, 1.0, 0.4, "logits", sampling, noise=0.0)
        options: dict[str, Any] = {"seed": config.seed, "save_points": 2, "start": start, "discrete": True}
        last = model.simulate(1.0, 1.0, 1, config.step_trials, **options)["class_mean"].isel(time=-1)
        expected = model.drift(0.0) @ start.ravel()
        printed = (np.kron(elasticity, mask) * whole / 3) @ start.ravel()
        at = int(np.argmax(np.abs(expected - printed)))
        moved = over_trials((last - start).values.reshape(config.step_trials, 9)[:, at])
        row = {"displacement": moved.mean, "displacement_error": moved.error}
        rows.append(row | {"displacement_expected": expected[at], "displacement_printed": printed[at]})
    return by_row("form", rows).assign_coords(form=["(E ⊗ I) ∘ H/K", "(E ⊗ P) ∘ H/K"])


def _many_steps(random: np.random.Generator, config: Config) -> xr.Dataset:
    """Mean of one sample of each class over trials of the discrete process, at the end; (class, feature) each."""
    model = LocallyElastic(3, 3, 1.0, 0.4, "logits", noise=config.noise)
    start = random.standard_normal((3, config.samples, 3))
    options: dict[str, Any] = {"seed": config.seed, "save_points": 2, "start": start, "discrete": True}
    run = model.simulate(config.duration, config.dt, config.samples, config.path_trials, **options)
    last = over_trials(run["point"].isel(time=-1, sample=0).values, axis=0)
    centre = start.mean(axis=1)
    mean, drift = model.mean_path([config.duration], centre)[0], model.drift(0.0)
    own, other = looped_drift(3, 3, "logits")
    matrix, steps = own + 0.4 * other, round(config.duration / config.dt)
    behind = np.linalg.matrix_power(np.eye(9) + config.dt * matrix, steps) - expm(config.duration * matrix)
    moved = {
        "sample_mean": last.mean,
        "sample_error": last.error,
        "sample_expected": start[:, 0] + mean - centre,
        "sample_printed": start[:, 0] + (drift @ mean.ravel()).reshape(3, 3) - centre,
        "sample_bound": np.abs(behind @ centre.ravel()).reshape(3, 3),  # of steps of length dt
    }
    return xr.Dataset({name: (("class", "feature"), values) for name, values in moved.items()})


def _counts(record: xr.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """K, and how often each eigenvalue was found: α − β, α + β/(K−1) and 0; (classes, draw) each."""
    simple, repeated, zero = record["multiplicity"].transpose("eigenvalue", ...).values
    return record["classes"].values[:, None] + 0 * simple, simple, repeated, zero


def _simple_and_zero(record: xr.Dataset) -> Judgement:
    classes, simple, _, zero = _counts(record)
    return equal([simple, zero], [1 + 0 * classes, classes * (classes - 1)], note="K = 3, 4, 7")


def _repeated_count(record: xr.Dataset) -> Judgement:
    classes, _, repeated, _ = _counts(record)
    note = "the multiplicity is K − 1: with K(K−1) there would be K² + (K−1)² eigenvalues in all, of K²"
    return corrected(repeated, classes - 1, published=(classes * (classes - 1)).ravel(), note=note)


def _isotropic_counts(record: xr.Dataset) -> Judgement:
    classes, found = _counts(record)[0], record["isotropic_multiplicity"].transpose("isotropic_eigenvalue", ...)
    return equal(found.values, [(classes - 1) ** 2, classes - 1], note="p = K − 1")


def _repeated_value(record: xr.Dataset) -> Judgement:
    value, intra, inter = (record[name].values for name in ("repeated", "intra", "inter"))
    note = "(α + β/(K−1))/K, of M; K − 1 belongs where K + 1 is printed"
    return corrected(value, (intra + inter / 2) / 3, _ROUNDING, published=(intra + inter / 4) / 3, note=note)


def _first_entries(record: xr.Dataset) -> Judgement:
    found, printed = record["first_entries"].values, record["printed_entries"].values
    return equal(found, printed, _ROUNDING * (1 + np.abs(printed)), note="random α, β, w₁")


def _last_entry(record: xr.Dataset) -> Judgement:
    note = "it must be −1 (each block adds up to 0): w₁ and the scale are the two freedoms. Printed: drawn w₂"
    return corrected(record["last_entry"].values, -1.0, _ROUNDING, published=record["w2"].values, note=note)


def _third_block(record: xr.Dataset) -> Judgement:
    entry, w5, w6 = (record[name].values for name in ("third_block", "w5", "w6"))
    note = "the block is (2 w₆ − w₅, w₅, w₆), orthogonal to d₃; the printed one only for w₆ = −1"
    return corrected(entry, 2 * w6 - w5, _ROUNDING, published=-w5 - 2, note=note)


def _schur(record: xr.Dataset) -> Judgement:
    least, largest, low, high = (
        record[name].values for name in ("least", "largest", "least_eigenvalue", "largest_eigenvalue")
    )
    note = (
        "ends of the spectrum of M, blocks E_kl H_kl/K, H = h hᵀ with entries ±1, p = 3: 0 and p λ_max. The blocks of "
        "E ⊗ 11ᵀ that multiply H have the eigenvalues 0 and p λ, those of the printed E ⊗ I only λ"
    )
    return corrected([least, largest], [0 * low, 3 * high], _ROUNDING, published=[*low, *high], note=note)


def _schur_holds(record: xr.Dataset) -> Judgement:
    ratio = np.stack([record["above_least"].values, 1 / record["below_largest"].values])
    note = "in units of the bounds, random positive definite H; of the order of α, not of γ = α − β"
    return above(ratio, 1.0, note=note)


def _kronecker(record: xr.Dataset) -> Judgement:
    moved, expected = recorded(record, "displacement"), record["displacement_expected"].values
    printed = record["displacement_printed"].values
    note = (
        "block (k, l) is E_kl P_kl H_kl: read literally, ⊗ weights features inside a block. Mean displacement "
        f"of one iteration, balanced and with class probabilities {_PROBABILITIES}"
    )
    return corrected(moved, expected, published=printed, note=note)


def _once(record: xr.Dataset) -> Judgement:
    """Displacement by the blocks E_kl P_kl H_kl of the slides, and another 1/K beside it as the rival."""
    moved, expected = recorded(record, "displacement"), record["displacement_expected"].values
    note = f"mean displacement of one iteration, balanced and with class probabilities {_PROBABILITIES}"
    return equal(moved, expected, rival=expected / 3, note=f"{note}; blocks E_kl P_kl H_kl")


def _twice(record: xr.Dataset) -> Judgement:
    moved, expected = recorded(record, "displacement"), record["displacement_expected"].values
    note = "P has the probabilities already, 1/K each where classes are balanced: K divides once, as in (5)"
    return corrected(moved, expected, published=expected / 3, note=note)


def _moved_samples(record: xr.Dataset) -> Judgement:
    gap = abs(record["sample_printed"] - record["sample_expected"])
    chosen = record.isel(feature=gap.argmax("feature"))  # for each class where the statements differ most
    mean, error, expected, printed, bound = (
        chosen[f"sample_{name}"].values for name in ("mean", "error", "expected", "printed", "bound")
    )
    note = "X̄(t) belongs where M X̄(t) is printed: X_i(0) + X̄(t) − X̄(0). Discrete process, bound: its step size"
    return corrected(Estimate(mean, error), expected, bound, published=printed, note=note)


def _draw_spectrum(record: xr.Dataset, ax: Axes) -> None:
    """The counted multiplicities."""
    classes = record["classes"].values
    place = np.arange(len(classes))
    for index, (colour, name) in enumerate(zip(plots.PALETTE, record["eigenvalue"].values, strict=False)):
        counted = record["multiplicity"].isel(draw=0, eigenvalue=index)
        ax.bar(place + 0.25 * (index - 1), counted, 0.22, color=colour, label=f"{name}, counted")
    ax.plot(place, classes * (classes - 1), "k_", markersize=16, label="printed for α+β/(K−1)")
    ax.set_xticks(place, [f"K = {k}" for k in classes])
    ax.set(yscale="log", ylabel="multiplicity of eigenvalues of K M", title="Spectrum of the L-model")


def _draw_averages(record: xr.Dataset, ax: Axes) -> None:
    """Averages of the discrete process beside both statements."""
    measured = np.concatenate([record["displacement"], record["sample_mean"].values.ravel()])
    error = 3 * np.concatenate([record["displacement_error"], record["sample_error"].values.ravel()])
    for colour, name, label in zip(plots.PALETTE, ("expected", "printed"), ("corrected", "printed"), strict=False):
        stated = np.concatenate([record[f"displacement_{name}"], record[f"sample_{name}"].values.ravel()])
        ax.errorbar(stated, measured, error, fmt="o", markersize=4, color=colour, label=label)
    ax.axline((0, 0), slope=1, color="black", linewidth=0.8)
    ax.set(xlabel="stated", ylabel="average of the discrete process\n(bars: 3 standard errors)")
    ax.set_title("Kronecker forms and (C.12)")


EXPERIMENT = Experiment(
    elastic("5, C.7–C.10, C.12"),
    Config(),
    run,
    claims=(
        Claim(
            "elastic-l-model-spectrum",
            "K M of the L-model has the eigenvalue α − β once and 0 with multiplicity K(K−1)",
            _simple_and_zero,
            _PROPOSITION,
        ),
        Claim(
            "elastic-l-model-multiplicity",
            "K M of the L-model has the eigenvalue α + β/(K−1) with multiplicity K(K−1)",
            _repeated_count,
            _PROPOSITION,
        ),
        Claim(
            "elastic-i-model-spectrum",
            "M of the I-model has (α − β)/K with multiplicity p(K−1) and (α + (K−1) β)/K with multiplicity p",
            _isotropic_counts,
            elastic(equation="C.4", theorem="Theorem 3.1", place="proof"),
        ),
        Claim(
            "elastic-c8-eigenvalue",
            "at K = 3 the repeated eigenvalue is (α + β/(K+1))/K",
            _repeated_value,
            elastic(place="above (C.8)"),
        ),
        Claim(
            "elastic-c8-entries",
            "the first six entries of the eigenvectors, given the next two",
            _first_entries,
            elastic("C.8, C.9"),
        ),
        Claim("elastic-c8-last-entry", "the last entry w₂ of the eigenvectors is free", _last_entry, elastic("C.8")),
        Claim(
            "elastic-c7-third-block",
            "the third block of zero-eigenvectors is (−w₅ − 2, w₅, w₆)",
            _third_block,
            elastic("C.7"),
        ),
        Claim(
            "elastic-c10",
            "eigenvalues of M lie between λ_min min H_ii and λ_max max H_ii, λ those of E/K",
            _schur,
            elastic("C.10"),
            "derived",  # printed for (E ⊗ I) ∘ H/K, which is not M: elastic-kronecker
        ),
        Claim(
            "elastic-c10-schur",
            "for positive E and H eigenvalues of M lie between those of H, least and largest, times α/K",
            _schur_holds,
            elastic("C.10"),
            "derived",
        ),
        Claim(
            "elastic-kronecker",
            "M = (E ⊗ I) ∘ H/K, and (E ⊗ P) ∘ H/K",
            _kronecker,
            elastic(section="E", theorem="Theorem 3.1", place="proof"),
        ),
        Claim(
            "slides-sampling",
            "M has the blocks E_kl P_kl H_kl, with nothing divided by K",
            _once,
            Source("elastic-slides", equation="3"),
            "derived",
        ),
        Claim(
            "elastic-e-sampling", "M has the blocks E_kl P_kl H_kl/K for a stochastic P", _twice, elastic(section="E")
        ),
        Claim("elastic-c12-samples", "E X_i(t) = X_i(0) + M X̄(t) − X̄(0)", _moved_samples, elastic("C.12")),
    ),
    picture=Panels(_draw_spectrum, _draw_averages, width=5.0, height=4.0),
    model="LocallyElastic",
    smoke={"draws": 2, "step_trials": 8000, "path_trials": 800, "dt": 0.01},
    paper={"draws": 50, "step_trials": 400_000, "path_trials": 20_000, "dt": 0.002},
)
