"""Load curves and test accuracy of networks over nonlinearity and one source of noise: Figure 1 and its variants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, Kind, above, below
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.phases.load_curves import phase_training, run_grid
from dynascope.experiments.phases.shapes import (
    accurate_as_straight,
    because,
    bend,
    bend_per_work,
    best_where_straight,
    mean_work,
    straight,
    straight_where_best,
)
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import Estimate, over_trials
from dynascope.statistics.ranks import rank_correlation

RANKED = 0.8  # rank correlation of what is said to rise together


@dataclass(frozen=True)
class Config:
    """Slopes (rows) by values of one source of noise (columns, the weakest first), for several seeds.

    `depth` counts hidden layers: a network that the paper calls 8-layer has 7. `first_layer` is where load curves
    begin: the paper leaves the input out on CIFAR. `best` is the shape of the load curve where the test accuracy is
    best: straight, or concave as the paper sees it for learning rates on CIFAR. The first columns are `shared`
    if they hold the same networks as another figure: claims on the weakest noise then look at the next. Linear networks
    are left out of claims unless `linear_converges`.
    """

    figure: str
    noise: str
    values: tuple[float, ...]
    slopes: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    seeds: int = 10
    data: str = "mnist"
    size: int = 10
    samples: int = 256
    epochs: int = 100
    batch_size: int = 2560
    learning_rate: float = 0.001
    depth: int = 7
    width: int = 100
    optimizer: str = "adam"
    normalisation: str = "batch"
    first_layer: int = 0
    best: str = "straight"
    thorough: bool = False
    shared: int = 0
    linear_converges: bool = True


_CLAIMED = ("first_layer", "best", "thorough", "shared", "linear_converges")
_GRID_AND_CLAIMS = ("figure", "noise", "values", "slopes", "seeds", *_CLAIMED)


def run(config: Config) -> xr.Dataset:
    """Train the whole grid and keep what `training.train` measures at the end."""
    fixed = {name: value for name, value in vars(config).items() if name not in (*_GRID_AND_CLAIMS, config.noise)}
    record = run_grid({"slope": config.slopes, config.noise: config.values}, seeds=config.seeds, fixed=fixed)
    record["slope"].attrs["long_name"] = "slope of the leaky ReLU"
    record[config.noise].attrs["long_name"] = config.noise.replace("_", " ")
    record["accuracy"].attrs["long_name"] = "accuracy"
    return record


def _read(record: xr.Dataset) -> xr.Dataset:
    """What claims look at, over (slope, noise, trial); trial i starts alike in every cell, so cells are compared by it.

    Adds bend, work and shape (the one in units of the other) and straight of training curves, and reached: the test
    accuracy.
    """
    config = settings(record)
    cells = record.isel(layer=slice(config.first_layer, None))
    if not config.linear_converges:
        cells = cells.isel(slope=cells["slope"].values < 1)
    cells = cells.transpose("slope", config.noise, "trial", ...)
    train, reached = cells["load"].sel(probe="train", drop=True), cells["accuracy"].sel(probe="test", drop=True)
    curves = {"bend": bend(train), "work": mean_work(train), "shape": bend_per_work(train), "straight": straight(train)}
    return cells.assign(**curves, reached=reached.astype(float))


def _best_row(seen: xr.Dataset) -> xr.Dataset:
    """The slope with the best test accuracy."""
    return seen.isel(slope=int(seen["reached"].values.mean(axis=-1).max(axis=-1).argmax()))


def _weakest(seen: xr.Dataset) -> xr.Dataset:
    """The weakest noise that is this figure's own."""
    config = settings(seen)
    return seen.isel({config.noise: config.shared})


def _falls(seen: xr.Dataset, *, why: str) -> Judgement:
    """Curvature at the strongest noise less that at the weakest; `why` explains the last slope alone."""
    change = over_trials(seen["bend"][:, -1] - _weakest(seen)["bend"])
    judged = below(change, 0.0, note="difference of curvatures, one case for each slope")
    others = np.less(judged.measured, np.negative(judged.tolerance))[:-1]
    return because(judged, why) if others.all() else judged


def _falls_per_work(seen: xr.Dataset) -> Judgement:
    """At the last slope, and in units in which it does not count how far the curve falls."""
    weak, strong = (each.isel(slope=-1) for each in (_weakest(seen), seen.isel({settings(seen).noise: -1})))
    work = " to ".join(f"{float(each['work'].mean()):.3f}" for each in (weak, strong))
    note = f"difference of curvatures per work; the mean work of a layer goes from {work}"
    return below(over_trials(strong["shape"] - weak["shape"]), 0.0, note=note)


