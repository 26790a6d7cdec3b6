"""Theorem 2.1: two classes in one dimension part if and only if the strength within a class exceeds that between."""

import time
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.elastic import LocallyElastic
from dynascope.records import attribute, with_provenance


@dataclass(frozen=True)
class Config:
    """Two classes of `samples` numbers each, for several α = −β: what the classes share then stays in place."""

    gaps: tuple[float, ...] = (-0.4, -0.2, -0.1, 0.0, 0.1, 0.2, 0.4)
    noise: float = 0.5
    times: tuple[float, ...] = (1.0, 10.0, 30.0, 100.0, 300.0)
    samples: int = 4
    trials: int = 400
    seed: int = 21


SCALES = {
    "smoke": Config(trials=100),
    "laptop": Config(),
    "paper": Config(gaps=tuple(np.linspace(-0.4, 0.4, 17).round(3).tolist()), trials=4000),
}
START = np.array([[0.5], [-0.5]])
PART = Claim("thm-2-1-parts", "elastic Theorem 2.1", "α > β: two classes separate with probability tending to one")
MIX = Claim(
    "thm-2-1-mixes",
    "elastic Theorem 2.1, footnote 5",
    "α ≤ β: with n samples in each class the probability tends to that of chance, 2 n!²/(2n)!, and to zero with n",
)
LAW = Claim(
    "thm-2-1-law", "elastic (2), derived", "the probability of separation follows from the Gaussian law of the model"
)


def run(config: Config) -> xr.Dataset:
    """Decide the separation of simulated classes exactly, and compute its probability from the law."""
    begun = time.perf_counter()
    simulated, law, paths = [], [], []
    for gap in config.gaps:
        model = LocallyElastic(2, 1, gap / 2, -gap / 2, "isotropic", noise=config.noise)
        options: dict[str, Any] = {"samples": config.samples, "start": START, "seed": config.seed}
        simulated.append(model.separation_probability(config.times, trials=config.trials, **options))
        law.append(model.separation_probability(config.times, trials=40_000, direction=[1.0], **options))
        shown = model.simulate(30.0, samples=20, trials=1, start=START, seed=config.seed)
        paths.append(shown["point"].isel(trial=0, feature=0))
    record = xr.Dataset(
        {
            "separated": (("gap", "time"), np.stack(simulated)),
            "predicted": (("gap", "time"), np.stack(law)),
            "path": xr.concat([p.rename(time="path_time") for p in paths], "gap"),
        },
        coords={"gap": list(config.gaps), "time": list(config.times)},
    )
    record["gap"].attrs["long_name"] = "α − β"
    parameters = {"classes": 2, "features": 1, "noise": config.noise, "geometry": "isotropic"}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record, "LocallyElastic", parameters, options=vars(config), seed=config.seed, precision="float64",
        wall_time=wall_time,
    )  # fmt: skip


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare shares of separated trials with the law and with the limits of the theorem."""
    options = attribute(record, "options")
    gap, separated, law = (record[name].values for name in ("gap", "separated", "predicted"))
    trials, chance = options["trials"], 2 / comb(2 * options["samples"], options["samples"])
    error = np.sqrt(law * (1 - law) / trials)
    rare = 3 / trials  # a share of 0 or 1 has no error of its own
    uncertain = (law > 0.02) & (law < 0.98)
    limit = np.sqrt(chance * (1 - chance) / trials)
    return (
        PART.equals(separated[gap > 0, -1], 1.0, rare, note=f"at t = {options['times'][-1]:g}, α − β = {gap[gap > 0]}"),
        MIX.equals(
            separated[gap <= 0, -1], chance, three_errors(np.full(np.sum(gap <= 0), limit)) + 0.01,
            rival=1.0, standard_error=limit,
            note=f"chance: {chance:.3g}; at α − β = {gap[gap <= 0]}; bound 0.01: start 1 apart, noise 8.7",
        ),
        LAW.equals(
            separated[uncertain], law[uncertain], three_errors(error[uncertain]) + rare,
            note="all gaps and times at which the law is neither 0 nor 1",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the samples over time on either side of the transition, and the probability across it."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=3)
    gap = record["gap"].values
    for ax, index in zip(axes[0, :2], (int(np.argmin(gap)), int(np.argmax(gap))), strict=True):
        for colour, points in zip(PALETTE, record["path"].isel(gap=index).transpose("class", ...), strict=False):
            ax.plot(record["path_time"], points.transpose("path_time", "sample"), color=colour, linewidth=0.5)
        ax.set_title(f"α − β = {gap[index]:g}")
        ax.set_xlabel("time (iterations × step size)")
        ax.set_ylabel("feature")
    ax = axes[0, 2]
    for colour, when in zip(PALETTE, record["time"].values, strict=False):
        ax.plot(gap, record["separated"].sel(time=when), "o", color=colour, label=f"t = {when:g}")
        ax.plot(gap, record["predicted"].sel(time=when), color=colour)
    ax.axvline(0.0, color="black", linewidth=0.6)
    ax.set_xlabel(axis_label(record["gap"]))
    ax.set_ylabel("probability of separation")
    ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Two classes part when α exceeds β",
    source="elastic Theorem 2.1",
    kind="equation",
    claims=(PART, MIX, LAW),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
