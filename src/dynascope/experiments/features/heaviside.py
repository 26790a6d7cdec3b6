"""Figure 2.2 and Table 2.1: a network that learns a step learns to do it with one feature."""

import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.measure.spectrum import eigenfunctions, feature_spectrum
from dynascope.records import with_provenance

SHOWN = 60  # features kept in the record
_FEW = 400  # samples that show an untrained network's few features well enough


@dataclass(frozen=True)
class Config:
    """A fully connected ReLU network of 4 layers, scalar in and out, PyTorch's default initial law.

    The source names width, depth and SGD only. Momentum 0.9 and this learning rate give its table; plain SGD at the
    edge of stability reaches the same quality and utilization but keeps two strong features. The last layer has no
    bias: with one, the features may settle on the complement of the step and leave the constant to it.
    """

    width: int = 1000
    networks: int = 4
    samples: int = 1000
    batch_size: int = 100
    steps: int = 10_000
    learning_rate: float = 0.05
    momentum: float = 0.9
    snapshots: int = 4  # steps 0, …, the last, spaced evenly in the logarithm
    points: int = 2000
    initial_networks: int = 32
    seed: int = 22


SCALES = {
    "smoke": Config(width=100, networks=3, batch_size=20, steps=5000, learning_rate=0.1, initial_networks=12),
    "laptop": Config(width=200, networks=6, batch_size=20, learning_rate=0.1),
    "paper": Config(networks=8),
}
_TABLE = {"quality": (3.2, 1.1), "utilization": (1.8, 1.0), "intensity_all": (1.6, 1.2)}
_WORDS = {"quality": "useful", "utilization": "used", "intensity_all": "significant"}
CLAIMS = tuple(
    Claim(
        f"table-2.1-{stage}-{name.removesuffix('_all')}",
        "layerwise Table 2.1",
        f"the effective number of {_WORDS[name]} features of a network on a step is {values[place]} {when}",
    )
    for name, values in _TABLE.items()
    for place, (stage, when) in enumerate((("initial", "at initialization"), ("trained", "after training")))
)
SINGLE = Claim(
    "fig-2.2-single-feature", "layerwise figure 2.2(c, d)", "after training a single feature expresses the step"
)

FIXED = Claim(
    "fig-2.2-fixed-features",
    "layerwise figure 2.2(a)",
    "about 20 features of an untrained network approximate the step to a mean square error below 1e-5",
)
_TWENTY = 20


