"""Features of a probe's rows in every layer: which numbers are kept, and one pass that takes them all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from dynascope.monitor.probing import POSITIONS, Inputs, Output, Probe, feed, output_of, tensors_of
from dynascope.monitor.tasks import Task, at_places, picked
from dynascope.monitor.tracing import first_tensor, hooked, with_first

REDUCTIONS = ("pool", "flatten", "mean", "first", "last")
WHOLE = 16  # inputs without labels that go through a network at once, whatever they are
MAX_FEATURES = 4096


@dataclass(frozen=True)
class Layer:
    """Where features are taken: what enters or leaves the n-th call of a module; axes as they come.

    read: "whole" as `reduce` says, "used" at the positions that the readout uses, "mean" over all, or "places" where
    every position is a row. own: the call that it stands for, where it is one. kind: what its matrices are held by.
    """

    name: str
    module: nn.Module
    number: int
    entering: bool
    batch_axis: int
    channels_first: bool
    read: str = "whole"
    own: tuple[nn.Module, int] | None = None
    kind: str = ""


@dataclass(frozen=True)
class Reading:
    """What is read of a probe: its task, and the positions (sample, position) that the readout uses, where it does."""

    task: Task
    used: torch.Tensor | None = None


@dataclass(frozen=True)
class Layers:
    """The layers of a model, its readout (None if the output is not made by one linear map), and what was left out.

    reading: what is read of the probe, and test: of its test part. output: how to pick it. notes: what was not certain.
    """

    hidden: tuple[Layer, ...]
    readout: Layer | None
    skipped: Mapping[str, str]
    input: Layer | None
    reading: Reading
    test: Reading | None = None
    output: Output | None = None
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names in order, the input first where it is one."""
        return ["input"] * (self.input is not None) + [layer.name for layer in self.hidden]

    @property
    def kinds(self) -> list[str]:
        """What each layer is made of, in the same order: Linear, Conv2d, …; nothing for the input."""
        return [""] * (self.input is not None) + [layer.kind for layer in self.hidden]


