"""Time the overdamped chain beside the obvious alternatives, in one run on one machine.

Every contender simulates 10,000 steps of chains of 7 blocks and ends with the last positions; the package also
labels them. Best of several runs; compilation is timed apart. Compare numbers only within one run.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from dynascope import SpringBlock, grid
from dynascope.models.noise import normals

STEPS, BLOCKS, DT = 10_000, 7, 0.01
RIGHT, LEFT, NOISE, TARGET = 0.1, 0.2, 0.01, 1.0
CORES = len(os.sched_getaffinity(0))


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def numpy_loop(chains: int, dtype: str) -> np.ndarray:
    """The chain as one would write it in NumPy, vectorised over chains."""
    random = np.random.default_rng(0)
    scale = np.asarray(NOISE / np.sqrt(DT), dtype)
    x = np.zeros((BLOCKS + 2, chains), dtype)
    x[-1] = TARGET
    right, left, dt = (np.asarray(v, dtype) for v in (RIGHT, LEFT, DT))
    for _ in range(STEPS):
        force = x[2:] - 2 * x[1:-1] + x[:-2] + scale * random.standard_normal((BLOCKS, chains), dtype)
        x[1:-1] += dt * (np.maximum(force - right, 0) + np.minimum(force + left, 0))
    return x


def torch_loop(chains: int, dtype: str) -> torch.Tensor:
    """The same in PyTorch."""
    kind = getattr(torch, dtype)
    scale = NOISE / DT**0.5
    x = torch.zeros((BLOCKS + 2, chains), dtype=kind)
    x[-1] = TARGET
    for _ in range(STEPS):
        force = x[2:] - 2 * x[1:-1] + x[:-2] + scale * torch.randn((BLOCKS, chains), dtype=kind)
        x[1:-1] += DT * (torch.clamp(force - RIGHT, min=0) + torch.clamp(force + LEFT, max=0))
    return x


def draws(chains: int, dtype: str) -> dict[str, Callable[[], object]]:
    """Ways to draw as many normals as the chains need, in pieces that stay in the cache."""
    total = STEPS * BLOCKS * chains
    piece = min(total, 70_000)
    rounds = total // piece
    generators = [np.random.Generator(np.random.SFC64(seed)) for seed in range(CORES)]
    buffers = [np.empty(piece, dtype) for _ in range(CORES)]
    tensors = [torch.empty(piece, dtype=getattr(torch, dtype)) for _ in range(CORES)]
    sources = [torch.Generator().manual_seed(seed) for seed in range(CORES)]

    def numpy_part(worker: int, share: int) -> None:
        for _ in range(share):
            generators[worker].standard_normal(dtype=dtype, out=buffers[worker])

    def torch_part(worker: int, share: int) -> None:
        for _ in range(share):
            tensors[worker].normal_(generator=sources[worker])

    def threaded(part: Callable[[int, int], None]) -> None:
        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(part, range(CORES), [rounds // CORES] * CORES))

    def with_jax() -> None:
        key = jax.random.key(0)
        with jax.enable_x64(True):
            for index in range(rounds // 5 or 1):
                last = _jax_normals(jax.random.fold_in(key, index), min(total, 5 * piece), dtype)
            last.block_until_ready()

    def with_ours() -> None:
        lanes = -(-chains // 16) * 16
        length = max(2**18 // (BLOCKS * lanes), 1)
        with jax.enable_x64(True):
            for first in range(0, STEPS, length):
                last = normals(0, first, steps=length, elements=BLOCKS, trials=lanes, dtype=dtype)
            last.block_until_ready()

    listed = {
        "numpy SFC64": lambda: numpy_part(0, rounds),
        "torch": lambda: torch_part(0, rounds),
        "jax.random.normal": with_jax,
        "dynascope": with_ours,
    }
    if rounds >= CORES > 1:
        listed[f"numpy SFC64, {CORES} threads"] = lambda: threaded(numpy_part)
        listed[f"torch, {CORES} threads"] = lambda: threaded(torch_part)
    return listed


_jax_normals = jax.jit(
    lambda key, count, dtype: jax.random.normal(key, (count,), dtype), static_argnums=(1, 2)
)  # one compiled draw


def compare(chains: int, dtype: str, console: Console) -> None:
    """Print one table: the package, NumPy, torch and the bare draws."""
    chain = SpringBlock(friction_right=RIGHT, friction_left=LEFT, noise=NOISE, target=TARGET)

    def package() -> object:
        return chain.simulate(STEPS * DT, DT, chains, save_points=2, precision=dtype)

    begun = time.perf_counter()
    package()
    first = time.perf_counter() - begun
    repeats = 3 if chains > 1 else 7
    own = best(package, repeats)
    bare = {}
    for name, draw in draws(chains, dtype).items():
        draw()
        bare[name] = best(draw, repeats)
    others = {
        "numpy loop": best(lambda: numpy_loop(chains, dtype), 3),
        "torch loop": best(lambda: torch_loop(chains, dtype), 2),
    }
    table = Table(title=f"{chains} chains × {STEPS} steps × {BLOCKS} blocks, {dtype}", title_justify="left")
    for column in ("what", "seconds", "beside dynascope"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row("dynascope simulate", f"{own:.4f}", "")
    table.add_row("  compilation, once", f"{max(first - own, 0):.2f}", "")
    for name, seconds in {**others, **{f"bare draws: {name}": value for name, value in bare.items()}}.items():
        table.add_row(name, f"{seconds:.4f}", f"dynascope takes {own / seconds:.2f} ×")
    console.print(table)
    fastest = min(bare, key=lambda name: bare[name])
    console.print(
        f"{chains} chains, {dtype}: {others['numpy loop'] / own:.1f} × faster than NumPy, "
        f"{own / bare[fastest]:.2f} × the fastest bare draws ({fastest})\n"
    )


def compare_grids(console: Console) -> None:
    """A phase diagram of 6 × 8 points × 50 trials beside 2400 chains and 48 separate runs."""
    axes = {"friction_right": np.linspace(0.0, 0.15, 6), "noise": np.linspace(0.0, 0.014, 8)}
    diagram = SpringBlock(**grid(**axes))
    single = [SpringBlock(friction_right=r, noise=e) for r in axes["friction_right"] for e in axes["noise"]]
    options = {"duration": STEPS * DT, "dt": DT, "save_points": 2}
    jobs = {
        "phase diagram 6 × 8 × 50 trials, one call": lambda: diagram.simulate(trials=50, **options),
        "2400 trials of one chain": lambda: SpringBlock().simulate(trials=2400, **options),
        "48 separate runs of 50 trials": lambda: [chain.simulate(trials=50, **options) for chain in single],
    }
    table = Table("what", "seconds", title="phase diagram, float64", title_justify="left")
    for name, job in jobs.items():
        job()
        table.add_row(name, f"{best(job, 2):.3f}")
    console.print(table)


def main() -> None:
    """Run all comparisons."""
    console = Console(width=110)
    console.print(f"{CORES} cores, numpy {np.__version__}, torch {torch.__version__}, jax {jax.__version__}\n")
    for dtype in ("float64", "float32"):
        for chains in (1, 1000):
            compare(chains, dtype, console)
    compare_grids(console)


if __name__ == "__main__":
    main()
