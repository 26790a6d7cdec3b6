"""What runs in a forward pass: every call of a submodule, what entered it and what it made."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from dynascope.monitor.probing import Inputs, feed


@dataclass
class Call:
    """One call of a module in a forward pass."""

    path: str
    module: nn.Module
    number: int  # of the calls of this module
    given: torch.Tensor | None = None
    made: torch.Tensor | None = None
    inner: list["Call"] = field(default_factory=list)

    @property
    def key(self) -> tuple[nn.Module, int]:
        """What tells it from every other call of a pass."""
        return self.module, self.number


Enter = Callable[[nn.Module, int, torch.Tensor | None], None]
Leave = Callable[[nn.Module, int, object], object]


@contextmanager
def hooked(modules: Sequence[nn.Module], enter: Enter, leave: Leave) -> Iterator[Counter[nn.Module]]:
    """Call enter(module, number, tensor) and leave(module, number, made) around every call of some modules.

    What `leave` returns takes the place of what the module made, unless it is None. The counter that is given says how
    often each module was called; clear it before another pass.

    >>> net, seen = nn.Linear(1, 1), []
    >>> with hooked([net], lambda *call: seen.append(call[1]), lambda *_: None):
    ...     _ = net(torch.ones(1)), net(torch.ones(1))
    >>> seen
    [0, 1]
    """
    counted = Counter[nn.Module]()
    running: dict[nn.Module, list[int]] = defaultdict(list)

    def before(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        running[module].append(counted[module])
        counted[module] += 1
        enter(module, running[module][-1], first_tensor((*args, *kwargs.values())))

    def after(module: nn.Module, _args: tuple[object, ...], made: object) -> object:
        return leave(module, running[module].pop(), made)

    held: list[RemovableHandle] = []
    try:
        for module in modules:
            held.append(module.register_forward_pre_hook(before, with_kwargs=True))
            held.append(module.register_forward_hook(after))
        yield counted
    finally:
        for hook in held:
            hook.remove()


def trace(model: nn.Module, inputs: Inputs) -> tuple[Call, object]:
    """Run a model once: the tree of its calls, and what it returned.

    >>> trace(nn.Sequential(nn.Linear(2, 3)), torch.ones(4, 2))[0].inner[0].made.shape
    torch.Size([4, 3])
    """
    root = Call("", model, 0)
    open_calls = [root]
    paths = {module: clean(path) for path, module in model.named_modules()}

    def enter(module: nn.Module, number: int, given: torch.Tensor | None) -> None:
        open_calls[-1].inner.append(call := Call(paths[module], module, number, given))
        open_calls.append(call)

    def leave(_module: nn.Module, _number: int, made: object) -> None:
        open_calls.pop().made = first_tensor(made)

    with hooked([module for module in paths if module is not model], enter, leave):
        returned = feed(model, inputs)
    if not root.inner:  # a single layer
        root.inner = [Call("", model, 0, first_tensor(inputs), first_tensor(returned))]
    return root, returned


def first_tensor(values: object) -> torch.Tensor | None:
    """Find the first tensor of a tuple, list or dict, or the tensor itself.

    >>> first_tensor((None, torch.ones(2)))
    tensor([1., 1.])
    """
    if isinstance(values, torch.Tensor):
        return values
    held = tuple(values.values()) if isinstance(values, Mapping) else values
    if not isinstance(held, tuple | list):
        return None
    return next((each for each in held if isinstance(each, torch.Tensor)), None)


def with_first(values: object, tensor: torch.Tensor) -> object:
    """Put a tensor in the place of the first one; None where there is no such place.

    >>> with_first((None, torch.ones(2)), torch.zeros(1))
    (None, tensor([0.]))
    """
    if isinstance(values, torch.Tensor):
        return tensor
    old = first_tensor(values)
    if old is None:
        return None
    if isinstance(values, Mapping):
        changed = {name: tensor if each is old else each for name, each in values.items()}
        return type(values)(**changed) if all(isinstance(name, str) for name in changed) else changed
    held = [tensor if each is old else each for each in cast(Sequence[object], values)]
    kind: Any = type(values)
    return kind(*held) if hasattr(values, "_fields") else kind(held)


def clean(path: str) -> str:
    """A path without torch.compile's own part.

    >>> clean("body._orig_mod.fc")
    'body.fc'
    """
    return ".".join(part for part in path.split(".") if part != "_orig_mod")


def has_matrix(module: nn.Module) -> bool:
    """Say whether a module holds a weight matrix, as numbers of any kind; quantised ones keep it elsewhere.

    >>> has_matrix(nn.Linear(2, 2)), has_matrix(nn.LayerNorm(2))
    (True, False)
    """
    if any(weight.ndim >= 2 for weight in module.parameters()):
        return True
    if any(each.ndim >= 2 and "weight" in name for name, each in module.named_buffers()):
        return True
    return any(callable(getattr(each, "weight", None)) for each in module.modules())


def kind_of(module: nn.Module) -> str:
    """Name what holds the weight matrix of a layer; of a block with several the block itself, and what holds them.

    >>> kind_of(nn.Sequential(nn.Linear(2, 2), nn.ReLU())), kind_of(nn.TransformerEncoderLayer(4, 1))
    ('Linear', 'TransformerEncoderLayer of Linear, MultiheadAttention')
    """
    inner = getattr(module, "base_layer", module)  # of an adapter (LoRA)
    held = [each for each in inner.modules() if any(weight.ndim >= 2 for weight in each.parameters(recurse=False))]
    names = ["Linear" if isinstance(each, nn.Linear) else type(each).__name__ for each in held]
    if len(names) == 1:
        return names[0]
    whole = type(inner).__name__
    return f"{whole} of {', '.join(sorted(set(names)))}" if names else whole


def leaves(call: Call) -> Iterator[Call]:
    """Calls without calls inside, in order; a layer with an adapter (LoRA) is one.

    >>> [each.path for each in leaves(Call("", nn.Identity(), 0, inner=[Call("fc", nn.Identity(), 0)]))]
    ['fc']
    """
    if not call.inner or hasattr(call.module, "base_layer"):
        yield call
        return
    for each in call.inner:
        yield from leaves(each)


def every(call: Call) -> Iterator[Call]:
    """All calls, each after those inside it.

    >>> [each.path for each in every(Call("", nn.Identity(), 0, inner=[Call("fc", nn.Identity(), 0)]))]
    ['fc']
    """
    for each in call.inner:
        yield from every(each)
        yield each


def names_of(calls: Sequence[Call]) -> list[str]:
    """Paths as in the user's own code, with the kind of layer where the path is but a number.

    >>> names_of([Call("0", nn.Identity(), 0), Call("fc", nn.Identity(), 1)])
    ['0 Identity', 'fc (2)']
    """
    found = []
    for call in calls:
        path = call.path or type(call.module).__name__
        bare = path.rpartition(".")[2].isdigit() and not call.inner
        name = f"{path} {type(call.module).__name__}" if bare else path
        found.append(f"{name} ({call.number + 1})" if call.number else name)
    return found
