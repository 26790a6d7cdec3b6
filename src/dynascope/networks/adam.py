"""One step of Adam for all trials."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from dynascope.networks.capture import compiled_apart

_BETAS, _TINY = (0.9, 0.999), 1e-8  # as in its paper
_KEPT = 64  # compiled ones


def over(values: Tensor, like: Tensor) -> Tensor:
    """(trial,) → (trial, 1, …) to multiply a tensor over the trials.

    >>> over(torch.ones(3), torch.zeros(3, 5, 2)).shape
    torch.Size([3, 1, 1])
    """
    return values.view(-1, *[1] * (like.ndim - 1))


def adam(
    parameters: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    rate: Tensor,
    step: Tensor,
) -> None:
    """Change parameters and moments (trial, …) in place; PyTorch's operations on lists are one kernel for all on a GPU.

    rate: (trial,). step: how many were taken, (1,)

    >>> parameter, moments = torch.zeros(1, 1), [[torch.zeros(1, 1)], [torch.zeros(1, 1)]]
    >>> adam([parameter], [torch.ones(1, 1)], *moments, torch.tensor([0.5]), torch.tensor([0]))
    >>> round(float(parameter), 3)
    -0.5
    """
    count = step.to(rate.dtype) + 1
    first, second = (1 - torch.pow(torch.full_like(count, beta), count) for beta in _BETAS)
    torch._foreach_lerp_(means, gradients, 1 - _BETAS[0])
    torch._foreach_mul_(squares, _BETAS[1])
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - _BETAS[1])
    scales = torch._foreach_div(squares, second[0])
    torch._foreach_sqrt_(scales)
    torch._foreach_add_(scales, _TINY)
    changes = torch._foreach_div(means, scales)
    torch._foreach_addcmul_(parameters, changes, [over(rate / first, parameter) for parameter in parameters], -1)


def adam_of(way: str) -> Callable[..., None]:
    """`adam` as the given way to step takes it: once through memory where PyTorch's compiler is loaded, or eight times.

    Where ways are compared on a GPU, moments are; that both take the same steps a test holds.

    >>> adam_of("compiled, own kernels") is adam
    True
    """
    return _at_once if way == "compiled" else adam


def _at_once(parameters: list[Tensor], *others: object) -> None:
    first = parameters[0]
    _compiled(tuple(each.shape for each in parameters), first.dtype, first.device)(parameters, *others)


@lru_cache(_KEPT)
def _compiled(*_: object) -> Callable[..., None]:
    """For tensors of one kind."""
    return compiled_apart(adam)
