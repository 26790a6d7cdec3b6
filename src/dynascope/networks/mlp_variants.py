"""Fully connected networks that only some experiments need: fixed constants, orthogonal starts, no last bias."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dynascope.networks.mlp import MLP
from dynascope.networks.network import LeakyReLU


class ScaledLeakyReLU(LeakyReLU):
    """c·LReLU(h) with the constant c of (1) that keeps the mean square of features at 1.

    PyTorch's default weights are uniform with variance 1/(3·fan in), and E[LReLU(h)²] = E[h²] (1 + slope²)/2 for
    symmetric h, hence c² = 6/(1 + slope²), biases left out. Source: spring-block (1).

    >>> x = torch.randn(100_000, generator=torch.Generator().manual_seed(0)) / 3**0.5
    >>> round(float((ScaledLeakyReLU(0.0)(x) ** 2).mean()), 1)
    1.0
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return torch.sqrt(6 / (1 + self.slope**2)) * super().forward(x)


class ConstantMLP(MLP):
    """An MLP with the fixed constants c_ℓ of spring-block (1) in place of batch norm. Source: spring-block (1).

    >>> ConstantMLP(8, 2, width=4, depth=2).probes
    ('flat', 'act_1', 'act_2')
    """

    def __init__(
        self, inputs: int | Sequence[int], classes: int, *, width: int, depth: int, slope: float = 0.0
    ) -> None:
        super().__init__(inputs, classes, width=width, depth=depth)
        for k in range(1, depth + 1):
            setattr(self.stages, f"act_{k}", ScaledLeakyReLU(slope))


class OpenMLP(MLP):
    """An MLP of ReLUs whose last layer has no bias, so that features alone make the outputs.

    >>> OpenMLP(1, 1, width=4, depth=2).stages.linear_3.bias is None
    True
    """

    def __init__(self, inputs: int | Sequence[int], classes: int, *, width: int, depth: int) -> None:
        super().__init__(inputs, classes, width=width, depth=depth)
        setattr(self.stages, self.readout, nn.Linear(width, classes, bias=False))


class OrthogonalMLP(MLP):
    """A linear network without biases whose weights start as random orthogonal matrices, as in FIG. 5(a).

    >>> weight = OrthogonalMLP(8, 2, width=8, depth=2).stages.linear_1.weight
    >>> bool(torch.allclose(weight @ weight.T, torch.eye(8), atol=1e-5))
    True
    """

    def __init__(
        self, inputs: int | Sequence[int], classes: int, *, width: int, depth: int, dropout: float = 0.0
    ) -> None:
        super().__init__(inputs, classes, width=width, depth=depth, activation="linear", dropout=dropout)
        for name, layer in list(self.stages.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(self.stages, name, nn.Linear(layer.in_features, layer.out_features, bias=False))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw all weights again, from PyTorch's generator."""
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight)
