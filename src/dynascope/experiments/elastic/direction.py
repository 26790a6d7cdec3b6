"""elastic (C.23), (C.24): One direction for all classes.

The problem is not convex; how good is the simple direction? f(ν) = min over k < l of |⟨m_k − m_l, ν⟩| vanishes where
two classes project to the same point. In the plane these K(K−1)/2 directions cut the half circle into as many arcs,
each with an order of the classes and a maximum of its own.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, corrected, equal
from dynascope.experiments.elastic.reference import power_law, solve_means
from dynascope.experiments.elastic.tables import by_row
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.measure.hyperplanes import separating_direction
from dynascope.statistics.errors import over_trials

_CLASSES = (3, 5, 7)
_COLLAPSED = (3, 4, 5, 7)
_COLLAPSE_DEPTH = 30.0  # −B/(K−1): what is left of random starts is of order exp(−30)
_TRIED = 500  # random directions beside the differences of means
_BELOW = elastic(place="below (C.23)")


@dataclass(frozen=True)
class Config:
    """Standard normal class means: in the plane searched angle by angle, in K dimensions by random directions."""

    planes: int = 6
    angles: int = 200_000
    draws: int = 40
    random_directions: int = 20_000
    pairs: int = 20_000
    lead_draws: int = 400
    seed: int = 23


def run(config: Config) -> xr.Dataset:
    """Draw class means, evaluate the objective everywhere or at random, and compare directions."""
    random = np.random.default_rng(config.seed)
    planes = [by_row("plane", [_plane(random, k, config) for _ in range(config.planes)]) for k in _CLASSES]
    drawn = [by_row("draw", [_drawn(random, k, config) for _ in range(config.draws)]) for k in _CLASSES]
    record = xr.merge([xr.concat(planes, "classes"), xr.concat(drawn, "classes"), _collapsed(random), _shown(random)])
    record["lead"] = (
        ("classes", "lead_draw"),
        [[_lead(random, k) for _ in range(config.lead_draws)] for k in _CLASSES],
    )
    return record.assign_coords(classes=list(_CLASSES), collapsed_classes=list(_COLLAPSED))


def _objective(means: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Evaluate f for each direction (…, feature): the least step between classes sorted by their projections."""
    return np.asarray(np.diff(np.sort(directions @ means.T, axis=-1), axis=-1).min(axis=-1))


def _circle(angles: int) -> np.ndarray:
    """Unit vectors of the half circle; f is the same on the other half."""
    turn = np.pi * np.arange(angles) / angles
    return np.stack([np.cos(turn), np.sin(turn)], axis=-1)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def _differences(means: np.ndarray) -> np.ndarray:
    """Differences of all pairs of class means, (pair, feature)."""
    return np.stack([a - b for a, b in combinations(means, 2)])


def _plane(random: np.random.Generator, classes: int, config: Config) -> dict[str, float]:
    """Count maxima over the angle, and find the largest of them, for means in the plane."""
    means = random.standard_normal((classes, 2))
    values = _objective(means, _circle(config.angles))
    peaks = values[(values > np.roll(values, 1)) & (values >= np.roll(values, -1))]
    return {
        "maxima": len(peaks),
        "grid_best": peaks.max(),
        "median_maximum": np.median(peaks) / peaks.max(),
        "plane_best": float(_objective(means, separating_direction(means))),
        "grid_bound": np.linalg.norm(_differences(means), axis=-1).max() * np.pi / config.angles,
    }


def _drawn(random: np.random.Generator, classes: int, config: Config) -> dict[str, float]:
    """Means in K dimensions: f at the best, at random and at simple directions; chords between random directions."""
    means = random.standard_normal((classes, classes))
    best, farthest = (_objective(means, separating_direction(means, method=name)) for name in ("best", "difference"))
    tried = _unit(random.standard_normal((config.random_directions, classes)))
    simple = _objective(means, _unit(_differences(means))) / best
    return {
        "best": float(best),
        "random_best": _objective(means, tried).max(),
        "ratio": float(farthest / best),
        "chord": _deepest_chord(random, means, config.pairs),
        "mean_pair_ratio": simple.mean(),
        "best_pair_ratio": simple.max(),
    }


