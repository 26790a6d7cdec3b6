"""Which output of a model is read, which linear map makes it, and at which positions of a sequence that map reads."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dynascope.checks import Given
from dynascope.monitor.probing import Inputs, Output, feed, output_of, outputs_in
from dynascope.monitor.tracing import Call, every, first_tensor, hooked, leaves, with_first
from dynascope.monitor.wrappers import whole

MOVED = 256  # positions at most that are moved one after the other
_POINTWISE = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def choose_output(returned: object, root: Call, samples: int, asked: Output | None) -> tuple[Output | None, list[str]]:
    """Say how to pick the output from what a model returned, and what was not certain about it.

    Of several candidates, one from which another is made (an embedding) is not the output; of the rest it is the one
    that is made last.

    >>> choose_output(torch.ones(2, 3), Call("", nn.Identity(), 0), 2, None)
    ('', [])
    """
    if asked is not None:
        output_of(returned, asked)
        return asked, []
    found = {name: each for name, each in outputs_in(returned).items() if len(each) == samples}
    if len(found) < 2:
        return next(iter(found), None), []
    calls = list(every(root))
    made = {id(call.made): place for place, call in enumerate(calls)}
    given = {id(call.given) for call in calls if any(call.made is each for each in found.values())}
    ends = [name for name, each in found.items() if id(each) not in given] or list(found)
    best = max(ends, key=lambda name: made.get(id(found[name]), -1))
    told = ", ".join(repr(name) for name in found)
    return best, [f"output: {best!r} of {told} is read; output= picks another"]


def find_readout(
    root: Call, output: torch.Tensor, width: int, feeds: Callable[[Call], bool] = lambda _: True
) -> tuple[Call | None, str]:
    """Find the linear map that makes the output, and say what is not certain about it.

    It is the last call of a linear layer or a pointwise convolution with as many outputs as the model has, or with more
    of which the model returns the first ones. feeds: says whether a call moves the output.

    >>> from dynascope.monitor.tracing import trace
    >>> root, made = trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), torch.ones(4, 2))
    >>> find_readout(root, made, 2)[0].path
    '2'
    """
    for call in reversed(list(leaves(root))):
        if call.made is None or call.given is None or not _linear(call):
            continue
        axis = 1 if isinstance(call.module, _POINTWISE) else -1
        if call.made.shape[axis] >= width:
            same = _selects(call.made.narrow(axis, 0, width), output)
            if same or (call.made.shape[axis] == width and feeds(call)):
                found = _with_adapter(root, call)
                same = same or (found.made is not None and _selects(found.made.narrow(axis, 0, width), output))
                return found, "" if same else f"what follows {found.path!r} changes its values"
    return None, "no linear map that makes the output was found; collapse is that of the last layer"


def _linear(call: Call) -> bool:
    if isinstance(call.module, _POINTWISE):
        return all(size == 1 for size in call.module.kernel_size)
    kind = type(call.module).__name__  # quantised layers share but the name; Conv1D is GPT-2's linear layer
    return hasattr(call.module, "base_layer") or "Linear" in kind or kind == "Conv1D"


def _with_adapter(root: Call, linear: Call) -> Call:
    """The module around a linear map that adds others to it, as LoRA by hand does, and is linear too."""
    for around in every(root):
        given, made = around.given, around.made
        if given is None or made is None or not any(linear is each for each in every(around)):
            continue
        base = next((each for each in around.inner if each.given is given and _linear(each)), None)
        if base is None or base.made is None or base.made.shape != made.shape:
            continue
        in_a_row = any(each.given is base.made for each in around.inner)
        more = {*around.module.parameters()} - {*base.module.parameters()}
        if more and not in_a_row and _affine(around.module, given):
            return around
    return linear


def _affine(module: nn.Module, x: torch.Tensor) -> bool:
    """Whether f(2x) − f(0) = f(x) − f(−x), which is so for no activation."""
    try:
        twice, none, plus, minus = (module(factor * x) for factor in (2, 0, 1, -1))
        return bool(((twice - none) - (plus - minus)).norm() <= 1e-3 * (plus - minus).norm())
    except (TypeError, RuntimeError):  # another kind of input or output
        return False


def _selects(made: torch.Tensor, output: torch.Tensor) -> bool:
    """Whether the output holds values of what was made, or averages of them over positions."""
    if made.numel() == output.numel():
        return torch.equal(made.flatten(), output.flatten())
    if made.ndim < 3:
        return False
    axis = 1 if made.ndim > 3 else -1
    rows = made.movedim(axis, -1).reshape(len(made), -1, made.shape[axis])  # (sample, position, output)
    wanted = output.reshape(len(output), -1, rows.shape[2]) if output.numel() % rows.shape[2] == 0 else None
    if wanted is None or len(wanted) != len(rows):
        return False
    chosen = (wanted[:, :1] == rows).all(dim=2).any(dim=1).all()
    return bool(chosen) or torch.allclose(rows.mean(dim=1), wanted[:, 0], atol=1e-5, rtol=1e-4)


def find_positions(
    model: nn.Module, chunks: Iterator[Inputs], anchor: Call, readout: Call | None, *, output: Output | None, axis: int
) -> torch.Tensor | None:
    """Find at which positions of a layer's sequence the output reads, (sample, position), by the slope there.

    The last layer with positions is the anchor. What comes after it runs once with gradients, of a fixed combination
    of the readout's inputs (of its outputs if it is the anchor itself). Where that has no derivative, as after some
    quantised layers, up to 256 positions are moved one after the other. axis: of the samples in what the anchor makes.
    None where nothing reaches the anchor.

    >>> from dynascope.monitor.tracing import trace
    >>> class Last(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.body = nn.Linear(1, 2)
    ...     def forward(self, x):
    ...         return self.body(x)[:, -1]
    >>> net, x = Last(), torch.ones(1, 3, 1)
    >>> find_positions(net, iter([x]), trace(net, x)[0].inner[0], None, output=None, axis=0).tolist()
    [[False, False, True]]
    """
    found = []
    for chunk in chunks:
        tail = _Tail(model, chunk, anchor, None if readout is anchor else readout, output)
        slope = tail.slope()
        moves = tail.moves(axis) if slope is None else (slope != 0).any(dim=2).movedim(axis, 0)
        if moves is None:
            return None
        found.append(moves.cpu())
    used = torch.cat(found)
    return used if bool(used.any(dim=1).all()) else None


@dataclass(frozen=True)
class _Tail:
    """What of a forward pass comes after an anchor, up to what enters a target, or up to the output."""

    model: nn.Module
    inputs: Inputs
    anchor: Call
    target: Call | None
    output: Output | None

    def run(self, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """The end of the tail, with what the anchor makes changed on the way."""
        end: list[torch.Tensor] = []

        def enter(module: nn.Module, number: int, given: torch.Tensor | None) -> None:
            if self.target is not None and (module, number) == self.target.key and given is not None:
                end.append(given)

        def leave(module: nn.Module, number: int, made: object) -> object:
            tensor = first_tensor(made)
            return (
                with_first(made, change(tensor)) if (module, number) == self.anchor.key and tensor is not None else None
            )

        modules = {self.anchor.module, *([self.target.module] if self.target is not None else [])}
        torch.manual_seed(0)
        with hooked(list(modules), enter, leave):
            returned = feed(self.model, self.inputs)
        return end[-1] if end else output_of(returned, self.output)

    def slope(self) -> torch.Tensor | None:
        """Of a fixed combination of the end, at what the anchor makes; None where there is none."""
        start: list[torch.Tensor] = []

        def from_here(tensor: torch.Tensor) -> torch.Tensor:
            torch.set_grad_enabled(True)
            start.append(tensor.detach().clone().requires_grad_())
            return start[0].clone()  # a copy may be written to

        before = torch.is_grad_enabled()
        try:
            end = self.run(from_here)
            if not end.requires_grad:
                return None
            weights = torch.randn(end.shape[1:], generator=torch.Generator().manual_seed(0)).to(end)
            return torch.autograd.grad((end * weights).sum(), start[0], allow_unused=True)[0]
        except RuntimeError:  # a kernel without a derivative
            return None
        finally:
            torch.set_grad_enabled(before)

    def moves(self, axis: int) -> torch.Tensor | None:
        """Which samples' ends move with each position, (sample, position)."""
        length = 0 if self.anchor.made is None else self.anchor.made.shape[1 - axis]
        still = self.run(lambda tensor: tensor)
        if length > MOVED:
            return None
        found = []
        for place in range(length):

            def push(tensor: torch.Tensor, place: int = place) -> torch.Tensor:
                pushed = tensor.clone()
                pushed.select(1 - axis, place).add_(torch.linspace(-1, 1, tensor.shape[2]).to(tensor))
                return pushed

            found.append((self.run(push) != still).flatten(1).any(dim=1))
        return torch.stack(found, dim=1)


def asked_positions(positions: Given[object], samples: int, length: int) -> torch.Tensor:
    """Positions that the user asks for as a mask (sample, position).

    positions: a whole number or several, negative ones from the end, or such a mask itself.

    >>> asked_positions(-1, 2, 3).tolist()
    [[False, False, True], [False, False, True]]
    """
    try:
        held = torch.as_tensor(positions).cpu()
    except (TypeError, ValueError, RuntimeError):
        held = torch.empty(0)
    if held.dtype == torch.bool and tuple(held.shape) == (samples, length) and bool(held.any(dim=1).all()):
        return held
    numbers = held.reshape(-1)
    if held.dtype == torch.bool or held.is_floating_point() or not len(numbers) or bool((numbers.abs() > length).any()):
        raise ValueError(
            f"positions must be whole numbers from {-length} to {length - 1}, or a mask ({samples}, {length}) with a "
            f"position in each row, got {positions!r}"
        )
    mask = torch.zeros(samples, length, dtype=torch.bool)
    mask[:, numbers % length] = True
    return mask


def readout_rows(
    readout: nn.Module, width: int, rows: Sequence[int], like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weights (row, feature) and biases of a linear map, also where it is quantised or has an adapter.

    What it makes of unit vectors is read where its weights are not plain numbers.

    >>> readout_rows(nn.Linear(2, 3), 2, [1], torch.ones(1))[0].shape
    torch.Size([1, 2])
    """
    weight, bias = (_detached(getattr(readout, name, None)) for name in ("weight", "bias"))
    chosen = torch.as_tensor(list(rows))
    plain = type(weight) is torch.Tensor and weight.is_floating_point() and not hasattr(readout, "base_layer")
    if plain and isinstance(readout, nn.Linear | nn.modules.conv._ConvNd):
        kept = weight.flatten(1)[chosen.to(weight.device)]
        return kept, None if bias is None else bias[chosen.to(weight.device)]
    unit = torch.eye(width, dtype=like.dtype, device=like.device)
    level = readout(torch.zeros_like(unit[:1]))[0]
    return (readout(unit) - level).T[chosen.to(like.device)], level[chosen.to(like.device)]


def _detached(weight: object) -> Any:
    return whole(weight.detach()) if isinstance(weight, torch.Tensor) else None
