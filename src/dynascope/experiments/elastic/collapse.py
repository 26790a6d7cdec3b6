"""elastic Figure D.10, Proposition 3.4: When class means turn into an equiangular tight frame.

And when they do not.

The amplitudes c_k of the classes have a mean s, which grows as exp((A − B)/K); their differences grow slower, by
exp(B/(K−1)). Means therefore approach the frame as exp(B/(K−1)), which vanishes only if B → −∞. While B stays bounded
a class that starts on the wrong side of its direction, c_k < 0, may stay there for good.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, corrected, equal
from dynascope.experiments.elastic.reference import SOLVER_ERROR, power_law, solve_means
from dynascope.experiments.experiment import Axes, Experiment, Figure
from dynascope.experiments.sources import elastic
from dynascope.measure.collapse import etf_distance, simplex_etf
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import margin_amplitudes, margin_directions
from dynascope.models.elastic.strengths import PowerLaw

_CLASSES = (3, 4, 7)
_CASES = ("B → −∞", "B bounded", "A, B bounded")
_STRONG, _WEAK = 0.3, 2.0  # tail indices of strengths whose integrals grow without bound and stay bounded
_PROPOSITION = elastic(theorem="Proposition 3.4")


@dataclass(frozen=True)
class Config:
    """Random starts for K = 3, 4, 7 with one class on its wrong side. Strengths −(K−1) β = `ratio` α at time 0."""

    starts: int = 8
    ratio: float = 0.5  # below 1, so that γ > 0 at all times
    depth: float = 14.0  # −B/(K−1) at the end, where B → −∞
    saves: int = 41
    seed: int = 34


def run(config: Config) -> xr.Dataset:
    """Follow random starts by the exact path and by a solver, in the three cases."""
    random = np.random.default_rng(config.seed)
    found = [_follow_all(_starts(random, classes, config.starts), config) for classes in _CLASSES]
    record = xr.concat([each for each, _ in found], xr.DataArray(list(_CLASSES), dims="classes", name="classes"))
    frames = [_frame(classes, config.seed) for classes in _CLASSES]
    return record.merge(found[0][1]).assign(frame_missed=("classes", frames))


def _frame(classes: int, seed: int) -> float:
    """How far the vectors of (10), in two dimensions more than classes, are from unit length and angles all alike."""
    frame = simplex_etf(classes, classes + 2, seed=seed)
    alike = np.where(np.eye(classes) == 1, 1.0, -1 / (classes - 1))
    return float(np.abs(frame @ frame.T - alike).max())


def _starts(random: np.random.Generator, classes: int, number: int) -> np.ndarray:
    """Random means whose amplitudes c_k are 1 to 2 but −½ to −1 for the first class: their mean s is positive."""
    means = random.standard_normal((number, classes, classes))
    wanted = random.uniform(1.0, 2.0, (number, classes))
    wanted[:, 0] = random.uniform(-1.0, -0.5, number)
    return _with_amplitudes(means, wanted)


def _with_amplitudes(means: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    change = wanted - margin_amplitudes(means)
    return np.asarray(means + change[..., None] * margin_directions(*means.shape[-2:]))


def _follow_all(starts: np.ndarray, config: Config) -> tuple[xr.Dataset, xr.Dataset]:
    """Numbers for each (case, start) at the end, and the first start's means and distances over time."""
    classes = starts.shape[-1]
    inter = -config.ratio / (classes - 1)
    end = (1 + config.depth * (classes - 1) * (1 - _STRONG) / -inter) ** (1 / (1 - _STRONG)) - 1
    times = np.expm1(np.linspace(0.0, np.log1p(end), config.saves))
    indices = ((_STRONG, _STRONG), (_STRONG, _WEAK), (_WEAK, _WEAK))  # of α and of β, in the three cases
    solved = np.stack([_solve(times, starts, inter, *pair) for pair in indices])
    exact = np.stack([_exact(times, starts, inter, *pair) for pair in indices])
    distance, of_path = (np.asarray(etf_distance(means)) for means in (solved, exact))  # (case, start, time)
    depth = -PowerLaw(inter, _STRONG).integral(times) / (classes - 1)
    middle = int(np.searchsorted(depth, config.depth / 2))
    ends = {"end_distance": distance[..., -1], "end_path_distance": of_path[..., -1]}
    record = xr.Dataset({name: (("case", "start"), values) for name, values in ends.items()})
    record["largest_gap"] = ("case", np.abs(distance - of_path).max(axis=(1, 2)))
    right = _with_amplitudes(starts, np.abs(margin_amplitudes(starts)))
    rows = _fate(starts, inter, end) | {
        "right_distance": etf_distance(_solve(times[-1:], right, inter, _STRONG, _WEAK)[:, 0]),
        "right_bound": _fate(right, inter, end)["settled_bound"],
        "rate": -np.log(distance[0, :, -1] / distance[0, :, middle]) / (depth[-1] - depth[middle]),
        "rate_bound": _unevenness(starts) * np.exp(-depth[middle]) / (depth[-1] - depth[middle]),
        "mirrored_cosine": _own_cosine(_solve(times[-1:], -starts, inter, _STRONG, _STRONG)[:, 0]),
        "mirrored_bound": (_unevenness(starts) * np.exp(-depth[-1])) ** 2 + SOLVER_ERROR,
    }
    record = record.assign({name: ("start", values) for name, values in rows.items()})
    shown = xr.Dataset(
        {
            "mean": (("case", "time", "class", "feature"), solved[:, 0]),
            "distance": (("case", "time"), distance[:, 0]),
            "path_distance": (("case", "time"), of_path[:, 0]),
        },
        coords={"case": list(_CASES), "time": ("time", times, {"units": "iterations × step size"})},
    )
    return record, shown


