"""One step of Adam for all trials."""

from collections.abc import Sequence

import torch
from torch import Tensor

_BETAS, _TINY = (0.9, 0.999), 1e-8  # as in its paper


def over(values: Tensor, like: Tensor) -> Tensor:
    """(trial,) → (trial, 1, …) to multiply a tensor over the trials.

    >>> over(torch.ones(3), torch.zeros(3, 5, 2)).shape
    torch.Size([3, 1, 1])
    """
    return values.view(-1, *[1] * (like.ndim - 1))


def adam(
    parameters: Sequence[Tensor],
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
    for parameter, change in zip(parameters, changes, strict=True):
        parameter.addcmul_(change, over(rate / first, parameter), value=-1)
