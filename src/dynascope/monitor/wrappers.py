"""The module itself, out of what compilers and parallel training wrap around it."""

from torch import nn

_SHARDED = ("FullyShardedDataParallel", "FSDPModule")


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
    if any(kind.__name__ in _SHARDED for each in inner.modules() for kind in type(each).__mro__):
        raise ValueError(
            "model must be whole on one device, got one that is sharded (FSDP): its forward pass needs every process, "
            "and only one measures; watch an unsharded copy"
        )
    return inner
