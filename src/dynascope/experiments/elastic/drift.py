"""What the source says about the drift M: its spectrum, eigenvectors and Kronecker form, and the samples it moves."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.linalg import expm

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.elastic.reference import looped_drift
from dynascope.experiments.registry import Experiment
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import geometry_blocks
from dynascope.records import with_provenance

CLASSES = (3, 4, 7)
EIGENVALUES = ("α−β", "α+β/(K−1)", "0")
PROBABILITIES = (0.6, 0.3, 0.1)


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


SCALES = {
    "smoke": Config(draws=2, step_trials=8000, path_trials=800, dt=0.01),
    "laptop": Config(),
    "paper": Config(draws=50, step_trials=400_000, path_trials=20_000, dt=0.002),
}
SPECTRUM = Claim(
    "elastic-l-model-spectrum",
    "elastic, proof of Proposition 3.3",
    "K M of the L-model has the eigenvalue α − β once and 0 with multiplicity K(K−1)",
)
MULTIPLICITY = Claim(
    "elastic-l-model-multiplicity",
    "elastic, proof of Proposition 3.3",
    "K M of the L-model has the eigenvalue α + β/(K−1) with multiplicity K(K−1)",
)
I_SPECTRUM = Claim(
    "elastic-i-model-spectrum",
    "elastic, proof of Theorem 3.1",
    "M of the I-model has (α − β)/K with multiplicity p(K−1) and (α + (K−1) β)/K with multiplicity p",
)
REPEATED = Claim("elastic-c8-eigenvalue", "elastic, above (C.8)", "at K = 3 the repeated eigenvalue is (α + β/(K+1))/K")
ENTRIES = Claim(
    "elastic-c8-entries", "elastic (C.8), (C.9)", "the first six entries of the eigenvectors, given the next two"
)
LAST_ENTRY = Claim("elastic-c8-last-entry", "elastic (C.8)", "the last entry w₂ of the eigenvectors is free")
NULL_VECTORS = Claim(
    "elastic-c7-third-block", "elastic (C.7)", "the third block of zero-eigenvectors is (−w₅ − 2, w₅, w₆)"
)
KRONECKER = Claim(
    "elastic-kronecker", "elastic, proof of Theorem 3.1 and appendix E", "M = (E ⊗ I) ∘ H/K, and (E ⊗ P) ∘ H/K"
)
SAMPLES = Claim("elastic-c12-samples", "elastic (C.12)", "E X_i(t) = X_i(0) + M X̄(t) − X̄(0)")
_ROUNDING = 1e-9  # of eigenvalues and eigenvectors of matrices with entries of order 1


def run(config: Config) -> xr.Dataset:
    """Take the drift apart numerically, and watch what the discrete process does on average."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    parts = [
        _multiplicities(random, config.draws),
        _eigenvectors(random, config.draws),
        _one_step(random, config),
        _many_steps(random, config),
    ]
    return with_provenance(
        xr.merge(parts),
        "LocallyElastic",
        {},
        options=vars(config),
        seed=config.seed,
        precision="float64",
        wall_time=time.perf_counter() - begun,
    )


def _strengths(random: np.random.Generator) -> tuple[float, float]:
    """Random α and β, of either sign, far enough from 0 and each other for eigenvalues to be told apart."""
    return random.uniform(1.0, 2.0), random.choice([-1.0, 1.0]) * random.uniform(0.2, 0.8)


def _multiplicities(random: np.random.Generator, draws: int) -> xr.Dataset:
    """Count eigenvalues of K M: (classes, draw, eigenvalue) for logits; of M for the I-model with K − 1 features."""
    logits, isotropic = np.zeros((len(CLASSES), draws, 3)), np.zeros((len(CLASSES), draws, 2))
    for i, classes in enumerate(CLASSES):
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
        coords={"classes": list(CLASSES), "eigenvalue": list(EIGENVALUES)},
    )


def _count(found: np.ndarray, values: list[float]) -> list[int]:
    return [int(np.sum(np.abs(found - value) < 1e-6)) for value in values]


def _eigenvectors(random: np.random.Generator, draws: int) -> xr.Dataset:
    """At K = 3: the repeated eigenvalue, its eigenvectors with given entries 7 and 8, zero-eigenvectors likewise."""
    rows, entries = [], []
    for _ in range(draws):
        (intra, inter), (w1, w2, w5, w6) = _strengths(random), random.uniform(-2.0, 2.0, 4)
        values, vectors = np.linalg.eig(LocallyElastic(3, 3, intra, inter, "logits").drift(0.0))
        order = np.argsort(np.abs(values - (intra - inter) / 3))
        away = [i for i in order[1:] if abs(values[i]) > 1e-6]  # neither 0 nor the simple one
        space = vectors[:, away].real
        eigenvector = space @ np.linalg.lstsq(space[6:8], np.array([1 - w1, w1]))[0]
        null = vectors[:, np.abs(values) < 1e-6].real
        zero = null @ np.linalg.lstsq(null[7:], np.array([w5, w6]))[0]
        rows.append([np.mean(values[away].real), intra, inter, eigenvector[8], w2, zero[6], w5, w6])
        entries.append(np.stack([eigenvector[:6], _printed_entries(intra, inter, w1)]))
    names = ("repeated", "intra", "inter", "last_entry", "w2", "third_block", "w5", "w6")
    found = dict(zip(names, np.transpose(rows), strict=True))
    record = xr.Dataset({name: ("draw", values) for name, values in found.items()})
    return record.assign(
        first_entries=(("draw", "entry"), [each[0] for each in entries]),
        printed_entries=(("draw", "entry"), [each[1] for each in entries]),
    )


