"""deep-linear Figure 2: From saddle to saddle under four optimisers.

A network of depth 6 learns one mode after another.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, corrected, equal
from dynascope.experiments.deep_linear.drawing import each_mode
from dynascope.experiments.deep_linear.reading import PRINTED_SLOWDOWN, time_to_reach
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import Estimate, over_trials

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


def run(config: Config) -> xr.Dataset:
    """Train the same networks by all four optimisers."""
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
    return xr.concat(parts, "optimiser", join="override").assign_coords(optimiser=list(METHODS))


def _order(record: xr.Dataset) -> Judgement:
    gaps = record["learned"].sel(optimiser=["gd", "sgd"]).diff("mode")
    return above(over_trials(gaps), 0.0, note="difference of learning times of neighbours")


def _final_rank(record: xr.Dataset, *methods: str) -> Estimate:
    return over_trials(record["rank"].isel(time=-1).sel(optimiser=list(methods)).astype(float))


def _rank(record: xr.Dataset) -> Judgement:
    note = "rank at the end, gd and sgd; half a rank: the least mode is near the threshold"
    return equal(_final_rank(record, "gd", "sgd"), record.sizes["mode"], 0.5, rival=1.0, note=note)


def _retained(record: xr.Dataset) -> Judgement:
    learned = record["learned"]
    log, error = over_trials(np.log(learned.sel(optimiser="sgd") / learned.sel(optimiser="gd")))
    note = "SGD over gd with the theory's loss; printed: section 4.1"
    return corrected(Estimate(np.exp(log), error), 1.0, 0.05, published=PRINTED_SLOWDOWN, error=error, note=note)


def _draw_methods(record: xr.Dataset, ax: Axes, *, name: str) -> None:
    """Loss or rank of one network under all methods."""
    for method, colour in zip(METHODS, plots.PALETTE, strict=False):
        values = record[name].isel(trial=0).sel(optimiser=method)
        style = "steps-post" if name == "rank" else "default"
        ax.plot(record["time"], values, color=colour, label=method, drawstyle=style)
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel=plots.axis_label(record[name]))
    ax.set_yscale("log" if name == "loss" else "linear")


def _draw_modes(record: xr.Dataset, ax: Axes, *, method: str) -> None:
    for mode, colour, label in each_mode(record.isel(trial=0).sel(optimiser=method)):
        ax.plot(record["time"], mode["amplitude"], color=colour, label=label)
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel=plots.axis_label(record["amplitude"]))
    ax.set_title(f"modes under {method}")


EXPERIMENT = Experiment(
    deep_linear(figure="2"),
    Config(),
    run,
    claims=(
        Claim("fig-2-order", "gd and SGD learn the modes in descending order of magnitude (mean over trials)", _order),
        Claim(
            "fig-2-rank",
            "rises of the numerical rank mark the modes: learning all but the last adds one rank each",
            _rank,
        ),
        Claim(
            "fig-2-retained",
            "stagewise dynamics are retained under SGD, but modes take longer to be learned",
            _retained,
            deep_linear(figure="2(d)"),
        ),
        Claim(
            "fig-2-isotropic",
            "isotropic noise, unlike SGD's, raises the rank above that of the teacher",
            lambda record: above(_final_rank(record, "isotropic"), record.sizes["mode"], note="rank at the end, of 12"),
            deep_linear(section="1.2"),
        ),
    ),
    picture=Panels(
        partial(_draw_methods, name="loss"),
        partial(_draw_methods, name="rank"),
        partial(_draw_modes, method="gd"),
        partial(_draw_modes, method="sgd"),
        columns=2,
    ),
    smoke={
        "depth": 4,
        "teacher": (1.0, 0.6, 0.3),
        "init_exponent": 1.8,
        "duration": 60.0,
        "save_points": 121,
        "dt": 0.01,
    },
    paper={"trials": 64, "dt": 1e-4, "init_exponent": 2.0, "duration": 400.0},
    model="DeepLinear",
    adapted="sizes of the modes, which the source leaves out, and initial weights with γ = 2 for its 3",
)