def _in_best_row(judge: Callable[[xr.DataArray, xr.DataArray], Judgement]) -> Callable[[xr.Dataset], Judgement]:
    def judged(seen: xr.Dataset) -> Judgement:
        row = _best_row(seen)
        return judge(row["reached"], row["load"].sel(probe="train"))

    return judged


def _accurate_cells(seen: xr.Dataset) -> Judgement:
    cells = seen.sel(probe="train").stack(setting=("slope", settings(seen).noise))
    return accurate_as_straight(*(cells[name].transpose("setting", "trial", ...) for name in ("reached", "load")))


def _best_concave(seen: xr.Dataset) -> Judgement:
    """Curvature in the cell with the best mean accuracy."""
    cells = seen["reached"].values.mean(axis=-1)
    row, column = np.unravel_index(cells.argmax(), cells.shape)
    note = f"curvature in row {row + 1}, column {column + 1}"
    return above(over_trials(seen["bend"][row, column]), 0.0, note=note)


def _straightest_inside(seen: xr.Dataset) -> Judgement:
    curves = seen["straight"][0].values  # (noise, trial)
    inside = 1 + int(curves[1:-1].mean(axis=-1).argmax())
    return above(over_trials(curves[inside] - curves[[0, -1]]), 0.0, note="R² beyond that at either end")


def _test_alike(seen: xr.Dataset) -> Judgement:
    bends = bend(seen["load"].mean("trial"))  # (slope, noise, probe)
    train, test = (bends.sel(probe=each).values.ravel() for each in ("train", "test"))
    return above(np.corrcoef(train, test)[0, 1], 0.9, note="correlation of curvatures over cells")


def _ranked_alike(seen: xr.Dataset, *, measure: Callable[[xr.DataArray], xr.DataArray] = bend) -> Judgement:
    """Curvatures by the two definitions of separation, over the cells of nonlinear networks."""
    bent = seen.isel(slope=seen["slope"].values < 1).sel(probe="train")
    cells = (measure(bent[name]).values.reshape(-1, bent.sizes["trial"]) for name in ("load", "load_pinv"))
    return above(rank_correlation(*cells), RANKED, note="rank correlation of curvatures over cells")


def _falls_less(seen: xr.Dataset) -> Judgement:
    corner = _weakest(seen).isel(slope=-1).sel(probe="train")
    fall, other = (corner[name][:, 0] - corner[name][:, -1] for name in ("load", "load_pinv"))
    return below(over_trials(other / fall), 0.5)


# --- the interior ---------------------------------------------------------------------------------------------------


def _along_noise(curvatures: xr.DataArray) -> Estimate:
    """One case for each slope; columns are in the order of their noise."""
    values = curvatures.values  # (slope, noise, trial)
    return rank_correlation(values, np.arange(values.shape[1])[:, None])


def _along_slopes(curvatures: xr.DataArray) -> Estimate:
    """One case for each noise."""
    return rank_correlation(curvatures.values.swapaxes(0, 1), curvatures["slope"].values[:, None])


def _falls_along_noise(seen: xr.Dataset) -> Judgement:
    note = "rank correlation of curvature and noise, one case for each slope"
    return below(_along_noise(seen["bend"]), -RANKED, note=note)


def _falls_along_slopes(seen: xr.Dataset, *, why: str) -> Judgement:
    note = "rank correlation of curvature and slope, one case for each noise"
    return because(below(_along_slopes(seen["bend"]), -RANKED, note=note), why)


def _falls_along_both(seen: xr.Dataset) -> Judgement:
    """Means over rows and over columns, with the mean of errors: all share their trials."""
    found = [along(seen["shape"]) for along in (_along_noise, _along_slopes)]
    means, errors = ([np.mean(getattr(each, name)) for each in found] for name in ("mean", "error"))
    note = "rank correlation of curvature per work and noise, mean over slopes; and slope, mean over noises"
    return below(Estimate(np.array(means), np.array(errors), found[0].runs), -RANKED, note=note)


def _diagonal(seen: xr.Dataset) -> Judgement:
    """Which share of the noises leaves a concave curve, for each slope and trial."""
    concave = (seen["bend"].values > 0).mean(axis=1)
    found = rank_correlation(concave, seen["slope"].values[:, None])
    return below(found, -RANKED, note="rank correlation of the share of concave curves and slope")


# --- claims ---------------------------------------------------------------------------------------------------------


