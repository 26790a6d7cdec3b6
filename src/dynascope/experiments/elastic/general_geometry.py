"""elastic (D.20), (E.1), Section E, Theorem 3.1: Any positive H, any positive E.

The separation theorem beyond the I- and the L-model: which growth decides, and what becomes of its second half.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, corrected, equal
from dynascope.experiments.elastic.reference import SOLVER_ERROR, looped_drift, power_law, solve_means
from dynascope.experiments.elastic.separation import rare
from dynascope.experiments.elastic.tables import by_row
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import Source, elastic
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import geometry_blocks
from dynascope.models.elastic.separation import share_separable
from dynascope.models.elastic.strengths import PowerLaw
from dynascope.statistics.errors import Estimate, over_trials

_CLASSES, _FEATURES = 3, 2
_SIZE = _CLASSES * _FEATURES
_RATIO = 0.4  # β/α where both have the same tail
_SLOW, _FAST = 0.7, 1.4  # tail indices on both sides of 1
_LATE = (1e2, 1e4, 1e6, 1e8)
_SHORT, _LONG = (1.0, 30.0, 60.0), (1.0, 30.0, 200.0)
_BORDER = (0.7, 1.3)  # c λ in units of 1/2
_WEIGHTS = (0.5, 0.8, 0.95)  # of a class's own projector
_ROUNDING = 1e-9
_THEOREM, _E = "Theorem 3.1", elastic(section="E")
_SLIDES = Source("elastic-slides", theorem="Theorem 1")


@dataclass(frozen=True)
class Config:
    """Random positive H and E, some of each; clouds of `samples` points in every class."""

    draws: int = 5
    samples: int = 10
    trials: int = 100
    seed: int = 41


def run(config: Config) -> xr.Dataset:
    """Follow classes under random positive H and E, and take their drift apart."""
    random = np.random.default_rng(config.seed)
    rows = [_theorem(random, config) | _bounds(random) for _ in range(config.draws)]
    return xr.merge([by_row("draw", rows), _border(random, config), _slides(config), _mixture(random)])


def _positive(random: np.random.Generator, size: int) -> Float[np.ndarray, "size size"]:
    root = random.standard_normal((size, size))
    return np.asarray(root @ root.T / size)


def _indefinite(random: np.random.Generator) -> Float[np.ndarray, "class class"]:
    """Symmetric, without a trace, so that it has eigenvalues of both signs, the largest of size 1."""
    root = random.standard_normal((_CLASSES, _CLASSES))
    found = root + root.T - 2 * np.trace(root) / _CLASSES * np.eye(_CLASSES)
    return np.asarray(found / np.abs(np.linalg.eigvalsh(found)).max())


def _blocks(whole: np.ndarray, classes: int = _CLASSES) -> Float[np.ndarray, "class class feature feature"]:
    features = len(whole) // classes
    return whole.reshape(classes, features, classes, features).swapaxes(1, 2)


def _share(config: Config, times: tuple[float, ...], start: np.ndarray, model: LocallyElastic) -> float:
    """How often all pairs of classes are separable at the last time."""
    given: dict[str, Any] = {"samples": config.samples, "trials": config.trials, "seed": config.seed}
    run = model.simulate(times[-1], start=start, save_points=times, **given).isel(time=[-1])
    return float(share_separable(np.moveaxis(run["point"].values, 0, 1))[0])


def _theorem(random: np.random.Generator, config: Config) -> dict[str, float]:
    """Shares of separated trials for one H: slow tails, fast ones of both strengths, and one of α − β alone.

    And for one H and a general E whose entries all differ: constant and positive, the same falling fast, and constant
    with eigenvalues of both signs. The largest eigenvalue of H is 1: times that are long enough for every separation
    then leave all numbers finite.
    """
    drawn = _positive(random, _SIZE)
    geometry = _blocks(drawn / np.linalg.eigvalsh(drawn)[-1])
    start = random.standard_normal((_CLASSES, _FEATURES))
    options: dict[str, Any] = {"geometry": geometry, "noise": 1.0}
    slow, fast = (
        LocallyElastic(_CLASSES, _FEATURES, PowerLaw(0.5, index), PowerLaw(0.5 * _RATIO, index), **options)
        for index in (_SLOW, _FAST)
    )
    tied = LocallyElastic(_CLASSES, _FEATURES, lambda time: 1 + 0.1 / (1 + time) ** 2, 1.0, **options)
    whole = _positive(random, _CLASSES) + 0.2 * np.eye(_CLASSES)
    general = LocallyElastic(_CLASSES, _FEATURES, elasticity=whole, **options)
    falling = LocallyElastic(_CLASSES, _FEATURES, elasticity=lambda time: whole * (1 + time) ** -_FAST, **options)
    both_signs = LocallyElastic(_CLASSES, _FEATURES, elasticity=_indefinite(random), **options)
    return {
        "slow": _share(config, _LATE, start, slow),
        "fast": _share(config, _LATE, start, fast),
        "tied": _share(config, _SHORT, start, tied),
        "general": _share(config, _SHORT, start, general),
        "falling": _share(config, _LATE, start, falling),
        "indefinite": _share(config, _LONG, start, both_signs),
    }


def _bounds(random: np.random.Generator) -> dict[str, float]:
    """Ends of the spectra of (E ⊗ I) ∘ H and of the drift with blocks E_kl H_kl, in units of their bounds."""
    strengths, geometry = _positive(random, 3) + 0.1 * np.eye(3), _positive(random, 9) + 0.1 * np.eye(9)
    printed = np.linalg.eigvalsh(np.kron(strengths, np.eye(3)) * geometry)
    drift = np.linalg.eigvalsh(np.kron(strengths, np.ones((3, 3))) * geometry)
    found: dict[str, float] = {}
    for name, values, spectrum, diagonal in (
        ("printed", printed, np.linalg.eigvalsh(strengths), np.diag(geometry)),
        ("drift", drift, np.linalg.eigvalsh(geometry), np.diag(strengths)),
    ):
        found[f"{name}_least"] = values[0] / (spectrum[0] * diagonal.min())
        found[f"{name}_largest"] = values[-1] / (spectrum[-1] * diagonal.max())
    return found


def _border(random: np.random.Generator, config: Config) -> xr.Dataset:
    """α = c/(1 + t), β = 0.4 α: class means along the fastest mode over √t, mean over trials, first and last."""
    whole = _positive(random, _SIZE)
    own, other = looped_drift(_CLASSES, _FEATURES, whole)
    values, vectors = np.linalg.eigh(own + _RATIO * other)
    fastest, rows = vectors[:, -1], []
    for ratio in _BORDER:
        scale = ratio / (2 * values[-1])
        strengths = PowerLaw(scale, 1.0), PowerLaw(_RATIO * scale, 1.0)
        model = LocallyElastic(_CLASSES, _FEATURES, *strengths, _blocks(whole), noise=1.0)
        given: dict[str, Any] = {"samples": config.samples, "trials": config.trials, "seed": config.seed}
        start = 20 * fastest.reshape(_CLASSES, _FEATURES)
        run = model.simulate(_LATE[-1], start=start, save_points=(_LATE[0], _LATE[-1]), **given)
        along = run["class_mean"].values.reshape(config.trials, 2, _SIZE) @ fastest
        signal = over_trials(along / np.sqrt([_LATE[0], _LATE[-1]]), axis=0)
        span = np.log(_LATE[-1] / _LATE[0])
        slope, error = np.log(signal.mean[1] / signal.mean[0]) / span, np.linalg.norm(signal.error / signal.mean) / span
        rows.append({"slope": slope, "slope_error": error})
    return by_row("ratio", rows).assign_coords(ratio=list(_BORDER))


def _slides(config: Config) -> xr.Dataset:
    """α = −0.5, β = −1: shares of separated trials for H = I, and for blocks that are all identities."""
    start = 3 * np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])
    geometries: dict[str, str | np.ndarray] = {"alone": _blocks(np.eye(_SIZE)), "isotropic": "isotropic"}
    return xr.Dataset(
        {
            name: _share(config, _SHORT, start, LocallyElastic(_CLASSES, _FEATURES, -0.5, -1.0, each, noise=1.0))
            for name, each in geometries.items()
        }
    )


def _mixture(random: np.random.Generator) -> xr.Dataset:
    """Eigenvalues of a block of (D.20), K = 4: along d_j, across, and along 1; and its path beside a solver's."""
    found = np.zeros((len(_WEIGHTS), 3))
    for row, weight in enumerate(_WEIGHTS):
        block = geometry_blocks("mixture", 4, 4, own_weight=weight)[1, 2]
        along, even = np.eye(4)[2] - 1 / 4, np.ones(4) / 2
        across = np.array([1.0, -1.0, 0.0, 0.0]) / np.sqrt(2)
        for column, way in enumerate((along / np.linalg.norm(along), across, even)):
            found[row, column] = way @ block @ way
    times, start = np.linspace(0.5, 5.0, 4), random.standard_normal((4, 4))
    model = LocallyElastic(4, 4, PowerLaw(1.0, 0.5), -0.2, "mixture")
    looped = np.zeros((16, 16))
    for k in range(4):
        for j in range(4):
            for l in range(4):  # noqa: E741 (the source's index)
                direction = np.array([(i == l) - 1 / 4 for i in range(4)])
                weight = 0.8 if l == j else 0.2 / 3
                looped[4 * k : 4 * k + 4, 4 * j : 4 * j + 4] += weight * np.outer(direction, direction) / (3 / 4)
    solved = solve_means(times, start, power_law(1.0, 0.5), power_law(-0.2), looped)
    missed = np.abs(model.mean_path(times, start) - solved).max() / np.abs(solved).max()
    return xr.Dataset(
        {"mixture": (("weight", "way"), found), "mixture_missed": missed},
        coords={"weight": list(_WEIGHTS), "way": ["d_j", "across", "1"]},
    )


