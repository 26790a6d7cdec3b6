"""A small training that several tests steer."""

import torch
from torch import nn

STEPS, EVERY, CLASSES = 60, 5, 4


def data():
    random = torch.Generator().manual_seed(1)
    y = torch.arange(120) % CLASSES
    return torch.randn(120, 8, generator=random) + 1.5 * torch.eye(8)[y], y


def network(share=0.0):
    torch.manual_seed(0)
    parts = [part for _ in range(4) for part in (nn.Linear(8, 8), nn.ReLU(), nn.Dropout(share))]
    return nn.Sequential(*parts, nn.Linear(8, CLASSES))


def convolutional(share):
    torch.manual_seed(1)
    blocks = (part for into in (1, 4, 4) for part in (nn.Conv1d(into, 4, 3, padding=1), nn.ReLU(), nn.Dropout(share)))
    return nn.Sequential(nn.Unflatten(1, (1, -1)), *blocks, nn.Flatten(), nn.Linear(4 * data()[0].shape[1], CLASSES))


def train(model, run=None, steps=STEPS, optimiser=None, first=0, after=lambda step: None):
    optimiser = optimiser or torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = data()
    for step in range(first, steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if run is not None:
            run.step(loss=loss)
        after(step + 1)
    return {name: value.clone() for name, value in model.state_dict().items()}