def _lead(random: np.random.Generator, classes: int) -> float:
    """By which factor f at the difference of two means, chosen at random, exceeds f at a random direction; less 1."""
    means = random.standard_normal((classes, classes))
    tried = _objective(means, _unit(random.standard_normal((_TRIED, classes))))
    return float(_objective(means, _unit(_differences(means))).mean() / tried.mean() - 1)


def _deepest_chord(random: np.random.Generator, means: np.ndarray, pairs: int) -> float:
    """Least f((a + b)/2) − (f(a) + f(b))/2 over random unit a, b at less than a right angle, in units of the chord."""
    ends = _unit(random.standard_normal((2, pairs, means.shape[1])))
    ends = ends[:, np.sum(ends[0] * ends[1], axis=-1) > 0]
    chord = _objective(means, ends).mean(axis=0)
    return float(((_objective(means, ends.mean(axis=0)) - chord) / chord).min())


def _collapsed(random: np.random.Generator) -> xr.Dataset:
    """The ratio (C.24)/(C.23) for class means of the L-model after a long time with B → −∞, by a solver of (6)."""
    ratios = []
    for classes in _COLLAPSED:
        inter = -0.5 / (classes - 1)
        start = random.standard_normal((classes, classes)) + 2 * np.eye(classes)
        end = np.array([_COLLAPSE_DEPTH * (classes - 1) / -inter])
        means = solve_means(end, start, power_law(1.0), power_law(inter), "logits")[0]
        means /= np.abs(means).max()
        best = _objective(means, separating_direction(means))
        ratios.append(_objective(means, _unit(_differences(means))).max() / best)
    return xr.Dataset({"collapsed_ratio": ("collapsed_classes", ratios)})


def _shown(random: np.random.Generator) -> xr.Dataset:
    """One objective over the angle, five classes in the plane, with both directions."""
    means, found = random.standard_normal((5, 2)), {}
    for name, method in (("best", "best"), ("simple", "difference")):
        along = separating_direction(means, method=method)
        found[f"shown_{name}"] = float(np.degrees(np.arctan2(along[1], along[0])) % 180)
        found[f"shown_{name}_value"] = float(_objective(means, along))
    record = xr.Dataset({"objective": ("angle", _objective(means, _circle(2000))), **found})
    return record.assign_coords(angle=("angle", 180 * np.arange(2000) / 2000, {"units": "degrees"}))


def _maxima(record: xr.Dataset) -> Judgement:
    classes = record["classes"].values[:, None]
    note = (
        "K(K−1)/2 maxima up to sign in the plane; half of them are below "
        f"{float(record['median_maximum'].median()):.2f} of the best: a local solver needs many starts"
    )
    return corrected(record["maxima"].values, classes * (classes - 1) / 2, published=1.0, note=note)


def _concave(record: xr.Dataset) -> Judgement:
    note = "(midpoint − chord)/chord for directions at less than a right angle, K = 3, 5, 7; worst draw of each"
    return below(record["chord"].max("draw").values, 0.0, note=note)


def _global(record: xr.Dataset) -> Judgement:
    best, grid, bound = (record[name].values for name in ("plane_best", "grid_best", "grid_bound"))
    return equal(best, grid, bound, note="bound: a step of the grid times the longest difference of means")


def _unbeaten(record: xr.Dataset) -> Judgement:
    note = "best / best of random directions, least over draws; K = 3, 5, 7"
    return above((record["best"] / record["random_best"]).min("draw").values, 1.0, -1e-12, note=note)


