"""elastic (C.1)–(C.3), Definition C.1–C.5: What it means that classes part.

Pairwise, along one direction for all, at one time and for all later times.
"""

from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float
from scipy.optimize import linprog

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, corrected, equal
from dynascope.experiments.elastic.separation import rare
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import elastic
from dynascope.measure.hyperplanes import pairwise_separable, separating_direction
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.strengths import PowerLaw

_CLASSES = 3
_TAILS = {"slow": 0.75, "fast": 1.5}  # tail index of α − β
_KINDS = ("pairwise", "along own directions", "along one direction")
_LAST = 1e8
_DEFINITIONS = {number: elastic(theorem=f"Definition C.{number}") for number in range(1, 6)}


@dataclass(frozen=True)
class Config:
    """I-models in the plane with slow and fast tails of α − β, at times that lie evenly on a logarithmic scale."""

    times: int = 33
    samples: int = 10
    trials: int = 100
    clouds: int = 300
    seed: int = 43


def run(config: Config) -> xr.Dataset:
    """Decide every kind of separation at every time, and clouds near the border by a linear program as well."""
    times = np.geomspace(1.0, _LAST, config.times)
    shares = xr.concat([_follow(config, index, times) for index in _TAILS.values()], xr.Variable("tail", list(_TAILS)))
    random = np.random.default_rng(config.seed)
    clouds = random.standard_normal((config.clouds, _CLASSES, 6, 2)) + random.uniform(
        0.0, 6.0, (config.clouds, 1, 1, 1)
    ) * (np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])[:, None] / 2)
    decided = [[pairwise_separable(each), _by_program(each)] for each in clouds]
    held = xr.Dataset(
        {"own_only": (("cloud", "definition"), [_own_only(random, config.samples) for _ in range(config.clouds)])}
    )
    return shares.assign(decided=(("cloud", "way"), decided)).assign_coords(time=times).merge(held)


def _follow(config: Config, index: float, times: np.ndarray) -> xr.Dataset:
    """Whether classes are apart, (kind, trial, time): the directions are those of the class means at the start."""
    near = 1.0 if index < 1 else 8.0  # so that the probability has room to rise, or to fall
    start = near * np.array([[1.0, 0.3], [-0.8, 0.9], [-0.4, -0.9]])
    model = LocallyElastic(_CLASSES, 2, PowerLaw(1.0, index), 0.0, "isotropic", noise=1.0)
    given: dict[str, Any] = {"samples": config.samples, "trials": config.trials, "seed": config.seed, "start": start}
    points = model.simulate(_LAST, save_points=times, **given)["point"].transpose("trial", "time", ...).values
    pairs = [(k, l, start[k] - start[l]) for k, l in combinations(range(_CLASSES), 2)]  # noqa: E741
    one = separating_direction(start)
    apart = [
        np.array([[pairwise_separable(each) for each in trial] for trial in points]),
        np.all([_apart(points, *pair) for pair in pairs], axis=0),
        np.all([_apart(points, k, other, one) for k, other, _ in pairs], axis=0),
    ]
    return xr.Dataset({"apart": (("kind", "trial", "time"), apart)}, coords={"kind": list(_KINDS)})


def _apart(
    points: Float[np.ndarray, "trial time class sample feature"], k: int, other: int, direction: np.ndarray
) -> Bool[np.ndarray, "trial time"]:
    """Whether two classes fill disjoint intervals along a direction (C.1), whichever is above."""
    one, two = points[:, :, k] @ direction, points[:, :, other] @ direction
    return np.asarray((one.min(axis=-1) > two.max(axis=-1)) | (two.min(axis=-1) > one.max(axis=-1)))


def _by_program(cloud: Float[np.ndarray, "class sample feature"]) -> bool:
    """(C.1) for all pairs as a linear program: ν and c with ν·x ≥ c + 1 on one side, ≤ c − 1 on the other."""
    for one, two in combinations(cloud, 2):
        rows = np.concatenate([np.c_[-one, np.ones(len(one))], np.c_[two, -np.ones(len(two))]])
        if not _solvable(rows):
            return False
    return True


