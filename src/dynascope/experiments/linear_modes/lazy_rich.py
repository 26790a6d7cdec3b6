"""layerwise Figure 6.2: Lazy and rich training of the scalar network.

Amplifying dynamics from small weights, linear dynamics from small targets or great width.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, corrected, equal
from dynascope.experiments.experiment import Experiment, Figure
from dynascope.experiments.linear_modes.gradient_flow import gradient_flow
from dynascope.experiments.linear_modes.losses import scalar_loss
from dynascope.experiments.sources import layerwise
from dynascope.models.linear_modes import ScalarNetwork
from dynascope.statistics.errors import Estimate, over_trials

SCALES, IMBALANCES = (0.1, 0.3, 1.0, 3.0), (0.0, 0.7, 1.4)  # of starts whose tangent kernel is followed
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


def run(config: Config) -> xr.Dataset:
    """Train by gradient descent with small steps: one network per panel, and NTK starts of growing width."""
    random = np.random.default_rng(config.seed)
    signs = np.resize([1.0, -1.0], config.width)
    panels = (
        (config.small * np.ones(config.width), config.small * signs, 1.0, 1.0),
        (np.ones(config.width), signs, config.target, 1.0),
        (*random.choice([-1.0, 1.0], (2, config.widths[-1])), 1.0, np.sqrt(config.widths[-1])),
    )
    record = xr.concat([_train(config, *panel) for panel in panels], "panel").assign_coords(panel=list(PANELS))
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
    return record.merge(_kernels(config)).assign_coords(width=list(config.widths))


def _kernels(config: Config) -> xr.Dataset:
    """log(tangent kernel at the end/at the start) of flows from weights c e^r a and c e^−r b, and by closed form.

    a and b are orthogonal, so that θ(0) = 0: a kernel that has to unlearn changes however large it is.
    """
    random = np.random.default_rng(config.seed)
    drawn = random.standard_normal((2, 1, config.width))
    drawn[1] -= np.sum(drawn[0] * drawn[1]) / np.sum(drawn[0] ** 2) * drawn[0]
    found = np.empty((2, len(SCALES), len(IMBALANCES)))
    for place in np.ndindex(found.shape[1:]):
        size, turn = SCALES[place[0]], np.exp(IMBALANCES[place[1]])
        start = {"first": size * turn * drawn[0], "second": size / turn * drawn[1]}
        growth = float(ScalarNetwork(start["first"][0], start["second"][0], 1.0).kernel_growth())
        rate = growth * np.sum(start["first"] ** 2 + start["second"] ** 2)
        settled = [0.0, (30 + 4 * np.log(growth)) / rate]
        flow = gradient_flow(scalar_loss, start, settled, data=(np.ones(1), 1.0, 1.0))
        kernel = np.sum(flow["first"] ** 2 + flow["second"] ** 2, axis=(1, 2))  # |∂θ/∂weights|²
        found[:, *place] = np.log(kernel[1] / kernel[0]), np.log(growth)
    dims = ("scale", "imbalance")
    values = {name: (dims, each) for name, each in zip(("kernel_change", "kernel_form"), found, strict=True)}
    return xr.Dataset(values, {"scale": list(SCALES), "imbalance": list(IMBALANCES)})


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


def _distance(record: xr.Dataset, panel: int) -> float:
    """Largest distance from the linear model's curve, beside the target."""
    one = record.isel(panel=panel)
    return float(abs(one["output"] - one["linear"]).max() / one["target"])


def _greedy(record: xr.Dataset) -> Judgement:
    outputs = (record[name].isel(panel=0).values for name in ("aligned_output", "anti_aligned_output"))
    grown, other = (output[-1] / output[0] for output in outputs)
    return above([grown, 1 / other], 5.0, note="growth of the aligned, decay of the other mode")


def _moves(record: xr.Dataset) -> Judgement:
    mean, error = over_trials(np.log(record["move"].values))
    widths = np.log(record["width"].values)
    centred = (widths - widths.mean()) / np.sum((widths - widths.mean()) ** 2)
    slope = Estimate(centred @ mean, np.sqrt(np.sum((centred * error) ** 2)))
    return equal(slope, -0.5, 0.02, note="exponent of the mean move")


