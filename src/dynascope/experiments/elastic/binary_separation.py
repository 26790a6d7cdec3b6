"""elastic Theorem 2.1: Two classes part when α exceeds β.

In one dimension, and if and only if.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.elastic.separation import follows_law, rare
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import elastic
from dynascope.models.elastic import LocallyElastic
from dynascope.statistics.errors import Estimate

_START = np.array([[0.5], [-0.5]])
_MIXED_SAMPLES, _LATE = (2, 3, 4), 1e5  # by then noise has grown to 158 times the distance of the starts


@dataclass(frozen=True)
class Config:
    """Two classes of `samples` numbers each, for several α = −β: what the classes share then stays in place."""

    gaps: tuple[float, ...] = (-0.4, -0.2, -0.1, 0.0, 0.1, 0.2, 0.4)
    noise: float = 0.5
    times: tuple[float, ...] = (1.0, 10.0, 30.0, 100.0, 300.0)
    samples: int = 4
    trials: int = 400
    mixed_trials: int = 20_000
    seed: int = 21


def run(config: Config) -> xr.Dataset:
    """Decide the separation of simulated classes exactly, and compute its probability from the law."""
    simulated, law, paths, mixed = [], [], [], []
    for gap in config.gaps:
        model = LocallyElastic(2, 1, gap / 2, -gap / 2, "isotropic", noise=config.noise)
        mixed.append([_share_apart(model, samples, config) if gap <= 0 else np.nan for samples in _MIXED_SAMPLES])
        probability = partial(
            model.separation_probability, config.times, config.samples, start=_START, seed=config.seed
        )
        simulated.append(probability(trials=config.trials))
        law.append(probability(trials=40_000, direction=[1.0]))
        shown = model.simulate(30.0, samples=20, trials=1, start=_START, seed=config.seed)
        paths.append(shown["point"].isel(trial=0, feature=0).rename(time="path_time"))
    return xr.Dataset(
        {
            "separated": (("gap", "time"), np.stack(simulated)),
            "predicted": (("gap", "time"), np.stack(law)),
            "path": xr.concat(paths, "gap"),
            "mixed": (("gap", "mixed_samples"), np.array(mixed)),
        },
        coords={
            "gap": ("gap", list(config.gaps), {"long_name": "α − β"}),
            "time": list(config.times),
            "mixed_samples": list(_MIXED_SAMPLES),
        },
    )


def _share_apart(model: LocallyElastic, samples: int, config: Config) -> float:
    """Share of trials in which all samples of one class lie above those of the other, at a very late time."""
    options: dict[str, Any] = {"start": _START, "seed": config.seed, "save_points": [_LATE]}
    run = model.simulate(_LATE, samples=samples, trials=config.mixed_trials, **options)
    one, other = run["point"].isel(time=-1, feature=0).transpose("class", "trial", "sample").values
    return float(((one.min(axis=1) > other.max(axis=1)) | (other.min(axis=1) > one.max(axis=1))).mean())


def _parts(record: xr.Dataset) -> Judgement:
    last = record.sel(gap=record["gap"] > 0).isel(time=-1)
    note = f"at t = {float(last['time']):g}, α − β = {last['gap'].values}"
    return equal(last["separated"].values, 1.0, rare(record), note=note)


def _mixes(record: xr.Dataset) -> Judgement:
    """At α = β the rival is zero, below it is chance, which a law of 2n alike samples gives."""
    found = record["mixed"].sel(gap=record["gap"] <= 0)
    alike = np.broadcast_to([2 / comb(2 * n, n) for n in found["mixed_samples"].values], found.shape)
    level = (found["gap"] == 0).values[:, None]
    trials = settings(record).mixed_trials
    share = Estimate(found.values, np.sqrt(alike * (1 - alike) / trials))
    note = (
        f"at t = {_LATE:g}, n = {found['mixed_samples'].values}, α − β = {found['gap'].values}: below 0 the class means"
        " are held together, which chance leaves free; bound: 3 of the trials, where a share of 0 has no error"
    )
    return equal(share, np.where(level, alike, 0.0), 3 / trials, rival=np.where(level, 0.0, alike), note=note)


def _draw_samples(record: xr.Dataset, ax: Axes, *, extreme: Callable[[np.ndarray], int]) -> None:
    """Samples over time at the smallest or the largest gap."""
    shown = record.isel(gap=int(extreme(record["gap"].values)))
    for colour, points in zip(plots.PALETTE, shown["path"].transpose("class", ...), strict=False):
        ax.plot(record["path_time"], points.transpose("path_time", "sample"), color=colour, linewidth=0.5)
    ax.set(title=f"α − β = {float(shown['gap']):g}", xlabel="time (iterations × step size)", ylabel="feature")


def _draw_probability(record: xr.Dataset, ax: Axes) -> None:
    """Simulated shares and their law across the transition."""
    for colour, when in zip(plots.PALETTE, record["time"].values, strict=False):
        ax.plot(record["gap"], record["separated"].sel(time=when), "o", color=colour, label=f"t = {when:g}")
        ax.plot(record["gap"], record["predicted"].sel(time=when), color=colour)
    ax.axvline(0.0, color="black", linewidth=0.6)
    ax.set(xlabel=plots.axis_label(record["gap"]), ylabel="probability of separation")


EXPERIMENT = Experiment(
    elastic(theorem="Theorem 2.1"),
    Config(),
    run,
    claims=(
        Claim("thm-2-1-parts", "α > β: two classes separate with probability tending to one", _parts),
        Claim(
            "thm-2-1-mixes",
            "the probability of separation tends to zero if α < β; at α = β, with n samples in each class, to that of "
            "chance, 2 n!²/(2n)!, and to zero with n",
            _mixes,
            elastic(theorem="Theorem 2.1", place="footnote 5"),
        ),
        Claim(
            "thm-2-1-law",
            "the probability of separation follows from the Gaussian law of the model",
            partial(follows_law, note="all gaps and times at which the law is neither 0 nor 1"),
            elastic("2"),
            kind="derived",
        ),
    ),
    picture=Panels(
        partial(_draw_samples, extreme=np.argmin), partial(_draw_samples, extreme=np.argmax), _draw_probability
    ),
    model="LocallyElastic",
    smoke={"trials": 100, "mixed_trials": 4000},
    paper={
        "gaps": tuple(np.linspace(-0.4, 0.4, 17).round(3).tolist()),
        "times": (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0),  # until a gap of 0.05, too, has had its time
        "trials": 4000,
        "mixed_trials": 100_000,
    },
)
