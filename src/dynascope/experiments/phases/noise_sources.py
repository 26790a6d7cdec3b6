"""spring-block Section S7: Batch size, dropout and label noise against the learning rate.

Gradient descent with one source of noise approximates dθ = −g dt + √(strength) C^½ dW in the time t = steps × η, with
the strength η/B for batches of B and η q for a small dropout q. So far apart lie runs from one start after one time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from scipy.special import softmax

from dynascope.experiments.claims import Claim, Judgement, above, below, equal
from dynascope.experiments.experiment import Axes, Experiment, Panels, settings
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import Estimate, over_trials

BATCH, DROPOUT = range(2)
FACTORS = ((1, 1), (2, 2), (2, 1))  # of the learning rate, and of what then keeps the noise: the batch, or 1/dropout
_FINITE = 0.15  # of log₂: what steps of finite size may add
_NEGLIGIBLE = 0.1  # beside the noise of w₁
_SAMPLES, _CLUSTERS, _INPUTS, _UNITS, _NOISY_RATE = 100, 10, 20, 30, 1.0  # of the networks on noisy data
_CLASSES = 3.0  # over M (1 − p), of a drift or a variance: what M classes, not many more, may add


@dataclass(frozen=True)
class Config:
    """Two-layer tanh networks on noisy targets, all from one start; and a softmax of one layer on one sample.

    The paper names no network for batches and dropout. For labels, reset with chance p, it has the softmax, which
    starts with all outputs alike, and once more where that of the right class is already at work. Values are ours.
    """

    learning_rate: float = 0.01
    batch_size: int = 4
    dropout: float = 0.02
    time: float = 4.0
    inputs: int = 6
    width: int = 8
    samples: int = 32
    groups: int = 30
    runs: int = 64  # in each group, whose spread is one measurement
    resets: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7)
    classes: int = 1000
    output: float = 0.3  # softmax t₁ of the right class at the second start
    label_inputs: int = 2
    label_rate: float = 0.004
    label_runs: int = 64  # in each group
    label_steps: int = 80
    noisy_steps: tuple[int, ...] = (0, 30, 300)  # after which noises of labels and inputs are compared
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    """Train with both sources of noise at three settings each, and on labels that are reset."""
    random = np.random.default_rng(config.seed)
    x = random.normal(size=(config.samples, config.inputs))
    y = np.sin(x[:, 0]) + random.normal(size=config.samples)
    start = random.normal(size=(config.width, config.inputs + 1)) / np.sqrt(config.inputs)
    spread = [
        [_spread(config, random, x, y, start, rate * config.learning_rate, noise) for rate, noise in each]
        for each in (
            [(rate, partial(_batch, size=config.batch_size * other)) for rate, other in FACTORS],
            [(rate, partial(_dropped, share=config.dropout / other)) for rate, other in FACTORS],
        )
    ]
    labels = [[_labels(config, random, share) for _ in range(config.groups)] for share in config.resets]
    drift, output, own, others, largest = np.moveaxis(np.array(labels), -1, 0)  # each (reset, group)
    apart = [[_noisy_data(config, random, share) for _ in range(config.groups)] for share in config.resets]
    return xr.Dataset(
        {
            "spread": (("source", "setting", "trial"), spread, {"long_name": "variance of outputs between runs"}),
            "drift": (("reset", "trial"), drift, {"long_name": "drift of w₁, that of the start being 1"}),
            "output": (("reset", "trial"), output, {"long_name": "softmax t₁ on the way"}),
            "variance": (("reset", "trial"), own, {"long_name": "variance of the step of w₁"}),
            "other_variance": (("reset", "trial"), others, {"long_name": "variance of all other steps together"}),
            "largest": (("reset", "trial"), largest, {"long_name": "variance of the other step that varies most"}),
            "label_share": (("reset", "trial", "after"), apart, {"long_name": "log₂ of label over input noise"}),
        },
        coords={
            "source": ["batch size", "dropout"],
            "setting": ["η", "2 η, noise kept", "2 η"],
            "reset": ("reset", list(config.resets), {"long_name": "share p of reset labels"}),
            "after": list(config.noisy_steps),
        },
    )


# what a step sees: inputs (run, sample, input), targets (run, sample), what hidden units are multiplied by
Seen = tuple[np.ndarray, np.ndarray, np.ndarray | float]
Noise = Callable[[np.random.Generator, int, int, np.ndarray, np.ndarray], Seen]


def _batch(random: np.random.Generator, runs: int, width: int, x: np.ndarray, y: np.ndarray, *, size: int) -> Seen:
    drawn = random.integers(len(x), size=(runs, size))
    return x[drawn], y[drawn], 1.0


def _dropped(random: np.random.Generator, runs: int, width: int, x: np.ndarray, y: np.ndarray, *, share: float) -> Seen:
    kept = random.random(size=(runs, len(x), width)) >= share
    return x[None], y[None], kept / (1 - share)


def _spread(
    config: Config,
    random: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    start: np.ndarray,
    rate: float,
    noise: Noise,
) -> Float[np.ndarray, " group"]:
    """Variance of the outputs between the runs of a group after the given time, mean over samples."""
    runs = config.groups * config.runs
    hidden = np.repeat(start[None, :, :-1], runs, axis=0)  # (run, unit, input)
    last = np.repeat(start[None, :, -1], runs, axis=0)  # (run, unit)
    for _ in range(round(config.time / rate)):
        seen, targets, mask = noise(random, runs, config.width, x, y)
        active = np.tanh(seen @ hidden.swapaxes(1, 2))  # (run, sample, unit)
        missed = ((active * mask) @ last[..., None])[..., 0] - targets
        back = missed[..., None] * last[:, None] * mask * (1 - active**2) / missed.shape[1]
        last = last - rate * ((active * mask) * missed[..., None]).mean(axis=1)
        hidden = hidden - rate * (back.swapaxes(1, 2) @ seen)
    outputs = (np.tanh(x @ hidden.swapaxes(1, 2)) @ last[..., None])[..., 0]  # (run, sample)
    return np.asarray(outputs.reshape(config.groups, config.runs, -1).var(axis=1, ddof=1).mean(axis=-1))


def label_gradient(
    weights: Float[np.ndarray, "run input class"], x: Float[np.ndarray, " input"], labels: Int[np.ndarray, " run"]
) -> Float[np.ndarray, "run input class"]:
    """Gradient of the cross-entropy −log softmax⟨w, x⟩ of one sample, which has a label of its own in each run.

    >>> label_gradient(np.zeros((1, 1, 2)), np.ones(1), np.array([0])).tolist()
    [[[-0.5, 0.5]]]
    """
    outputs = softmax(x @ weights, axis=-1)
    outputs[np.arange(len(labels)), labels] -= 1
    return np.asarray(outputs[:, None] * x[:, None])


def _descend(
    config: Config, random: np.random.Generator, x: np.ndarray, share: float, lead: float
) -> tuple[Float[np.ndarray, " class"], Float[np.ndarray, " class"], float]:
    """Mean and variance over runs and steps of ⟨Δw_m, x⟩/(η|x|²), and the mean of t₁.

    lead: what ⟨w₁, x⟩ has ahead of all others at the start
    """
    weights = np.zeros((config.label_runs, len(x), config.classes))
    weights[..., 0] = lead * x / (x @ x)
    total, squares, reached = np.zeros(config.classes), np.zeros(config.classes), 0.0
    for _ in range(config.label_steps):
        reset = random.random(config.label_runs) < share
        labels = np.where(reset, random.integers(config.classes, size=config.label_runs), 0)
        after = weights - config.label_rate * label_gradient(weights, x, labels)
        moved = x @ (after - weights) / (config.label_rate * (x @ x))
        reached += softmax(x @ weights, axis=-1)[:, 0].mean() / config.label_steps
        total, squares, weights = total + moved.sum(axis=0), squares + (moved**2).sum(axis=0), after
    steps = config.label_runs * config.label_steps
    mean = total / steps
    return mean, squares / steps - mean**2, reached


def _labels(config: Config, random: np.random.Generator, share: float) -> tuple[float, ...]:
    """Drift of w₁ where t₁ is at work and what t₁ is there; at the start, variances: of w₁, all others, the largest.

    In the time in which w₁ moves by 1 at the start: the loss is scaled for it, as in the paper.
    """
    x = random.normal(size=config.label_inputs)
    x /= np.linalg.norm(x)
    mean, variance, _ = _descend(config, random, x, share, 0.0)
    ahead = np.log((config.classes - 1) * config.output / (1 - config.output))
    later, _, output = _descend(config, random, x, share, ahead)
    speed, others = mean[0], variance[1:] / mean[0] ** 2
    return later[0] / speed, output, variance[0] / speed**2, others.sum(), others.max()


def class_gradients(
    x: Float[np.ndarray, "#run sample input"],
    targets: Float[np.ndarray, "#run sample class"],
    hidden: Float[np.ndarray, "input unit"],
    last: Float[np.ndarray, "unit class"],
) -> tuple[Float[np.ndarray, "run input unit"], Float[np.ndarray, "run unit class"]]:
    """Gradients of the mean cross-entropy −⟨target, log softmax(tanh(x hidden) last)⟩, by both layers.

    >>> [g.shape for g in class_gradients(np.ones((3, 2, 4)), np.eye(2)[None], np.ones((4, 5)), np.ones((5, 2)))]
    [(3, 4, 5), (3, 5, 2)]
    """
    active = np.tanh(x @ hidden)
    missed = (softmax(active @ last, axis=-1) - targets) / x.shape[1]
    back = (missed @ last.T) * (1 - active**2)
    return x.swapaxes(1, 2) @ back, active.swapaxes(1, 2) @ missed


def _noisy_data(config: Config, random: np.random.Generator, share: float) -> list[float]:
    """Log₂ of the variance of a step by labels reset with chance p over that by inputs with noise of deviation p.

    Of a network that is trained with both, after some steps; inputs have the deviation 1, and noise is drawn for each
    step anew.
    """
    own = np.arange(_SAMPLES) % _CLUSTERS
    x = random.normal(size=(_CLUSTERS, _INPUTS))[own] + random.normal(size=(_SAMPLES, _INPUTS))
    x = (x - x.mean()) / x.std()
    hidden = random.normal(size=(_INPUTS, _UNITS)) / np.sqrt(_INPUTS)
    last = random.normal(size=(_UNITS, _CLUSTERS)) / np.sqrt(_UNITS)

    def noisy(runs: int) -> tuple[np.ndarray, np.ndarray]:
        reset = random.random((runs, _SAMPLES)) < share
        labels = np.where(reset, random.integers(_CLUSTERS, size=reset.shape), own)
        return x + share * random.normal(size=(runs, *x.shape)), np.eye(_CLUSTERS)[labels]

    def variance(inputs: np.ndarray, targets: np.ndarray) -> float:
        return sum(float(each.var(axis=0).sum()) for each in class_gradients(inputs, targets, hidden, last))

    found = []
    for step in range(max(config.noisy_steps) + 1):
        if step in config.noisy_steps:
            inputs, targets = noisy(config.label_runs)
            found.append(np.log2(variance(x[None], targets) / variance(inputs, np.eye(_CLUSTERS)[own][None])))
        first, second = class_gradients(*noisy(1), hidden, last)
        hidden, last = hidden - _NOISY_RATE * first[0], last - _NOISY_RATE * second[0]
    return found


def _ratio(record: xr.Dataset, source: int, setting: int) -> Estimate:
    spread = np.log2(record["spread"].values[source])  # (setting, group)
    return over_trials(spread[setting] - spread[0])


def _kept(record: xr.Dataset, *, source: int) -> Judgement:
    note = "log₂ of the ratio of variances; rival: the learning rate alone counts"
    return equal(_ratio(record, source, 1), 0.0, _FINITE, rival=1.0, note=note)


def _doubled(record: xr.Dataset, *, source: int) -> Judgement:
    note = "log₂ of the ratio of variances; rival: the learning rate does not count"
    return equal(_ratio(record, source, 2), 1.0, _FINITE, rival=0.0, note=note)


def _finite(record: xr.Dataset) -> np.ndarray:
    return np.asarray(_CLASSES / settings(record).classes / (1 - record["reset"].values))


def _label_drift(record: xr.Dataset) -> Judgement:
    p, output = record["reset"].values, record["output"].mean("trial").values
    note = f"t₁ is {', '.join(f'{each:.3f}' for each in output)}; rival: 1 − t₁"
    return equal(over_trials(record["drift"]), 1 - output / (1 - p), _finite(record), rival=1 - output, note=note)


def _label_variance(record: xr.Dataset) -> Judgement:
    p = record["reset"].values
    return equal(over_trials(record["variance"]), p / (1 - p), _finite(record), rival=p, note="rival: p itself")


def _others(record: xr.Dataset) -> Judgement:
    p = record["reset"].values
    ratio, largest = (over_trials(record[name] / record["variance"]) for name in ("other_variance", "largest"))
    note = f"variance of all others over that of w₁, of a single one at most {largest.mean.max():.3f}; rival: 0"
    return equal(ratio, 1 / (1 - p), _finite(record), rival=0.0, note=note)


def _single(record: xr.Dataset) -> Judgement:
    classes = settings(record).classes
    note = f"largest variance of any other weight over that of w₁, {classes} classes"
    return below(over_trials(record["largest"] / record["variance"]), _NEGLIGIBLE, note=note)


def _inputs_count_less(record: xr.Dataset) -> Judgement:
    shares = over_trials(record["label_share"])  # (reset, after)
    listed = "; ".join(
        f"p = {p:g}: {', '.join(f'{2**each:.3g}' for each in row)}"
        for p, row in zip(record["reset"].values, shares.mean, strict=True)
    )
    steps = ", ".join(map(str, record["after"].values))
    note = f"log₂ of label noise over input noise; how many times after {steps} steps: {listed}"
    return above(shares, 0.0, note=note)


def _draw_spread(record: xr.Dataset, ax: Axes) -> None:
    """Variances in units of that of the first setting."""
    ratio = record["spread"] / record["spread"].isel(setting=0).mean("trial")
    for place, source in enumerate(record["source"].values):
        mean, error = over_trials(ratio.sel(source=source))
        ax.errorbar(np.arange(3) + 0.1 * place, mean, 3 * error, fmt="o", label=str(source))
    ax.set_xticks(range(3), record["setting"].values)
    ax.set(ylabel="variance between runs over the first", ylim=(0, None))


def _draw_labels(record: xr.Dataset, ax: Axes) -> None:
    """Variance of steps over the share of reset labels."""
    p = np.linspace(0.02, 0.75, 50)
    ax.plot(p, p / (1 - p), "k--", label="p/(1 − p)")
    for name in ("variance", "other_variance"):
        ax.plot(record["reset"], record[name].mean("trial"), "o", label=record[name].attrs["long_name"])
    ax.set(xlabel=record["reset"].attrs["long_name"], ylabel="variance over η²")


EXPERIMENT = Experiment(
    spring_block(section="S7"),
    Config(),
    run,
    claims=(
        Claim(
            "s7-batch-kept",
            "twice the learning rate in batches twice as large leaves the noise as it is: η/B counts",
            partial(_kept, source=BATCH),
        ),
        Claim(
            "s7-batch-doubled",
            "twice the learning rate in the same batches doubles its variance",
            partial(_doubled, source=BATCH),
        ),
        Claim(
            "s7-dropout-kept",
            "twice the learning rate at half of a small dropout leaves the noise as it is: η q counts",
            partial(_kept, source=DROPOUT),
        ),
        Claim(
            "s7-dropout-doubled",
            "twice the learning rate at the same dropout doubles its variance",
            partial(_doubled, source=DROPOUT),
        ),
        Claim("s7-label-drift", "labels reset with chance p, many classes: w₁ drifts by 1 − t₁/(1 − p)", _label_drift),
        Claim("s7-label-variance", "its steps have the variance p/(1 − p), in units of η²", _label_variance),
        Claim("s7-label-single", "the noise of any single other weight is negligible: below a tenth of it", _single),
        Claim(
            "s7-label-others",
            "steps of the other weights, each negligible, have together 1/(1 − p) times the variance of w₁",
            _others,
            kind="own",
        ),
        Claim(
            "s7-input-smaller",
            "labels reset with chance p move a step more than noise of variance p² on inputs of variance 1 does, from "
            "p = 0.1 on",
            _inputs_count_less,
            kind="derived",  # "significantly larger": the units of the inputs are ours
        ),
    ),
    picture=Panels(_draw_spread, _draw_labels, width=5.0, height=4.0),
    smoke={"groups": 12, "runs": 24, "resets": (0.3, 0.7), "label_runs": 32, "label_steps": 30},
    laptop={"groups": 20},
    model="NoisyDescent",
    kind="figure",
    adapted="networks, data and values, which the source leaves out",
)
