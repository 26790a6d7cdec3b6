"""Load curves and test accuracy of networks over nonlinearity and one source of noise: Figure 1 and its variants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.phases import phase_judges as judges
from dynascope.experiments.phases.load_curves import phase_training, run_grid
from dynascope.experiments.phases.shapes import (
    accurate_as_straight,
    bend_per_work,
    best_where_straight,
    straight_where_best,
    straightest_inside,
)
from dynascope.experiments.sources import Source, spring_block
from dynascope.statistics.errors import over_trials


@dataclass(frozen=True)
class Config:
    """Slopes (rows) by values of one source of noise (columns, the weakest first), for several seeds.

    `depth` counts hidden layers: a network that the paper calls 8-layer has 7. `first_layer` is where load curves
    begin: the paper leaves the input out on CIFAR. `best` is the shape of the load curve where the test accuracy is
    best: straight, or concave as the paper sees it for learning rates on CIFAR. The first columns are `shared`
    if they hold the same networks as another figure: claims on the weakest noise then look at the next. Linear networks
    are left out of claims unless `linear_converges`. `fits_less`: whether networks with the straightest curves fit
    less, so that they are not the best. `apart`: what cells that lie close decide, so that an experiment of its own
    judges it with more runs: "linear", how noise bends linear networks, or "best", which cell of the most accurate row
    is best. `begin`: the first seed, where networks that were not seen before shall judge. `products`: how exact they
    are, as `Ensemble` takes it.
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
    fits_less: bool = False
    apart: Literal["", "linear", "best"] = ""
    begin: int = 0
    products: str = "usual"


_CLAIMED = ("first_layer", "best", "thorough", "shared", "linear_converges", "fits_less", "apart")
_GRID_AND_CLAIMS = ("figure", "noise", "values", "slopes", "seeds", "begin", "products", *_CLAIMED)


def run(config: Config) -> xr.Dataset:
    """Train the whole grid and keep what `training.train` measures at the end."""
    fixed = {name: value for name, value in vars(config).items() if name not in (*_GRID_AND_CLAIMS, config.noise)}
    grid = {"slope": config.slopes, config.noise: config.values}
    seeds = range(config.begin, config.begin + config.seeds)
    record = run_grid(grid, seeds=seeds, fixed=fixed, products=config.products)
    record["slope"].attrs["long_name"] = "slope of the leaky ReLU"
    record[config.noise].attrs["long_name"] = config.noise.replace("_", " ")
    record["accuracy"].attrs["long_name"] = "accuracy"
    return record


# --- claims ---------------------------------------------------------------------------------------------------------


def named(figure: str) -> str:
    """How the identifiers of a figure's claims begin.

    >>> named("S8(a)")
    'fig-s8a'
    """
    return f"fig-{figure.lower()}".replace("(", "").replace(")", "")


def _claims(figure: str, config: Config) -> tuple[Claim, ...]:
    """What a phase diagram claims; a thorough one also holds train against test and two measures of separation."""
    prefix = named(figure)
    least = "least noise" if not config.shared else "least noise above none, for which see Figure 1(a)"
    every = "every slope" if config.linear_converges else "every slope below 1, where networks converge"
    falls: Callable[[xr.Dataset], Judgement] = judges.falls
    if config.apart == "linear":
        every, falls = f"every slope below 1 (for 1 see {prefix}-noise-1)", partial(judges.falls, slopes=slice(-1))
    hidden = "the first layer takes the load" if config.first_layer else "layers separate less and curves bend more"
    claims: tuple[Claim, ...] = (
        Claim(
            f"{prefix}-concave",
            f"most nonlinear network, {least}: the load curve is concave",
            lambda seen: above(over_trials(judges.weakest(seen)["bend"][0]), 0.0, note="curvature of the load curve"),
        ),
        *_convex(f"{prefix}-convex", config),
        Claim(
            f"{prefix}-noise",
            f"for {every}, the strongest noise leaves a more convex curve than the weakest",
            falls,
            settles_at="laptop",  # in a linear network the change is small
            why=(f"{prefix}-noise-linear, of the least nonlinear {hidden}",),
        ),
        Claim(
            f"{prefix}-noise-linear",
            "of the least nonlinear networks it does so from the input on and in units of a layer's mean work",
            judges.falls_per_work,
            kind="own",
            settles_at="paper",
        ),
        Claim(
            f"{prefix}-nonlinearity",
            f"at the {least}, the most nonlinear network has a more concave curve than the least "
            f"nonlinear one{_converging(config)}",
            lambda seen: above(over_trials(judges.weakest(seen)["bend"][0] - judges.weakest(seen)["bend"][-1]), 0.0),
        ),
    )
    claims += _accuracy(prefix, figure, config)
    return claims + _thorough(prefix, figure) + _interior(prefix) if config.thorough else claims


