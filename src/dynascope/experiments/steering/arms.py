"""Train the rivals of one task side by side: steered networks, fixed values of a knob, and what validation chooses."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dynascope import networks, steering
from dynascope.data import corrupt_labels
from dynascope.experiments.phases.load_curves import batches, data_set
from dynascope.networks.network import Network

STEERED, UNLABELLED, PLAIN, RANDOM = "steered", "steered, unlabelled inputs", "plain", "random"
GRID, AGAIN, EARLY = "validated grid", "validated grid, trained again", "early stopping"


@dataclass(frozen=True)
class Config:
    """Tasks, and how the networks of each are trained; every seed has wrong labels, weights and batches of its own.

    wrong: shares of the training labels that go to other classes, for good
    networks: mlp-3 is a perceptron with three hidden layers; cnn, resnet and transformer are the others
    width: of perceptrons; the others are smaller by a constant factor
    knob: dropout, learning_rate (factors) or weight_decay; grid: its values that rivals try
    plain: the value, one of the grid, at which steered networks begin; customary: others of the grid that people use
    probe, unlabelled: samples of each class that steered networks look at, of the training set and beside it
    valid: one in so many training samples is kept for validation by rivals that need it; their labels are no better
    """

    data: tuple[str, ...] = ("mnist", "fashion", "cifar10")
    size: int = 10
    samples: int = 256
    wrong: tuple[float, ...] = (0.0, 0.2, 0.4)
    networks: tuple[str, ...] = ("mlp-3", "mlp-7", "mlp-11")
    width: int = 100
    seeds: int = 8
    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 0.001
    knob: str = "dropout"
    grid: tuple[float, ...] = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
    plain: float = 0.0
    customary: tuple[float, ...] = (0.1, 0.5)
    probe: int = 30
    unlabelled: int = 30
    every: int = 20
    valid: int = 10
    times: int = 41  # at which the course of the knob is recorded


def arm_names(config: Config) -> list[str]:
    """What is compared; their cost in runs is `cost`.

    >>> arm_names(Config())[:5]
    ['steered', 'steered, unlabelled inputs', 'plain', 'dropout 0.1', 'dropout 0.5']
    """
    customary = [f"{config.knob} {each:g}" for each in config.customary]
    return [STEERED, UNLABELLED, PLAIN, *customary, RANDOM, GRID, AGAIN, EARLY]


def cost(arm: str, grid: int) -> int:
    """Runs that an arm takes.

    >>> cost("steered", 9), cost("validated grid", 9)
    (1, 9)
    """
    return {GRID: grid, AGAIN: grid + 1}.get(arm, 1)


@dataclass(frozen=True)
class Split:
    """Samples of one task: what is trained on, tested on, and looked at without labels."""

    x: np.ndarray
    y: np.ndarray
    xt: np.ndarray
    yt: np.ndarray
    beside: np.ndarray
    probe: np.ndarray  # rows of x


@cache
def split(data: str, config: Config) -> Split:
    """Take samples for training, and others beside them, of each class.

    >>> split("digits", Config(size=0, samples=20, unlabelled=5, probe=4)).beside.shape
    (50, 1, 8, 8)
    """
    x, y, xt, yt = data_set(data, config.size, config.samples + config.unlabelled)
    order = np.argsort(y, kind="stable").reshape(int(y.max()) + 1, -1)  # (class, sample)
    rows = np.sort(order[:, : config.samples].ravel())
    beside = np.sort(order[:, config.samples :].ravel())
    probe = np.flatnonzero(np.isin(rows, order[:, : config.probe]))
    return Split(x[rows], y[rows], xt, yt, x[beside], probe)


def hidden_layers(network: str) -> int:
    """Of a perceptron, by its name; 0 for other networks.

    >>> hidden_layers("mlp-7"), hidden_layers("cnn")
    (7, 0)
    """
    return int(network.removeprefix("mlp-")) if network.startswith("mlp-") else 0


def build(network: str, shape: Sequence[int], config: Config) -> Network:
    """Make the network of that name for images of this shape.

    >>> build("mlp-3", (1, 8, 8), Config(width=8)).probes
    ('norm_0', 'act_1', 'act_2', 'act_3')
    """
    channels, size = shape[0], shape[-1]
    if depth := hidden_layers(network):
        return networks.MLP(shape, 10, width=config.width, depth=depth, batch_norm=True)
    if network == "cnn":
        return networks.CNN(shape, 10, channels=config.width // 5, depth=6, input_norm=True)
    if network == "resnet":
        return networks.ResNet18(10, channels, width=config.width // 6, size=size)
    return networks.VisionTransformer(10, channels, size=size, width=4 * (config.width // 6))


def trained(data: str, network: str, config: Config) -> dict[str, np.ndarray]:
    """All arms of one data set and network: accuracy (wrong, arm, trial), fixed (wrong, value, trial), and courses.

    fixed_bend: of networks with a fixed value, at the end of training; NaN where it means nothing.

    >>> from dataclasses import replace
    >>> small = Config(size=0, samples=20, wrong=(0.0,), seeds=2, epochs=2, width=8, batch_size=50, grid=(0.0, 0.5))
    >>> small = replace(small, customary=(0.5,), unlabelled=5, probe=4, every=2, times=3)
    >>> {name: values.shape for name, values in trained("digits", "mlp-2", small).items()}
    {'accuracy': (1, 8, 2), 'fixed': (1, 2, 2), 'fixed_bend': (1, 2, 2), 'knob': (1, 2, 3), 'bend': (1, 2, 3)}
    """
    given = split(data, config)
    fixed, steered, fixed_bend, knob, bend = _whole(given, network, config)
    kept, stopped = _validated(given, network, config)
    unlabelled = _steered_alone(given, network, config)
    chosen = kept["valid"].argmax(1)[:, None]  # (wrong, 1, trial)
    arms = {
        STEERED: steered,
        UNLABELLED: unlabelled,
        PLAIN: fixed[:, config.grid.index(config.plain)],
        **{f"{config.knob} {each:g}": fixed[:, config.grid.index(each)] for each in config.customary},
        RANDOM: fixed.mean(1),
        GRID: np.take_along_axis(kept["test"], chosen, 1)[:, 0],
        AGAIN: np.take_along_axis(fixed, chosen, 1)[:, 0],
        EARLY: stopped,
    }
    accuracy = np.stack([arms[name] for name in arm_names(config)], 1)
    return {"accuracy": accuracy, "fixed": fixed, "fixed_bend": fixed_bend, "knob": knob, "bend": bend}


def _whole(given: Split, network: str, config: Config) -> tuple[np.ndarray, ...]:
    """Steered networks and all fixed values, trained on the whole set."""
    values = (config.plain, *config.grid)
    mask = np.tile(np.repeat(np.arange(len(values)) == 0, config.seeds), len(config.wrong))
    y = _labels(given.y, len(values), config)
    probe = (given.x[given.probe], y[:, given.probe])
    helm = steering.Helm(config.knob, probe=probe, every=config.every, steered=mask)
    ensemble, steps = _ensemble(given.x, network, values, config)
    at = np.unique(np.linspace(0, steps, config.times).round().astype(int)).tolist()
    path = ensemble.train(given.x, y, steps, probe=probe, record_every=at, steer=helm, progress=False)
    reached = _tested(ensemble, given).reshape(len(config.wrong), len(values), config.seeds)
    name = "learning_rate_factor" if config.knob == "learning_rate" else config.knob
    courses = (path[each].values.reshape(*reached.shape, -1)[:, 0] for each in (name, f"{name}_bend"))
    seen = helm.look(ensemble.trainer)
    bend = np.where(seen.ready, seen.bend, np.nan).reshape(reached.shape)
    return reached[:, 1:], reached[:, 0], bend[:, 1:], *courses


def _steered_alone(given: Split, network: str, config: Config) -> np.ndarray:
    """Networks that steer by inputs without labels, (wrong, trial)."""
    y = _labels(given.y, 1, config)
    probe = (given.x[given.probe], y[:, given.probe])
    helm = steering.Helm(config.knob, probe=probe, every=config.every, unlabelled=given.beside)
    ensemble, steps = _ensemble(given.x, network, (config.plain,), config)
    ensemble.train(given.x, y, steps, probe=probe, record_every=[steps], steer=helm, progress=False)
    return _tested(ensemble, given).reshape(len(config.wrong), config.seeds)


def _validated(given: Split, network: str, config: Config) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Accuracies on validation and test data at the end, (wrong, value, trial), and where validation is best.

    Only plain networks are stopped early, so only these are followed.
    """
    rank = np.argsort(np.argsort(given.y, kind="stable")) % config.samples  # within its class
    left = rank % config.valid > 0
    others = [each for each in config.grid if each != config.plain]
    ends: dict[float, np.ndarray] = {}
    stopped = np.array([])
    for values in ((config.plain,), others):
        y = _labels(given.y, len(values), config)
        ensemble, steps = _ensemble(given.x[left], network, values, config)
        probe = {"valid": (given.x[~left], y[:, ~left]), "test": (given.xt, given.yt)}
        at = np.arange(1, config.epochs + 1) * (steps // config.epochs) if len(values) == 1 else [steps]
        path = ensemble.train(given.x[left], y[:, left], steps, probe=probe, record_every=at, progress=False)
        seen = path["accuracy"].values.reshape(len(config.wrong), len(values), config.seeds, -1, 2)
        ends |= {value: seen[:, index, :, -1] for index, value in enumerate(values)}
        if len(values) == 1:
            best = seen[:, 0, :, :, :1].argmax(2)[:, :, None]
            stopped = np.take_along_axis(seen[:, 0], best, 2)[:, :, 0, 1]
    stacked = np.stack([ends[value] for value in config.grid], 1)  # (wrong, value, trial, probe)
    return {"valid": stacked[..., 0], "test": stacked[..., 1]}, stopped


def _labels(y: np.ndarray, values: int, config: Config) -> np.ndarray:
    """Labels of every trial, (wrong · value · seed, sample): those of a seed are the same at every value."""
    rows = [
        [corrupt_labels(y, share, seed=seed) if share else y for seed in range(config.seeds)] for share in config.wrong
    ]
    return np.stack([row for each in rows for _ in range(values) for row in each])


def _ensemble(x: np.ndarray, network: str, values: Sequence[float], config: Config) -> tuple[Any, int]:
    """Networks over (wrong, value, seed), and how many steps they take."""
    batch, steps = batches(len(x), config.batch_size, config.epochs)
    column = np.tile(np.repeat(values, config.seeds), len(config.wrong))
    own: dict[str, Any] = {"learning_rate": config.learning_rate}
    if config.knob == "dropout":
        own["vary"] = {"dropout": column}
    else:
        own[config.knob] = column * (config.learning_rate if config.knob == "learning_rate" else 1.0)
    ensemble = networks.Ensemble(
        build(network, x.shape[1:], config),
        trials=list(range(config.seeds)) * (len(values) * len(config.wrong)),
        batch_size=batch,
        optimizer="adam",
        sampling="shuffled",
        **own,
    )
    return ensemble, steps


def _tested(ensemble: Any, given: Split) -> np.ndarray:
    """Test accuracy of every trial."""
    outputs = ensemble.trainer.outputs(given.xt)
    return np.asarray((outputs.argmax(-1).cpu().numpy() == given.yt).mean(1))
