"""Figure 6.2 in numbers: amplifying dynamics from small weights, linear dynamics from small targets or great width."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import ScalarNetwork

PANELS = ("small start", "small target", "NTK")


@dataclass(frozen=True)
class Config:
    """Weights ±1 (times the scale of the panel); even width with θ(0) = 0 where the target is scaled down."""

    width: int = 20
    small: float = 0.02  # weights of the small start
    target: float = 0.02  # target that is scaled down; 1 elsewhere
    widths: tuple[int, ...] = (100, 400, 1600, 6400)  # of the NTK start, Z = √width
    draws: int = 400  # of initial outputs
    trained: int = 64  # networks of each width, from standard normal weights
    points: int = 201
    seed: int = 62


SCALES = {
    "smoke": Config(points=51, widths=(100, 300, 900)),
    "laptop": Config(draws=4000),
    "paper": Config(draws=10_000, points=1001),
}
GREEDY = Claim("fig-6.2a-greedy", "layerwise 6.2.1", "from a small start the aligned mode takes over")
TARGET = Claim("fig-6.2b-linear", "layerwise 6.2.2", "with a small target θ(t) is S (1 − exp(−2 Δθ(0) t/Z))")
NTK = Claim("fig-6.2c-linear", "layerwise 6.2.3", "with NTK scaling θ(t) is linear in the limit of great width")
CURVED = Claim("fig-6.2a-sigmoid", "layerwise 6.2.1", "from a small start θ(t) is far from any linear model's curve")
MOVES = Claim("sec6.2.3-moves", "layerwise 6.2.3", "under NTK scaling each weight moves by O(p^{−1/2})")
START = Claim("sec6.2.3-start", "layerwise 6.2.3", "θ(0) → 0 as p → ∞ with Z = √p")


def run(config: Config) -> xr.Dataset:
    """Train by gradient descent with small steps: one network per panel, and NTK starts of growing width."""
    random = np.random.default_rng(config.seed)
    signs = np.resize([1.0, -1.0], config.width)
    settings = {
        "small start": (config.small * np.ones(config.width), config.small * signs, 1.0, 1.0),
        "small target": (np.ones(config.width), signs, config.target, 1.0),
        "NTK": (*random.choice([-1.0, 1.0], (2, config.widths[-1])), 1.0, np.sqrt(config.widths[-1])),
    }
    panels = [_train(config, *settings[name]) for name in PANELS]
    record = xr.concat([panel.expand_dims(panel=[name]) for panel, name in zip(panels, PANELS, strict=True)], "panel")
    moves, starts = [], []
    for width in config.widths:
        signs = 2 * random.integers(0, 2, (2, config.draws, width), dtype=np.int8) - 1
        starts.append(np.sum(signs[0] * signs[1], axis=-1, dtype=int) / np.sqrt(width))
        network = ScalarNetwork(output_scale=np.sqrt(width), width=width)  # the rate is about 2
        trained = network.simulate(4.0, 0.02, config.trained, seed=config.seed, save_points=2)
        moved = abs(trained["first"].diff("time")).mean("unit").isel(time=0)
        moves.append((moved / abs(1 - trained["output"].isel(time=0))).values)  # for every unit of θ to be covered
    record["move"] = (("width", "trial"), np.array(moves))
    record["begin"] = (("width", "draw"), np.array(starts))
    return record.assign_coords(width=list(config.widths)).assign_attrs(panels[0].attrs)


def _train(config: Config, first: np.ndarray, second: np.ndarray, target: float, scale: float) -> xr.Dataset:
    """Output and modes until settled; beside them the linear model that starts at the same rate."""
    network = ScalarNetwork(first, second, target, output_scale=scale)
    slow, growth = np.sum(first**2 + second**2) / scale**2, float(network.kernel_growth())
    rate = growth * slow  # at the end
    duration = (8 + 2 * np.log(growth)) / rate
    run = network.simulate(duration, 0.01 / rate, 1, save_points=config.points).isel(trial=0, drop=True)
    kept = run[["output", "aligned_output", "anti_aligned_output", "gamma"]]
    elapsed, begin = run["time"].values, float(run["output"][0])
    kept["linear"] = ("time", target + (begin - target) * np.exp(-slow * elapsed))
    kept["elapsed"] = ("time", elapsed, {"long_name": "time", "units": "steps × learning rate"})
    kept["target"] = target
    return kept.drop_vars("time").rename(time="save")


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Distance from the linear model's curve, growth of modes, and scaling with width."""
    off = (abs(record["output"] - record["linear"]).max("save") / record["target"]).values
    small = record.sel(panel="small start")
    ratios = [float(small[name][-1] / small[name][0]) for name in ("aligned_output", "anti_aligned_output")]
    logs: Any = np.log(record["move"])
    widths = np.log(record["width"].values)
    centred = (widths - widths.mean()) / np.sum((widths - widths.mean()) ** 2)
    slope = float(centred @ logs.mean("trial").values)
    slope_error = np.sqrt(np.sum((centred * logs.std("trial", ddof=1).values) ** 2) / record.sizes["trial"])
    begin = record["begin"].values
    spread = begin.var(axis=-1, ddof=1)
    error = spread * np.sqrt(2 / begin.shape[-1])
    return (
        GREEDY.exceeds([ratios[0], 1 / ratios[1]], 5.0, 0.0, note="growth of the aligned, decay of the other mode"),
        TARGET.falls_below(off[1], 0.01, 0.0, note="largest distance beside the target"),
        NTK.falls_below(off[2], 0.05, 0.0, note=f"largest distance at width {int(record['width'][-1])}"),
        CURVED.exceeds(off[0], 0.3, 0.0, note="largest distance beside the target"),
        MOVES.equals(slope, -0.5, three_errors(slope_error) + 0.02, note="exponent of the mean move"),
        START.corrects(
            spread, 1.0, three_errors(error), published=0.0, standard_error=error,
            note="variance of θ(0): it stays 1 at every width; (6.4) vanishes because Z grows",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw both modes and the output of the three panels."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=3)
    curves = (("output", "output θ"), ("aligned_output", "aligned mode"), ("anti_aligned_output", "anti-aligned mode"))
    for ax, name in zip(axes[0], PANELS, strict=True):
        one = record.sel(panel=name)
        for colour, style, (variable, label) in zip(PALETTE, ("-", "-.", "--"), curves, strict=False):
            change = (one[variable] - one[variable][0]) / one["target"]
            ax.plot(one["elapsed"], change, style, color=colour, label=label)
        ax.plot(one["elapsed"], (one["linear"] - one["linear"][0]) / one["target"], "k:", label="linear model's output")
        ax.set_title(f"{name}, γ ends at {float(one['gamma'][-1]):.3g}")
        ax.set_xlabel(axis_label(record["elapsed"]))
        ax.set_ylabel("change since the start/target")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Lazy and rich training of the scalar network",
    source="layerwise FIG. 6.2",
    kind="figure",
    claims=(GREEDY, TARGET, NTK, CURVED, MOVES, START),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
