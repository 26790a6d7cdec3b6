"""The probe: a fixed batch of inputs and labels, how it goes into a model and which output comes out."""

import inspect
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from dynascope.checks import ArrayLike
from dynascope.measure.elasticity import at_once
from dynascope.monitor.drawing import draw, split_batch

Inputs = torch.Tensor | tuple[torch.Tensor, ...] | Mapping[str, torch.Tensor]
Pair = tuple[Inputs, ArrayLike]
Source = Pair | torch.Tensor | Mapping[str, Any] | DataLoader[Any] | Dataset[Any]  # a probe as it is given
Output = str | int | Callable[[object], torch.Tensor]
POSITIONS = 4096  # of sequences or images whose every position has an output, per forward pass


@dataclass(frozen=True)
class Probe:
    """Checked inputs with a label for each sample or for each of its positions; another such batch may stand for tests.

    inputs: a tensor (sample, …), or a tuple or dict of them for models that take several. labels: (sample, …), on the
    CPU; −1 or less where there is none.

    >>> probe = Probe.of((torch.zeros(4, 2), [5, 5, 7, 7]), nn.Linear(2, 2))
    >>> len(probe), probe.labels.tolist()
    (4, [5, 5, 7, 7])
    """

    inputs: Inputs
    labels: torch.Tensor
    test: "Probe | None" = None

    @classmethod
    def of(cls, probe: object, model: nn.Module) -> "Probe":
        """Check a probe against the model's device; from a DataLoader or Dataset one is drawn. The model does not run.

        probe: (inputs, labels); token numbers (sample, token) for a language model; a dict with "labels"; a DataLoader
        or Dataset of such; or {"train": …, "test": …} of any of these.
        """
        if isinstance(probe, Mapping) and set(probe) == {"train", "test"}:
            return replace(cls.of(probe["train"], model), test=cls.of(probe["test"], model))
        if isinstance(probe, DataLoader | Dataset) or _rows(probe):
            inputs, labels = draw(probe, model)
        elif isinstance(probe, torch.Tensor) and probe.ndim == 2 and not probe.is_floating_point():
            inputs, labels = probe, probe  # token numbers
        elif (isinstance(probe, tuple | list) and len(probe) == 2) or isinstance(probe, Mapping):
            inputs, labels = split_batch(probe)
        else:
            raise ValueError(
                "probe must be a pair (inputs, labels), token numbers (sample, token), a dict with 'labels', a "
                f"DataLoader, a Dataset, or {{'train': …, 'test': …}} of these, got {type(probe).__name__}"
            )
        samples = _check_inputs(inputs, model)
        checked = _labels(labels, samples)
        return cls(_keep(_with_labels(model, inputs, checked)), checked)

    def __len__(self) -> int:
        return len(self.labels)

    def chunks(self, most: int | None = None) -> Iterator[tuple[slice, Inputs]]:
        """Pieces of the inputs, in order, and which samples they are; of some samples at most, if that is said."""
        tensors = tensors_of(self.inputs)
        size = at_once(*tensors) if most is None else at_once(*tensors, most=most)
        for first in range(0, len(self), size):
            part = slice(first, min(first + size, len(self)))
            yield part, self.part(part)

    def part(self, chosen: slice) -> Inputs:
        """Some samples of the inputs."""
        return _each(self.inputs, lambda tensor: tensor[chosen])

    def fingerprint(self) -> str:
        """Checksum of inputs and labels: measurements on another probe do not belong to the same run."""
        sum_ = zlib.crc32(self.labels.numpy().tobytes())
        for tensor in tensors_of(self.inputs):
            bits = tensor.detach().contiguous().cpu().flatten().view(torch.uint8)
            sum_ = zlib.crc32(bits.numpy().tobytes(), sum_)
        return f"{sum_:08x}"


def _rows(probe: object) -> bool:
    """Whether something else serves as a data set: a list of rows, or what other libraries call one."""
    if isinstance(probe, list):
        return len(probe) > 2 and isinstance(probe[0], Mapping | tuple)
    plain = isinstance(probe, torch.Tensor | np.ndarray | Mapping | tuple | str)
    return not plain and hasattr(probe, "__len__") and hasattr(probe, "__getitem__")


def _check_inputs(inputs: object, model: nn.Module) -> int:
    tensors = tensors_of(inputs)
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
    return samples


def _labels(labels: object, samples: int) -> torch.Tensor:
    try:
        held = labels if isinstance(labels, torch.Tensor) else torch.as_tensor(np.asarray(labels))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"probe labels must be an array of numbers, got {type(labels).__name__}") from error
    if held.ndim == 0 or len(held) != samples:
        raise ValueError(
            f"probe labels must hold one row for each of the {samples} samples, got shape {tuple(held.shape)}"
        )
    if held.is_floating_point() and not bool(torch.isfinite(held).all()):
        raise ValueError("probe labels must be finite everywhere, got NaN or infinity")
    return held.detach().cpu().clone()


