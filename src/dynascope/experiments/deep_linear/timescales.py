"""deep-linear Figure 3: SGD beside its continuous limit.

How long SGD takes with the theory's loss and with the mean-reduced one.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, corrected, equal
from dynascope.experiments.deep_linear.drawing import each_mode
from dynascope.experiments.deep_linear.reading import PRINTED_SLOWDOWN, peak_time, time_to_reach
from dynascope.experiments.experiment import Experiment, Figure, settings
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import Estimate, over_trials

METHODS = ("gd", "sgd", "langevin", "sgd, mean loss")
SMALLER = 0.5  # added to the exponent γ of the initial weights


@dataclass(frozen=True)
class Config:
    """Depth 4, width 12, learning rate 0.005, batch 1; all methods start from the same weights."""

    depth: int = 4
    width: int = 12
    init_exponent: float = 2.0
    duration: float = 60.0
    trials: int = 64
    dt: float = 0.0025
    save_points: int = 301
    seed: int = 3


def run(config: Config) -> xr.Dataset:
    """Train the same networks by every method."""
    net = DeepLinear(config.depth, config.width, init_exponent=config.init_exponent)
    parts = []
    for method in METHODS:
        mean = method.endswith("mean loss")
        trained = net.simulate(
            config.duration * (config.width / 2 if mean else 1),
            config.trials,
            method=method.split(",")[0],
            seed=config.seed,
            save_points=config.save_points,
            reduction="mean" if mean else "sum",
            dt=config.dt if method == "langevin" else None,
        )
        one = trained[["amplitude", "diffusion", "predicted_diffusion"]].isel(trial=0, drop=True)
        part = (
            one.rename(time="save")
            .drop_vars("save")
            .assign(
                clock=("save", trained["time"].values),
                learned=time_to_reach(trained).reset_coords(drop=True),
                peak=peak_time(trained["diffusion"]).reset_coords(drop=True),
                width=_above_half(trained).reset_coords(drop=True),
            )
        )
        parts.append(part.drop_attrs(deep=False))
    record = xr.concat(parts, "optimiser").assign_coords(optimiser=list(METHODS)).assign(_from_smaller(config))
    record["learned"].attrs.update(long_name="time at which the mode is learned", units="steps × step size")
    return record


def _from_smaller(config: Config) -> dict[str, xr.DataArray]:
    """When gd from smaller weights has learned the modes, and how long their diffusion stays above half of its peak.

    Weights that are c times as large wait c^(2−L) times as long.
    """
    net = DeepLinear(config.depth, config.width, init_exponent=config.init_exponent + SMALLER)
    longer = config.width ** (SMALLER * (config.depth - 2) / 2)
    trained = net.simulate(
        longer * config.duration, config.trials, method="gd", seed=config.seed, save_points=2 * config.save_points
    )
    return {
        "smaller_learned": time_to_reach(trained).reset_coords(drop=True),
        "smaller_width": _above_half(trained).reset_coords(drop=True),
    }


def _above_half(trained: xr.Dataset) -> xr.DataArray:
    """Time for which each mode's diffusion is above half of its peak."""
    high = trained["diffusion"] > trained["diffusion"].max("time") / 2
    return high.mean("time") * float(trained["time"][-1])


def _ratio(learned: xr.DataArray, slow: str, fast: str) -> Estimate:
    """Mean over trials of the logarithm of paired times: same weights, so that most of the spread cancels."""
    log = over_trials(np.log(learned.sel(optimiser=slow) / learned.sel(optimiser=fast)))
    return Estimate(np.exp(log.mean), log.error * np.exp(log.mean), log.runs)


def _same(record: xr.Dataset) -> Judgement:
    ratio, error = _ratio(record["learned"].max("mode"), "sgd", "langevin")
    note = "the printed difference is that of the loss normalisation; ratio of times until all modes are learned"
    return corrected(ratio, 1.0, 0.05, published=PRINTED_SLOWDOWN, error=error, note=note)


def _mean_loss(record: xr.Dataset) -> Judgement:
    half = settings(record).width / 2
    slower, error = _ratio(record["learned"], "sgd, mean loss", "gd")
    note = "mean-reduced SGD over gd, divided by outputs/2; per mode"
    return equal(slower / half, 1.0, 0.05, rival=1 / half, error=error / half, note=note)