def _printed_entries(a: float, b: float, w1: float) -> np.ndarray:
    """(C.8) with ξ of (C.9), as printed."""
    xi1, xi2, xi3 = (2 * a + b) / (3 * b), (a + 2 * b) / (3 * b), (a - b) / (3 * b)
    below = 6 * a * b + 3 * b**2
    xi4, xi5 = (a**2 + a * b + 7 * b**2) / below, (a**2 + 4 * a * b - 5 * b**2) / below
    xi6 = (a**2 - 2 * a * b - 8 * b**2) / below
    entries = [-xi1 * w1 + xi2, xi2 * w1 - xi5, xi3 * w1 - xi4, -xi2 * w1 + xi4, xi1 * w1 - xi3, -xi3 * w1 + xi6]
    return np.array(entries)


def _one_step(random: np.random.Generator, config: Config) -> xr.Dataset:
    """Mean displacement in one noiseless iteration of (4), where M and the literal Kronecker form differ most."""
    start, elasticity = random.standard_normal((3, 3)), np.where(np.eye(3) == 1, 1.0, 0.4)
    whole = geometry_blocks("logits", 3, 3).swapaxes(1, 2).reshape(9, 9)
    rows = []
    for sampling, mask in ((None, np.eye(3)), (PROBABILITIES, np.tile(PROBABILITIES, (3, 1)))):
        model = LocallyElastic(3, 3, 1.0, 0.4, "logits", sampling, noise=0.0)
        last = model.simulate(
            1.0, 1.0, 1, config.step_trials, seed=config.seed, save_points=2, start=start, discrete=True
        )["class_mean"].isel(time=-1)
        moved = (last - start).values.reshape(config.step_trials, 9)
        expected = model.drift(0.0) @ start.ravel()
        printed = (np.kron(elasticity, mask) * whole / 3) @ start.ravel()
        at = int(np.argmax(np.abs(expected - printed)))
        error = moved[:, at].std(ddof=1) / np.sqrt(len(moved))
        rows.append([moved[:, at].mean(), error, expected[at], printed[at]])
    names = ("displacement", "displacement_error", "displacement_expected", "displacement_printed")
    found = dict(zip(names, np.transpose(rows), strict=True))
    record = xr.Dataset({name: ("form", values) for name, values in found.items()})
    return record.assign_coords(form=["(E ⊗ I) ∘ H/K", "(E ⊗ P) ∘ H/K"])


