"""What watching costs: the same training of a CNN with and without the monitor, in turns of a few steps in one run.

Two equal networks are trained; turns alternate, so that whatever else the machine does meets both alike. The overhead
counts everything: finding layers, the measurement before training, those during it, the last one, and each call of
`run.step`. Its standard error comes from the spread between pairs of turns.
"""

import argparse
import math
import tempfile
import time

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from dynascope import watch
from dynascope.monitor import Run
from dynascope.progress import progress_bar

CLASSES, BATCH, TURN = 10, 64, 5


def network() -> nn.Module:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for inward, outward in ((3, 32), (32, 32), (32, 64), (64, 64)):
        parts += [nn.Conv2d(inward, outward, 3, padding=1), nn.BatchNorm2d(outward), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if outward != inward else []
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


class Training:
    """One network, its optimiser and the time that it has taken."""

    def __init__(self) -> None:
        self.model = network()
        self.labels = torch.arange(2048) % CLASSES
        self.images = torch.randn(2048, 3, 32, 32) + torch.randn(CLASSES, 3, 32, 32)[self.labels]
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        _step(self.model, self.optimiser, self.images[:BATCH], self.labels[:BATCH])  # what is set up on first use

    @property
    def probe(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What is measured on."""
        return self.images[:250], self.labels[:250]

    def turn(self, steps: int, run: Run | None = None) -> float:
        """Train for a few steps and return the seconds that it took."""
        begun = time.perf_counter()
        for _ in range(steps):
            chosen = torch.randint(len(self.images), (BATCH,))
            loss = _step(self.model, self.optimiser, self.images[chosen], self.labels[chosen])
            if run is not None:
                run.step(loss=loss)
        return time.perf_counter() - begun


def _step(model: nn.Module, optimiser: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = nn.functional.cross_entropy(model(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss


def compare(steps: int, every: int | None) -> None:
    plain, watched = Training(), Training()
    spent: dict[str, list[float]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder, progress_bar("training", steps) as done:
        begun = time.perf_counter()
        run = watch(watched.model, probe=watched.probe, every=every, out=folder)
        around = time.perf_counter() - begun
        # the other network's turns are not training time of this one, so its budget must not grow by them
        run._cadence.clock = lambda: time.perf_counter() - sum(spent["without"])
        for turn in range(steps // TURN):
            order = (("without", plain, None), ("with", watched, run))
            for name, training, attached in order if turn % 2 else order[::-1]:
                spent[name].append(training.turn(TURN, attached))
            done(TURN * (turn + 1))
        during = run.overhead
        begun = time.perf_counter()
        run.close()
        around += time.perf_counter() - begun
        measurements = run.record.sizes["step"]
    without, attached = (np.array(spent[name]) for name in ("without", "with"))
    base = float(without.sum())
    # turns that hold a measurement differ by what is to be measured, so the noise is read from the middle of the rest
    difference = attached - without
    noise = 1.4826 * float(np.median(np.abs(difference - np.median(difference)))) * math.sqrt(len(difference))
    table = Table("", "seconds", "ms per step", box=None, pad_edge=False)
    for name, values in (("without", without), ("with", attached)):
        table.add_row(name, f"{values.sum():.2f}", f"{1000 * np.median(values) / TURN:.1f}")
    Console().print(table)
    print(f"{measurements} measurements; before the first and after the last step {around:.2f} s")
    print(f"overhead by the monitor's own clock {100 * during:.2f} %")
    print(f"overhead from first to last step {100 * difference.sum() / base:+.2f} ± {100 * noise / base:.2f} %")
    print(f"overhead with what comes before and after {100 * (difference.sum() + around) / base:+.2f} %")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=4000)
    options.add_argument("--every", type=int, default=None, help="a schedule instead of the default budget")
    given = options.parse_args()
    compare(TURN, None)  # imports, and what is set up on first use
    compare(given.steps, given.every)


if __name__ == "__main__":
    main()
