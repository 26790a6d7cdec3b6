"""layerwise (4.12)–(4.16), (4.20): The law of time, skill by skill.

What one skill more takes and is worth, by integrated flows and by trained models.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline
from scipy.special import zeta

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.experiments.linear_modes.losses import diagonal_loss
from dynascope.experiments.sources import layerwise
from dynascope.models.multilinear import Multilinear

ALPHAS, RANKS = (0.3, 0.6, 0.9), (10, 20, 40)
TARGET, INITIAL, EMERGED = 1.0, 0.01, 0.05  # S, R(0), and the ε at which a skill has emerged
_NEAR = 1e-3  # relative distance of neighbours for derivatives


@dataclass(frozen=True)
class Config:
    """Flows on infinitely many skills; models with many, trained by small steps until the last of the ranks emerges."""

    skills: int = 20_000
    learning_rate: float = 0.5
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    """Time until the next skill, the loss that a skill is worth, and derivatives of a skill's loss."""
    pairs = [[_one(alpha, rank) for rank in RANKS] for alpha in ALPHAS]
    names = pairs[0][0].keys()
    dims = ("skill_exponent", "rank")
    record = xr.Dataset(
        {name: (dims, [[each[name] for each in row] for row in pairs]) for name in names},
        coords={"skill_exponent": list(ALPHAS), "rank": list(RANKS)},
    )
    trained = [_trained(config, alpha) for alpha in ALPHAS]
    return record.assign({name: (dims, [each[name] for each in trained]) for name in trained[0]})


def _one(alpha: float, rank: int) -> dict[str, float]:
    """One skill and its neighbours, frequencies k^−(α+1)/ζ(α+1)."""
    share = rank ** -(alpha + 1) / zeta(alpha + 1)
    late = np.log((TARGET / INITIAL - 1) / (1 / EMERGED - 1)) / (2 * share * TARGET)
    near = rank * np.array([1 - _NEAR, 1.0, 1 + _NEAR, 1 + 1 / rank])
    start = np.full(4, np.sqrt(INITIAL))
    times = np.linspace(0, 2 * late, 801)
    data = (near ** -(alpha + 1) / zeta(alpha + 1), np.full(4, TARGET))
    flow = gradient_flow(diagonal_loss, {"first": start, "second": start}, times, data=data)
    strength = flow["first"] * flow["second"]  # (time, skill)
    here, after = (CubicSpline(times, strength[:, k] - EMERGED * TARGET).roots(extrapolate=False)[0] for k in (1, 3))
    losses = (TARGET - strength) ** 2 / 2
    middle = 500  # a moment at which the skill is being learned
    by_time = float(CubicSpline(times, losses[:, 1])(times[middle], 1))
    by_rank = (losses[middle, 2] - losses[middle, 0]) / (near[2] - near[0])
    return {
        "interval": float(after / here - 1),
        "drop": float(rank ** -(alpha + 1) / zeta(alpha + 1, rank)),  # (4.12) by its sum
        "scaled": float(-by_time * (alpha + 1) * times[middle] / (rank * by_rank)),
    }


def _trained(config: Config, alpha: float) -> dict[str, np.ndarray]:
    """Losses of a trained model when the ranks emerge and a tenth later in time, beside what stages would leave."""
    model = Multilinear(config.skills, alpha, TARGET, INITIAL, config.learning_rate)
    ranks = np.array(RANKS)
    odds = np.log((TARGET / INITIAL - 1) / (1 / EMERGED - 1))
    emerged = (odds / (2 * config.learning_rate * model.frequency(ranks) * TARGET)).round()
    moments = np.unique(np.concatenate([emerged, (1.1 * emerged).round()]))
    trained = model.simulate(int(moments[-1]), 0, 1, save_points=moments)["loss"].isel(trial=0)
    first, later = (trained.sel(time=at).values for at in (emerged, (1.1 * emerged).round()))
    absent = float(model.absent_loss())
    whole = np.cumsum(model.frequency(np.arange(1, config.skills + 1)))
    left = TARGET**2 / 2 * (1 - whole[ranks - 2])  # of the k-th skill and all after it
    slope = np.log((later + absent) / (first + absent)) / np.log((1.1 * emerged).round() / emerged)
    return {"slope": slope, "excess": (first + absent) / (left + absent)}


