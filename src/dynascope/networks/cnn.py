"""A convolutional network whose blocks all have the same shape, so that layers can be compared."""

from collections.abc import Sequence

from torch import Tensor, nn

from dynascope.checks import count, flag, scalar
from dynascope.networks.mlp import checked_share
from dynascope.networks.network import BatchNorm2d, Dropout, LeakyReLU, Network


class Pool(LeakyReLU):
    """Leaky ReLU, then the largest of 2 × 2; done the other way round, which is the same and a quarter of the work."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return super().forward(nn.functional.max_pool2d(x, 2))


class Upsample(nn.Module):
    """Each pixel becomes 2 × 2; PyTorch's own takes a hundred times as long in the backward pass on a GPU."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        *others, rows, columns = x.shape
        return x[..., None, :, None].expand(*others, rows, 2, columns, 2).reshape(*others, 2 * rows, 2 * columns)


class CNN(Network):
    """`depth` × [3 × 3 convolution – batch norm – leaky ReLU and pool 2 – upsample 2 – dropout], then linear.

    Pooling and upsampling make each block coarse without making the image smaller.

    shape: of the images, (channel, row, column) with even sides
    classes: how many numbers come out, 1 for regression on one target
    channels: of each block
    depth: number of blocks
    slope: of the leaky ReLU below 0
    dropout: share of the values that are set to 0
    input_norm: whether batch norm comes first, as in the authors' code; the inputs are then a probe point, too

    Probe points: after each pooling. Source: spring-block appendix.

    >>> CNN(depth=2).probes, CNN(depth=2, input_norm=True).probes
    (('pool_1', 'pool_2'), ('norm_0', 'pool_1', 'pool_2'))
    >>> sum(p.numel() for p in CNN((3, 10, 10), input_norm=True).parameters())
    42576
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
        input_norm: bool = False,
    ) -> None:
        shape = tuple(count("shape", each) for each in shape)
        if len(shape) != 3 or shape[1] % 2 or shape[2] % 2:
            raise ValueError(f"shape must be (channel, row, column) with even sides, got {shape}")
        classes, channels = count("classes", classes), count("channels", channels)
        depth = count("depth", depth)
        slope, dropout = scalar("slope", slope), checked_share("dropout", dropout)
        stages: dict[str, nn.Module] = {"norm_0": BatchNorm2d(shape[0])} if flag("input_norm", input_norm) else {}
        for k in range(1, depth + 1):
            stages |= {
                f"conv_{k}": nn.Conv2d(shape[0] if k == 1 else channels, channels, 3, padding=1),
                f"norm_{k}": BatchNorm2d(channels),
                f"pool_{k}": Pool(slope),
                f"up_{k}": Upsample(),
                f"drop_{k}": Dropout(dropout),
            }
        stages |= {"flat": nn.Flatten(), "linear": nn.Linear(channels * shape[1] * shape[2], classes)}
        probes = [name for name in stages if name == "norm_0" or name.startswith("pool")]
        super().__init__(stages, shape=shape, classes=classes, probes=probes)
