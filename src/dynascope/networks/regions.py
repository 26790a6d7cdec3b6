"""A network cut into regions, each a stage that multiplies and what follows it; equal ones are compiled once.

Compiling takes seconds for each region, not half a minute for a deep network, and loses nothing: what one region gives
to the next is written to memory in any case.
"""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from dynascope.networks.capture import compiled_apart
from dynascope.networks.network import Dropout, LeakyReLU, Network

_KEPT = 64  # compiled regions
_FEW = 3  # layers from which a region is compiled: less has little to win for seconds of compiling
_CHANNELS = 64  # most that the kernels hold at a time
_DRAWS = 8192  # most samples of a batch that they hold at a time
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
        own, kernel = self.own(held), _kernel("convolution")
        rounded = torch.backends.cudnn.allow_tf32
        found: Tensor = kernel.convolve(x, own["0.weight"], own.get("0.bias"), rounded=rounded)
        return found


class Activation(Region):
    """Batch norm, leaky ReLU and dropout, after a linear layer, by a kernel of our own."""

    def __call__(self, held: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """(trial, draw, feature) → the same shape; what the kernel does not know is compiled."""
        norm, _, drop = self.stages
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.momentum is not None
        own, kept = self.own(held), self.own(buffers)
        if x.dtype != torch.float32 or not 1 < x.shape[1] <= _DRAWS or (drop.training and kept.get("2.key") is None):
            return super().__call__(held, buffers, x)
        dropped = {"dropout": kept["2.dropout"], "key": kept["2.key"]} if drop.training else {}
        given = (x, own["0.weight"], own["0.bias"], kept["1.slope"])
        found, mean, variance = _kernel("activation").activate(*given, eps=norm.eps, **dropped)
        with torch.no_grad():
            many = x.shape[1]
            for name, new in (("mean", mean), ("var", variance * (many / (many - 1)))):
                kept[f"0.running_{name}"].lerp_(new, norm.momentum)
            kept["0.num_batches_tracked"] += 1
        out: Tensor = found
        return out


def _kernel(name: str) -> ModuleType:
    """Import what needs Triton only where it is used."""
    return import_module(f"dynascope.networks.kernels.{name}")


def regions_of(network: Network, *, kernels: bool = False) -> list[Region]:
    """Cut a network before each stage that has a linear layer or a convolution in it, or flattens.

    kernels: cut about stages, too, that there is a kernel for

    >>> from dynascope.networks import CNN, MLP
    >>> [region.last for region in regions_of(MLP(depth=2))]
    ['flat', 'drop_1', 'drop_2', 'scale']
    >>> [region.last for region in regions_of(CNN(depth=2), kernels=True)]
    ['conv_1', 'drop_1', 'conv_2', 'drop_2', 'flat', 'linear']
    """
    names, stages = zip(*network.stages.named_children(), strict=True)
    own = own_kernels(network) if kernels else {}
    ends = {start + long for start, (_, long) in own.items()}
    cuts = [
        place
        for place, stage in enumerate(stages)
        if place in {0, *own, *ends}
        or any(isinstance(layer, nn.Linear | nn.Conv2d | nn.Flatten) for layer in stage.modules())
    ]
    return [
        own.get(start, (Region, 0))[0](names[start:end], stages[start:end], channels_last=kernels)
        for start, end in pairwise([*cuts, len(names)])
    ]


def own_kernels(network: Network) -> dict[int, tuple[type[Region], int]]:
    """Where stages begin that `dynascope.networks.kernels` knows, as what kind of region, and how many they are.

    >>> from dynascope.networks import MLP
    >>> own_kernels(MLP(depth=2)), own_kernels(MLP(depth=1, batch_norm=True))
    ({}, {3: (<class 'dynascope.networks.regions.Activation'>, 3)})
    """
    stages = list(network.stages)
    found: dict[int, tuple[type[Region], int]] = {}
    for place, stage in enumerate(stages):
        if _convolves(stage):
            found[place] = (Convolution, 1)
        elif [type(each) for each in stages[place : place + 3]] == [nn.BatchNorm1d, LeakyReLU, Dropout]:
            assert isinstance(stage, nn.BatchNorm1d)
            if stage.training and stage.affine and stage.track_running_stats and stage.momentum is not None:
                found[place] = (Activation, 3)
    return found


def _convolves(stage: nn.Module) -> bool:
    """Whether a stage is a convolution that there is a kernel for, with few channels."""
    if type(stage) is not nn.Conv2d or max(stage.in_channels, stage.out_channels) > _CHANNELS:
        return False
    form = (stage.kernel_size, stage.stride, stage.padding, stage.dilation, stage.groups, stage.padding_mode)
    return form == ((3, 3), (1, 1), (1, 1), (1, 1), 1, "zeros")


@lru_cache(_KEPT)
def _compiled(region: Region, *_: object) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """The region for tensors of one kind."""

    def everyone(held: dict[str, Tensor], x: Tensor) -> Tensor:
        return region.all_trials(held, x)

    return compiled_apart(everyone)
