"""layerwise Figure 2.2, Table 2.1: Features of a network that learns a step.

It learns to do it with one feature.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope import networks, plots
from dynascope.checks import ArrayLike
from dynascope.experiments.claims import Claim, Judgement, above, corrected, equal
from dynascope.experiments.experiment import Experiment, Figure
from dynascope.experiments.sources import layerwise
from dynascope.measure.spectrum import eigenfunctions, feature_spectrum
from dynascope.statistics.errors import Estimate, over_trials

SHOWN = 60  # features kept in the record
_FEW = 400  # samples that show a network's few features well enough
_TWENTY = 20
# rows of Table 2.1: what an effective number counts, untrained, trained
_TABLE = {
    "quality": ("useful", 3.2, 1.1),
    "utilization": ("used", 1.8, 1.0),
    "intensity_all": ("significant", 1.6, 1.2),
}
_RECIPE = ("table-2.1-recipe, it depends on what the source leaves out",)
# numbers that one network cannot tell, or not without a recipe, and the claims that show it
_WHY = {(name, True): _RECIPE for name in _TABLE}
_WHY["utilization", False] = ("table-2.1-spread, networks differ",)
RECIPES = ("momentum", "plain")
_MEASURES = {
    "cumulative_quality": "cumulative quality",
    "cumulative_utilization": "cumulative utilization",
    "intensity": "intensity beside the strongest",
}

Layers = list[tuple[jax.Array, jax.Array]]  # weights and biases


@dataclass(frozen=True)
class Config:
    """A fully connected ReLU network of 4 layers, scalar in and out, PyTorch's default initial law.

    The source names width, depth and SGD only: every network is trained with momentum, and without it at half of the
    learning rate at which its start is unstable, for as many more steps as it is slower. The last layer has no bias:
    with one, the features may settle on the complement of the step and leave the constant to it.
    """

    width: int = 1000
    networks: int = 10
    samples: int = 1000
    batch_size: int = 100
    steps: int = 10_000
    learning_rate: float = 0.05
    momentum: float = 0.9
    snapshots: int = 4  # steps 0, …, the last, spaced evenly in the logarithm
    points: int = 2000
    initial_networks: int = 32
    seed: int = 22


@partial(jax.jit, static_argnames="width")
def initial_weights(key: jax.Array, width: int) -> Layers:
    """Weights and biases uniform in ±1/√(inputs), PyTorch's default; the last bias is 0 and stays so.

    >>> [w.shape for w, _ in initial_weights(jax.random.key(0), 5)]
    [(1, 5), (5, 5), (5, 5), (5, 1)]
    """
    shapes = [(1, width), (width, width), (width, width), (width, 1)]
    layers = []
    for place, (inputs, outputs) in enumerate(shapes):
        draw = partial(jax.random.uniform, minval=-(inputs**-0.5), maxval=inputs**-0.5)
        first, second = jax.random.split(jax.random.fold_in(key, place))
        bias = jnp.zeros(outputs) if place == 3 else draw(second, (outputs,))
        layers.append((draw(first, (inputs, outputs)), bias))
    return layers


@jax.jit
def features_of(weights: Layers, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Features of the last hidden layer (sample, width) and outputs (sample,).

    >>> features_of(initial_weights(jax.random.key(0), 5), jnp.zeros(3))[0].shape
    (3, 5)
    """
    h = x[:, None]
    for weight, bias in weights[:-1]:
        h = jax.nn.relu(h @ weight + bias)
    return h, (h @ weights[-1][0])[:, 0]


def steady_rate(weights: Layers, x: np.ndarray) -> float:
    """1/λ, half of the learning rate at which gradient descent on the mean square is unstable, to two digits.

    λ is the largest eigenvalue of 2 J Jᵀ/n, J the outputs' derivative by the weights, found by its power.

    >>> steady_rate([(jnp.ones((1, 1)), jnp.ones(1)), (jnp.ones((1, 1)), jnp.zeros(1))], np.ones(4))
    0.083
    """
    inputs = jnp.asarray(x, jnp.float32)
    outputs = partial(_outputs, x=inputs)
    back = jax.vjp(outputs, weights)[1]
    vector, size = jnp.ones(len(x)), jnp.ones(())
    for _ in range(20):
        vector = 2 / len(x) * jax.jvp(outputs, (weights,), back(vector / size))[1]
        size = jnp.linalg.norm(vector)
    return float(f"{1 / size:.2g}")


