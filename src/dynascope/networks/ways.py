"""Ways to take all trials through a network: the same numbers to rounding, made by different kernels.

A way gets the network, in the mode in which it trains, and the names of stages whose values are wanted too; it returns
the forward pass of all trials. Which one is fastest depends on network, size and device: `dynascope.networks.choice`
tries them. Needs only PyTorch.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.overrides import TorchFunctionMode

from dynascope.networks.capture import can_compile
from dynascope.networks.network import Network
from dynascope.networks.regions import own_kernels, regions_of

_TURNS = 64  # more trials in turn take longer to capture than they can win
# parameters, buffers and inputs of all trials → values (trial, …) after the stages that are wanted, and `logits`
Pass = Callable[[Mapping[str, Tensor], Mapping[str, Tensor], Tensor], dict[str, Tensor]]
Way = Callable[[Network, Sequence[str]], Pass]


def _one(network: Network, at: Sequence[str]) -> Callable[..., dict[str, Tensor]]:
    """The pass of one trial."""

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Any:
        found = functional_call(network, (parameters, buffers), (x, at))
        return found if at else {"logits": found}

    return one


def stacked(network: Network, at: Sequence[str]) -> Pass:
    """Every operation on all trials at once; convolutions are grouped."""
    return vmap(_one(network, at))


def in_turn(network: Network, at: Sequence[str], *, channels_last: bool = False) -> Pass:
    """One trial after another, each with the kernels that PyTorch has for one network."""
    one = _one(network, at)

    def mine(tensors: Mapping[str, Tensor], index: int) -> dict[str, Tensor]:
        return {name: placed(tensor[index]) for name, tensor in tensors.items()}

    def placed(own: Tensor) -> Tensor:
        images = channels_last and own.ndim == 4
        return own.contiguous(memory_format=torch.channels_last) if images else own

    def everyone(held: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        found = [one(mine(held, i), mine(buffers, i), placed(x[i])) for i in range(len(x))]
        return {name: torch.stack([each[name] for each in found]) for name in found[0]}

    return everyone


def unfolded(network: Network, at: Sequence[str]) -> Pass:
    """As `stacked`, but a convolution is one product of each trial's patches with its weights."""
    everyone = stacked(network, at)

    def unfolding(held: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        with _Unfolding():
            return everyone(held, buffers, x)

    return unfolding


def compiled(network: Network, at: Sequence[str], *, kernels: bool = False) -> Pass:
    """As `stacked`, but what follows a product is done in few passes over memory."""
    regions = regions_of(network, kernels=kernels)

    def everyone(held: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        if kernels:
            x = x.movedim(2, -1)
        found = {}
        for region in regions:
            x = region(held, buffers, x)
            if region.last in at:
                found[region.last] = x
        return found | {"logits": x}

    return everyone


WAYS: Mapping[str, Way] = {
    "stacked": stacked,
    "unfolded": unfolded,
    "in turn": in_turn,
    "in turn, channels last": partial(in_turn, channels_last=True),
    "compiled, own kernels": partial(compiled, kernels=True),
    "compiled": compiled,
}


def possible(precision: str, device: str) -> list[str]:
    """Names of the ways that there are for numbers of this kind on this device.

    >>> possible("float32", "cpu")[-1]
    'compiled'
    """
    gpu = device.startswith("cuda")
    own = gpu and precision == "float32"  # the kernels know nothing else
    # on a processor PyTorch 2.13 damages memory in 1 × 1 convolutions with a stride and channels last
    return [way for way in WAYS if (own or "own kernels" not in way) and (gpu or "channels last" not in way)]


def worth_trying(network: Network, trials: int, precision: str) -> list[str]:
    """Names of the ways that differ for this network, the usual one first; those that are compiled last.

    >>> from dynascope.networks import MLP
    >>> worth_trying(MLP(), 8, "float64")[:2]
    ['stacked', 'in turn']
    """
    convolves = any(isinstance(layer, nn.Conv2d) for layer in network.modules())
    known = precision == "float32" and bool(own_kernels(network))
    useful = {
        "stacked": True,
        "unfolded": convolves,
        "in turn": trials <= _TURNS,
        "in turn, channels last": trials <= _TURNS and convolves,
        "compiled, own kernels": can_compile() and known,
        "compiled": can_compile() and not (known and convolves),  # of convolutions it is the slower one
    }
    return [way for way in possible(precision, "cuda") if useful[way]]


class _Unfolding(TorchFunctionMode):
    """Convolutions with square kernels that are not grouped, as products over unfolded patches."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is F.conv2d and args[5:] in ((), ((1, 1), 1)):
            return _product(*args[:5])
        return function(*args, **(kwargs or {}))


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int]) -> Tensor:
    """(n, channel, row, column) → (n, out, row, column)."""
    padded = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    patches = padded.unfold(2, weight.shape[2], stride[0]).unfold(3, weight.shape[3], stride[1])
    n, _, rows, columns = patches.shape[:4]
    flat = patches.permute(0, 2, 3, 1, 4, 5).reshape(n * rows * columns, -1)
    out = flat @ weight.flatten(1).mT
    return (out if bias is None else out + bias).view(n, rows, columns, -1).permute(0, 3, 1, 2)
