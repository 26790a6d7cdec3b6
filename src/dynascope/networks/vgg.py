"""VGG16 for small images."""

from torch import nn

from dynascope.checks import count
from dynascope.networks.network import BatchNorm2d, MeanOverPixels, Network

_PLAN = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))  # (channels in units of the width, convolutions) before each pooling


class VGG16(Network):
    """Thirteen 3 × 3 convolutions with batch norm in five groups, each ended by pooling, then one linear layer.

    classes: how many numbers come out, 1 for regression on one target
    channels: of the images
    width: channels of the first group
    size: pixels of a side of the images, at least 32
    Probe points: after each activation. Source: Simonyan & Zisserman 2015, in the form that is usual for CIFAR.

    >>> sum(p.numel() for p in VGG16().parameters())
    14728266
    """

    def __init__(self, classes: int = 10, channels: int = 3, *, width: int = 64, size: int = 32) -> None:
        classes, channels = count("classes", classes), count("channels", channels)
        width = count("width", width)
        stages: dict[str, nn.Module] = {}
        held, k = channels, 0
        for group, (times, convolutions) in enumerate(_PLAN, start=1):
            for _ in range(convolutions):
                k += 1
                stages |= {
                    f"conv_{k}": nn.Conv2d(held, times * width, 3, padding=1),
                    f"norm_{k}": BatchNorm2d(times * width),
                    f"act_{k}": nn.ReLU(),
                }
                held = times * width
            stages[f"pool_{group}"] = nn.MaxPool2d(2)
        stages |= {"mean": MeanOverPixels(), "linear": nn.Linear(held, classes)}
        shape = (channels, count("size", size, at_least=32), size)
        super().__init__(stages, shape=shape, classes=classes, probes=[f"act_{j}" for j in range(1, k + 1)])
