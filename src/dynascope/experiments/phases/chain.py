"""spring-block Figure 4: Chain against network: paths of load curves.

Both sides of the figure: load curves of three networks on their way, and the spring-block chain fitted to each.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.special import stdtrit

from dynascope import networks, plots
from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.experiment import Axes, Panels, settings
from dynascope.experiments.phases.curves import NetworkExperiment, draw_load
from dynascope.experiments.phases.load_curves import batches, data_set, follow, shape_of
from dynascope.experiments.phases.shapes import bend, straight
from dynascope.experiments.sources import spring_block
from dynascope.models.spring_block.estimate import estimate_chain
from dynascope.statistics.errors import Estimate, over_trials

PANELS = ("b", "c", "d")
CHAIN = 5  # numbers that are fitted
_STRONG = 10.0  # difference of Schwarz's criterion that counts as very strong evidence
FITTED = ("friction_right", "friction_left", "noise", "friction_difference", "time_scale", "target")


@dataclass(frozen=True)
class Config:
    """The three settings of the supplement, S3, from little to much noise; the number of epochs is ours."""

    learning_rate: tuple[float, ...] = (0.0001, 0.001, 0.003)
    batch_size: tuple[int, ...] = (200, 100, 50)
    dropout: tuple[float, ...] = (0.0, 0.1, 0.2)
    data: str = "mnist"
    size: int = 10
    samples: int = 256
    epochs: int = 100
    width: int = 100
    depth: int = 7
    seeds: int = 10
    times: int = 41


def run(config: Config) -> xr.Dataset:
    """Train ReLU networks in each setting, follow their load curves, and fit a chain to the paths of all runs."""
    panels = [_panel(config, index) for index in range(len(PANELS))]
    return xr.concat(panels, xr.DataArray(list(PANELS), dims="panel", name="panel"))


def _panel(config: Config, index: int) -> xr.Dataset:
    data = data_set(config.data, config.size, config.samples)
    batch, steps = batches(len(data[0]), config.batch_size[index], config.epochs)
    ensemble = networks.Ensemble(
        networks.MLP(*shape_of(data), width=config.width, depth=config.depth, batch_norm=True),
        trials=config.seeds,
        learning_rate=config.learning_rate[index],
        batch_size=batch,
        optimizer="adam",
        vary={"dropout": config.dropout[index]},
        sampling="shuffled",
    )
    share = np.linspace(0, 1, config.times)
    path = follow(ensemble, data, (share * steps).round().astype(int).tolist())
    # batch norm's running means start from nothing: the second save is the first that shows the network
    path, share = path.isel(step=slice(1, None)), share[1:]
    load = path["load"].sel(probe="train").values  # (trial, step, layer)
    found = estimate_chain(load, share)
    kept = [*FITTED, *(f"{name}_{end}" for name in FITTED for end in ("low", "high")), "residual", "simulation_gap"]
    values = {
        "load": (("trial", "time", "layer"), load),
        "fitted_load": (("time", "layer"), found["fitted_load"].values),
        "loss": (("trial", "time"), path["loss"].sel(probe="train").values),
        "accuracy": ("trial", path["accuracy"].sel(probe="test").values[:, -1]),
    }
    coords = {"time": ("time", share, {"long_name": "share of the training"}), "layer": np.arange(load.shape[-1])}
    fit = found[kept].assign(ok=found["ok"].astype(int)).drop_attrs(deep=False)
    return fit.merge(xr.Dataset(values, coords=coords))


def _ends(record: xr.Dataset) -> xr.DataArray:
    """Loads at the end of training, (panel, trial, layer)."""
    return record["load"].isel(time=-1)


def _straighter(record: xr.Dataset) -> Judgement:
    curves = straight(_ends(record)).values
    return above(over_trials(curves[[1, 1]] - curves[[0, 2]]), 0.0, note="R² beyond that of (b), of (d)")


def null_paths(position: Float[np.ndarray, "time layer"], times: Float[np.ndarray, " time"]) -> list[tuple[float, int]]:
    """Sum of squares and number of free numbers of paths that know nothing of a chain.

    Nothing moves from where it was first measured; or all layers move at once, x_ℓ(t) = x_ℓ(0) + a_ℓ (1 − e^(−t/τ)).

    >>> times = np.linspace(0.0, 1.0, 9)
    >>> together = np.outer(1 - np.exp(-times / 0.5), [1.0, 3.0])
    >>> [(round(squares, 4), free) for squares, free in null_paths(together, times)][1]
    (0.0, 3)
    """
    moved, clock = position - position[0], times - times[0]
    courses = 1 - np.exp(-clock / np.geomspace(clock[1] / 10, 100 * clock[-1], 401)[:, None])  # (τ, time)
    reached = courses @ moved / np.vecdot(courses, courses)[:, None]  # (τ, layer)
    squares = np.sum((moved - courses[..., None] * reached[:, None]) ** 2, axis=(1, 2))
    return [(float(np.sum(moved**2)), 0), (float(squares.min()), moved.shape[1] + 1)]


def _information(squares: float, free: int, size: int) -> float:
    """Schwarz's criterion (BIC) of a fit by least squares, n log(S/n) + p log n; −∞ if nothing is missed."""
    with np.errstate(divide="ignore"):
        return float(size * np.log(squares / size) + free * np.log(size))


