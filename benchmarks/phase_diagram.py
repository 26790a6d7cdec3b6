"""A part of the laptop phase diagram (slope × dropout on digits), as ensembles and one run after another in PyTorch.

Rounds alternate, so that both see the same machine; the median of the paired ratios is what is claimed (at least 3).
Both do the same training, with PyTorch's threads as they are: batch norm, leaky ReLU, dropout, Adam, batches of 32.

    python benchmarks/phase_diagram.py [rounds]
"""

import sys
import time
from statistics import median

import torch
from torch import nn

from dynascope.experiments.phases.load_curves import data_set, run_grid
from dynascope.experiments.registry import find

CONFIG = find("phases/dropout").settings("laptop")
SLOPES, DROPOUTS, SEEDS, EPOCHS = CONFIG.slopes, CONFIG.values[::3], 4, 3


def ensembles() -> float:
    """Seconds for the part of the grid, all at once."""
    fixed = {name: getattr(CONFIG, name) for name in ("data", "size", "samples", "batch_size", "depth", "width")}
    begun = time.perf_counter()
    run_grid({"slope": SLOPES, "dropout": DROPOUTS}, seeds=SEEDS, fixed=fixed | {"epochs": EPOCHS})
    return time.perf_counter() - begun


def plain_network(slope: float, dropout: float, inputs: int) -> nn.Module:
    """The same network in plain PyTorch."""
    layers: list[nn.Module] = [nn.Flatten(), nn.BatchNorm1d(inputs)]
    for k in range(CONFIG.depth):
        layers += [nn.Linear(CONFIG.width if k else inputs, CONFIG.width), nn.BatchNorm1d(CONFIG.width)]
        layers += [nn.LeakyReLU(slope), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(CONFIG.width, 10))


def one_after_another() -> float:
    """Seconds for the same runs, without measuring load curves at all."""
    x, y = (torch.as_tensor(each) for each in data_set(CONFIG.data, CONFIG.size, CONFIG.samples)[:2])
    steps = len(x) // CONFIG.batch_size
    begun = time.perf_counter()
    for slope in SLOPES:
        for dropout in DROPOUTS:
            for seed in range(SEEDS):
                torch.manual_seed(seed)
                network = plain_network(slope, dropout, x[0].numel())
                optimizer = torch.optim.Adam(network.parameters(), lr=CONFIG.learning_rate)
                for _ in range(EPOCHS):
                    order = torch.randperm(len(x))[: steps * CONFIG.batch_size].view(steps, -1)
                    for chosen in order:
                        optimizer.zero_grad()
                        nn.functional.cross_entropy(network(x[chosen]), y[chosen]).backward()
                        optimizer.step()
    return time.perf_counter() - begun


def main(rounds: int) -> None:
    """Print seconds of each round, the ratios' median, and what the whole laptop diagram would take."""
    ensembles()  # what is slow once
    ratios, times = [], []
    for index in range(rounds):
        together, apart = ensembles(), one_after_another()
        ratios.append(apart / together)
        times.append(together)
        print(f"round {index + 1}: ensembles {together:.2f} s, one after another {apart:.2f} s, {ratios[-1]:.1f} times")
    runs = len(SLOPES) * len(DROPOUTS) * SEEDS
    whole = len(CONFIG.slopes) * len(CONFIG.values) * CONFIG.seeds / runs * CONFIG.epochs / EPOCHS
    print(f"{runs} runs of {EPOCHS} epochs on {torch.get_num_threads()} threads: {median(ratios):.1f} times faster")
    print(f"the laptop diagram, {whole:.0f} times as much: about {whole * median(times) / 60:.1f} minutes")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
