"""Which layers a model has, in the order in which they run, and which numbers of their features are kept.

Layers are found by one forward pass. From the model inwards, `Sequential`s and modules that hold a stack of repeated
blocks are opened; what remains are blocks and single layers. Those with a weight matrix count, from one to the next:
norms, activations, pooling and dropout belong to the layer before them, so a layer's features are what enters the next
layer, or its own output where the next one starts from elsewhere (a branch). The linear map that makes the logits is
the readout, not a layer.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from dynascope.checks import Given
from dynascope.monitor.probing import Inputs, Probe, feed, logits_of

REDUCTIONS = ("pool", "flatten", "mean", "first", "last")
MAX_FEATURES = 4096
_FEW = 37  # samples of the first pass; a number that lengths of sequences seldom have


@dataclass
class _Call:
    """One call of a module in a forward pass."""

    path: str
    module: nn.Module
    number: int  # of the calls of this module
    given: torch.Tensor | None = None
    made: torch.Tensor | None = None
    inner: list["_Call"] = field(default_factory=list)


@dataclass(frozen=True)
class Layer:
    """Where features are taken: what enters or leaves the n-th call of a module; axes as they come."""

    name: str
    module: nn.Module
    number: int
    entering: bool
    batch_axis: int
    channels_first: bool


@dataclass(frozen=True)
class Layers:
    """The layers of a model, its readout (None if the logits are not made by one linear map), and what was left out."""

    hidden: tuple[Layer, ...]
    readout: Layer | None
    skipped: Mapping[str, str]
    with_input: bool

    @property
    def names(self) -> list[str]:
        """Names in order, the input first where it is one."""
        return ["input"] * self.with_input + [layer.name for layer in self.hidden]


def find_layers(model: nn.Module, probe: Probe, named: Given[Sequence[str] | None] = None) -> Layers:
    """Run a few samples of the probe and find the model's layers.

    named: names of submodules whose outputs are to be the layers; by default they are found as this file says above.
    The input counts as a layer unless it is token numbers or more than one tensor.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> found = find_layers(net, Probe.of((torch.ones(4, 2), [0, 0, 1, 1]), net))
    >>> found.names, found.readout.name
    (['input', '0 Linear', '2 Linear'], '4 Linear')
    """
    root, logits = _trace(model, probe.part(slice(0, _FEW)))
    samples = len(logits)
    if samples != min(len(probe), _FEW):
        raise ValueError(f"model must return logits for each of {min(len(probe), _FEW)} samples, got {samples}")
    if logits.shape[1] <= probe.classes.max():
        raise ValueError(
            f"probe labels must be below the model's {logits.shape[1]} outputs, got {int(probe.classes.max())}"
        )
    readout = _readout(root, logits)
    takes = _chosen(model, root, named) if named is not None else _found(root, readout)
    names = _names([call for call, *_ in takes])
    kept, skipped = [], {}
    for (call, source, entering), name in zip(takes, names, strict=True):
        tensor = source.given if entering else source.made
        axis = _batch_axis(tensor, samples)
        if axis is None:
            skipped[name] = f"no floating-point tensor with one row per sample, got {_shape(tensor)}"
            continue
        kept.append(Layer(name, source.module, source.number, entering, axis, _channels_first(call, tensor)))
    with_input = isinstance(probe.inputs, torch.Tensor) and probe.inputs.is_floating_point() and probe.inputs.ndim > 1
    if len(kept) + with_input == 0:
        raise ValueError(f"layers must have features for each sample, got none: {skipped}")
    last = None if readout is None else Layer(_names([readout])[0], readout.module, readout.number, True, 0, False)
    return Layers(tuple(kept), last, skipped, with_input)


def _trace(model: nn.Module, inputs: Inputs) -> tuple[_Call, torch.Tensor]:
    """The tree of calls of one forward pass, and the logits."""
    root = _Call("", model, 0)
    open_calls, seen = [root], Counter[nn.Module]()
    paths = {module: path for path, module in model.named_modules()}

    def enter(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        call = _Call(_clean(paths[module]), module, seen[module], _first_tensor((*args, *kwargs.values())))
        seen[module] += 1
        open_calls[-1].inner.append(call)
        open_calls.append(call)

    def leave(module: nn.Module, _args: tuple[object, ...], made: object) -> None:
        open_calls.pop().made = _first_tensor(made)

    with _hooks() as hooks:
        for module in paths:
            if module is not model:
                hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
                hooks.append(module.register_forward_hook(leave))
        logits = logits_of(feed(model, inputs))
    if not root.inner:  # a single layer
        root.given, root.made = _first_tensor(inputs), logits
        root = _Call("", model, 0, root.given, logits, [_Call("", model, 0, root.given, logits)])
    return root, logits


@contextmanager
def _hooks() -> Iterator[list[RemovableHandle]]:
    held: list[RemovableHandle] = []
    try:
        yield held
    finally:
        for hook in held:
            hook.remove()


def _first_tensor(values: object) -> torch.Tensor | None:
    if isinstance(values, torch.Tensor):
        return values
    if isinstance(values, Mapping):
        values = tuple(values.values())
    return (
        next((each for each in values if isinstance(each, torch.Tensor)), None)
        if isinstance(values, tuple | list)
        else None
    )


def _clean(path: str) -> str:
    return ".".join(part for part in path.split(".") if part != "_orig_mod")  # torch.compile's own


def _has_matrix(module: nn.Module) -> bool:
    return any(weight.ndim >= 2 for weight in module.parameters())


def _readout(root: _Call, logits: torch.Tensor) -> _Call | None:
    """The last linear map with as many outputs as there are logits."""
    shape = tuple(logits.shape)
    for call in reversed(list(_leaves(root))):
        made = call.made
        if isinstance(call.module, nn.Linear) and made is not None and tuple(made.shape) == shape:
            return call
    return None


def _leaves(call: _Call) -> Iterator[_Call]:
    if not call.inner:
        yield call
    for each in call.inner:
        yield from _leaves(each)


def _found(root: _Call, readout: _Call | None) -> list[tuple[_Call, _Call, bool]]:
    """(layer, call to take its features from, whether they are what enters that call)."""
    units = [unit for unit in _open(root, _stacked(root.module)) if _has_matrix(unit.module)]
    while len(units) < 3:
        wide = next((unit for unit in units if sum(_has_matrix(each.module) for each in unit.inner) >= 2), None)
        if wide is None:
            break
        place = units.index(wide)
        units[place : place + 1] = [each for each in wide.inner if _has_matrix(each.module)]
    takes = [_take(units, place) for place in range(len(units))]
    return takes[:-1] if len(units) > 1 and units[-1] is readout else takes


def _take(units: list[_Call], place: int) -> tuple[_Call, _Call, bool]:
    own = units[place]
    if place + 1 == len(units):
        return own, own, False
    after = units[place + 1]
    earlier = [unit.given for unit in units[: place + 1]] + [unit.made for unit in units[:place]]
    branch = after.given is None or any(after.given is each for each in earlier)
    samples = None if own.made is None else len(own.made)
    fits = not branch and samples is not None and _batch_axis(after.given, samples) == 0
    return (own, after, True) if fits else (own, own, False)


def _stacked(model: nn.Module) -> dict[nn.Module, bool]:
    """For each module whether it is opened: it holds repeated blocks, and is not such a block itself."""
    blocks: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, nn.Sequential | nn.ModuleList):
            made_of_parts = [
                each for each in module.children() if any(True for _ in each.children()) and _has_matrix(each)
            ]
            kinds = Counter(type(each) for each in made_of_parts)
            blocks |= {each for each in made_of_parts if kinds[type(each)] >= 2}

    def holds(module: nn.Module) -> bool:
        return any(each in blocks for each in module.modules() if each is not module)

    # a Sequential of blocks is a stage, not a block, even beside others
    blocks -= {each for each in blocks if isinstance(each, nn.Sequential) and holds(each)}
    return {
        module: module not in blocks and (isinstance(module, nn.Sequential) or holds(module))
        for module in model.modules()
    }


def _open(call: _Call, opened: Mapping[nn.Module, bool]) -> list[_Call]:
    units = []
    for each in call.inner:
        units += _open(each, opened) if opened[each.module] and each.inner else [each]
    return units


def _chosen(model: nn.Module, root: _Call, named: Given[Sequence[str]]) -> list[tuple[_Call, _Call, bool]]:
    if not isinstance(named, list | tuple) or not named:
        raise ValueError(f"layers must be a list of names of submodules, got {named!r}")
    known = [_clean(path) for path, _ in model.named_modules() if path]
    for name in named:
        if name not in known:
            raise ValueError(f"layers must name submodules, among them {', '.join(known[:40])}; got {name!r}")
    calls = [call for call in _every(root) if call.path in named]
    silent = sorted(set(named) - {call.path for call in calls})
    if silent:
        raise ValueError(f"layers must take part in a forward pass of the probe, but {silent} do not")
    return [(call, call, False) for call in calls]


def _every(call: _Call) -> Iterator[_Call]:
    for each in call.inner:
        yield from _every(each)
        yield each


def _names(calls: Sequence[_Call]) -> list[str]:
    """Paths as in the user's own code, with the kind of layer where the path is but a number."""
    found = []
    for call in calls:
        path = call.path or type(call.module).__name__
        bare = path.rpartition(".")[2].isdigit() and not call.inner
        name = f"{path} {type(call.module).__name__}" if bare else path
        found.append(f"{name} ({call.number + 1})" if call.number else name)
    return found


