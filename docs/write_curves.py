"""Train our own set of curves for forecasts, and write it where the experiments look: some 1600 small networks.

Twelve tasks, three networks and optimisers for each, 42 trials of each: seven schedules of the learning rate six
times, with rates, momentum, dropout, weight decay, initial weights and wrong labels drawn at random. Two minutes on a
GPU, some hours on one core. `python docs/write_curves.py [--out FILE] [--part 0.01] [--more]`; a part has shorter
runs, and more keeps the tasks that the file holds already.
"""

import argparse
import io
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dynascope.data import SparseParity, corrupt_labels, geomnist, modular_arithmetic
from dynascope.experiments.forecasts.sets import OWN
from dynascope.experiments.phases.load_curves import data_set
from dynascope.files import write_whole
from dynascope.networks import MLP, Ensemble, LeNet

RECORDS, REPEATS, LAYERS, PROBED = 60, 6, 5, 500
SCHEDULES = {
    "constant": lambda u: 1.0,
    "cosine": lambda u: 0.01 + 0.99 * (1 + np.cos(np.pi * u)) / 2,
    "linear": lambda u: 1 - 0.99 * u,
    "wsd": lambda u: 1.0 if u < 0.7 else 1 - 0.99 * (u - 0.7) / 0.3,
    "drop": lambda u: 1.0 if u < 0.5 else 0.1,
    "warm-up": lambda u: min(0.05 + u / 0.1, 1.0),
    "warm-up cosine": lambda u: min(0.05 + u / 0.1, 0.01 + 0.99 * (1 + np.cos(np.pi * u)) / 2),
}
Task = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # inputs and labels or targets, training and test


@dataclass(frozen=True)
class Setup:
    """A network and how it is trained. rates: between which learning rates are drawn."""

    name: str
    optimiser: str
    rates: tuple[float, float]
    network: dict[str, Any] = field(default_factory=dict)
    batch: int = 32
    scales: tuple[float, ...] = (1.0,)
    decays: tuple[float, ...] = (0.0,)
    loss: str = "cross_entropy"


def _plain(depth: int, rates: tuple[float, float], **options: Any) -> Setup:
    """Fully connected without batch norm, SGD: where it is deep or starts small, its loss falls late and steeply."""
    return Setup(f"{depth} layers", "sgd", rates, {"depth": depth}, **options)


def _normed(optimiser: str, rates: tuple[float, float], **options: Any) -> Setup:
    return Setup("4 layers, batch norm", optimiser, rates, {"depth": 4, "batch_norm": True}, **options)


def _mixture() -> Task:
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((8, 20)) * 0.75
    y = rng.integers(0, 8, 1500)
    return _split(centres[y] + rng.standard_normal((1500, 20)), y)


def _teacher() -> Task:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2500, 20))
    hidden = np.tanh(x @ rng.standard_normal((20, 30)) / 20**0.5 * 1.5)
    return _split(x, (hidden @ rng.standard_normal((30, 5))).argmax(1))


def _spiral() -> Task:
    rng = np.random.default_rng(3)
    y, far = rng.integers(0, 3, 1500), rng.uniform(0.05, 1, 1500)
    angle = 2 * np.pi * (y / 3 + far) + 0.15 * rng.standard_normal(1500)
    return _split(1.7 * far[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1), y)


def _parity() -> Task:
    x, y, _ = SparseParity(skills=3, bits=12, relevant=3).sample(3000, seed=4)
    return _split(2 * x - 1, (y > 0).astype(int))


def _modular() -> Task:
    x, y, xt, yt = modular_arithmetic(17, "addition", train_share=0.75, seed=5)
    a, b = (np.eye(17)[each[:, :2]].reshape(len(each), -1) for each in (x, xt))
    return a.astype(np.float32), y, b.astype(np.float32), yt


def _memory() -> Task:
    rng = np.random.default_rng(6)
    return _split(rng.standard_normal((900, 20)), rng.integers(0, 4, 900))


def _linear() -> Task:
    rng = np.random.default_rng(7)
    left, right = (np.linalg.qr(rng.standard_normal((size, 4)))[0] for size in (12, 6))
    x = rng.standard_normal((1500, 12))
    return _split(x, x @ left @ np.diag([3.0, 1.5, 0.8, 0.4]) @ right.T + 0.1 * rng.standard_normal((1500, 6)))


def _waves() -> Task:
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, (1000, 1))
    y = np.sin(np.pi * x) + 0.7 * np.sin(3 * np.pi * x) + 0.5 * np.cos(5 * np.pi * x)
    return _split(2 * x, y + 0.05 * rng.standard_normal(y.shape))