def _own_only(random: np.random.Generator, samples: int) -> list[bool]:
    """Whether three classes at rest part in pairs, and whether along one direction.

    Two of them spread so far, each where another lies apart from the first, that one direction would have to be the
    third axis, along which the first two classes lie together.
    """
    centres, spread = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1]]), np.full((3, 3), 0.05)
    spread[1, 1] = spread[2, 0] = 50.0
    cloud = centres[:, None] + spread[:, None] * random.standard_normal((_CLASSES, samples, 3))
    return [_by_program(cloud), _along_one(cloud)]


def _along_one(cloud: Float[np.ndarray, "class sample feature"]) -> bool:
    """Whether classes fill disjoint intervals along some direction: a linear program for each order of them."""
    for order in permutations(cloud):
        rows = np.concatenate([(low[:, None] - high).reshape(-1, cloud.shape[-1]) for low, high in pairwise(order)])
        if _solvable(rows):
            return True
    return False


def _solvable(rows: Float[np.ndarray, "row unknown"]) -> bool:
    """Whether some x has rows @ x ≤ −1, by a linear program."""
    return bool(linprog(np.zeros(rows.shape[1]), rows, -np.ones(len(rows)), bounds=(None, None)).status == 0)


def _from_then_on(apart: np.ndarray) -> np.ndarray:
    """Whether it holds at each time and at all later ones, along the last axis."""
    return np.asarray(np.logical_and.accumulate(apart[..., ::-1], axis=-1)[..., ::-1])


def _values(record: xr.Dataset, tail: str, kind: str) -> np.ndarray:
    return np.asarray(record["apart"].sel(tail=tail, kind=kind).transpose("trial", "time").values.astype(bool))


def _agrees(record: xr.Dataset) -> Judgement:
    ours, program = record["decided"].transpose("way", "cloud").values.astype(bool)
    note = f"clouds decided otherwise by a linear program, of {len(ours)}, {int(ours.sum())} of them separable"
    return equal(float((ours != program).sum()), 0.0, note=note)


def _at_last(record: xr.Dataset, kind: str) -> Judgement:
    note = f"share of {settings(record).trials} trials at t = {_LAST:g}, tail index {_TAILS['slow']}"
    return equal(_values(record, "slow", kind)[:, -1].mean(), 1.0, rare(record), note=note)


