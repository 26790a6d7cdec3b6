"""Which layers a model has, in the order in which they run, and which numbers of their features are kept.

Layers are found by forward passes. From the model inwards, `Sequential`s and modules that hold a stack of repeated
blocks are opened; what remains are blocks and single layers. Those with a weight matrix count, from one to the next:
norms, activations, pooling and dropout belong to the layer before them, so a layer's features are what enters the next
layer, or its own output where the next one starts from elsewhere. The linear map that makes the output is the readout,
not a layer. What runs side by side is no row (see `rowing`).

Where the readout reads some positions of a sequence, every layer is read there, and averaged where they are several.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from dynascope.checks import Given
from dynascope.monitor.features import Layer, Layers, Reading, most_at_once, on_grid, rows_first, rows_in
from dynascope.monitor.outputs import asked_positions, choose_output, find_positions, find_readout
from dynascope.monitor.probing import Inputs, Output, Probe, output_of
from dynascope.monitor.rowing import Member, effects, in_a_row, units_of
from dynascope.monitor.tasks import Task, recognise, width_of
from dynascope.monitor.tracing import Call, clean, every, kind_of, names_of, trace

_FEW = (37, 7, 5, 3)  # samples of the first pass; numbers that lengths of sequences seldom have
_FIRST = 4096  # positions of the first pass


@dataclass(frozen=True)
class Wishes:
    """What the user says about output and task, where it is not found; see `watch`."""

    layers: Given[Sequence[str] | None] = None
    task: Given[str | None] = None
    output: Given[Output | None] = None
    positions: Given[object] = None
    groups: Given[Sequence[int] | None] = None
    reduce: str = "pool"


def find_layers(model: nn.Module, probe: Probe, wishes: Wishes = Wishes()) -> Layers:  # noqa: B008 (it is frozen)
    """Run a few samples of the probe and find the model's output, its task and its layers.

    The input counts as a layer unless it is token numbers or more than one tensor.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> found = find_layers(net, Probe.of((torch.ones(4, 2), [0, 0, 1, 1]), net))
    >>> found.names, found.readout.name
    (['input', '0 Linear', '2 Linear'], '4 Linear')
    """
    traced = _first_pass(model, probe, wishes)
    takes, skipped = _takes(model, probe, traced, wishes)
    traced = replace(traced, takes=takes)
    used, doubts = _used(model, probe, traced, wishes)
    reading = Reading(traced.task, used)
    kept, reasons = _kept(takes, traced.samples, reading)
    skipped |= reasons
    entered, why = _input(probe, reading, bool(kept))
    skipped |= {"input": why} if why else {}
    if not kept and entered is None:
        raise ValueError(f"layers must have features for each row, got none: {skipped}")
    last = None if traced.readout is None else _readout_layer(traced.readout, traced.samples, reading)
    test = None if probe.test is None else _test_reading(model, probe.test, traced, wishes)
    notes = (*traced.notes, *doubts)
    return Layers(tuple(kept), last, skipped, entered, reading, test, traced.output, notes)


@dataclass(frozen=True)
class _Take:
    """A layer by name: the call it stands for, and the call at which its features are taken, on entering it or not."""

    name: str
    call: Call
    source: Call
    entering: bool
    alone: bool = True  # not one of several branches

    @property
    def own(self) -> tuple[nn.Module, int] | None:
        """The call itself, where what it makes has the shape of what it is given, so that it can be skipped."""
        given, made = self.call.given, self.call.made
        alike = given is not None and made is not None and given.shape == made.shape and given.dtype == made.dtype
        return self.call.key if alike and self.alone else None

    @property
    def kind(self) -> str:
        return kind_of(self.call.module) if self.alone else "branches"

    @property
    def tensor(self) -> torch.Tensor | None:
        return self.source.given if self.entering else self.source.made


@dataclass(frozen=True)
class _Traced:
    """The first pass of a few samples, and what was found in it."""

    root: Call
    samples: int
    made: torch.Tensor  # the output
    output: Output | None  # how to pick it
    task: Task
    readout: Call | None
    notes: tuple[str, ...]
    takes: Sequence[_Take] = ()

    @property
    def calls(self) -> list[Call]:
        return [take.call for take in self.takes] + ([self.readout] if self.readout is not None else [])


def _first_pass(model: nn.Module, probe: Probe, wishes: Wishes) -> _Traced:
    samples = min(len(probe), _few(probe))
    root, returned = trace(model, probe.part(slice(0, samples)))
    chosen, notes = choose_output(returned, root, samples, wishes.output)
    made = output_of(returned, chosen)
    if len(made) != samples:
        raise ValueError(f"model must return logits for each of {samples} samples, got {len(made)}")
    vocabulary = [each.num_embeddings for each in model.modules() if isinstance(each, nn.Embedding)]
    task, doubts = recognise(probe, made, asked=wishes.task, vocabulary=vocabulary, groups=wishes.groups)

    def feeds(call: Call) -> bool:
        return bool(effects(model, probe.part(slice(0, 2)), [call], chosen).output[0])

    readout, doubt = find_readout(root, made, width_of(made, probe.labels), feeds)
    told = (*notes, *doubts, *([f"readout: {doubt}"] if doubt else []))
    return _Traced(root, samples, made, chosen, task, readout, told)


def _few(probe: Probe) -> int:
    shapes = {size for each in _flat(probe.inputs) for size in each.shape[1:]} | set(probe.labels.shape[1:])
    positions = int(np.prod(probe.labels.shape[1:])) if probe.labels.ndim > 1 else 1
    fits = [few for few in _FEW if few * positions <= _FIRST and few not in shapes]
    return fits[0] if fits else _FEW[-1]


def _flat(inputs: Inputs) -> list[torch.Tensor]:
    if isinstance(inputs, torch.Tensor):
        return [inputs]
    return list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)


def _takes(model: nn.Module, probe: Probe, traced: _Traced, wishes: Wishes) -> tuple[list[_Take], dict[str, str]]:
    root, readout, output, samples = traced.root, traced.readout, traced.output, traced.samples
    if wishes.layers is not None:
        calls = _chosen(model, root, wishes.layers)
        return [_Take(name, call, call, False) for name, call in zip(names_of(calls), calls, strict=True)], {}
    skipped, units = {}, []
    for unit in units_of(root, readout):
        if unit is readout or _batch_axis(unit.made, samples) is not None:
            units.append(unit)
        else:
            skipped[names_of([unit])[0]] = f"no floating-point tensor with one row per sample, got {_shape(unit.made)}"
    calls = [unit for unit in units if unit is not readout] + ([readout] if readout is not None else [])
    row, beside = in_a_row(root, calls, effects(model, probe.part(slice(0, 2)), calls, output), readout)
    if readout is not None and len(row) > 1:
        row, after = row[:-1], row[-1]
    else:
        after = None
    found = []
    for place, member in enumerate(row):
        follows = row[place + 1] if place + 1 < len(row) else after
        found.append(_take(member, follows, row[: place + 1], samples))
    return found, skipped | beside


def _take(member: Member, follows: Member | None, before: list[Member], samples: int) -> _Take:
    own, alone = member.calls[-1], len(member.calls) == 1
    if follows is None:
        return _Take(member.name, own, own, False, alone)
    after = follows.calls[0]
    earlier = [each.given for other in before for each in other.calls]
    earlier += [each.made for other in before[:-1] for each in other.calls]
    branch = after.given is None or any(after.given is each for each in earlier)
    fits = not branch and _batch_axis(after.given, samples) == 0
    return _Take(member.name, own, after, True, alone) if fits else _Take(member.name, own, own, False, alone)


def _chosen(model: nn.Module, root: Call, named: object) -> list[Call]:
    if not isinstance(named, list | tuple) or not named:
        raise ValueError(f"layers must be a list of names of submodules, got {named!r}")
    known = [clean(path) for path, _ in model.named_modules() if path]
    for name in named:
        if name not in known:
            raise ValueError(f"layers must name submodules, among them {', '.join(known[:40])}; got {name!r}")
    calls = [call for call in every(root) if call.path in named]
    silent = sorted(set(named) - {call.path for call in calls})
    if silent:
        raise ValueError(f"layers must take part in a forward pass of the probe, but {silent} do not")
    return calls


def _used(model: nn.Module, probe: Probe, traced: _Traced, wishes: Wishes) -> tuple[torch.Tensor | None, list[str]]:
    """Positions (sample, position) that the readout uses; None where layers are read whole."""
    if traced.task.places is not None or (wishes.reduce != "pool" and wishes.positions is None):
        return None, []
    anchor = _anchor(traced)
    if anchor is None:
        if wishes.positions is not None:
            raise ValueError("positions must be left out: no layer makes a sequence (sample, position, feature)")
        return None, []
    axis = _batch_axis(anchor.made, traced.samples) or 0
    length = 0 if anchor.made is None else anchor.made.shape[1 - axis]
    if wishes.positions is not None:
        return asked_positions(wishes.positions, len(probe), length), []
    chunks = (part for _, part in probe.chunks(most_at_once(traced.task)))
    used = find_positions(model, chunks, anchor, traced.readout, output=traced.output, axis=axis)
    if used is None:
        return None, [
            "positions: it was not found where the readout reads; sequences are read whole; or give positions="
        ]
    if bool(used.all()) and _concatenates(traced, anchor):
        return None, []
    return used, []


def _anchor(traced: _Traced) -> Call | None:
    """The last call that makes a sequence (sample, position, feature), as long as most of those are."""
    lengths = {
        id(call): call.made.shape[1 - (_batch_axis(call.made, traced.samples) or 0)]
        for call in traced.calls
        if call.made is not None and call.made.ndim == 3 and _is_sequence(call, traced.samples)
    }
    if not lengths:
        return None
    counts = Counter(lengths.values())
    usual = max(counts, key=lambda length: (counts[length], length))
    return next(call for call in reversed(traced.calls) if lengths.get(id(call)) == usual)


def _is_sequence(call: Call, samples: int) -> bool:
    return _batch_axis(call.made, samples) is not None and not _channels_first(call, call.made)


def _concatenates(traced: _Traced, anchor: Call) -> bool:
    """Whether what comes after takes all positions side by side, as one long vector."""
    calls, made = traced.calls, anchor.made
    place = next(place for place, call in enumerate(calls) if call is anchor)
    after = calls[place + 1].given if place + 1 < len(calls) else None
    return after is not None and made is not None and after.ndim == 2 and after.numel() == made.numel()


def _kept(takes: list[_Take], samples: int, reading: Reading) -> tuple[list[Layer], dict[str, str]]:
    kept: list[Layer] = []
    skipped: dict[str, str] = {}
    for take in takes:
        axis = _batch_axis(take.tensor, samples)
        if axis is None or take.tensor is None:
            skipped[take.name] = f"no floating-point tensor with one row per sample, got {_shape(take.tensor)}"
            continue
        plain = Layer(
            take.name,
            take.source.module,
            take.source.number,
            take.entering,
            axis,
            _channels_first(take.call, take.tensor),
        )
        read, why = _how(plain, take.tensor, reading)
        layer = replace(plain, read=read, own=take.own, kind=take.kind)
        if not why and read == "used" and _constant(rows_in(take.tensor, layer, reading, slice(0, samples))):
            why = "at the positions that the readout uses it is the same for every sample"
        if why:
            skipped[take.name] = why
        else:
            kept.append(layer)
    return _without_early_ones(kept, reading, skipped), skipped


def _how(layer: Layer, tensor: torch.Tensor, reading: Reading) -> tuple[str, str]:
    """How a layer is read, or why it is not."""
    x = rows_first(tensor, layer)
    if reading.task.places is not None:
        grid = reading.task.places.grid
        fits = on_grid(x, grid) is not None and (reading.task.name != "language" or x.shape[1] == grid[0])
        return "places", "" if fits else f"no features at each of {grid} positions, got {_shape(tensor)}"
    if reading.used is not None and x.ndim == 3 and not layer.channels_first and x.shape[1] == reading.used.shape[1]:
        return "used", ""
    return "whole", ""


def _without_early_ones(kept: list[Layer], reading: Reading, skipped: dict[str, str]) -> list[Layer]:
    """Where a part of the positions is read, a layer before them that has none would be read as a whole: left out."""
    if reading.used is None or bool(reading.used.all()):
        return kept
    places = [place for place, layer in enumerate(kept) if layer.read == "used"]
    early = [layer for layer in kept[: max(places, default=0)] if layer.read == "whole"]
    skipped |= {layer.name: "it has no positions like those that the readout uses" for layer in early}
    return [layer for layer in kept if layer not in early]


def _constant(rows: torch.Tensor) -> bool:
    return len(rows) > 1 and bool((rows == rows[:1]).all())


def _input(probe: Probe, reading: Reading, others: bool) -> tuple[Layer | None, str]:
    x = probe.inputs
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim < 2:
        return None, ""
    length = (
        reading.used.shape[1] if reading.used is not None else reading.task.places.grid[0] if reading.task.places else 0
    )
    turned = x.ndim == 3 and x.shape[2] == length != x.shape[1]
    layer = Layer("input", nn.Identity(), 0, True, 0, x.ndim > 3 or turned)
    read, why = _how(layer, x, reading)
    if others and not why and read == "whole" and reading.used is not None and not bool(reading.used.all()):
        why = "it has no positions like those that the readout uses"
    if (
        others
        and not why
        and read == "used"
        and _constant(rows_in(x, replace(layer, read=read), reading, slice(0, len(x))))
    ):
        why = "at the positions that the readout uses it is the same for every sample"
    return (None, why) if why else (replace(layer, read=read), "")


def _readout_layer(readout: Call, samples: int, reading: Reading) -> Layer:
    given = readout.given
    axis = _batch_axis(given, samples) or 0
    plain = Layer(
        names_of([readout])[0], readout.module, readout.number, True, axis, given is not None and given.ndim > 3
    )
    if given is None or given.ndim < 3:
        return replace(plain, read="flat")
    read, why = _how(plain, given, reading)
    return replace(plain, read="mean" if why or read == "whole" else read)


def _test_reading(model: nn.Module, probe: Probe, traced: _Traced, wishes: Wishes) -> Reading:
    """The test part is read as the other one is."""
    task, _ = recognise(probe, traced.made, asked=traced.task.name, groups=wishes.groups)
    return Reading(task, _used(model, probe, replace(traced, task=task), wishes)[0])


def _batch_axis(tensor: torch.Tensor | None, samples: int) -> int | None:
    if tensor is None or tensor.ndim < 2 or not tensor.is_floating_point():
        return None
    if tensor.shape[0] == samples:
        return 0
    return 1 if tensor.ndim == 3 and tensor.shape[1] == samples else None  # (token, sample, feature)


def _shape(tensor: torch.Tensor | None) -> str:
    return "none" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"


def _channels_first(call: Call, tensor: torch.Tensor | None) -> bool:
    """Maps are (sample, channel, position, …); of three axes only those that one-dimensional convolutions make."""
    if tensor is None or tensor.ndim != 3:
        return tensor is not None and tensor.ndim > 3
    return any(isinstance(each, nn.Conv1d | nn.ConvTranspose1d) for each in call.module.modules())
