"""Small networks of every kind that the monitor's tests train."""

import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Cnn(nn.Module):
    """A LeNet with functional activations, as in many tutorials."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.fc1 = nn.Linear(32, 16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        x = x.flatten(1)
        return self.fc2(F.relu(self.fc1(x)))


class Transformer(nn.Module):
    """Tokens in, a class out; its mask is made once and kept, as caches are."""

    def __init__(self, layers=2):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)
        self.scale = None

    def forward(self, tokens):
        if self.scale is None:
            self.scale = torch.linspace(0.5, 1.5, 8, device=tokens.device)
        return self.head(self.encoder(self.embed(tokens) * self.scale).mean(dim=1))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential(nn.Conv2d(width, width, 1), nn.BatchNorm2d(width))

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.layer1 = nn.Sequential(Block(4), Block(4))
        self.layer2 = nn.Sequential(Block(4), Block(4))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.pool(self.layer2(self.layer1(F.relu(self.conv1(x))))).flatten(1))


def mlp():
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Dropout(0.2),
        nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Linear(16, 3),
    )  # fmt: skip


def vectors(samples=60):
    y = torch.arange(samples) % 3
    return torch.randn(samples, 6, generator=_fixed()) + 2 * torch.eye(3, 6)[y], y


def images(samples=60):
    y = torch.arange(samples) % 3
    x = torch.randn(samples, 1, 10, 10, generator=_fixed())
    x[torch.arange(samples), 0, y + 2] += 2.0
    return x, y


def tokens(samples=60):
    y = torch.arange(samples) % 3
    x = torch.randint(11, (samples, 7), generator=_fixed())
    x[:, 2] = y
    return x, y


def _fixed():
    return torch.Generator().manual_seed(5)


def augment(x):
    """Random flips and shifts from Python's and NumPy's own random states."""
    if random.random() < 0.5:
        x = x.flip(-1)
    return x + torch.as_tensor(np.random.normal(size=x.shape, scale=0.05), dtype=x.dtype, device=x.device)  # noqa: NPY002


class Characters(nn.Module):
    """A letter for every position, (sample, letter, position) as cross entropy takes it, with dropout."""

    def __init__(self):
        super().__init__()
        self.embed, self.drop, self.head = nn.Embedding(11, 8), nn.Dropout(0.1), nn.Linear(8, 11)
        layers = (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True) for _ in range(2))
        self.layers = nn.ModuleList(layers)

    def forward(self, tokens):
        x = self.drop(self.embed(tokens))
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(x).transpose(1, 2)


def letters(samples=60):
    x = torch.randint(11, (samples, 8), generator=_fixed())
    return x[:, :-1].contiguous(), x[:, 1:].contiguous()


KINDS = {
    "mlp": (mlp, vectors),
    "cnn": (Cnn, images),
    "transformer": (Transformer, tokens),
    "characters": (Characters, letters),
}


def seed_all(seed):
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)


def train(model, data, steps, *, call=None, after=lambda loss: None):
    """Plain SGD on random batches, with augmentation where there is something to augment."""
    x, y = data
    call = model if call is None else call
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model.train()
    for _ in range(steps):
        chosen = torch.randint(len(x), (16,))
        batch = augment(x[chosen]) if x.is_floating_point() else x[chosen]
        loss = F.cross_entropy(call(batch), y[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        after(loss)
