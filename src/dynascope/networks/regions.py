"""A network cut into regions, each a stage that multiplies and what follows it; equal ones are compiled once.

Compiling takes seconds for each region, not half a minute for a deep network, and loses nothing: what one region gives
to the next is written to memory in any case.
"""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from dynascope.networks.network import Network

_KEPT = 64  # compiled regions
_FEW = 3  # layers from which a region is compiled: less has little to win for seconds of compiling
_CHANNELS = 64  # most that the kernels hold at a time
_PLAIN = (bool, int, float, str, tuple, type(None))


class Region:
    """Stages of a network, one after another, for all trials at once.

    names: of the stages in the network
    channels_last: images come and go as (trial, draw, row, column, channel)
    """

    def __init__(self, names: Sequence[str], stages: Sequence[nn.Module], *, channels_last: bool) -> None:
        self.last, self.channels_last = names[-1], channels_last
        self.stages = copy.deepcopy(nn.Sequential(*stages))
        self.places = {f"stages.{name}.": f"{place}." for place, name in enumerate(names)}
        self.structure = (
            channels_last,
            *(
                (name, type(layer), tuple((n, v) for n, v in vars(layer).items() if isinstance(v, _PLAIN)))
                for name, layer in self.stages.named_modules()
            ),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and self.structure == other.structure

    def __hash__(self) -> int:
        return hash(self.structure)

    def own(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those that belong to these stages, by their names here."""
        return {
            place + name.removeprefix(stage): tensor
            for stage, place in self.places.items()
            for name, tensor in tensors.items()
            if name.startswith(stage)
        }

    def all_trials(self, held: dict[str, Tensor], x: Tensor) -> Tensor:
        """Values after the last stage, (trial, draw, …)."""
        if self.channels_last and x.ndim == 5:
            x = x.movedim(-1, 2)
        x = vmap(lambda own, x: functional_call(self.stages, own, (x,)))(held, x)
        return x.movedim(2, -1).contiguous() if self.channels_last and x.ndim == 5 else x

    def __call__(self, held: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The same, compiled where there is something to win."""
        if sum(not list(layer.children()) for layer in self.stages.modules()) < _FEW:
            return self.all_trials(self.own(held) | self.own(buffers), x)
        step = _compiled(self, x.shape, x.dtype, x.device, torch.is_autocast_enabled(x.device.type))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*(attribute of a Tensor that is not a leaf|TensorFloat32)")
            return step(self.own(held) | self.own(buffers), x)


class Convolution(Region):
    """A 3 × 3 convolution with stride 1 by a kernel of our own, channels last."""

    def __call__(self, held: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """(trial, draw, row, column, channel) → the same with other channels."""
        own, kernels = self.own(held), import_module("dynascope.networks.kernels")  # which needs Triton
        rounded = torch.backends.cudnn.allow_tf32
        found: Tensor = kernels.convolve(x, own["0.weight"], own.get("0.bias"), rounded=rounded)
        return found


def regions_of(network: Network, *, kernels: bool = False) -> list[Region]:
    """Cut a network before each stage that has a linear layer or a convolution in it, or flattens.

    kernels: cut after convolutions, too, that there is a kernel for

    >>> from dynascope.networks import CNN, MLP
    >>> [region.last for region in regions_of(MLP(depth=2))]
    ['flat', 'drop_1', 'drop_2', 'scale']
    >>> [region.last for region in regions_of(CNN(depth=2), kernels=True)]
    ['conv_1', 'drop_1', 'conv_2', 'drop_2', 'flat', 'linear']
    """
    cuts: list[list[str]] = []
    stages = dict(network.stages.named_children())
    own = [name for name, stage in stages.items() if kernels and has_kernel(stage)]
    for name, stage in stages.items():
        starts = any(isinstance(layer, nn.Linear | nn.Conv2d | nn.Flatten) for layer in stage.modules())
        if not cuts or starts or cuts[-1][-1] in own:
            cuts.append([])
        cuts[-1].append(name)
    return [
        (Convolution if names[0] in own else Region)(names, [stages[name] for name in names], channels_last=kernels)
        for names in cuts
    ]


def has_kernel(stage: nn.Module) -> bool:
    """Whether a stage is a convolution of the form that `dynascope.networks.kernels` knows, with few channels.

    >>> has_kernel(nn.Conv2d(3, 16, 3, padding=1)), has_kernel(nn.Conv2d(3, 16, 5))
    (True, False)
    """
    if type(stage) is not nn.Conv2d or max(stage.in_channels, stage.out_channels) > _CHANNELS:
        return False
    form = (stage.kernel_size, stage.stride, stage.padding, stage.dilation, stage.groups, stage.padding_mode)
    return form == ((3, 3), (1, 1), (1, 1), (1, 1), 1, "zeros")


@lru_cache(_KEPT)
def _compiled(region: Region, *_: object) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """The region for tensors of one kind: the compiler keeps few variants of a function."""

    def everyone(held: dict[str, Tensor], x: Tensor) -> Tensor:
        return region.all_trials(held, x)

    # a code object of its own: variants are counted by it
    own: Any = FunctionType(everyone.__code__.replace(), everyone.__globals__, closure=everyone.__closure__)
    return torch.compile(own, dynamic=False)