def _with_labels(model: nn.Module, inputs: Inputs, labels: torch.Tensor) -> Inputs:
    """Labels per token go in beside the inputs where a model else returns its last position, or decodes from them."""
    if labels.ndim != 2 or labels.is_floating_point():
        return inputs
    home = tensors_of(inputs)[0].device
    if isinstance(inputs, torch.Tensor) and "targets" in inspect.signature(model.forward).parameters:
        return inputs, labels.to(home)  # as nanoGPT
    decodes = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    if decodes and isinstance(inputs, Mapping) and "decoder_input_ids" not in inputs:
        return {**inputs, "labels": labels.to(home)}
    return inputs


def tensors_of(inputs: object) -> list[torch.Tensor]:
    """All tensors of a probe's inputs.

    >>> len(tensors_of({"a": torch.ones(1), "b": torch.ones(1)}))
    2
    """
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


def moved_to(probe: Any, device: torch.device | str) -> Any:
    """Bring the tensors of a probe, or of inputs, to a device; what is drawn from a data set comes there by itself.

    >>> moved_to(({"x": torch.ones(1)}, [0]), "cpu")
    ({'x': tensor([1.])}, [0])
    """
    if isinstance(probe, torch.Tensor):
        return probe.to(device)
    if isinstance(probe, Mapping):
        return {name: moved_to(each, device) for name, each in probe.items()}
    return tuple(moved_to(each, device) for each in probe) if isinstance(probe, tuple) else probe


def feed(model: nn.Module, inputs: Inputs) -> object:
    """Call a model with a tensor, a tuple of arguments or a dict of named ones.

    >>> feed(nn.Identity(), {"input": torch.ones(1)})
    tensor([1.])
    """
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def outputs_in(returned: object) -> dict[str | int, torch.Tensor]:
    """Find what may be the output in what a model returns: floating-point tensors with one row per sample, by name.

    >>> list(outputs_in({"loss": torch.zeros(()), "scores": torch.ones(2, 3)}))
    ['scores']
    """
    if isinstance(returned, torch.Tensor):
        return {"": returned} if _may_be(returned) else {}
    if isinstance(logits := _named(returned, "logits"), torch.Tensor):
        return {"logits": logits}
    held = (
        returned.items()
        if isinstance(returned, Mapping)
        else enumerate(returned)
        if isinstance(returned, tuple | list)
        else ()
    )
    return {name: each for name, each in held if isinstance(each, torch.Tensor) and _may_be(each)}


def _may_be(tensor: torch.Tensor) -> bool:
    return tensor.ndim >= 1 and tensor.is_floating_point()


def _named(returned: object, name: str) -> object:
    return returned.get(name) if isinstance(returned, Mapping) else getattr(returned, name, None)


def output_of(returned: object, output: Output | None = None) -> torch.Tensor:
    """Pick the output of a model: by name or place or by a function, or the only one that there is.

    >>> output_of((torch.zeros(()), torch.ones(2, 3))).shape
    torch.Size([2, 3])
    >>> output_of({"aux": torch.zeros(2, 3), "scores": torch.ones(2, 3)}, "scores").sum()
    tensor(6.)
    """
    if callable(output):
        picked: object = output(returned)
    elif output is None or output == "":
        picked = next(iter(outputs_in(returned).values()), None)
    elif isinstance(output, str):
        picked = _named(returned, output)
    else:
        picked = (
            returned[output]
            if isinstance(returned, tuple | list) and -len(returned) <= output < len(returned)
            else None
        )
    if isinstance(picked, torch.Tensor) and _may_be(picked):
        return picked
    held = list(returned) if isinstance(returned, Mapping | tuple | list) else [returned]
    kinds = [
        tuple(each.shape) if isinstance(each, torch.Tensor) else each if isinstance(each, str) else type(each).__name__
        for each in held
    ]
    raise ValueError(
        "model must return logits (sample, class), or another floating-point tensor with a row per sample, alone or "
        f"inside a tuple or dict, got {kinds}" + ("" if output is None else f" where output={output!r} is none")
    )


class Logits(nn.Module):
    """A model seen as a map from one tensor to its output (sample, output), whatever else it returns.

    >>> Logits(nn.Linear(2, 3))(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    def __init__(self, model: nn.Module, output: Output | None = None) -> None:
        super().__init__()
        self.inner, self.output = model, output

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Return the output alone."""
        return output_of(feed(self.inner, inputs), self.output).flatten(1)
