"""Which layers are found in networks of every kind, under which names, and that their features are the right ones."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dynascope import watch
from dynascope.measure.side_effects import undisturbed
from dynascope.monitor.features import Layer, read_features, reduce
from dynascope.monitor.layers import Wishes, find_layers
from dynascope.monitor.probing import Probe, output_of
from networks import Cnn, ResNet, Transformer, images, mlp, tokens, vectors


def _find(model, data, named=None):
    probe = Probe.of(data, model)
    with undisturbed(model):
        found = find_layers(model, probe, Wishes(named))
        return found, read_features(model, probe, found)


class Wrapped(nn.Module):
    """A backbone inside a module, as Hugging Face has them, with a dict out."""

    def __init__(self, backbone):
        super().__init__()
        self.body = backbone

    def forward(self, x):
        return {"loss": torch.zeros(()), "logits": self.body(x)}


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.first(x).relu()
        x = self.again(x).relu()
        x = self.again(x).relu()
        return self.last(x), x


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.join = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(8, 3)

    def forward(self, x):
        return self.join(torch.cat([self.left(x), self.right(x)], dim=1))


class TokensFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.mix, self.head = nn.Linear(1, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.mix(self.up(x.T[..., None])).mean(dim=0))  # (token, sample, feature) inside


@pytest.mark.parametrize(
    ("model", "data", "names", "readout"),
    [
        (mlp(), vectors(), ["input", "0 Linear", "4 Linear"], "7 Linear"),
        (Cnn(), images(), ["input", "conv1", "conv2", "fc1"], "fc2"),
        (ResNet(), images(), ["input", "conv1", "layer1.0", "layer1.1", "layer2.0", "layer2.1"], "fc"),
        (Transformer(), tokens(), ["embed", "encoder.layers.0", "encoder.layers.1"], "head"),
        (Wrapped(Cnn()), images(), ["input", "body.conv1", "body.conv2", "body.fc1"], "body.fc2"),
        (Shared(), vectors(), ["input", "first", "again", "again (2)"], "last"),
        (Branches(), vectors(), ["input", "left + right"], "join"),
        (TokensFirst(), vectors(), ["input", "up", "mix"], "head"),
        (nn.Linear(6, 3), vectors(), ["input", "Linear"], "Linear"),
        (
            nn.Sequential(
                OrderedDict(
                    stem=nn.Sequential(nn.Linear(6, 8), nn.ReLU()),
                    body=nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
                    out=nn.Linear(8, 3),
                )
            ),
            vectors(),
            ["input", "stem", "body"],
            "out",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_names_in_execution_order(model, data, names, readout):
    found, features = _find(model, data)
    assert found.names == names
    assert found.readout.name == readout
    assert found.skipped == {}
    assert [len(each) for each in features.layers] == [60] * len(names)


@pytest.mark.parametrize(
    ("model", "data", "kinds"),
    [
        (mlp(), vectors(), ["", "Linear", "Linear"]),
        (Cnn(), images(), ["", "Conv2d", "Conv2d", "Linear"]),
        (ResNet(), images(), ["", "Conv2d", *["Block of Conv2d"] * 4]),
        (Transformer(), tokens(), ["Embedding", *["TransformerEncoderLayer of Linear, MultiheadAttention"] * 2]),
        (Branches(), vectors(), ["", "branches"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_what_layers_are_made_of(model, data, kinds):
    assert _find(model, data)[0].kinds == kinds


def test_compiled_parts_keep_their_names():
    model = Cnn()
    model.conv2 = torch.compile(model.conv2, backend="eager")
    assert _find(model, images())[0].names == ["input", "conv1", "conv2", "fc1"]


def test_features_are_what_enters_the_next_layer():
    model, (x, y) = Cnn(), images()
    _, features = _find(model, (x, y))
    with torch.no_grad():
        first = F.max_pool2d(F.relu(model.conv1(x)), 2)
        second = F.relu(model.conv2(first)).flatten(1)
        third = F.relu(model.fc1(second))
    for mine, theirs in zip(features.layers, (x, first, second, third), strict=True):
        assert torch.equal(mine, theirs.flatten(1))
    assert torch.equal(features.last, third)
    assert torch.allclose(features.logits, model.fc2(third), atol=1e-6)


def test_layers_that_work_in_place_do_not_spoil_the_features():
    model, (x, y) = mlp().eval(), vectors()
    _, features = _find(model, (x, y))
    with torch.no_grad():
        assert torch.equal(features.layers[1], model[:4](x))
        assert torch.equal(features.layers[2], model[:7](x))


def test_branches_count_as_what_they_join_to():
    model, (x, y) = Branches(), vectors()
    _, features = _find(model, (x, y))
    with torch.no_grad():
        assert torch.equal(features.layers[1], torch.cat([model.left(x), model.right(x)], dim=1))


def test_tokens_before_samples_are_turned():
    model, (x, y) = TokensFirst(), vectors()
    _, features = _find(model, (x, y))
    with torch.no_grad():
        inside = model.up(x[..., None])  # (sample, token, feature)
    assert torch.allclose(features.layers[1], inside.mean(dim=1), atol=1e-6)  # the readout takes the mean


def test_the_user_names_layers():
    model, data = Cnn(), images()
    found, features = _find(model, data, ["fc1", "conv1"])
    assert found.names == ["input", "conv1", "fc1"]
    with torch.no_grad():
        assert torch.equal(features.layers[1], model.conv1(data[0]).flatten(1))  # outputs, before the activation
    with pytest.raises(ValueError, match=r"layers must name submodules, among them conv1, conv2, fc1, fc2; got 'fc9'"):
        _find(model, data, ["fc9"])
    with pytest.raises(ValueError, match="layers must be a list of names"):
        _find(model, data, "fc1")


def test_layers_without_rows_per_sample_are_named_not_dropped_in_silence():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.first, self.head = nn.Linear(2, 5), nn.Linear(6, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.head(self.first(x) + self.table(torch.ones(5, 2)).sum())

    found, _ = _find(Odd(), vectors())
    assert found.names == ["input", "first"]
    assert found.skipped == {
        "table": "no floating-point tensor with one row per sample, got torch.float32 of shape (5, 5)"
    }


@pytest.mark.parametrize(
    ("shape", "channels_first", "how", "width"),
    [
        ((2, 3, 4, 4), True, "pool", 48),
        ((2, 64, 40, 40), True, "pool", 4096),
        ((2, 5000, 2, 2), True, "pool", 4096),
        ((2, 5000), False, "pool", 4096),
        ((2, 200, 64), False, "pool", 4096),
        ((2, 4, 9, 9, 9), True, "mean", 4),
        ((2, 7, 5), False, "mean", 5),
        ((2, 7, 5), False, "first", 5),
        ((2, 5, 7), True, "last", 5),
        ((2, 64, 40, 40), True, "flatten", 64 * 1600),
    ],
)
def test_how_maps_and_sequences_become_numbers(shape, channels_first, how, width):
    layer = Layer("any", nn.Identity(), 0, False, 0, channels_first)
    x = torch.randn(shape)
    found = reduce(x, layer, how)
    assert found.shape == (2, width)
    assert torch.equal(found, reduce(x, layer, how))  # the same numbers each time
    if how == "first":
        assert torch.equal(found, x[:, 0])


def test_pooling_keeps_the_mean():
    layer = Layer("map", nn.Identity(), 0, False, 0, True)
    x = torch.randn(3, 8, 64, 64)
    found = reduce(x, layer, limit=8 * 16).reshape(3, 8, 16)
    assert torch.allclose(found.mean(dim=2), x.mean(dim=(2, 3)), atol=1e-5)


def test_half_precision_is_averaged_in_single():
    layer = Layer("map", nn.Identity(), 0, False, 0, True)
    assert reduce(torch.ones(2, 3, 4, 4, dtype=torch.bfloat16), layer).dtype == torch.float32


@pytest.mark.parametrize("returned", [torch.ones(()), {"hidden": 3}, None, (torch.arange(3), 7)])
def test_outputs_without_logits_are_named(returned):
    with pytest.raises(ValueError, match=r"model must return logits \(sample, class\)"):
        output_of(returned)


def test_logits_are_found_in_tuples_dicts_and_objects():
    class Output:
        logits = torch.zeros(2, 3)

    for returned in ((torch.zeros(()), Output.logits), {"logits": Output.logits}, Output(), [Output.logits]):
        assert output_of(returned) is Output.logits
    assert np.isclose(float(Output.logits.sum()), 0)


@pytest.mark.parametrize("samples", [1, 2, 43, 85, 127])
def test_no_sample_is_left_to_a_pass_of_its_own(samples):
    """Of large images few go through at once: networks that squeeze their outputs, or take statistics, need company."""
    sizes = [part.stop - part.start for part, _ in Probe(torch.zeros(samples, 3, 32, 32), np.zeros(samples)).chunks()]
    assert sum(sizes) == samples
    assert min(sizes) > 1 or samples == 1
    assert max(sizes) <= 42


def test_the_largest_of_several_inputs_says_how_many_go_at_once():
    inputs = {"length": torch.zeros(100), "image": torch.zeros(100, 3, 64, 64)}
    assert max(len(part["image"]) for _, part in Probe(inputs, np.zeros(100)).chunks()) <= 16


def test_double_precision_is_watched(recwarn):
    model, (x, y) = mlp().double(), vectors()
    with watch(model, probe=(x.double(), y), every=1) as run:
        F.cross_entropy(model(x.double()), torch.as_tensor(y)).backward()
        run.step(loss=1.0)
    assert np.isfinite(run.record["gradient_norm"].values[-1])
    assert not [each for each in recwarn if issubclass(each.category, RuntimeWarning)]


class _Padded(nn.Module):
    """PyTorch's own encoder of texts of unequal length, which it packs in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(10, 8), nn.Linear(8, 3)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)

    def forward(self, tokens, mask):
        made = self.encoder(self.embedding(tokens), src_key_padding_mask=~mask)
        return self.out(made[:, 0])


def test_layers_of_an_encoder_that_packs_texts_of_unequal_length():
    torch.manual_seed(0)
    y = torch.arange(30) % 3
    inputs = {"tokens": torch.randint(0, 10, (30, 6)), "mask": torch.arange(6) < torch.randint(2, 6, (30, 1))}
    fast = torch.backends.mha.get_fastpath_enabled()
    with watch(_Padded(), probe=(inputs, y), every=1) as run:
        assert run.layers == ["embedding", "encoder.layers.0", "encoder.layers.1"]
    assert np.isfinite(run.record["loads"]).all()
    assert torch.backends.mha.get_fastpath_enabled() is fast