def _outputs(weights: Layers, x: jax.Array) -> jax.Array:
    outputs: jax.Array = features_of(weights, x)[1]
    return outputs


def run(config: Config) -> xr.Dataset:
    """Train networks and measure their features before, between and after."""
    random = np.random.default_rng(config.seed)
    x = random.uniform(-1, 1, config.samples)
    grid = (np.arange(config.points) + 0.5) * 2 / config.points - 1  # even, and off the jump
    keys = jax.random.split(jax.random.key(config.seed), config.initial_networks)
    until = np.unique(np.geomspace(10, config.steps, config.snapshots - 1).round().astype(int))
    rate = steady_rate(initial_weights(keys[0], config.width), x)
    plain = replace(config, momentum=0.0, learning_rate=rate)
    longer = max(1, round(config.learning_rate / (1 - config.momentum) / rate))
    recipes = ((config, until), (plain, longer * until))
    paths = [_path(recipe, x, grid, steps) for recipe, steps in recipes]
    coordinates = {"recipe": list(RECIPES), "step": [0, *until.tolist()], "x": grid}
    record = xr.concat(paths, "recipe").assign_coords(coordinates)
    points = [jnp.asarray(each, jnp.float32) for each in (x[:_FEW], grid)]
    fresh = [[features_of(initial_weights(key, 1000), each) for each in points] for key in keys]
    measured = [_measure(seen, of_grid, outputs, grid) for (seen, _), (of_grid, outputs) in fresh]
    starts = xr.concat(measured, "draw")
    for name in _TABLE:
        record[f"initial_{name}"] = starts[f"dimension_{name}"]
    # what the first features leave of the step, whose mean square is 1/2
    record["initial_error"] = (1 - starts["cumulative_quality"]) / 2
    record["step"].attrs["long_name"] = "training step with momentum"
    return record


def _path(config: Config, x: np.ndarray, grid: np.ndarray, until: np.ndarray) -> xr.Dataset:
    """Train all networks, from the start each time, and measure them untrained and after the steps `until`."""
    step = (x[:, None] > 0).astype(float)
    path = []
    for steps in (0, *until.tolist()):
        ensemble = networks.Ensemble(
            networks.mlp_variants.OpenMLP(1, 1, width=config.width, depth=3),
            trials=config.networks,
            learning_rate=2 * config.learning_rate if steps else 0.0,  # its loss is half the mean square
            momentum=config.momentum,
            batch_size=config.batch_size,
            loss="mse",
            seed=config.seed,
        )
        ensemble.train(x[:, None], step, max(1, steps), record_every=max(1, steps))
        seen, of_grid = (ensemble.features(each[:, None]) for each in (x[:_FEW], grid))
        name = ensemble.network.last
        measured = zip(seen[name], of_grid[name], of_grid["logits"][..., 0], strict=True)
        path.append(xr.concat([_measure(*each, grid) for each in measured], "trial"))
    return xr.concat(path, "step")


def _measure(seen: ArrayLike, of_grid: ArrayLike, outputs: ArrayLike, grid: np.ndarray) -> xr.Dataset:
    """Spectrum from features of training samples, evaluated on an even grid, with the first features themselves."""
    train, test, output = (np.asarray(each, float) for each in (seen, of_grid, outputs))
    found = feature_spectrum(train, test, (grid > 0).astype(float), output)
    kept = found.drop_vars("regime").reindex(feature=np.arange(1, SHOWN + 1))
    strongest = eigenfunctions(train, test)[1][:, :3]
    shapes = np.full((len(grid), 3), np.nan)
    shapes[:, : strongest.shape[1]] = strongest * np.sign(strongest[-1])
    kept["eigenfunction"] = (("x", "shape"), shapes)
    kept["output"] = ("x", output)
    return kept


