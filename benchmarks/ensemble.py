"""Time an ensemble beside training one network after another, in one run on one machine.

LeNet on GeoMNIST, batch 1, plain SGD at learning rate .005: 16 trials on a CPU, 100 on a GPU where there is one.
Short rounds of all ways alternate, so that other load on the machine meets all of them: the speed-up is the median over
rounds of the ratio to the round of one-after-another training beside it, and beside it stands the ratio of CPU times.
Also the ways to step all trials that were tried on the way to the one that is used. Compare only within one run.

Runs with PyTorch and NumPy alone: `python benchmarks/ensemble.py [cpu|cuda] [trials]`.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from dynascope.data.geomnist import geomnist
from dynascope.networks.lenet import LeNet
from dynascope.networks.training import Settings, Trainer, initial_state

ROUNDS = 15
X, Y = geomnist(per_class=100)


class Unfolded(nn.Conv2d):
    """A convolution as one matrix product over unfolded patches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it."""
        k, (n, _, rows, columns) = self.kernel_size[0], x.shape
        out = self.weight.flatten(1) @ F.unfold(x, k) + self.bias[:, None]
        return out.view(n, -1, rows - k + 1, columns - k + 1)


def plain_lenet() -> nn.Module:
    """The same network from PyTorch's own layers."""
    convolutions = (nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
    linear = (nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 3))
    return nn.Sequential(*convolutions, nn.Flatten(), *linear)


def one_after_another(device: str, trials: int) -> Callable[[int], None]:
    """What one would write: a module and torch.optim.SGD for each trial, one step of each in turn."""
    networks = [plain_lenet().to(device) for _ in range(trials)]
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.005) for each in networks]
    x, y = torch.as_tensor(X).to(device), torch.as_tensor(Y).to(device)
    rng = np.random.default_rng(0)

    def advance(steps: int) -> None:
        for _ in range(steps):
            drawn = rng.integers(len(X), size=trials)
            for network, optimizer, pick in zip(networks, optimizers, drawn, strict=True):
                optimizer.zero_grad()
                F.cross_entropy(network(x[pick : pick + 1]), y[pick : pick + 1]).backward()
                optimizer.step()

    return advance


def settings(device: str, trials: int) -> Settings:
    return Settings(trials=np.arange(trials), learning_rate=np.full(trials, 0.005), device=device)


def ensemble(device: str, trials: int) -> Callable[[int], None]:
    """dynascope: vmap of the forward pass, autograd outside, linear layers updated by the factors of their gradients,
    a captured CUDA graph on a GPU.
    """
    return Trainer(LeNet(3), settings(device, trials), X, Y).advance


def mapped_gradient(device: str, trials: int, *, unfolded: bool = False) -> Callable[[int], None]:
    """The usual recipe: vmap of torch.func.grad; with convolutions unfolded, or as they are."""
    network = LeNet(3)
    weights, _ = initial_state(network, settings(device, trials))
    if unfolded:
        for name in ("conv_1", "conv_2"):
            old = getattr(network.stages, name)
            setattr(network.stages, name, Unfolded(old.in_channels, old.out_channels, 5))
    x, y = torch.as_tensor(X).to(device), torch.as_tensor(Y).to(device)

    def loss(own: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(network, own, (x,)), y)

    gradient = vmap(grad_and_value(loss))

    @torch.no_grad()
    def advance(steps: int) -> None:
        for _ in range(steps):
            pick = torch.randint(len(X), (trials, 1), device=device)
            slopes, _ = gradient(weights, x[pick], y[pick])
            for name, weight in weights.items():
                weight.sub_(slopes[name], alpha=0.005)

    return advance


def milliseconds(ways: dict[str, tuple[Callable[[int], None], int]], device: str) -> dict[str, np.ndarray]:
    """Time of one step of all trials, on the clock and of the CPU, (round, 2)."""
    times: dict[str, list[list[float]]] = {name: [] for name in ways}
    for advance, _ in ways.values():
        advance(3)
    for _ in range(ROUNDS):
        for name, (advance, steps) in ways.items():
            if device == "cuda":
                torch.cuda.synchronize()
            begun = [time.perf_counter(), time.process_time()]
            advance(steps)
            if device == "cuda":
                torch.cuda.synchronize()
            ended = [time.perf_counter(), time.process_time()]
            times[name].append([(end - begin) / steps * 1e3 for begin, end in zip(begun, ended, strict=True)])
    return {name: np.array(each) for name, each in times.items()}


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"
    trials = int(sys.argv[2]) if len(sys.argv) > 2 else 100 if device == "cuda" else 16
    many = 500 if device == "cuda" else 10
    ways = {
        "one after another": (one_after_another(device, trials), 3),
        "vmap of the gradient": (mapped_gradient(device, trials), 10),
        "the same, unfolded": (mapped_gradient(device, trials, unfolded=True), 10),
        "dynascope": (ensemble(device, trials), many),
    }
    found = milliseconds(ways, device)
    print(f"{trials} trials of LeNet, batch 1, {device}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    for name, each in found.items():
        clock, cpu = np.median(found["one after another"] / each, axis=0)
        print(
            f"{name:>22}: {np.median(each[:, 0]):8.3f} ms per step of all trials (best {each[:, 0].min():.3f}), "
            f"{clock:6.1f} × by the clock, {cpu:6.1f} × in CPU time"
        )
    begun = time.perf_counter()
    geomnist(2000)
    print(f"6000 GeoMNIST images: {time.perf_counter() - begun:.2f} s")


if __name__ == "__main__":
    main()
