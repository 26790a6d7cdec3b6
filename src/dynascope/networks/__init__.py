"""Networks to watch, each trained many times at once. Needs PyTorch."""

import importlib
from typing import TYPE_CHECKING, Any

from dynascope.networks import mlp_variants as mlp_variants
from dynascope.networks.arguments import device as device
from dynascope.networks.arguments import device_name as device_name
from dynascope.networks.cnn import CNN as CNN
from dynascope.networks.lenet import LeNet as LeNet
from dynascope.networks.mlp import MLP as MLP
from dynascope.networks.resnet import ResNet18 as ResNet18
from dynascope.networks.transformer import ModularTransformer as ModularTransformer
from dynascope.networks.vgg import VGG16 as VGG16

if TYPE_CHECKING:
    from dynascope.networks.ensemble import Ensemble as Ensemble


def __getattr__(name: str) -> Any:
    if name != "Ensemble":  # it labels its results, which needs more than PyTorch
        raise AttributeError(f"module 'dynascope.networks' has no attribute {name!r}")
    return importlib.import_module("dynascope.networks.ensemble").Ensemble