def _parts(record: xr.Dataset, name: str) -> Judgement:
    note = f"share of {settings(record).trials} trials with all pairs separable at the last time, for each H"
    return equal(record[name].values, 1.0, rare(record), note=note)


def _mixed(record: xr.Dataset, name: str) -> Judgement:
    return equal(record[name].values, 0.0, rare(record), note="share of trials at t = 1e8, for each H")


def _tied(record: xr.Dataset) -> Judgement:
    doubt = 0.5 / np.sqrt(settings(record).trials)
    note = (
        "α − β = 0.1/(1 + t)², β = 1: share of trials at t = 60 for random positive H. M tends to H/K, whose growth "
        "carries the classes apart; eigenvalues of M are of the order of α, not of γ, see elastic-c10-schur"
    )
    return corrected(record["tied"].values, 1.0, rare(record), published=0.0, error=doubt, note=note)


def _slopes(record: xr.Dataset) -> Judgement:
    slope = Estimate(record["slope"].values, record["slope_error"].values, settings(record).trials)
    note = f"slopes over t = 1e2 … 1e8, bound 1e-3: (1 + t)/t at the first time; c λ/(1/2) = {_BORDER}"
    return equal(slope, (record["ratio"].values - 1) / 2, 1e-3, rival=0.0, note=note)


