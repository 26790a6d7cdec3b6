"""A training that is watched, as a program: half way it waits for a file; what it comes to is written beside it."""

import sys
import time
from pathlib import Path

import torch
from torch import nn

from dynascope import watch

STEPS = 200


def train(folder, go_on):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    labels = torch.arange(120) % 3
    inputs = torch.randn(120, 6) + 2 * torch.eye(3, 6)[labels]
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    with watch(model, probe=(inputs[:60], labels[:60]), every=5, out=folder, class_logits=True) as run:
        for step in range(STEPS):
            while step == STEPS // 2 and not Path(go_on).exists():
                time.sleep(0.05)
            batch = torch.randint(120, (16,))
            loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            run.step(loss=loss)
    weights = torch.cat([each.detach().flatten() for each in model.parameters()])
    Path(folder, "weights").write_bytes(weights.numpy().tobytes())


if __name__ == "__main__":
    train(*sys.argv[1:])
