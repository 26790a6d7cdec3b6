"""Knobs turn what they say, keep to their limits, and refuse what they cannot turn."""

import pytest
import torch
from torch import nn

from dynascope import networks
from dynascope.steering import (
    BatchSize,
    Dropout,
    Function,
    InputNoise,
    Knob,
    LabelSmoothing,
    LearningRate,
    WeightDecay,
)


class DropPath(nn.Module):
    """As in timm."""

    def __init__(self, drop_prob=0.0):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return x


def _weights():
    return [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))]


def test_every_dropout_of_a_model_is_turned():
    model = nn.Sequential(nn.Dropout(0.1), nn.Dropout2d(0.2), DropPath(0.0), nn.AlphaDropout(0.3))
    knob = Dropout(model, at_most=0.5)
    assert knob.value == 0.3
    knob.set(0.4)
    assert [model[0].p, model[1].p, model[2].drop_prob, model[3].p] == [0.4] * 4
    knob.set(0.9)
    assert knob.value == 0.5


def test_dropout_of_the_packages_own_networks_is_turned():
    net = networks.MLP(4, 2, width=8, depth=2, dropout=0.1)
    knob = Dropout(net)
    assert knob.value == pytest.approx(0.1)
    knob.set(0.5)
    torch.manual_seed(0)
    x = torch.ones(50, 4)
    assert not torch.equal(net.train()(x), net.eval()(x))
    assert knob.value == 0.5


def test_a_compiled_model_meets_few_values():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))
    knob = Dropout(torch.compile(model, backend="eager"), at_most=0.5)
    seen = set()
    for share in torch.linspace(0, 0.5, 60).tolist():
        knob.set(share)
        seen.add(round(model[1].p, 6))
    assert seen == {0.0, 0.1, 0.2, 0.3, 0.4, 0.5}
    knob.set(0.03)
    assert knob.value == 0.1  # little is not none


def test_a_scheduler_does_not_see_the_factor():
    first, second = (torch.optim.SGD([each], lr=0.1) for each in _weights())
    knob = LearningRate(first)
    pairs = [(each, torch.optim.lr_scheduler.ExponentialLR(each, 0.5)) for each in (first, second)]
    knob.set(2.0)
    moved = []
    for optimiser, scheduler in pairs:
        weight = optimiser.param_groups[0]["params"][0]
        for _ in range(2):
            weight.grad = torch.ones(2)
            optimiser.step()
            scheduler.step()
        moved.append(1 - weight[0].item())
    assert moved[0] == pytest.approx(2 * moved[1])
    assert first.param_groups[0]["lr"] == second.param_groups[0]["lr"] == 0.025


def test_weight_decay_keeps_ratios_and_leaves_groups_without_any():
    a, b = _weights()
    c = nn.Parameter(torch.ones(2))
    groups = [
        {"params": [a], "weight_decay": 0.01},
        {"params": [b], "weight_decay": 0.02},
        {"params": [c], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=0.1)
    WeightDecay(optimiser).set(0.04)
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.02, 0.04, 0.0]


def test_a_decay_of_nothing_starts_at_the_lower_limit():
    optimiser = torch.optim.SGD(_weights(), lr=0.1)
    assert WeightDecay(optimiser, at_least=1e-4).value == 1e-4


def test_input_noise_is_drawn_in_training_alone():
    torch.manual_seed(0)
    model, x = nn.Identity(), torch.randn(20_000)
    knob = InputNoise(model)
    assert torch.equal(model(x), x)
    knob.set(0.5)
    assert (model(x) - x).std().item() == pytest.approx(0.5, rel=0.03)
    assert torch.equal(model.eval()(x), x)


def test_a_batch_size_holds_from_the_next_epoch_on():
    loader = torch.utils.data.DataLoader(range(60), batch_size=20)
    knob = BatchSize(loader, at_least=10, at_most=30)
    knob.set(10)
    assert [len(each) for each in loader] == [10] * 6
    assert knob.noise == -1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dropout(nn.Linear(2, 2)), "model must have dropout layers"),
        (lambda: Dropout(5), "model must be a torch.nn.Module, got int"),
        (lambda: Dropout(nn.Dropout(), at_least=0.5, at_most=0.2), "at_most must be above at_least"),
        (lambda: Dropout(nn.Dropout(), at_most=1.0), "at_most must be below 1 for dropout"),
        (lambda: Dropout(nn.Dropout(), at_most="much"), "at_most must be a real number"),
        (lambda: LearningRate(nn.Linear(2, 2)), "optimizer must be a torch.optim.Optimizer, got Linear"),
        (lambda: LearningRate(torch.optim.SGD(_weights(), lr=1.0), at_least=0), "at_least must be above 0"),
        (lambda: LearningRate(torch.optim.SGD(_weights(), lr=1.0), at_least=2), "must lie around the factor 1"),
        (lambda: WeightDecay(torch.optim.LBFGS(_weights())), "must have a weight_decay in its groups, LBFGS has none"),
        (lambda: LabelSmoothing(nn.MSELoss()), "loss must be the nn.CrossEntropyLoss of the training loop"),
        (lambda: InputNoise("net"), "model must be a torch.nn.Module"),
        (lambda: BatchSize(torch.utils.data.DataLoader(range(3), batch_size=None)), "loader must be a DataLoader made"),
        (lambda: Function("a b", print, value=0, at_most=1), "name must be a word"),
        (lambda: Function("a", 5, value=0, at_most=1), "turn must be a function"),
        (lambda: Function("a", print, value=2, at_most=1), "value must lie between 0 and 1, got 2"),
        (lambda: Function("a", print, value=0, at_most=1, noise=0), "noise must be 1 or -1"),
        (lambda: Function("a", print, value=0, at_most=1, scale="log2"), "scale must be one of linear, log"),
    ],
)
def test_what_cannot_be_turned_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_noise_on_tokens_is_refused_in_words():
    model = nn.Embedding(5, 2)
    InputNoise(model, at_least=0.1)
    with pytest.raises(ValueError, match="must take a tensor of floats first for InputNoise"):
        model(torch.tensor([1, 2]))


def test_all_are_knobs():
    optimiser, loss = torch.optim.SGD(_weights(), lr=0.1), nn.CrossEntropyLoss()
    for knob in (LearningRate(optimiser), WeightDecay(optimiser), LabelSmoothing(loss), Dropout(nn.Dropout())):
        assert isinstance(knob, Knob)