def _within(record: xr.Dataset, name: str, note: str) -> Judgement:
    ratios = np.stack([record[f"{name}_least"].values, 1 / record[f"{name}_largest"].values])
    return above(ratios, 1.0, -_ROUNDING, note=f"ends of the spectrum in units of the bounds; {note}")


def _alone(record: xr.Dataset) -> Judgement:
    doubt = 0.5 / np.sqrt(settings(record).trials)
    note = "α = −0.5, β = −1, H = I: classes do not feel each other, and each shrinks as exp(α t/K)"
    return corrected(float(record["alone"]), 0.0, rare(record), published=1.0, error=doubt, note=note)


def _eigenvalues(record: xr.Dataset) -> Judgement:
    weight = record["weight"].values[:, None]
    other = (1 - weight) / 3
    stated = np.concatenate([weight + other / 3, 4 * other / 3, 0 * weight], axis=1)
    note = f"of a block, K = 4, own weight {_WEIGHTS}: along d_j, across and along 1; the L-model has 1, 0, 0"
    return equal(record["mixture"].transpose("weight", "way").values, stated, _ROUNDING, note=note)


def _draw_shares(record: xr.Dataset, ax: Axes) -> None:
    names = {"slow": "α, β ≫ 1/t", "fast": "α, β ≪ 1/t", "tied": "α − β ≪ 1/t, β = 1", "general": "general E"}
    names |= {"falling": "E ≪ 1/t", "indefinite": "E of both signs"}
    for place, (colour, name) in enumerate(zip(plots.PALETTE, names, strict=False)):
        ax.plot(np.full(record.sizes["draw"], place), record[name], "o", color=colour, markersize=5)
    ax.set_xticks(range(len(names)), list(names.values()), fontsize="small", rotation=20)
    ax.set(ylabel="share of trials with separable classes", ylim=(-0.05, 1.05), title="Random positive H")


