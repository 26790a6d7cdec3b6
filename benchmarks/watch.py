"""What watching costs: the same training of a CNN without, with and without the monitor, in one run.

The overhead counts everything between the first and the last step: the measurement before training, those during it,
and the call of `run.step`. Compare numbers only within one run; on a busy machine the two plain runs differ by more
than the monitor costs, which the table shows.
"""

import argparse
import tempfile
import time

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from dynascope import watch

CLASSES, BATCH = 10, 64


def network() -> nn.Module:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for inward, outward in ((3, 32), (32, 32), (32, 64), (64, 64)):
        parts += [nn.Conv2d(inward, outward, 3, padding=1), nn.BatchNorm2d(outward), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if outward != inward else []
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def train(steps: int, every: int | None, *, watched: bool) -> dict[str, float]:
    model = network()
    labels = torch.arange(2048) % CLASSES
    images = torch.randn(2048, 3, 32, 32) + torch.randn(CLASSES, 3, 32, 32)[labels]
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    _step(model, optimiser, images[:BATCH], labels[:BATCH])  # what is set up on first use
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        run = watch(model, probe=(images[:250], labels[:250]), every=every, out=folder) if watched else None
        for _ in range(steps):
            chosen = torch.randint(len(images), (BATCH,))
            loss = _step(model, optimiser, images[chosen], labels[chosen])
            if run is not None:
                run.step(loss=loss)
        spent = time.perf_counter() - begun
        counted = run.overhead if run is not None else 0.0
        measured = run.record.sizes["step"] if run is not None else 0
        if run is not None:
            run.close()
    return {"seconds": spent, "step": spent / steps, "overhead": counted, "measurements": measured}


def _step(model: nn.Module, optimiser: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = nn.functional.cross_entropy(model(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--every", type=int, default=None, help="a schedule instead of the default budget")
    given = options.parse_args()
    train(5, None, watched=True)  # imports
    first = train(given.steps, given.every, watched=False)
    watched = train(given.steps, given.every, watched=True)
    second = train(given.steps, given.every, watched=False)
    table = Table(
        "run", "seconds", "ms per step", "measurements", "overhead by its own clock", box=None, pad_edge=False
    )
    for name, row in (("without", first), ("with", watched), ("without again", second)):
        own = f"{100 * row['overhead']:.2f} %" if row["measurements"] else ""
        numbers = f"{row['seconds']:.2f}", f"{1000 * row['step']:.1f}", str(row["measurements"] or "")
        table.add_row(name, *numbers, own)
    Console().print(table)
    plain = (first["seconds"] + second["seconds"]) / 2
    doubt = abs(first["seconds"] - second["seconds"]) / plain
    extra = watched["seconds"] / plain - 1
    print(f"overhead {100 * extra:+.2f} % of training time; the two plain runs differ by {100 * doubt:.2f} %")


if __name__ == "__main__":
    main()
