"""Equations of chapters 1 and 2 and appendix D, each held against an explicit computation with matrices."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.measure.collapse import neural_collapse
from dynascope.measure.separation import data_separation
from dynascope.measure.spectrum import eigenfunctions, feature_spectrum, minimum_feature_distance
from dynascope.records import with_provenance

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Config:
    """Random features, outputs and classes; every draw is one case."""

    draws: int = 40
    samples: int = 400
    features: int = 30
    classes: int = 5
    seed: int = 29


SCALES = {"smoke": Config(draws=12), "laptop": Config(), "paper": Config(draws=200, samples=2000)}
INTENSITY = Claim("alg-1-intensity", "layerwise Algorithm 1", "the intensity of a feature is s_k²")
UTILIZATION = Claim(
    "eq-2.5-utilization",
    "layerwise (2.5)",
    "cumulative utilization is the share of the outputs that k features express",
)
PROJECTOR = Claim(
    "eq-2.19-projector", "layerwise (2.19)", "⟨C f_i|T_MP[C f_j − 1]⟩ = a_2 (δ_ij − 1/C) for one-hot outputs"
)
MEANS = Claim("eq-2.18-class-means", "layerwise (2.18)", "class means obey μ_i·μ_j = ⟨f_i|T f_j⟩")
EIGENSPACES = Claim(
    "def-1-eigenspaces", "layerwise Definition 1, (2.8)", "a_1|1⟩⟨1| + a_2 P has the eigenvalues a_1 + a_2 and a_2 only"
)
COLLAPSE = Claim("prop-2.5-collapse", "layerwise Propositions 2.5.1, 2.5.2", "an MP operator implies NC1 and NC2")
MINIMAL = Claim("eq-2.9-minimal", "layerwise (2.7) to (2.9)", "an MP operator has κ = 0 and C effective features")
LINEAR = Claim(
    "s4-linear-layers", "spring-block S4, FIG. S14", "log tr(Σw Σb⁺) does not see linear layers, log(tr Σw/tr Σb) does"
)


def run(config: Config) -> xr.Dataset:
    """Draw random cases; note what matrices say, what the corrected and what the printed formula says."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    parts = [
        xr.merge([part(config, random) for part in (_intensity, _utilization, _operators, _minimal, _linear)])
        for _ in range(config.draws)
    ]
    return with_provenance(
        xr.concat(parts, "draw"), "FeatureDefinitions", asdict(config), options={}, seed=config.seed,
        precision="float64", wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def _intensity(config: Config, random: np.random.Generator) -> xr.Dataset:
    """The example below (1.29): covariance with eigenvalues 2 and 1."""
    drawn = random.multivariate_normal([0, 0], [[1.5, 0.5], [0.5, 1.5]], size=config.samples)
    printed = np.linalg.svd(drawn, compute_uv=False) ** 2
    found = np.asarray(eigenfunctions(drawn, drawn)[0])
    return xr.Dataset({"intensity": ("pair", found), "intensity_printed": ("pair", printed)})


def _utilization(config: Config, random: np.random.Generator) -> xr.Dataset:
    """Outputs that are linear in the features and overlap; least squares says what k features express of them."""
    decay = np.arange(1, config.features + 1) ** -0.5
    train, test = random.normal(size=(2, config.samples, config.features)) * decay
    outputs = test @ random.normal(size=(config.features, config.classes))
    values = eigenfunctions(train, test)[1]
    orthonormal = np.linalg.svd(outputs, full_matrices=False)[0]
    places = np.array([1, config.features // 4, config.features // 2, config.features])
    fits = [values[:, :k] @ np.linalg.lstsq(values[:, :k], orthonormal, rcond=None)[0] for k in places]
    ours, printed = (
        feature_spectrum(train, test, outputs, outputs, published=flag)["cumulative_utilization"].values[places - 1]
        for flag in (False, True)
    )
    expressed = [1 - ((orthonormal - fit) ** 2).sum() / config.classes for fit in fits]
    names = {"expressed": expressed, "utilization": ours, "utilization_printed": printed}
    return xr.Dataset({name: ("k", value) for name, value in names.items()})


def _operators(config: Config, random: np.random.Generator) -> xr.Dataset:
    """(2.8), (2.18), (2.19) with operators as matrices over the samples, ⟨f|g⟩ = f·g/N."""
    classes, samples = config.classes, config.samples // config.classes * config.classes
    onehot = np.eye(classes)[np.arange(samples) % classes]
    a1, a2 = random.uniform(0.5, 2.0, 2)
    one = np.ones(samples)
    inside = a1 * np.outer(one, one) / samples + a2 * onehot @ np.linalg.pinv(onehot)
    product = classes * onehot.T @ inside @ (classes * onehot - 1) / samples
    features = random.normal(size=(samples, config.features))
    means = classes * onehot.T @ features / samples
    kernel = onehot.T @ (features @ features.T / samples) @ onehot / samples
    outputs = np.linalg.qr(random.normal(size=(samples, classes)) + 0.3)[0]
    mixed = a1 * np.outer(one, one) / samples + a2 * outputs @ outputs.T
    overlap = ((one @ outputs) ** 2).sum() / samples  # |P 1|²
    root = np.sqrt((a1 - a2) ** 2 + 4 * a1 * a2 * overlap)
    values = np.sort(np.linalg.eigvalsh(mixed))[::-1]
    identity = np.eye(classes)
    return xr.Dataset(
        {
            "projector": (("i", "j"), product),
            "projector_expected": (("i", "j"), a2 * (classes * identity - 1)),
            "projector_printed": (("i", "j"), a2 * (identity - 1 / classes)),
            "means": (("i", "j"), means @ means.T),
            "means_printed": (("i", "j"), kernel),
            "eigenvalues": ("end", values[[0, classes]]),
            "eigenvalues_expected": ("end", np.array([a1 + a2 + root, a1 + a2 - root]) / 2),
            "eigenvalues_printed": ("end", np.array([a1 + a2, 0.0])),
        }
    )


def _minimal(config: Config, random: np.random.Generator) -> xr.Dataset:
    """Features whose kernel is an MP operator, turned at random, and all that it should imply."""
    classes = config.classes
    labels = np.arange(config.samples // classes * classes) % classes
    turn = np.linalg.qr(random.normal(size=(config.features, config.features)))[0]
    a1, a2 = random.uniform(0.5, 2.0, 2)
    frame = np.eye(classes) - 1 / classes
    clean = np.concatenate([np.sqrt(a2 * classes) * frame[labels], np.full((len(labels), 1), np.sqrt(a1 + a2))], axis=1)
    features = clean @ turn[: classes + 1]
    onehot = np.eye(classes)[labels]
    collapse = neural_collapse(features, labels)
    found = feature_spectrum(features, features, onehot, onehot)
    return xr.Dataset(
        {
            "collapse": ("sign", [float(collapse[name]) for name in ("nc1", "nc1_thesis", "nc2_norm", "nc2_thesis")]),
            "kappa": float(minimum_feature_distance(features, onehot)),
            "dimensions": ("kind", [float(found[f"dimension_{n}"]) for n in ("intensity", "utilization", "quality")]),
        }
    )


def _linear(config: Config, random: np.random.Generator) -> xr.Dataset:
    """Both separations before and after an invertible linear layer, for fewer and for more features than classes."""
    labels = np.arange(config.samples) % 12
    changes = {}
    for name, width in (("few", 6), ("many", 40)):
        x = random.normal(size=(config.samples, width)) + random.normal(size=(12, width))[labels]
        layer = random.normal(size=(width, width))
        for kind in ("pinv", "trace"):
            before, after = (float(data_separation(each, labels, kind=kind)) for each in (x, x @ layer))
            changes[f"{kind}_{name}"] = after - before
    return xr.Dataset(changes)


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge each equation over all draws."""
    value = {name: record[name].values for name in record.data_vars}
    case = {name: record[name].isel(draw=0).values.ravel() for name in record.data_vars}  # of formulas without noise
    draws = record.sizes["draw"]
    error = value["intensity"].std(axis=0, ddof=1) / np.sqrt(draws)
    # eigenvalues of a covariance from N samples repel each other, by ρ_1 ρ_2/(ρ_1 − ρ_2)/N = 2/N to first order
    bias = 4 / (value["intensity_printed"][:, 0].mean() / 2)
    pairs = {"expressed": "utilization", "projector": "projector_expected", "eigenvalues": "eigenvalues_expected"}
    gap = {name: f"{np.abs(value[name] - value[other]).max():.0e}" for name, other in pairs.items()}
    return (
        INTENSITY.corrects(
            value["intensity"].mean(axis=0), [2.0, 1.0], three_errors(error) + bias,
            published=value["intensity_printed"].mean(axis=0), standard_error=error,
            note="s_k²/N: features with covariance eigenvalues 2 and 1, below (1.29); the printed s_k² grows with N",
        ),
        UTILIZATION.corrects(
            case["expressed"], case["utilization"], _ROUNDING, published=case["utilization_printed"],
            note="without the square, on orthonormal functions; least squares with k = 1, p/4, p/2 and p (where it is "
            f"1) features in one draw; all draws agree within {gap['expressed']}",
        ),
        PROJECTOR.corrects(
            case["projector"], case["projector_expected"], _ROUNDING, published=case["projector_printed"],
            note=f"a_2 (C δ_ij − 1), as (D.12) derives; all draws agree within {gap['projector']}",
        ),
        MEANS.corrects(
            case["means"], case["means_printed"] * _classes(record) ** 2, _ROUNDING, published=case["means_printed"],
            note="C² ⟨f_i|T f_j⟩, as (2.17) and (D.17) have it",
        ),
        EIGENSPACES.corrects(
            case["eigenvalues"], case["eigenvalues_expected"], _ROUNDING, published=case["eigenvalues_printed"],
            note="true only where the outputs span the constant; else the extremes are (a_1 + a_2 ± √((a_1 − a_2)² + "
            f"4 a_1 a_2 |P1|²))/2; all draws agree within {gap['eigenvalues']}",
        ),
        COLLAPSE.equals(value["collapse"], 0.0, _ROUNDING, note="NC1, (2.10), NC2 lengths, NC2 angles"),
        MINIMAL.equals(
            np.column_stack([value["kappa"], value["dimensions"] - _classes(record)]), 0.0, _ROUNDING,
            note="κ, and C taken off the dimensions of intensity, utilization and quality",
        ),
        LINEAR.equals(
            value["pinv_few"], 0.0, _ROUNDING,
            note=f"exact with fewer features than classes, where log(tr Σw/tr Σb) moves by {_size(value['trace_few'])} "
            f"(rms); with more features Σb is singular and log tr(Σw Σb⁺) moves too, by {_size(value['pinv_many'])}",
        ),
    )  # fmt: skip


def _size(values: np.ndarray) -> str:
    return f"{np.sqrt((values**2).mean()):.2f}"


def _classes(record: xr.Dataset) -> int:
    return int(record.sizes["i"])


def plot(record: xr.Dataset) -> Any:
    """Draw the share of the outputs that k features express beside both formulas."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(width=5.5, height=4.0)
    ax = axes[0, 0]
    places = ["1", "p/4", "p/2", "p"]
    for name, label, style in (
        ("expressed", "least squares", "o"),
        ("utilization", "corrected (2.5)", "-"),
        ("utilization_printed", "(2.5) as printed", "--"),
    ):
        ax.plot(places, record[name].mean("draw"), style, color=PALETTE[len(ax.lines)], label=label)
    ax.set(xlabel="number k of features", ylabel="cumulative utilization (share)", ylim=(0, 1.05))
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    title="Definitions of feature measures",
    source="layerwise chapters 1 and 2, appendix D; spring-block S4",
    kind="equation",
    claims=(INTENSITY, UTILIZATION, PROJECTOR, MEANS, EIGENSPACES, COLLAPSE, MINIMAL, LINEAR),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
