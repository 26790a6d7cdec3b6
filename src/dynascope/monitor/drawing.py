"""A probe out of a DataLoader or Dataset: a few samples of each class, always the same, and no sampler is touched."""

from collections.abc import Mapping, Sized
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, default_collate

from dynascope.measure.side_effects import undisturbed

PER_CLASS, SAMPLES, SEQUENCES = 40, 256, 64  # of each class; where labels are no classes; with a label per position
SEEN, LOOKED_AT = 500, 4000  # samples at least and at most, in search of rare classes
TOTAL = 1024  # samples of all classes together, while that leaves 8 of each
LABELS = ("labels", "label", "targets", "target", "y")


def draw(source: Any, model: nn.Module) -> tuple[Any, torch.Tensor]:
    """Draw a probe, on the model's device: up to 40 samples of each class among the 4000 that are looked at.

    source: a DataLoader, or a data set with a length, such as a list of (inputs, label) or of dicts. Samples are read
    from the data set itself, in an order of its own, and collated as the loader does; samplers, workers and random
    states stay as they are.

    >>> data = torch.utils.data.TensorDataset(torch.zeros(500, 2), torch.arange(500) % 2)
    >>> draw(data, nn.Linear(2, 2))[1].bincount().tolist()
    [40, 40]
    """
    data = source.dataset if isinstance(source, DataLoader) else source
    collate = (source.collate_fn if isinstance(source, DataLoader) else None) or default_collate
    if isinstance(data, IterableDataset) or not isinstance(data, Sized) or not len(data):
        raise ValueError(
            f"probe must come from a data set with a length, got {type(data).__name__}; "
            "a stream is used up by looking at it: give a batch of it"
        )
    order = np.random.default_rng(0).permutation(len(data))[:LOOKED_AT]
    with undisturbed(model):
        inputs, labels = _gather(data, order.tolist(), collate)
    home = next((each.device for each in model.parameters()), torch.device("cpu"))
    return _map(inputs, lambda tensor: tensor.to(home)), labels


def _gather(data: Any, order: list[int], collate: Any) -> tuple[Any, torch.Tensor]:
    _, labels = split_batch(collate([data[order[0]]]))
    labels = torch.as_tensor(labels)
    if labels.ndim > 1 or labels.is_floating_point():
        chosen = order[: SEQUENCES if labels.ndim > 1 and not labels.is_floating_point() else SAMPLES]
        inputs, labels = split_batch(collate([data[index] for index in chosen]))
        return inputs, torch.as_tensor(labels)
    found: dict[int, list[Any]] = {}
    for looked, index in enumerate(order):
        item = data[index]
        held = found.setdefault(int(torch.as_tensor(split_batch(collate([item]))[1])[0]), [])
        if len(held) < PER_CLASS:
            held.append(item)
        if looked >= SEEN and all(len(each) == PER_CLASS for each in found.values()):
            break
    fair = max(TOTAL // len(found), 8)
    inputs, labels = split_batch(collate([item for label in sorted(found) for item in found[label][:fair]]))
    return inputs, torch.as_tensor(labels)


def split_batch(batch: object) -> tuple[Any, Any]:
    """Take a batch apart into inputs and labels: a dict by its names, a tuple with the labels last.

    >>> split_batch({"input_ids": 1, "labels": 2})
    ({'input_ids': 1}, 2)
    >>> split_batch([1, 2, 3])
    ((1, 2), 3)
    """
    if isinstance(batch, Mapping):
        name = next((each for each in LABELS if each in batch), None)
        if name is not None:
            return {key: each for key, each in batch.items() if key != name}, batch[name]
        if "input_ids" in batch:
            return dict(batch), batch["input_ids"]
        raise ValueError(
            f"probe must hold its labels under one of {', '.join(LABELS)}, got {', '.join(map(str, batch))}"
        )
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        return (batch[0] if len(batch) == 2 else tuple(batch[:-1])), batch[-1]
    if isinstance(batch, torch.Tensor) and not batch.is_floating_point():
        return batch, batch  # token numbers
    raise ValueError(f"probe must give batches of inputs and labels, got {type(batch).__name__}")


def _map(inputs: Any, work: Any) -> Any:
    if isinstance(inputs, Mapping):
        return {name: work(each) for name, each in inputs.items()}
    return tuple(work(each) for each in inputs) if isinstance(inputs, tuple) else work(inputs)
