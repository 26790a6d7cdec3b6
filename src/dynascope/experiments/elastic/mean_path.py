"""elastic (7), (9), (C.11): Class means over time.

Propositions 3.2 and 3.3 against a solver; where the printed (9) and (C.11) stop holding.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, corrected, equal
from dynascope.experiments.elastic.reference import SOLVER_ERROR, Law, looped_drift, power_law, solve_means
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.difference import relative_difference
from dynascope.models.elastic.geometry import margin_directions
from dynascope.models.elastic.strengths import PowerLaw

_ISOTROPIC = ((2, 1), (3, 3), (5, 2), (7, 7))  # (classes, features)
_LOGITS = ((3, 3), (4, 4), (7, 7), (3, 5), (4, 6), (7, 9))
_CLASSES = (3, 4, 7)
_INTRA_INDEX = 0.5  # of α = (1 + t)^−½ where (9) is examined
_AT_WORST = ("at_worst_solved", "at_worst_exact", "at_worst_fitted", "scale")
_EQ_9 = elastic("9", theorem="Proposition 3.3")


@dataclass(frozen=True)
class Config:
    """Random strengths and starts for each shape; (9) at tail indices of β = b (1 + t)^−r, r = ½ a constant ratio."""

    draws: int = 6
    duration: float = 8.0
    inter: float = 0.4
    inter_indices: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
    saves: int = 41
    seed: int = 32


def run(config: Config) -> xr.Dataset:
    """Solve (6) numerically for random strengths and starts, and note what the closed forms say."""
    random = np.random.default_rng(config.seed)
    times = np.linspace(0.0, config.duration, config.saves)
    record = xr.Dataset(coords={"time": ("time", times, {"units": "iterations × step size"})})
    for geometry, shapes in (("isotropic", _ISOTROPIC), ("logits", _LOGITS)):
        worst = [[_random_error(random, times, geometry, *shape) for _ in range(config.draws)] for shape in shapes]
        record[f"{geometry}_error"] = ((f"{geometry}_shape", "draw"), worst)
        names = [f"K={classes}, p={features}" for classes, features in shapes]
        record = record.assign_coords({f"{geometry}_shape": names})
    for name, shape in (("binary", (2, 1)), ("constant", (4, 3))):
        record[f"{name}_missed"] = ("draw", [_constant_missed(random, times, *shape) for _ in range(config.draws)])
    record["difference"] = (("case", "norm"), _differences(random))
    return xr.merge([record, _examine_printed(random, times, config), _examine_offset(random, times)])


def _random_error(random: np.random.Generator, times: np.ndarray, geometry: str, classes: int, features: int) -> float:
    """Largest distance between closed form and solver, in units of the path's largest entry."""
    (intra, plain_intra), (inter, plain_inter) = _random_strength(random), _random_strength(random)
    start = random.standard_normal((classes, features))
    path = LocallyElastic(classes, features, intra, inter, geometry).mean_path(times, start)
    solved = solve_means(times, start, plain_intra, plain_inter, geometry)
    return float(np.abs(path - solved).max() / np.abs(solved).max())


def _constant_missed(random: np.random.Generator, times: np.ndarray, classes: int, features: int) -> float:
    """Largest distance of c exp(λ₀ t) + c₀ exp(λ₁ t), constant strengths, from a solver; relative."""
    intra, inter = random.uniform(-1.0, 1.5, 2)
    start = random.standard_normal((classes, features))
    shared = start.mean(axis=0)
    apart_rate, shared_rate = (intra - inter) / classes, (intra + (classes - 1) * inter) / classes
    at = times[:, None, None]
    stated = (start - shared) * np.exp(apart_rate * at) + shared * np.exp(shared_rate * at)
    solved = solve_means(times, start, power_law(intra), power_law(inter), "isotropic")
    return float(np.abs(stated - solved).max() / np.abs(solved).max())


