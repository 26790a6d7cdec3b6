"""The four kinds of network that are trained with and without faults, small enough for a second on one core."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
INPUTS = {"mlp": "vectors", "cnn": "images", "transformer": "sequences", "residual": "images"}


@dataclass(frozen=True)
class Shape:
    """What a network looks like; `stack` more layers of `stack_activation` stand before its last one."""

    architecture: str
    classes: int
    width: int
    depth: int
    activation: str
    norm: bool
    dropout: float
    stack: int = 0
    stack_activation: str = "sigmoid"


def build(shape: Shape) -> nn.Module:
    """Make a network with PyTorch's own initial weights.

    >>> build(Shape("cnn", 3, 8, 2, "relu", True, 0.0))(torch.ones(2, 1, 8, 8)).shape
    torch.Size([2, 3])
    """
    body, width = {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer, "residual": _residual}[shape.architecture](
        shape
    )
    between = _ACTIVATIONS[shape.stack_activation]
    stack = [each for _ in range(shape.stack) for each in (nn.Linear(width, width), between())]
    return nn.Sequential(*body, *stack, nn.Dropout(shape.dropout), nn.Linear(width, shape.classes))


def _mlp(shape: Shape) -> tuple[list[nn.Module], int]:
    made: list[nn.Module] = []
    for place in range(shape.depth):
        made.append(nn.Linear(16 if place == 0 else shape.width, shape.width))
        made += [nn.BatchNorm1d(shape.width)] * shape.norm
        made += [_ACTIVATIONS[shape.activation](), nn.Dropout(shape.dropout)]
    return made, shape.width


def _cnn(shape: Shape) -> tuple[list[nn.Module], int]:
    channels = shape.width // 4
    made: list[nn.Module] = []
    for place in range(shape.depth):
        made.append(nn.Conv2d(1 if place == 0 else channels, channels, 3, padding=1))
        made += [nn.BatchNorm2d(channels)] * shape.norm
        made.append(_ACTIVATIONS[shape.activation]())
        made += [nn.MaxPool2d(2)] * (place < 2)
    made += [nn.Flatten(), nn.Linear(channels * 4, shape.width), _ACTIVATIONS[shape.activation]()]
    return made, shape.width


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, channels: int, activation: str, *, norm: bool) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norm1, self.norm2 = (nn.BatchNorm2d(channels) if norm else nn.Identity() for _ in range(2))
        self.inner, self.outer = _ACTIVATIONS[activation](), _ACTIVATIONS[activation]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what two convolutions make of the input to it."""
        more: torch.Tensor = self.norm2(self.conv2(self.inner(self.norm1(self.conv1(x)))))
        made: torch.Tensor = self.outer(x + more)
        return made


def _residual(shape: Shape) -> tuple[list[nn.Module], int]:
    channels = shape.width // 4
    blocks = [Block(channels, shape.activation, norm=shape.norm) for _ in range(shape.depth)]
    made: list[nn.Module] = [nn.Conv2d(1, channels, 3, padding=1, stride=2), nn.Sequential(*blocks)]
    return [*made, nn.AdaptiveAvgPool2d(2), nn.Flatten()], channels * 4


class Encoder(nn.Module):
    """A block of attention and two linear maps, each added to what came in, norm first."""

    def __init__(self, width: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, dropout=dropout, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.inner = _ACTIVATIONS[activation]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend, then map every token."""
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        mapped: torch.Tensor = self.linear2(self.inner(self.linear1(self.norm2(x))))
        return x + mapped


class Tokens(nn.Module):
    """Vectors to tokens, each with a position that is learnt."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.position = nn.Parameter(0.02 * torch.randn(12, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Embed."""
        embedded: torch.Tensor = self.embed(x)
        return embedded + self.position


class Mean(nn.Module):
    """The mean over tokens, after a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Average."""
        normed: torch.Tensor = self.norm(x)
        return normed.mean(dim=1)


def _transformer(shape: Shape) -> tuple[list[nn.Module], int]:
    width = shape.width // 2
    blocks = [Encoder(width, shape.activation, shape.dropout) for _ in range(shape.depth)]
    return [Tokens(width), nn.Sequential(*blocks), Mean(width)], width
