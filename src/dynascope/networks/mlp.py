"""Fully connected networks with all that the papers vary."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dynascope.checks import count, flag, one_of, require, scalar
from dynascope.networks.network import Dropout, Flatten, LeakyReLU, Linear, Network, Scale


class MLP(Network):
    """`depth` × [linear – batch norm – activation – dropout], then linear to the classes.

    inputs: length of the inputs, or their shape, which is flattened
    classes: how many numbers come out, 1 for regression on one target
    width: of each hidden layer
    depth: number of hidden layers
    activation: leaky_relu, tanh or linear
    slope: of the leaky ReLU below 0; 0 is the ReLU, 1 is linear
    batch_norm: on the inputs and in each hidden layer
    dropout: share of the activations that are set to 0
    input_scale: the inputs are multiplied by it
    output_scale: the outputs are multiplied by it
    weight_scale: the initial weights are multiplied by it, not the biases
    target_scale: an ensemble's squared loss compares the outputs with target_scale·(one-hot label, or target)
    init: "default" is PyTorch's; "lecun" draws weights with variance 1/(fan in) and sets biases to 0

    Probe points: the inputs as the first layer sees them (`norm_0` or `flat`), and each activation before dropout.
    Source: spring-block appendix; layerwise Table 6.1; the scales.

    >>> sum(p.numel() for p in MLP(100, 10, width=100, depth=7, batch_norm=True).parameters())
    73310
    """

    weight_scale: Tensor
    target_scale: Tensor

    def __init__(
        self,
        inputs: int | Sequence[int] = 100,
        classes: int = 10,
        *,
        width: int = 100,
        depth: int = 7,
        activation: str = "leaky_relu",
        slope: float = 0.0,
        batch_norm: bool = False,
        dropout: float = 0.0,
        input_scale: float = 1.0,
        output_scale: float = 1.0,
        weight_scale: float = 1.0,
        target_scale: float = 1.0,
        init: str = "default",
    ) -> None:
        shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
        length = math.prod(count("inputs", each) for each in shape)
        width, depth, classes = count("width", width), count("depth", depth), count("classes", classes)
        one_of("activation", activation, ("leaky_relu", "tanh", "linear"))
        self_made = {"tanh": nn.Tanh, "linear": nn.Identity}
        slope, dropout = scalar("slope", slope), checked_share("dropout", dropout)
        stages: dict[str, nn.Module] = {"flat": Flatten(scalar("input_scale", input_scale))}
        if flag("batch_norm", batch_norm):
            stages["norm_0"] = nn.BatchNorm1d(length)
        for k in range(1, depth + 1):
            stages[f"linear_{k}"] = Linear(length if k == 1 else width, width)
            if batch_norm:
                stages[f"norm_{k}"] = nn.BatchNorm1d(width)
            stages[f"act_{k}"] = LeakyReLU(slope) if activation == "leaky_relu" else self_made[activation]()
            stages[f"drop_{k}"] = Dropout(dropout)
        stages[f"linear_{depth + 1}"] = Linear(width, classes)
        stages["scale"] = Scale(scalar("output_scale", output_scale))
        probes = ("norm_0" if batch_norm else "flat", *(f"act_{k}" for k in range(1, depth + 1)))
        super().__init__(stages, shape=shape, classes=classes, probes=probes)
        self.init = one_of("init", init, ("default", "lecun"))
        self.register_buffer("weight_scale", torch.tensor(scalar("weight_scale", weight_scale)))
        self.register_buffer("target_scale", torch.tensor(scalar("target_scale", target_scale)))
        self._rescale()

    def reset_parameters(self) -> None:
        """Draw all weights again, from PyTorch's generator."""
        super().reset_parameters()
        self._rescale()

    @torch.no_grad()
    def _rescale(self) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                if self.init == "lecun":
                    nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
                    nn.init.zeros_(layer.bias)
                layer.weight *= self.weight_scale.to(layer.weight.dtype)


def checked_share(name: str, value: object) -> float:
    """Accept one number from 0 up to, but not including, 1.

    >>> checked_share("dropout", 1.0)
    Traceback (most recent call last):
    ValueError: dropout must be below 1, got 1.0
    """
    share = scalar(name, value, at_least=0.0)
    require(name, np.array(share), np.array(share < 1), "be below 1")
    return share