def _follows(record: xr.Dataset) -> Judgement:
    """By how much the criterion of the best null lies above that of the chain."""
    ahead, notes = [], []
    for panel in record["panel"].values:
        chosen = record.sel(panel=panel)
        load, fitted = chosen["load"].mean("trial").values, chosen["fitted_load"].values
        size = load[:, 1:].size
        nulls = null_paths(load[:, :1] - load[:, 1:], record["time"].values)
        squares = [float(np.sum((load - fitted)[:, 1:] ** 2)), *(each for each, _ in nulls)]
        free = [CHAIN, *(each for _, each in nulls)]
        chain, *others = (_information(*each, size) for each in zip(squares, free, strict=True))
        ahead.append(min(others) - chain)
        distances = np.sqrt(np.array(squares) / size) / (load[-1, 0] - load[-1, -1])
        notes.append(f"({panel}) {', '.join(f'{each:.3f}' for each in distances)}")
    note = "root mean square distance of chain, standstill, all layers at once in units of the final separation: "
    return above(ahead, _STRONG, note=note + "; ".join(notes))


def _number(record: xr.Dataset, name: str, panel: int) -> tuple[float, float]:
    """What was fitted, and its error, of which the upper end of 95 % lies Student's many above it.

    The lower end may be cut off at 0.
    """
    value, high = (float(record[each][panel]) for each in (name, f"{name}_high"))
    return value, (high - value) / float(stdtrit(record.sizes["trial"] - 1, 0.975))


def _rougher(record: xr.Dataset) -> Judgement:
    (first, error), (last, other) = (_number(record, "friction_difference", panel) for panel in (0, 2))
    note = "that of (b) less that of (d); a chain that never moves left tells of μ→ alone: fig-4-chain-told"
    return above(Estimate(first - last, math.hypot(error, other), record.sizes["trial"]), 0.0, note=note)


def _rougher_as_told(record: xr.Dataset) -> Judgement:
    """The friction that bends a chain's curve: μ→ without noise (6), half of μ→ − μ← in strong noise (7).

    No fit has a μ→ below 0, so that a convex curve with noise is not enough: the one without noise must tell of some.
    """
    (first, error), (last, other) = _number(record, "friction_right", 0), _number(record, "friction_difference", 2)
    note = f"{first:.3f} ± {2 * error:.3f} less half of {last:.3f} ± {2 * other:.3f}"
    lead, errors = [first - last / 2, first], [math.hypot(error, other / 2), error]
    return above(Estimate(np.array(lead), np.array(errors), record.sizes["trial"]), 0.0, note=note)


def _draw_ends(record: xr.Dataset, ax: Axes) -> None:
    """Load curves at the end, of networks and chains."""
    last = record.isel(time=-1)
    for panel, shade in zip(PANELS, ("#C1272D", "#0000A7", "#008176"), strict=True):
        draw_load(ax, last["load"].sel(panel=panel), colour=shade, label=f"network ({panel})")
        ax.plot(record["layer"], last["fitted_load"].sel(panel=panel), "--", color=shade, label="chain")
    ax.set_title("(a) at the end")


def _draw_path(record: xr.Dataset, ax: Axes, *, index: int) -> None:
    """Paths of the mean load with the fitted chain."""
    chosen, config = record.isel(panel=index), settings(record)
    plots.plot_fit(chosen.assign(load=chosen["load"].mean("trial")), ax)
    setting = f"learning rate {config.learning_rate[index]:g}, dropout {config.dropout[index]:g}"
    difference = float(chosen["friction_difference"])
    ax.set_title(f"({PANELS[index]}) {setting}: μ→ − μ← = {difference:.2g}", fontsize="small")


_DIGITS = {"data": "digits", "size": 0, "samples": 0, "width": 64, "epochs": 30, "seeds": 6}
_NOISE = {"learning_rate": (0.0005, 0.001, 0.003), "batch_size": (128, 64, 32), "dropout": (0.0, 0.08, 0.25)}
_SMOKE = {"samples": 40, "epochs": 15, "seeds": 5, "times": 16, "batch_size": (32, 25, 12)}
EXPERIMENT = NetworkExperiment(
    spring_block(figure="4"),
    Config(),
    run,
    claims=(
        Claim(
            "fig-4b-network",
            "little noise: the network's load curve ends concave",
            lambda record: above(over_trials(bend(_ends(record)[0])), 0.0, note="curvature at the end"),
            spring_block(figure="4(b)"),
        ),
        Claim(
            "fig-4c-network",
            "in between: it ends straighter (R²) than in (b) and (d)",
            _straighter,
            spring_block(figure="4(c)"),
        ),
        Claim(
            "fig-4d-network",
            "much noise: it ends convex",
            lambda record: below(over_trials(bend(_ends(record)[2])), 0.0, note="curvature at the end"),
            spring_block(figure="4(d)"),
        ),
        Claim(
            "fig-4-chain-follows",
            "a chain of five numbers follows each path better than all layers at once do, and than standstill: "
            "by 10 in Schwarz's criterion, which charges for free numbers",
            _follows,
            kind="derived",
            settles_at="paper",
        ),
        Claim(
            "fig-4-chain-friction",
            "the chain fitted to the concave path (b) has a larger μ→ − μ← than the one fitted to the convex path (d)",
            _rougher,
            spring_block(equation="7", figure="4"),
            kind="derived",  # the paper sets frictions by hand (S3): 0.11 and 0.03 in (b), 0.04 and 0.12 in (d)
            settles_at="paper",
        ),
        Claim(
            "fig-4-chain-told",
            "what the paths tell of it does: μ→ of (b), all that holds a chain without noise, exceeds 0 and half of "
            "μ→ − μ← of (d), all that strong noise leaves",
            _rougher_as_told,
            spring_block(equation="6, 7", figure="4"),
            kind="derived",
            settles_at="paper",
        ),
    ),
    picture=Panels(_draw_ends, *(partial(_draw_path, index=index) for index in range(3)), width=4.8, height=4.2),
    smoke={**_DIGITS, **_NOISE, **_SMOKE},
    laptop={**_DIGITS, **_NOISE},
    model="ChainAndNetwork",
    adapted="number of epochs, which the source leaves out",
)
