"""Proposition 5.2 in the network itself: mean and variance of learned modes under label noise, over a stated window."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.deep_linear.reading import over_trials
from dynascope.experiments.registry import Experiment
from dynascope.models.deep_linear import DeepLinear
from dynascope.records import attribute, with_provenance

DEPTH, NOISE, RATE = 4, 0.5, 0.005
NETWORKS = {"one mode": (1, (1.0,)), "width 12": (12, (1.0, 0.7, 0.4))}


@dataclass(frozen=True)
class Config:
    """SGD from the teacher itself, watched over times `begin` to `end`; the slowest mode relaxes within 1."""

    begin: float = 3.0
    end: float = 7.0
    save_points: int = 17
    trials: tuple[int, int] = (16_384, 1024)  # of one mode, and of width 12
    seed: int = 4


SCALES = {
    "smoke": Config(trials=(8192, 256)),
    "laptop": Config(),
    "paper": Config(trials=(60_000, 8192)),
}
VARIANCE = Claim(
    "eq18-network", "deep-linear (18)", "label noise spreads a learned mode with variance (η L/2b) σ_q² s^{2(L−1)/L}"
)
MEAN = Claim(
    "eq17-network",
    "deep-linear (17), below (18)",
    "label noise holds a learned mode slightly above s, by (η/2b)(L−1) s^{−2/L} σ_q",
)
BELOW = Claim("eq17-wide", "derived", "in a network of width 12 too, learned modes lie below s on average")


def run(config: Config) -> xr.Dataset:
    """Mean over the window and mean square distance from s, for every trial."""
    begun = time.perf_counter()
    moments = np.linspace(config.begin, config.end, config.save_points)
    record = xr.Dataset()
    for (name, (width, teacher)), trials in zip(NETWORKS.items(), config.trials, strict=True):
        net = DeepLinear(DEPTH, width, teacher, learning_rate=RATE, label_noise=NOISE)
        start = net.aligned_weights(net.singular_values)
        trained = net.simulate(config.end, trials, method="sgd", seed=config.seed, save_points=moments, start=start)
        shift = (trained["amplitude"] - trained["singular_value"]).drop_attrs()
        short = name.replace(" ", "_")
        names = {"trial": f"trial_{short}", "mode": f"mode_{short}"}
        kept = shift.isel(time=[0, -1]).rename(names).drop_vars("singular_value").drop_vars(list(names.values()))
        record[f"ends_{short}"] = kept.drop_vars("time").rename(time="moment")
        for what, values in {"shift": shift.mean("time"), "square": (shift**2).mean("time")}.items():
            plain = values.drop_vars(["singular_value", "trial", "mode"])
            record[f"{what}_{short}"] = plain.rename(names)
    return with_provenance(
        record, "DeepLinear", {"depth": DEPTH, "label_noise": NOISE, "learning_rate": RATE},
        options={"window": [config.begin, config.end], **vars(config)}, seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def _read(record: xr.Dataset, short: str, what: str) -> tuple[np.ndarray, np.ndarray]:
    return over_trials(record[f"{what}_{short}"].rename({f"trial_{short}": "trial"}))


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare with (18) and with the corrected mean s − u/2, u = β (L − 1) σ_q² s^{(L−2)/L}."""
    window = attribute(record, "options")["window"]
    variances, errors, expected = [], [], []
    for name, (_, teacher) in NETWORKS.items():
        short, s = name.replace(" ", "_"), np.array(teacher)
        mean, _ = _read(record, short, "shift")
        square, error = _read(record, short, "square")
        variances.append(square - mean**2)
        errors.append(error)
        expected.append(RATE * DEPTH / 2 * NOISE**2 * s ** (2 * (DEPTH - 1) / DEPTH))
    variance, error, form = map(np.concatenate, (variances, errors, expected))
    shift, shift_error = _read(record, "one_mode", "shift")
    wide, wide_error = _read(record, "width_12", "shift")
    half = RATE * (DEPTH - 1) * NOISE**2 / 2  # u/2 at s = 1
    note = f"SGD over the window {window} from w = s; depth {DEPTH}, σ_q = {NOISE}"
    return (
        VARIANCE.equals(
            variance / form, 1.0, three_errors(error / form) + 0.06, rival=0.0, standard_error=error / form,
            note=f"{note}; one mode, then three modes of width 12, over (18). 0.06: next order of β",
        ),
        MEAN.corrects(
            shift, -half, three_errors(shift_error) + 0.1 * half,
            published=RATE / 2 * (DEPTH - 1) * NOISE, standard_error=shift_error,
            note=f"{note}; mean − s of a network with one mode; it lies below s",
        ),
        BELOW.falls_below(wide, 0.0, three_errors(wide_error), note=f"{note}; mean − s of each mode"),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw histograms of the largest mode at the end of the window, beside the normal law of (18)."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    spread = np.sqrt(RATE * DEPTH / 2) * NOISE
    x = np.linspace(-4 * spread, 4 * spread, 200)
    for ax, name in zip(axes[0], NETWORKS, strict=True):
        short = name.replace(" ", "_")
        ends = record[f"ends_{short}"].isel({f"mode_{short}": 0, "moment": -1})
        ax.hist(ends, bins=40, density=True, color=PALETTE[0], alpha=0.6, label=f"SGD, {name}")
        ax.plot(
            x, np.exp(-((x / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi)), color="black", label="normal, (18)"
        )
        ax.set_xlabel("amplitude of the first mode minus s")
        ax.set_ylabel("density")
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Learned modes under label noise",
    source="deep-linear Proposition 5.2",
    kind="equation",
    claims=(VARIANCE, MEAN, BELOW),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
