"""How many dropout layers a signal passes: what counts as in a row, what as a branch, and what cannot be told."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dynascope.networks import CNN, ResNet18, VisionTransformer
from dynascope.networks.network import Dropout as OwnDropout
from dynascope.steering.in_a_row import in_a_row

X = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def found(model, kinds=nn.modules.dropout._DropoutNd):
    layers = [each for each in model.modules() if isinstance(each, kinds)]
    model.eval()
    told = in_a_row(layers, lambda: model(X))
    assert not any(each._forward_hooks for each in layers)
    return told


@pytest.mark.parametrize(
    ("build", "passed"),
    [
        (lambda: CNN((1, 8, 8), 3, channels=4, depth=3), 3),
        (lambda: CNN((1, 8, 8), 3, channels=4, depth=5), 5),
        (lambda: ResNet18(3, 1, width=4, size=8), 1),
        (lambda: VisionTransformer(3, 1, size=8, width=8, heads=2, layers=2), 1),
    ],
)
def test_our_own_networks(build, passed):
    torch.manual_seed(0)
    assert found(build(), OwnDropout) == passed


class Chain(nn.Module):
    """Convolutions one behind the other, which use their dropout layers in some way, some beside a shortcut."""

    def __init__(self, use=lambda layer, x: layer(x), shortcuts=(0.0, 0.0, 0.0), layer=nn.Dropout):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Conv2d(1, 4, 1), nn.Linear(256, 3)
        self.inner = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in shortcuts)
        self.drops = nn.ModuleList(layer(0.0) for _ in shortcuts)
        self.use, self.shortcuts = use, shortcuts

    def forward(self, x):
        x = self.first(x)
        for inner, drop, shortcut in zip(self.inner, self.drops, self.shortcuts, strict=True):
            x = shortcut * x + self.use(drop, F.relu(inner(x)))
        return self.last(x.flatten(1))


BESIDE = (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("shortcuts", "passed"),
    [
        ((0.0, 0.0, 0.0), 3),
        (BESIDE, 1),
        ((1.0, 0.0, 1.0), 2),  # one that cannot be passed by, and the branches
        ((0.0, 0.0, 1.0, 0.0), 4),
    ],
)
@pytest.mark.parametrize("layer", [nn.Dropout, nn.Dropout2d])
def test_branches_count_as_one_and_every_other_layer_by_itself(shortcuts, passed, layer):
    assert found(Chain(shortcuts=shortcuts, layer=layer)) == passed


def test_a_layer_that_is_used_again_counts_again():
    model = Chain()
    model.drops = nn.ModuleList([model.drops[0]] * 3)
    assert found(model) == 3


def test_towers_side_by_side_are_no_way_round_each_other():
    towers = Chain(), Chain()

    def said():
        return sum(each.eval()(X) for each in towers)

    assert in_a_row([drop for each in towers for drop in each.drops], said) == 3


def test_shortcuts_that_carry_little_are_shortcuts_all_the_same():
    """As in a deep residual network at the start, whose branches add up."""
    assert found(Chain(shortcuts=(0.2,) * 6)) == 1  # a hundredth is left without any branch, 0.3 or more without one


def test_a_layer_of_all_branches_and_of_the_last_one_counts_as_two():
    model, drop = Chain(shortcuts=BESIDE).eval(), nn.Dropout(0.0)
    model.drops = nn.ModuleList([drop] * 3)
    assert in_a_row([drop], lambda: drop(model(X))) == 2


def test_calls_at_times_that_do_not_follow_each_other_count_as_one():
    drop, cell, last = nn.Dropout(0.0), nn.RNNCell(8, 5), nn.Linear(5, 3)

    def said(use=lambda x, state: cell(drop(x), state)):
        state = None
        for each in X[:, 0].unbind(1):
            state = use(each, state)
        return last(state)

    assert in_a_row([drop], said) == 1
    assert in_a_row([drop], lambda: said(lambda x, state: cell(x, None if state is None else drop(state)))) == 1


def test_a_layer_in_place_is_closed_though_nobody_looks_at_what_it_returns():
    model = Chain(lambda drop, x: (drop(x), x)[1], layer=lambda share: nn.Dropout(share, inplace=True))
    assert found(model) == 3


def test_branches_without_effect_at_the_start_are_branches():
    assert found(Chain(lambda drop, x: 0 * drop(x), shortcuts=BESIDE)) == 1
    model, beside = Chain().eval(), nn.Dropout(0.0)
    assert in_a_row([*model.drops, beside], lambda: (model(X), beside(X))[0]) == 4


def test_a_network_that_says_nothing_of_nothing_tells_nothing():
    assert found(Chain(lambda drop, x: drop(x) / drop(x).norm(), shortcuts=BESIDE)) is None


@pytest.mark.parametrize(
    "use",
    [
        lambda drop, x: drop(x) if drop.training else x,
        lambda drop, x: F.dropout(x, drop.p, drop.training),
        lambda drop, x: drop.forward(x),
    ],
)
def test_layers_that_are_not_called_tell_nothing(use):
    assert found(Chain(use)) is None


class Pair(nn.Dropout):
    def forward(self, x):
        return super().forward(x), None


@pytest.mark.parametrize(("shortcuts", "passed"), [((0.0, 0.0, 0.0), 3), (BESIDE, 1)])
def test_layers_that_return_more_than_a_tensor(shortcuts, passed):
    assert found(Chain(lambda drop, x: drop(x)[0], layer=Pair, shortcuts=shortcuts)) == passed


class DropPath(nn.Module):
    def __init__(self, drop_prob):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return x


def test_layers_that_drop_whole_branches_tell_nothing():
    assert found(Chain(shortcuts=BESIDE, layer=DropPath), DropPath) is None


@pytest.mark.parametrize("masked", [-1e9, -torch.inf])
def test_masked_classes_do_not_hide_a_way_round(masked):
    model = Chain(shortcuts=BESIDE).eval()
    assert in_a_row([*model.drops], lambda: F.pad(model(X), (0, 1), value=masked)) == 1


def test_what_comes_beside_the_signal_is_no_way_round():
    model = Chain().eval()
    beside = 1e-3 * X.flatten(1)[:, :1]  # as the length of a text has
    assert in_a_row([*model.drops], lambda: model(X) + beside) == 3


def test_outputs_that_are_all_alike_tell_nothing():
    model = Chain(shortcuts=BESIDE)
    nn.init.zeros_(model.last.weight)
    assert found(model) is None


@pytest.mark.parametrize("error", [ValueError, IndexError, KeyError, type("Own", (Exception,), {})])
def test_a_network_that_refuses_to_work_with_nothing_tells_nothing(error):
    def use(drop, x):
        x = drop(x)
        if not x.any():
            raise error("nothing")
        return x

    model = Chain(use, shortcuts=BESIDE)
    assert found(model) is None
    assert not any(each._forward_hooks for each in model.modules())