def _table_claim(name: str, *, trained: bool) -> Claim:
    """One number of Table 2.1."""
    word, *printed = _TABLE[name]

    def judge(record: xr.Dataset) -> Judgement:
        found = record[f"dimension_{name}"].isel(step=-1) if trained else record[f"initial_{name}"].rename(draw="trial")
        spread = found.std("trial", ddof=1)
        note = (
            f"mean of {found.sizes['trial']} networks{', with momentum and without' if trained else ''}; the table "
            "shows one, rounded to 0.1: tolerance is three times their spread and half a digit; rival: the table's "
            f"other number, {printed[not trained]}"
        )
        rival = printed[not trained]
        return equal(found.mean("trial"), printed[trained], 3 * spread + 0.05, rival=rival, error=spread, note=note)

    stage, when = ("trained", "after training") if trained else ("initial", "at initialization")
    return Claim(
        f"table-2.1-{stage}-{name.removesuffix('_all')}",
        f"the effective number of {word} features of a network on a step is {printed[trained]} {when}",
        judge,
        layerwise(table="2.1"),
        settles_at="laptop" if trained or (name, trained) in _WHY else "smoke",
        why=_WHY.get((name, trained), ()),
    )


def _single(record: xr.Dataset) -> Judgement:
    best = record["quality"].isel(step=-1).max("feature")
    note = f"highest quality of a feature, {best.sizes['trial']} networks, with momentum and without"
    return above(over_trials(best), 0.9, note=note)


def _fewer(record: xr.Dataset, *names: str) -> Judgement:
    """Effective numbers of untrained networks beside those after training, for both recipes."""
    ends = xr.concat([record[f"dimension_{name}"].isel(step=-1) for name in names], "kind")
    after = over_trials(ends.transpose("kind", "recipe", "trial"))
    starts = np.stack([record[f"initial_{name}"].values for name in names])[:, None]  # (kind, 1, draw)
    before = over_trials(np.broadcast_to(starts, (*after.mean.shape, starts.shape[-1])))
    note = f"D_eff of {starts.shape[-1]} networks at the start, beside {ends.sizes['trial']} of each recipe at the end"
    return above(before.against(after), after.mean, note=note)


def _spread(record: xr.Dataset) -> Judgement:
    """Standard deviation of untrained networks, with the error that it has for Gaussian values."""
    start = record["initial_utilization"].rename(draw="trial")
    count = start.sizes["trial"]
    spread = np.asarray(start.std("trial", ddof=1))
    _, before, after = _TABLE["utilization"]
    note = f"standard deviation of {count} networks, beside a fifth of {before} − {after}"
    return above(Estimate(spread, spread / np.sqrt(2 * (count - 1)), count), (before - after) / 5, note=note)


def _recipe(record: xr.Dataset) -> Judgement:
    """More features without momentum in every row of the table, and not since the step is not learnt."""
    last = record.isel(step=-1)
    counts = xr.concat([last[f"dimension_{name}"] for name in _TABLE], "kind")
    plain = last["output"].sel(recipe="plain")
    learnt = 0.005 - ((plain - (last["x"] > 0)) ** 2).mean("x")  # 1 % of the step's mean square
    more = np.concatenate([counts.sel(recipe="plain") - counts.sel(recipe="momentum"), [learnt]])  # (kind, trial)
    note = (
        "D_eff(Q*), D_eff(Q̂) and D_eff(ρ) without momentum less those with it, and 1 % of the target's mean square "
        f"less the error without it, {last.sizes['trial']} networks from the same weights"
    )
    return above(over_trials(more), 0.0, note=note)


def _fixed(record: xr.Dataset) -> Judgement:
    """Features of an untrained network are smooth: n of them leave 1/(π²n) of a jump, as sines and cosines do."""
    left = record["initial_error"].sel(feature=_TWENTY).values
    expected = 1 / (np.pi**2 * _TWENTY)
    note = (
        f"20 features leave 1/(π²·20) as 20 sines and cosines do, and 1e-5 needs 10,000; mean of {left.size} "
        "networks; a fifth is allowed for features that are not quite sines"
    )
    return corrected(over_trials(left), expected, 0.2 * expected, published=1e-5, note=note)