def _split(x: np.ndarray, y: np.ndarray) -> Task:
    """The last third is the test part."""
    cut = 2 * len(x) // 3
    y = y.astype(np.float32) if y.dtype.kind == "f" else y.astype(np.int64)
    return x[:cut].astype(np.float32), y[:cut], x[cut:].astype(np.float32), y[cut:]


def _shapes() -> Task:
    return *geomnist(300, 0), *geomnist(100, 1)


def _images(name: str) -> Callable[[], Task]:
    return lambda: data_set(name, 10, 100, 50)


_LINEAR = {"activation": "linear", "width": 16}
_TANH = {"activation": "tanh", "depth": 3, "width": 64}
_SMALL = (0.3, 0.5, 1.0)
TASKS: dict[str, tuple[Callable[[], Task], int, tuple[Setup, ...]]] = {  # data, steps, networks
    "geomnist": (_shapes, 3000, (
        Setup("LeNet", "sgd", (0.002, 0.01), batch=1), Setup("LeNet, batches of 8", "sgd", (0.01, 0.08), batch=8),
        Setup("LeNet, Adam", "adam", (1e-4, 1e-3), batch=8))),
    "mnist": (_images("mnist"), 2400, (
        _plain(2, (0.003, 0.15)), _normed("adam", (2e-4, 1e-2)), _plain(7, (0.02, 0.2)))),
    "parity": (_parity, 3000, (
        _plain(1, (0.1, 0.5)), Setup("2 layers", "adam", (1e-3, 1e-2), {"depth": 2}, scales=_SMALL),
        Setup("3 layers", "adamw", (1e-3, 1e-2), {"depth": 3}, decays=(0.0, 0.1, 1.0)))),
    "fashion": (_images("fashion"), 2400, (
        _plain(4, (0.01, 0.15)), _normed("sgd", (0.003, 0.15)), Setup("2 layers", "adam", (2e-4, 1e-2), {"depth": 2}))),
    "spiral": (_spiral, 3600, (
        _plain(4, (0.02, 0.2)), Setup("3 layers, tanh", "sgd", (0.02, 0.2), _TANH, scales=_SMALL),
        Setup("4 layers, Adam", "adam", (3e-4, 5e-3), {"depth": 4}))),
    "cifar10": (_images("cifar10"), 2400, (
        _plain(2, (0.003, 0.15)), _normed("adamw", (2e-4, 1e-2), decays=(0.0, 0.1)), _plain(6, (0.02, 0.15)))),
    "teacher": (_teacher, 2400, (
        _plain(5, (0.02, 0.15)), _normed("adamw", (2e-4, 1e-2), decays=(0.0, 0.1)),
        Setup("3 layers, tanh", "adam", (2e-4, 5e-3), _TANH, scales=_SMALL))),
    "linear": (_linear, 1800, (
        Setup("1 linear layer", "sgd", (0.02, 0.1), {"depth": 1, **_LINEAR}, scales=(0.05, 0.1, 0.3), loss="mse"),
        Setup("3 linear layers", "sgd", (0.02, 0.1), {"depth": 3, **_LINEAR}, scales=(0.5, 0.7, 1.0), loss="mse"),
        Setup("2 linear layers, Adam", "adam", (3e-4, 3e-3), {"depth": 2, **_LINEAR}, scales=_SMALL, loss="mse"))),
    "mixture": (_mixture, 1800, (
        _plain(2, (0.003, 0.15)), Setup("3 layers, tanh", "sgd", (0.01, 0.1), _TANH, scales=_SMALL),
        Setup("2 layers, squares", "adam", (2e-4, 1e-2), {"depth": 2}, loss="mse"))),
    "memory": (_memory, 3000, (
        _plain(3, (0.02, 0.2)), _normed("adam", (2e-4, 1e-2)),
        Setup("5 layers, Adam", "adam", (2e-4, 2e-3), {"depth": 5}))),
    "waves": (_waves, 3600, (
        Setup("3 layers, tanh", "adam", (3e-4, 5e-3), _TANH, loss="mse"),
        _plain(4, (0.02, 0.2), loss="mse"), Setup("3 layers, tanh, SGD", "sgd", (0.02, 0.2), _TANH, loss="mse"))),
    "modular": (_modular, 3600, (
        Setup("1 layer", "adamw", (1e-3, 1e-2), {"depth": 1, "width": 128}, decays=(0.1, 1.0)),
        Setup("2 layers", "adam", (5e-4, 5e-3), {"depth": 2, "width": 64}), _plain(2, (0.05, 0.3), scales=(0.7, 1.0)))),
}  # fmt: skip