def _solve(times: np.ndarray, starts: np.ndarray, inter: float, intra_index: float, inter_index: float) -> np.ndarray:
    return solve_means(times, starts, power_law(1.0, intra_index), power_law(inter, inter_index), "logits")


def _exact(times: np.ndarray, starts: np.ndarray, inter: float, intra_index: float, inter_index: float) -> np.ndarray:
    classes = starts.shape[-1]
    model = LocallyElastic(classes, classes, PowerLaw(1.0, intra_index), PowerLaw(inter, inter_index), "logits")
    return model.mean_path(times, starts)


def _fate(starts: np.ndarray, inter: float, end: float) -> dict[str, np.ndarray]:
    """Distance at which means settle while B stays bounded and A does not, and what is missing at time `end`.

    Amplitudes settle at multiples of s exp(−B/K) + (c_k − s) exp(B/(K(K−1))), B(∞) = `inter`; directions at ±d_k. If m
    classes are on the wrong side 2m(K−m) of K(K−1) cosines are 1/(K−1) instead of −1/(K−1). Other classes push a mean
    off its direction by (K−1) |β/α| times the ratio of amplitudes; a distance is at most four such angles away.
    """
    classes = starts.shape[-1]
    amplitude = margin_amplitudes(starts)
    centre = amplitude.mean(axis=-1, keepdims=True)
    last = centre * np.exp(-inter / classes) + (amplitude - centre) * np.exp(inter / (classes * (classes - 1)))
    wrong = (last < 0).sum(axis=-1)
    settled = 2 / (classes - 1) * np.sqrt(2 * wrong * (classes - wrong) / (classes * (classes - 1)))
    contrast = np.abs(last).max(axis=-1) / np.abs(last).min(axis=-1)
    return {"settled": settled, "settled_bound": 4 * (classes - 1) * contrast * -inter * (1 + end) ** (_STRONG - _WEAK)}


def _unevenness(starts: np.ndarray) -> np.ndarray:
    """How much the classes' amplitudes differ, in units of their mean, summed over classes: the size of corrections."""
    amplitude = margin_amplitudes(starts)
    centre = amplitude.mean(axis=-1, keepdims=True)
    return np.asarray((np.abs(amplitude - centre) / centre).sum(axis=-1))


def _own_cosine(means: np.ndarray) -> np.ndarray:
    """Largest cosine between a class mean and its own direction d_k, (start,)."""
    directions = margin_directions(*means.shape[-2:])
    lengths = np.linalg.norm(means, axis=-1) * np.linalg.norm(directions[0])
    return np.asarray((np.einsum("skp,kp->sk", means, directions) / lengths).max(axis=-1))


def _started(record: xr.Dataset) -> str:
    return f"K = 3, 4, 7, {record.sizes['start']} random starts each"


def _vanishes(record: xr.Dataset) -> Judgement:
    end = float(record["end_distance"].isel(case=0).max())
    note = f"−d log(distance)/d(−B/(K−1)); bound: next order. Distance at the end at most {end:.2g}"
    return equal(record["rate"].values, 1.0, record["rate_bound"].values, note=f"{_started(record)}: {note}")


def _bounded(record: xr.Dataset) -> Judgement:
    end, settled, bound = record["end_distance"].isel(case=1), record["settled"], record["settled_bound"]
    note = (
        f"{_started(record)}, α = (1+t)^−{_STRONG:g}, β = −b (1+t)^−{_WEAK:g}: B → −b, and the class that starts "
        "on its wrong side stays there. B → −∞ is needed. Bound: what is left to go"
    )
    return corrected(end.values, settled.values, bound.values, published=0.0, note=note)