def _picture(record: xr.Dataset) -> Figure:
    """The first features and the three measures at the saved steps, for the first network."""
    figure, axes = plots.new_figure(columns=3, rows=2)
    one = record.isel(trial=0, recipe=0)
    for ax, stage in zip(axes[0], (0, one.sizes["step"] // 2, -1), strict=True):
        now = one.isel(step=stage)
        ax.plot(now["x"], now["x"] > 0, color="0.6", linewidth=3, label="target")
        ax.plot(now["x"], now["output"], color="black", linewidth=1, label="output")
        for shape in range(3):
            curve, name = now["eigenfunction"].isel(shape=shape), f"feature {shape + 1}"
            ax.plot(now["x"], curve, "--", color=plots.PALETTE[shape], linewidth=1.2, label=name)
        ax.set(xlabel="input x", ylabel="value (features of mean square 1)", title=f"step {int(now['step'])}")
    for ax, (name, label) in zip(axes[1], _MEASURES.items(), strict=True):
        for colour, step in zip(plots.PALETTE, one["step"].values, strict=False):
            values = one[name].sel(step=step)
            values = values / values.isel(feature=0) if name == "intensity" else values
            ax.plot(one["feature"], values, marker=".", color=colour, label=f"step {step}")
        ax.set(xlabel="feature, strongest first", ylabel=label, xscale="log")
    axes[1, 2].set_yscale("log")
    for ax in axes[:, 0]:
        ax.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    layerwise(figure="2.2", table="2.1"),
    Config(),
    run,
    claims=(
        *(_table_claim(name, trained=trained) for name in _TABLE for trained in (False, True)),
        Claim(
            "fig-2.2-single-feature",
            "after training a single feature expresses the step",
            _single,
            layerwise(figure="2.2(c), 2.2(d)"),
            settles_at="laptop",  # as the next two: three networks are too few
            why=_RECIPE,
        ),
        Claim(
            "fig-2.2-fewer",
            "after training fewer features express the target and the learned function: D_eff(Q*), D_eff(Q̂) fall",
            lambda record: _fewer(record, "quality", "utilization"),
            layerwise(figure="2.2(d)", table="2.1"),
            settles_at="laptop",
            why=_RECIPE,
        ),
        Claim(
            "fig-2.2-fewer-significant",
            "after training fewer features are significant, whether SGD has momentum or not: D_eff(ρ) falls",
            lambda record: _fewer(record, "intensity_all"),
            layerwise(figure="2.2", table="2.1"),
            settles_at="laptop",
            why=_RECIPE,
        ),
        Claim(
            "table-2.1-spread",
            "untrained networks differ in the effective number of used features by more than a fifth of what the table "
            "lets training change: one network cannot tell its two numbers apart",
            _spread,
            layerwise(table="2.1"),
            kind="own",
            settles_at="laptop",
        ),
        Claim(
            "table-2.1-recipe",
            "how many features are useful, used and significant after training depends on the recipe: more without "
            "momentum, though the step is learnt to 1 %",
            _recipe,
            layerwise(table="2.1", figure="2.2"),
            kind="own",
            settles_at="laptop",
        ),
        Claim(
            "fig-2.2-fixed-features",
            "about 20 features of an untrained network approximate the step to a mean square error below 1e-5",
            _fixed,
            layerwise(figure="2.2(a)"),
        ),
    ),
    picture=_picture,
    smoke={"width": 100, "networks": 3, "batch_size": 20, "steps": 600, "learning_rate": 0.1, "initial_networks": 12},
    laptop={"width": 200, "batch_size": 20, "steps": 6000, "learning_rate": 0.1},
    model="HeavisideNetwork",
    precision="float32",
    needs=("torch",),
    adapted="momentum, learning rate and batch, which the source leaves out; no bias in the last layer",
)
