"""The whole way, to files: train networks unless a run is given, imitate them, keep what is finished."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np
import xarray as xr

from dynascope.checks import count, one_of
from dynascope.imitation.procedure import Options, imitate
from dynascope.imitation.runs import Recorded, class_means
from dynascope.imitation.summary import sentences, table
from dynascope.records import check_writable, digest, load, save
from dynascope.schema import content_of

DATA = ("geomnist", "mnist", "fashion", "cifar10", "digits")
_RECORDS = 200  # moments at which networks are measured
_SIDE = 32  # pixels that the network takes
_PROBE = 40  # images per class on which networks are measured


@dataclass(frozen=True)
class Training:
    """Networks to train: as many LeNets as `trials` on images of `data`, three classes, batches of one.

    >>> Training(trials=4).steps
    4000
    """

    data: str = "geomnist"
    trials: int = 16
    steps: int = 4000
    per_class: int = 500
    learning_rate: float = 0.005
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("data", self.data, DATA)
        count("trials", self.trials, at_least=1)
        count("steps", self.steps, at_least=40)
        count("per_class", self.per_class)
        count("seed", self.seed, at_least=0)


def train(training: Training, folder: Path, *, progress: bool | None = None) -> xr.Dataset:
    """Train the networks and save their record as networks.nc; steps done before an interruption are not done again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train(Training(trials=2, steps=40, per_class=4), Path(folder))
    >>> run["class_mean"].sizes["trial"]
    2
    """
    from dynascope.networks import Ensemble, LeNet  # noqa: PLC0415 (imports torch)

    x, y, probe = images_of(training)
    ensemble = Ensemble(
        LeNet(classes=int(y.max()) + 1, channels=x.shape[1]),
        trials=training.trials,
        learning_rate=training.learning_rate,
        seed=training.seed,
    )
    every = max(1, training.steps // _RECORDS)
    checkpoint = folder / "networks.npz"
    run = ensemble.train(
        x, y, training.steps, probe=probe, record_every=every, checkpoint=checkpoint, progress=progress
    )
    run = run.assign_attrs(data=training.data)
    save(run, folder / "networks.nc")
    return run


def images_of(training: Training) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Training images and labels, and a probe that is not trained on, 32 pixels wide.

    >>> x, y, probe = images_of(Training(per_class=2))
    >>> x.shape, probe[0].shape
    ((6, 1, 32, 32), (120, 1, 32, 32))
    """
    from dynascope.data import geomnist, images  # noqa: PLC0415

    if training.data == "geomnist":
        x, y = geomnist(training.per_class, training.seed)
        return x, y, geomnist(_PROBE, training.seed + 1)
    per_class = (training.per_class, 30 if training.data == "digits" else _PROBE)
    x, y, other, labels = images(training.data, classes=3, per_class=per_class, seed=training.seed)
    return _widened(x), y, (_widened(other), labels)


def _widened(x: np.ndarray) -> np.ndarray:
    """Repeat pixels while they fit into 32 × 32, then surround by black."""
    times = _SIDE // x.shape[-1]
    wide = x.repeat(times, axis=-1).repeat(times, axis=-2)
    edge = _SIDE - wide.shape[-1]
    around = (edge // 2, edge - edge // 2)
    return np.pad(wide, [(0, 0), (0, 0), around, around])


def imitate_to(
    folder: Path, run: Recorded, geometry: str | Sequence[str] = "all", **options: Unpack[Options]
) -> tuple[xr.Dataset, bool]:
    """Imitate a run and save the result as imitation.nc; whether it was there already, for the same run and options.

    >>> import tempfile
    >>> from dynascope import LocallyElastic
    >>> run = LocallyElastic(noise=0.01).simulate(duration=20.0, samples=4, trials=6)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [imitate_to(Path(folder), run, "logits", resamples=20)[1] for _ in range(2)]
    [False, True]
    """
    place = folder / "imitation.nc"
    check_writable(place)
    means = class_means(run)
    source = digest(means.to_dataset(name="class_mean"))
    asked = json.dumps({"run": source, "geometry": geometry, **options}, sort_keys=True)
    held = _kept(place)
    if held is not None and held.attrs.get("asked") == asked:
        return held, True
    result = imitate(means, geometry, **options).assign_attrs(asked=asked)
    save(result, place)
    return result, False


def _kept(place: Path) -> xr.Dataset | None:
    """An earlier result; one that is damaged, or does not hold what is told of it, is made again."""
    try:
        with content_of(str(place)):
            kept = load(place)
            _ = list(table(kept)), sentences(kept)
            return kept
    except FileNotFoundError:
        return None
    except ValueError as error:
        warnings.warn(f"{error}; it is made again", RuntimeWarning, stacklevel=3)
        return None
