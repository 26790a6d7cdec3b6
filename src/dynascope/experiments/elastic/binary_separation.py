"""elastic Theorem 2.1: Two classes part when α exceeds β.

In one dimension, and if and only if.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.elastic.separation import chance, follows_law, rare, share_error
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic import LocallyElastic
from dynascope.statistics.errors import Estimate

_START = np.array([[0.5], [-0.5]])


@dataclass(frozen=True)
class Config:
    """Two classes of `samples` numbers each, for several α = −β: what the classes share then stays in place."""

    gaps: tuple[float, ...] = (-0.4, -0.2, -0.1, 0.0, 0.1, 0.2, 0.4)
    noise: float = 0.5
    times: tuple[float, ...] = (1.0, 10.0, 30.0, 100.0, 300.0)
    samples: int = 4
    trials: int = 400
    seed: int = 21


def run(config: Config) -> xr.Dataset:
    """Decide the separation of simulated classes exactly, and compute its probability from the law."""
    simulated, law, paths = [], [], []
    for gap in config.gaps:
        model = LocallyElastic(2, 1, gap / 2, -gap / 2, "isotropic", noise=config.noise)
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
        },
        coords={"gap": ("gap", list(config.gaps), {"long_name": "α − β"}), "time": list(config.times)},
    )


def _parts(record: xr.Dataset) -> Judgement:
    last = record.sel(gap=record["gap"] > 0).isel(time=-1)
    note = f"at t = {float(last['time']):g}, α − β = {last['gap'].values}"
    return equal(last["separated"].values, 1.0, rare(record), note=note)


def _mixes(record: xr.Dataset) -> Judgement:
    last, expected = record.sel(gap=record["gap"] <= 0).isel(time=-1), chance(record)
    share = Estimate(last["separated"].values, share_error(np.full(last.sizes["gap"], expected), record))
    note = f"chance: {expected:.3g}; at α − β = {last['gap'].values}; bound 0.01: start 1 apart, noise 8.7"
    return equal(share, expected, 0.01, rival=1.0, note=note)


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
            "α ≤ β: with n samples in each class the probability tends to that of chance, 2 n!²/(2n)!, and to zero "
            "with n",
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
    smoke={"trials": 100},
    paper={"gaps": tuple(np.linspace(-0.4, 0.4, 17).round(3).tolist()), "trials": 4000},
)
