"""Train many copies of a network at once and get one labelled record."""

import hashlib
import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from dynascope.checks import as_float, count, flag, one_of, require
from dynascope.data.corruption import checked_labels
from dynascope.networks.network import Network
from dynascope.networks.recording import Course
from dynascope.networks.training import LOSSES, OPTIMIZERS, SAMPLINGS, Settings, Trainer, check_vary
from dynascope.records import with_provenance

_DIMS = {
    "class_mean": ("copy", "step", "class", "logit"),
    "loss": ("copy", "step"),
    "accuracy": ("copy", "step"),
    "train_loss": ("copy", "step"),
    "output": ("copy", "step", "sample", "logit"),
    "drawn_output": ("copy", "update", "draw", "logit"),
    "drawn_label": ("copy", "update", "draw"),
    "diverged_at": ("copy",),
}


class Ensemble:
    """Copies of a network that are trained side by side, each with its own start, batches and settings.

    network: one of `dynascope.networks`; it gives the shape, its own weights are not used
    copies: how many, or a list of their numbers; copy i is the same in every list that holds it
    learning_rate: of all copies, or one for each
    batch_size: samples in a step
    seed: copy i starts from, and draws its batches and noise from, (seed, i) alone
    optimizer: sgd or adam (β = 0.9, 0.999)
    momentum: of sgd; one number or one for each copy
    weight_decay: added to the gradient as weight_decay·w; one number or one for each copy
    label_noise: share of each batch's labels that is drawn anew from all classes; one number or one for each copy
    input_noise: Gaussian noise on each batch, in units of the inputs' standard deviation; one number or one each
    vary: settings of the network that differ between copies, such as {"slope": [0, 0.5], "dropout": [0, 0.1]}
    loss: cross_entropy, or mse: half the mean square of outputs − target_scale·(one-hot label)
    sampling: replacement draws each sample independently; shuffled goes through a new permutation each epoch
    precision: float32 or float64
    device: cpu, cuda, cuda:1, …; a GPU if there is one. On a GPU the step is captured in a CUDA graph.

    Fails where a copy's memory does not fit beside the others': all live on the device at once.

    >>> from dynascope.data import geomnist
    >>> from dynascope.networks import LeNet
    >>> x, y = geomnist(per_class=20)
    >>> run = Ensemble(LeNet(classes=3), copies=2).fit(x, y, steps=4, record_every=2)
    >>> dict(run["class_mean"].sizes)
    {'copy': 2, 'step': 3, 'class': 3, 'logit': 3}
    """

    def __init__(
        self,
        network: Any,
        *,
        copies: Any = 16,
        learning_rate: Any = 0.005,
        batch_size: Any = 1,
        seed: Any = 0,
        optimizer: Any = "sgd",
        momentum: Any = 0.0,
        weight_decay: Any = 0.0,
        label_noise: Any = 0.0,
        input_noise: Any = 0.0,
        vary: Any = None,
        loss: Any = "cross_entropy",
        sampling: Any = "replacement",
        precision: Any = "float32",
        device: Any = None,
    ) -> None:
        if not isinstance(network, Network):
            raise ValueError(f"network must be one of dynascope.networks, got {type(network).__name__}")
        numbers = _copy_numbers(copies)
        per_copy = {
            "learning_rate": learning_rate,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "label_noise": label_noise,
            "input_noise": input_noise,
        }
        arrays = {name: _per_copy(name, value, len(numbers)) for name, value in per_copy.items()}
        for name, most in (("momentum", 1.0), ("label_noise", 1.0)):
            require(name, arrays[name], arrays[name] <= most, f"be at most {most}")
        varied = {name: _per_copy(f"vary[{name!r}]", v, len(numbers), least=None) for name, v in (vary or {}).items()}
        check_vary(network, varied)
        self.network = network
        self.trainer: Trainer | None = None
        self.settings = Settings(
            copies=numbers,
            **arrays,
            batch_size=count("batch_size", batch_size, at_least=2 if _has_batch_norm(network) else 1),
            seed=count("seed", seed, at_least=0),
            optimizer=one_of("optimizer", optimizer, OPTIMIZERS),
            vary=varied,
            loss=one_of("loss", loss, LOSSES),
            sampling=one_of("sampling", sampling, SAMPLINGS),
            precision=one_of("precision", precision, ("float32", "float64")),
            device=_device(device),
        )

    def fit(
        self,
        x: Any,
        y: Any,
        steps: Any = 4000,
        *,
        probe: Any = None,
        record_every: Any = 20,
        keep_outputs: Any = False,
        keep_drawn: Any = False,
        checkpoint: Any = None,
        checkpoint_every: Any = None,
        progress: bool | None = None,
    ) -> xr.Dataset:
        """Train all copies from the start and record what they do on the probe samples.

        x: inputs (sample, *shape of the network)
        y: labels (sample,), or (copy, sample) where each copy has its own, corrupted ones for instance
        steps: updates of each copy; `step` in the record counts them, 0 is before the first
        probe: (inputs, labels) to measure on; the training samples if not given
        record_every: measure after as many steps, and at the start and end; or a list of steps
        keep_outputs: also record `output` (copy, step, sample, logit) of each probe sample
        keep_drawn: also record the drawn samples' outputs before each update, `drawn_output`, and their `drawn_label`
        checkpoint: .npz file: saved on the way, and continued bit for bit (on a CPU) if it is there
        checkpoint_every: save after as many steps; every 30 seconds if not given

        The record holds class_mean (copy, step, class, logit), the mean output over the probe samples of each class,
        in evaluation mode; loss and accuracy on the probe; train_loss, the mean loss of the batches since the step
        recorded before; and diverged_at, the step at which a copy's loss stopped being finite, or −1. Such a copy is
        named in a warning, the others go on.

        >>> from dynascope.data import geomnist
        >>> from dynascope.networks import MLP
        >>> x, y = geomnist(per_class=20)
        >>> net = MLP((1, 32, 32), 3, width=8, depth=2)
        >>> run = Ensemble(net, copies=2, learning_rate=[0.1, 0.2]).fit(x, y, steps=5, record_every=[0, 1, 5])
        >>> run["step"].values.tolist(), run["learning_rate"].values.tolist()
        ([0, 1, 5], [0.1, 0.2])
        """
        begun = time.perf_counter()
        x, y = _inputs("x", x, self.network), self._labels(y)
        if len(x) != y.shape[-1]:
            raise ValueError(f"y must hold one label for each of the {len(x)} inputs, got {y.shape[-1]}")
        if self.settings.batch_size > len(x):
            raise ValueError(f"batch_size must be at most {len(x)}, the samples in x, got {self.settings.batch_size}")
        course = Course(
            probe=self._probe(probe, x, y),
            record_at=_record_steps(count("steps", steps), record_every),
            keep_outputs=flag("keep_outputs", keep_outputs),
            checkpoint=None if checkpoint is None else _npz(checkpoint),
            checkpoint_every=None if checkpoint_every is None else count("checkpoint_every", checkpoint_every),
            progress=progress,
        )
        course.fingerprint = self._fingerprint(x, y, course, keep_drawn=flag("keep_drawn", keep_drawn))
        self.trainer = Trainer(self.network, self.settings, x, y, keep_drawn=keep_drawn)
        arrays = course.run(self.trainer)
        if keep_drawn:
            drawn = self.trainer.batches(0, self.trainer.steps_done).cpu().numpy().swapaxes(0, 1)
            arrays["drawn_label"] = np.stack([row[own] for row, own in zip(self._own(y), drawn, strict=True)])
        self._warn(arrays["diverged_at"])
        return self._label(arrays, course.record_at, time.perf_counter() - begun)

    def trained(self, index: Any) -> Network:
        """Return the network of one copy (by its place in the list) after `fit`, in evaluation mode.

        >>> from dynascope.data import geomnist
        >>> from dynascope.networks import LeNet
        >>> ensemble = Ensemble(LeNet(), copies=2)
        >>> _ = ensemble.fit(*geomnist(per_class=4), steps=2)
        >>> ensemble.trained(1).features(torch.zeros(1, 1, 32, 32))["act_4"].shape
        torch.Size([1, 84])
        """
        if self.trainer is None:
            raise ValueError("the copies have not been trained: call fit first")
        if count("index", index, at_least=0) >= self.trainer.size:
            raise ValueError(f"index must be below {self.trainer.size}, the number of copies, got {index}")
        return self.trainer.copy_of(index)

    def _labels(self, y: Any) -> np.ndarray:
        values = np.asarray(y)
        if values.ndim != 2:
            return checked_labels("y", values, self.network.classes)[0]
        if len(values) != len(self.settings.copies):
            raise ValueError(f"y must have one row for each of {len(self.settings.copies)} copies, got {len(values)}")
        return np.stack([checked_labels(f"y[{i}]", row, self.network.classes)[0] for i, row in enumerate(values)])

    def _own(self, y: np.ndarray) -> np.ndarray:
        return np.broadcast_to(y, (len(self.settings.copies), y.shape[-1]))

    def _probe(self, probe: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if probe is None and y.ndim == 2:
            raise ValueError("probe must be given where copies have labels of their own")
        if probe is None:
            return x, y
        if not isinstance(probe, tuple | list) or len(probe) != 2:
            raise ValueError(f"probe must be (inputs, labels), got {type(probe).__name__}")
        inputs = _inputs("probe inputs", probe[0], self.network)
        labels = checked_labels("probe labels", probe[1], self.network.classes)[0]
        if len(inputs) != len(labels):
            raise ValueError(f"probe must hold one label for each input, got {len(inputs)} and {len(labels)}")
        return inputs, labels

    def _facts(self) -> dict[str, Any]:
        facts = {name: value for name, value in vars(self.settings).items() if name not in ("device", "seed")}
        facts["vary"] = dict(facts["vary"])
        return {"network": type(self.network).__name__, **facts}

    def _fingerprint(self, x: np.ndarray, y: np.ndarray, course: Course, *, keep_drawn: bool) -> str:
        sha = hashlib.sha256()
        facts = self._facts() | {"seed": self.settings.seed, "network": repr(self.network)}
        facts |= {"keep": [course.keep_outputs, keep_drawn], "shapes": [x.shape, y.shape]}
        facts["buffers"] = {name: buffer.tolist() for name, buffer in self.network.named_buffers()}
        sha.update(json.dumps(facts, default=lambda value: value.tolist(), sort_keys=True).encode())
        for array in (x, y, *course.probe):
            sha.update(np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()

    def _warn(self, diverged_at: np.ndarray) -> None:
        lost = np.flatnonzero(diverged_at >= 0)
        if lost.size:
            named = ", ".join(f"copy {self.settings.copies[i]} at step {diverged_at[i]}" for i in lost)
            warnings.warn(
                f"the loss of {named} was not finite; the other {len(diverged_at) - lost.size} copies went on",
                RuntimeWarning,
                stacklevel=3,
            )

    def _label(self, arrays: Mapping[str, np.ndarray], steps: Any, wall_time: float) -> xr.Dataset:
        given = self.settings
        varied = {name: getattr(given, name) for name in ("learning_rate", "momentum", "weight_decay")}
        varied |= {"label_noise": given.label_noise, "input_noise": given.input_noise, **given.vary}
        coords: dict[str, Any] = {name: ("copy", v) for name, v in varied.items() if len(set(v.tolist())) > 1}
        coords |= {"copy": given.copies, "step": ("step", np.array(steps), {"units": "updates"})}
        run = xr.Dataset({name: (_DIMS[name], values) for name, values in arrays.items()}, coords=coords)
        options = {"steps": int(steps[-1]), "record_steps": len(steps)}
        run = with_provenance(
            run,
            "Ensemble",
            self._facts(),
            options=options,
            seed=given.seed,
            precision=given.precision,
            wall_time=wall_time,
        )
        device = torch.cuda.get_device_name(given.device) if given.device.startswith("cuda") else "cpu"
        return run.assign_attrs(device=json.dumps(device))


def _copy_numbers(copies: Any) -> np.ndarray:
    if np.ndim(copies) == 0:
        return np.arange(count("copies", copies))
    numbers = np.array([count("copies", each, at_least=0) for each in copies], np.int64)
    if numbers.size == 0 or len(set(numbers.tolist())) < numbers.size:
        raise ValueError(f"copies must be a number, or a list of different numbers of copies, got {copies!r}")
    return numbers


def _per_copy(name: str, value: Any, copies: int, *, least: float | None = 0.0) -> np.ndarray:
    values = as_float(name, value)
    if values.shape not in ((), (copies,)):
        raise ValueError(f"{name} must be one number or {copies}, one for each copy, got shape {values.shape}")
    if least is not None:
        require(name, values, values >= least, f"be at least {least}")
    return np.broadcast_to(values, (copies,)).copy()


def _has_batch_norm(network: Network) -> bool:
    return any(isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) for layer in network.modules())


def _device(device: Any) -> str:
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
        torch.zeros(1, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(f"device must be one that PyTorch has here, such as cpu, got {device!r}") from error
    return str(found)


def _inputs(name: str, x: Any, network: Network) -> np.ndarray:
    try:
        values = np.asarray(x)
    except ValueError:
        values = np.array(None)
    if values.dtype.kind not in "iuf" or values.ndim == 0:
        raise ValueError(f"{name} must be numbers in one array, all samples of the same shape {network.shape}")
    if values.shape[1:] != network.shape or len(values) == 0:
        raise ValueError(f"{name} must have the shape (sample, {str(network.shape)[1:-1]}), got {values.shape}")
    if network.tokens is None:
        return as_float(name, values)
    allowed = (values >= 0) & (values < network.tokens) & (values == np.floor(values))
    require(name, values, allowed, f"be whole numbers from 0 to {network.tokens - 1}")
    return values.astype(np.int64)


def _record_steps(steps: int, record_every: Any) -> list[int]:
    if np.ndim(record_every) == 0:
        every = count("record_every", record_every)
        return sorted({*range(0, steps + 1, every), steps})
    chosen = [count("record_every", each, at_least=0) for each in record_every]
    if not chosen or chosen != sorted(set(chosen)) or chosen[-1] > steps:
        raise ValueError(f"record_every must be a number, or increasing steps up to {steps}, got {record_every!r}")
    return sorted({*chosen, steps})


def _npz(checkpoint: Any) -> Path:
    path = Path(checkpoint)
    if path.suffix != ".npz":
        raise ValueError(f"checkpoint must end in .npz, got {path.name!r}")
    return path