def _decent(record: xr.Dataset) -> Judgement:
    described = "; ".join(
        f"K = {k}: a pair at random {each['mean_pair_ratio'].mean():.2f}, the farthest {each['ratio'].mean():.2f} "
        f"(least {each['ratio'].min():.2g}), the best {each['best_pair_ratio'].mean():.2f}"
        for k, each in record.groupby("classes")
    )
    note = (
        "the source says 'relatively decent' and no number. f at the difference of two means over f at a random "
        f"direction, less 1, standard normal means, K = 3, 5, 7. In units of the best f: {described}"
    )
    return above(over_trials(record["lead"].values), 0.0, note=note)


def _at_collapse(record: xr.Dataset) -> Judgement:
    best = (record["collapsed_classes"].values == 3).astype(float)
    note = "K = 3, 4, 5, 7, best pair, L-model with B → −∞: (e_k − e_l)/√2 puts all other classes at one point"
    return equal(record["collapsed_ratio"].values, best, 1e-6, note=note)


def _draw_objective(record: xr.Dataset, ax: Axes) -> None:
    """The objective over the angle for five classes in the plane, with both directions."""
    ax.plot(record["angle"], record["objective"], color=plots.PALETTE[0], linewidth=1)
    for name, label, marker in (("best", "(C.23), best", "*"), ("simple", "(C.24), farthest pair", "o")):
        ax.plot(record[f"shown_{name}"], record[f"shown_{name}_value"], marker, color=plots.PALETTE[1], label=label)
    ax.set(xlabel=plots.axis_label(record["angle"].rename("angle of the direction")))
    ax.set(ylabel="least distance of two projected class means")
    ax.set(title="Five classes in the plane: a maximum for each order")


def _draw_ratios(record: xr.Dataset, ax: Axes) -> None:
    """Histograms of (C.24)/(C.23)."""
    edges = np.linspace(0.0, 1.0, 21).tolist()
    for colour, classes in zip(plots.PALETTE, record["classes"].values, strict=False):
        ratio = record["ratio"].sel(classes=classes).values
        label = f"K = {classes}, mean {ratio.mean():.2f}"
        ax.hist(ratio, edges, histtype="step", linewidth=1.5, color=colour, label=label)
    ax.set(xlabel="what (C.24) reaches of (C.23)", ylabel="number of draws of class means")
    ax.set(title="Standard normal class means in K dimensions")


EXPERIMENT = Experiment(
    elastic("C.23, C.24"),
    Config(),
    run,
    claims=(
        Claim(
            "elastic-c23-maxima", "(C.23) is convex and easy to solve: there is one maximum up to sign", _maxima, _BELOW
        ),
        Claim(
            "elastic-c23-concave",
            "the objective of (C.23) is not concave: at the midpoint of two directions less than a right angle apart "
            "it falls below the chord",
            _concave,
            _BELOW,
            "derived",
        ),
        Claim(
            "elastic-c23-global",
            "in the plane the direction found for (C.23) reaches the largest value on a fine grid of angles",
            _global,
            elastic("C.23"),
            "derived",
        ),
        Claim(
            "elastic-c23-unbeaten",
            "in K dimensions no random direction beats the one found for (C.23)",
            _unbeaten,
            elastic("C.23"),
            "derived",
        ),
        Claim(
            "elastic-c24-ratio",
            "the difference of two class means separates all classes better than a random direction does",
            _decent,
            elastic("C.24"),
        ),
        Claim(
            "elastic-c24-collapse",
            "once means have collapsed, (C.24) is best for K = 3, and leaves K − 2 classes at one point for K > 3",
            _at_collapse,
            elastic("C.24", theorem="Proposition 3.4"),
            "derived",
        ),
    ),
    picture=Panels(_draw_objective, _draw_ratios, width=5.0, height=4.0),
    model="LocallyElastic",
    smoke={"planes": 2, "draws": 6, "random_directions": 5000, "pairs": 10_000},
    paper={"planes": 20, "angles": 1_000_000, "draws": 200, "random_directions": 50_000, "lead_draws": 4000},
)