def _right_side(record: xr.Dataset) -> Judgement:
    note = f"{_started(record)}; lengths of the means differ for good, directions do not"
    return equal(record["right_distance"].values, 0.0, record["right_bound"].values, note=note)


def _still(record: xr.Dataset) -> Judgement:
    end, path = (record[name].isel(case=2).values for name in ("end_distance", "end_path_distance"))
    note = f"{_started(record)}, α, −β ∝ (1+t)^−{_WEAK:g}: γ > 0 and B < 0, but nothing grows"
    return corrected(end, path, 10 * SOLVER_ERROR, published=0.0, note=note)


def _mirrored(record: xr.Dataset) -> Judgement:
    note = (
        "the same starts with opposite sign, B → −∞: −d_k also form an ETF (distance 0), but each class's own "
        "logit is the least. Right labels need a positive mean amplitude"
    )
    return corrected(record["mirrored_cosine"].values, -1.0, record["mirrored_bound"].values, published=1.0, note=note)


def _draw(record: xr.Dataset) -> Figure:
    """Triangles of unit class means turning over time, with B → −∞ and bounded, and distances from an ETF."""
    figure, axes = plots.new_figure(columns=3, width=14.0 / 3, height=4.4)
    solid = []
    for index, fate in enumerate(("an ETF", "never an ETF")):
        axes[0, index].remove()
        solid.append(figure.add_subplot(1, 3, index + 1, projection="3d"))
        colours = plots.plot_triangles(record["mean"].isel(case=index), solid[-1])
        solid[-1].set_title(f"{record['case'].values[index]}: {fate}")
    figure.colorbar(colours, ax=solid, label="log₁₀(1 + time)", shrink=0.7)
    _draw_distances(record, axes[0, 2])
    return figure


def _draw_distances(record: xr.Dataset, ax: Axes) -> None:
    for colour, case in zip(plots.PALETTE, record["case"].values, strict=False):
        chosen = record.sel(case=case)
        ax.loglog(1 + record["time"], chosen["distance"], "o", color=colour, markersize=3, label=f"{case}, solver")
        ax.loglog(1 + record["time"], chosen["path_distance"], color=colour, linewidth=1)
    settled = float(record["settled"].isel(classes=0, start=0))
    label = f"one class on the wrong side: {settled:.3f}"
    ax.axhline(settled, color="black", linewidth=0.8, linestyle=":", label=label)
    ax.set(xlabel=f"1 + {plots.axis_label(record['time'])}", ylabel="distance from an ETF (line: exact path)")
    ax.legend(frameon=False, fontsize="small")


EXPERIMENT = Experiment(
    elastic(figure="D.10", theorem="Proposition 3.4"),
    Config(),
    run,
    kind="equation",
    claims=(
        Claim(
            "eq10-frame",
            "the columns of (10) have length 1 and cosines −1/(K−1)",
            lambda r: equal(r["frame_missed"], 0.0, 1e-12, note="K = 3, 4, 7 in K + 2 dimensions, random Q"),
            elastic("10"),
        ),
        Claim(
            "elastic-collapse-rate",
            "where B → −∞ and the classes' mean amplitude is positive, the distance from an ETF vanishes as "
            "exp(B/(K−1))",
            _vanishes,
            _PROPOSITION,
            "derived",
        ),
        Claim(
            "elastic-collapse-path",
            "the exact path has the distances that a solver of (6) shows",
            lambda r: equal(r["largest_gap"], 0.0, 10 * SOLVER_ERROR, note=f"{_started(r)}, three cases, all times"),
            _PROPOSITION,
            "derived",
        ),
        Claim(
            "elastic-collapse-bounded",
            "γ > 0 and B(t) < 0 from some time on suffice: the distance from an ETF tends to 0 (α not integrable)",
            _bounded,
            _PROPOSITION,
        ),
        Claim(
            "elastic-collapse-right-side",
            "while B stays bounded and A does not, classes that all start on their right side still form an ETF in "
            "the end",
            _right_side,
            _PROPOSITION,
            "derived",
        ),
        Claim(
            "elastic-collapse-integrable",
            "γ > 0 and B(t) < 0 from some time on suffice: the distance from an ETF tends to 0 (α integrable)",
            _still,
            _PROPOSITION,
            "derived",  # one sentence, which counts once
        ),
        Claim(
            "elastic-collapse-mirrored",
            "the direction of each class mean tends to d_k: cosine +1, also where the mean amplitude starts negative",
            _mirrored,
            elastic(theorem="Proposition 3.4", place="proof"),
        ),
    ),
    picture=_draw,
    model="LocallyElastic",
    smoke={"starts": 3, "saves": 21},
    paper={"starts": 100, "saves": 201},
)
