"""layerwise chapters 1 and 2, appendix D: Definitions of feature measures.

Each equation is held against an explicit computation with matrices. One claim belongs to spring-block S4.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, corrected, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import layerwise, spring_block
from dynascope.measure.collapse import neural_collapse
from dynascope.measure.separation import data_separation
from dynascope.measure.spectrum import eigenfunctions, feature_spectrum, minimum_feature_distance
from dynascope.statistics.errors import over_trials

_ROUNDING = 1e-9
_LEAST_SQUARES = (
    "without the square; least squares with k = 1, p/4, p/2 and p features in one draw. With the square Π̂(p) is not "
    "the 1 of the text below it"
)


@dataclass(frozen=True)
class Config:
    """Random features, outputs and classes; every draw is one case."""

    draws: int = 40
    samples: int = 400
    features: int = 30
    classes: int = 5
    seed: int = 29


def run(config: Config) -> xr.Dataset:
    """Draw random cases; note what matrices say, what the corrected and what the printed formula says."""
    random = np.random.default_rng(config.seed)
    parts = (_intensity, _utilization, _operators, _minimal, _linear)
    return xr.concat([xr.merge([part(config, random) for part in parts]) for _ in range(config.draws)], "draw")


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
    shares = feature_spectrum(train, test, outputs, outputs)["utilization"].values
    squared = (config.classes * shares) ** 2 / config.classes  # ⟨e_k|P e_k⟩²/dim, with the same projection P
    ours, printed = (np.cumsum(each)[places - 1] for each in (shares, squared))
    expressed = [1 - ((orthonormal - fit) ** 2).sum() / config.classes for fit in fits]
    return xr.Dataset(
        {"expressed": ("k", expressed), "utilization": ("k", ours), "utilization_printed": ("k", printed)}
    )


def _mp_operator(a1: float, a2: float, outputs: np.ndarray) -> np.ndarray:
    """a_1 |1⟩⟨1| + a_2 P over the samples, with P the projection on the outputs (sample, class)."""
    return a1 / len(outputs) + a2 * outputs @ np.linalg.pinv(outputs)


def _operators(config: Config, random: np.random.Generator) -> xr.Dataset:
    """(2.8), (2.18), (2.19) with operators as matrices over the samples, ⟨f|g⟩ = f·g/N."""
    classes, samples = config.classes, config.samples // config.classes * config.classes
    onehot = np.eye(classes)[np.arange(samples) % classes]
    a1, a2 = random.uniform(0.5, 2.0, 2)
    one = np.ones(samples)
    inside = _mp_operator(a1, a2, onehot)
    product = classes * onehot.T @ inside @ (classes * onehot - 1) / samples
    features = random.normal(size=(samples, config.features))
    means = classes * onehot.T @ features / samples
    kernel = onehot.T @ (features @ features.T / samples) @ onehot / samples
    functions = np.column_stack([one, random.normal(size=(samples, classes - 1))])
    outputs = functions @ random.normal(size=(classes, classes))  # whose span holds the constant
    mixed = _mp_operator(a1, a2, outputs)
    identity = np.eye(classes)
    return xr.Dataset(
        {
            "projector": (("i", "j"), product),
            "projector_expected": (("i", "j"), a2 * (classes * identity - 1)),
            "projector_printed": (("i", "j"), a2 * (identity - 1 / classes)),
            "means": (("i", "j"), means @ means.T),
            "means_printed": (("i", "j"), kernel),
            "eigenvalues": ("place", np.sort(np.linalg.eigvalsh(mixed))[::-1][: classes + 1]),
            "eigenvalues_printed": ("place", np.array([a1 + a2, *[a2] * (classes - 1), 0.0])),
        }
    )


def _minimal(config: Config, random: np.random.Generator) -> xr.Dataset:
    """Features from the eigenvectors of an MP operator (2.7), turned at random, and all that it should imply."""
    classes = config.classes
    labels = np.arange(config.samples // classes * classes) % classes
    turn = np.linalg.qr(random.normal(size=(config.features, config.features)))[0]
    a1, a2 = random.uniform(0.5, 2.0, 2)
    onehot = np.eye(classes)[labels]
    eigenvalues, functions = np.linalg.eigh(_mp_operator(a1, a2, onehot))
    kept = eigenvalues > _ROUNDING
    features = functions[:, kept] * np.sqrt(len(labels) * eigenvalues[kept]) @ turn[: kept.sum()]
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


def _intense(record: xr.Dataset) -> Judgement:
    measured, printed = (over_trials(record[name].values, axis=0) for name in ("intensity", "intensity_printed"))
    # eigenvalues of a covariance from N samples repel each other, by ρ_1 ρ_2/(ρ_1 − ρ_2)/N = 2/N to first order
    bias = 4 / (printed.mean[0] / 2)
    note = "s_k²/N: features with covariance eigenvalues 2 and 1, below (1.29); the printed s_k² grows with N"
    return corrected(measured, [2.0, 1.0], bias, published=printed.mean, note=note)


def _corrects(record: xr.Dataset, found: str, expected: str, note: str) -> Judgement:
    """A formula without noise, at the number of each draw that lies furthest from it."""
    printed = f"{expected.removesuffix('_expected')}_printed"
    return _worst(record[found], record[expected], record[printed], note)


def _worst(found: xr.DataArray, right: xr.DataArray, printed: xr.DataArray, note: str) -> Judgement:
    rows = [each.transpose("draw", ...).values.reshape(each.sizes["draw"], -1) for each in (found, right, printed)]
    place = np.abs(rows[0] - rows[1]).argmax(axis=1, keepdims=True)
    measured, expected, published = (np.take_along_axis(row, place, axis=1)[:, 0] for row in rows)
    return corrected(measured, expected, _ROUNDING, published=published, note=note)


def _means(record: xr.Dataset) -> Judgement:
    found, printed = record["means"], record["means_printed"]
    return _worst(found, printed * record.sizes["i"] ** 2, printed, "C² ⟨f_i|T f_j⟩, as (2.17) and (D.17) have it")


def _minimally(record: xr.Dataset) -> Judgement:
    values = np.column_stack([record["kappa"], record["dimensions"] - record.sizes["i"]])
    note = "κ, and C taken off the dimensions of intensity, utilization and quality"
    return equal(values, 0.0, _ROUNDING, note=note)


def _unseen(record: xr.Dataset) -> Judgement:
    """By one definition nothing changes; by the other a hundredth at least, a per cent of the ratio."""
    trace, pinv = (float(np.sqrt((record[name] ** 2).mean())) for name in ("trace_few", "pinv_many"))
    note = (
        f"largest change of log tr(Σw Σb⁺), and minus that of log(tr Σw/tr Σb), {trace:.2f} (rms); with more features "
        f"than classes Σb is singular and the former moves too, by {pinv:.2f}"
    )
    return below([float(abs(record["pinv_few"]).max()), -trace], [_ROUNDING, -0.01], note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """The share of the outputs that k features express beside both formulas."""
    for name, label, style in (
        ("expressed", "least squares", "o"),
        ("utilization", "corrected (2.5)", "-"),
        ("utilization_printed", "(2.5) as printed", "--"),
    ):
        values, colour = record[name].mean("draw"), plots.PALETTE[len(ax.lines)]
        ax.plot(["1", "p/4", "p/2", "p"], values, style, color=colour, label=label)
    ax.set(xlabel="number k of features", ylabel="cumulative utilization (share)", ylim=(0, 1.05))


EXPERIMENT = Experiment(
    layerwise(place="chapters 1 and 2, appendix D"),
    Config(),
    run,
    claims=(
        Claim(
            "alg-1-intensity",
            "the intensity of a feature is s_k²",
            _intense,
            layerwise(theorem="Algorithm 1"),
        ),
        Claim(
            "eq-2.5-utilization",
            "cumulative utilization is the share of the outputs that k features express",
            lambda r: _corrects(r, "expressed", "utilization", _LEAST_SQUARES),
            layerwise(equation="2.5"),
        ),
        Claim(
            "eq-2.19-projector",
            "⟨C f_i|T_MP[C f_j − 1]⟩ = a_2 (δ_ij − 1/C) for one-hot outputs",
            lambda r: _corrects(r, "projector", "projector_expected", "a_2 (C δ_ij − 1), as (D.12) derives"),
            layerwise(equation="2.19, D.12", theorem="Proposition 2.5.3"),
        ),
        Claim(
            "eq-2.18-class-means",
            "class means obey μ_i·μ_j = ⟨f_i|T f_j⟩",
            _means,
            layerwise(equation="2.18, D.17"),
        ),
        Claim(
            "def-1-eigenspaces",
            "a_1|1⟩⟨1| + a_2 P has the eigenvalues a_1 + a_2, once, and a_2, C − 1 times, where the outputs span the "
            "constant",
            lambda r: equal(r["eigenvalues"], r["eigenvalues_printed"], _ROUNDING, note="the C + 1 largest"),
            layerwise(theorem="Definition 1", equation="2.8"),
        ),
        Claim(
            "prop-2.5-collapse",
            "an MP operator implies NC1 and NC2",
            lambda r: equal(r["collapse"], 0.0, _ROUNDING, note="NC1, (2.10), NC2 lengths, NC2 angles"),
            layerwise(equation="2.10, 2.11", theorem="Proposition 2.5.1, Proposition 2.5.2"),
        ),
        Claim(
            "eq-2.9-minimal",
            "an MP operator has κ = 0 and C effective features",
            _minimally,
            layerwise(equation="2.7–2.9", theorem="Definition 2"),
        ),
        Claim(
            "s4-linear-layers",
            "with fewer features than classes log tr(Σw Σb⁺) does not see linear layers, log(tr Σw/tr Σb) does",
            _unseen,
            spring_block(section="S4", figure="S14"),
            kind="derived",  # the source's networks have more: fig-1c-pinv-linear
        ),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    smoke={"draws": 12},
    paper={"draws": 200, "samples": 2000},
    model="FeatureDefinitions",
)