def _claims(figure: str, config: Config) -> tuple[Claim, ...]:
    """What a phase diagram claims; a thorough one also holds train against test and two measures of separation."""
    prefix = f"fig-{figure.lower()}".replace("(", "").replace(")", "")
    least = "least noise" if not config.shared else "least noise above none, for which see Figure 1(a)"
    every = "every slope" if config.linear_converges else "every slope below 1, where networks converge"
    claims: tuple[Claim, ...] = (
        Claim(
            f"{prefix}-concave",
            f"most nonlinear network, {least}: the load curve is concave",
            lambda seen: above(over_trials(_weakest(seen)["bend"][0]), 0.0, note="curvature of the load curve"),
        ),
        Claim(
            f"{prefix}-convex",
            "least nonlinear network, most noise: the load curve is convex",
            lambda seen: below(over_trials(seen["bend"][-1, -1]), 0.0),
        ),
        Claim(
            f"{prefix}-noise",
            f"for {every}, the strongest noise leaves a more convex curve than the weakest",
            partial(_falls, why=f"{prefix}-noise-linear, layers separate less and curves bend more"),
            settles_at="laptop",  # in a linear network the change is small
        ),
        Claim(
            f"{prefix}-noise-linear",
            "of the least nonlinear networks it does so in units of a layer's mean work",
            _falls_per_work,
            kind="own",
            settles_at="paper",
        ),
        Claim(
            f"{prefix}-nonlinearity",
            f"at the {least}, the most nonlinear network has a more concave curve than the least nonlinear one",
            lambda seen: above(over_trials(_weakest(seen)["bend"][0] - _weakest(seen)["bend"][-1]), 0.0),
        ),
    )
    claims += _accuracy(prefix, figure, config)
    return claims + _thorough(prefix, figure) + _interior(prefix) if config.thorough else claims


def _accuracy(prefix: str, figure: str, config: Config) -> tuple[Claim, ...]:
    if config.best == "concave":
        text = "the load curve with the best test accuracy is concave"
        return (Claim(f"{prefix}-accuracy", text, _best_concave, settles_at="paper"),)
    source, best = spring_block(figure=f"{figure}, S5"), _in_best_row(best_where_straight)
    return (
        Claim(
            f"{prefix}-accuracy",
            "in the row with the best test accuracy, no noise gives 0.005 more than that with the straightest curve",
            lambda seen: because(best(seen), f"{prefix}-accuracy-near, several noises leave curves as straight"),
            source,
            settles_at="paper",
        ),
        Claim(
            f"{prefix}-accuracy-near",
            "in that row, the noise with the best test accuracy leaves a nearly straight curve: R² within 0.02 of any",
            _in_best_row(straight_where_best),
            source,
            kind="derived",  # "the highest accuracy is always accompanied by the highest R² score": the bound is ours
            settles_at="paper",
        ),
        Claim(
            f"{prefix}-accuracy-rank",
            "in the row with the best test accuracy, accuracy and R² rank the noises alike (above 0.5)",
            _in_best_row(accurate_as_straight),
            source,
            kind="printed" if config.thorough else "derived",  # Figure S5 shows both for Figure 1
            settles_at="paper",
        ),
    )


def _thorough(prefix: str, figure: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{prefix}-linear",
            "for the most nonlinear network, some noise in between gives the straightest curve",
            _straightest_inside,
            settles_at="laptop",
        ),
        Claim(
            f"{prefix}-accuracy-cells",
            "over all cells, too, accuracy and R² rank networks alike (above 0.5)",
            _accurate_cells,
            settles_at="paper",
        ),
        Claim(
            f"{prefix}-test",
            "test load curves bend as training ones do: correlation over cells above 0.9",
            _test_alike,
            spring_block(figure=f"{figure}, S4, S19, S20"),
        ),
        *_definitions(f"{prefix}-pinv", figure),
        Claim(
            f"{prefix}-pinv-linear",
            "in linear networks log tr(Σw Σb⁺) falls less than half as far over the layers as (3) does",
            _falls_less,
            spring_block(figure=f"{figure}, S14"),
        ),
    )


def _definitions(name: str, figure: str) -> tuple[Claim, ...]:
    """Both definitions of separation; the paper shows the other one, in Figure S13, for dropout only."""
    text = "both definitions of separation rank the cells of nonlinear networks alike (above 0.8)"
    if figure != "1(c)":
        source = spring_block(figure=figure, section="S4")
        return (Claim(name, text, _ranked_alike, source, kind="own", settles_at="paper"),)
    source, why = spring_block(figure=f"{figure}, S13", section="S4"), f"{name}-shape, how far curves fall differs"
    return (
        Claim(name, text, lambda seen: because(_ranked_alike(seen), why), source, settles_at="paper"),
        Claim(
            f"{name}-shape",
            "so do they in units of a layer's mean work, by either definition",
            partial(_ranked_alike, measure=bend_per_work),
            source,
            kind="own",
            settles_at="paper",
        ),
    )


