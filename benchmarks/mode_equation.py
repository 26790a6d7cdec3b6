"""Time the one-mode equation beside torchsde, diffrax and a hand-written torch loop, in one run on one machine.

Every contender takes the same number of Euler-Maruyama steps of (4) on w in float64 and ends with the last amplitude;
the package also checks and labels. Best of several runs; compilation is timed apart. Compare numbers only within one
run.
"""

import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from dynascope import ModeEquation

STEPS, DT, DEPTH, BETA, SIGMA, START = 5_000, 0.002, 4, 0.005, 0.3, 0.05
CORES = len(os.sched_getaffinity(0))
PEERS = {"torchsde": importlib.util.find_spec("torchsde") is not None}


def drift(w: Any) -> Any:
    """Gradient and derived Itô drift at s = 1; plain arithmetic that NumPy, torch and JAX share."""
    power = 2 * (1 - w) ** 2 + SIGMA**2
    ito = BETA * DEPTH * (DEPTH - 1) / 2 * power * w ** (3 - 4 / DEPTH)
    return DEPTH * (1 - w) * w ** (2 - 2 / DEPTH) + ito


def noise(w: Any) -> Any:
    """√D."""
    return (BETA * DEPTH**2 * (2 * (1 - w) ** 2 + SIGMA**2)) ** 0.5 * w ** (2 - 2 / DEPTH)


def torch_loop(paths: int) -> torch.Tensor:
    """The equation as one would step it by hand."""
    w = torch.full((paths,), START, dtype=torch.float64)
    for _ in range(STEPS):
        w = w + drift(w) * DT + noise(w) * DT**0.5 * torch.randn(paths, dtype=torch.float64)
    return w


def with_torchsde(paths: int) -> torch.Tensor:
    """Torchsde's Euler scheme with its default Brownian motion."""
    import torchsde  # noqa: PLC0415 (optional)

    class Mode(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t: Any, y: torch.Tensor) -> torch.Tensor:
            return drift(y)

        def g(self, t: Any, y: torch.Tensor) -> torch.Tensor:
            return noise(y)

    begin = torch.full((paths, 1), START, dtype=torch.float64)
    times = torch.tensor([0.0, STEPS * DT], dtype=torch.float64)
    with torch.no_grad():
        return torchsde.sdeint(Mode(), begin, times, method="euler", dt=DT)[-1]


def with_diffrax(paths: int) -> Callable[[], object]:
    """Diffrax's Euler scheme and Brownian tree, everything else at its default, compiled and batched by vmap."""

    @jax.jit
    def solve(keys: Any) -> Any:
        def one(key: Any) -> Any:
            tree = diffrax.VirtualBrownianTree(0.0, STEPS * DT, tol=DT / 2, shape=(), key=key)
            terms = diffrax.MultiTerm(
                diffrax.ODETerm(lambda t, w, _: drift(w)), diffrax.ControlTerm(lambda t, w, _: noise(w), tree)
            )
            start = jnp.asarray(START)
            return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, STEPS * DT, DT, start, max_steps=STEPS + 10).ys

        return jax.vmap(one)(keys)

    keys = jax.random.split(jax.random.key(0), paths)
    return lambda: solve(keys).block_until_ready()


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def contenders(paths: int) -> dict[str, Callable[[], object]]:
    """Name and work of everything that is timed."""
    mode = ModeEquation(depth=DEPTH, temperature=BETA, label_noise=SIGMA)
    options: dict[str, Any] = {"duration": STEPS * DT, "dt": DT, "trials": paths, "start": START, "save_points": 2}
    listed: dict[str, Callable[[], object]] = {
        "dynascope, euler": lambda: mode.simulate(scheme="euler", **options),
        "dynascope, weak order 2": lambda: mode.simulate(**options),
        "torch loop": lambda: torch_loop(paths),
        "diffrax": with_diffrax(paths),
    }
    if PEERS["torchsde"]:
        listed["torchsde"] = lambda: with_torchsde(paths)
    return listed


def compare(paths: int, console: Console) -> None:
    """Print one table: every contender beside the package's own Euler scheme."""
    table = Table("what", "seconds", "first call", "times dynascope", title=f"{paths} paths × {STEPS} steps")
    own = None
    for name, work in contenders(paths).items():
        begun = time.perf_counter()
        work()
        first = time.perf_counter() - begun
        seconds = best(work, 5 if first < 1 else 2)
        own = own or seconds
        table.add_row(name, f"{seconds:.4f}", f"{first:.2f}", f"{seconds / own:.1f}")
    console.print(table)


def main() -> None:
    """Run all comparisons."""
    console = Console(width=100)
    console.print(f"{CORES} cores, torch {torch.__version__}, jax {jax.__version__}, diffrax {diffrax.__version__}")
    if not PEERS["torchsde"]:
        console.print("torchsde is not installed and left out: pip install torchsde, then run again")
    with jax.enable_x64(True):
        for paths in (1, 1000):
            compare(paths, console)
    last = torch_loop(2000).numpy()
    law = ModeEquation(depth=DEPTH, temperature=BETA, label_noise=SIGMA).stationary_moments()
    gap = abs(last.mean() - law.mean) / (np.sqrt(law.variance) / np.sqrt(len(last)))
    console.print(f"the contenders' equation ends {gap:.1f} standard errors from dynascope's stationary mean")


if __name__ == "__main__":
    main()
