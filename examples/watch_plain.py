"""Watch a plain PyTorch loop: the added lines are marked. Then try: dynascope show runs/plain."""

import sys

import torch
from torch import nn

from dynascope import watch

out = sys.argv[1] if len(sys.argv) > 1 else "runs/plain"
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 2000

torch.manual_seed(0)
centres = torch.randn(5, 2, 20)  # five classes of two clouds each, so that one linear layer is not enough
labels = torch.arange(2000) % 5
inputs = centres[labels, torch.randint(2, (2000,))] + 0.5 * torch.randn(2000, 20)
layers = [part for _ in range(4) for part in (nn.Linear(64, 64), nn.ReLU())]
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), *layers, nn.Linear(64, 5))
optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

with watch(model, probe=(inputs[:250], labels[:250]), every="log", out=out) as run:  # added
    for _ in range(steps):
        batch = torch.randint(len(inputs), (32,))
        loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        run.step(loss=loss)  # added

print(run.record["loads"].isel(step=-1).to_series())  # added