def most_at_once(task: Task) -> int | None:
    """Samples per forward pass at most, where every position has an output.

    >>> from dynascope.monitor.tasks import recognise
    >>> probe = Probe(torch.zeros(4, 2, 3), torch.tensor([[0, 1, 1]] * 4))
    >>> most_at_once(recognise(probe, torch.zeros(4, 2, 3))[0])
    1365
    """
    return None if task.places is None else max(POSITIONS // int(np.prod(task.places.grid)), 1)


def reduce(features: torch.Tensor, layer: Layer, how: str = "pool", limit: int = MAX_FEATURES) -> torch.Tensor:
    """Bring a layer's features to (sample, number), as a copy.

    Maps are (sample, channel, position, …), sequences (sample, token, feature); tokens are positions too.
    pool: all numbers while they are at most `limit`; else neighbouring positions are averaged in equal groups, as few
    as needed, and if one position still has more, evenly spaced numbers are taken. flatten: all numbers. mean: average
    over positions. first, last: one position.

    >>> map_layer = Layer("conv", nn.Identity(), 0, False, 0, True)
    >>> reduce(torch.ones(2, 64, 32, 32), map_layer).shape
    torch.Size([2, 4096])
    >>> reduce(torch.ones(2, 64, 32, 32), map_layer, "mean").shape
    torch.Size([2, 64])
    """
    x = _single(features).movedim(layer.batch_axis, 0)
    if x.ndim == 3 and not layer.channels_first:
        x = x.transpose(1, 2)  # (sample, feature, token)
    if x.ndim > 2 and how != "flatten":
        x = _positions(x, how, limit)
    x = x.flatten(1)
    if how == "pool" and x.shape[1] > limit:
        x = x[:, torch.linspace(0, x.shape[1] - 1, limit, device=x.device).round().long()]
    return x.clone(memory_format=torch.contiguous_format)


def _single(features: torch.Tensor) -> torch.Tensor:
    x = features.detach()
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x  # averages in half precision lose digits


def _positions(x: torch.Tensor, how: str, limit: int) -> torch.Tensor:
    if how == "mean":
        return x.flatten(2).mean(dim=2)
    if how in ("first", "last"):
        return x.flatten(2)[:, :, 0 if how == "first" else -1]
    if x[0].numel() <= limit:
        return x
    x = x if x.ndim <= 5 else x.flatten(2)
    sizes = list(x.shape[2:])
    while x.shape[1] * int(np.prod(sizes)) > limit and max(sizes) > 1:
        sizes[sizes.index(max(sizes))] -= 1
    if x.ndim == 4 and x.device.type == "cpu":
        x = x.contiguous(memory_format=torch.channels_last)  # else each number is added alone, 4 to 8 times slower
    pool: list[Callable[..., torch.Tensor]] = [
        nn.functional.adaptive_avg_pool1d,
        nn.functional.adaptive_avg_pool2d,
        nn.functional.adaptive_avg_pool3d,
    ]
    return pool[len(sizes) - 1](x, sizes if len(sizes) > 1 else sizes[0])


def rows_in(
    tensor: torch.Tensor, layer: Layer, reading: Reading, part: slice, how: str = "pool", limit: int = MAX_FEATURES
) -> torch.Tensor:
    """Features of the rows of some samples, (row, number), as a copy.

    >>> from dynascope.monitor.tasks import recognise
    >>> probe = Probe(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]))
    >>> task, _ = recognise(probe, torch.zeros(4, 3))
    >>> used = torch.tensor([[False, True]] * 4)
    >>> layer = Layer("block", nn.Identity(), 0, False, 0, False, "used")
    >>> rows_in(torch.arange(16.0).reshape(4, 2, 2), layer, Reading(task, used), slice(0, 4))[0]
    tensor([2., 3.])
    """
    if layer.read in ("whole", "flat"):
        return reduce(tensor, layer, "flatten" if layer.read == "flat" else how, limit)
    x = rows_first(_single(tensor), layer)
    if layer.read == "mean":
        return x.flatten(1, -2).mean(dim=1)
    if layer.read == "used" and reading.used is not None:
        used = reading.used[part].to(x.device)[..., None]
        return torch.where(used, x, 0).sum(dim=1) / used.sum(dim=1)
    places, rows = reading.task.places, rows_of(reading.task, part)
    laid = on_grid(x, places.grid) if places is not None else None
    if places is None or laid is None:
        raise ValueError(f"layer {layer.name!r} no longer has features at each position")
    return at_places(laid, places.sample[rows] - part.start, places.place[rows], places.grid)


def rows_first(tensor: torch.Tensor, layer: Layer) -> torch.Tensor:
    """Bring features to (sample, position, …, feature).

    >>> rows_first(torch.ones(2, 3, 4, 5), Layer("conv", nn.Identity(), 0, False, 0, True)).shape
    torch.Size([2, 4, 5, 3])
    """
    x = tensor.movedim(layer.batch_axis, 0)
    return x.movedim(1, -1) if layer.channels_first else x


def on_grid(x: torch.Tensor, grid: tuple[int, ...]) -> torch.Tensor | None:
    """Lay features out with as many axes of positions as the grid, as tokens of an image; None where that cannot be.

    >>> on_grid(torch.ones(2, 6, 3), (4, 6)).shape
    torch.Size([2, 2, 3, 3])
    """
    if x.ndim == len(grid) + 2:
        return x
    if x.ndim == 3 and len(grid) == 2:
        high = round((x.shape[1] * grid[0] / grid[1]) ** 0.5)
        if high and x.shape[1] % high == 0 and x.shape[1] // high == round(high * grid[1] / grid[0]):
            return x.reshape(len(x), high, -1, x.shape[2])
    return None


def rows_of(task: Task, part: slice) -> torch.Tensor:
    """Numbers of the rows that belong to some samples; rows are in the order of samples.

    >>> from dynascope.monitor.tasks import recognise
    >>> probe = Probe(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]))
    >>> rows_of(recognise(probe, torch.zeros(4, 3))[0], slice(1, 3)).tolist()
    [1, 2]
    """
    first, last = np.searchsorted(task.sample, [part.start, part.stop])
    return torch.arange(int(first), int(last))


@dataclass(frozen=True)
class Features:
    """What one pass over the probe gives, by rows: features of the layers, of the readout's input, and the outputs.

    losses, hits: of each row, where the output has it; hits is None for regression. A language model's outputs are not
    kept.
    """

    layers: list[torch.Tensor]
    last: torch.Tensor
    logits: torch.Tensor
    losses: torch.Tensor
    hits: torch.Tensor | None


def read_features(
    model: nn.Module,
    probe: Probe,
    layers: Layers,
    how: str = "pool",
    limit: int = MAX_FEATURES,
    *,
    skip: Layer | None = None,
) -> Features:
    """Run the whole probe, in chunks, and take every layer's features on the way.

    skip: a layer that hands on what it is given, where that has the shape of what it makes; then features of the last
    layer alone are taken.

    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> probe = Probe.of((torch.ones(4, 2), [0, 0, 1, 1]), net)
    >>> [tuple(each.shape) for each in read_features(net, probe, find_layers(net, probe)).layers]
    [(4, 2), (4, 8)]
    """
    return _Pass(probe, layers, layers.reading, how, limit, skip).run(model)


def read_test(
    model: nn.Module, probe: Probe, layers: Layers, how: str = "pool", limit: int = MAX_FEATURES
) -> Features | None:
    """Run the test part of a probe, where there is one.

    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Linear(2, 2)
    >>> probe = Probe.of((torch.ones(4, 2), [0, 0, 1, 1]), net)
    >>> read_test(net, probe, find_layers(net, probe))
    """
    if probe.test is None or layers.test is None:
        return None
    return _Pass(probe.test, layers, layers.test, how, limit, None).run(model)


def read_outputs(model: nn.Module, inputs: Inputs, layers: Layers) -> torch.Tensor:
    """What a model says of inputs without labels, (sample, output); of a few, `WHOLE`, in one pass.

    >>> from dynascope.monitor.layers import find_layers
    >>> net = nn.Linear(2, 3)
    >>> found = find_layers(net, Probe.of((torch.ones(4, 2), [0, 0, 1, 2]), net))
    >>> read_outputs(net, torch.ones(5, 2), found).shape
    torch.Size([5, 3])
    """
    task = layers.reading.task
    rows = len(tensors_of(inputs)[0])
    probe = Probe.of((inputs, torch.zeros((rows, *task.labels.shape[1:]), dtype=task.labels.dtype)), model)
    chunks = [probe.inputs] if rows <= WHOLE else [chunk for _, chunk in probe.chunks(most_at_once(task))]
    outputs = [output_of(feed(model, chunk), layers.output).detach() for chunk in chunks]
    return torch.cat([each.reshape(len(each), -1) for each in outputs])


class _Pass:
    """One pass over a probe and what is taken on the way."""

    def __init__(
        self, probe: Probe, layers: Layers, reading: Reading, how: str, limit: int, skip: Layer | None
    ) -> None:
        self.probe, self.layers, self.reading, self.skip = probe, layers, reading, skip
        self.how, self.limit = how, limit
        self.wanted = [*layers.hidden, *([layers.readout] if layers.readout else [])]
        if skip is not None:
            self.wanted = [layers.hidden[-1]]
        self.pieces: list[list[torch.Tensor]] = [[] for _ in self.wanted]
        self.part = slice(0, 0)
        self.given: torch.Tensor | None = None  # to the layer that is skipped

    def run(self, model: nn.Module) -> Features:
        task, layers = self.reading.task, self.layers
        modules = {layer.module for layer in self.wanted} | (
            {self.skip.own[0]} if self.skip and self.skip.own else set()
        )
        outputs: list[_Scored] = []
        with hooked(list(modules), self.enter, self.leave) as counted:
            for part, chunk in self.probe.chunks(most_at_once(task)):
                counted.clear()
                self.part = part
                output = output_of(feed(model, chunk), layers.output).detach()
                outputs.append(_scored(output, task, part, self.probe))
        joined = [torch.cat(each) for each in self.pieces]
        hidden = joined[: len(layers.hidden)]
        if self.skip is None and layers.input is not None and isinstance(self.probe.inputs, torch.Tensor):
            whole = slice(0, len(self.probe))
            hidden = [rows_in(self.probe.inputs, layers.input, self.reading, whole, self.how, self.limit), *hidden]
        hits = [each.hits for each in outputs if each.hits is not None]
        return Features(
            hidden,
            joined[-1] if joined else hidden[-1],  # what enters the readout, where there is one and nothing is skipped
            torch.cat([each.kept for each in outputs]),
            torch.cat([each.losses for each in outputs]),
            torch.cat(hits) if hits else None,
        )

    def take(self, module: nn.Module, number: int, tensor: torch.Tensor | None, entering: bool) -> None:
        for place, layer in enumerate(self.wanted):
            if layer.module is module and layer.entering == entering and layer.number == number:
                if tensor is None:
                    raise ValueError(f"layer {layer.name!r} no longer gives a tensor")
                self.pieces[place].append(rows_in(tensor, layer, self.reading, self.part, self.how, self.limit))

    def enter(self, module: nn.Module, number: int, given: torch.Tensor | None) -> None:
        self.take(module, number, given, True)
        if self.skip is not None and self.skip.own == (module, number):
            self.given = None if given is None else given.clone()  # the layer may write to it

    def leave(self, module: nn.Module, number: int, made: object) -> object:
        instead = self.instead(module, number, made)
        self.take(module, number, first_tensor(made if instead is None else instead), False)
        return instead

    def instead(self, module: nn.Module, number: int, made: object) -> object:
        tensor, given = first_tensor(made), self.given
        if self.skip is None or self.skip.own != (module, number) or tensor is None or given is None:
            return None
        return with_first(made, given) if tensor.shape == given.shape else None


@dataclass(frozen=True)
class _Scored:
    kept: torch.Tensor
    losses: torch.Tensor
    hits: torch.Tensor | None


def _scored(output: torch.Tensor, task: Task, part: slice, probe: Probe) -> _Scored:
    rows = rows_of(task, part)
    if task.places is not None and task.first_place:
        rows = rows[task.places.place[rows, 0] >= task.first_place]
    found = picked(output, task, rows, part.start, probe.labels)
    losses, hits = task.scores(found, rows)
    return _Scored(found.clone() if task.name != "language" else found[:, :0].clone(), losses, hits)
