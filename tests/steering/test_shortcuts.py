"""Whether noise can be passed by: what counts as a way round dropout layers, and what does not."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dynascope.networks import CNN, ResNet18, VisionTransformer
from dynascope.networks.network import Dropout as OwnDropout
from dynascope.steering.shortcuts import way_round

X = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def found(model, kinds=nn.modules.dropout._DropoutNd, x=X):
    layers = [each for each in model.modules() if isinstance(each, kinds)]
    model.eval()
    told = way_round(layers, lambda: model(x))
    assert not any(each._forward_hooks for each in layers)
    return told


@pytest.mark.parametrize(
    ("network", "told"),
    [
        (CNN((1, 8, 8), 3, channels=4, depth=3), False),
        (ResNet18(3, 1, width=2, size=8), True),
        (VisionTransformer(3, 1, size=8, width=8, heads=2, layers=2), True),
    ],
)
def test_our_own_networks(network, told):
    assert found(network, OwnDropout) is told


class Chain(nn.Module):
    """Convolutions one behind the other, which use their dropout layers in some way."""

    def __init__(self, use=lambda layer, x: layer(x), shortcut=0.0, layer=nn.Dropout):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Conv2d(1, 4, 1), nn.Linear(256, 3)
        self.inner = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))
        self.drops = nn.ModuleList(layer(0.0) for _ in range(3))
        self.use, self.shortcut = use, shortcut

    def forward(self, x):
        x = self.first(x)
        for inner, drop in zip(self.inner, self.drops, strict=True):
            x = self.shortcut * x + self.use(drop, F.relu(inner(x)))
        return self.last(x.flatten(1))


def test_a_shortcut_beside_each_layer_is_a_way_round():
    assert not found(Chain())
    assert found(Chain(shortcut=1.0))
    assert found(Chain(shortcut=1.0, layer=nn.Dropout2d))


@pytest.mark.parametrize(
    "use",
    [
        lambda drop, x: drop(x) if drop.training else x,
        lambda drop, x: F.dropout(x, drop.p, drop.training),
        lambda drop, x: drop.forward(x),
    ],
)
def test_layers_that_are_not_called_tell_nothing(use):
    assert not found(Chain(use))


class Pair(nn.Dropout):
    def forward(self, x):
        return super().forward(x), None


def test_layers_that_return_more_than_a_tensor():
    assert not found(Chain(lambda drop, x: drop(x)[0], layer=Pair))
    assert found(Chain(lambda drop, x: drop(x)[0], layer=Pair, shortcut=1.0))


class DropPath(nn.Module):
    def __init__(self, drop_prob):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return x


def test_layers_that_drop_whole_branches_tell_nothing():
    assert not found(Chain(shortcut=1.0, layer=DropPath), DropPath)


@pytest.mark.parametrize("masked", [-1e9, -torch.inf])
def test_masked_classes_do_not_hide_a_way_round(masked):
    model = Chain(shortcut=1.0).eval()
    told = way_round([*model.drops], lambda: F.pad(model(X), (0, 1), value=masked))
    assert told


def test_what_comes_beside_the_signal_is_no_way_round():
    model = Chain().eval()
    beside = 1e-3 * X.flatten(1)[:, :1]  # as the length of a text has
    assert not way_round([*model.drops], lambda: model(X) + beside)


def test_outputs_that_are_all_alike_tell_nothing():
    model = Chain(shortcut=1.0)
    nn.init.zeros_(model.last.weight)
    assert not found(model)


def test_a_network_that_refuses_to_work_with_nothing_tells_nothing():
    def use(drop, x):
        x = drop(x)
        if not x.any():
            raise ValueError("nothing")
        return x

    model = Chain(use, shortcut=1.0)
    assert not found(model)
    assert not any(each._forward_hooks for each in model.modules())