@partial(jax.jit, static_argnames="width")
def initial_weights(key: jax.Array, width: int) -> list[tuple[jax.Array, jax.Array]]:
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
def features_of(weights: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Features of the last hidden layer (sample, width) and outputs (sample,).

    >>> features_of(initial_weights(jax.random.key(0), 5), jnp.zeros(3))[0].shape
    (3, 5)
    """
    h = x[:, None]
    for weight, bias in weights[:-1]:
        h = jax.nn.relu(h @ weight + bias)
    return h, (h @ weights[-1][0])[:, 0]


def _loss(weights: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((features_of(weights, x)[1] - y) ** 2)


@partial(jax.jit, static_argnames="batch_size")
def _train(
    weights: Any, speed: Any, x: jax.Array, key: jax.Array, *, steps: Any, batch_size: int, rate: Any, momentum: Any
) -> tuple[Any, Any]:
    """SGD with momentum on the step 1(x > 0), batches drawn with replacement."""

    def step(number: jax.Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
        weights, speed = state
        chosen = x[jax.random.randint(jax.random.fold_in(key, number), (batch_size,), 0, len(x))]
        slope = jax.grad(_loss)(weights, chosen, (chosen > 0) * 1.0)
        speed = jax.tree.map(lambda v, g: momentum * v + g, speed, slope)
        return jax.tree.map(lambda w, v: w - rate * v, weights, speed), speed

    trained: tuple[Any, Any] = jax.lax.fori_loop(0, steps, step, (weights, speed))
    return trained


def run(config: Config) -> xr.Dataset:
    """Train networks and measure their features before, between and after."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    x = random.uniform(-1, 1, config.samples)
    grid = (np.arange(config.points) + 0.5) * 2 / config.points - 1  # even, and off the jump
    keys = jax.random.split(jax.random.key(config.seed), max(config.networks, config.initial_networks))
    until = np.unique(np.geomspace(10, config.steps, config.snapshots - 1).round().astype(int))
    paths = []
    for key in keys[: config.networks]:
        weights = initial_weights(key, config.width)
        speed = jax.tree.map(jnp.zeros_like, weights)
        path = [_measure(weights, x, grid)]
        for part, steps in enumerate(np.diff(until, prepend=0)):
            weights, speed = _train(
                weights, speed, jnp.asarray(x, jnp.float32), jax.random.fold_in(key, 7 + part), steps=int(steps),
                batch_size=config.batch_size, rate=config.learning_rate, momentum=config.momentum,
            )  # fmt: skip
            path.append(_measure(weights, x, grid))
        paths.append(xr.concat(path, "step"))
    record = xr.concat(paths, "trial").assign_coords(step=[0, *until.tolist()], x=grid)
    fresh = [_measure(initial_weights(key, 1000), x[:_FEW], grid) for key in keys[: config.initial_networks]]
    starts = xr.concat(fresh, "draw")
    for name in _TABLE:
        record[f"initial_{name}"] = starts[f"dimension_{name}"]
    # what the first features leave of the step, whose mean square is 1/2
    record["initial_error"] = (1 - starts["cumulative_quality"]) / 2
    record["step"].attrs["long_name"] = "training step"
    return with_provenance(
        record, "HeavisideNetwork", asdict(config), options={}, seed=config.seed, precision="float32",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def _measure(weights: Any, x: np.ndarray, grid: np.ndarray) -> xr.Dataset:
    """Spectrum from the training samples, evaluated on an even grid, with the first features themselves."""
    train = np.asarray(features_of(weights, jnp.asarray(x, jnp.float32))[0], float)
    test, output = (np.asarray(each, float) for each in features_of(weights, jnp.asarray(grid, jnp.float32)))
    found = feature_spectrum(train, test, (grid > 0).astype(float), output)
    kept = found.drop_vars("regime").reindex(feature=np.arange(1, SHOWN + 1))
    strongest = eigenfunctions(train, test)[1][:, :3]
    shapes = np.full((len(grid), 3), np.nan)
    shapes[:, : strongest.shape[1]] = strongest * np.sign(strongest[-1])
    kept["eigenfunction"] = (("x", "shape"), shapes)
    kept["output"] = ("x", output)
    return kept


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Hold the effective dimensions against the table."""
    judged = []
    claims = iter(CLAIMS)
    for name, (initial, trained) in _TABLE.items():
        for values, printed in (
            (record[f"initial_{name}"].values, initial),
            (record[f"dimension_{name}"].isel(step=-1).values, trained),
        ):
            spread = float(values.std(ddof=1))
            judged.append(
                next(claims).equals(
                    values.mean(),
                    printed,
                    three_errors(spread) + 0.05,
                    note=f"mean of {len(values)} networks; the table shows one of them, rounded to 0.1: tolerance is "
                    "three times their spread and half a digit",
                )
            )
    best = record["quality"].isel(step=-1).max("feature").values
    error = best.std(ddof=1) / np.sqrt(len(best))
    judged.append(
        SINGLE.exceeds(
            best.mean(), 0.9, three_errors(error), note=f"highest quality of a feature, {len(best)} networks"
        )
    )
    return (*judged, _fixed(record))


def _fixed(record: xr.Dataset) -> Claim:
    """Features of an untrained network are smooth: n of them leave 1/(π²n) of a jump, as sines and cosines do."""
    left = record["initial_error"].sel(feature=_TWENTY).values
    expected = 1 / (np.pi**2 * _TWENTY)
    return FIXED.corrects(
        left.mean(),
        expected,
        three_errors(left.std(ddof=1) / np.sqrt(len(left))) + 0.2 * expected,
        published=1e-5,
        note=f"20 features leave 1/(π²·20) as 20 sines and cosines do, and 1e-5 needs 10,000; mean of {len(left)} "
        "networks; a fifth is allowed for features that are not quite sines",
    )


def plot(record: xr.Dataset) -> Any:
    """Draw the first features and the three measures at the saved steps, for the first network."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=3, rows=2)
    one = record.isel(trial=0)
    stages = [0, one.sizes["step"] // 2, one.sizes["step"] - 1]
    for ax, stage in zip(axes[0], stages, strict=True):
        now = one.isel(step=stage)
        ax.plot(now["x"], now["x"] > 0, color="0.6", linewidth=3, label="target")
        ax.plot(now["x"], now["output"], color="black", linewidth=1, label="output")
        for shape in range(3):
            ax.plot(now["x"], now["eigenfunction"].isel(shape=shape), "--", color=PALETTE[shape], linewidth=1.2,
                    label=f"feature {shape + 1}")  # fmt: skip
        ax.set(xlabel="input x", ylabel="value (features of mean square 1)", title=f"step {int(now['step'])}")
    axes[0, 0].legend(frameon=False, fontsize="small")
    for ax, (name, label) in zip(
        axes[1],
        {
            "cumulative_quality": "cumulative quality",
            "cumulative_utilization": "cumulative utilization",
            "intensity": "intensity beside the strongest",
        }.items(),
        strict=True,
    ):
        for place, colour in zip(range(one.sizes["step"]), PALETTE, strict=False):
            values = one[name].isel(step=place)
            values = values / values.isel(feature=0) if name == "intensity" else values
            ax.plot(one["feature"], values, marker=".", color=colour, label=f"step {int(one['step'][place])}")
        ax.set(xlabel="feature, strongest first", ylabel=label, xscale="log")
    axes[1, 2].set_yscale("log")
    axes[1, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Features of a network that learns a step",
    source="layerwise figure 2.2, Table 2.1",
    kind="figure",
    claims=(*CLAIMS, SINGLE, FIXED),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