def _starts(record: xr.Dataset) -> Judgement:
    spread = record["begin"].values.var(axis=-1, ddof=1)
    measured = Estimate(spread, spread * np.sqrt(2 / record.sizes["draw"]))
    note = "variance of θ(0): it stays 1 at every width; (6.4) vanishes because Z grows"
    return corrected(measured, 1.0, published=0.0, note=note)


def _kernel(record: xr.Dataset) -> Judgement:
    change, form = record["kernel_change"], record["kernel_form"]
    note = f"log of end over start, scales {SCALES}, imbalances {IMBALANCES}; rival: a fixed kernel"
    return equal(change, form, 1e-6, rival=0.0, error=0.0, note=note)


def _lazier(record: xr.Dataset) -> Judgement:
    change = abs(record["kernel_change"])
    drops = [-change.diff(axis).values.ravel() for axis in ("scale", "imbalance")]
    note = "drop of |log(kernel at the end/at the start)| from one scale to the next, then from one imbalance"
    return above(np.concatenate(drops), 0.0, note=note)


def _picture(record: xr.Dataset) -> Figure:
    """Both modes and the output of the three panels."""
    figure, axes = plots.new_figure(columns=3)
    curves = (("output", "output θ"), ("aligned_output", "aligned mode"), ("anti_aligned_output", "anti-aligned mode"))
    for ax, name in zip(axes[0], PANELS, strict=True):
        one = record.sel(panel=name)
        for colour, style, (variable, label) in zip(plots.PALETTE, ("-", "-.", "--"), curves, strict=False):
            change = (one[variable] - one[variable][0]) / one["target"]
            ax.plot(one["elapsed"], change, style, color=colour, label=label)
        ax.plot(one["elapsed"], (one["linear"] - one["linear"][0]) / one["target"], "k:", label="linear model's output")
        ax.set(xlabel=plots.axis_label(record["elapsed"]), ylabel="change since the start/target")
        ax.set_title(f"{name}, γ ends at {float(one['gamma'][-1]):.3g}")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    layerwise(figure="6.2"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-6.2a-greedy",
            "from a small start the aligned mode takes over",
            _greedy,
            layerwise(section="6.2.1"),
        ),
        Claim(
            "fig-6.2b-linear",
            "with a small target θ(t) is S (1 − exp(−2 Δθ(0) t/Z))",
            lambda r: below(_distance(r, 1), 0.01, note="largest distance beside the target"),
            layerwise(section="6.2.2"),
        ),
        Claim(
            "fig-6.2c-linear",
            "with NTK scaling θ(t) is linear in the limit of great width",
            lambda r: below(_distance(r, 2), 0.05, note=f"largest distance at width {int(r['width'][-1])}"),
            layerwise(section="6.2.3"),
        ),
        Claim(
            "fig-6.2a-sigmoid",
            "from a small start θ(t) is far from any linear model's curve",
            lambda r: above(_distance(r, 0), 0.3, note="largest distance beside the target"),
            layerwise(section="6.2.1"),
        ),
        Claim(
            "sec6.2.3-moves",
            "under NTK scaling each weight moves by O(p^{−1/2})",
            _moves,
            layerwise(section="6.2.3"),
        ),
        Claim(
            "eq6.3-kernel",
            "the tangent kernel, the rate of (6.3), ends √(Σ0² − S0² + S²)/Σ0 times as large as it starts (S0 = 0)",
            _kernel,
            layerwise(equation="6.3, 6.10", place="below Theorem 1"),
            kind="derived",
        ),
        Claim(
            "sec6.2-lazier",
            "it changes the less, the larger the initial weights and the more unequal the two layers are",
            _lazier,
            layerwise(section="6.2"),
            kind="derived",
        ),
        Claim("sec6.2.3-start", "θ(0) → 0 as p → ∞ with Z = √p", _starts, layerwise(section="6.2.3")),
    ),
    picture=_picture,
    smoke={"points": 51, "widths": (100, 300, 900)},
    laptop={"draws": 4000},
    paper={"draws": 10_000, "points": 801},
)
