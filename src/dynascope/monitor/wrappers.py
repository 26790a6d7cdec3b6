"""The module itself, out of what compilers and parallel training wrap around it; and models that lie in pieces."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

T = TypeVar("T")
_WHOLE_ONLY = "FullyShardedDataParallel"


def uncompiled(model: object) -> nn.Module:
    """Take the module itself out of what torch.compile, DataParallel and DistributedDataParallel wrap around it.

    >>> import torch
    >>> inner = nn.Linear(2, 2)
    >>> uncompiled(torch.compile(inner, backend="eager")) is inner
    True
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    inner: nn.Module = model
    while True:
        wrapped = isinstance(inner, nn.parallel.DistributedDataParallel | nn.DataParallel)
        within = getattr(inner, "module" if wrapped else "_orig_mod", None)
        if not isinstance(within, nn.Module):
            break
        inner = within
    if any(kind.__name__ == _WHOLE_ONLY for each in inner.modules() for kind in type(each).__mro__):
        raise ValueError(
            "model must be whole or sharded with fully_shard (FSDP2), got FullyShardedDataParallel (FSDP1), whose "
            "layers have lost their weights; use fully_shard, or watch an unsharded copy"
        )
    return inner


def sharded(model: nn.Module) -> bool:
    """Say whether a model lies in pieces over several processes (FSDP2), so that its forward pass needs all of them.

    >>> sharded(nn.Linear(2, 2))
    False
    """
    return bool(_pieces(model))


def _pieces(model: nn.Module) -> list[Any]:
    return [each for each in model.modules() if any(kind.__name__ == "FSDPModule" for kind in type(each).__mro__)]


@contextmanager
def as_written(model: nn.Module) -> Iterator[None]:
    """Run a model as its author wrote it inside, and leave it afterwards as its trainer had it.

    Inside, forward passes are without the autocast that accelerate wraps around them. Afterwards, weights that FSDP2
    gathered for them lie in pieces again, which it would have kept for a backward pass.

    >>> with as_written(nn.Linear(2, 2)):
    ...     pass
    """
    pieces = _pieces(model)
    gathered = not all(hasattr(weight, "full_tensor") for weight in model.parameters())  # as amid a training step
    wrapped = [(each, vars(each)["forward"]) for each in model.modules() if "_original_forward" in vars(each)]
    try:
        for each, _ in wrapped:
            vars(each)["forward"] = vars(each)["_original_forward"]
        with warnings.catch_warnings():  # what recomputed activations say is true of the probe, not of training
            warnings.filterwarnings("ignore", "None of the inputs have requires_grad")
            yield
    finally:
        for each, forward in wrapped:
            vars(each)["forward"] = forward
        for piece in pieces if not gathered else ():
            piece.reshard()


def whole(weight: torch.Tensor) -> torch.Tensor:
    """Gather a weight that lies in pieces; every process must ask.

    >>> whole(torch.ones(2))
    tensor([1., 1.])
    """
    gather: Callable[[], torch.Tensor] | None = getattr(weight, "full_tensor", None)
    return weight if gather is None else gather()


def spread() -> bool:
    """Say whether this process is one of a distributed run.

    >>> spread()
    False
    """
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank() -> int:
    """Number of this process in a distributed run, 0 elsewhere.

    >>> rank()
    0
    """
    return torch.distributed.get_rank() if spread() else 0


def agreed(decide: Callable[[], T]) -> T:
    """Let process 0 decide for all; what it refuses is refused everywhere, so that none waits for the others."""
    told: list[Any] = [None, None]
    if rank() == 0:
        try:
            told[0] = decide()
        except ValueError as error:
            told[1] = str(error)
    torch.distributed.broadcast_object_list(told, src=0)
    if told[1] is not None:
        raise ValueError(told[1])
    decided: T = told[0]
    return decided