def main() -> None:
    """Train and write, anew after each task, so that what is done stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OWN)
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--more", action="store_true")
    given = parser.parse_args()
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("name", "step", "loss", "accuracy", "batch", "load")}
    if given.more:
        with np.load(given.out) as file:
            found = {name: list(file[name]) for name in found}
    begun = time.perf_counter()
    for data, (make, steps, setups) in TASKS.items():
        if any(str(name).startswith(f"{data}/") for name in found["name"]):
            continue
        task, steps = make(), max(round(steps * given.part / RECORDS), 1) * RECORDS
        for setup in setups:
            curves = _trained(task, setup, steps, seed=len(found["name"]))
            for name, value in curves.items():
                found[name].append(value)
            found["name"].append(f"{data}/{setup.name}/{setup.optimiser}")
            ends = np.nanmedian(curves["loss"][:, 0, [0, -1]], 0)
            print(
                f"{time.perf_counter() - begun:5.0f} s {found['name'][-1]}: {ends[0]:.3g} to {ends[1]:.3g}",
                file=sys.stderr,
            )
        save({name: np.array(each) for name, each in found.items()}, given.out)


def _trained(task: Task, setup: Setup, steps: int, *, seed: int) -> dict[str, np.ndarray]:
    """Curves of all trials of a network, (trial, part, record); load curves of those with batch norm."""
    x, y, xt, yt = task
    rng, trials, every = np.random.default_rng([9, seed]), REPEATS * len(SCHEDULES), steps // RECORDS
    momentum = rng.choice([0.0, 0.9], trials) if setup.optimiser == "sgd" else np.zeros(trials)
    rate = np.exp(rng.uniform(*np.log(setup.rates), trials)) * np.where(momentum > 0, 0.3, 1.0)
    # half-way between records, too: (change, trial)
    factor = np.array([[shape(k / RECORDS / 2) for shape in SCHEDULES.values()] * REPEATS for k in range(2 * RECORDS)])
    network = _network(x, y, setup)
    varied = {"dropout": rng.choice([0.0, 0.2], trials), "weight_scale": rng.choice(setup.scales, trials)}
    ensemble = Ensemble(
        network,
        trials=trials,
        learning_rate=rate * factor[0],
        batch_size=setup.batch,
        seed=seed,
        optimizer=setup.optimiser,
        momentum=momentum,
        weight_decay=rng.choice(setup.decays, trials),
        vary=varied if isinstance(network, MLP) else None,
        loss=setup.loss,
        sampling="shuffled",
    )
    labels = np.stack([_spoiled(y, share, k) for k, share in enumerate(rng.choice([0.0, 0.0, 0.2], trials))])
    kept = rng.permutation(len(y))[:PROBED]
    run = ensemble.train(
        x,
        labels,
        steps,
        probe={"train": (x[kept], labels[:, kept]), "test": (xt, np.repeat(yt[None], trials, 0))},
        record_every=every,
        later={
            k * every // 2: {"learning_rate": rate * factor[k]} for k in range(1, 2 * RECORDS) if k * every % 2 == 0
        },
        measures="load" if setup.network.get("batch_norm") else (),
    )
    return _curves(run)


def _network(x: np.ndarray, y: np.ndarray, setup: Setup) -> MLP | LeNet:
    classes = int(y.max()) + 1 if y.dtype.kind == "i" else y.shape[1]
    return MLP(x.shape[1:], classes, **{"width": 32, **setup.network}) if setup.network else LeNet(classes)


def _spoiled(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    return corrupt_labels(y, share, seed=seed) if share and y.dtype.kind == "i" else y


def _curves(run: xr.Dataset) -> dict[str, np.ndarray]:
    """What is kept of a record; NaN where it is not there."""
    loss = run["loss"].transpose("trial", "probe", "step").values
    accuracy, load = np.full_like(loss, np.nan), np.full((len(loss), LAYERS, loss.shape[-1]), np.nan)
    if "accuracy" in run:
        accuracy = run["accuracy"].transpose("trial", "probe", "step").values
    if "load" in run:
        load = run["load"].sel(probe="train").transpose("trial", "layer", "step").values
    batch = run["train_loss"].transpose("trial", "step").values
    return {"step": run["step"].values, "loss": loss, "accuracy": accuracy, "batch": batch, "load": load}


def save(found: dict[str, np.ndarray], path: Path) -> None:
    """Write the set, to four digits, so that it stays small."""
    digits = {name: _rounded(each) if each.dtype.kind == "f" else each for name, each in found.items()}
    factor = [[shape(k / RECORDS) for k in range(RECORDS + 1)] for shape in SCHEDULES.values()]
    content = io.BytesIO()
    np.savez_compressed(content, schedule=np.array(list(SCHEDULES)), factor=np.array(factor), **digits)
    write_whole(path, lambda place: place.write_bytes(content.getvalue()))


def _rounded(values: np.ndarray) -> np.ndarray:
    """Four digits of each number, as floats of 32 bits whose other bits are 0."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x200) & ~np.uint32(0x3FF)).view(np.float32)


if __name__ == "__main__":
    main()