def _batch_axis(tensor: torch.Tensor | None, samples: int) -> int | None:
    if tensor is None or tensor.ndim < 2 or not tensor.is_floating_point():
        return None
    if tensor.shape[0] == samples:
        return 0
    return 1 if tensor.ndim == 3 and tensor.shape[1] == samples else None  # (token, sample, feature)


def _shape(tensor: torch.Tensor | None) -> str:
    return "none" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"


def _channels_first(call: _Call, tensor: torch.Tensor | None) -> bool:
    """Maps are (sample, channel, position, …); of three axes only those that one-dimensional convolutions make."""
    if tensor is None or tensor.ndim != 3:
        return tensor is not None and tensor.ndim > 3
    return any(isinstance(each, nn.Conv1d | nn.ConvTranspose1d) for each in call.module.modules())


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
    x = features.detach().movedim(layer.batch_axis, 0)
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()  # averages in half precision lose digits
    if x.ndim == 3 and not layer.channels_first:
        x = x.transpose(1, 2)  # (sample, feature, token)
    if x.ndim > 2 and how != "flatten":
        x = _positions(x, how, limit)
    x = x.flatten(1)
    if how == "pool" and x.shape[1] > limit:
        x = x[:, torch.linspace(0, x.shape[1] - 1, limit, device=x.device).round().long()]
    return x.clone(memory_format=torch.contiguous_format)


