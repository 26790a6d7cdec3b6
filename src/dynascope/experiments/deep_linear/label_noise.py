"""deep-linear Proposition 5.2: Learned modes under label noise.

In the network itself: mean and variance over a stated window.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from scipy.stats import norm

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, below, corrected, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import deep_linear
from dynascope.models.deep_linear import DeepLinear
from dynascope.statistics.errors import Estimate, over_trials

DEPTH, NOISE, RATE = 4, 0.5, 0.005
NETWORKS = {"one_mode": (1, (1.0,)), "width_12": (12, (1.0, 0.7, 0.4))}  # width, teacher
_HALF = RATE * (DEPTH - 1) * NOISE**2 / 2  # u/2 at s = 1, u = β (L − 1) σ_q² s^{(L−2)/L}: the corrected mean is s − u/2


@dataclass(frozen=True)
class Config:
    """SGD from the teacher itself, watched over times `begin` to `end`; the slowest mode relaxes within 1."""

    begin: float = 3.0
    end: float = 7.0
    save_points: int = 17
    trials: tuple[int, int] = (16_384, 1024)  # of one mode, and of width 12
    seed: int = 4


def run(config: Config) -> xr.Dataset:
    """Mean over the window and mean square distance from s, for every trial."""
    moments = np.linspace(config.begin, config.end, config.save_points)
    record = xr.Dataset()
    for (name, (width, teacher)), trials in zip(NETWORKS.items(), config.trials, strict=True):
        net = DeepLinear(DEPTH, width, teacher, learning_rate=RATE, label_noise=NOISE)
        start = net.aligned_weights(net.singular_values)
        trained = net.simulate(config.end, trials, seed=config.seed, save_points=moments, start=start)
        shift = (trained["amplitude"] - trained["singular_value"]).drop_attrs().reset_coords(drop=True)
        shift = shift.drop_vars(["trial", "mode"], errors="ignore").rename(trial=f"trial_{name}", mode=f"mode_{name}")
        record[f"ends_{name}"] = shift.isel(time=[0, -1]).drop_vars("time").rename(time="moment")
        record[f"shift_{name}"] = shift.mean("time")
        record[f"square_{name}"] = (shift**2).mean("time")
    return record


def _read(record: xr.Dataset, what: str, network: str) -> Estimate:
    return over_trials(record[f"{what}_{network}"].rename({f"trial_{network}": "trial"}))


def _variance(s: np.ndarray) -> np.ndarray:
    """(18)."""
    return RATE * DEPTH / 2 * NOISE**2 * s ** (2 * (DEPTH - 1) / DEPTH)


def _note(record: xr.Dataset) -> str:
    window = [settings(record).begin, settings(record).end]
    return f"SGD over the window {window} from w = s; depth {DEPTH}, σ_q = {NOISE}"


def _spread(record: xr.Dataset) -> Judgement:
    ratios, errors = [], []
    for name, (_, teacher) in NETWORKS.items():
        form = _variance(np.array(teacher))
        square = _read(record, "square", name)
        ratios.append((square.mean - _read(record, "shift", name).mean ** 2) / form)
        errors.append(square.error / form)
    note = f"{_note(record)}; one mode, then three modes of width 12, over (18). 0.06: next order of β"
    return equal(Estimate(np.concatenate(ratios), np.concatenate(errors)), 1.0, 0.06, rival=0.0, note=note)


def _mean(record: xr.Dataset) -> Judgement:
    shift = _read(record, "shift", "one_mode")
    note = f"{_note(record)}; mean − s of a network with one mode; it lies below s"
    printed = RATE / 2 * (DEPTH - 1) * NOISE
    return corrected(shift, -_HALF, 0.1 * _HALF, published=printed, error=shift.error, note=note)


def _draw(record: xr.Dataset, ax: Axes, *, network: str) -> None:
    """Histogram of the largest mode at the end of the window, beside the normal law of (18)."""
    spread = np.sqrt(_variance(np.array(1.0)))
    x = np.linspace(-4 * spread, 4 * spread, 200)
    ends = record[f"ends_{network}"].isel({f"mode_{network}": 0, "moment": -1})
    label = f"SGD, {network.replace('_', ' ')}"
    ax.hist(ends, bins=40, density=True, color=plots.PALETTE[0], alpha=0.6, label=label)
    ax.plot(x, norm.pdf(x, scale=spread), color="black", label="normal, (18)")
    ax.set(xlabel="amplitude of the first mode minus s", ylabel="density")


EXPERIMENT = Experiment(
    deep_linear(theorem="Proposition 5.2"),
    Config(),
    run,
    claims=(
        Claim(
            "eq18-network",
            "label noise spreads a learned mode with variance (η L/2b) σ_q² s^{2(L−1)/L}",
            _spread,
            deep_linear(equation="18"),
        ),
        Claim(
            "eq17-network",
            "label noise holds a learned mode slightly above s, by (η/2b)(L−1) s^{−2/L} σ_q",
            _mean,
            deep_linear(equation="17", place="below (18)"),
        ),
        Claim(
            "eq17-wide",
            "in a network of width 12 too, learned modes lie below s on average",
            lambda record: below(
                _read(record, "shift", "width_12"), 0.0, note=f"{_note(record)}; mean − s of each mode"
            ),
            deep_linear(equation="17"),
            kind="derived",
        ),
    ),
    picture=Panels(*(partial(_draw, network=name) for name in NETWORKS)),
    smoke={"trials": (8192, 256)},
    paper={"trials": (60_000, 8192)},
    model="DeepLinear",
)
