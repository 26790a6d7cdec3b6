"""Train one pack of networks and measure their load curves: what every phase diagram of the paper repeats.

`phase_training` can be swept: `sweep(phase_training, grid={"slope": …, "dropout": …}, seeds=10, out=…)` runs it on many
cores or machines, `run_grid` in this process.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import xarray as xr

from dynascope import networks
from dynascope.data import images
from dynascope.progress import progress_bar
from dynascope.sweep.plan import make_plan
from dynascope.sweep.workload import Workload

PROBES = ("train", "test")
Images = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # and their labels: training, test
DEFAULTS: dict[str, Any] = {
    "slope": 0.0,  # of the leaky ReLU below 0: 0 is most nonlinear, 1 linear
    "dropout": 0.0,
    "data_noise": 0.0,  # share of labels drawn anew in each batch, and noise on inputs in units of their deviation
    "learning_rate": 0.001,
    "batch_size": 2560,  # at most all samples
    "seed": 0,
    "data": "mnist",
    "size": 10,  # pixels of a side; 0 leaves them as they are
    "samples": 256,  # of each class for training; 0 takes all
    "tested": 0,  # of each class for testing; 0 takes all
    "epochs": 100,
    "depth": 7,
    "width": 100,
    "optimizer": "adam",
    "normalisation": "batch",  # or constant: the c_ℓ of (1)
}
SHARED = tuple(name for name in DEFAULTS if name not in ("slope", "dropout", "data_noise", "learning_rate", "seed"))
_VALUES, _BYTES = 2**21, 2**35  # of all trials in one ensemble: their features on a CPU, all that is held on a GPU


def train(pack: Sequence[Mapping[str, Any]], draw: int = 0, products: str = "usual") -> list[xr.Dataset]:
    """Train networks that share all but slope, dropout, data noise, learning rate and seed; one record for each.

    draw: which images are taken; one draw for all runs, as in the paper, unless it is said
    products: how exact they are, as `Ensemble` takes it

    A record holds, at the end of training and in evaluation mode, load = log(tr Σw/tr Σb) (3) and load_pinv =
    log tr(Σw Σb⁺) (S1) over (probe, layer), accuracy and loss over probe (train, test), all on clean data. Layer 0 is
    the input as the first layer sees it.

    >>> small = DEFAULTS | {"data": "digits", "size": 0, "samples": 8, "epochs": 1, "depth": 2, "width": 8}
    >>> train([small, small | {"slope": 0.5}])[1]["load"].dims
    ('probe', 'layer')
    """
    first = pack[0]
    data = _data(first, draw)
    batch, steps = batches(len(data[0]), first["batch_size"], first["epochs"])
    column = {name: [each[name] for each in pack] for name in ("slope", "dropout", "data_noise", "learning_rate")}
    ensemble = networks.Ensemble(
        _network(first, data),
        trials=[each["seed"] for each in pack],
        learning_rate=column["learning_rate"],
        batch_size=batch,
        optimizer=first["optimizer"],
        label_noise=column["data_noise"],
        input_noise=column["data_noise"],
        vary={"slope": column["slope"], "dropout": column["dropout"]},
        sampling="shuffled",
        products=products,
    )
    x, y, xt, yt = data
    probe = {"train": (x, y), "test": (xt, yt)}
    run = ensemble.train(x, y, steps, probe=probe, record_every=[steps], measures=("load", "load_pinv"), progress=False)
    last = run[["load", "load_pinv", "accuracy", "loss"]].isel(step=-1, drop=True)
    last = last.drop_vars(["trial", *column], errors="ignore").assign_coords(layer=np.arange(run.sizes["layer"]))
    return [last.isel(trial=index).assign_attrs({}) for index in range(len(pack))]


def _network(settings: Mapping[str, Any], data: Images) -> "networks.MLP":
    size = {"width": settings["width"], "depth": settings["depth"]}
    if settings["normalisation"] == "constant":
        return networks.mlp_variants.ConstantMLP(*shape_of(data), **size)
    if settings["normalisation"] == "batch":
        return networks.MLP(*shape_of(data), batch_norm=True, **size)
    raise ValueError(f"normalisation must be one of batch, constant, got {settings['normalisation']!r}")


def shape_of(data: Images) -> tuple[tuple[int, ...], int]:
    """Shape of one image and number of classes: what a network's constructor asks for.

    >>> shape_of(data_set("digits", 0, 8))
    ((1, 8, 8), 10)
    """
    return data[0].shape[1:], int(data[1].max()) + 1


def batches(samples: int, batch_size: int, epochs: int) -> tuple[int, int]:
    """Size of a batch, at most all samples, and number of steps.

    >>> batches(80, 20, 3), batches(80, 100, 3)
    ((20, 12), (80, 3))
    """
    batch = min(batch_size, samples)
    return batch, samples // batch * epochs


def follow(ensemble: "networks.Ensemble", data: Images, at: list[int], later: Any = None) -> xr.Dataset:
    """Train up to the last of the given steps, and measure on training and test data at each of them.

    later: settings that change on the way, as `Ensemble.train` takes them

    >>> data = data_set("digits", 0, 8)
    >>> follow(networks.Ensemble(networks.MLP(*shape_of(data), width=8, depth=2), trials=2), data, [2])["load"].dims
    ('trial', 'step', 'probe', 'layer')
    """
    x, y, xt, yt = data
    probe = {"train": (x, y), "test": (xt, yt)}
    return ensemble.train(x, y, at[-1], probe=probe, record_every=at, measures="load", later=later, progress=False)


@cache
def data_set(name: str, size: int, samples: int, tested: int = 0, draw: int = 0) -> Images:
    """Images and labels, training and test; with mean 0 and deviation 1, which networks without batch norm need.

    >>> data_set("digits", 0, 8)[0].shape
    (80, 1, 8, 8)
    """
    x, y, xt, yt = images(name, size=size or None, per_class=(samples or None, tested or None), seed=draw)
    centre, deviation = x.mean(), x.std()
    return (x - centre) / deviation, y, (xt - centre) / deviation, yt


def _data(settings: Mapping[str, Any], draw: int = 0) -> Images:
    return data_set(*(settings[name] for name in ("data", "size", "samples", "tested")), draw)


def seconds(settings: Mapping[str, Any]) -> float:
    """Rough cost of one network on one core: 10 GFLOP/s and a tenth of a millisecond for each step.

    >>> digits = DEFAULTS | {"data": "digits", "size": 0, "samples": 0}
    >>> seconds(digits | {"epochs": 10}) < seconds(digits)
    True
    """
    x = _data(settings)[0]
    weights = _numbers(settings)[1]
    _, steps = batches(len(x), settings["batch_size"], settings["epochs"])
    return float(6 * weights * len(x) * settings["epochs"] / 1e10 + 1e-4 * steps + 1e-2)


def memory(settings: Mapping[str, Any]) -> float:
    """Rough number of bytes of one network in training.

    >>> digits = DEFAULTS | {"data": "digits", "size": 0, "samples": 0}
    >>> memory(digits | {"depth": 3}) < memory(digits)
    True
    """
    return _bytes(*_numbers(settings))


def _bytes(features: int, weights: int) -> float:
    """7 numbers for each feature of a batch, 8 for each weight: 6.3 to 7.1 were measured at widths 100 and 300."""
    return 4.0 * (7 * features + 8 * weights)


def _numbers(settings: Mapping[str, Any]) -> tuple[int, int]:
    return numbers(_data(settings)[0], settings["batch_size"], settings["width"], settings["depth"])


def numbers(x: np.ndarray, batch_size: int, width: int, depth: int) -> tuple[int, int]:
    """Features of all samples of a batch in all layers, and weights, of one network.

    >>> numbers(np.zeros((80, 64)), 20, 8, 2)
    (320, 576)
    """
    features = min(batch_size, len(x)) * width * depth
    return features, width * (int(np.prod(x.shape[1:])) + (depth - 1) * width)


phase_training = Workload(
    train, DEFAULTS, shared=SHARED, seconds=seconds, name="phase_training", gpu=True, memory=memory
)


def run_grid(
    grid: Mapping[str, Sequence[Any]],
    *,
    seeds: int | Sequence[int],
    fixed: Mapping[str, Any],
    draw: int = 0,
    products: str = "usual",
) -> xr.Dataset:
    """Train at every point of a grid, in this process, as many networks at once as suit the device.

    draw, products: as `train` takes them

    Returns what `train` records over the grid's axes, trial (the seeds), and then the axes of `train`.

    >>> small = {"data": "digits", "size": 0, "samples": 8, "epochs": 1, "depth": 2, "width": 8}
    >>> dict(run_grid({"slope": [0.0, 1.0]}, seeds=2, fixed=small)["load"].sizes)
    {'slope': 2, 'trial': 2, 'probe': 2, 'layer': 3}
    """
    plan = make_plan(phase_training, grid, seeds=seeds, fixed=fixed)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, task in enumerate(plan.tasks):
        groups.setdefault(tuple(task.configuration[name] for name in SHARED), []).append(index)
    trained: dict[int, xr.Dataset] = {}
    with progress_bar("networks", len(plan.tasks)) as done:
        for members in groups.values():
            for chosen in packs_of(members, *_numbers(plan.tasks[members[0]].configuration)):
                records = train([plan.tasks[index].configuration for index in chosen], draw, products)
                trained |= dict(zip(chosen, records, strict=True))
                done(len(trained))
    stacked = xr.concat([trained[index] for index in range(len(plan.tasks))], "run")
    axes = {"trial" if name == "seed" else name: np.array(values) for name, values in plan.axes.items()}
    shape = tuple(map(len, axes.values()))
    values = {
        name: ((*axes, *each.dims[1:]), each.values.reshape((*shape, *each.shape[1:])))
        for name, each in stacked.data_vars.items()
    }
    return xr.Dataset(values, coords=axes | {"probe": list(PROBES), "layer": stacked["layer"].values})


def packs_of(members: Sequence[Any], features: int, weights: int) -> Iterator[Sequence[Any]]:
    """Packs of networks to train side by side: what keeps a CPU's cache warm, and a GPU busy. No networks are one pack.

    features, weights: of one network; features of all samples of a batch in all layers

    >>> [len(pack) for pack in packs_of(range(7), 2**19, 100)]
    [4, 3]
    """
    on_cpu = networks.device(None) == "cpu"
    at_once = max(1, int(_VALUES // features if on_cpu else _BYTES // _bytes(features, weights)))
    packs = max(1, -(-len(members) // at_once))
    size = -(-len(members) // packs)  # packs of one size are compiled once
    for index in range(packs):
        yield members[index * size : (index + 1) * size]
