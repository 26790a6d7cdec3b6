"""The small convolutional network of the locally elastic paper, there called a variant of AlexNet."""

from torch import nn

from dynascope.checks import count
from dynascope.networks.network import Linear, Network


class LeNet(Network):
    """Two convolutions with pooling, then fully connected 400–120–84–classes, for images of 32 × 32.

    classes: how many numbers come out, 1 for regression on one target
    channels: of the images
    PyTorch's default initial weights. Source: elastic Section D.

    >>> sum(p.numel() for p in LeNet(classes=3).parameters())
    61111
    """

    def __init__(self, classes: int = 3, channels: int = 1) -> None:
        classes, channels = count("classes", classes), count("channels", channels)
        stages: dict[str, nn.Module] = {
            "conv_1": nn.Conv2d(channels, 6, 5),
            "act_1": nn.ReLU(),
            "pool_1": nn.MaxPool2d(2),
            "conv_2": nn.Conv2d(6, 16, 5),
            "act_2": nn.ReLU(),
            "pool_2": nn.MaxPool2d(2),
            "flat": nn.Flatten(),
            "linear_3": Linear(400, 120),
            "act_3": nn.ReLU(),
            "linear_4": Linear(120, 84),
            "act_4": nn.ReLU(),
            "linear_5": Linear(84, classes),
        }
        probes = ("pool_1", "pool_2", "act_3", "act_4")
        super().__init__(stages, shape=(channels, 32, 32), classes=classes, probes=probes)