def _alphas(record: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """α and k, over (skill_exponent, rank)."""
    return record["skill_exponent"].values[:, None], record["rank"].values[None, :].astype(float)


def _drop(record: xr.Dataset) -> Judgement:
    alpha, rank = _alphas(record)
    rest = rank**2 * (record["drop"].values - alpha / rank)
    note = "k² times what α/k leaves of a skill's share in the rest: −α²/2; bound: the next order. Rival: (α + 1)/k"
    expected = np.broadcast_to(-(alpha**2) / 2, rest.shape)
    return equal(rest, expected, alpha / rank, rival=expected + rank, error=0.0, note=note)


def _interval(record: xr.Dataset) -> Judgement:
    alpha, rank = _alphas(record)
    expected = (1 + 1 / rank) ** (alpha + 1) - 1
    rival = (1 + 1 / rank) ** alpha - 1
    note = "time from the emergence of one skill to the next over the former, α = 0.3 … 0.9, k = 10 … 40; rival: k^α"
    return equal(record["interval"], expected, 1e-6, rival=rival, error=0.0, note=note)


def _order(record: xr.Dataset) -> Judgement:
    alpha, rank = _alphas(record)
    rest = rank**2 * (record["interval"].values - (alpha + 1) / rank)
    note = "k² times what (α + 1)/k leaves of it: α (α + 1)/2; bound: the next order. Rival: α/k"
    expected = np.broadcast_to((alpha + 1) * alpha / 2, rest.shape)
    return equal(rest, expected, (alpha + 1) * alpha / rank, rival=expected - rank, error=0.0, note=note)


def _law(record: xr.Dataset) -> Judgement:
    alpha, rank = _alphas(record)
    expected = np.broadcast_to(-alpha / (alpha + 1), (alpha.size, rank.size))
    note = "slope of the trained loss over a tenth of the time, absent skills added; 3 %: steps. Rival: −α"
    rival = np.broadcast_to(-alpha, expected.shape)
    return equal(record["slope"], expected, 0.03 * abs(expected), rival=rival, error=0.0, note=note)


def _stages(record: xr.Dataset) -> Judgement:
    note = f"trained loss when a skill has reached {EMERGED:g} S, over what stages would leave, k = {RANKS}"
    return above(record["excess"], 1.05, note=note)


def _scaled(record: xr.Dataset) -> Judgement:
    alpha, rank = _alphas(record)
    note = "−(α + 1) T/k times dL_k/dT over dL_k/dk, by neighbours of an integrated flow; rival: without α + 1"
    rival = np.broadcast_to(1 / (alpha + 1), (alpha.size, rank.size))
    return equal(record["scaled"], np.ones(rival.shape), 1e-4, rival=rival, error=0.0, note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """What one skill more takes and is worth, times its rank."""
    for colour, alpha in zip(plots.PALETTE, ALPHAS, strict=False):
        one = record.sel(skill_exponent=alpha)
        ax.plot(one["rank"], one["rank"] * one["interval"], "o", color=colour, label=f"α = {alpha}: time")
        ax.axhline(alpha + 1, color=colour, linewidth=1)
        ax.plot(one["rank"], one["rank"] * one["drop"], "s", color=colour, fillstyle="none", label="loss")
        ax.axhline(alpha, color=colour, linewidth=1, linestyle=":")
    ax.set(xlabel="rank k of the skill", ylabel="k × relative change by one skill", xscale="log")


EXPERIMENT = Experiment(
    layerwise(equation="4.12–4.16, 4.20"),
    Config(),
    run,
    claims=(
        Claim(
            "eq4.13-loss",
            "a skill is worth α/k + O(k^−2) of the loss that it and all after it leave",
            _drop,
            layerwise(equation="4.12, 4.13"),
        ),
        Claim(
            "eq4.14-interval",
            "the time to the next skill over that of the k-th is ((k + 1)^(α+1) − k^(α+1))/k^(α+1)",
            _interval,
            layerwise(equation="4.14"),
        ),
        Claim("eq4.15-order", "that is (α + 1)/k + O(k^−2)", _order, layerwise(equation="4.15")),
        Claim(
            "eq4.16-law",
            "when the k-th skill emerges the loss falls by −α/(α + 1) times the relative time",
            _law,
            layerwise(equation="4.16"),
        ),
        Claim(
            "sec4.2.4-overlap",
            "it does so without the stages of its derivation: when a skill emerges those before it hold more than "
            "a twentieth of the loss still",
            _stages,
            layerwise(section="4.2.4"),
            kind="own",
        ),
        Claim(
            "eq4.20-scaled",
            "a skill's loss depends on k^−(α+1) T alone: dL_k/dT = −k/((α + 1) T) dL_k/dk",
            _scaled,
            layerwise(equation="4.20"),
        ),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    smoke={"skills": 5_000},
    paper={"skills": 50_000, "learning_rate": 0.1},
    model="Multilinear",
    kind="equation",
)
