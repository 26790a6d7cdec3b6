from dynascope.networks import first_order as first_order
from dynascope.networks import mlp_variants as mlp_variants
from dynascope.networks import parity as parity
from dynascope.networks.arguments import device as device
from dynascope.networks.arguments import device_name as device_name
from dynascope.networks.cnn import CNN as CNN
from dynascope.networks.ensemble import Ensemble as Ensemble
from dynascope.networks.lenet import LeNet as LeNet
from dynascope.networks.mlp import MLP as MLP
from dynascope.networks.resnet import ResNet18 as ResNet18
from dynascope.networks.transformer import ModularTransformer as ModularTransformer
from dynascope.networks.transformer import VisionTransformer as VisionTransformer
from dynascope.networks.vgg import VGG16 as VGG16

__all__: list[str]