def _differences(random: np.random.Generator) -> np.ndarray:
    """(D.21), along the margins and plain: least and largest of random class means, of opposite, of equal ones."""
    one, other = random.standard_normal((2, 500, 3, 3)) * random.uniform(0.1, 10.0, (2, 500, 1, 1))
    frame = margin_directions(3, 3)[None]
    rows = []
    for norm in ("logits", "isotropic"):
        found = relative_difference(one, other, norm)
        ends = [float(relative_difference(frame, sign * frame, norm).max()) for sign in (-1, 1)]
        rows.append([float(found.min()), float(found.max()), *ends])
    return np.array(rows).T


def _random_strength(random: np.random.Generator) -> tuple[PowerLaw | Law, Law]:
    """A power law or a wave, as the model takes it and as a bare function."""
    size, rate, kind = random.uniform(-1.5, 2.0), random.uniform(0.2, 1.5), random.integers(2)
    if kind == 0:
        return PowerLaw(size, rate), power_law(size, rate)
    height = random.uniform(0.2, 1.0)

    def wave(at: float) -> float:
        return float(size + height * np.cos(rate * at))

    return wave, wave


def _examine_printed(random: np.random.Generator, times: np.ndarray, config: Config) -> xr.Dataset:
    """Class means by solver, by the exact path and by (9), where β decays unlike α."""
    found, shown = [], {}
    for classes in _CLASSES:
        start = random.standard_normal((classes, classes))
        for index in config.inter_indices:
            intra, inter = PowerLaw(1.0, _INTRA_INDEX), PowerLaw(config.inter, index)
            solved = solve_means(times, start, power_law(1.0, _INTRA_INDEX), power_law(config.inter, index), "logits")
            exact = LocallyElastic(classes, classes, intra, inter, "logits").mean_path(times, start)
            growths = _growths(classes, intra.integral(times), inter.integral(times))
            own, other = looped_drift(classes, classes, "logits")
            rates = [0.0, (1 - config.inter) / classes, (1 + config.inter / (classes - 1)) / classes]
            eigen = _printed_path(growths, start, own + config.inter * other, rates)
            fitted = _fitted_path(growths, solved)
            found.append([*_compare(solved, exact, fitted), float(np.abs(eigen - solved).max() / np.abs(solved).max())])
            if classes == _CLASSES[0] and index == config.inter_indices[-1]:
                shown = {"solved": solved, "exact": exact, "printed": eigen}
    names = (*_AT_WORST, "eigenvector_error")
    grid = np.reshape(found, (len(_CLASSES), len(config.inter_indices), len(names)))
    record = xr.Dataset({name: (("classes", "inter_index"), grid[..., i]) for i, name in enumerate(names)})
    record = record.assign({name: (("time", "class", "feature"), path) for name, path in shown.items()})
    return record.assign_coords(classes=list(_CLASSES), inter_index=list(config.inter_indices))


def _growths(classes: int, within: np.ndarray, between: np.ndarray) -> np.ndarray:
    """The three functions of time in (9): 1, exp((A − B)/K) and exp((A + B/(K−1))/K), (time, 3)."""
    exponents = [0 * within, (within - between) / classes, (within + between / (classes - 1)) / classes]
    return np.asarray(np.exp(np.stack(exponents, axis=1)))


def _printed_path(growths: np.ndarray, start: np.ndarray, drift: np.ndarray, eigenvalues: list[float]) -> np.ndarray:
    """(9) with the eigenvectors of the drift at time 0, whose eigenvalues sort the start into the three terms."""
    values, vectors = np.linalg.eig(drift)
    pieces = vectors * np.linalg.solve(vectors, start.ravel())  # they add up to the start
    parts = [pieces[:, np.abs(values - each) < 1e-6].sum(axis=1).real for each in eigenvalues]
    return np.asarray(growths @ np.stack(parts)).reshape(-1, *start.shape)


def _fitted_path(growths: np.ndarray, solved: np.ndarray) -> np.ndarray:
    """(9) with the three fixed vectors that fit the true path best: no choice of f_l does better."""
    flat = solved.reshape(len(solved), -1)
    return np.asarray(growths @ np.linalg.lstsq(growths, flat)[0]).reshape(solved.shape)