def _interior(prefix: str) -> tuple[Claim, ...]:
    """What holds between the corners; the paper states it in words, bounds on rank correlations are ours."""
    slopes = partial(_falls_along_slopes, why=f"{prefix}-along-shape, how far curves fall differs")
    stated: tuple[tuple[str, str, Callable[[xr.Dataset], Judgement], Kind], ...] = (
        ("along-noise", "along every slope, more noise leaves a more convex curve", _falls_along_noise, "derived"),
        ("along-slopes", "at every noise, less nonlinearity leaves a less concave one", slopes, "derived"),
        ("along-shape", "in units of a layer's mean work both hold, in the mean of all", _falls_along_both, "own"),
        ("diagonal", "the less nonlinear a network, the less noise turns its curve convex", _diagonal, "derived"),
    )
    return tuple(
        Claim(f"{prefix}-{name}", f"{text}: rank correlation below −0.8", judge, kind=kind, settles_at="paper")
        for name, text, judge, kind in stated
    )


def _draw_cells(record: xr.Dataset, ax: Axes) -> None:
    """Load curves of training and test data over a shade of the test accuracy."""
    config = settings(record)
    plots.plot_network_phases(record, ax, noise=config.noise, first_layer=config.first_layer)
    ax.set_title(f"Load curves of networks on {config.data} ({config.figure.replace('FIG.', 'Figure')})")


def _draw_best_row(record: xr.Dataset, ax: Axes) -> None:
    """R² and accuracy along the row with the best accuracy."""
    row, noise = _best_row(_read(record)), record[settings(record).noise]
    columns = np.arange(noise.size)
    ax.plot(columns, row["reached"].mean("trial"), "k-o")
    other = ax.twinx()
    other.plot(columns, row["straight"].mean("trial"), "-s", color="#C1272D")
    other.set_ylabel("R² of the load curve", color="#C1272D")
    ax.set_xticks(columns, [f"{value:g}" for value in noise.values])
    title = f"slope {float(row['slope']):g}, the row with the best accuracy (S5)"
    across = f"{noise.attrs['long_name']}, the weakest noise first"
    ax.set(xlabel=across, ylabel="test accuracy", title=title)


# --- scales: digits, which need no download, or a part of the data set itself ---------------------------------------

DIGITS: Mapping[str, Any] = {"data": "digits", "size": 0, "samples": 0, "width": 64, "batch_size": 32, "epochs": 12}
COARSE = {**DIGITS, "slopes": (0.0, 0.2, 0.6, 1.0), "seeds": 6}
COARSER = {**COARSE, "slopes": (0.0, 0.4, 1.0)}
PART = {"samples": 64, "batch_size": 32, "epochs": 20, "slopes": (0.0, 0.4, 1.0), "seeds": 6}
TWO_BATCHES = {"values": (100, 5), "samples": 40, "learning_rate": 0.003, "seeds": 8}
_SMOKE = {**DIGITS, "seeds": 4, "slopes": (0.0, 1.0), "epochs": 8, "depth": 7, "shared": 0}
_NOISES: Mapping[str, Mapping[str, Any]] = {
    "dropout": {"values": (0.0, 0.1, 0.3)},
    "data_noise": {"values": (0.0, 0.2, 0.6)},
    "learning_rate": {"values": (5e-4, 3e-3, 2e-2)},
    "batch_size": {"values": (100, 12, 4), "samples": 60, "learning_rate": 0.002},
}


def evenly(last: float, count: int) -> tuple[float, ...]:
    """Values from 0 on.

    >>> evenly(0.3, 4)
    (0.0, 0.1, 0.2, 0.3)
    """
    return tuple(float(value) for value in np.linspace(0.0, last, count).round(4))


DROPOUTS, DATA_NOISES = evenly(0.3, 16), evenly(0.8, 9)
RATES = tuple(float(value) for value in np.geomspace(1e-4, 0.5, 12))
BATCH_SIZES = tuple(5 * 2**j for j in range(9, -1, -1))


def phase_diagram(
    config: Config, *, laptop: Mapping[str, Any], smoke: Mapping[str, Any] | None = None, adapted: str = ""
) -> Experiment:
    """A phase diagram of networks; `config` is its paper scale.

    adapted: what is ours at that scale, beyond what all diagrams do otherwise than the paper
    """
    figure = config.figure.removeprefix("FIG. ")
    always = "images standardised and drawn by class; no early stopping"
    return Experiment(
        spring_block(figure=figure),
        config,
        run,
        claims=_claims(figure, config),
        picture=Panels(_draw_cells, _draw_best_row, width=7.5, height=5.5),
        read=_read,
        smoke={**_SMOKE, **_NOISES[config.noise], **(smoke or {})},
        laptop=laptop,
        model="PhaseDiagram",
        precision="float32",
        needs=("torch", "sklearn"),
        adapted="; ".join(part for part in (always, adapted) if part),
        sweep=phase_training,
    )
