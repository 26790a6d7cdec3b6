"""elastic (11), (D.6), (D.9)–(D.19): Estimators on planted strengths.

As printed, and without unknown offsets.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, corrected, equal
from dynascope.experiments.elastic.planted import (
    COVERED,
    coverage,
    late_growth,
    order_of_tails,
    tail_bias,
    tail_of_strength,
)
from dynascope.experiments.elastic.tables import by_row
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.models.elastic.geometry import (
    drift_matrix,
    geometry_blocks,
    margin_amplitudes,
    margin_directions,
    sampling_matrix,
)
from dynascope.models.elastic.strengths import PowerLaw
from dynascope.statistics.errors import Estimate

_V1 = np.array([1, -1, -1, -1, 1, -1, -2, -2, 0]) / 4  # (D.2)
_V2 = np.array([2, -1, -1, -1, 2, -1, 0, 0, 0]) / 3
_W = _V2 - 4 / 3 * _V1
_SOLVER = 1e-6  # of the ODE solver and the rounding of logarithms after a growth of up to e^70
_SETTLED = 0.05  # at most so much is left of what dies out, late in a path


@dataclass(frozen=True)
class Config:
    """Random power laws and starts, solved as an ODE; `seeds` noisy sets of `trials` paths for the intervals."""

    cases: int = 12
    points: int = 91
    duration: float = 1000.0
    seeds: int = 200
    trials: int = 40
    noise: float = 0.1
    seed: int = 16


def run(config: Config) -> xr.Dataset:
    """Estimate on planted paths and note the errors beside what the algebra predicts."""
    random = np.random.default_rng(config.seed)
    cases, shown = zip(*(_logit_case(config, random) for _ in range(config.cases)), strict=True)
    record = by_row("case", cases).merge(shown[0])
    record = record.merge(by_row("case", [_isotropic_case(config, random) for _ in range(config.cases)]))
    record = record.merge(by_row("case", [_ordered_case(config, random) for _ in range(config.cases)]))
    record["coverage"] = ("quantity", coverage(config.seeds, config.trials, config.noise, config.seed))
    return record.assign_coords(quantity=list(COVERED)).assign(seeds=config.seeds)


def _times(config: Config) -> np.ndarray:
    return np.concatenate([[0.0], np.geomspace(0.05, config.duration, config.points - 1)])


def _solved(times: np.ndarray, start: np.ndarray, intra: PowerLaw, inter: PowerLaw, geometry: str) -> np.ndarray:
    """Class means by an ODE solver on the assembled drift: no closed form enters."""
    classes = len(start)
    blocks, sampling = geometry_blocks(geometry, *start.shape), sampling_matrix(None, classes)
    own, others = (drift_matrix(pattern, sampling, blocks) for pattern in (np.eye(classes), 1 - np.eye(classes)))

    def slope(at: float, state: np.ndarray) -> np.ndarray:
        alpha, beta = (law.scale * (1 + at) ** -law.index for law in (intra, inter))
        return np.asarray((alpha * own + beta * others) @ state)

    solved = solve_ivp(slope, (0.0, times[-1]), start.ravel(), method="DOP853", t_eval=times, rtol=1e-12, atol=1e-12)
    return np.asarray(solved.y.T.reshape(len(times), *start.shape))


def _logit_case(config: Config, random: np.random.Generator) -> tuple[dict[str, float], xr.Dataset]:
    """One random path of the L-model with three classes: errors of the estimators, what offsets predict, and A(t)."""
    times = _times(config)
    intra = PowerLaw(random.uniform(0.5, 1.0), random.uniform(0.3, 0.6))
    # β dies out before α: where A + B/2 does not grow, offsets are never outgrown and (D.14) never holds
    inter = PowerLaw(-random.uniform(0.05, 0.15), intra.index + random.uniform(0.1, 0.3))
    start = margin_directions(3, 3) * random.uniform(1.5, 3.0, (3, 1)) + random.uniform(-0.5, 0.5, (3, 3))
    means = _solved(times, start, intra, inter, "logits")
    exact = estimate_strengths(times, means, reference_time=0.0, tail="integrated")
    published = estimate_strengths(times, means, reference_time=0.0, tail="published")
    printed = estimate_strengths(times, means, method="published")["integrated_intra"].values
    within, between = intra.integral(times), inter.integral(times)
    found = {
        "exact_error": max(
            float(np.abs(exact["integrated_intra"] - within).max()),
            float(np.abs(exact["integrated_inter"] - between).max()),
        ),
        "printed_error": printed[-1] - within[-1],
        "integral_found": float(exact["integrated_intra"][-1]),
        "integral_exact": within[-1],
        "integral_printed": intra.scale * (1 + times[-1]) ** (1 - intra.index) / (1 - intra.index),
        "tail_planted": intra.index,
        "tail_fit": float(exact["tail_index_intra"]),
        "tail_printed": float(published["tail_index_intra"]),
        "tail_predicted": intra.index + tail_bias(intra, times),
        **tail_of_strength(
            intra, times, estimate_strengths(times, means, reference_time=0.0, window=5)["intra"].values
        ),
        **late_growth(times, within, printed),
    }
    curves = {"truth": within, "exact": exact["integrated_intra"].values, "printed": printed}
    shown = xr.Dataset(
        {f"shown_{k}": ("time", v, {"long_name": f"integrated strength, {k}"}) for k, v in curves.items()},
        coords={"time": ("time", times, {"units": "iterations"})},
    )
    return found | _offsets(means, within, between, printed) | _products(intra, inter), shown


def _products(intra: PowerLaw, inter: PowerLaw) -> dict[str, float]:
    """Products of v1 and v2 with the eigenvectors of the drift at time 0: f of α + β/2, c0 of 0, and d of α − β."""
    blocks, sampling = geometry_blocks("logits", 3, 3), sampling_matrix(None, 3)
    elasticity = np.full((3, 3), inter.scale) + (intra.scale - inter.scale) * np.eye(3)
    values, vectors = np.linalg.eig(drift_matrix(elasticity, sampling, blocks))
    repeated, none = (np.abs(values - at) < 1e-8 for at in ((intra.scale + inter.scale / 2) / 3, 0.0))
    along = np.concatenate(margin_directions(3, 3))
    return {
        "orthogonal": float(max(np.abs(_V1 @ vectors[:, repeated]).max(), np.abs(_V2 @ vectors[:, none]).max())),
        "first_along": float(_V1 @ along),
        "second_along": float(_V2 @ along),
    }


def _offsets(means: np.ndarray, within: np.ndarray, between: np.ndarray, printed: np.ndarray) -> dict[str, float]:
    """The offset v1ᵀc0 of a path: as measured and as printed, and what it does to the printed estimate of A(t)."""
    flat, amplitude = means.reshape(len(means), 9), margin_amplitudes(means)
    spread = 2 / 9 * (amplitude[:, 0] + amplitude[:, 1] - 2 * amplitude[:, 2])
    level, first = amplitude[0].mean(), spread[0]
    offset = _V1 @ flat[0] - level
    grown = np.exp((within - between)[-1] / 3), np.exp((within + between / 2)[-1] / 3)
    errors = [np.log(abs(_ratio(level, grown[0], offset - 1))), np.log(abs(_ratio(first, grown[1], -4 / 3 * offset)))]
    growths = np.exp(np.stack([(within - between) / 3, (within + between / 2) / 3], axis=1))  # of s and of c − s
    level_found = np.polyfit(growths[:, 0], flat @ _V1, 1)[0]  # C₁, whatever the offset
    third = len(means) // 3
    return {
        "printed_predicted": errors[0] + 2 * errors[1],
        "printed_constant": np.log(abs(level / (level + offset - 1)))
        + 2 * np.log(abs(first / (first - 4 / 3 * offset))),
        "measured_offset": np.polyfit(spread[:third], flat[:third] @ _W, 1)[1],
        "corrected_offset": -4 / 3 * offset,
        "printed_offset": 3 / 4 * (1 - offset),
        "product": np.linalg.lstsq(growths, flat @ _V2)[0][0] / level_found,
    }


def _ratio(size: float, growth: float, offset: float) -> float:
    """How far log|(size·growth + offset)/(size + offset)| is from log growth, as a factor."""
    return (size * growth + offset) / (growth * (size + offset))


def _ordered_case(config: Config, random: np.random.Generator) -> dict[str, float]:
    """A path of the L-model, |B| < |A| though β has the smaller tail index: r_β − r_α as planted and as read.

    It starts along the margin directions, so that no offset has a part in what is read.
    """
    times = _times(config)
    intra = PowerLaw(random.uniform(0.5, 1.0), random.uniform(0.3, 0.6))
    inter = PowerLaw(-random.uniform(0.05, 0.1), intra.index - random.uniform(0.02, 0.1))
    means = _solved(times, margin_directions(3, 3) * random.uniform(1.5, 3.0, (3, 1)), intra, inter, "logits")
    return {
        "order_planted": inter.index - intra.index,
        "order_found": order_of_tails(times, means),
        "inter_over_intra": float(np.abs(inter.integral(times[-1:]) / intra.integral(times[-1:]))[0]),
    }


def _isotropic_case(config: Config, random: np.random.Generator) -> dict[str, float]:
    """A path of the I-model with random numbers of classes and features: largest error of (11), the ratio of (D.6)."""
    times = _times(config)
    intra = PowerLaw(random.uniform(0.5, 1.0), random.uniform(0.5, 0.8))
    inter = PowerLaw(random.uniform(-0.1, 0.1), random.uniform(0.5, 0.8))
    start = random.uniform(0.5, 1.5, (random.integers(2, 6), random.integers(1, 5)))
    means = _solved(times, start * np.sign(random.normal(size=start.shape)), intra, inter, "isotropic")
    found = estimate_strengths(times, means, "isotropic", method="published")
    errors = [found[f"integrated_{name}"] - law.integral(times) for name, law in (("intra", intra), ("inter", inter))]
    centre = means.mean(axis=1)
    ratio, classes = (means[:, 0] - centre) / centre, means.shape[1]
    within, between = intra.integral(times), inter.integral(times)
    shared, apart = np.exp((within + (classes - 1) * between) / classes), np.exp((within - between) / classes)
    missed = (means - centre[:, None]) - apart[:, None, None] * (means[0] - centre[0])
    return {
        "shared_missed": float(np.abs(centre - shared[:, None] * centre[0]).max() / np.abs(centre).max()),
        "apart_missed": float(np.abs(missed).max() / np.abs(means).max()),
        "isotropic_error": float(np.abs(errors).max()),
        "ratio_growth": float(np.log(np.abs(ratio[-1] / ratio[0])).mean()),
        "ratio_inter": float(inter.integral(times)[-1]),
    }


def _cases(record: xr.Dataset) -> str:
    return f"{record.sizes['case']} random paths"


def _offset(record: xr.Dataset) -> Judgement:
    found, expected, printed = (record[f"{name}_offset"].values for name in ("measured", "corrected", "printed"))
    note = "it is −4/3 v1ᵀc0; with d in place of v1 there is none, because d is at right angles to c0"
    return corrected(found, expected, _SOLVER, published=printed, note=note)


def _printed(record: xr.Dataset) -> Judgement:
    error = record["printed_error"].values
    predicted, left = (np.abs(error - record[f"printed_{name}"].values) for name in ("predicted", "constant"))
    note = (
        "⟨·⟩ divides by a start that holds the offset, exact for A' if v1ᵀc0 = 1 and for B' if v1ᵀc0 = 0, never for "
        "both: the error less what that gives, the same less what is left for large t, and its share of A(t) beside "
        f"that at a tenth of the time; error {np.abs(error).min():.2g} to {np.abs(error).max():.2g}"
    )
    bounds = [np.full_like(left, 10 * _SOLVER), np.full_like(left, _SETTLED), record["earlier_relative"].values]
    return below(np.stack([predicted, left, record["late_relative"].values]), np.stack(bounds), note=note)


def _printed_rate(record: xr.Dataset) -> Judgement:
    late, earlier = (np.abs(record[f"{when}_slope"].values - 1) for when in ("late", "earlier"))
    note = "|growth over the planted one − 1| in the last decade of time: below 0.05, and below that of the one before"
    return below(np.stack([late, late]), np.stack([np.full_like(late, _SETTLED), earlier]), note=note)


def _order(record: xr.Dataset) -> Judgement:
    planted, share = record["order_planted"].values, record["inter_over_intra"].values
    note = (
        f"r_β − r_α by (D.19), L-model as coded; planted {planted.min():.2g} to {planted.max():.2g}, "
        f"|B|/|A| up to {share.max():.2g}"
    )
    return above(record["order_found"].values, 0.0, note=note)


def _ratio_sign(record: xr.Dataset) -> Judgement:
    growth, inter = record["ratio_growth"].values, record["ratio_inter"].values
    note = "its logarithm at the end is −B, and (11) has it so; the ratio that should give A is printed as the same"
    return corrected(growth, -inter, 10 * _SOLVER, published=inter, note=note)


def _product(record: xr.Dataset) -> Judgement:
    note = "of C₁ exp((A − B)/K) in X̄ᵀv₂, by least squares; v₂ᵀd = 4/3 in (D.10) says so too"
    return corrected(record["product"].values, 4 / 3, _SOLVER, published=3 / 4, note=note)


def _along(record: xr.Dataset) -> Judgement:
    found = [record[name].values for name in ("first_along", "second_along")]
    return equal(found, np.array([[1.0], [4 / 3]]), _SOLVER, note="v₁ᵀd and v₂ᵀd")


def _integral(record: xr.Dataset) -> Judgement:
    found, exact, printed = (record[f"integral_{name}"].values for name in ("found", "exact", "printed"))
    note = (
        "A at the last time, off the growth of solved class means: α₀((1 + t)^(1−r) − 1)/(1 − r). As printed A(0) ≠ 0"
    )
    return corrected(found, exact, _SOLVER, published=printed, note=note)


def _tail(record: xr.Dataset) -> Judgement:
    note = "the last term, from the −1 that (D.18) lacks, is not printed; on the left log(1 + r) stands for log(1 + t)"
    return equal(record["tail_printed"].values, record["tail_predicted"].values, _SOLVER, note=note)


def _covered(record: xr.Dataset) -> Judgement:
    seeds = int(record["seeds"])
    share = Estimate(record["coverage"].values, np.full(len(COVERED), np.sqrt(0.95 * 0.05 / seeds)))
    note = f"{seeds} sets of trials; 0.02: percentiles of 200 resamples and the logarithm's skewness"
    return equal(share, 0.95, 0.02, note=note)


def _draw_strength(record: xr.Dataset, ax: Axes) -> None:
    """One path's integrated strength by each estimator."""
    seen = record.sel(time=record["time"] > 0)
    ax.plot(seen["time"], seen["shown_truth"], color="black", label="planted")
    ax.plot(seen["time"], seen["shown_exact"], "o", ms=3, color=plots.PALETTE[0], label="exact")
    ax.plot(seen["time"], seen["shown_printed"], "s", ms=3, color=plots.PALETTE[1], label="printed (D.16)")
    ax.set(xscale="log", xlabel="time (iterations)", ylabel="integrated strength A(t)")


