"""What an ensemble is given, at the door: converted, or refused with a sentence that names the argument."""

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, as_float, count, listed, one_of, path_of, require
from dynascope.data.corruption import checked_labels
from dynascope.networks.measuring import MEASURES
from dynascope.networks.network import Network
from dynascope.networks.recording import Steers

Pair = tuple[ArrayLike, ArrayLike]  # inputs, and labels or targets
_CHANGEABLE = ("learning_rate", "weight_decay", "label_noise", "input_noise")
_AT_MOST = {"momentum": 1.0, "label_noise": 1.0, "dropout": 0.999}
_SETTINGS = 8  # numbers that an ensemble holds of each trial, beside its weights
_ANY_SIGN = ("slope", "input_scale", "output_scale", "weight_scale", "target_scale")


def trial_numbers(trials: int | Sequence[int] | np.ndarray) -> np.ndarray:
    """Numbers of the trials, from how many or from a list, in which one may come again to run with other settings.

    >>> trial_numbers(2).tolist(), trial_numbers([7, 7]).tolist()
    ([0, 1], [7, 7])
    """
    if np.ndim(trials) == 0:
        many = count("trials", trials)
        require_room({"trials": many}, many * _SETTINGS)
        return np.arange(many)
    numbers = np.array([count("trials", each, at_least=0) for each in cast(Sequence[int], trials)], np.int64)
    if numbers.size == 0:
        raise ValueError(f"trials must be a number, or a list of the numbers of trials, got {trials!r}")
    return numbers


def one_per_trial(name: str, value: ArrayLike, trials: int, prefix: str = "") -> np.ndarray:
    """One number for each trial, of a setting.

    >>> one_per_trial("momentum", 0.5, 2).tolist()
    [0.5, 0.5]
    """
    shown, values = prefix + name, as_float(prefix + name, value)
    if values.shape not in ((), (trials,)):
        raise ValueError(f"{shown} must be one number or {trials}, one for each trial, got shape {values.shape}")
    if name not in _ANY_SIGN:
        require(shown, values, values >= 0, "be at least 0")
    if name in _AT_MOST:
        require(shown, values, values <= _AT_MOST[name], f"be at most {_AT_MOST[name]}")
    return np.broadcast_to(values, (trials,)).copy()


def per_trial(given: Mapping[str, ArrayLike], trials: int, prefix: str) -> dict[str, np.ndarray]:
    """One number for each trial, of each setting.

    >>> per_trial({"dropout": 0.5}, 2, "vary: ")["dropout"].tolist()
    [0.5, 0.5]
    """
    return {name: one_per_trial(name, value, trials, prefix) for name, value in given.items()}


def vary(network: Network, given: Mapping[str, ArrayLike] | None, trials: int) -> dict[str, np.ndarray]:
    """Settings of the network, one for each trial; those that it does not have are refused.

    >>> from dynascope.networks import LeNet
    >>> vary(LeNet(), {"slope": 0.5}, 2)
    Traceback (most recent call last):
    ValueError: vary must name settings of the network, which has none, got 'slope'
    """
    known = ", ".join(network.adjustable) or "none"
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"vary must map settings of the network, which has {known}, to values, got {given!r}")
    for name in given or {}:
        if name not in network.adjustable:
            raise ValueError(f"vary must name settings of the network, which has {known}, got {name!r}")
    return per_trial(given or {}, trials, "vary: ")


