"""Every kind of task: recognised from labels and outputs, or asked for; loads are those of the measures."""

import io
import math

import numpy as np
import pytest
import torch
from rich.console import Console
from sequence_networks import Fcn, Gpt, Unet
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from dynascope import watch
from dynascope.measure import data_separation
from dynascope.monitor import examine, open_run
from dynascope.monitor.show import print_run
from networks import images, vectors

X, Y = vectors(120)


def _net(outputs):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, outputs))


def _watch(model, probe, **options):
    return watch(model, probe=probe, every=1, **options)


@pytest.mark.parametrize("labels", [(Y > 0).long(), (Y > 0), (Y > 0).float(), (Y > 0).float()[:, None]])
def test_one_logit(labels):
    model = _net(1)
    run = _watch(model, (X, labels))
    now, codes = run.record.isel(step=0), (Y > 0).long()
    assert run.record.attrs["options"].count('"task": "binary"') == 1
    z = model(X)[:, 0]
    assert np.isclose(now["probe_loss"], F.binary_cross_entropy_with_logits(z, codes.float()).item(), rtol=1e-5)
    assert np.isclose(now["probe_accuracy"], ((z > 0) == (codes > 0)).float().mean().item())
    assert np.isclose(now["loads"][0], float(data_separation(X, codes)))
    assert np.isfinite(now["nc3"])
    assert labels.is_floating_point() == any("taken as binary" in note for note in run.notes)


def test_multilabel():
    model, labels = _net(4), (X[:, :4] > 0).float()
    run = _watch(model, (X, labels))
    now = run.record.isel(step=0)
    assert np.isclose(now["probe_loss"], F.binary_cross_entropy_with_logits(model(X), labels).item(), rtol=1e-5)
    assert np.isclose(now["loads"][0], float(data_separation(X, labels, kind="held_out")), rtol=1e-5)
    assert "nc1" not in now
    assert "minimum_feature_distance" in now