def _tail_strength(record: xr.Dataset) -> Judgement:
    found, exact, planted = (record[name].values for name in ("tail_strength", "tail_strength_exact", "tail_planted"))
    note = (
        "for α₀/(1 + t)^r it is 1 + r − log α₀/log(1 + t): r takes log A, as in (D.19); bound: derivative over 5 points"
    )
    return corrected(found, exact, 0.01, published=planted, note=note)


def _draw_tails(record: xr.Dataset, ax: Axes) -> None:
    """Tail indices as read against planted."""
    planted = record["tail_planted"]
    ax.plot(planted, record["tail_fit"], "o", color=plots.PALETTE[0], label="fit with an offset")
    ax.plot(planted, record["tail_printed"], "s", color=plots.PALETTE[1], label="printed (D.19)")
    ax.plot(planted, record["tail_predicted"], "x", color="black", label="predicted bias of (D.19)")
    ends = [float(planted.min()), float(planted.max())]
    ax.plot(ends, ends, color="black", linewidth=1)
    ax.set(xlabel="planted tail index", ylabel="estimated tail index")


EXPERIMENT = Experiment(
    elastic("11, D.6, D.9–D.19"),
    Config(),
    run,
    claims=(
        Claim(
            "elastic-exact-estimator",
            "A and B come back from the growth of the mean and of the spread of the margin amplitudes, K = 3, without "
            "offset",
            lambda r: equal(r["exact_error"].max(), 0.0, _SOLVER, note=f"largest error over {_cases(r)}"),
            elastic("11"),
            "derived",
        ),
        Claim(
            "elastic-d12-offset",
            "the offset of X̄ᵀ(v2 − 4/3 v1) is 3 C3/16, with v1ᵀc0 = 1 − C3/4 (D.10)",
            _offset,
            elastic("D.12"),
        ),
        Claim(
            "elastic-d16",
            "for large t the printed estimator of A(t) errs by a constant, which A(t) outgrows",
            _printed,
            elastic("D.14–D.16"),
            "derived",
        ),
        Claim(
            "elastic-d16-rate",
            "for large t the printed estimate of A(t) grows as A(t) does",
            _printed_rate,
            elastic("D.16"),
        ),
        Claim(
            "elastic-eq11-isotropic",
            "the printed I-model estimator is exact on its own model",
            lambda r: equal(r["isotropic_error"].max(), 0.0, 10 * _SOLVER, note=f"largest error over {_cases(r)}"),
            elastic("11"),
        ),
        Claim(
            "elastic-d19",
            "1 − log A/log(1 + t) is r + (log(1 − r) − log α₀ − log(1 − (1 + t)^(r−1)))/log(1 + t): a bias that "
            "dies out as 1/log t",
            _tail,
            elastic("D.19"),
            "derived",
        ),
        Claim(
            "elastic-sec4-tail",
            "r is 1 − mean of log α/log(1 + t) late in training",
            _tail_strength,
            elastic(section="4.1"),
        ),
        Claim(
            "elastic-figd2-size",
            "planted strengths with |B| < |A|, no labels being wrong: r_β as read exceeds r_α, L-model, though β has "
            "the smaller tail index",
            _order,
            elastic("D.19", figure="D.2(b)"),
            "own",
        ),
        Claim(
            "elastic-d4",
            "I-model: the mean over classes grows as exp((A + (K−1) B)/K)",
            lambda r: equal(r["shared_missed"], 0.0, _SOLVER, note=f"largest difference from a solver, {_cases(r)}"),
            elastic("D.4"),
        ),
        Claim(
            "elastic-d5",
            "I-model: what a class has beyond that mean grows as exp((A − B)/K)",
            lambda r: equal(r["apart_missed"], 0.0, _SOLVER, note=f"largest difference from a solver, {_cases(r)}"),
            elastic("D.5"),
        ),
        Claim("elastic-d6", "I-model: |(c₀/c_k)(X̄ᵏ − X̆)/X̆| = e^B", _ratio_sign, elastic("D.6")),
        Claim(
            "elastic-d9",
            "v₁ is orthogonal to the f_j and v₂ to the offset",
            lambda r: equal(r["orthogonal"], 0.0, _SOLVER, note="largest product with unit eigenvectors of the drift"),
            elastic("D.2, D.9"),
        ),
        Claim("elastic-d10", "v₁ᵀd = 1 and v₂ᵀd = 4/3", _along, elastic("D.2, D.10")),
        Claim("elastic-d11", "C₁ exp((A − B)/K) enters X̄ᵀv₂ with the factor 3/4", _product, elastic("D.11")),
        Claim("elastic-d18", "α₀/(1 + t)^r has the integral A = α₀ (1 + t)^(1−r)/(1 − r)", _integral, elastic("D.18")),
        Claim(
            "elastic-tail-fit",
            "the power law with an offset that fits A(t) best has the planted tail index",
            lambda r: equal(r["tail_fit"], r["tail_planted"], 1e-4, note=_cases(r)),
            elastic("D.17"),
            "derived",
        ),
        Claim(
            "elastic-coverage",
            "95 % intervals hold planted A, B, A − B and tail index in 95 % of runs",
            _covered,
            kind="own",
        ),
    ),
    picture=Panels(_draw_strength, _draw_tails, width=4.8, height=3.8),
    model="LocallyElastic",
    smoke={"cases": 3, "points": 61, "seeds": 40},
    paper={"cases": 100, "seeds": 1000},
)
