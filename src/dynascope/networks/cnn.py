"""A convolutional network whose blocks all have the same shape, so that layers can be compared."""

from collections.abc import Sequence

from torch import nn

from dynascope.checks import count, scalar
from dynascope.networks.mlp import checked_share
from dynascope.networks.network import Dropout, LeakyReLU, Network


class CNN(Network):
    """`depth` × [3 × 3 convolution – batch norm – leaky ReLU – pool 2 – upsample 2 – dropout], then linear.

    Pooling and upsampling make each block coarse without making the image smaller.

    shape: of the images, (channel, row, column) with even sides
    classes: how many numbers come out, 1 for regression on one target
    channels: of each block
    depth: number of blocks
    slope: of the leaky ReLU below 0
    dropout: share of the values that are set to 0

    Probe points: after each pooling. Source: spring-block appendix.

    >>> CNN(depth=2).probes
    ('pool_1', 'pool_2')
    """

    def __init__(
        self,
        shape: Sequence[int] = (1, 28, 28),
        classes: int = 10,
        *,
        channels: int = 20,
        depth: int = 7,
        slope: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        shape = tuple(count("shape", each) for each in shape)
        if len(shape) != 3 or shape[1] % 2 or shape[2] % 2:
            raise ValueError(f"shape must be (channel, row, column) with even sides, got {shape}")
        classes, channels = count("classes", classes), count("channels", channels)
        depth = count("depth", depth)
        slope, dropout = scalar("slope", slope), checked_share("dropout", dropout)
        stages: dict[str, nn.Module] = {}
        for k in range(1, depth + 1):
            stages |= {
                f"conv_{k}": nn.Conv2d(shape[0] if k == 1 else channels, channels, 3, padding=1),
                f"norm_{k}": nn.BatchNorm2d(channels),
                f"act_{k}": LeakyReLU(slope),
                f"pool_{k}": nn.MaxPool2d(2),
                f"up_{k}": nn.Upsample(scale_factor=2),
                f"drop_{k}": Dropout(dropout),
            }
        stages |= {"flat": nn.Flatten(), "linear": nn.Linear(channels * shape[1] * shape[2], classes)}
        super().__init__(stages, shape=shape, classes=classes, probes=[f"pool_{k}" for k in range(1, depth + 1)])
