"""The probe: a fixed batch of inputs and labels, how it goes into a model and how logits come out."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from dynascope.checks import ArrayLike
from dynascope.measure.arrays import class_codes

Inputs = torch.Tensor | tuple[torch.Tensor, ...] | Mapping[str, torch.Tensor]
Pair = tuple[Inputs, ArrayLike]  # a probe as it is given: inputs, labels
CHUNK = 256  # samples per forward pass


@dataclass(frozen=True)
class Probe:
    """Checked inputs with the classes that occur and the class of each sample.

    inputs: a tensor (sample, …), or a tuple or dict of them for models that take several.

    >>> probe = Probe.of((torch.zeros(4, 2), [5, 5, 7, 7]), nn.Linear(2, 2))
    >>> probe.classes.tolist(), probe.codes.tolist()
    ([5, 7], [0, 0, 1, 1])
    """

    inputs: Inputs
    classes: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, probe: object, model: nn.Module) -> "Probe":
        """Check (inputs, labels) against each other and against the model's device; nothing runs yet."""
        if not isinstance(probe, tuple | list) or len(probe) != 2:
            raise ValueError(f"probe must be a pair (inputs, labels), got {type(probe).__name__}")
        inputs, labels = probe
        tensors = _tensors(inputs)
        samples = len(tensors[0])
        home = next((each.device for each in model.parameters()), tensors[0].device)
        for tensor in tensors:
            if len(tensor) != samples:
                raise ValueError(f"probe inputs must have the same number of samples, got {samples} and {len(tensor)}")
            if tensor.device != home:
                raise ValueError(
                    f"probe must be on the model's device, {home}, got {tensor.device}; use x.to({str(home)!r})"
                )
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise ValueError("probe inputs must be finite everywhere, got NaN or infinity")
        try:
            classes, codes = class_codes(labels, samples)
        except ValueError as error:
            raise ValueError(f"probe {error}") from error
        if classes.dtype.kind not in "iu" or classes.min() < 0:
            raise ValueError(
                f"probe labels must be whole numbers from 0 on, as losses take them, got {classes.tolist()}"
            )
        return cls(_keep(inputs), classes, codes)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def labels(self) -> np.ndarray:
        """The label of each sample, as the model knows it."""
        return np.asarray(self.classes[self.codes])

    def chunks(self, size: int = CHUNK) -> Iterator[Inputs]:
        """Pieces of the inputs, in order."""
        for first in range(0, len(self), size):
            yield self.part(slice(first, first + size))

    def part(self, chosen: slice) -> Inputs:
        """Some samples of the inputs."""
        return _each(self.inputs, lambda tensor: tensor[chosen])

    def fingerprint(self) -> str:
        """Checksum of inputs and labels: measurements on another probe do not belong to the same run."""
        sum_ = zlib.crc32(self.labels.astype("<i8").tobytes())
        for tensor in _tensors(self.inputs):
            bits = tensor.detach().contiguous().cpu().flatten().view(torch.uint8)
            sum_ = zlib.crc32(bits.numpy().tobytes(), sum_)
        return f"{sum_:08x}"


def _tensors(inputs: object) -> list[torch.Tensor]:
    held = (
        list(inputs.values())
        if isinstance(inputs, Mapping)
        else list(inputs)
        if isinstance(inputs, tuple)
        else [inputs]
    )
    tensors = [each for each in held if isinstance(each, torch.Tensor) and each.ndim >= 1 and len(each)]
    if not held or len(tensors) < len(held):
        raise ValueError(
            "probe inputs must be a tensor (sample, …), or a tuple or dict of tensors as the model takes them, "
            f"got {type(inputs).__name__}"
        )
    return tensors


def _keep(inputs: Inputs) -> Inputs:
    """A copy: a batch that the user reuses as a buffer must not change under the monitor."""
    return _each(inputs, lambda tensor: tensor.detach().clone())


def _each(inputs: Inputs, work: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    if isinstance(inputs, Mapping):
        return {name: work(each) for name, each in inputs.items()}
    return tuple(work(each) for each in inputs) if isinstance(inputs, tuple) else work(inputs)


def moved_to(inputs: Inputs, device: torch.device | str) -> Inputs:
    """Bring inputs, one tensor or several, to a device.

    >>> moved_to({"x": torch.ones(1)}, "cpu")
    {'x': tensor([1.])}
    """
    return _each(inputs, lambda tensor: tensor.to(device))


def feed(model: nn.Module, inputs: Inputs) -> object:
    """Call a model with a tensor, a tuple of arguments or a dict of named ones.

    >>> feed(nn.Identity(), {"input": torch.ones(1)})
    tensor([1.])
    """
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def logits_of(returned: object) -> torch.Tensor:
    """Find the logits (sample, class) in what a model returns: a tensor, a tuple, a dict or an object with `logits`.

    A tuple or dict is searched for "logits", then for its first tensor with two axes.

    >>> logits_of((torch.zeros(()), torch.ones(2, 3))).shape
    torch.Size([2, 3])
    """
    named = returned.get("logits") if isinstance(returned, Mapping) else getattr(returned, "logits", None)
    if isinstance(named, torch.Tensor):
        returned = named
    held = list(returned.values()) if isinstance(returned, Mapping) else returned
    found = held if isinstance(held, tuple | list) else [held]
    for each in found:
        if isinstance(each, torch.Tensor) and each.ndim == 2 and each.is_floating_point():
            return each
    shapes = [tuple(each.shape) if isinstance(each, torch.Tensor) else type(each).__name__ for each in found]
    raise ValueError(
        f"model must return logits (sample, class), alone or inside a tuple or dict, got {shapes}; "
        "wrap it in a module that picks them"
    )


class Logits(nn.Module):
    """A model seen as a map from one tensor to logits, whatever it returns.

    >>> Logits(nn.Linear(2, 3))(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Return logits alone."""
        return logits_of(feed(self.inner, inputs))