def _compare(solved: np.ndarray, exact: np.ndarray, printed: np.ndarray) -> list[float]:
    """The three values where the printed form is farthest off, and the size of the path."""
    place = np.unravel_index(np.argmax(np.abs(printed - solved)), solved.shape)
    return [float(solved[place]), float(exact[place]), float(printed[place]), float(np.abs(solved).max())]


def _examine_offset(random: np.random.Generator, times: np.ndarray) -> xr.Dataset:
    """(C.11) for a random symmetric positive H of two features: solver, exact path, printed sum at three times."""
    classes, features, intra, inter = 3, 2, 0.8, 0.3
    root = random.standard_normal((6, 6))
    geometry, start = root @ root.T / 6, random.standard_normal((classes, features))
    blocks = geometry.reshape(classes, features, classes, features).swapaxes(1, 2)
    chosen = times[[0, len(times) // 4, len(times) // 2]]
    solved = solve_means(chosen, start, lambda _: intra, lambda _: inter, geometry)
    exact = LocallyElastic(classes, features, intra, inter, blocks).mean_path(chosen, start)
    place = int(np.argmax(np.abs(start)))
    found = {"offset_solved": solved.reshape(3, -1)[:, place], "offset_exact": exact.reshape(3, -1)[:, place]}
    own, other = looped_drift(classes, features, geometry)
    rates, vectors = np.linalg.eigh(intra * own + inter * other)
    terms = vectors * (vectors.T @ start.ravel())  # c_i u_i
    found |= {"offset_printed": (start.ravel() + np.exp(np.outer(chosen, rates)) @ terms.T)[:, place]}
    record = xr.Dataset({name: ("chosen_time", values) for name, values in found.items()})
    return record.assign_coords(chosen_time=chosen)


def _close(record: xr.Dataset, geometry: str) -> Judgement:
    shapes = "; ".join(record[f"{geometry}_shape"].values.tolist())
    units = "in units of the path's largest entry"
    note = f"largest error over {record.sizes['draw']} random strengths each, {units}: {shapes}"
    return equal(record[f"{geometry}_error"].max("draw").values, 0.0, SOLVER_ERROR, note=note)


def _fitted_error(record: xr.Dataset) -> xr.DataArray:
    """Largest error of (9) with the best fixed vectors, in units of the path's largest entry."""
    return abs(record["at_worst_fitted"] - record["at_worst_solved"]) / record["scale"]


def _ranges(record: xr.Dataset) -> Judgement:
    least, largest, opposite, same = record["difference"].transpose("case", "norm").values
    note = "0 for equal and 2 for opposite class means along the margins, both norms; random ones in between"
    inside = [float(np.clip(each, 0.0, 2.0).sum() - each.sum()) for each in (least, largest)]
    return equal([*opposite, *same, *inside], [2.0, 2.0, 0.0, 0.0, 0.0, 0.0], 1e-12, note=note)


def _varying_ratio(record: xr.Dataset) -> Judgement:
    apart = record.where(record["inter_index"] != _INTRA_INDEX, drop=True)
    solved, exact, printed, scale = (apart[name].values for name in _AT_WORST)
    best, first = (
        f"{float(error.min()):.2g} to {float(error.max()):.2g}"
        for error in (_fitted_error(apart), apart["eigenvector_error"])
    )
    note = (
        "printed: the fixed vectors that fit best, where they are farthest off, by "
        f"{best} of the path's largest entry; with f_l of time 0 by {first}. "
        "f_l depends on β/α: drifts of two times do not commute"
    )
    return corrected(solved, exact, SOLVER_ERROR * scale, published=printed.ravel(), note=note)


def _counted_twice(record: xr.Dataset) -> Judgement:
    solved, exact, printed = (record[f"offset_{name}"].values for name in ("solved", "exact", "printed"))
    note = "X̄(0) is counted twice: at t = 0 the printed sum is 2 X̄(0). Random symmetric positive H"
    return corrected(solved, exact, SOLVER_ERROR * np.abs(solved), published=printed, note=note)


def _draw_path(record: xr.Dataset, ax: Axes) -> None:
    """One class's path by solver, exact form and (9)."""
    for colour, feature in zip(plots.PALETTE, range(record.sizes["feature"]), strict=False):
        chosen = record.isel({"class": 0, "feature": feature})
        ax.plot(record["time"], chosen["solved"], "o", color=colour, markersize=3, label=f"solver, feature {feature}")
        ax.plot(record["time"], chosen["exact"], color=colour, linewidth=1)
        ax.plot(record["time"], chosen["printed"], color=colour, linewidth=1, linestyle="--")
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel="class mean (line: exact, dashed: (9))")
    index = float(record["inter_index"][-1])
    ax.set_title(f"Mean of class 0 where α ∝ (1+t)^−{_INTRA_INDEX:g}, β ∝ (1+t)^−{index:g}")


def _draw_errors(record: xr.Dataset, ax: Axes) -> None:
    """The error of (9) over the tail index of β."""
    fitted = _fitted_error(record)
    for colour, classes in zip(plots.PALETTE, record["classes"].values, strict=False):
        first = record["eigenvector_error"].sel(classes=classes)
        ax.semilogy(record["inter_index"], first, "o-", color=colour, label=f"K = {classes}")
        ax.semilogy(record["inter_index"], fitted.sel(classes=classes), "o:", color=colour, markerfacecolor="white")
    ax.set_title(f"Error of (9): none where β/α is constant (index {_INTRA_INDEX:g})")
    ax.set_xlabel("tail index of β")
    ax.set_ylabel("largest error / largest entry\n(full: f_l of time 0, open: best f_l)")


EXPERIMENT = Experiment(
    elastic("7, 9, C.11"),
    Config(),
    run,
    claims=(
        Claim(
            "elastic-i-model-path",
            "isotropic class means follow (7) for any K, p, α(t), β(t)",
            partial(_close, geometry="isotropic"),
            elastic("7", theorem="Proposition 3.2"),
        ),
        Claim(
            "eq3-solution",
            "two classes in one dimension are (c₁ ∓ c₂)/2 times exp((α ∓ β) t/2), added and subtracted",
            lambda r: equal(r["binary_missed"], 0.0, SOLVER_ERROR, note="random α, β and starts, relative"),
            elastic("3"),
        ),
        Claim(
            "elastic-c5-constant",
            "isotropic class means are c exp(λ₀ t) + c₀ exp(λ₁ t) with constant strengths",
            lambda r: equal(r["constant_missed"], 0.0, SOLVER_ERROR, note="K = 4, p = 3, relative"),
            elastic("C.5"),
        ),
        Claim(
            "elastic-l-model-path",
            "logit class means are known exactly for K = 3, 4, 7, p ≥ K and any α(t), β(t): two growths and one "
            "quadrature",
            partial(_close, geometry="logits"),
            elastic("6, 8", theorem="Proposition 3.3"),
            "derived",
        ),
        Claim(
            "elastic-l-model-constant-ratio",
            "(9) with the eigenvectors f_l of the drift solves the L-model while β/α is constant",
            lambda r: equal(
                r["eigenvector_error"].sel(inter_index=_INTRA_INDEX), 0.0, SOLVER_ERROR, note="K = 3, 4, 7, as above"
            ),
            _EQ_9,
            "derived",
        ),
        Claim(
            "elastic-l-model-varying-ratio",
            "(9) with fixed vectors f_l solves the L-model for any α(t), β(t)",
            _varying_ratio,
            _EQ_9,
        ),
        Claim("d21-range", "RD ranges from 0 to 2", _ranges, elastic("D.21")),
        Claim(
            "elastic-c11-offset",
            "X̄(t) = X̄(0) + Σ c_i u_i exp(μ_i t) with X̄(0) = Σ c_i u_i",
            _counted_twice,
            elastic("C.11"),
        ),
    ),
    picture=Panels(_draw_path, _draw_errors, width=5.0, height=4.0),
    model="LocallyElastic",
    smoke={"draws": 2, "inter_indices": (0.0, 0.5, 1.0), "saves": 21},
    paper={"draws": 50, "saves": 101},
)