def _draw_bounds(record: xr.Dataset, ax: Axes) -> None:
    for colour, (name, label) in zip(plots.PALETTE, (("printed", "(E ⊗ I) ∘ H"), ("drift", "drift")), strict=False):
        ax.loglog(record[f"{name}_least"], 1 / record[f"{name}_largest"], "o", color=colour, label=label)
    ax.axvline(1.0, color="black", linestyle=":")
    ax.axhline(1.0, color="black", linestyle=":")
    ax.set(xlabel="least eigenvalue over its bound", ylabel="bound over largest eigenvalue")


EXPERIMENT = Experiment(
    elastic("D.20, E.1", section="E", theorem=_THEOREM),
    Config(),
    run,
    claims=(
        Claim(
            "thm-3-1-general",
            "γ(t) ≫ 1/t: classes separate with probability one, for random positive H",
            lambda r: _parts(r, "slow"),
            elastic(theorem=_THEOREM, place="part (1)"),
        ),
        Claim(
            "thm-3-1-general-part-2",
            "γ(t) ≪ 1/t: classes do not separate, for random positive H",
            _tied,
            elastic(theorem=_THEOREM, place="part (2)"),
        ),
        Claim(
            "thm-3-1-general-both",
            "where both α and β fall faster than 1/t classes do not separate, for random positive H",
            lambda r: _mixed(r, "fast"),
            elastic(theorem=_THEOREM, place="part (2)"),
            kind="derived",
        ),
        Claim(
            "thm-3-1-general-border",
            "with α = c/t and β/α constant class means over the noise grow as t^(c λ − ½), λ largest eigenvalue of M/α",
            _slopes,
            elastic(theorem=_THEOREM, place="at γ = c/t"),
            kind="derived",
        ),
        Claim(
            "e-schur",
            "eigenvalues of (E ⊗ I) ∘ H lie between λ_min(E) min H_ii and λ_max(E) max H_ii for positive E",
            lambda r: _within(r, "printed", "the matrix as printed, which is not the drift"),
            _E,
        ),
        Claim(
            "e-schur-drift",
            "those of the drift, K M with blocks E_kl H_kl, lie between λ_min(H) min E_kk and λ_max(H) max E_kk",
            lambda r: _within(r, "drift", "random positive E and H"),
            _E,
            kind="derived",
        ),
        Claim("e-separates", "a constant positive E separates as well", lambda r: _parts(r, "general"), _E),
        Claim(
            "e-mixes",
            "a positive E that falls faster than 1/t as a whole leaves classes mixed",
            lambda r: _mixed(r, "falling"),
            _E,
            kind="derived",
        ),
        Claim(
            "e-indefinite",
            "a constant symmetric E with eigenvalues of both signs separates as well",
            lambda r: _parts(r, "indefinite"),
            elastic(section="5, E"),
            kind="derived",
        ),
        Claim(
            "d20-eigenvalues",
            "(D.20) pulls along d_j with p_j + (1 − p_j)/(K−1)², across it with (1 − p_j) K/(K−1)²",
            _eigenvalues,
            elastic("D.20, E.1"),
            kind="derived",
        ),
        Claim(
            "d20-path",
            "class means under (D.20) as the solver has them",
            lambda r: equal(float(r["mixture_missed"]), 0.0, 10 * SOLVER_ERROR, note="largest difference, relative"),
            elastic("D.20, E.1"),
            kind="derived",
        ),
        Claim(
            "slides-gamma",
            "γ = α − β > 0 and ≫ 1/t: classes separate, for any positive semi-definite H",
            _alone,
            _SLIDES,
        ),
        Claim(
            "slides-gamma-isotropic",
            "γ = α − β > 0 and ≫ 1/t: classes separate in the I-model, even with α < 0",
            lambda r: equal(float(r["isotropic"]), 1.0, rare(r), note="α = −0.5, β = −1, share of trials at t = 60"),
            _SLIDES,
            kind="derived",
        ),
    ),
    picture=Panels(_draw_shares, _draw_bounds, width=5.0, height=4.0),
    model="LocallyElastic",
    smoke={"draws": 2, "trials": 40},
    paper={"draws": 12, "trials": 200},
)
