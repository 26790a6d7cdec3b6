"""spring-block above (7): Effective friction under noise.

Its value, its sign, its limits and how noise lowers it.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, corrected, equal, three_errors
from dynascope.experiments.experiment import Axes, Experiment, Panels, recorded
from dynascope.experiments.sources import spring_block
from dynascope.models.spring_block import SpringBlock
from dynascope.models.spring_block.closed_form import effective_friction

_FAINT = 1e-6  # noise force that stands for none
_LOUD = 200.0  # noise force at which the limit is drawn
_STRONG = 1e4  # noise force in units of the friction; what is left of the limit is of order friction²/force


@dataclass(frozen=True)
class Config:
    """Random frictions and curvatures inside the interval of (7); direct averages over drawn noise."""

    cases: int = 20
    draws: int = 1_000_000
    sweeps: int = 1000
    seed: int = 11


def run(config: Config) -> xr.Dataset:
    """Average over drawn noise at random parameters, and sweep the closed form over noise."""
    random = np.random.default_rng(config.seed)
    right, left = random.uniform(0.05, 1.0, (2, config.cases))
    strength = random.uniform(0.3, 1.0, config.cases) * (right + left)  # weaker noise hardly ever moves a block
    force = random.uniform((right - left) / 2, right)
    mean, error = np.transpose(
        [_drawn(random, config.draws, *case) for case in zip(force, right, left, strength, strict=True)]
    )
    closed = effective_friction(force, right, left, strength, np.inf)
    limit = effective_friction(force, right, left, np.array(_STRONG), np.inf)
    printed = np.transpose(
        [_drawn(random, config.draws, m, r, a, _LOUD) for m, r, a in zip(force, right, left, strict=True)]
    )
    steepest, whole_fall = _sweep(random, config.sweeps)
    return xr.Dataset(
        {
            "drawn": ("case", mean),
            "drawn_error": ("case", error),
            "closed": ("case", closed),
            "limit": ("case", limit),
            "printed": ("case", -printed[0]),
            "printed_error": ("case", printed[1]),
            "noiseless": ("case", effective_friction(1.1 * right, right, left, np.array(_FAINT), np.inf)),
            "steepest": ("sweep", steepest),
            "whole_fall": ("sweep", whole_fall),
        },
        coords={"friction_right": ("case", right), "friction_left": ("case", left), "force": ("case", force)},
    )


def _drawn(
    random: np.random.Generator, draws: int, force: float, right: float, left: float, strength: float
) -> list[float]:
    """Mean and standard error of m − σ(m + s ζ) over the draws that move the block; ±ζ are used in pairs."""
    noise = strength * random.standard_normal(draws)
    total = np.stack([force + noise, force - noise])
    left_over = np.maximum(total - right, 0) + np.minimum(total + left, 0)
    moves = (left_over != 0).sum(axis=0)
    resisted = (np.where(left_over != 0, force - left_over, 0.0)).sum(axis=0)
    ratio = resisted.sum() / moves.sum()
    return [ratio, float(np.std(resisted - ratio * moves)) * np.sqrt(draws) / moves.sum()]


def _sweep(random: np.random.Generator, sweeps: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest rise of μ_eff between neighbouring noise levels, and its change over the whole range."""
    right, left = random.uniform(0.1, 1.0, (2, sweeps, 1))
    force = right - random.uniform(0.0, 0.9, (sweeps, 1)) * (right + left) / 2  # inside the interval of (7)
    sweep = effective_friction(force, right, left, np.geomspace(1e-3, 1e3, 400), np.inf)  # (sweep, noise)
    return np.diff(sweep, axis=1).max(axis=1), sweep[:, -1] - sweep[:, 0]


def _settled(record: xr.Dataset) -> np.ndarray:
    """What (7) rests on: (μ→ − μ←)/2, the friction under strong noise."""
    return ((record["friction_right"] - record["friction_left"]) / 2).values


def _sign(record: xr.Dataset) -> Judgement:
    settled = _settled(record)
    apart = np.abs(settled) > 0.1  # where the two signs can be told apart
    error = record["printed_error"].values[apart]
    finite = 1.0 / _LOUD  # friction²/force: how far the drawn noise is from infinitely strong
    return corrected(
        record["printed"].values[apart],
        -settled[apart],
        three_errors(error) + finite,
        published=settled[apart],
        error=error,
        note="the printed difference has the opposite sign; ours, k Δd − σ, is positive when it resists",
    )


def _falling(record: xr.Dataset) -> Judgement:
    changes = [float(record[name].max()) for name in ("steepest", "whole_fall")]
    note = f"largest rise between noise levels, and smallest fall over all, in {record.sizes['sweep']} sweeps"
    return below(changes, 0.0, [-1e-12, 0.001], note=note)


def _draw(record: xr.Dataset, ax: Axes) -> None:
    """μ_eff over noise at several curvatures."""
    strength = np.geomspace(1e-2, 1e1, 200)
    chain = SpringBlock(friction_right=0.1, friction_left=0.2, noise=strength)
    for colour, curvature in zip(plots.PALETTE, (0.1, 0.05, 0.0, -0.05), strict=False):
        friction = chain.effective_friction(curvature, dt=1.0)
        ax.plot(strength, friction, color=colour, label=f"curvature {curvature:g}")
    ax.axhline(-0.05, color="black", linewidth=1, linestyle="--", label="(μ→ − μ←)/2")
    ax.set(xscale="log", xlabel="noise force ε/√dt (force)", ylabel="effective friction (force)")


EXPERIMENT = Experiment(
    spring_block(place="above (7)"),
    Config(),
    run,
    claims=(
        Claim(
            "mu-eff-value",
            "μ_eff(Δd) = k Δd − g(k Δd)/P(move) is the mean friction on a moving block",
            lambda record: equal(recorded(record, "drawn"), record["closed"], note="random cases"),
            kind="derived",  # the closed form is ours
        ),
        Claim(
            "mu-eff-sign", "E[σ(k Δd + s ζ) − k Δd | σ ≠ 0], as printed, tends to +(μ→ − μ←)/2 for strong noise", _sign
        ),
        Claim(
            "mu-eff-limit",
            "for strong noise μ_eff tends to (μ→ − μ←)/2",
            lambda record: equal(
                record["limit"], _settled(record), 1.0 / _STRONG, note="noise force 10⁴ times the friction"
            ),
        ),
        Claim(
            "mu-eff-noiseless",
            "without noise a block that slides right feels μ_eff = μ→",
            lambda record: equal(record["noiseless"], record["friction_right"], 1e-9, note="pulled with 1.1 μ→"),
            spring_block(place="below (7)"),
        ),
        Claim(
            "mu-eff-falling",
            "dμ_eff/dε ≤ 0 for Δd between (μ→ − μ←)/(2k) and μ→/k",
            _falling,
            spring_block(place="below (7)"),
        ),
    ),
    picture=Panels(_draw, width=5.5, height=4.0),
    smoke={"draws": 200_000, "sweeps": 200},
    paper={"draws": 10_000_000, "sweeps": 10_000},
    model="SpringBlock",
)
