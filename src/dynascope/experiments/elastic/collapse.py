"""Proposition 3.4: when class means of the L-model turn into an equiangular tight frame, and when they do not.

The amplitudes c_k of the classes have a mean s, which grows as exp((A − B)/K); their differences grow slower, by
exp(B/(K−1)). Means therefore approach the frame as exp(B/(K−1)), which vanishes only if B → −∞. While B stays bounded
a class that starts on the wrong side of its direction, c_k < 0, may stay there for good.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.elastic.reference import SOLVER_ERROR, power_law, solve_means
from dynascope.experiments.registry import Experiment
from dynascope.measure.collapse import etf_distance
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import margin_amplitudes, margin_directions
from dynascope.models.elastic.strengths import PowerLaw
from dynascope.records import with_provenance

CLASSES = (3, 4, 7)
CASES = ("B → −∞", "B bounded", "A, B bounded")
STRONG, WEAK = 0.3, 2.0  # tail indices of strengths whose integrals grow without bound and stay bounded


@dataclass(frozen=True)
class Config:
    """Random starts for K = 3, 4, 7 with one class on its wrong side. Strengths −(K−1) β = `ratio` α at time 0."""

    starts: int = 8
    ratio: float = 0.5  # below 1, so that γ > 0 at all times
    depth: float = 14.0  # −B/(K−1) at the end, where B → −∞
    saves: int = 41
    seed: int = 34


SCALES = {"smoke": Config(starts=3, saves=21), "laptop": Config(), "paper": Config(starts=100, saves=201)}
RATE = Claim(
    "elastic-collapse-rate",
    "elastic, Proposition 3.4, made quantitative",
    "where B → −∞ and the classes' mean amplitude is positive, the distance from an ETF vanishes as exp(B/(K−1))",
)
PATH = Claim(
    "elastic-collapse-path", "elastic, Proposition 3.4", "the exact path has the distances that a solver of (6) shows"
)
BOUNDED = Claim(
    "elastic-collapse-bounded",
    "elastic, Proposition 3.4",
    "γ > 0 and B(t) < 0 from some time on suffice: the distance from an ETF tends to 0 (α not integrable)",
)
RIGHT_SIDE = Claim(
    "elastic-collapse-right-side",
    "elastic, Proposition 3.4",
    "while B stays bounded and A does not, classes that all start on their right side still form an ETF in the end",
)
STILL = Claim(
    "elastic-collapse-integrable",
    "elastic, Proposition 3.4",
    "γ > 0 and B(t) < 0 from some time on suffice: the distance from an ETF tends to 0 (α integrable)",
)
MIRRORED = Claim(
    "elastic-collapse-mirrored",
    "elastic, proof of Proposition 3.4",
    "the direction of each class mean tends to d_k: cosine +1, also where the mean amplitude starts negative",
)


def run(config: Config) -> xr.Dataset:
    """Follow random starts by the exact path and by a solver, in the three cases."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    found = [_follow_all(_starts(random, classes, config.starts), config) for classes in CLASSES]
    shown = found[0][1]
    record = xr.concat([each for each, _ in found], xr.DataArray(list(CLASSES), dims="classes", name="classes"))
    return with_provenance(
        record.merge(shown),
        "LocallyElastic",
        {},
        options=vars(config),
        seed=config.seed,
        precision="float64",
        wall_time=time.perf_counter() - begun,
    )


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
    end = (1 + config.depth * (classes - 1) * (1 - STRONG) / -inter) ** (1 / (1 - STRONG)) - 1
    times = np.expm1(np.linspace(0.0, np.log1p(end), config.saves))
    indices = ((STRONG, STRONG), (STRONG, WEAK), (WEAK, WEAK))  # of α and of β, in the three cases
    solved = np.stack([_solve(times, starts, inter, *pair) for pair in indices])
    exact = np.stack([_exact(times, starts, inter, *pair) for pair in indices])
    distance, of_path = (np.asarray(etf_distance(means)) for means in (solved, exact))  # (case, start, time)
    depth = -PowerLaw(inter, STRONG).integral(times) / (classes - 1)
    middle = int(np.searchsorted(depth, config.depth / 2))
    rows = {"end_distance": distance[..., -1], "end_path_distance": of_path[..., -1]}
    record = xr.Dataset({name: (("case", "start"), values) for name, values in rows.items()})
    record["largest_gap"] = ("case", np.abs(distance - of_path).max(axis=(1, 2)))
    right = _with_amplitudes(starts, np.abs(margin_amplitudes(starts)))
    rows = _fate(starts, inter, end) | {
        "right_distance": etf_distance(_solve(times[-1:], right, inter, STRONG, WEAK)[:, 0]),
        "right_bound": _fate(right, inter, end)["settled_bound"],
        "rate": -np.log(distance[0, :, -1] / distance[0, :, middle]) / (depth[-1] - depth[middle]),
        "rate_bound": _unevenness(starts) * np.exp(-depth[middle]) / (depth[-1] - depth[middle]),
        "mirrored_cosine": _own_cosine(_solve(times[-1:], -starts, inter, STRONG, STRONG)[:, 0]),
        "mirrored_bound": (_unevenness(starts) * np.exp(-depth[-1])) ** 2 + SOLVER_ERROR,
    }
    record = record.assign({name: ("start", values) for name, values in rows.items()})
    shown = xr.Dataset(
        {
            "mean": (("case", "time", "class", "feature"), solved[:, 0]),
            "distance": (("case", "time"), distance[:, 0]),
            "path_distance": (("case", "time"), of_path[:, 0]),
        },
        coords={"case": list(CASES), "time": ("time", times, {"units": "iterations × step size"})},
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
    return {"settled": settled, "settled_bound": 4 * (classes - 1) * contrast * -inter * (1 + end) ** (STRONG - WEAK)}


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


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge the Proposition where its hypothesis is strong enough, and where it is not."""
    forever, bounded, still = (record.isel(case=index) for index in range(len(CASES)))
    starts = f"K = 3, 4, 7, {record.sizes['start']} random starts each"
    return (
        RATE.equals(
            record["rate"].values, 1.0, record["rate_bound"].values,
            note=f"{starts}: −d log(distance)/d(−B/(K−1)); bound: next order. Distance at the end at most "
            f"{float(forever['end_distance'].max()):.2g}",
        ),
        PATH.equals(record["largest_gap"].values, 0.0, 10 * SOLVER_ERROR, note=f"{starts}, three cases, all times"),
        BOUNDED.corrects(
            bounded["end_distance"].values, record["settled"].values, record["settled_bound"].values, published=0.0,
            note=f"{starts}, α = (1+t)^−{STRONG:g}, β = −b (1+t)^−{WEAK:g}: B → −b, and the class that starts on its "
            "wrong side stays there. B → −∞ is needed. Bound: what is left to go",
        ),
        RIGHT_SIDE.equals(
            record["right_distance"].values, 0.0, record["right_bound"].values,
            note=f"{starts}; lengths of the means differ for good, directions do not",
        ),
        STILL.corrects(
            still["end_distance"].values, still["end_path_distance"].values, 10 * SOLVER_ERROR, published=0.0,
            note=f"{starts}, α, −β ∝ (1+t)^−{WEAK:g}: γ > 0 and B < 0, but nothing grows",
        ),
        MIRRORED.corrects(
            record["mirrored_cosine"].values, -1.0, record["mirrored_bound"].values, published=1.0,
            note="the same starts with opposite sign, B → −∞: −d_k also form an ETF (distance 0), but each class's own "
            "logit is the least. Right labels need a positive mean amplitude",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw triangles of unit class means turning over time, with B → −∞ and bounded, and distances from an ETF."""
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415 (computing never imports plotting)
    from matplotlib.colors import Normalize  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    from dynascope.plots import PALETTE, axis_label  # noqa: PLC0415

    figure = Figure(figsize=(14.0, 4.4), layout="constrained")
    colours = ScalarMappable(Normalize(0.0, float(np.log10(1 + record["time"][-1]))), "cividis")
    panels = []
    for index in (0, 1):
        ax = figure.add_subplot(1, 3, index + 1, projection="3d")
        _draw_triangles(ax, record.isel(case=index), colours)
        ax.set_title(f"{record['case'].values[index]}: {('an ETF', 'never an ETF')[index]}")
        panels.append(ax)
    figure.colorbar(colours, ax=panels, label="log₁₀(1 + time)", shrink=0.7)
    ax = figure.add_subplot(1, 3, 3)
    for colour, case in zip(PALETTE, record["case"].values, strict=False):
        chosen = record.sel(case=case)
        ax.loglog(1 + record["time"], chosen["distance"], "o", color=colour, markersize=3, label=f"{case}, solver")
        ax.loglog(1 + record["time"], chosen["path_distance"], color=colour, linewidth=1)
    settled = float(record["settled"].isel(classes=0, start=0))
    ax.axhline(
        settled, color="black", linewidth=0.8, linestyle=":", label=f"one class on the wrong side: {settled:.3f}"
    )
    ax.set_xlabel(f"1 + {axis_label(record['time'])}")
    ax.set_ylabel("distance from an ETF (line: exact path)")
    ax.legend(frameon=False, fontsize="small")
    return figure


def _draw_triangles(ax: Any, chosen: xr.Dataset, colours: Any) -> None:
    """Unit vectors along three class means, joined, coloured by time; the frame d_k dashed."""
    directions = chosen["mean"].values / np.linalg.norm(chosen["mean"].values, axis=-1, keepdims=True)
    frame = margin_directions(3, 3) / np.linalg.norm(margin_directions(3, 3)[0])
    for when, corners in zip(np.log10(1 + chosen["time"].values), directions, strict=True):
        ax.plot(*np.vstack([corners, corners[:1]]).T, color=colours.to_rgba(when), linewidth=1)
    ax.plot(*np.vstack([frame, frame[:1]]).T, "k--", linewidth=1.5, label="frame of d_k")
    for name, corner in enumerate(directions[-1]):
        ax.text(*(1.15 * corner), f"class {name}", horizontalalignment="center")
    for axis, feature in zip("xyz", range(3), strict=True):
        ax.set(**{f"{axis}label": f"feature {feature}", f"{axis}lim": (-1, 1), f"{axis}ticks": [-1, 0, 1]})
    ax.set_box_aspect(None, zoom=0.85)
    ax.view_init(elev=28, azim=30)  # nearly along (1, 1, 1), which the frame is orthogonal to
    ax.legend(frameon=False, fontsize="small")


EXPERIMENT = Experiment(
    title="When class means turn into an equiangular tight frame",
    source="elastic, Proposition 3.4 and Figure D.10",
    kind="equation",
    claims=(RATE, PATH, BOUNDED, RIGHT_SIDE, STILL, MIRRORED),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
