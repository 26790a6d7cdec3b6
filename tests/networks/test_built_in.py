"""The built-in networks: published sizes, probe points, settings, random numbers without a state."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from dynascope.networks import CNN, MLP, VGG16, LeNet, ModularTransformer, ResNet18, VisionTransformer, draws
from dynascope.networks.cnn import Pool, Upsample
from dynascope.networks.network import BatchNorm2d, Dropout, LeakyReLU

SMALL = {
    "lenet": LeNet(3),
    "mlp": MLP((1, 6, 6), 4, width=5, depth=3, batch_norm=True, dropout=0.2),
    "cnn": CNN((2, 8, 8), 3, channels=4, depth=2),
    "resnet": ResNet18(3, 1, width=2, size=8),
    "vgg": VGG16(3, 1, width=2),
    "transformer": ModularTransformer(5, width=8, heads=2),
    "resnet with dropout": ResNet18(3, 1, width=2, size=8, dropout=0.2),
    "vision transformer": VisionTransformer(3, 1, size=8, patch=4, width=8, heads=2, layers=2, dropout=0.2),
    "transformer with a final norm": ModularTransformer(5, width=8, heads=2, final_norm=True),
}


@pytest.mark.parametrize("name", SMALL)
def test_features_end_in_the_logits_and_hold_every_probe(name):
    network = SMALL[name].eval()
    x = torch.zeros(2, *network.shape, dtype=torch.int64 if network.tokens else torch.float32)
    found = network.features(x)
    assert list(found) == [*network.probes, "logits"]
    torch.testing.assert_close(found["logits"], network(x))
    assert network(x).shape == (2, network.classes)


def test_equal_shapes_in_the_cnn():
    shapes = {value.shape for name, value in SMALL["cnn"].features(torch.rand(3, 2, 8, 8)).items() if name != "logits"}
    assert shapes == {(3, 4, 4, 4)}


@pytest.mark.parametrize(
    ("own", "known"),
    [
        (BatchNorm2d(3), nn.BatchNorm2d(3)),
        (Pool(0.3), nn.Sequential(LeakyReLU(0.3), nn.MaxPool2d(2))),
        (Upsample(), nn.Upsample(scale_factor=2)),
    ],
)
def test_quick_layers_do_what_known_ones_do(own, known):
    x = (3 * torch.randn(5, 3, 4, 6, generator=torch.Generator().manual_seed(1)) + 1).double().requires_grad_()
    results = []
    for layer in (own.double(), known.double()):
        y = layer(x)
        weighted = (y * torch.arange(y.numel(), dtype=y.dtype).view(y.shape)).sum()
        results.append([y, *torch.autograd.grad(weighted, [x, *layer.parameters()]), layer.eval()(x)])
    torch.testing.assert_close(*results)


def test_attention_does_not_look_ahead():
    network = SMALL["transformer"].eval()
    one, other = (network.features(torch.tensor([[1, 2, token]]))["block_2"] for token in (0, 5))
    torch.testing.assert_close(one[:, :2], other[:, :2])
    assert not torch.allclose(one[:, 2], other[:, 2])


def test_scales_of_the_mlp():
    torch.manual_seed(1)
    plain = MLP(10, 3, width=50, depth=1, init="lecun")
    torch.manual_seed(1)
    scaled = MLP(10, 3, width=50, depth=1, init="lecun", weight_scale=4.0, output_scale=0.5)
    torch.testing.assert_close(scaled.stages.linear_1.weight, 4 * plain.stages.linear_1.weight)
    x = torch.rand(5, 10)
    torch.testing.assert_close(scaled(x), 0.5 * 16 * plain(x))  # no biases: two linear layers, ReLU between
    wide = MLP(1000, 2, width=500, depth=1, init="lecun")
    assert float(wide.stages.linear_1.weight.detach().std()) == pytest.approx(1000**-0.5, rel=0.01)


def test_linear_where_the_slope_is_one():
    x = torch.randn(7)
    torch.testing.assert_close(LeakyReLU(1.0)(x), x)
    torch.testing.assert_close(LeakyReLU(0.3)(x), torch.nn.functional.leaky_relu(x, 0.3))


@pytest.mark.parametrize("key", [None, torch.tensor(11)])
def test_dropout_keeps_the_mean(key):
    torch.manual_seed(0)
    layer = Dropout(0.3)
    layer.key = key
    out = layer(torch.ones(100_000))
    error = np.sqrt(0.3 * 0.7 / 100_000)
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=4 * error)
    assert float(out.max()) == pytest.approx(1 / 0.7)
    assert torch.equal(layer.eval()(out), out)


def test_random_numbers_are_uniform_and_independent():
    drawn = torch.stack([draws.uniform(draws.keys(torch.tensor(s), 3), (20_000,), torch.float64) for s in range(4)])
    for row in drawn.numpy():
        assert stats.kstest(row, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(row[:-1], row[1:])[0, 1]) < 4 / np.sqrt(20_000)
    off = np.corrcoef(drawn.numpy())[np.triu_indices(4, 1)]
    assert np.abs(off).max() < 4 / np.sqrt(20_000)
    assert stats.kstest(draws.normal(torch.tensor(3), (20_000,), torch.float64).numpy(), "norm").pvalue > 1e-3


def test_splitmix_against_its_published_outputs():
    # the first outputs of SplitMix64 started at 1234567
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    place = torch.arange(1, 4) * draws.GOLDEN
    assert [int(z) % 2**64 for z in draws.mix(torch.tensor(1234567) + place)] == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LeNet(0), "classes must be a whole number of at least 1, got 0"),
        (lambda: MLP(0), "inputs"),
        (lambda: MLP(dropout=1.0), "dropout must be below 1"),
        (lambda: MLP(activation="gelu"), "activation must be one of"),
        (lambda: MLP(init="he"), "init must be one of"),
        (lambda: MLP(batch_norm=1), "batch_norm must be True or False"),
        (lambda: CNN((1, 7, 8)), "even sides"),
        (lambda: ResNet18(size=4), "size"),
        (lambda: VGG16(size=16), "size"),
        (lambda: ModularTransformer(7, width=10, heads=4), "multiple of heads"),
        (lambda: VisionTransformer(size=9), "size must be a multiple of patch, got 9 and 2"),
        (lambda: VisionTransformer(width=10), "width must be a multiple of heads, got 10 and 4"),
        (lambda: ResNet18(dropout=1.0), "dropout must be below 1"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
