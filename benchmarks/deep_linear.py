"""Time one step of anisotropic Langevin dynamics beside its alternatives, in one run on one machine.

Depth 4, width 12, float64, no label noise. The full-covariance method builds Σ (576 × 576) and its root at every
step; the torch loop takes the same factored step with batched matrix products. Best of several runs; compilation is
timed apart. Compare numbers only within one run.
"""

import os
import time
from collections.abc import Callable

import jax
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from dynascope import DeepLinear

DEPTH, WIDTH, RATE, DT = 4, 12, 0.005, 0.001
CORES = len(os.sched_getaffinity(0))


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def full_covariance_step(net: DeepLinear, weights: list[np.ndarray], random: np.random.Generator) -> list[np.ndarray]:
    """One step with Σ written out and its symmetric root (Σ is singular: no Cholesky)."""
    values, vectors = np.linalg.eigh(net.noise_covariance(weights))
    kick = vectors @ (np.sqrt(np.maximum(values, 0)) * random.standard_normal(len(values)))
    moved, used = [], 0
    for w, slope in zip(weights, net.gradient(weights), strict=True):
        noise = kick[used : used + w.size].reshape(w.shape[::-1]).T
        moved.append(w - DT * slope + np.sqrt(RATE * DT) * noise)
        used += w.size
    return moved


@torch.no_grad()
def torch_loop(start: list[np.ndarray], teacher: np.ndarray, steps: int) -> list[torch.Tensor]:
    """The factored step for all networks at once, with batched products."""
    weights, target = [torch.from_numpy(w.copy()) for w in start], torch.from_numpy(teacher)
    size, scale = weights[0].shape, (RATE * DT / 2) ** 0.5
    for _ in range(steps):
        before, now = [], None
        for w in weights:
            before.append(now)
            now = w if now is None else w @ now
        gap = target - now
        noise = torch.randn(size, dtype=torch.float64)
        kick = DT * gap + scale * (gap @ (noise + noise.mT))
        for layer in reversed(range(DEPTH)):
            w, inner = weights[layer], before[layer]
            weights[layer] = w + (kick if inner is None else kick @ inner.mT)
            if layer:
                kick = w.mT @ kick
    return weights


def compare(networks: int, steps: int, console: Console) -> None:
    """Print seconds per step of every method."""
    net = DeepLinear(DEPTH, WIDTH, learning_rate=RATE)
    start = net.initial_weights(networks)

    def package() -> object:
        return net.simulate(steps * DT, networks, method="langevin", dt=DT, save_points=[steps * DT], progress=False)

    begun = time.perf_counter()
    package()
    compiled = time.perf_counter() - begun
    own = best(package, 5) / steps
    others = {"torch, batched products": best(lambda: torch_loop(start, net.teacher, steps // 10), 3) / (steps // 10)}
    if networks == 1:
        random, single = np.random.default_rng(0), [w[0] for w in start]
        others["full covariance and its root"] = best(lambda: full_covariance_step(net, single, random), 3)
    table = Table(title=f"{networks} networks, one step at depth {DEPTH}, width {WIDTH}", title_justify="left")
    for column in ("what", "µs per step", "beside dynascope"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row("dynascope train, noise and record included", f"{own * 1e6:.1f}", "")
    table.add_row("  compilation, once (s)", f"{compiled:.1f}", "")
    for name, seconds in others.items():
        table.add_row(
            name, f"{seconds * 1e6:.1f}", f"dynascope takes {own / seconds:.2g} ×, {seconds / own:.4g} × faster"
        )
    console.print(table)


def main() -> None:
    """Run all comparisons."""
    console = Console(width=110)
    console.print(f"{CORES} cores, numpy {np.__version__}, torch {torch.__version__}, jax {jax.__version__}\n")
    compare(1, 20_000, console)
    compare(100, 4_000, console)


if __name__ == "__main__":
    main()
