"""ResNet18 for small images."""

import torch.nn.functional as F
from torch import Tensor, nn

from dynascope.checks import count
from dynascope.networks.mlp import checked_share
from dynascope.networks.network import BatchNorm2d, Dropout, MeanOverPixels, Network


class Residual(nn.Module):
    """Two 3 × 3 convolutions beside a shortcut, which is a 1 × 1 convolution where the shape changes."""

    def __init__(self, channels: int, wider: int, stride: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(channels, wider, 3, stride, padding=1, bias=False)
        self.norm_1, self.drop = BatchNorm2d(wider), Dropout(dropout)
        self.conv_2 = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.norm_2 = BatchNorm2d(wider)
        same = stride == 1 and channels == wider
        self.shortcut: nn.Module = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(channels, wider, 1, stride, bias=False), BatchNorm2d(wider))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        inner = self.drop(F.relu(self.norm_1(self.conv_1(x))))
        return F.relu(self.norm_2(self.conv_2(inner)) + self.shortcut(x))


class ResNet18(Network):
    """Eight residual blocks of two convolutions, from `width` to 8·`width` channels; no pooling at the start.

    classes: how many numbers come out, 1 for regression on one target
    channels: of the images
    width: channels of the first blocks
    size: pixels of a side of the images; any size from 8 works
    dropout: share of the values that are set to 0 between the two convolutions of a block
    Probe points: after each block. Source: He et al. 2016, in the form that is usual for CIFAR.

    >>> sum(p.numel() for p in ResNet18().parameters())
    11173962
    """

    def __init__(
        self, classes: int = 10, channels: int = 3, *, width: int = 64, size: int = 32, dropout: float = 0.0
    ) -> None:
        classes, channels = count("classes", classes), count("channels", channels)
        width, dropout = count("width", width), checked_share("dropout", dropout)
        stages: dict[str, nn.Module] = {
            "conv": nn.Conv2d(channels, width, 3, padding=1, bias=False),
            "norm": BatchNorm2d(width),
            "act": nn.ReLU(),
        }
        held = width
        for k in range(8):
            wider = width * 2 ** (k // 2)
            stages[f"block_{k + 1}"] = Residual(held, wider, 2 if k in (2, 4, 6) else 1, dropout)
            held = wider
        stages |= {"mean": MeanOverPixels(), "linear": nn.Linear(held, classes)}
        shape = (channels, count("size", size, at_least=8), size)
        super().__init__(stages, shape=shape, classes=classes, probes=[f"block_{k}" for k in range(1, 9)])
