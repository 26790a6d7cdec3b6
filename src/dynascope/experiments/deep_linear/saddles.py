"""Figure 2: saddle-to-saddle dynamics of a depth-6 network under four optimisers."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.reading import over_trials, time_to_reach
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.records import with_provenance

METHODS = ("gd", "sgd", "langevin", "isotropic")


@dataclass(frozen=True)
class Config:
    """Depth 6, five modes, learning rate 0.005, batch 1; the source does not print the modes' sizes."""

    depth: int = 6
    width: int = 12
    teacher: tuple[float, ...] = (1.0, 0.8, 0.6, 0.45, 0.3)
    init_exponent: float = 1.5
    duration: float = 150.0
    trials: int = 16
    dt: float = 0.005
    isotropic_noise: float = 1.0
    save_points: int = 301
    seed: int = 2


LAPTOP = Config()
SCALES = {
    "smoke": replace(
        LAPTOP, depth=4, teacher=(1.0, 0.6, 0.3), init_exponent=1.8, duration=60.0, save_points=121, dt=0.01
    ),
    "laptop": LAPTOP,
    "paper": replace(LAPTOP, trials=64, dt=1e-4, init_exponent=2.0, duration=400.0),
}
ORDER = Claim(
    "fig-2-order",
    "deep-linear Figure 2",
    "gd and SGD learn the modes in descending order of magnitude (mean over trials)",
)
RANK = Claim(
    "fig-2-rank",
    "deep-linear Figure 2",
    "rises of the numerical rank mark the modes: learning all but the last adds one rank each",
)
RETAINED = Claim(
    "fig-2-retained",
    "deep-linear Figure 2(d)",
    "stagewise dynamics are retained under SGD, but modes take longer to be learned",
)
NOISY_RANK = Claim(
    "fig-2-isotropic",
    "deep-linear section 1.2",
    "isotropic noise, unlike SGD's, raises the rank above that of the teacher",
)


def run(config: Config) -> xr.Dataset:
    """Train the same networks by all four optimisers."""
    begun = time.perf_counter()
    net = DeepLinear(config.depth, config.width, config.teacher, init_exponent=config.init_exponent)
    parts = []
    for method in METHODS:
        trained = net.simulate(
            config.duration,
            config.trials,
            method=method,
            seed=config.seed,
            save_points=config.save_points,
            isotropic_noise=config.isotropic_noise,
            dt=None if method in ("gd", "sgd") else config.dt,
        )
        kept = trained[["loss", "amplitude", "rank"]].assign(learned=time_to_reach(trained))
        parts.append(kept.drop_attrs(deep=False))
    record = xr.concat(parts, "optimiser", join="override").assign_coords(optimiser=list(METHODS))
    facts = {"width": config.width, "depth": config.depth, "teacher": net.singular_values}
    return with_provenance(
        record, "DeepLinear", facts, options=vars(config), seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Order and rank by passage times; SGD against gd on the same networks."""
    plain = record.sel(optimiser=["gd", "sgd"])
    gaps, error = over_trials(plain["learned"].diff("mode"))
    ranked = plain["rank"].isel(time=-1)
    final, final_error = over_trials(ranked.astype(float))
    modes = record.sizes["mode"]
    learned = record["learned"]
    ratio, ratio_error = over_trials(np.log(learned.sel(optimiser="sgd") / learned.sel(optimiser="gd")))
    excess, excess_error = over_trials(record["rank"].isel(time=-1).sel(optimiser="isotropic").astype(float))
    return (
        ORDER.exceeds(gaps, 0.0, three_errors(error), note="difference of learning times of neighbours"),
        RANK.equals(final, modes, three_errors(final_error) + 0.5, rival=1.0, standard_error=final_error,
                    note="rank at the end, gd and sgd; half a rank: the least mode is near the threshold"),
        RETAINED.corrects(np.exp(ratio), 1.0, 0.05 + three_errors(ratio_error), published=200 / 30,
                          standard_error=ratio_error, note="SGD over gd with the theory's loss; printed: section 4.1"),
        NOISY_RANK.exceeds(excess, modes, three_errors(excess_error), note="rank at the end, of 12"),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw losses and ranks of all methods, and modes under gd and SGD, for one network."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2, rows=2)
    one = record.isel(trial=0)
    for method, colour in zip(METHODS, PALETTE, strict=False):
        axes[0, 0].plot(one["time"], one["loss"].sel(optimiser=method), color=colour, label=method)
        axes[0, 1].step(one["time"], one["rank"].sel(optimiser=method), color=colour, label=method, where="post")
    axes[0, 0].set_yscale("log")
    for ax, method in zip(axes[1], ("gd", "sgd"), strict=True):
        for index in range(one.sizes["mode"]):
            name = f"s = {float(one['singular_value'][index]):g}"
            ax.plot(
                one["time"],
                one["amplitude"].sel(optimiser=method).isel(mode=index),
                color=PALETTE[index % 7],
                label=name,
            )
        ax.set_title(f"modes under {method}")
        ax.set_ylabel(axis_label(record["amplitude"]))
    axes[0, 0].set_ylabel(axis_label(record["loss"]))
    axes[0, 1].set_ylabel(axis_label(record["rank"]))
    for ax in axes.ravel():
        ax.set_xlabel(axis_label(record["time"]))
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="From saddle to saddle under four optimisers",
    source="deep-linear Figure 2",
    kind="figure",
    claims=(ORDER, RANK, RETAINED, NOISY_RANK),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
