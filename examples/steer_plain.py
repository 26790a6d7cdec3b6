"""Steer a plain PyTorch loop on digits of which a fifth has a wrong label: the added lines are marked.

Two networks from the same start, one as it is, one whose dropout is turned by its own load curve. No label of the test
set is looked at before the end.
"""

import sys
from contextlib import ExitStack

import torch
from sklearn.datasets import load_digits
from torch import nn

from dynascope import steer, watch
from dynascope.steering import Dropout

out = sys.argv[1] if len(sys.argv) > 1 else "runs/steered"
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 60

images, labels = (torch.as_tensor(each) for each in load_digits(return_X_y=True))
images = ((images - images.mean()) / images.std()).float()
torch.manual_seed(0)
order = torch.randperm(len(images))
train, test = order[:1000], order[1000:]
given = labels.clone()
given[train[:200]] = (labels[train[:200]] + torch.randint(1, 10, (200,))) % 10  # wrong


def trained(*, steered):
    """Accuracy on the test set, and the run."""
    torch.manual_seed(1)
    parts = [part for _ in range(6) for part in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.0))]
    model = nn.Sequential(*parts, nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with ExitStack() as stack:
        probe = images[train[:300]], given[train[:300]]
        run = stack.enter_context(watch(model, probe, every=50, slow=0, out=out if steered else None))  # added
        if steered:
            stack.enter_context(steer(run, Dropout(model, at_most=0.6)))  # added
        for _ in range(epochs):
            for batch in train[torch.randperm(len(train))].split(50):
                loss = nn.functional.cross_entropy(model(images[batch]), given[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                run.step(loss=loss)  # added
    right = model.eval()(images[test]).argmax(dim=1) == labels[test]
    return right.float().mean().item(), run


plain, _ = trained(steered=False)
turned, run = trained(steered=True)
print(f"accuracy on the test set: {plain:.3f} as it is, {turned:.3f} steered")
print("dropout on the way:", run.record["dropout"].values.round(2).tolist())