def later(network: Network, given: object, trials: int, steps: int) -> dict[int, dict[str, np.ndarray]]:
    """Settings that change after a step: {step: {name: value}}.

    >>> from dynascope.networks import MLP
    >>> later(MLP(), {5: {"dropout": 0.1}}, 2, 9)
    {5: {'dropout': array([0.1, 0.1])}}
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
        raise ValueError(f"later must be {{step: {{setting: value}}}}, got {given!r}")
    known = (*_CHANGEABLE, *(name for name in network.adjustable if name != "weight_scale"))
    found = {}
    for step, settings in sorted(given.items()):
        if count("later", step) >= steps:
            raise ValueError(f"later must name steps before the last, {steps}, got {step}")
        for name in settings:
            one_of(f"later[{step}]", name, known)
        found[int(step)] = per_trial(settings, trials, f"later[{step}]: ")
    return found


def steer(given: object, later: object, checkpoint: object) -> Steers | None:
    """What turns a setting on the way, if anything does.

    >>> steer("dropout", None, None)
    Traceback (most recent call last):
    ValueError: steer must be a dynascope.steering.Helm, got 'dropout'
    """
    if given is None:
        return None
    if not isinstance(given, Steers):
        raise ValueError(f"steer must be a dynascope.steering.Helm, got {given!r}")
    if checkpoint is not None:
        raise ValueError("checkpoint must not be given with steer: where the law stands is not kept in it")
    changed = later if isinstance(later, Mapping) else {}
    if given.knob != "learning_rate" and any(given.knob in each for each in changed.values()):
        raise ValueError(f"later must not change {given.knob}, which steer turns")
    return given


def has_batch_norm(network: Network) -> bool:
    """Whether a batch of one sample would leave nothing to train on.

    >>> from dynascope.networks import LeNet
    >>> has_batch_norm(LeNet())
    False
    """
    return any(isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) for layer in network.modules())


def device(given: str | torch.device | None) -> str:
    """A device that is there; a GPU if there is one and none is named.

    >>> device("cpu")
    'cpu'
    """
    if given is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(given)
        torch.zeros(1, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(f"device must be one that PyTorch has here, such as cpu, got {given!r}") from error
    return str(found)


def device_name(device: str) -> str:
    """What a record says of a device: the name of a GPU, or cpu.

    >>> device_name("cpu")
    'cpu'
    """
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"


def inputs(name: str, x: ArrayLike, network: Network) -> np.ndarray:
    """Inputs (sample, *shape of the network), finite, or tokens that it knows.

    >>> from dynascope.networks import MLP
    >>> inputs("x", np.ones((2, 100)), MLP()).shape
    (2, 100)
    """
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


def answers(name: str, y: ArrayLike, network: Network, *, trials: int, loss: str) -> np.ndarray:
    """Labels (1 or trial, sample), or with the squared loss targets (1 or trial, sample, output).

    >>> from dynascope.networks import MLP
    >>> answers("y", [0.5, 1.5], MLP(classes=1), trials=3, loss="mse").shape
    (1, 2, 1)
    """
    values = np.asarray(y)
    own, rows = (3, "targets") if loss == "mse" and values.dtype.kind == "f" else (2, "labels")
    if own == 3 and values.ndim == 1 and network.classes == 1:
        values = values[:, None]
    if values.ndim == own and len(values) != trials:
        raise ValueError(f"{name} must have one row for each of {trials} trials, got {len(values)} of {rows}")
    if own == 3:
        if values.shape[-1:] != (network.classes,) or values.ndim not in (2, 3):
            raise ValueError(f"{name} must be targets (sample, {network.classes}), got shape {values.shape}")
        return as_float(name, values if values.ndim == own else values[None])
    if values.ndim != own:
        return checked_labels(name, values, network.classes)[0][None]
    return np.stack([checked_labels(f"{name}[{i}]", row, network.classes)[0] for i, row in enumerate(values)])


def pair(name: str, given: object, network: Network, *, trials: int, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and labels or targets, of the same samples.

    >>> from dynascope.networks import MLP
    >>> pair("probe", (np.ones((2, 100)), [0, 1]), MLP(classes=2), trials=1, loss="mse")[1]
    array([[0, 1]])
    """
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"{name} must be (inputs, labels), got {type(given).__name__}")
    prefix = "" if name == "train" else f"{name} "
    x = inputs(prefix + ("inputs" if prefix else "x"), given[0], network)
    y = answers(prefix + ("labels" if prefix else "y"), given[1], network, trials=trials, loss=loss)
    if len(x) != y.shape[1]:
        raise ValueError(f"{prefix or 'y '}must hold one label for each of the {len(x)} inputs, got {y.shape[1]}")
    return x, y


def measures(
    given: str | Sequence[str], network: Network, probes: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> tuple[str, ...]:
    """Names of measures that can be taken on these probes.

    >>> from dynascope.networks import LeNet
    >>> measures("load", LeNet(), {})
    ('load',)
    """
    chosen = [given] if isinstance(given, str) else listed("measures", given, f"names from {', '.join(MEASURES)}")
    names = tuple(one_of("measures", each, MEASURES) for each in chosen)
    for x, y in probes.values():
        if y.dtype.kind != "f":
            continue
        if "load_pinv" in names:
            raise ValueError("measures must not hold load_pinv for regression, which has no classes; use load")
        found = copy.deepcopy(network).eval().features(torch.zeros(1, *network.shape))
        widest = max(found[layer].numel() for layer in network.probes)
        if "load" in names and len(x) < widest + 2:
            raise ValueError(
                f"measures: load of a regression needs more samples than features by 2 or more, else every fit is "
                f"perfect; got {len(x)} samples and {widest} features"
            )
    return names


def record_steps(steps: int, record_every: int | Sequence[int] | np.ndarray) -> list[int]:
    """Steps at which to record.

    >>> record_steps(5, 2), record_steps(5, [1])
    ([0, 2, 4, 5], [1, 5])
    """
    if np.ndim(record_every) == 0:
        every = count("record_every", record_every)
        require_room({"steps": steps, "record_every": every}, 10 * (steps // every))  # Python's numbers are larger
        return sorted({*range(0, steps + 1, every), steps})
    chosen = [count("record_every", each, at_least=0) for each in cast(Sequence[int], record_every)]
    if not chosen or chosen != sorted(set(chosen)) or chosen[-1] > steps:
        raise ValueError(f"record_every must be a number, or increasing steps up to {steps}, got {record_every!r}")
    return sorted({*chosen, steps})


def npz(checkpoint: str | os.PathLike[str]) -> Path:
    """A file for a checkpoint.

    >>> npz("run.pt")
    Traceback (most recent call last):
    ValueError: checkpoint must end in .npz, got 'run.pt'
    """
    path = path_of("checkpoint", checkpoint)
    if path.suffix != ".npz":
        raise ValueError(f"checkpoint must end in .npz, got {path.name!r}")
    return path