def _uniform(record: xr.Dataset, kind: str) -> Judgement:
    """Shares that stay apart from a time on rise with it, and are 1 for the later half of the times."""
    stay = _from_then_on(_values(record, "slow", kind)).mean(axis=0)
    half = record.sizes["time"] * 3 // 4
    at = record["time"].values
    listed = ", ".join(f"{at[i]:.2g}: {stay[i]:.2f}" for i in range(0, len(at), max(1, len(at) // 6)))
    note = f"apart at all times of the grid from t = {at[half]:.2g} on, directions of the start; from t on: {listed}"
    return equal(stay[half], 1.0, rare(record), note=note)


def _increasing(record: xr.Dataset) -> Judgement:
    """Classes at rest part at all times along their own directions, or along one, as they do at one time."""
    own, one = record["own_only"].transpose("definition", "cloud").values.astype(bool)
    note = "share of clouds at rest that part along one direction, of those that part in pairs; few do, by chance"
    return corrected(one[own].mean(), 0.0, 0.1, published=1.0, note=note)


def _implied(record: xr.Dataset) -> Judgement:
    """Cases in which a stronger kind holds and a weaker one does not, and in which only the weaker one does."""
    wrong, only = [], []
    for tail in _TAILS:
        pairs, own, one = (_values(record, tail, kind) for kind in _KINDS)
        for weaker, stronger in (
            (pairs, own),
            (pairs, one),
            (one, _from_then_on(one)),
            (own, _from_then_on(own)),
        ):
            wrong.append(int((stronger & ~weaker).sum()))
            only.append(int((weaker & ~stronger).sum()))
    strict = np.reshape(only, (len(_TAILS), -1)).sum(axis=0)
    note = f"cases against it; only the weaker one holds in {strict.tolist()}"
    return below([float(sum(wrong)), *(-strict.astype(float))], [1.0, *[0.0] * len(strict)], note=note)


def _mixed(record: xr.Dataset) -> Judgement:
    shares = [_values(record, "fast", kind)[:, -1].mean() for kind in _KINDS]
    return equal(shares, 0.0, rare(record), note=f"share of trials at t = {_LAST:g}, tail index {_TAILS['fast']}")


def _falls(record: xr.Dataset) -> Judgement:
    """Pairwise separation is likelier early in a fast tail than late."""
    early = _values(record, "fast", "pairwise").mean(axis=0)
    return above(early[: len(early) // 4].max() - early[-1], 0.5, note="largest share early less that at the end")


def _draw(record: xr.Dataset, ax: Axes) -> None:
    for tail, style in zip(_TAILS, ("-", ":"), strict=True):
        for colour, kind in zip(plots.PALETTE, _KINDS, strict=False):
            share = _values(record, tail, kind).mean(axis=0)
            ax.semilogx(record["time"], share, style, color=colour, label=f"{kind}, {tail} tail")
    stay = _from_then_on(_values(record, "slow", _KINDS[2])).mean(axis=0)
    ax.semilogx(record["time"], stay, "--", color="black", label="one direction, from then on, slow tail")
    ax.set(xlabel="time (iterations × step size)", ylabel="share of trials with classes apart")


EXPERIMENT = Experiment(
    elastic("C.1–C.3", theorem="Definition C.1–C.5"),
    Config(),
    run,
    claims=(
        Claim(
            "def-c1-planes",
            "classes are pairwise separable where a direction orders each two: exact decision and linear program",
            _agrees,
            elastic("C.1", theorem="Definition C.1"),
            kind="derived",
        ),
        Claim(
            "def-c2-pairwise",
            "γ ≫ 1/t: classes are asymptotically pairwise separable",
            lambda r: _at_last(r, _KINDS[0]),
            elastic("C.2", theorem="Definition C.2"),
        ),
        Claim(
            "def-c3-universal",
            "γ ≫ 1/t: so they are along one direction for all",
            lambda r: _at_last(r, _KINDS[2]),
            _DEFINITIONS[3],
        ),
        Claim(
            "def-c4-uniform",
            "γ ≫ 1/t: fixed directions separate the pairs at all later times",
            lambda r: _uniform(r, _KINDS[1]),
            elastic("C.3", theorem="Definition C.4"),
        ),
        Claim(
            "def-c5-uniform",
            "γ ≫ 1/t: one fixed direction separates all classes at all later times",
            lambda r: _uniform(r, _KINDS[2]),
            _DEFINITIONS[5],
        ),
        Claim(
            "def-order",
            "Definitions C.3 and C.4 imply C.2, C.5 implies both, and none is implied by what it implies",
            _implied,
            elastic(theorem="Definition C.1–C.5"),
            "derived",
        ),
        Claim(
            "def-increasing",
            "they are of increasing strength: where C.4 holds, C.3 does",
            _increasing,
            elastic(theorem="Definition C.1–C.5"),
        ),
        Claim(
            "def-mixed", "γ ≪ 1/t: classes are apart in no such sense", _mixed, elastic(theorem="Definition C.1–C.5")
        ),
        Claim(
            "def-mixed-falls",
            "classes that lie apart early mix late where γ ≪ 1/t",
            _falls,
            _DEFINITIONS[2],
            kind="own",
        ),
    ),
    picture=Panels(_draw, width=6.5, height=4.5),
    model="LocallyElastic",
    smoke={"times": 17, "trials": 30, "clouds": 60},
    paper={"times": 49, "trials": 200, "clouds": 2000},
    adapted="at a grid of times up to 1e8",
)