def _converging(config: Config) -> str:
    """What is said of the least nonlinear network, where linear ones do not converge."""
    return "" if config.linear_converges else " below slope 1"


def _convex(name: str, config: Config) -> tuple[Claim, ...]:
    """The other corner; where linear networks do not converge, neither may the next ones at the strongest noise."""
    text = f"least nonlinear network{_converging(config)}, most noise: the load curve is convex"
    if config.linear_converges:
        return (Claim(name, text, judges.convex),)
    return (
        Claim(name, text, judges.convex, why=(f"{name}-between, too little is learnt",)),
        Claim(
            f"{name}-between",
            "in the middle of the noises it is convex, and more so than at the most noise",
            judges.convex_between,
            kind="own",
            settles_at="paper",
        ),
    )


def _accuracy(prefix: str, figure: str, config: Config) -> tuple[Claim, ...]:
    if config.best == "concave":
        return (
            Claim(
                f"{prefix}-accuracy",
                "the load curve with the best test accuracy is concave",
                judges.best_concave,
                settles_at="paper",
                why=(f"{prefix}-accuracy-near, concave and convex are as accurate",),
            ),
            Claim(
                f"{prefix}-accuracy-near",
                "some concave load curve has a test accuracy at most 0.005 below the best",
                judges.concave_near,
                kind="derived",
                settles_at="paper",
            ),
        )
    source = spring_block(figure=f"{figure}, S5")
    return (
        *(() if config.apart == "best" else best_cell(figure, fits_less=config.fits_less)),
        Claim(
            f"{prefix}-accuracy-rank",
            "in the row with the best test accuracy, accuracy and R² rank the noises alike (above 0.5)",
            judges.in_best_row(accurate_as_straight),
            source,
            kind="derived",  # "always accompanied": the bound is ours, and the sentence counts once, as -accuracy
            settles_at="paper",
        ),
        *((_fitted(f"{prefix}-accuracy-fitted", source),) if config.fits_less else ()),
    )


def best_cell(figure: str, *, fits_less: bool = False, among: str = "") -> tuple[Claim, ...]:
    """Whether the straightest curve of the most accurate row is also the most accurate one.

    among: which noises of that row are compared, if not all

    >>> [claim.id for claim in best_cell("S8(a)")]
    ['fig-s8a-accuracy', 'fig-s8a-accuracy-near']
    """
    prefix, source = named(figure), spring_block(figure=f"{figure}, S5")
    row = "the row with the best test accuracy" + (f", {among}" if among else "")
    why = f"{prefix}-accuracy-near, the most accurate has nearly as straight a curve"
    if fits_less:
        why = f"{prefix}-accuracy-fitted, networks with the straightest curves fit less, which costs accuracy"
    return (
        Claim(
            f"{prefix}-accuracy",
            f"in {row}, no noise gives 0.005 more than that with the straightest curve",
            judges.in_best_row(best_where_straight),
            source,
            settles_at="paper",
            why=(why,),
        ),
        Claim(
            f"{prefix}-accuracy-near",
            f"in {row if among else 'that row'}, the noise with the best test accuracy leaves a nearly straight curve: "
            "R² within 0.02 of any",
            judges.in_best_row(straight_where_best),
            source,
            kind="derived",  # "the highest accuracy is always accompanied by the highest R² score": the bound is ours
            settles_at="paper",
        ),
    )


def _fitted(name: str, source: Source) -> Claim:
    return Claim(
        name,
        "in that row, where curves are straightest training losses are higher than where test accuracy is best, and of "
        "those runs the half with the lower losses is the more accurate",
        judges.fits_less,
        source,
        kind="own",
        settles_at="paper",
    )