def _each_mode(record: xr.Dataset) -> Judgement:
    pairs = (("sgd", "gd"), ("langevin", "gd"), ("sgd", "langevin"))
    ratio, error = map(np.concatenate, zip(*(_ratio(record["learned"], *pair) for pair in pairs), strict=True))
    return equal(ratio, 1.0, 0.05, rival=PRINTED_SLOWDOWN, error=error, note="sgd/gd, langevin/gd, sgd/langevin")


def _peaks(record: xr.Dataset) -> Judgement:
    lead = (record["learned"] - record["peak"]).sel(optimiser=["sgd", "langevin"])
    return above(over_trials(lead), 0.0, note="learned minus peak, per method and mode")


def _abrupt(record: xr.Dataset) -> Judgement:
    width = record["width"]
    log = over_trials(np.log(width.sel(optimiser="sgd") / width.sel(optimiser="langevin")))
    note = "logarithm of SGD's time above half of the peak over that of Langevin dynamics, per mode, theory's loss"
    return below(log, 0.0, note=note)


def _start(record: xr.Dataset) -> Judgement:
    """Beside the time until the last mode is learned, which is the length of the figure's axis."""
    gd = record.sel(optimiser="gd")
    share, smaller = (
        widths / learned.max("mode")
        for widths, learned in (
            (gd["width"], gd["learned"]),
            (record["smaller_width"], record["smaller_learned"]),
        )
    )
    note = (
        f"logarithm of the share of the time until all modes are learned, γ + {SMALLER:g} over γ, gd, per mode. All "
        f"modes take {float((record['smaller_learned'] / gd['learned']).max('mode').mean()):.1f} times longer"
    )
    return below(over_trials(np.log(smaller / share)), 0.0, note=note)


def _picture(record: xr.Dataset) -> Figure:
    """Amplitudes and diffusion of one network under each method."""
    figure, axes = plots.new_figure(columns=len(METHODS), rows=2, width=3.6, height=2.8)
    for (top, bottom), method in zip(axes.T, METHODS, strict=True):
        for mode, colour, label in each_mode(record.sel(optimiser=method)):
            top.plot(mode["clock"], mode["amplitude"], color=colour, label=label)
            bottom.plot(mode["clock"], mode["diffusion"], color=colour)
            bottom.plot(mode["clock"], mode["predicted_diffusion"], color=colour, linestyle="--", linewidth=0.9)
        top.set_title(method)
        bottom.set_xlabel("time (steps × step size)")
    axes[0, 0].set_ylabel("mode amplitude")
    axes[1, 0].set_ylabel("diffusion; dashed: (7)")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    deep_linear(figure="3"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-3-same-time",
            "SGD learns all modes several times slower than anisotropic Langevin dynamics (200 against 30 time units)",
            _same,
            deep_linear(figure="3", section="4.1"),
        ),
        Claim(
            "fig-3-mean-loss",
            "with the loss averaged over outputs SGD is slower by outputs/2, which is what the figure shows",
            _mean_loss,
            deep_linear(section="H.1"),
            kind="derived",
        ),
        Claim(
            "fig-3-modes",
            "gd, SGD and Langevin dynamics learn each mode at the same time, within 5 %",
            _each_mode,
            deep_linear(equation="1", figure="3"),
            kind="derived",
        ),
        Claim(
            "fig-3-peaks",
            "under SGD and under Langevin dynamics the diffusion peaks before the mode is learned",
            _peaks,
        ),
        Claim(
            "fig-3-abrupt",
            "SGD has more abrupt peaks of diffusion than Langevin dynamics: shorter above half of their height",
            _abrupt,
            deep_linear(section="4.1"),
            settles_at="laptop",
            why=("fig-3-modes, both take the same path", "fig-3-start, smaller initial weights make peaks abrupt"),
        ),
        Claim(
            "fig-3-start",
            "from smaller initial weights modes take longer and peaks of diffusion are more abrupt on that axis",
            _start,
            deep_linear(section="4.1, H.2"),
            kind="own",
        ),
    ),
    picture=_picture,
    smoke={"init_exponent": 1.5, "duration": 26.0, "trials": 32, "dt": 0.005, "save_points": 131},
    paper={"trials": 256, "dt": 1e-4, "duration": 80.0},
    model="DeepLinear",
    adapted="initial weights with γ = 2 for the source's 3",
)