def _positions(x: torch.Tensor, how: str, limit: int) -> torch.Tensor:
    if how == "mean":
        return x.flatten(2).mean(dim=2)
    if how in ("first", "last"):
        return x.flatten(2)[:, :, 0 if how == "first" else -1]
    if x[0].numel() <= limit:
        return x
    x = x if x.ndim <= 5 else x.flatten(2)
    sizes = list(x.shape[2:])
    while x.shape[1] * _product(sizes) > limit and max(sizes) > 1:
        sizes[sizes.index(max(sizes))] -= 1
    pool: list[Callable[..., torch.Tensor]] = [
        nn.functional.adaptive_avg_pool1d,
        nn.functional.adaptive_avg_pool2d,
        nn.functional.adaptive_avg_pool3d,
    ]
    return pool[len(sizes) - 1](x, sizes if len(sizes) > 1 else sizes[0])


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


@dataclass(frozen=True)
class Features:
    """What one pass over the probe gives: features of the layers, of the readout's input, and logits."""

    layers: list[torch.Tensor]
    last: torch.Tensor
    logits: torch.Tensor


def read_features(
    model: nn.Module, probe: Probe, layers: Layers, how: str = "pool", limit: int = MAX_FEATURES
) -> Features:
    """Run the whole probe, in chunks, and take every layer's features on the way.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> probe = Probe.of((torch.ones(4, 2), [0, 0, 1, 1]), net)
    >>> [tuple(each.shape) for each in read_features(net, probe, find_layers(net, probe)).layers]
    [(4, 2), (4, 8)]
    """
    wanted = [*layers.hidden, *([layers.readout] if layers.readout else [])]
    pieces: list[list[torch.Tensor]] = [[] for _ in wanted]
    calls = Counter[nn.Module]()

    def take(module: nn.Module, tensor: torch.Tensor | None, entering: bool) -> None:
        for place, layer in enumerate(wanted):
            if layer.module is module and layer.entering == entering and layer.number == calls[module]:
                if tensor is None:
                    raise ValueError(f"layer {layer.name!r} no longer gives a tensor")
                pieces[place].append(reduce(tensor, layer, "flatten" if layer is layers.readout else how, limit))

    def enter(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        take(module, _first_tensor((*args, *kwargs.values())), True)

    def leave(module: nn.Module, _args: tuple[object, ...], made: object) -> None:
        take(module, _first_tensor(made), False)
        calls[module] += 1

    logits = []
    with _hooks() as hooks:
        for module in {layer.module for layer in wanted}:
            hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(leave))
        for chunk in probe.chunks():
            calls.clear()
            logits.append(logits_of(feed(model, chunk)).detach().clone())
    joined = [torch.cat(each) for each in pieces]
    hidden = joined[: len(layers.hidden)]
    if layers.with_input and isinstance(probe.inputs, torch.Tensor):
        shown = Layer("input", model, 0, True, 0, probe.inputs.ndim > 3)
        hidden = [reduce(probe.inputs, shown, how, limit), *hidden]
    return Features(hidden, joined[-1] if layers.readout else hidden[-1], torch.cat(logits))