def _many_steps(random: np.random.Generator, config: Config) -> xr.Dataset:
    """Mean of one sample of each class over trials of the discrete process, at the end; (class, feature) each."""
    model = LocallyElastic(3, 3, 1.0, 0.4, "logits", noise=config.noise)
    start = random.standard_normal((3, config.samples, 3))
    steps = round(config.duration / config.dt)
    run = model.simulate(
        config.duration,
        config.dt,
        config.samples,
        config.path_trials,
        seed=config.seed,
        save_points=2,
        start=start,
        discrete=True,
    )
    last = run["point"].isel(time=-1, sample=0).values  # (trial, class, feature)
    centre = start.mean(axis=1)
    mean, drift = model.mean_path([config.duration], centre)[0], model.drift(0.0)
    own, other = looped_drift(3, 3, "logits")
    matrix = own + 0.4 * other
    behind = np.linalg.matrix_power(np.eye(9) + config.dt * matrix, steps) - expm(config.duration * matrix)
    moved = {
        "sample_mean": last.mean(axis=0),
        "sample_error": last.std(axis=0, ddof=1) / np.sqrt(len(last)),
        "sample_expected": start[:, 0] + mean - centre,
        "sample_printed": start[:, 0] + (drift @ mean.ravel()).reshape(3, 3) - centre,
        "sample_bound": np.abs(behind @ centre.ravel()).reshape(3, 3),  # of steps of length dt
    }
    return xr.Dataset({name: (("class", "feature"), values) for name, values in moved.items()})


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge each statement by numerical eigenvectors or by averages of the discrete process."""
    classes, counts = record["classes"].values[:, None], record["multiplicity"].transpose("eigenvalue", ...).values
    simple, repeated, zero = counts
    isotropic = record["isotropic_multiplicity"].transpose("isotropic_eigenvalue", ...).values
    intra, inter, w5, w6 = (record[name].values for name in ("intra", "inter", "w5", "w6"))
    return (
        SPECTRUM.equals([simple, zero], [1 + 0 * simple, classes * (classes - 1) + 0 * zero], 0.0, note="K = 3, 4, 7"),
        MULTIPLICITY.corrects(
            repeated,
            classes - 1 + 0 * repeated,
            0.0,
            published=(classes * (classes - 1) + 0 * repeated).ravel(),
            note="the multiplicity is K − 1: with K(K−1) there would be K² + (K−1)² eigenvalues in all, of K²",
        ),
        I_SPECTRUM.equals(
            isotropic, [(classes - 1) ** 2 + 0 * simple, classes - 1 + 0 * simple], 0.0, note="p = K − 1"
        ),
        REPEATED.corrects(
            record["repeated"].values,
            (intra + inter / 2) / 3,
            _ROUNDING,
            published=(intra + inter / 4) / 3,
            note="(α + β/(K−1))/K, of M; K − 1 belongs where K + 1 is printed",
        ),
        ENTRIES.equals(
            record["first_entries"].values,
            record["printed_entries"].values,
            _ROUNDING * (1 + np.abs(record["printed_entries"].values)),
            note="random α, β, w₁",
        ),
        LAST_ENTRY.corrects(
            record["last_entry"].values,
            -1.0,
            _ROUNDING,
            published=record["w2"].values,
            note="it must be −1 (each block adds up to 0): w₁ and the scale are the two freedoms. Printed: drawn w₂",
        ),
        NULL_VECTORS.corrects(
            record["third_block"].values,
            2 * w6 - w5,
            _ROUNDING,
            published=-w5 - 2,
            note="the block is (2 w₆ − w₅, w₅, w₆), orthogonal to d₃; the printed one only for w₆ = −1",
        ),
        *_averages(record),
    )


def _averages(record: xr.Dataset) -> tuple[Claim, Claim]:
    error = record["displacement_error"].values
    gap = abs(record["sample_printed"] - record["sample_expected"])
    chosen = record.isel(feature=gap.argmax("feature"))  # for each class where the statements differ most
    spread = chosen["sample_error"].values
    return (
        KRONECKER.corrects(
            record["displacement"].values,
            record["displacement_expected"].values,
            three_errors(error),
            published=record["displacement_printed"].values,
            standard_error=error,
            note="block (k, l) is E_kl P_kl H_kl: read literally, ⊗ weights features inside a block. Mean displacement "
            f"of one iteration, balanced and with class probabilities {PROBABILITIES}",
        ),
        SAMPLES.corrects(
            chosen["sample_mean"].values,
            chosen["sample_expected"].values,
            three_errors(spread) + chosen["sample_bound"].values,
            published=chosen["sample_printed"].values,
            standard_error=spread,
            note="X̄(t) belongs where M X̄(t) is printed: X_i(0) + X̄(t) − X̄(0). Discrete process, bound: its step size",
        ),
    )


def plot(record: xr.Dataset) -> Any:
    """Draw the counted multiplicities, and averages of the discrete process beside both statements."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2, width=5.0, height=4.0)
    left, right = axes[0]
    classes = record["classes"].values
    place = np.arange(len(classes))
    for index, (colour, name) in enumerate(zip(PALETTE, record["eigenvalue"].values, strict=False)):
        counted = record["multiplicity"].isel(draw=0, eigenvalue=index)
        left.bar(place + 0.25 * (index - 1), counted, 0.22, color=colour, label=f"{name}, counted")
    left.plot(place, classes * (classes - 1), "k_", markersize=16, label="printed for α+β/(K−1)")
    left.set_xticks(place, [f"K = {k}" for k in classes])
    left.set_yscale("log")
    left.set_ylabel("multiplicity of eigenvalues of K M")
    left.set_title("Spectrum of the L-model")
    left.legend(frameon=False, fontsize="small")
    measured = np.concatenate([record["displacement"], record["sample_mean"].values.ravel()])
    error = 3 * np.concatenate([record["displacement_error"], record["sample_error"].values.ravel()])
    for colour, name, label in zip(PALETTE, ("expected", "printed"), ("corrected", "printed"), strict=False):
        stated = np.concatenate([record[f"displacement_{name}"], record[f"sample_{name}"].values.ravel()])
        right.errorbar(stated, measured, error, fmt="o", markersize=4, color=colour, label=label)
    right.axline((0, 0), slope=1, color="black", linewidth=0.8)
    right.set_xlabel("stated")
    right.set_ylabel("average of the discrete process\n(bars: 3 standard errors)")
    right.set_title("Kronecker forms and (C.12)")
    right.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="The drift and what it moves",
    source="elastic (5), (C.7)–(C.9), (C.12)",
    kind="equation",
    claims=(SPECTRUM, MULTIPLICITY, I_SPECTRUM, REPEATED, ENTRIES, LAST_ENTRY, NULL_VECTORS, KRONECKER, SAMPLES),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
