"""Time the locally elastic model beside the obvious alternatives, in one run on one machine.

Mean paths: 500 starts, 10,000 times, three classes. SDE: 3 × 500 samples, 20 trials, 100 saved times out of 10,000
steps. Best of several runs; compilation is timed apart. Compare numbers only within one run.
"""

import time
from collections.abc import Callable

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import torch
import torchsde
from rich.console import Console
from rich.table import Table

from dynascope import LocallyElastic, PowerLaw

STARTS, TIMES, STEPS, SAVES = 500, 10_000, 10_000, 100
SAMPLES, TRIALS, DURATION, NOISE = 500, 20, 50.0, 0.1
MODEL = LocallyElastic(3, 3, PowerLaw(1.0, 0.5), 0.1, "logits", noise=NOISE)
START = np.array([[1.0, 0.2, 0.0], [0.0, 1.4, 0.1], [0.1, 0.0, 0.7]])
DT = DURATION / STEPS


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def euler_loop(start: np.ndarray) -> np.ndarray:
    """One start, one step after another, the drift assembled at each: the published way."""
    path = np.empty((TIMES, 9))
    path[0] = start.ravel()
    dt = DURATION / (TIMES - 1)
    for step in range(1, TIMES):
        path[step] = path[step - 1] + dt * MODEL.drift((step - 1) * dt) @ path[step - 1]
    return path


def euler_together(starts: np.ndarray) -> np.ndarray:
    """All starts at once, the drift from two fixed matrices: what one would write who knows NumPy."""
    dt = DURATION / (TIMES - 1)
    alpha, beta = MODEL.elasticity.intra(dt * np.arange(TIMES)), MODEL.elasticity.inter(dt * np.arange(TIMES))
    own = LocallyElastic(3, 3, 1.0, 0.0, "logits").drift(0.0)
    other = LocallyElastic(3, 3, 0.0, 1.0, "logits").drift(0.0)
    path = np.empty((TIMES, len(starts), 9))
    path[0] = starts.reshape(-1, 9)
    for step in range(1, TIMES):
        path[step] = path[step - 1] + dt * path[step - 1] @ (alpha[step - 1] * own + beta[step - 1] * other).T
    return path


def drift_table() -> np.ndarray:
    return np.stack([MODEL.drift(step * DT) for step in range(STEPS + 1)])


def numpy_sde(table: np.ndarray) -> np.ndarray:
    """All samples by Euler-Maruyama in NumPy, class means recomputed at each step."""
    random = np.random.default_rng(0)
    points = np.broadcast_to(START[None, :, None], (TRIALS, 3, SAMPLES, 3)).copy()
    for step in range(STEPS):
        mean = points.mean(axis=2).reshape(TRIALS, 9)
        points += DT * (mean @ table[step].T).reshape(TRIALS, 3, 1, 3)
        points += NOISE * np.sqrt(DT) * random.standard_normal(points.shape)
    return points


class TorchModel(torch.nn.Module):
    """The class means alone, for torchsde: samples would only be slower."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, table: np.ndarray):
        super().__init__()
        self.table = torch.from_numpy(table)

    def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return y @ self.table[round(float(t) / DT)].T

    def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return torch.full_like(y, NOISE / SAMPLES**0.5)


def torchsde_means(table: np.ndarray) -> torch.Tensor:
    start = torch.from_numpy(START.reshape(1, 9)).repeat(TRIALS, 1)
    grid = torch.linspace(0.0, DURATION, SAVES, dtype=torch.float64)
    return torchsde.sdeint(TorchModel(table), start, grid, dt=DT, method="euler")


def diffrax_means(table: jax.Array) -> Callable[[], object]:
    """Class means through diffrax's fast path: no Brownian tree, no adjoint."""

    def one(key: jax.Array) -> jax.Array:
        path = diffrax.UnsafeBrownianPath((9,), key)
        drift = diffrax.ODETerm(lambda t, y, args: table[jnp.rint(t / DT).astype(int)] @ y)
        kick = diffrax.ControlTerm(lambda t, y, args: NOISE / SAMPLES**0.5 * jnp.eye(9), path)
        solved = diffrax.diffeqsolve(
            diffrax.MultiTerm(drift, kick),
            diffrax.Euler(),
            0.0,
            DURATION,
            DT,
            jnp.asarray(START.ravel()),
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, DURATION, SAVES)),
            adjoint=diffrax.DirectAdjoint(),
            max_steps=STEPS + 1,
        )
        return solved.ys

    compiled = jax.jit(jax.vmap(one))
    return lambda: compiled(jax.random.split(jax.random.key(0), TRIALS)).block_until_ready()


def main() -> None:
    """Print both tables."""
    console = Console()
    starts = START + 0.1 * np.random.default_rng(0).normal(size=(STARTS, 3, 3))
    times = np.linspace(0.0, DURATION, TIMES)
    exact = best(lambda: MODEL.mean_path(times, starts), 3)
    single = best(lambda: euler_loop(starts[0]), 1)
    copied = np.empty((STARTS, TIMES, 3, 3))
    limit = best(lambda: copied.fill(0.0), 3)
    table = Table("mean path, 500 starts × 10,000 times", "seconds", "× dynascope", box=None)
    table.add_row("dynascope, closed form", f"{exact:.3f}", "1")
    table.add_row(
        "Euler loop (one start measured, times 500)", f"{single * STARTS:.0f}", f"{single * STARTS / exact:.0f}"
    )
    together = best(lambda: euler_together(starts), 1)
    table.add_row("Euler, all starts at once in NumPy", f"{together:.2f}", f"{together / exact:.1f}")
    table.add_row("limit: writing the 45 million numbers once", f"{limit:.3f}", f"{limit / exact:.2f}")
    console.print(table)

    options = {"samples": SAMPLES, "trials": TRIALS, "save_points": SAVES, "start": START}
    contenders: dict[str, tuple[Callable[[], object], int]] = {
        "dynascope, exact transitions": (lambda: MODEL.simulate(DURATION, DT, **options), 3),
        "dynascope, Heun steps for the class means": (
            lambda: MODEL.simulate(DURATION, DT, method="heun", **options),
            3,
        ),
    }
    matrices = drift_table()
    with jax.enable_x64(True):
        fast = diffrax_means(jnp.asarray(matrices))
        begun = time.perf_counter()
        fast()
        console.print(f"(diffrax compiles in {time.perf_counter() - begun:.1f} s)")
        contenders["diffrax, class means only"] = (fast, 3)
        contenders["torchsde, class means only"] = (lambda: torchsde_means(matrices), 1)
        contenders["NumPy, all samples stepped"] = (lambda: numpy_sde(matrices), 1)
        table = Table("SDE, 3 × 500 samples × 20 trials, 100 of 10,000 steps saved", "seconds", "× dynascope", box=None)
        first = None
        for name, (work, repeats) in contenders.items():
            if name.startswith("dynascope"):
                begun = time.perf_counter()
                work()
                console.print(f"({name}: first call {time.perf_counter() - begun:.2f} s)")
            seconds = best(work, repeats)
            first = first or seconds
            table.add_row(name, f"{seconds:.3f}", f"{seconds / first:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