def _thorough(prefix: str, figure: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{prefix}-linear",
            "for the most nonlinear network, some noise in between gives the straightest curve",
            lambda seen: straightest_inside(seen["load"].sel(probe="train")[0]),
            settles_at="laptop",
        ),
        Claim(
            f"{prefix}-accuracy-cells",
            "over all cells, too, accuracy and R² rank networks alike (above 0.5)",
            judges.accurate_cells,
            kind="derived",
            settles_at="paper",
        ),
        Claim(
            f"{prefix}-test",
            "test load curves bend as training ones do: correlation over cells above 0.9",
            judges.alike_on_test_data,
            spring_block(figure=f"{figure}, S4, S19, S20"),
        ),
        *_definitions(f"{prefix}-pinv", figure),
        Claim(
            f"{prefix}-pinv-linear",
            "in linear networks log tr(Σw Σb⁺) falls less than half as far over the layers as (3) does",
            judges.falls_less,
            spring_block(figure=f"{figure}, S14"),
            kind="printed" if figure == "1(c)" else "own",  # Figure S14 shows dropout only
        ),
    )


def _definitions(name: str, figure: str) -> tuple[Claim, ...]:
    """Both definitions of separation; the paper shows the other one, in Figure S13, for dropout only."""
    text = "both definitions of separation rank the cells of nonlinear networks alike (above 0.8)"
    if figure != "1(c)":
        source = spring_block(figure=figure, section="S4")
        return (Claim(name, text, judges.ranked_alike, source, kind="own", settles_at="paper"),)
    source, why = spring_block(figure=f"{figure}, S13", section="S4"), (f"{name}-shape, how far curves fall differs",)
    return (
        # "comparable results": the bound is ours
        Claim(name, text, judges.ranked_alike, source, kind="derived", settles_at="paper", why=why),
        Claim(
            f"{name}-shape",
            "so do they in units of a layer's mean work, by either definition",
            partial(judges.ranked_alike, measure=bend_per_work),
            source,
            kind="own",
            settles_at="paper",
        ),
    )


def _interior(prefix: str) -> tuple[Claim, ...]:
    """What holds between the corners; the paper states it in words, bounds on rank correlations are ours."""
    derived = partial(Claim, kind="derived", settles_at="paper")
    bound, why = "rank correlation below −0.8", (f"{prefix}-along-shape, how far curves fall differs",)
    return (
        derived(
            f"{prefix}-along-noise",
            f"along every slope, more noise leaves a more convex curve: {bound}",
            judges.falls_along_noise,
            why=why,
        ),
        derived(
            f"{prefix}-along-slopes",
            f"at every noise, less nonlinearity leaves a less concave one: {bound}",
            judges.falls_along_slopes,
            why=why,
        ),
        Claim(
            f"{prefix}-along-shape",
            f"in units of a layer's mean work both hold, in the mean of all: {bound}",
            judges.falls_along_both,
            kind="own",
            settles_at="paper",
        ),
        derived(
            f"{prefix}-diagonal",
            f"the less nonlinear a network, the less noise turns its curve convex: {bound}",
            judges.diagonal,
        ),
    )


def _draw_cells(record: xr.Dataset, ax: Axes) -> None:
    """Load curves of training and test data over a shade of the test accuracy."""
    config = settings(record)
    plots.plot_network_phases(record, ax, noise=config.noise, first_layer=config.first_layer)
    ax.set_title(f"Load curves of networks on {config.data} ({config.figure.replace('FIG.', 'Figure')})")


def shown(value: float) -> str:
    """A value of some noise for people: learning rates are numbers without end.

    >>> shown(0.000216), shown(0.05), shown(2560)
    ('0.00022', '0.05', '2560')
    """
    return f"{value:.2g}" if value < 1 else f"{value:g}"


def draw_best_row(record: xr.Dataset, ax: Axes) -> None:
    """R² and accuracy along the row with the best accuracy."""
    row, noise = judges.best_row(judges.read(record)), record[settings(record).noise]
    columns = np.arange(noise.size)
    ax.plot(columns, row["reached"].mean("trial"), "k-o")
    other = ax.twinx()
    other.plot(columns, judges.straightness_along(row), "-s", color="#C1272D")
    other.set_ylabel("R² of the mean load curve", color="#C1272D")
    ax.set_xticks(columns, [shown(value) for value in noise.values])
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


ALWAYS = "images standardised and drawn by class; no early stopping"
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
    return Experiment(
        spring_block(figure=figure),
        config,
        run,
        claims=_claims(figure, config),
        picture=Panels(_draw_cells, draw_best_row, width=7.5, height=5.5),
        read=judges.read,
        smoke={**_SMOKE, **_NOISES[config.noise], **(smoke or {})},
        laptop=laptop,
        model="PhaseDiagram",
        precision="float32",
        needs=("torch", "sklearn"),
        adapted="; ".join(part for part in (ALWAYS, adapted) if part),
        sweep=phase_training,
    )