def test_regression_load_falls_where_the_network_learns():
    """FIG. S15: the load of the last layer falls by training, that of the input stays."""
    targets = torch.sin(X[:, :1]) * X[:, 1:2]
    model = _net(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    with watch(model, probe=(X, targets), every=75, slow=0) as run:
        for _ in range(150):
            loss = F.mse_loss(model(X), targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            run.step(loss=loss)
    loads = run.record["loads"]
    assert run._layers.reading.task.name == "regression"
    assert loads[-1, -1] < 0.5 * loads[0, 0]
    assert loads[-1, 0] == loads[0, 0]
    assert np.isclose(run.record["probe_loss"][-1], F.mse_loss(model(X), targets).item(), rtol=1e-4)
    assert "probe_accuracy" not in run.record


def test_one_hot_labels_are_classes():
    run = _watch(_net(3), (X, F.one_hot(Y, 3)))
    assert run._layers.reading.task.name == "classification"
    assert any("taken as classification" in note for note in run.notes)
    asked = _watch(_net(3), (X, F.one_hot(Y, 3).float()), task="regression")
    assert asked._layers.reading.task.name == "regression"


def test_pixels():
    x, _ = images(20)
    labels = (x[:, 0] > 0).long()
    labels[:, 0] = 255  # unlabelled
    model = Unet(2)
    run = _watch(model, (x, labels))
    now, task = run.record.isel(step=0), run._layers.reading.task
    assert run.layers == ["input", "down1", "down2", "up1", "up2"]
    sample, (row, column) = task.places.sample, task.places.place.T
    assert (row > 0).all()
    assert task.places.grid == (10, 10)
    with torch.no_grad():
        first, logits = model.down1(x).relu(), model(x)
    rows = first[sample, :, row, column]
    assert np.isclose(now["loads"].sel(layer="down1"), float(data_separation(rows, task.codes)), rtol=1e-5)
    coarse = model.down2(first).relu().detach()[sample, :, row // 2, column // 2]
    assert np.isclose(now["loads"].sel(layer="down2"), float(data_separation(coarse, task.codes)), rtol=1e-5)
    exact = F.cross_entropy(logits[sample, :, row, column], task.labels).item()
    assert np.isclose(now["probe_loss"], exact, rtol=1e-5)


def _scenes(number):
    """A square of stripes and one of checks on a flat ground."""
    stripes = (torch.arange(16) % 2 * 2.0 - 1).expand(16, 16)
    labels, images = torch.zeros(number, 16, 16, dtype=torch.long), 0.3 * torch.randn(number, 1, 16, 16)
    for image, label in zip(images, labels, strict=True):
        for kind, pattern in ((1, stripes), (2, stripes * stripes.T)):
            top, left = torch.randint(9, (2,)).tolist()
            part = slice(top, top + 7), slice(left, left + 7)
            label[part] = kind
            image[0][part] = pattern[part] + 0.3 * torch.randn(7, 7)
    return images, labels


@pytest.mark.ci
def test_a_fully_convolutional_network_that_learns_is_healthy():
    torch.manual_seed(1)
    (x, y), probe, model = _scenes(200), _scenes(24), Fcn()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    with watch(model, probe, every=7, slow=0, optimizer=optimiser, training=x) as run:
        for _ in range(140):
            chosen = torch.randint(len(x), (16,))
            out = model(x[chosen])
            loss = F.cross_entropy(out["out"], y[chosen]) + 0.5 * F.cross_entropy(out["aux"], y[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            run.step(loss=loss)
    assert examine(run.record).line == "healthy: none of 20 faults up to step 140"
    convolutions = [*(f"backbone.layer{each}.0 Conv2d" for each in (1, 2, 3)), "classifier.0 Conv2d"]
    assert run.layers == ["input", *convolutions]
    assert run.skipped["aux_classifier.0 Conv2d"] == "it does not feed the output that is read"
    loads = run.record["loads"].values
    assert np.isfinite(loads).all()
    assert loads[-1, -1] < loads[0, -1] - 1
    assert run.record["probe_accuracy"][-1] > 0.9


@pytest.mark.parametrize("labels", [torch.randn(20, 1, 10, 10), torch.randint(0, 2, (20, 1, 10, 10))])
def test_a_map_of_numbers_or_of_one_logit(labels):
    run = _watch(Unet(1), (images(20)[0], labels))
    assert run._layers.reading.task.name == ("regression" if labels.is_floating_point() else "binary")
    assert np.isfinite(run.record["loads"].values).all()


def _grammar(sequences=64, length=16):
    """The next token is the sum of the last two modulo 12: two tokens must be brought together."""
    tokens = torch.randint(12, (sequences, length), generator=torch.Generator().manual_seed(0))
    for place in range(2, length):
        tokens[:, place] = (tokens[:, place - 1] + tokens[:, place - 2]) % 12
    return tokens


def test_language_loads_are_held_out_by_sequences():
    tokens = _grammar()
    model = Gpt(length=16)
    run = _watch(model, (tokens[:, :-1], tokens[:, 1:]))
    now, task = run.record.isel(step=0), run._layers.reading.task
    assert task.name == "language"
    assert run.layers == ["wte", "h.0", "h.1", "h.2"]
    onehot = F.one_hot(tokens[:, 1:], 12).flatten(0, 1).double()
    with torch.no_grad():
        x = model.wte(tokens[:, :-1]) + model.wpe(torch.arange(15))
        after = model.h[0](x).flatten(0, 1)
        loss = model(tokens[:, :-1], tokens[:, 1:])[1].item()
    exact = data_separation(after.double(), onehot, kind="held_out", groups=np.repeat(np.arange(64), 15))
    assert np.isclose(now["loads"].sel(layer="h.0"), float(exact), rtol=1e-5)
    assert np.isclose(now["probe_loss"], loss, rtol=1e-5)


def test_labels_that_repeat_the_inputs_are_moved_by_one_and_padding_is_left_out():
    tokens = _grammar()
    mask = torch.ones_like(tokens)
    mask[::2, 10:] = 0

    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Gpt(length=16)

        def forward(self, input_ids, attention_mask=None):
            return {"logits": self.body(input_ids, input_ids)[0]}

    model = Causal()
    run = _watch(model, {"input_ids": tokens, "attention_mask": mask, "labels": tokens})
    task = run._layers.reading.task
    sample, place = task.places.sample, task.places.place[:, 0]
    assert torch.equal(task.labels, tokens[sample, place + 1])
    assert int(mask[sample, place + 1].min()) == 1
    assert len(task) == 32 * 9 + 32 * 15
    assert torch.equal(_watch(model, tokens)._layers.reading.task.labels, tokens[:, 1:].flatten())


def test_rare_tokens_and_groups():
    tokens = torch.randint(200, (64, 8), generator=torch.Generator().manual_seed(0))
    model = Gpt(tokens=200)
    run = _watch(model, tokens)
    assert any(note.startswith("load: predicts the 64 most frequent next tokens") for note in run.notes)
    grouped = _watch(model, tokens, groups=torch.arange(200) % 5)
    assert grouped._layers.reading.task.targets.shape == (448, 5)
    with pytest.raises(ValueError, match="groups must name the group of each of the 200 tokens"):
        _watch(model, tokens, groups=[1, 2])


@pytest.mark.ci
def test_the_curve_of_a_trained_language_model_falls_where_tokens_are_brought_together():
    tokens = _grammar(512)
    torch.manual_seed(0)
    model = Gpt(width=32, length=16)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    with watch(model, probe={"train": tokens[:128], "test": tokens[-128:]}, every=200) as run:
        for _ in range(400):
            batch = tokens[torch.randint(384, (64,))]
            _, loss = model(batch[:, :-1], batch[:, 1:])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            run.step(loss=loss)
    now = run.record.isel(step=-1)
    level = math.sqrt((1 - 1 / 12) / 2)  # of a guess
    assert now["loads"][0] > 0.95 * level
    assert now["loads"][-1] < 0.8 * level
    assert abs(now["test_loads"][-1] - now["loads"][-1]) < 0.1
    assert now["test_accuracy"] > 0.5


class Pairs(Dataset):
    """Counts how it is read, and draws at random as augmentation does."""

    def __init__(self, labels):
        self.labels, self.read = labels, 0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        self.read += 1
        return torch.randn(6), self.labels[index]


def test_a_balanced_probe_is_drawn_and_training_does_not_notice():
    labels = torch.cat([torch.zeros(3000), torch.ones(200), torch.full((60,), 2)]).long()
    data = Pairs(labels)
    generator = torch.Generator().manual_seed(4)
    loader = DataLoader(data, batch_size=16, shuffle=True, generator=generator)
    model = _net(3)
    before = torch.get_rng_state(), generator.get_state()
    run = _watch(model, loader, slow=0)
    assert np.bincount(run._layers.reading.task.codes).tolist() == [40, 40, 40]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(generator.get_state(), before[1])
    assert data.read <= 3260
    again = _watch(_net(3), data, slow=0)
    assert again._probe.labels.tolist() == run._probe.labels.tolist()


def test_loaders_of_dicts_and_of_tokens():
    rows = [{"x": x, "label": y} for x, y in zip(X, Y, strict=True)]

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = _net(3)

        def forward(self, x):
            return self.body(x)

    assert _watch(Named(), DataLoader(rows, batch_size=8), slow=0).layers[-1] == "body.2 Linear"
    tokens = _grammar()
    loader = DataLoader(TensorDataset(tokens[:, :-1], tokens[:, 1:]), batch_size=8)
    assert _watch(Gpt(length=16), loader)._layers.reading.task.name == "language"


def test_train_and_test_parts():
    model = _net(3)
    run = _watch(model, {"train": (X[:60], Y[:60]), "test": (X[60:], Y[60:])}, slow=0)
    now = run.record.isel(step=0)
    assert np.isclose(now["test_loss"], F.cross_entropy(model(X[60:]), Y[60:]).item(), rtol=1e-5)
    assert np.isclose(now["test_loads"][0], float(data_separation(X[60:], Y[60:])), rtol=1e-6)
    assert np.isclose(now["probe_loss"], F.cross_entropy(model(X[:60]), Y[:60]).item(), rtol=1e-5)


class Stream(IterableDataset):
    def __iter__(self):
        yield X[0], 0


@pytest.mark.parametrize(
    ("outputs", "probe", "options", "message"),
    [
        (1, (X, Y), {}, "task must be given for whole-number labels and one output"),
        (3, (X, Y), {"task": "guessing"}, "task must be one of classification"),
        (3, (X, X[:, 0]), {}, "probe labels must be whole numbers for a model with 3 outputs"),
        (3, (X, X), {"task": "regression"}, r"probe labels must be \(sample, 3\) for task='regression'"),
        (6, (X, X), {"task": "multilabel"}, "probe labels must be 0 or 1"),
        (3, Stream(), {}, "a stream is used up by looking at it"),
        (3, {"inputs": X}, {}, "probe must hold its labels under one of labels, label"),
    ],
)
def test_what_cannot_work_is_named(outputs, probe, options, message):
    with pytest.raises(ValueError, match=message):
        watch(_net(outputs), probe=probe, **options)


def test_lora_like_and_quantised_readouts_have_their_weights():
    class Adapted(nn.Module):
        """A linear map with a small one added, as adapters are built."""

        def __init__(self):
            super().__init__()
            self.base_layer, self.down, self.up = nn.Linear(16, 3), nn.Linear(16, 2, bias=False), nn.Linear(2, 3)

        def forward(self, x):
            return self.base_layer(x) + self.up(self.down(x))

    model = nn.Sequential(*_net(3)[:4], Adapted())
    run = _watch(model, (X, Y), slow=0)
    assert run._layers.readout.name == "4"
    weight = model[4].base_layer.weight + model[4].up.weight @ model[4].down.weight
    plain = nn.Sequential(*model[:4], nn.Linear(16, 3))
    with torch.no_grad():
        plain[4].weight.copy_(weight)
        plain[4].bias.copy_(model[4].base_layer.bias + model[4].up.bias)
    assert np.isclose(run.record["nc3"][0], _watch(plain, (X, Y), slow=0).record["nc3"][0], rtol=1e-4)


def test_notes_are_shown(tmp_path):
    x, y = vectors(12)
    watch(_net(3), probe=(x, y), every=1, slow=0, out=tmp_path).close()
    console = Console(width=200, record=True, file=io.StringIO())
    print_run(open_run(tmp_path), console)
    assert "note: probe: 12 samples of 3 classes are too few" in console.export_text()
